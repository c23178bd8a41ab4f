//! The commands about webhook endpoints.

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, Subcommand, value_parser};
use domain::{
    api_key::ClientId,
    order::Violation,
    ports::{Cursor, DeliveryPageQuery},
    webhook::{
        AttemptOutcome, Endpoint, EndpointId, EndpointOwner, WebhookDelivery, WebhookDeliveryId,
        endpoint_request::{EndpointChange, EndpointRequest},
        manage_webhooks::{ManageWebhooks, ReplayRange, WebhooksError},
    },
};
use serde_json::{Map, Value, json};
use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

use super::output::{print, second, table};

/// Maximum number of listed deliveries.
const MAX_LISTED: usize = 1_000;

#[derive(Debug, Subcommand)]
pub enum WebhooksCommand {
    /// List webhook endpoints
    List {
        /// List those of the client of this identifier only
        #[arg(long, value_name = "ID")]
        client: Option<i64>,
    },
    /// Create an endpoint. Prints only its secret to standard output, and only this once
    Create {
        /// The client that owns the endpoint, as keys list shows it
        #[arg(long, value_name = "ID", value_parser = value_parser!(i64).range(1..))]
        client: i64,
        /// Create it for the test keys of the client: it gets the events of test orders
        #[arg(long)]
        test: bool,
        /// Where to send events
        #[arg(long)]
        url: String,
        #[command(flatten)]
        details: Details,
    },
    /// Change an endpoint
    Change {
        /// Its identifier, as listed
        id: i64,
        /// Where to send events
        #[arg(long)]
        url: Option<String>,
        #[command(flatten)]
        details: Details,
    },
    /// Enable an endpoint that was disabled. The deliveries that waited are sent
    Enable {
        /// Its identifier, as listed
        id: i64,
    },
    /// Disable an endpoint. Its deliveries wait
    Disable {
        /// Its identifier, as listed
        id: i64,
    },
    /// Delete an endpoint and its deliveries
    Delete {
        /// Its identifier, as listed
        id: i64,
    },
    /// Give an endpoint a new secret, and print it. The old one signs along for a day
    RotateSecret {
        /// Its identifier, as listed
        id: i64,
    },
    /// Send a test event to an endpoint
    Test {
        /// Its identifier, as listed
        id: i64,
    },
    /// List the deliveries of an endpoint in the last 30 days, newest first
    Deliveries {
        /// Its identifier, as listed
        id: i64,
    },
    /// Send deliveries of an endpoint again that were delivered or failed
    Replay {
        /// Its identifier, as listed
        id: i64,
        /// Send only this delivery again, as webhooks deliveries lists it
        #[arg(long, value_name = "ID", conflicts_with_all = ["since", "until"])]
        delivery: Option<i64>,
        /// Send the events from this instant on again, such as 2026-12-01T08:00:00Z
        #[arg(
            long,
            value_name = "INSTANT",
            value_parser = instant,
            required_unless_present = "delivery"
        )]
        since: Option<OffsetDateTime>,
        /// Send only events before this instant again
        #[arg(long, value_name = "INSTANT", value_parser = instant)]
        until: Option<OffsetDateTime>,
    },
}

#[derive(Debug, Args)]
#[expect(clippy::doc_markdown, reason = "the comments on arguments are the help text")]
pub struct Details {
    /// An event that the endpoint gets: order.created or order.documents_added. Repeat it for
    /// several. A new endpoint gets all of them by default
    #[arg(long = "event", value_name = "EVENT")]
    events: Vec<String>,
    /// What to note about the endpoint
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

impl Details {
    fn into_body(self, url: Option<String>) -> Map<String, Value> {
        let mut body = Map::new();
        body.extend(url.map(|url| ("url".to_owned(), json!(url))));
        if !self.events.is_empty() {
            body.insert("events".to_owned(), json!(self.events));
        }
        body.extend(self.description.map(|text| ("description".to_owned(), json!(text))));
        body
    }
}

fn instant(text: &str) -> Result<OffsetDateTime, time::error::Parse> {
    Ok(OffsetDateTime::parse(text, &Rfc3339)?.to_offset(UtcOffset::UTC))
}

pub(super) async fn run(command: WebhooksCommand, webhooks: &ManageWebhooks) -> Result<()> {
    let owner = async |id: i64| -> Result<(EndpointOwner, EndpointId)> {
        let all = webhooks.endpoints.all().await?;
        let found = all.into_iter().find(|endpoint| endpoint.id.0 == id);
        let endpoint = found.with_context(|| format!("there is no webhook endpoint {id}"))?;
        Ok((endpoint.owner, endpoint.id))
    };
    match command {
        WebhooksCommand::List { client } => {
            let mut all = webhooks.endpoints.all().await?;
            all.retain(|one| client.is_none_or(|client| one.owner.client.0 == client));
            print(&endpoints(&all))
        }
        WebhooksCommand::Create { client, test, url, details } => {
            let owner = EndpointOwner { client: ClientId(client), is_test: test };
            let request = EndpointRequest::parse(&details.into_body(Some(url)))
                .map_err(|faults| violations(&faults))?;
            let (endpoint, secret) = webhooks.create(owner, request).await.map_err(explained)?;
            eprintln!("webhook endpoint {}; this is its secret:", endpoint.id.0);
            print(&format!("{}\n", secret.to_text()))
        }
        WebhooksCommand::Change { id, url, details } => {
            let change = EndpointChange::parse(&details.into_body(url))
                .map_err(|faults| violations(&faults))?;
            change_endpoint(webhooks, owner(id).await?, change).await
        }
        WebhooksCommand::Enable { id } => enable(webhooks, owner(id).await?, true).await,
        WebhooksCommand::Disable { id } => enable(webhooks, owner(id).await?, false).await,
        WebhooksCommand::Delete { id } => {
            let (owner, id) = owner(id).await?;
            webhooks.delete(owner, id).await.map_err(explained)?;
            print(&format!("webhook endpoint {} is deleted\n", id.0))
        }
        WebhooksCommand::RotateSecret { id } => {
            let (owner, id) = owner(id).await?;
            let secret = webhooks.rotate_secret(owner, id).await.map_err(explained)?;
            print(&format!("{}\n", secret.to_text()))
        }
        WebhooksCommand::Test { id } => {
            let (owner, id) = owner(id).await?;
            let delivery = webhooks.test(owner, id).await.map_err(explained)?;
            print(&format!("the test is delivery {}\n", delivery.0))
        }
        WebhooksCommand::Deliveries { id } => {
            let (owner, id) = owner(id).await?;
            let query = DeliveryPageQuery { limit: MAX_LISTED, cursor: Cursor::Newest };
            let (_, page) = webhooks.deliveries(owner, id, &query).await.map_err(explained)?;
            if page.has_older {
                eprintln!("only the newest {MAX_LISTED} are listed");
            }
            print(&deliveries(&page.items))
        }
        WebhooksCommand::Replay { id, delivery, since, until } => {
            let (owner, id) = owner(id).await?;
            if let Some(delivery) = delivery.map(WebhookDeliveryId) {
                webhooks.replay_delivery(owner, id, delivery).await.map_err(explained)?;
            } else if let Some(since) = since {
                let range = ReplayRange { since, until };
                webhooks.replay(owner, id, range).await.map_err(explained)?;
            }
            print("the deliveries are due now\n")
        }
    }
}

async fn enable(
    webhooks: &ManageWebhooks,
    of: (EndpointOwner, EndpointId),
    is_enabled: bool,
) -> Result<()> {
    let change = EndpointChange { is_enabled: Some(is_enabled), ..EndpointChange::default() };
    change_endpoint(webhooks, of, change).await
}

async fn change_endpoint(
    webhooks: &ManageWebhooks,
    (owner, id): (EndpointOwner, EndpointId),
    change: EndpointChange,
) -> Result<()> {
    let endpoint = webhooks.change(owner, id, change).await.map_err(explained)?;
    print(&endpoints(&[endpoint]))
}

fn violations(violations: &[Violation]) -> anyhow::Error {
    let lines = violations.iter().map(|fault| format!("{} {}", fault.pointer, fault.detail));
    anyhow!("{}", lines.collect::<Vec<_>>().join("; "))
}

fn explained(error: WebhooksError) -> anyhow::Error {
    match error {
        WebhooksError::Invalid(faults) => violations(&faults),
        error => error.into(),
    }
}

fn endpoints(endpoints: &[Endpoint]) -> String {
    let row = |endpoint: &Endpoint| {
        let status = match (endpoint.disabled, endpoint.failing_since) {
            (Some((_, by)), _) => format!("disabled ({})", by.as_str()),
            (None, Some(since)) => format!("failing {}", second(since)),
            (None, None) => "enabled".to_owned(),
        };
        let events: Vec<_> = endpoint.events.iter().map(|event| event.as_str()).collect();
        [
            endpoint.id.0.to_string(),
            endpoint.owner.client.0.to_string(),
            if endpoint.owner.is_test { "test" } else { "live" }.to_owned(),
            second(endpoint.created_at),
            status,
            events.join(","),
            endpoint.url.escape_debug().to_string(),
        ]
    };
    let head = ["ID", "CLIENT", "MODE", "CREATED", "STATUS", "EVENTS", "URL"];
    table(head, endpoints.iter().map(row))
}

fn deliveries(deliveries: &[WebhookDelivery]) -> String {
    let row = |delivery: &WebhookDelivery| {
        [
            delivery.id.0.to_string(),
            delivery.order_id.map_or_else(|| "-".to_owned(), |id| id.0.to_string()),
            delivery.event.as_str().to_owned(),
            second(delivery.created_at),
            delivery.status.as_str().to_owned(),
            delivery.attempts.len().to_string(),
            last_attempt(delivery),
        ]
    };
    let head = ["ID", "ORDER", "EVENT", "CREATED", "STATUS", "ATTEMPTS", "LAST ATTEMPT"];
    table(head, deliveries.iter().map(row))
}

/// Returns the outcome of the last attempt.
pub(super) fn last_attempt(delivery: &WebhookDelivery) -> String {
    match delivery.attempts.last().map(|attempt| &attempt.outcome) {
        Some(AttemptOutcome::Status(status)) => format!("status {status}"),
        Some(AttemptOutcome::Error(error)) => error.escape_debug().to_string(),
        None => String::new(),
    }
}
