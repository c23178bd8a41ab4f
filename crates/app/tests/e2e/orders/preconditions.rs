//! Requests with a false `If-Match`, `If-None-Match` or `If-Unmodified-Since` change nothing.

use reqwest::{Method, RequestBuilder, multipart::Form};
use serde_json::{Value, json};

use super::changes::{as_service, instances};
use crate::{
    harness::{
        Api, CREATE, created, deed, eventually_async, form_with_deed, order, problem,
        scripted_server::ScriptedServer, service_process::run, with_documents,
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    false_precondition_changes_nothing,
    looking_at_a_document_makes_no_change_fail,
    file_number_is_the_same_in_every_form_that_looks_equal,
}

/// Returns a request of each kind that changes order 1 or its webhook 1.
fn changes(client: &Api, service: &Api) -> Vec<RequestBuilder> {
    let mut amended = order("F-1");
    amended["signingDetailsFormData"]["lender"] = json!("A bank");
    let documents = || with_documents(Form::new(), 1, &deed());
    let of_client = |method, path: &str| client.request(method, &format!("/api/{path}"));
    let of_service = |method, path: &str| service.request(method, &format!("/api/{path}"));
    vec![
        of_client(Method::PUT, "order/1").json(&amended),
        of_client(Method::PUT, "order?file_number=F-1").json(&amended),
        of_service(Method::PATCH, "order/1").json(&json!({ "order_status": "ASSIGNED" })),
        of_client(Method::POST, "order/1/cancel"),
        of_client(Method::POST, "order/1/notes").json(&json!({ "text": "a" })),
        of_client(Method::POST, "order/1/documents").multipart(documents()),
        of_service(Method::POST, "order/1/signed-documents").multipart(documents()),
        of_client(Method::DELETE, "order/1/documents/0"),
        of_client(Method::PATCH, "webhooks/1").json(&json!({ "description": "a" })),
        of_client(Method::POST, "webhooks/1/rotate-secret"),
        of_client(Method::POST, "webhooks/1/test"),
        of_client(Method::POST, "webhooks/1/replay")
            .json(&json!({ "since": "2000-01-01T00:00:00Z" })),
        of_client(Method::DELETE, "webhooks/1"),
    ]
}

/// Returns everything that the two sides see of order 1 and of the webhook.
async fn shown(client: &Api) -> Vec<Value> {
    let mut shown = Vec::new();
    for path in ["order/1", "webhooks/1", "webhooks/1/deliveries"] {
        shown.push(client.read(&format!("/api/{path}")).await);
    }
    shown
}

async fn false_precondition_changes_nothing(kind: Kind) {
    let wiring = kind.wiring();
    let instance = instances(&wiring).remove(0);
    let service = as_service(&wiring, &instance);
    let scopes = ["--scope=orders:create", "--scope=orders:read", "--scope=webhooks:manage"];
    let issue = ["keys", "issue", "--name=all", "--client=1"];
    let client = instance.as_key(run(&wiring, &[&issue[..], &scopes].concat()).trim());
    created(client.create_with(form_with_deed("F-1")).await).await;
    let receiver = ScriptedServer::start(Vec::new());
    let webhook = json!({ "url": receiver.url(), "events": ["order.cancelled"] });
    created(client.post("/api/webhooks").json(&webhook).send().await.unwrap()).await;
    let before = shown(&client).await;
    let objects = wiring.objects();

    for (name, value) in [
        ("if-match", "\"other\""),
        ("if-none-match", "*"),
        ("if-unmodified-since", "Sat, 01 Jan 2000 00:00:00 GMT"),
    ] {
        for request in changes(&client, &service) {
            let answer = request.header(name, value).send().await.unwrap();
            problem(answer, 412, "precondition_failed").await;
        }
    }
    for path in [CREATE, "/api/webhooks"] {
        let body = if path == CREATE { order("F-2") } else { webhook.clone() };
        let request = client.post(path).json(&body).header("if-match", "*");
        problem(request.send().await.unwrap(), 412, "precondition_failed").await;
    }

    assert_eq!(shown(&client).await, before);
    assert_eq!((wiring.objects(), wiring.rows("orders")), (objects, 1));
    for path in ["/api/order/1", "/api/order/1/documents/0", "/api/webhooks/1"] {
        let tag = client.get(path).await.headers()["etag"].clone();
        let request = match path {
            "/api/order/1" => client.post("/api/order/1/notes").json(&json!({ "text": "a" })),
            other => client.request(Method::DELETE, other),
        };
        let answer = request.header("if-match", tag).send().await.unwrap();
        assert!(answer.status().is_success(), "{path} {}", answer.status());
    }
}

/// Its tag is another one, so a program that polls sees the download.
async fn looking_at_a_document_makes_no_change_fail(kind: Kind) {
    let wiring = kind.wiring();
    let client = instances(&wiring).remove(0);
    let service = as_service(&wiring, &client);
    created(client.create_with(form_with_deed("F-1")).await).await;
    let read = client.get("/api/order/1").await;
    let tag = read.headers()["etag"].clone();
    let updated_at = read.json::<Value>().await.unwrap()["updated_at"].clone();
    service.get("/api/order/1/documents/0").await.bytes().await.unwrap();
    eventually_async(async || {
        let order = client.read("/api/order/1").await;
        assert_eq!(order["updated_at"], updated_at);
        !order["documents"][0]["first_downloaded_at"].is_null()
    })
    .await;
    let known = client.request(Method::GET, "/api/order/1").header("if-none-match", tag.clone());
    assert_eq!(known.send().await.unwrap().status(), 200);
    let note = client.post("/api/order/1/notes").json(&json!({ "text": "a" }));
    assert_eq!(note.header("if-match", tag).send().await.unwrap().status(), 201);
}

/// Its answers have the form that was sent.
async fn file_number_is_the_same_in_every_form_that_looks_equal(kind: Kind) {
    let wiring = kind.wiring();
    let client = instances(&wiring).remove(0);
    let (composed, decomposed) = ("Jos\u{e9}-1", "Jose\u{301}-1");
    let new = created(client.create(&order(decomposed)).await).await;
    assert_eq!(new["file_number"], decomposed);
    problem(client.create(&order(composed)).await, 409, "duplicate_order").await;
    for form in [composed, decomposed] {
        let list = client.request(Method::GET, "/api/order").query(&[("file_number", form)]);
        let list: Value = list.send().await.unwrap().json().await.unwrap();
        assert_eq!(list["data"][0]["file_number"], decomposed, "{form}");
        let put = client.request(Method::PUT, "/api/order/1").json(&order(form));
        let record: Value = put.send().await.unwrap().json().await.unwrap();
        assert_eq!(record["file_number"], decomposed);
    }
    // As version 0.1.0 stored it.
    assert!(wiring.execute(&format!("UPDATE orders SET file_number = '{decomposed}'")).is_some());
    let list = client.request(Method::GET, "/api/order").query(&[("file_number", composed)]);
    let list: Value = list.send().await.unwrap().json().await.unwrap();
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
}
