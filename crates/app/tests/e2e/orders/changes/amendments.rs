//! A client changes what it has said of its order.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::{as_service, event_of, history, instances, new_order, patch};
use crate::{
    harness::scripted_server::ScriptedServer,
    harness::service_process::{ServiceProcess, run},
    harness::{Api, WEBHOOKS, deed, errors, eventually, order, problem, with_documents},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    changed_fields_are_named_and_their_values_are_in_the_order_only,
    old_values_are_in_the_history_of_both_sides_until_the_erasure,
    refused_amendment_changes_nothing,
    moved_appointment_is_confirmed_no_more,
    tag_of_one_side_permits_a_change_by_the_other,
    one_of_concurrent_changes_by_both_sides_succeeds,
    amendments_at_once_with_other_changes_lose_nothing,
}

async fn put(api: &Api, id: i64, body: &Value) -> Response {
    api.request(Method::PUT, &format!("/api/order/{id}")).json(body).send().await.unwrap()
}

async fn tag(api: &Api, id: i64) -> String {
    let read = api.get(&format!("/api/order/{id}")).await;
    read.headers()["etag"].to_str().unwrap().to_owned()
}

/// Sends a request until the service takes it: on a busy machine, requests that wait for the order longer
/// than for a lock of another system are 503, and have changed nothing.
async fn accepted(send: impl AsyncFn() -> u16) -> u16 {
    loop {
        match send().await {
            503 => {}
            status => return status,
        }
    }
}

/// Returns the request of an order with another value of a signing detail.
fn with(file_number: &str, name: &str, value: impl Into<Value>) -> Value {
    let mut body = order(file_number);
    body["signingDetailsFormData"][name] = value.into();
    body
}

const DATE: [&str; 2] = ["/signingDetailsFormData/signingDate", "/utcTimeDate"];

async fn changed_fields_are_named_and_their_values_are_in_the_order_only(kind: Kind) {
    let wiring = kind.wiring();
    let receiver = ScriptedServer::start(Vec::new());
    let instances = instances(&wiring);
    for owner in ["--client=1", "--service=42"] {
        let url = format!("--url={}/{}", receiver.url(), &owner[2..8]);
        let create = ["webhooks", "create", owner, "--event=order.changed", &url];
        run(&wiring, &[&create[..], &WEBHOOKS].concat());
    }
    let client = &instances[0];
    let service = as_service(&wiring, client);
    let id = new_order(client, "F-1").await;
    let before = tag(client, id).await;
    let mut created = client.read(&format!("/api/order/{id}")).await;
    // The service does not see it.
    let by = created["history"][0].as_object_mut().unwrap().remove("by");
    assert_eq!(by, Some(json!("test")));

    let answer = put(client, id, &with("F-1", "signingDate", "2027-03-09")).await;

    assert_eq!(answer.status(), 200);
    let after = answer.headers()["etag"].to_str().unwrap().to_owned();
    let record: Value = answer.json().await.unwrap();
    assert_eq!(record["signing_date"], "2027-03-09");
    assert!(record["updated_at"].as_str() > created["updated_at"].as_str());
    assert!(before != after && after == tag(client, id).await);
    let read = service.read(&format!("/api/order/{id}")).await;
    let mut expected = created.clone();
    for pointer in DATE {
        let pointer = format!("/details{pointer}");
        *expected.pointer_mut(&pointer).unwrap() = read.pointer(&pointer).unwrap().clone();
    }
    for name in ["updated_at", "signing_date", "appointment", "history"] {
        expected[name] = read[name].clone();
    }
    assert_eq!(read, expected);
    let old = DATE.map(|pointer| (pointer, created["details"].pointer(pointer).unwrap()));
    let entry = json!({
        "at": record["updated_at"], "kind": "changed", "changed": DATE,
        "before": BTreeMap::from(old), "order_status": "NEW", "notary_id": null,
        "actor": "client", "reason": null,
    });
    assert_eq!(read["history"], json!([created["history"][0], entry]));
    let exported = run(&wiring, &["orders", "show", &id.to_string()]);
    let mut exported: Value = serde_json::from_str(&exported).unwrap();
    for entry in exported["history"].as_array_mut().unwrap() {
        // Operators see the name of the client's key, too.
        assert_eq!(entry.as_object_mut().unwrap().remove("by"), Some(json!("test")));
    }
    assert_eq!(exported["history"], read["history"]);

    eventually(|| receiver.requests().len() >= 2).await;
    for request in receiver.requests() {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body["data"]["changed"], json!(DATE));
        for text in ["2027-03-09", "2026-12-01T20:30", "before"] {
            assert!(!body.to_string().contains(text), "{body}");
        }
    }
    let owners: BTreeSet<_> = receiver.requests().iter().map(event_of).map(|it| it.0).collect();
    assert_eq!(owners, BTreeSet::from(["/client".to_owned(), "/servic".to_owned()]));

    // Again, and as it was read.
    let mut details = read["details"].clone();
    details["signingServiceId"] = json!(42);
    for same in [with("F-1", "signingDate", " 2027-03-09 "), details] {
        let answer = put(client, id, &same).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["etag"], after);
    }
    assert_eq!(service.read(&format!("/api/order/{id}")).await, read);
    eventually(|| wiring.rows("events") == 0).await;
    assert_eq!(wiring.rows("webhook_deliveries"), 2);
}

/// Also of fees, which both sides read, and after `PUT ?file_number=`. An empty field was null, and a text that is too
/// long is left out.
async fn old_values_are_in_the_history_of_both_sides_until_the_erasure(kind: Kind) {
    let wiring = kind.wiring();
    let client = ServiceProcess::keyed(&wiring, &[]);
    let service = as_service(&wiring, &client);
    let id = new_order(&client, "F-1").await;
    let changed = |city: &str, fee: f64, instructions: &str| {
        let mut body = with("F-1", "city", city);
        body["signingDetailsFormData"]["invoiceFee"] = fee.into();
        body["signingDetailsFormData"]["specialInstructions"] = instructions.into();
        body
    };
    let (long, short) = ("x".repeat(5_000), "Ring twice.");
    assert_eq!(put(&client, id, &changed("Austin", 150.25, &long)).await.status(), 200);
    assert_eq!(put(&client, id, &changed("El Paso", 175.0, short)).await.status(), 200);
    let by_number = client.request(Method::PUT, "/api/order?file_number=F-1");
    let sent = by_number.json(&changed("Waco", 0.0, short)).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    let expected = [
        json!({ "city": "Dallas", "signingCity": "Dallas", "invoiceFee": null,
            "specialInstructions": null }),
        json!({ "city": "Austin", "signingCity": "Austin", "invoiceFee": 150.25 }),
        json!({ "city": "El Paso", "signingCity": "El Paso", "invoiceFee": 175 }),
    ];
    let expected = expected.map(|values| -> Value {
        let values = values.as_object().unwrap().iter();
        let named = |(name, value): (&String, &Value)| {
            (format!("/signingDetailsFormData/{name}"), value.clone())
        };
        Value::Object(values.map(named).collect())
    });
    for side in [&*client, &service] {
        let history = history(side, id).await;
        assert_eq!(history[0].get("before"), None);
        let values: Vec<_> = history[1..].iter().map(|entry| &entry["before"]).collect();
        assert_eq!(values, expected.iter().collect::<Vec<_>>());
        let page = side.read(&format!("/api/order/{id}/history?limit=2")).await;
        let page = page["data"].as_array().unwrap();
        let values: Vec<_> = page.iter().rev().map(|entry| &entry["before"]).collect();
        assert_eq!(values, expected[1..].iter().collect::<Vec<_>>());
    }
    let left = "SELECT before FROM order_changes WHERE before IS NOT NULL";
    assert_eq!(wiring.lines(left).len(), 3);
    run(&wiring, &["orders", "erase", &id.to_string(), "--yes"]);
    assert_eq!(wiring.lines(left), [""; 0]);
}

async fn refused_amendment_changes_nothing(kind: Kind) {
    let wiring = kind.wiring();
    let client = ServiceProcess::keyed(&wiring, &[]);
    let service = as_service(&wiring, &client);
    let [id, cancelled, erased] = [
        new_order(&client, "F-1").await,
        new_order(&client, "F-2").await,
        new_order(&client, "F-3").await,
    ];
    let stale = tag(&client, id).await;
    assert_eq!(
        patch(&service, id, "*", &json!({ "order_status": "CONFIRMED" })).await.status(),
        200
    );
    let before = client.read(&format!("/api/order/{id}")).await;

    let mut other = with("F-9", "state", "Texas");
    other["signingServiceId"] = json!(43);
    let refused = problem(put(&client, id, &other).await, 400, "validation_failed").await;
    let pointers = refused["errors"].as_array().unwrap().iter();
    let pointers: Vec<_> = pointers.map(|it| (&it["pointer"], &it["code"])).collect();
    let expected = [
        ("/signingDetailsFormData/state", "invalid_format"),
        ("/signingDetailsFormData/fileNumber", "immutable"),
        ("/signingServiceId", "immutable"),
    ];
    let expected = expected.map(|(pointer, code)| (json!(pointer), json!(code)));
    assert!(pointers.into_iter().eq(expected.iter().map(|(pointer, code)| (pointer, code))));
    let body = with("F-1", "signerName", "Jane Roe");
    let request = client.request(Method::PUT, &format!("/api/order/{id}")).json(&body);
    let answer = request.header("if-match", stale).send().await.unwrap();
    problem(answer, 412, "precondition_failed").await;
    problem(put(&service, id, &body).await, 403, "forbidden").await;
    assert_eq!(client.read(&format!("/api/order/{id}")).await, before);

    for status in ["SIGNED", "DID_NOT_SIGN", "COMPLETED"] {
        let change = json!({ "order_status": status });
        assert_eq!(patch(&service, id, "*", &change).await.status(), 200);
        problem(put(&client, id, &body).await, 409, "order_closed").await;
    }
    client.post(&format!("/api/order/{cancelled}/cancel")).send().await.unwrap();
    let body = with("F-2", "signerName", "Jane Roe");
    problem(put(&client, cancelled, &body).await, 409, "order_cancelled").await;
    run(&wiring, &["orders", "erase", &erased.to_string(), "--yes"]);
    let body = with("F-3", "signerName", "Jane Roe");
    problem(put(&client, erased, &body).await, 410, "erased").await;
}

/// Its service confirms it again.
async fn moved_appointment_is_confirmed_no_more(kind: Kind) {
    let wiring = kind.wiring();
    let client = ServiceProcess::keyed(&wiring, &[]);
    let service = as_service(&wiring, &client);
    let id = new_order(&client, "F-1").await;
    let confirm = json!({ "order_status": "CONFIRMED", "notary_id": 7 });
    for (name, value, expected) in [
        ("lender", "A bank", "CONFIRMED"),
        ("signingDate", "2027-03-09", "ASSIGNED"),
        ("specificTime", "15:00", "ASSIGNED"),
        ("signingTimeType", "anytime", "ASSIGNED"),
        ("timeZoneId", "America/Denver", "ASSIGNED"),
        ("city", "Austin", "ASSIGNED"),
    ] {
        assert_eq!(patch(&service, id, "*", &confirm).await.status(), 200);
        assert_eq!(put(&client, id, &order("F-1")).await.status(), 200);
        assert_eq!(patch(&service, id, "*", &confirm).await.status(), 200);
        let before = tag(&service, id).await;
        let answer = put(&client, id, &with("F-1", name, value)).await;
        assert_eq!(answer.status(), 200);
        let after = answer.headers()["etag"].to_str().unwrap().to_owned();
        let record: Value = answer.json().await.unwrap();
        assert_eq!(record["order_status"], expected, "{name}");
        assert_eq!(record["notary_id"], 7);
        assert_eq!(after, tag(&client, id).await);
        assert_eq!(patch(&service, id, &before, &confirm).await.status(), 412);
        let history = history(&client, id).await;
        let [.., changed, last] = &history[..] else { panic!("{history:?}") };
        if expected == "ASSIGNED" {
            assert_eq!(changed["kind"], "changed");
            assert_eq!((&last["kind"], &last["actor"]), (&json!("status"), &json!("client")));
            assert_eq!(
                (&last["order_status"], &last["at"]),
                (&json!(expected), &record["updated_at"])
            );
        } else {
            assert_eq!(last["kind"], "changed");
        }
    }
    // By its file number, too.
    assert_eq!(patch(&service, id, "*", &confirm).await.status(), 200);
    let upsert = client.request(Method::PUT, "/api/order?file_number=F-1");
    let answer = upsert.json(&with("F-1", "signingDate", "2027-03-10")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.json::<Value>().await.unwrap()["order_status"], "ASSIGNED");
}

/// As when an order is created.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_members_are_ignored_and_misplaced_ones_are_named() {
    let wiring = Wiring::embedded();
    let client = ServiceProcess::keyed(&wiring, &[]);
    let id = new_order(&client, "F-1").await;
    let before = tag(&client, id).await;
    let mut body = order("F-1");
    for part in ["signingContactsFormData", "signingDetailsFormData", "requestedBy"] {
        body[part]["x-ours"] = json!({ "a": 1 });
    }
    body["orderStatus"] = json!("SIGNED");
    let answer = put(&client, id, &body).await;
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    assert_eq!(tag(&client, id).await, before);
    body["signingDetailsFormData"]["Lender"] = json!("x");
    let refused = problem(put(&client, id, &body).await, 400, "validation_failed").await;
    assert_eq!(errors(&refused), [("/signingDetailsFormData/Lender", "misplaced_member")]);
    assert_eq!(tag(&client, id).await, before);
}

async fn tag_of_one_side_permits_a_change_by_the_other(kind: Kind) {
    let wiring = kind.wiring();
    let client = ServiceProcess::keyed(&wiring, &[]);
    let service = as_service(&wiring, &client);
    let id = new_order(&client, "F-1").await;
    let body = with("F-1", "signerName", "Jane Roe");
    let request = client.request(Method::PUT, &format!("/api/order/{id}")).json(&body);
    let answer = request.header("if-match", tag(&service, id).await).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let tag = tag(&client, id).await;
    let answer = patch(&service, id, &tag, &json!({ "notary_id": 7 })).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(history(&client, id).await.len(), 3);
}

/// Whichever instance they reach. The tag of the one that succeeds permits the next change.
async fn one_of_concurrent_changes_by_both_sides_succeeds(kind: Kind) {
    let wiring = kind.wiring();
    let instances = instances(&wiring);
    let (first, last) = (&instances[0], &instances[instances.len() - 1]);
    let (id, service) = (new_order(first, "F-1").await, as_service(&wiring, last));
    for round in 0..5 {
        let tag = tag(if round % 2 == 0 { &service } else { first }, id).await;
        let requests = (0..16).map(async |at| {
            let send = async || {
                if at % 2 == 0 {
                    let body = with("F-1", "lender", format!("Lender {round} {at}"));
                    let request = first.request(Method::PUT, &format!("/api/order/{id}"));
                    let request = request.json(&body).header("if-match", &tag);
                    request.send().await.unwrap().status().as_u16()
                } else {
                    let body = json!({ "order_status": format!("S{round} {at}") });
                    patch(&service, id, &tag, &body).await.status().as_u16()
                }
            };
            (at, accepted(send).await)
        });
        let answers = join_all(requests).await;
        let succeeded: Vec<_> = answers.iter().filter(|(_, status)| *status == 200).collect();
        assert_eq!(succeeded.len(), 1, "{answers:?}");
        assert!(answers.iter().all(|(_, status)| [200, 412].contains(status)), "{answers:?}");
        let read = last.read(&format!("/api/order/{id}")).await;
        let at = succeeded[0].0;
        if at % 2 == 0 {
            let lender = &read["details"]["signingDetailsFormData"]["lender"];
            assert_eq!(*lender, json!(format!("Lender {round} {at}")));
        } else {
            assert_eq!(read["order_status"], json!(format!("S{round} {at}")));
        }
        assert_eq!(read["history"].as_array().unwrap().len(), round + 2);
    }
}

/// Each request of both sides is one entry and one event, until the order is cancelled and erased.
async fn amendments_at_once_with_other_changes_lose_nothing(kind: Kind) {
    let wiring = kind.wiring();
    let instances = instances(&wiring);
    let id = new_order(&instances[0], "F-1").await;
    let services: Vec<_> = instances.iter().map(|it| as_service(&wiring, it)).collect();
    let send = async |at: usize| {
        let client: &Api = &instances[at % instances.len()];
        let service: &Api = &services[at % services.len()];
        let response = match at % 3 {
            0 => put(client, id, &with("F-1", "lender", format!("Lender {at}"))).await,
            1 => patch(service, id, "*", &json!({ "order_status": format!("S{at}") })).await,
            _ => {
                let form = with_documents(reqwest::multipart::Form::new(), 1, &deed());
                let add = client.post(&format!("/api/order/{id}/documents"));
                add.multipart(form).send().await.unwrap()
            }
        };
        response.status().as_u16()
    };
    let requests = (0..24).map(async |at| accepted(async || send(at).await).await);
    let mut statuses = BTreeMap::new();
    for status in join_all(requests).await {
        *statuses.entry(status).or_insert(0) += 1;
    }
    assert_eq!(statuses, BTreeMap::from([(200, 16), (201, 8)]));
    let history = history(&instances[0], id).await;
    let kinds = |kind: &str| history.iter().filter(|entry| entry["kind"] == kind).count();
    assert_eq!((kinds("changed"), kinds("status"), history.len()), (8, 8, 17));
    let read = instances[0].read(&format!("/api/order/{id}")).await;
    assert_eq!(read["documents_uploaded"], 8);
    assert_eq!(read["order_status"], history[16]["order_status"]);

    // A change that comes after the cancellation or the erasure is refused.
    let racing = (0..12).map(async |at| {
        let client = &instances[at % instances.len()];
        let send = async || {
            let response = if at == 6 {
                client.post(&format!("/api/order/{id}/cancel")).send().await.unwrap()
            } else {
                put(client, id, &with("F-1", "lender", format!("Other {at}"))).await
            };
            response.status().as_u16()
        };
        (at, accepted(send).await)
    });
    let answers = join_all(racing).await;
    let changed = answers.iter().filter(|(at, status)| *at != 6 && *status == 200).count();
    assert!(answers.iter().all(|(_, status)| [200, 409].contains(status)), "{answers:?}");
    let history = super::history(&instances[0], id).await;
    assert_eq!(history.len(), 17 + changed + 1);
    assert_eq!(history.last().unwrap()["order_status"], "CANCELLED");
}
