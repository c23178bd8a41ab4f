//! Webhooks to a receiver on this machine.

use domain::{
    endpoint_request::{EndpointChange, EndpointRequest},
    manage_webhooks::ManageWebhooks,
    webhook::{DisabledBy, Endpoint, EndpointOwner},
};
use operator::settings::Settings;
use reqwest::multipart::Form;
use serde_json::{Value, json};
use time::Duration;

use crate::{
    harness::{
        CREATE, CREATE_WITH_DOCUMENTS, TestApp, created, deed, eventually_async, file,
        form_with_deed, order, problem,
    },
    scripted_server::{Reply, Request, ScriptedServer},
};

const FLAGS: [&str; 2] =
    ["--webhook-allow=127.0.0.1", "--secrets-key=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="];

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    settings: Settings,
}

async fn start() -> TestApp {
    TestApp::start_with(&FLAGS).await
}

/// Returns the use case of webhook endpoints on the stores of the service.
fn webhooks(app: &TestApp) -> ManageWebhooks {
    let Flags { settings } =
        <Flags as clap::Parser>::parse_from(["notary-orders"].into_iter().chain(FLAGS));
    app.storage().manage_webhooks(&settings, app.machine()).unwrap()
}

/// Creates an endpoint of the client of the app's key, at a path that is a secret.
async fn endpoint(app: &TestApp, server: &ScriptedServer) -> Endpoint {
    let key = app.storage().keys.list().await.unwrap().pop().unwrap();
    let body = json!({ "url": format!("{}/secret-path", server.url()) });
    let request = EndpointRequest::parse(body.as_object().unwrap()).unwrap();
    webhooks(app).create(EndpointOwner::of(&key), request).await.unwrap().0
}

async fn read(app: &TestApp, endpoint: &Endpoint) -> Endpoint {
    webhooks(app).read(endpoint.owner, endpoint.id).await.unwrap()
}

/// Waits until nothing is left to send.
async fn all_sent(app: &TestApp) {
    eventually_async(async || {
        let events = app.storage().queue.stats().await.unwrap().events;
        events == 0 && app.storage().webhook_queue.stats().await.unwrap().pending == 0
    })
    .await;
}

fn answer(status: u16) -> Reply {
    Reply::Answer { status, headers: Vec::new(), body: String::new() }
}

fn body(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_creation_and_addition_sends_one_event_and_nothing_else_does() {
    let app = start().await;
    let server = ScriptedServer::start(Vec::new());
    endpoint(&app, &server).await;
    created(app.create(&order("F-1")).await).await;
    problem(app.create(&order("F-1")).await, 409, "duplicate_order").await;
    created(app.create_with(form_with_deed("F-2")).await).await;
    for path in [CREATE, CREATE_WITH_DOCUMENTS] {
        // The second time is a replay.
        for _ in 0..2 {
            created(app.send_with_key(path, path).await).await;
        }
    }
    // An event has the documents of its instant, and the clock stands still.
    app.clock.advance(Duration::SECOND);
    let documents = Form::new().part("documents", file("deed.pdf", deed()));
    let added = app.post("/api/order/1/documents").multipart(documents).send().await.unwrap();
    assert_eq!(added.status(), 201);
    all_sent(&app).await;

    let requests = server.stop();
    let mut events: Vec<_> = requests
        .iter()
        .map(|request| {
            assert_eq!(request.path(), "/secret-path");
            let body = body(request);
            let documents = body["data"]["documents_uploaded"].as_u64().unwrap();
            (body["type"].as_str().unwrap().to_owned(), body["data"]["order_id"].clone(), documents)
        })
        .map(|(event, order, documents)| (order.as_i64().unwrap(), event, documents))
        .collect();
    events.sort_unstable();
    let expected = [
        (1, "order.created", 0),
        (1, "order.documents_added", 1),
        (2, "order.created", 1),
        (3, "order.created", 0),
        (4, "order.created", 1),
    ];
    assert_eq!(events, expected.map(|(order, event, n)| (order, event.to_owned(), n)));
    let mut ids: Vec<_> =
        requests.iter().map(|request| request.header("webhook-id").unwrap().to_owned()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5, "each has an identifier of its own");
    for request in &requests {
        assert!(request.header("webhook-signature").unwrap().starts_with("v1,"));
        let text = String::from_utf8(request.body.clone()).unwrap();
        assert!(!text.contains("example.com") && !text.contains("Jane"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_is_retried_under_the_same_identifier_and_410_ends_all_attempts() {
    let app = start().await;
    let server = ScriptedServer::start(vec![answer(500), answer(204), answer(410)]);
    let endpoint = endpoint(&app, &server).await;
    created(app.create(&order("F-1")).await).await;
    eventually_async(async || read(&app, &endpoint).await.failing_since.is_some()).await;
    app.clock.advance(Duration::seconds(10));
    all_sent(&app).await;
    assert_eq!(read(&app, &endpoint).await.failing_since, None);

    created(app.create(&order("F-2")).await).await;
    eventually_async(async || read(&app, &endpoint).await.disabled.is_some()).await;
    assert_eq!(read(&app, &endpoint).await.disabled.unwrap().1, DisabledBy::Gone);
    created(app.create(&order("F-3")).await).await;
    all_sent(&app).await;
    let enabled = EndpointChange { is_enabled: Some(true), ..EndpointChange::default() };
    webhooks(&app).change(endpoint.owner, endpoint.id, enabled).await.unwrap();
    all_sent(&app).await;

    let requests = server.stop();
    let orders: Vec<_> =
        requests.iter().map(|request| body(request)["data"]["order_id"].clone()).collect();
    assert_eq!(orders, [1, 1, 2, 3], "the delivery that got 410 is not repeated");
    let id = |number: usize| requests[number].header("webhook-id").unwrap();
    assert_eq!(id(0), id(1));
    assert_eq!(requests[0].body, requests[1].body);
}
