//! The command `webhooks listen`: a receiver for trying out.

use std::{
    collections::{BTreeSet, HashSet},
    io::{self, ErrorKind, Write as _},
    net::{IpAddr, Ipv4Addr, TcpListener},
    sync::Arc,
    time::Duration,
};

use actix_web::{
    App, HttpRequest, HttpResponse, HttpServer,
    dev::ServerHandle,
    web::{Bytes, Data, post},
};
use adapter_webhook::{Received, verify};
use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use domain::{
    api_key::{ApiKey, Owner, Party},
    ports::{ApiKeyRepo, Clock, Cursor, DeliveryPageQuery, UrlRefused, WebhookError},
    use_cases::webhooks::{
        manage_webhooks::{ManageWebhooks, WebhooksError},
        run_webhooks::SECRET_UNREADABLE,
    },
    webhook::{AttemptOutcome, Endpoint, EndpointPrecondition, secret::WebhookSecret},
};
use ipnet::IpNet;
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::details::Details;
use crate::{
    commands::output::{without_hidden, write},
    settings::{WrongSetting, checked, values::whole},
    signals::StopSignals,
};

/// The address of the receiver, on this machine only.
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// The description by which a later command knows an endpoint that this one has left behind.
const DESCRIPTION: &str = "webhooks listen";

/// Time for the test event, after which the operator reads what may be wrong.
const PATIENCE: Duration = Duration::from_secs(3);

/// Pause between two looks at the delivery of the test event.
const PAUSE: Duration = Duration::from_millis(200);

/// Deliveries among which the test event is looked for. Orders may be created meanwhile.
const NEWEST: usize = 1_000;

/// Arrivals that wait to be printed.
const WAITING: usize = 16;

#[derive(Debug, Args)]
pub struct Listen {
    /// Print the events of this client [default: the only client that has a valid key]
    #[arg(
        long,
        value_name = "ID",
        value_parser = whole::<i64>(1..=i64::MAX),
        conflicts_with = "service"
    )]
    pub(super) client: Option<i64>,
    /// Print the events of this signing service
    #[arg(long, value_name = "ID", value_parser = whole::<i64>(1..=i64::MAX))]
    pub(super) service: Option<i64>,
    /// Print the events of test orders
    #[arg(long)]
    test: bool,
    /// Print only this event, such as order.created. Repeat it for several
    #[arg(long = "event", value_name = "EVENT")]
    events: Vec<String>,
    /// Port of the receiver on 127.0.0.1; 0 for a free one
    #[arg(long, value_name = "NUMBER", default_value_t = 8090, value_parser = whole::<u16>(0..=65_535))]
    port: u16,
}

/// Returns the network of the receiver, which webhooks may go to if the operator opens it.
pub(super) fn network() -> IpNet {
    IpAddr::from(HERE).into()
}

/// Receives the events of a party, or of the only client, until a signal. Deletes its endpoint when
/// it ends.
pub(super) async fn run(
    listen: Listen,
    party: Option<Party>,
    webhooks: &ManageWebhooks,
    keys: &dyn ApiKeyRepo,
) -> Result<()> {
    let owner = listen.owner(party, keys, &*webhooks.clock).await?;
    let listener = TcpListener::bind((HERE, listen.port));
    let listener = checked(listener, format!("--port {}", listen.port))?;
    let url = format!("http://{}/", listener.local_addr()?);
    remove_left_over(webhooks, &url).await?;

    let details = Details { events: listen.events, description: Some(DESCRIPTION.to_owned()) };
    let body = details.body(Some(&url))?;
    // From here on a signal ends the command below, which removes the endpoint.
    let mut signals = StopSignals::register()?;
    let (endpoint, secret) = webhooks.create(owner, None, &body).await?;
    let ended = tokio::select! {
        () = signals.first() => Ok(()),
        ended = receive(webhooks, &endpoint, secret, listener) => ended,
    };
    let id = endpoint.id.0;
    match webhooks.delete(owner, endpoint.id, &EndpointPrecondition::NONE).await {
        Ok(()) | Err(WebhooksError::NotFound) => note(&format!("webhook endpoint {id} is deleted")),
        Err(error) => {
            let left = format!("webhook endpoint {id} is left; run webhooks delete {id}");
            return Err(ended.err().unwrap_or(error.into()).context(left));
        }
    }
    ended
}

impl Listen {
    async fn owner(
        &self,
        party: Option<Party>,
        keys: &dyn ApiKeyRepo,
        clock: &dyn Clock,
    ) -> Result<Owner> {
        let keys = keys.list().await?;
        let party = match party {
            Some(party @ Party::Client(_)) if !keys.iter().any(|key| key.party() == party) => {
                return Err(wrong(format!("there is no {party}; keys list shows the clients")));
            }
            Some(party) => party,
            None => {
                let now = clock.now();
                let valid = keys.iter().filter(|key| key.is_valid(now)).map(ApiKey::party);
                the_only_client(&valid.collect())?
            }
        };
        Ok(Owner { party, is_test: self.test })
    }
}

fn wrong(message: String) -> anyhow::Error {
    WrongSetting(anyhow!(message)).into()
}

fn the_only_client(parties: &BTreeSet<Party>) -> Result<Party> {
    let is_client = |party: &&Party| matches!(party, Party::Client(_));
    let clients: Vec<_> = parties.iter().filter(is_client).copied().collect();
    match clients[..] {
        [client] => Ok(client),
        [] => Err(wrong(
            "no client has a valid key; issue one with keys issue --name NAME, or choose a \
             signing service with --service ID"
                .to_owned(),
        )),
        _ => {
            let options: Vec<_> = parties.iter().map(|party| format!("--{party}")).collect();
            Err(wrong(format!("choose whose events to print: {}", options.join(" or "))))
        }
    }
}

/// Removes the endpoints of receivers that were killed. This process has their port, so none of them
/// runs.
async fn remove_left_over(webhooks: &ManageWebhooks, url: &str) -> Result<()> {
    let is_left_over =
        |it: &Endpoint| it.url == url && it.description.as_deref() == Some(DESCRIPTION);
    for Endpoint { id, owner, .. } in
        webhooks.endpoints.all().await?.into_iter().filter(is_left_over)
    {
        webhooks.endpoints.remove(owner, id, &EndpointPrecondition::NONE).await?;
        note(&format!("webhook endpoint {} of a receiver that was killed is deleted", id.0));
    }
    Ok(())
}

/// Serves and prints until standard output is closed. Fails if the service cannot send here.
async fn receive(
    webhooks: &ManageWebhooks,
    endpoint: &Endpoint,
    secret: WebhookSecret,
    listener: TcpListener,
) -> Result<()> {
    let (id, mode) = (endpoint.id.0, if endpoint.owner.is_test { "test" } else { "live" });
    note(&format!(
        "webhook endpoint {id} sends the events of {mode} orders of {} to {}\n\
         Ctrl-C deletes it. If this command is killed, its next start on this port deletes it, and \
         so does: webhooks delete {id}",
        endpoint.owner.party, endpoint.url,
    ));
    let (arrivals, arrived) = mpsc::channel(WAITING);
    let server = serve(listener, Receiver { secret, clock: webhooks.clock.clone(), arrivals })?;
    let ended = tokio::select! {
        ended = print_all(arrived) => ended,
        Err(error) = try_out(webhooks, endpoint) => Err(error),
    };
    server.stop(false).await;
    ended
}

/// Asks the service for a test event, and returns when it has arrived. Fails if the service cannot
/// send it here, with what the operator can do.
async fn try_out(webhooks: &ManageWebhooks, endpoint: &Endpoint) -> Result<()> {
    let test = webhooks.test(endpoint.owner, endpoint.id, &EndpointPrecondition::NONE).await?;
    let began = Instant::now();
    let mut is_late = false;
    loop {
        sleep(PAUSE).await;
        let query = DeliveryPageQuery { limit: NEWEST, cursor: Cursor::Newest };
        let (_, page) = webhooks.deliveries(endpoint.owner, endpoint.id, &query).await?;
        let attempts =
            page.items.into_iter().find(|delivery| delivery.id == test).map(|it| it.attempts);
        match attempts.unwrap_or_default().pop().map(|attempt| attempt.outcome) {
            Some(AttemptOutcome::Status(200..=299)) => {
                note("the test event of the service has arrived; now create an order");
                return Ok(());
            }
            Some(outcome) => return Err(wrong(advice(&outcome))),
            None if began.elapsed() > PATIENCE && !is_late => {
                is_late = true;
                note(
                    "the service has not sent the test event yet. Does it run, on the database of \
                     this command's settings?",
                );
            }
            None => {}
        }
    }
}

/// Returns what the operator can do if the service did not reach this receiver.
fn advice(outcome: &AttemptOutcome) -> String {
    let refused = WebhookError::Refused(UrlRefused(String::new())).to_string();
    match outcome {
        AttemptOutcome::Error(error) if *error == refused => format!(
            "the service may not send webhooks to this machine: start the service with \
             --webhook-allow {HERE} (NOTARY_ORDERS_WEBHOOK_ALLOW), and then this command again"
        ),
        AttemptOutcome::Error(error) if error == SECRET_UNREADABLE => {
            "the service needs the same --secrets-key (NOTARY_ORDERS_SECRETS_KEY) as this command"
                .to_owned()
        }
        AttemptOutcome::Error(error) => format!(
            "the service did not reach this receiver: {error}. It must run on this machine, \
             without --webhook-proxy"
        ),
        AttemptOutcome::Status(status) => {
            format!("the test event of the service got the status {status}")
        }
    }
}

/// A webhook that arrived, to be printed.
struct Arrival {
    /// Its `webhook-id` and body, or why it is rejected.
    outcome: Result<(String, Bytes), String>,
    /// Sent when it is printed.
    printed: oneshot::Sender<()>,
}

struct Receiver {
    secret: WebhookSecret,
    clock: Arc<dyn Clock>,
    arrivals: mpsc::Sender<Arrival>,
}

fn serve(listener: TcpListener, receiver: Receiver) -> io::Result<ServerHandle> {
    let receiver = Data::new(receiver);
    let app = move || App::new().app_data(receiver.clone()).default_service(post().to(answer));
    let server = HttpServer::new(app).workers(1).disable_signals().listen(listener)?.run();
    let handle = server.handle();
    tokio::spawn(server);
    Ok(handle)
}

/// Answers a webhook when it is printed, so that the service repeats one that is not.
async fn answer(state: Data<Receiver>, request: HttpRequest, body: Bytes) -> HttpResponse {
    let field = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let [id, timestamp, signature] = ["webhook-id", "webhook-timestamp", "webhook-signature"]
        .map(|name| field(name).unwrap_or_default());
    let received = Received { id, timestamp, signature, body: &body };
    let outcome = verify(&state.secret, &received, state.clock.now())
        .map(|()| (id.to_owned(), body.clone()))
        .map_err(|reason| reason.to_string());
    let is_genuine = outcome.is_ok();
    let (printed, is_printed) = oneshot::channel();
    let sent = state.arrivals.send(Arrival { outcome, printed }).await;
    match (sent.is_ok() && is_printed.await.is_ok(), is_genuine) {
        (true, true) => HttpResponse::NoContent().finish(),
        (true, false) => HttpResponse::Unauthorized().finish(),
        (false, _) => HttpResponse::ServiceUnavailable().finish(),
    }
}

/// Prints each event once, until standard output is closed.
async fn print_all(mut arrived: mpsc::Receiver<Arrival>) -> Result<()> {
    let mut known = HashSet::new();
    while let Some(Arrival { outcome, printed }) = arrived.recv().await {
        let (line, event) = match outcome {
            Ok((id, _)) if known.contains(&id) => (format!("{id} arrived again"), None),
            Ok((id, body)) => (format!("{id} is genuine:"), Some((id, readable(&body)))),
            Err(reason) => (format!("rejected a webhook: {reason}"), None),
        };
        let (id, text) = event.unzip();
        // A reader may have stopped, and a signal still ends the command.
        let writing = spawn_blocking(move || {
            note(&line);
            text.map_or(Ok(()), |text| write(&text))
        });
        match writing.await.context("printing panicked")? {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
        known.extend(id);
        let _ = printed.send(());
    }
    Ok(())
}

/// Returns the body of an event as JSON over several lines, which cannot control a terminal.
fn readable(body: &[u8]) -> String {
    let event = serde_json::from_slice::<Value>(body);
    let text = event.and_then(|event| serde_json::to_string_pretty(&event));
    let text = text.unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned());
    let lines = text.lines().map(|line| without_hidden(line) + "\n");
    lines.collect()
}

/// Writes to standard error, which may be closed.
fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
