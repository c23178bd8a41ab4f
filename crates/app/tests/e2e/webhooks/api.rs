//! Webhooks that clients manage over the API, with verified events at a receiver.

use std::{collections::BTreeSet, ops::Deref};

use domain::{
    api_key::{ClientId, Scope},
    use_cases::keys::manage_keys::KeyTerms,
};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use time::Duration;

use crate::{
    harness::scripted_server::{Reply, Request, ScriptedServer},
    harness::service_process::{ServiceProcess, fail, issue_key, run},
    harness::{
        Api, CREATE, CREATE_WITH_DOCUMENTS, TestApp, WEBHOOKS, created, deed, eventually,
        eventually_async, order, problem, with_documents,
    },
    operators::doctor::report::Report,
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    both_creates_and_added_documents_reach_the_webhook,
    test_orders_reach_webhooks_of_test_keys_only,
    tests_and_replays_reach_the_webhook,
    events_of_a_disabled_webhook_wait_until_it_is_enabled,
    failure_is_retried_under_the_same_identifier_and_410_ends_all_attempts,
    unknown_event_of_an_endpoint_holds_up_no_other_and_doctor_names_it,
    secrets_move_to_another_key_and_older_ones_sign_along,
}

/// A key of secrets that no setting of the tests has.
const NEW_KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// A client of the service with every scope.
struct Client(Api);

impl Deref for Client {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.0
    }
}

impl Client {
    async fn new(app: &TestApp) -> Self {
        Self::on(app, KeyTerms::default()).await
    }

    async fn on(app: &TestApp, terms: KeyTerms) -> Self {
        let scopes = Scope::ALL.into_iter().collect();
        Self(app.as_key(&app.issue_key_on(KeyTerms { scopes, ..terms }).await))
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Response {
        self.request(method, path).json(body).send().await.unwrap()
    }

    /// Sends a body that the service accepts.
    async fn accepted(&self, method: Method, path: &str, body: &Value) -> Value {
        let response = self.send(method, path, body).await;
        assert!(response.status().is_success(), "{path} {}", response.status());
        response.json().await.unwrap_or_default()
    }

    async fn post_json(&self, path: &str, body: &Value) -> Value {
        self.accepted(Method::POST, path, body).await
    }

    /// Creates a webhook. Returns its path and its secret.
    async fn webhook(&self, body: &Value) -> (String, String) {
        let response = self.send(Method::POST, "/api/webhooks", body).await;
        let path = response.headers()["location"].to_str().unwrap().to_owned();
        assert_eq!(response.headers()["cache-control"], "no-store");
        let webhook = created(response).await;
        assert_eq!(path, format!("/api/webhooks/{}", webhook["id"]));
        (path, webhook["secret"].as_str().unwrap().to_owned())
    }

    async fn new_order(&self, file_number: &str) -> i64 {
        created(self.order(file_number).await).await["order_id"].as_i64().unwrap()
    }

    async fn add_document(&self, order: i64) {
        let form = with_documents(reqwest::multipart::Form::new(), 1, &deed());
        let request = self.post(&format!("/api/order/{order}/documents")).multipart(form);
        created(request.send().await.unwrap()).await;
    }

    async fn deliveries(&self, webhook: &str) -> Vec<Value> {
        let list = self.read(&format!("{webhook}/deliveries")).await;
        list["data"].as_array().unwrap().clone()
    }

    /// Waits until no delivery of a webhook is pending.
    async fn settled(&self, webhook: &str) -> Vec<Value> {
        let deliveries = async || self.deliveries(webhook).await;
        eventually_async(async || deliveries().await.iter().all(|it| it["status"] != "pending"))
            .await;
        deliveries().await
    }
}

/// A receiver of webhooks on this machine.
struct Receiver(ScriptedServer);

impl Receiver {
    fn start() -> Self {
        Self::answering([])
    }

    /// Starts a receiver that answers with these statuses, and then with 201.
    fn answering<const N: usize>(statuses: [u16; N]) -> Self {
        let answer = |status| Reply::Answer { status, headers: Vec::new(), body: String::new() };
        Self(ScriptedServer::start(statuses.map(answer).into()))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0.url())
    }

    /// Waits until `count` webhooks have arrived, and returns them.
    async fn webhooks(&self, count: usize) -> Vec<Request> {
        eventually(|| self.0.requests().len() >= count).await;
        let received = self.0.requests();
        assert_eq!(received.len(), count, "{received:?}");
        received
    }
}

/// Returns whether one of the signatures is that of the standard's library with this secret. The
/// library's own check would compare the timestamp with the clock of the system, not of the service.
fn is_signed_with(received: &Request, secret: &str) -> bool {
    let header = |name| received.header(name).unwrap();
    let timestamp = header("webhook-timestamp").parse().unwrap();
    let webhook = Webhook::new(secret).unwrap();
    let expected = webhook.sign(header("webhook-id"), timestamp, &received.body).unwrap();
    header("webhook-signature").split(' ').any(|one| one == expected)
}

/// Returns the body of a webhook that this secret has signed.
fn verified(received: &Request, secret: &str) -> Value {
    assert!(is_signed_with(received, secret), "{received:?}");
    assert!(received.head.starts_with("POST "), "{received:?}");
    assert_eq!(received.header("content-type"), Some("application/json"));
    serde_json::from_slice(&received.body).unwrap()
}

async fn start(kind: Kind) -> TestApp {
    kind.app_with(&WEBHOOKS).await
}

/// Returns type, order and number of documents of each event.
fn events(received: &[Request], secret: &str) -> Vec<(String, i64, u64)> {
    let event = |received: &Request| {
        let body = verified(received, secret);
        let text = body["type"].as_str().unwrap().to_owned();
        let documents = body["data"]["documents_uploaded"].as_u64().unwrap();
        (text, body["data"]["order_id"].as_i64().unwrap(), documents)
    };
    let mut events: Vec<_> = received.iter().map(event).collect();
    events.sort();
    events
}

async fn both_creates_and_added_documents_reach_the_webhook(kind: Kind) {
    let (app, receiver) = (start(kind).await, Receiver::start());
    let (client, other) = (Client::new(&app).await, Client::new(&app).await);
    let (webhook, secret) = client.webhook(&json!({ "url": receiver.url("/hook") })).await;
    other.new_order("OTHER").await;

    let mut orders = Vec::new();
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        let send = async || created(client.send_with_key(path, path).await).await;
        let record = send().await;
        // Neither a repeat nor a duplicate is an event.
        assert_eq!(send().await, record);
        problem(client.order(path).await, 409, "duplicate_order").await;
        orders.push(record["order_id"].as_i64().unwrap());
    }
    // An event has the documents of its instant, and the clock stands still.
    app.clock.advance(Duration::SECOND);
    client.add_document(orders[0]).await;

    let expected = [
        ("order.created".to_owned(), orders[0], 0),
        ("order.created".to_owned(), orders[1], 1),
        ("order.documents_added".to_owned(), orders[0], 1),
    ];
    assert_eq!(events(&receiver.webhooks(3).await, &secret), expected);
    let deliveries = client.settled(&webhook).await;
    assert_eq!(deliveries.len(), 3);
    for delivery in &deliveries {
        assert_eq!(delivery["status"], "delivered", "{delivery}");
        let attempts = delivery["attempts"].as_array().unwrap();
        assert_eq!((attempts.len(), &attempts[0]["status_code"]), (1, &json!(201)), "{delivery}");
    }
    let sent: BTreeSet<_> =
        deliveries.iter().map(|it| it["message_id"].as_str().unwrap().to_owned()).collect();
    let arrived = receiver.webhooks(3).await;
    let ids = arrived.iter().map(|it| it.header("webhook-id").unwrap().to_owned());
    assert_eq!(ids.collect::<BTreeSet<_>>(), sent);
    assert_eq!(sent.len(), 3, "each has an identifier of its own");
    for webhook in arrived {
        let text = String::from_utf8(webhook.body).unwrap();
        assert!(!text.contains("example.com") && !text.contains("Jane"), "{text}");
    }
}

async fn test_orders_reach_webhooks_of_test_keys_only(kind: Kind) {
    let (app, receiver) = (start(kind).await, Receiver::start());
    // The first key of the harness is the client 1.
    let client = Some(ClientId(1));
    let live = Client::on(&app, KeyTerms { client, ..KeyTerms::default() }).await;
    let terms = KeyTerms { client, is_test: true, ..KeyTerms::default() };
    let test = Client::on(&app, terms).await;
    let (_, live_secret) = live.webhook(&json!({ "url": receiver.url("/live") })).await;
    let (path, test_secret) = test.webhook(&json!({ "url": receiver.url("/test") })).await;
    problem(live.get(&path).await, 404, "not_found").await;

    live.new_order("F-1").await;
    test.new_order("F-1").await;

    for received in receiver.webhooks(2).await {
        let is_test = received.path() == "/test";
        let secret = if is_test { &test_secret } else { &live_secret };
        assert_eq!(verified(&received, secret)["data"]["is_test"], is_test);
    }
}

async fn tests_and_replays_reach_the_webhook(kind: Kind) {
    let (app, receiver) = (start(kind).await, Receiver::start());
    let client = Client::new(&app).await;
    let (webhook, secret) = client.webhook(&json!({ "url": receiver.url("/") })).await;

    let tested = client.post_json(&format!("{webhook}/test"), &json!({})).await;
    let first = receiver.webhooks(1).await.remove(0);
    let body = verified(&first, &secret);
    assert_eq!(body["type"], "webhook.test");
    assert_eq!(webhook, format!("/api/webhooks/{}", body["data"]["webhook_id"]));

    client.settled(&webhook).await;
    let delivery = format!("{webhook}/deliveries/{}/replay", tested["delivery_id"]);
    assert_eq!(client.post_json(&delivery, &json!({})).await, tested);
    receiver.webhooks(2).await;
    client.settled(&webhook).await;
    let since = json!({ "since": "2000-01-01T00:00:00Z" });
    client.post_json(&format!("{webhook}/replay"), &since).await;
    for received in receiver.webhooks(3).await {
        assert_eq!(received.header("webhook-id"), first.header("webhook-id"));
        assert_eq!(verified(&received, &secret), body);
    }
    let deliveries = client.settled(&webhook).await;
    assert_eq!(deliveries[0]["attempts"].as_array().unwrap().len(), 3, "{deliveries:?}");
}

async fn events_of_a_disabled_webhook_wait_until_it_is_enabled(kind: Kind) {
    let (app, receiver) = (start(kind).await, Receiver::start());
    let client = Client::new(&app).await;
    let (webhook, secret) = client.webhook(&json!({ "url": receiver.url("/old") })).await;
    let patch = async |body: &Value| client.accepted(Method::PATCH, &webhook, body).await;
    let disabled = patch(&json!({ "status": "disabled" })).await;
    assert_eq!(
        (&disabled["status"], &disabled["disabled_by"]),
        (&json!("disabled"), &json!("request"))
    );
    let test = client.post(&format!("{webhook}/test")).send().await.unwrap();
    problem(test, 409, "webhook_disabled").await;

    let order_id = client.new_order("F-1").await;
    eventually_async(async || client.deliveries(&webhook).await.len() == 1).await;
    assert_eq!(client.deliveries(&webhook).await[0]["next_attempt_at"], Value::Null);
    assert_eq!(receiver.0.requests().len(), 0);
    patch(&json!({ "status": "enabled", "url": receiver.url("/new") })).await;

    let arrived = receiver.webhooks(1).await.remove(0);
    assert_eq!(arrived.path(), "/new");
    assert_eq!(verified(&arrived, &secret)["data"]["order_id"], order_id);
    let deleted = client.request(Method::DELETE, &webhook).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    problem(client.get(&webhook).await, 404, "not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eleventh_webhook_is_rejected() {
    let (app, receiver) = (start(Kind::Embedded).await, Receiver::start());
    let client = Client::new(&app).await;
    let body = json!({ "url": receiver.url("/") });
    for _ in 0..10 {
        client.webhook(&body).await;
    }
    let response = client.send(Method::POST, "/api/webhooks", &body).await;
    let problem = problem(response, 400, "validation_failed").await;
    assert_eq!(problem["errors"][0]["code"], "out_of_range");
}

async fn failure_is_retried_under_the_same_identifier_and_410_ends_all_attempts(kind: Kind) {
    let (app, receiver) = (start(kind).await, Receiver::answering([500, 204, 410]));
    let client = Client::new(&app).await;
    let (webhook, _) = client.webhook(&json!({ "url": receiver.url("/") })).await;
    client.new_order("F-1").await;
    eventually_async(async || !client.read(&webhook).await["failing_since"].is_null()).await;
    app.clock.advance(Duration::seconds(10));
    client.settled(&webhook).await;
    receiver.webhooks(2).await;
    eventually_async(async || client.read(&webhook).await["failing_since"].is_null()).await;

    client.new_order("F-2").await;
    eventually_async(async || client.read(&webhook).await["disabled_by"] == "gone").await;
    client.new_order("F-3").await;
    eventually(|| app.rows("events") == 0).await;
    client.accepted(Method::PATCH, &webhook, &json!({ "status": "enabled" })).await;

    let requests = receiver.webhooks(4).await;
    let order = |request: &Request| {
        serde_json::from_slice::<Value>(&request.body).unwrap()["data"]["order_id"].clone()
    };
    let orders: Vec<_> = requests.iter().map(order).collect();
    assert_eq!(orders, [1, 1, 2, 3], "the delivery that got 410 is not repeated");
    assert_eq!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
    assert_eq!(requests[0].body, requests[1].body);
    client.settled(&webhook).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn log_names_the_webhook_without_its_secret_url_or_payload() {
    let (wiring, receiver) = (Wiring::embedded(), Receiver::start());
    let issue = ["keys", "issue", "--name=hooks", "--scope=orders:create"];
    let key = run(&wiring, &[&issue[..], &["--scope=webhooks:manage"]].concat());
    let flags = [&WEBHOOKS[..], &["--log-level=trace"]].concat();
    let service = ServiceProcess::start(&wiring, &flags).with_key(key.trim().to_owned());
    let client = Client((*service).clone());
    let post = async |path: &str, body: &Value| client.post_json(path, body).await;
    let url = receiver.url("/mkpathzq?tenant=mkqueryzq");
    let webhook = post("/api/webhooks", &json!({ "url": url, "description": "mknotezq" })).await;
    let rotation = format!("/api/webhooks/{}/rotate-secret", webhook["id"]);
    let rotated = post(&rotation, &json!({})).await;
    post(CREATE, &order("mkfilezq")).await;
    let arrived = receiver.webhooks(1).await.remove(0);

    let log = service.stop_and_read_log();

    for message in ["webhook created", "webhook secret rotated"] {
        let line = log.lines().find(|line| line.contains(message)).unwrap();
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line.to_string().contains(&format!("\"webhook_id\":{}", webhook["id"])), "{line}");
        assert!(line.to_string().contains("\"api_key\":1"), "{line}");
    }
    let secrets = [&webhook, &rotated].map(|answer| answer["secret"].as_str().unwrap());
    assert!(secrets.iter().all(|secret| is_signed_with(&arrived, secret)));
    let signatures = arrived.header("webhook-signature").unwrap().split(' ').collect();
    let keys = secrets.map(|secret| secret.trim_start_matches("whsec_")).to_vec();
    let texts = vec!["mkpathzq", "mkqueryzq", "mknotezq", "mkfilezq"];
    for hidden in [keys, signatures, texts].concat() {
        assert_eq!(log.lines().find(|line| line.contains(hidden)), None, "{hidden}");
    }
}

async fn unknown_event_of_an_endpoint_holds_up_no_other_and_doctor_names_it(kind: Kind) {
    let wiring = kind.wiring();
    let key = run(&wiring, &["keys", "issue", "--name=a", "--scope=webhooks:manage"]);
    let other = run(&wiring, &["keys", "issue", "--name=b", "--scope=webhooks:manage"]);
    let service = ServiceProcess::start(&wiring, &WEBHOOKS);
    let receiver = Receiver::start();
    let (client, other) =
        (Client(service.as_key(key.trim())), Client(service.as_key(other.trim())));
    let (unknown, _) = client.webhook(&json!({ "url": receiver.url("/unknown") })).await;
    let (known, _) = other.webhook(&json!({ "url": receiver.url("/known") })).await;
    let id = unknown.rsplit('/').next().unwrap();
    let set = "events = 'order.unknown order.created'";
    let changed = wiring.execute(&format!("UPDATE webhook_endpoints SET {set} WHERE id = {id}"));
    assert!(changed.is_some());
    for (client, webhook) in [(&client, &unknown), (&other, &known)] {
        client.post_json(&format!("{webhook}/test"), &json!({})).await;
    }
    receiver.webhooks(2).await;
    let report = Report::on(&wiring, &[]);
    let expected = format!("row {id} of webhook_endpoints cannot be read: events");
    assert!(report.found("warn", "webhooks").contains(&expected), "{}", report.text);
    let events = client.read(&unknown).await["events"].clone();
    assert_eq!(events, json!(["order.created"]));
}

/// An order at each step arrives signed with every secret of the day.
async fn secrets_move_to_another_key_and_older_ones_sign_along(kind: Kind) {
    let wiring = kind.wiring();
    let key = issue_key(&wiring);
    let (receiver, old) = (Receiver::start(), WEBHOOKS[1]);
    let [old_key, new_key] = [old.split_once('=').unwrap().1, NEW_KEY];
    let [new_and_old, new] = [format!("{new_key},{old_key}"), new_key.to_owned()]
        .map(|keys| format!("--secrets-key={keys}"));
    let allow = WEBHOOKS[0];
    let command = |command: &[&str], keys: &str| run(&wiring, &[command, &[allow, keys]].concat());
    let url = format!("--url={}", receiver.url("/"));
    let mut secrets = vec![command(&["webhooks", "create", "--client=1", &url], old)];
    for (number, keys) in [(1, &*new_and_old), (2, &*new)] {
        let present = if number == 1 { old } else { keys };
        secrets.push(command(&["webhooks", "rotate-secret", "1"], present));
        if number == 1 {
            let report = Report::on(&wiring, &[&new_and_old]);
            let counts = "0 secrets under key 1, 2 secrets under key 2";
            assert!(report.found("warn", "webhooks").contains(counts), "{}", report.text);
        }
        let service = ServiceProcess::start(&wiring, &[allow, keys]).with_key(key.clone());
        created(service.create(&order(&format!("F-{number}"))).await).await;
        let arrived = receiver.webhooks(number).await.remove(number - 1);
        assert_eq!(arrived.header("webhook-signature").unwrap().split(' ').count(), number + 1);
        for secret in &secrets {
            assert!(is_signed_with(&arrived, secret.trim()), "{number}");
        }
        assert_eq!(service.stop("-TERM").0, Some(0));
        if number == 1 {
            for count in ["2 secrets", "0 secrets"] {
                let printed = command(&["webhooks", "reencrypt"], keys);
                assert_eq!(printed, format!("{count} encrypted with the first key\n"));
            }
            let report = Report::on(&wiring, &[keys]);
            let counts = "2 secrets under key 1, 0 secrets under key 2";
            assert!(report.found("warn", "webhooks").contains(counts), "{}", report.text);
        }
    }
    let error = fail(&wiring, &["webhooks", "reencrypt", old]);
    assert!(error.contains("no key decrypts the secrets of these endpoints: 1"), "{error}");
}
