//! The commands about webhook endpoints.

use std::io::{self, IsTerminal as _};

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::{Args, Subcommand};
use domain::{
    api_key::{ClientId, Owner, Party},
    order::SigningServiceId,
    ports::{Cursor, DeliveryPageQuery},
    request::Violation,
    use_cases::webhooks::{
        manage_webhooks::{ManageWebhooks, WebhooksError},
        reencrypt_secrets::reencrypt,
    },
    webhook::{
        AttemptOutcome, Endpoint, EndpointId, WebhookDelivery, WebhookDeliveryId,
        endpoint_request::EndpointChangeBody,
    },
};
use serde_json::{Value, json};
use time::OffsetDateTime;

use self::{details::Details, listen::Listen};
use super::output::{Column, Format, at, instant, mode, print, second};
use crate::{
    adapters::{Storage, webhook_sender},
    progress::counted,
    secrets_key::ADVICE,
    settings::{
        Settings, WrongSetting,
        values::{listed, whole},
    },
    system::Machine,
};

mod details;
mod listen;

/// Maximum length of a URL in a table on a terminal, in characters.
const MAX_SHOWN_URL: usize = 40;

/// Maximum number of deliveries in a table.
const MAX_LISTED: usize = 1_000;

#[derive(Debug, Subcommand)]
pub enum WebhooksCommand {
    /// List webhook endpoints
    List {
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        format: Format,
    },
    /// Create an endpoint. Prints only its secret to standard output, and only this once
    Create {
        #[command(flatten)]
        of: Owning,
        /// Create it for test keys: it gets the events of test orders
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
        #[arg(value_parser = listed)]
        id: i64,
        /// Where to send events
        #[arg(long)]
        url: Option<String>,
        #[command(flatten)]
        details: Details,
    },
    /// Enable an endpoint that was disabled. The deliveries that waited are sent
    Enable(Listed),
    /// Disable an endpoint. Its deliveries wait
    Disable(Listed),
    /// Delete an endpoint and its deliveries
    Delete(Listed),
    /// Give an endpoint a new secret, and print it. The old one signs along for a day
    RotateSecret(Listed),
    /// Encrypt all secrets with the first key of --secrets-key. May run beside the service, and again
    Reencrypt,
    /// Send a test event to an endpoint
    Test(Listed),
    /// List the deliveries of an endpoint in the last 30 days, newest first
    Deliveries {
        /// Its identifier, as listed
        #[arg(value_parser = listed)]
        id: i64,
        #[command(flatten)]
        format: Format,
    },
    /// Send deliveries of an endpoint again that were delivered or failed
    Replay {
        /// Its identifier, as listed
        #[arg(value_parser = listed)]
        id: i64,
        /// Send only this delivery again, as webhooks deliveries lists it
        #[arg(
            long,
            value_name = "ID",
            value_parser = listed,
            conflicts_with_all = ["since", "until"]
        )]
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
    /// Receive events on this machine, verify them and print them as JSON, until Ctrl-C. For trying
    /// out: the service must run with --webhook-allow 127.0.0.1
    Listen(Listen),
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct Of {
    /// List those of the client of this identifier only
    #[arg(long, value_name = "ID", value_parser = listed)]
    client: Option<i64>,
    /// List those of the signing service of this number only
    #[arg(long, value_name = "ID", value_parser = listed)]
    service: Option<i64>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Owning {
    /// The client that owns the endpoint, as keys list shows it
    #[arg(long, value_name = "ID", value_parser = whole::<i64>(1..=i64::MAX))]
    client: Option<i64>,
    /// The signing service that owns the endpoint
    #[arg(long, value_name = "ID", value_parser = whole::<i64>(1..=i64::MAX))]
    service: Option<i64>,
}

/// Returns the party that a command names by one of two options.
fn party(client: Option<i64>, service: Option<i64>) -> Option<Party> {
    let client = client.map(|client| Party::Client(ClientId(client)));
    client.or_else(|| service.map(|service| Party::Service(SigningServiceId(service))))
}

#[derive(Debug, Args)]
pub struct Listed {
    /// Its identifier, as listed
    #[arg(value_parser = listed)]
    id: i64,
}

pub(super) async fn run(
    command: WebhooksCommand,
    mut settings: Settings,
    machine: &Machine,
) -> Result<()> {
    let storage = Storage::open(&settings).await?;
    if let WebhooksCommand::Listen(_) = command {
        // Its settings may be others than those of the service. A test event shows what the service
        // may do.
        settings.webhook_allow.push(listen::network());
    }
    let webhooks = storage.manage_webhooks(&settings, machine, webhook_sender(&settings)?)?;
    execute(command, &webhooks, &storage).await.map_err(|error| match error.downcast() {
        Ok(WebhooksError::Invalid(faults)) => violations(&faults),
        Ok(error) => error.into(),
        Err(error) => error,
    })
}

async fn execute(
    command: WebhooksCommand,
    webhooks: &ManageWebhooks,
    storage: &Storage,
) -> Result<()> {
    use WebhooksCommand as Command;
    let enable = async |id, is_enabled| {
        let status = if is_enabled { "enabled" } else { "disabled" };
        change(webhooks, id, serde_json::from_value(json!({ "status": status }))?).await
    };
    match command {
        Command::List { of: Of { client, service }, format } => {
            let mut all = webhooks.endpoints.all().await?;
            let party = party(client, service);
            all.retain(|one| party.is_none_or(|party| one.owner.party == party));
            list(&all, format)
        }
        Command::Create { of: Owning { client, service }, test, url, details } => {
            let party = party(client, service).context("--client or --service is missing")?;
            ensure_known(storage, party).await?;
            let owner = Owner { party, is_test: test };
            let body = details.body(Some(&url))?;
            let (endpoint, secret) = webhooks.create(owner, None, &body).await?;
            eprintln!("webhook endpoint {}; this is its secret:", endpoint.id.0);
            print(&format!("{}\n", secret.to_text()))
        }
        Command::Change { id, url, details } => {
            change(webhooks, id, details.body(url.as_deref())?).await
        }
        Command::Enable(Listed { id }) => enable(id, true).await,
        Command::Disable(Listed { id }) => enable(id, false).await,
        Command::Delete(Listed { id }) => {
            webhooks.delete(owner(webhooks, id).await?, EndpointId(id)).await?;
            print(&format!("webhook endpoint {id} is deleted\n"))
        }
        Command::RotateSecret(Listed { id }) => {
            let secret = webhooks.rotate_secret(owner(webhooks, id).await?, EndpointId(id)).await?;
            print(&format!("{}\n", secret.to_text()))
        }
        Command::Reencrypt => {
            let secrets = webhooks.secrets.as_deref().ok_or(WebhooksError::NotConfigured)?;
            let done = reencrypt(&*webhooks.endpoints, secrets, webhooks.clock.now()).await?;
            print(&format!("{} encrypted with the first key\n", counted(&done.secrets, "secret")))?;
            let unreadable: Vec<_> = done.unreadable.iter().map(|id| id.0.to_string()).collect();
            ensure!(
                unreadable.is_empty(),
                "no key decrypts the secrets of these endpoints: {}. {ADVICE}",
                unreadable.join(", ")
            );
            Ok(())
        }
        Command::Test(Listed { id }) => {
            let delivery = webhooks.test(owner(webhooks, id).await?, EndpointId(id)).await?;
            print(&format!("the test is delivery {}\n", delivery.0))
        }
        Command::Deliveries { id, format } => {
            let query =
                DeliveryPageQuery { limit: format.limit(MAX_LISTED), cursor: Cursor::Newest };
            let owner = owner(webhooks, id).await?;
            let (_, page) = webhooks.deliveries(owner, EndpointId(id), &query).await?;
            if page.has_older {
                eprintln!("only the newest {MAX_LISTED} are listed; --json lists all");
            }
            list_deliveries(&page.items, format)
        }
        Command::Replay { id, delivery, since, until } => {
            let (owner, id) = (owner(webhooks, id).await?, EndpointId(id));
            if let Some(delivery) = delivery.map(WebhookDeliveryId) {
                webhooks.replay_delivery(owner, id, delivery).await?;
            } else if let Some(since) = since {
                webhooks.replay(owner, id, since, until).await?;
            }
            print("the deliveries are due now\n")
        }
        Command::Listen(listen) => {
            let party = party(listen.client, listen.service);
            listen::run(listen, party, webhooks, &*storage.keys).await
        }
    }
}

/// Refuses a client that does not exist. Orders may name a signing service without a record.
async fn ensure_known(storage: &Storage, party: Party) -> Result<()> {
    let Party::Client(client) = party else { return Ok(()) };
    let is_known = storage.keys.first_of(client).await?.is_some();
    ensure!(is_known, "there is no client {}; `clients list` shows all", client.0);
    Ok(())
}

/// Returns the owner of an endpoint.
async fn owner(webhooks: &ManageWebhooks, id: i64) -> Result<Owner> {
    let all = webhooks.endpoints.all().await?;
    let found = all.into_iter().find(|endpoint| endpoint.id.0 == id);
    Ok(found.with_context(|| format!("there is no webhook endpoint {id}"))?.owner)
}

async fn change(webhooks: &ManageWebhooks, id: i64, body: EndpointChangeBody) -> Result<()> {
    let changed = webhooks.change(owner(webhooks, id).await?, EndpointId(id), &body).await?;
    list(&[changed], Format::TABLE)
}

fn violations(violations: &[Violation]) -> anyhow::Error {
    let lines = violations.iter().map(|fault| format!("{} {}", fault.pointer, fault.detail));
    WrongSetting(anyhow!(lines.collect::<Vec<_>>().join("; "))).into()
}

fn list(endpoints: &[Endpoint], format: Format) -> Result<()> {
    let status = |endpoint: &Endpoint| match (endpoint.disabled, endpoint.failing_since) {
        (Some((_, by)), _) => format!("disabled ({})", by.as_str()),
        (None, Some(since)) => format!("failing {}", second(since)),
        (None, None) => "enabled".to_owned(),
    };
    let client = |endpoint: &Endpoint| match endpoint.owner.party {
        Party::Client(client) => json!(client.0),
        Party::Service(_) => Value::Null,
    };
    let service = |endpoint: &Endpoint| match endpoint.owner.party {
        Party::Client(_) => Value::Null,
        Party::Service(service) => json!(service.0),
    };
    let columns: [Column<'_, Endpoint>; 8] = [
        ("ID", "", &|endpoint| json!(endpoint.id.0)),
        ("CLIENT", "-", &client),
        ("SERVICE", "-", &service),
        ("MODE", "", &|endpoint| mode(endpoint.owner.is_test)),
        ("CREATED", "", &|endpoint| at(endpoint.created_at)),
        ("STATUS", "", &|endpoint| json!(status(endpoint))),
        ("EVENTS", "", &|endpoint| endpoint.events.iter().map(|event| event.as_str()).collect()),
        ("URL", "", &|endpoint| json!(endpoint.url)),
    ];
    // Within 100 columns of a terminal, if the URL is not long.
    let of_terminal: [Column<'_, Endpoint>; 7] = [
        ("ID", "", &|endpoint| json!(endpoint.id.0)),
        ("CLIENT", "-", &client),
        ("SERVICE", "-", &service),
        ("MODE", "", &|endpoint| mode(endpoint.owner.is_test)),
        ("STATUS", "", &|endpoint| json!(status(endpoint))),
        ("EVENTS", "", &|endpoint| json!(endpoint.events.len())),
        ("URL", "", &|endpoint| json!(endpoint.url)),
    ];
    let shortened = [("URL", MAX_SHOWN_URL)];
    let of_table = if io::stdout().is_terminal() { &of_terminal[..] } else { &columns[..] };
    format.print_both(of_table, &shortened, &columns, endpoints)
}

fn list_deliveries(deliveries: &[WebhookDelivery], format: Format) -> Result<()> {
    let columns: [Column<'_, WebhookDelivery>; 7] = [
        ("ID", "", &|delivery| json!(delivery.id.0)),
        ("ORDER", "-", &|delivery| json!(delivery.order_id.map(|id| id.0))),
        ("EVENT", "", &|delivery| json!(delivery.event.as_str())),
        ("CREATED", "", &|delivery| at(delivery.created_at)),
        ("STATUS", "", &|delivery| json!(delivery.status.as_str())),
        ("ATTEMPTS", "", &|delivery| json!(delivery.attempts.len())),
        ("LAST ATTEMPT", "", &last_attempt),
    ];
    format.print(&columns, deliveries)
}

/// Returns the outcome of the last attempt.
pub(super) fn last_attempt(delivery: &WebhookDelivery) -> Value {
    match delivery.attempts.last().map(|attempt| &attempt.outcome) {
        Some(AttemptOutcome::Status(status)) => json!(format!("status {status}")),
        Some(AttemptOutcome::Error(error)) => json!(error),
        None => Value::Null,
    }
}
