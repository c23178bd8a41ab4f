//! A client sends its whole order again and again, by its file number (`PUT /api/order?file_number=`).

use std::collections::BTreeSet;

use domain::{
    api_key::{ClientId, Scope},
    order::{OrderId, READ_HISTORY, SigningServiceId},
    use_cases::keys::manage_keys::KeyTerms,
};
use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use time::Duration;

use super::{UNLIMITED, history};
use crate::{
    harness::service_process::{ServiceProcess, issue_key},
    harness::{Api, TestApp, errors, order, problem},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    order_that_is_sent_again_after_the_window_is_the_same,
    concurrent_requests_to_all_instances_make_one_order,
    closed_order_is_followed_by_one_order,
    order_of_another_client_bars_a_creation_only,
    repeat_gets_the_first_answer_whatever_happened_since,
    preconditions_permit_a_change_or_a_creation,
    file_number_of_the_body_is_that_of_the_url,
    live_and_test_keys_have_orders_of_their_own,
}

/// How many requests arrive at the same time.
const REQUESTS: usize = 32;

/// Returns a request for the order of a file number with a lender.
fn put(api: &Api, file_number: &str, lender: &str) -> RequestBuilder {
    let mut body = order(file_number);
    body["signingDetailsFormData"]["lender"] = lender.into();
    put_body(api, file_number, &body)
}

fn put_body(api: &Api, file_number: &str, body: &Value) -> RequestBuilder {
    let request = api.request(Method::PUT, "/api/order").query(&[("file_number", file_number)]);
    request.json(body)
}

/// Returns the status of an answer and the identifier of its order.
async fn outcome(response: Response) -> (u16, i64) {
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    (status, body["order_id"].as_i64().unwrap_or_else(|| panic!("{status} {body}")))
}

async fn sent(request: RequestBuilder) -> (u16, i64) {
    outcome(request.send().await.unwrap()).await
}

/// Sends requests with different lenders at the same time until the service takes each. Asserts that at most one has
/// created the order. Returns the order, and whether one has created it.
async fn sent_at_once(apis: &[&Api], file_number: &str, round: usize) -> (i64, bool) {
    let requests = (0..REQUESTS).map(async |at| {
        loop {
            let api = apis[at % apis.len()];
            let request = put(api, file_number, &format!("Lender {round} {at}"));
            let response = request.send().await.unwrap();
            // At the limit of requests that a service takes at a time.
            if response.status() != 503 {
                return outcome(response).await;
            }
        }
    });
    let outcomes = join_all(requests).await;
    let orders: BTreeSet<_> = outcomes.iter().map(|(_, order)| *order).collect();
    let created = outcomes.iter().filter(|(status, _)| *status == 201).count();
    assert!(outcomes.iter().all(|(status, _)| [200, 201].contains(status)), "{outcomes:?}");
    assert!(orders.len() == 1 && created <= 1, "{outcomes:?}");
    (outcomes[0].1, created == 1)
}

async fn of_service(app: &TestApp) -> Api {
    let for_service = Some(SigningServiceId(42));
    let scopes = Scope::OF_SERVICES.into_iter().collect();
    app.as_key(&app.issue_key_on(KeyTerms { for_service, scopes, ..KeyTerms::default() }).await)
}

async fn set_status(service: &Api, order: i64, status: &str) {
    let request = service.request(Method::PATCH, &format!("/api/order/{order}"));
    let response = request.json(&json!({ "order_status": status })).send().await.unwrap();
    assert_eq!(response.status(), 200, "{status}");
}

/// The fault: a minute after the first order, a re-sent one made a second.
async fn order_that_is_sent_again_after_the_window_is_the_same(kind: Kind) {
    let app = kind.app().await;
    let (id, is_created) = sent_at_once(&[&app], "F-1", 0).await;
    assert!(is_created);
    for round in 1..3 {
        app.clock.advance(Duration::minutes(2));
        assert_eq!(sent_at_once(&[&app], "F-1", round).await, (id, false));
    }
    assert_eq!(app.rows("orders"), 1);
    // Each request is one change, and sent again it is none.
    let changes = history(&app, id).await;
    assert_eq!(changes.len(), 3 * REQUESTS);
    let read = app.read(&format!("/api/order/{id}")).await;
    let lender = read["details"]["signingDetailsFormData"]["lender"].as_str().unwrap();
    assert_eq!(sent(put(&app, "F-1", lender)).await, (200, id));
    assert_eq!(app.read(&format!("/api/order/{id}")).await, read);
    let kinds: BTreeSet<_> = changes[1..].iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!((&changes[0]["kind"], kinds), (&json!("created"), BTreeSet::from(["changed"])));
}

/// Without a window, which would bar all but one anyway.
async fn concurrent_requests_to_all_instances_make_one_order(kind: Kind) {
    let wiring = kind.wiring();
    let key = issue_key(&wiring);
    let flags = [&UNLIMITED[..], &["--duplicate-window-secs=0"]].concat();
    let start = |_| ServiceProcess::start(&wiring, &flags).with_key(key.clone());
    let instances: Vec<_> = (0..wiring.instances()).map(start).collect();
    let apis: Vec<&Api> = instances.iter().map(|instance| &**instance).collect();
    for round in 0..5 {
        let file_number = format!("F-{round}");
        let (id, is_created) = sent_at_once(&apis, &file_number, 0).await;
        assert!(is_created);
        assert_eq!(sent_at_once(&apis, &file_number, 1).await, (id, false));
        assert_eq!(wiring.rows("orders"), round + 1);
        assert_eq!(history(apis[0], id).await.len(), 2 * REQUESTS);
    }
}

/// At once, whatever the window.
async fn closed_order_is_followed_by_one_order(kind: Kind) {
    let app = kind.app().await;
    let service = of_service(&app).await;
    let mut orders = Vec::new();
    for (round, status) in
        ["SIGNED", "DID_NOT_SIGN", "COMPLETED", "CANCELLED", ""].into_iter().enumerate()
    {
        let (id, is_created) = sent_at_once(&[&app], "F-1", round).await;
        assert!(is_created && !orders.contains(&id), "{status}");
        orders.push(id);
        if !status.is_empty() {
            set_status(&service, id, status).await;
        }
    }
    // An erased order has no file number.
    let last = orders[4];
    let (admin, at) = (&app.storage().admin, app.machine().clock.now());
    admin.erase(OrderId(last), at, None).await.unwrap();
    let (status, id) = sent(put(&app, "F-1", "A bank")).await;
    assert!(status == 201 && !orders.contains(&id));
    set_status(&service, id, "On its way").await;
    assert_eq!(sent(put(&app, "F-1", "Another bank")).await, (200, id));
}

async fn order_of_another_client_bars_a_creation_only(kind: Kind) {
    let app = kind.app().await;
    let other = app.as_key(&app.issue_key(None).await);
    let (_, id) = sent(put(&app, "F-1", "A bank")).await;
    let barred = put(&other, "F-1", "A bank").send().await.unwrap();
    assert_eq!(barred.headers()["retry-after"], "60");
    problem(barred, 409, "duplicate_order").await;
    app.clock.advance(Duration::MINUTE);
    let (status, of_other) = sent(put(&other, "F-1", "A bank")).await;
    assert_eq!((status, of_other == id), (201, false));
    // The other order holds the file number now, and each client changes its own.
    assert_eq!(sent(put(&app, "F-1", "Another bank")).await, (200, id));
    assert_eq!(sent(put(&other, "F-1", "Another bank")).await, (200, of_other));
    let cancelled = app.post(&format!("/api/order/{id}/cancel")).send().await.unwrap();
    assert_eq!(cancelled.status(), 200);
    problem(put(&app, "F-1", "A bank").send().await.unwrap(), 409, "duplicate_order").await;
    assert_eq!(app.rows("orders"), 2);
}

/// Status, body and validator, whether the first request has created the order or changed it.
async fn repeat_gets_the_first_answer_whatever_happened_since(kind: Kind) {
    let app = kind.app().await;
    let service = of_service(&app).await;
    let send = async |key: &str, lender: &str| {
        let request = put(&app, "F-1", lender).header("idempotency-key", key);
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let kept = ["location", "etag"].map(|name| headers.get(name).cloned());
        let replayed = headers.contains_key("idempotency-replayed");
        ((status, kept, response.json::<Value>().await.unwrap()), replayed)
    };
    let (created, is_replayed) = send("create", "A bank").await;
    assert_eq!((created.0, is_replayed), (201, false));
    let id = created.2["order_id"].as_i64().unwrap();
    set_status(&service, id, "ASSIGNED").await;
    let (changed, is_replayed) = send("change", "Another bank").await;
    assert_eq!((changed.0, is_replayed), (200, false));
    // The version is older than the request.
    app.clock.advance(Duration::SECOND);
    let (same, is_replayed) = send("same", "Another bank").await;
    assert_eq!((same.0, is_replayed), (200, false));
    assert_eq!(same, changed);
    let expected = [
        ("create", "A bank", &created),
        ("change", "Another bank", &changed),
        ("same", "Another bank", &same),
    ];
    let assert_repeated = async || {
        let before = app.read(&format!("/api/order/{id}")).await;
        for (key, lender, answer) in expected {
            let (repeated, is_replayed) = send(key, lender).await;
            assert!(is_replayed && repeated == *answer, "{key}: {repeated:?} {answer:?}");
        }
        assert_eq!(app.read(&format!("/api/order/{id}")).await, before);
    };
    assert_repeated().await;
    app.clock.advance(Duration::minutes(2));
    assert_eq!(sent(put(&app, "F-1", "A third bank")).await, (200, id));
    assert_repeated().await;
    // More entries than a read of an order has.
    for number in 0..=READ_HISTORY {
        set_status(&service, id, ["ON_HOLD", "ASSIGNED"][number % 2]).await;
    }
    assert_repeated().await;
    set_status(&service, id, "SIGNED").await;
    assert_repeated().await;
    let (status, next) = sent(put(&app, "F-1", "A bank")).await;
    assert!(status == 201 && next != id);
    assert_repeated().await;
    // Another request, file number or operation is no repeat.
    let other = |request: RequestBuilder| request.header("idempotency-key", "change").send();
    for request in [
        put(&app, "F-1", "A fourth bank"),
        put(&app, "F-2", "Another bank"),
        app.post("/api/order/create").json(&order("F-1")),
    ] {
        problem(other(request).await.unwrap(), 422, "idempotency_key_reused").await;
    }
    assert_eq!(app.rows("orders"), 2);
}

async fn preconditions_permit_a_change_or_a_creation(kind: Kind) {
    let app = kind.app().await;
    let only_new = || put(&app, "F-1", "A bank").header("if-none-match", "*");
    for tag in ["*", "\"a\""] {
        let request = put(&app, "F-1", "A bank").header("if-match", tag);
        problem(request.send().await.unwrap(), 412, "precondition_failed").await;
    }
    assert_eq!(app.rows("orders"), 0);
    let (status, id) = sent(only_new()).await;
    assert_eq!(status, 201);
    problem(only_new().send().await.unwrap(), 412, "precondition_failed").await;
    let read = app.get(&format!("/api/order/{id}")).await;
    let tag = read.headers()["etag"].to_str().unwrap().to_owned();
    let with_tag = |lender: &str| put(&app, "F-1", lender).header("if-match", &tag);
    assert_eq!(sent(with_tag("Another bank")).await, (200, id));
    problem(with_tag("A bank").send().await.unwrap(), 412, "precondition_failed").await;
    let since = "Sat, 21 Nov 2026 11:59:59 GMT";
    let request = put(&app, "F-1", "A bank").header("if-unmodified-since", since);
    problem(request.send().await.unwrap(), 412, "precondition_failed").await;
    assert_eq!(history(&app, id).await.len(), 2);
    // The repeat of a creation that the header would bar now.
    let keyed = || {
        let request = put(&app, "F-2", "A bank").header("if-none-match", "*");
        request.header("idempotency-key", "a")
    };
    let first = sent(keyed()).await;
    assert_eq!(first.0, 201);
    assert_eq!(sent(keyed()).await, first);
}

/// After NFC, as macOS and others write it, and blanks around it.
async fn file_number_of_the_body_is_that_of_the_url(kind: Kind) {
    let app = kind.app().await;
    let (composed, decomposed) = ("Jos\u{e9}-1", "Jose\u{301}-1");
    let (status, id) = sent(put_body(&app, composed, &order(decomposed))).await;
    assert_eq!(status, 201);
    let mut without = order("");
    without["signingDetailsFormData"].as_object_mut().unwrap().remove("fileNumber");
    for (url, body) in [
        (decomposed, order(composed)),
        (" Jos\u{e9}-1 ", order(composed)),
        (composed, without.clone()),
        (composed, order(" ")),
    ] {
        assert_eq!(sent(put_body(&app, url, &body)).await, (200, id), "{url}");
    }
    let (status, other) = sent(put_body(&app, "F-2", &without)).await;
    assert_eq!((status, other == id), (201, false));
    let read = app.read(&format!("/api/order/{other}")).await;
    assert_eq!(read["file_number"], "F-2");
    for (url, body) in [(composed, order("F-2")), ("F-3", order("F-2"))] {
        let refused = put_body(&app, url, &body).send().await.unwrap();
        let refused = problem(refused, 400, "validation_failed").await;
        let expected = [("/signingDetailsFormData/fileNumber", "immutable")];
        assert_eq!(errors(&refused), expected);
    }
    assert_eq!((app.rows("orders"), history(&app, id).await.len()), (2, 1));
}

async fn live_and_test_keys_have_orders_of_their_own(kind: Kind) {
    let app = kind.app().await;
    let client = Some(ClientId(1));
    let terms = KeyTerms { client, is_test: true, ..KeyTerms::default() };
    let test = app.as_key(&app.issue_key_on(terms).await);
    let (_, live) = sent(put(&app, "F-1", "A bank")).await;
    let (status, tried) = sent(put(&test, "F-1", "A bank")).await;
    assert_eq!((status, tried == live), (201, false));
    for (api, id) in [(&*app, live), (&test, tried)] {
        assert_eq!(sent(put(api, "F-1", "Another bank")).await, (200, id));
    }
    // A key of a signing service changes no order of a client.
    let service = of_service(&app).await;
    problem(put(&service, "F-1", "A bank").send().await.unwrap(), 403, "forbidden").await;
    let limited = app.as_key(&app.issue_key(Some(43)).await);
    problem(put(&limited, "F-9", "A bank").send().await.unwrap(), 403, "forbidden").await;
    assert_eq!(app.rows("orders"), 2);
}
