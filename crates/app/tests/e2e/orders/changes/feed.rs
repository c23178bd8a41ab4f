//! The feed of changes over the API: what a program needs to keep its own table right.

use std::collections::BTreeMap;

use reqwest::{Method, multipart::Form};
use serde_json::{Value, json};

use super::{as_service, instances, new_order};
use crate::{
    harness::scripted_server::ScriptedServer,
    harness::service_process::run,
    harness::{Api, WEBHOOKS, created, deed, eventually, order, problem, with_documents},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    both_sides_see_every_change_once,
    erasure_is_the_last_change_and_an_event,
    mirror_is_equal_to_the_orders_after_concurrent_changes,
}

const CHANGES: &str = "/api/order/changes";

/// Returns the changes behind a cursor, in pages of a size, and the cursor behind them.
async fn changes(api: &Api, mut after: String, limit: usize) -> (Vec<Value>, String) {
    let mut found = Vec::new();
    loop {
        let page = api.read(&format!("{CHANGES}?limit={limit}&after={after}")).await;
        found.extend(page["data"].as_array().unwrap().iter().cloned());
        page["next_after"].as_str().unwrap().clone_into(&mut after);
        if page["has_more"] == false {
            return (found, after);
        }
    }
}

/// Returns the kind and the status of each change of an order.
fn of_order(changes: &[Value], id: i64) -> Vec<(&str, &str)> {
    let own = changes.iter().filter(|change| change["order_id"] == id);
    own.map(|one| (one["kind"].as_str().unwrap(), one["order_status"].as_str().unwrap())).collect()
}

async fn now(api: &Api) -> String {
    let page = api.read(&format!("{CHANGES}?after=now")).await;
    assert_eq!((&page["data"], &page["has_more"]), (&json!([]), &json!(false)));
    page["next_after"].as_str().unwrap().to_owned()
}

/// Also those by SQL, by a command of the operator and by another instance.
async fn both_sides_see_every_change_once(kind: Kind) {
    let wiring = kind.wiring();
    let instances = instances(&wiring);
    let (client, other): (&Api, &Api) = (&instances[0], &instances[instances.len() - 1]);
    let service = as_service(&wiring, client);
    let first = new_order(client, "F-1").await;
    let begin = now(&service).await;
    let id = new_order(other, "F-2").await;
    let path = format!("/api/order/{id}");
    let form = || with_documents(Form::new(), 2, &deed());
    let documents = format!("{path}/documents");
    created(client.post(&documents).multipart(form()).send().await.unwrap()).await;
    let signed = format!("{path}/signed-documents");
    created(service.post(&signed).multipart(form()).send().await.unwrap()).await;
    let note = json!({ "text": "x" });
    created(service.post(&format!("{path}/notes")).json(&note).send().await.unwrap()).await;
    let mut changed = order("F-2");
    changed["requestedBy"]["userId"] = json!(4711);
    let changed = other.request(Method::PUT, &path).json(&changed).send().await.unwrap();
    assert_eq!(changed.status(), 200);
    let assigned = service.request(Method::PATCH, &path).json(&json!({ "notary_id": 7 }));
    assert_eq!(assigned.send().await.unwrap().status(), 200);
    assert!(
        wiring.execute(&format!("UPDATE orders SET status = 'on hold' WHERE id = {id}")).is_some()
    );
    run(&wiring, &["orders", "cancel", &id.to_string()]);

    let expected = [
        ("created", "NEW"),
        ("documents_added", "NEW"),
        ("signed_documents_added", "NEW"),
        ("note_added", "NEW"),
        ("changed", "NEW"),
        ("status", "NEW"),
        ("status", "ON_HOLD"),
        ("status", "CANCELLED"),
    ];
    for api in [client, other, &service] {
        for limit in [1, 3, 100] {
            let (found, next) = changes(api, begin.clone(), limit).await;
            assert_eq!(of_order(&found, id), expected);
            assert_eq!(found.len(), expected.len());
            assert_eq!(changes(api, next.clone(), limit).await, (vec![], next));
        }
        let whole = changes(api, "0-0".to_owned(), 100).await.0;
        assert_eq!(of_order(&whole, first), [("created", "NEW")]);
    }
    let entry = &changes(&service, begin, 1).await.0[0];
    let read = client.read(&path).await;
    assert_eq!((&entry["file_number"], &entry["at"]), (&json!("F-2"), &read["created_at"]));
    let members: Vec<_> = entry.as_object().unwrap().keys().collect();
    assert_eq!(members.len(), 8, "{members:?}");
    let unknown = client.get(&format!("{CHANGES}?after=999-999")).await;
    let unknown = problem(unknown, 400, "validation_failed").await;
    assert_eq!(unknown["errors"][0]["code"], "unknown_cursor");
}

async fn erasure_is_the_last_change_and_an_event(kind: Kind) {
    let wiring = kind.wiring();
    let receiver = ScriptedServer::start(Vec::new());
    let instances = instances(&wiring);
    let client: &Api = &instances[0];
    let service = as_service(&wiring, client);
    for owner in ["--client=1", "--service=42"] {
        let url = format!("--url={}/{}", receiver.url(), &owner[2..8]);
        let create = ["webhooks", "create", owner, "--event=order.erased", &url];
        run(&wiring, &[&create[..], &WEBHOOKS].concat());
    }
    let [erased, kept] = [new_order(client, "F-1").await, new_order(client, "F-2").await];
    let (_, seen) = changes(client, "0-0".to_owned(), 100).await;
    eventually(|| wiring.rows("events") == 0).await;
    run(&wiring, &["orders", "erase", &erased.to_string(), "--yes"]);

    for api in [client, &service] {
        let (found, _) = changes(api, seen.clone(), 100).await;
        assert_eq!(of_order(&found, erased), [("erased", "NEW")]);
        assert_eq!((found.len(), &found[0]["file_number"]), (1, &Value::Null));
        let (whole, _) = changes(api, "0-0".to_owned(), 100).await;
        assert_eq!(of_order(&whole, erased), [("erased", "NEW")]);
        assert_eq!(of_order(&whole, kept), [("created", "NEW")]);
    }
    eventually(|| receiver.requests().len() >= 2).await;
    let bodies: BTreeMap<_, Value> = receiver
        .requests()
        .iter()
        .map(|it| (it.path().to_owned(), serde_json::from_slice(&it.body).unwrap()))
        .collect();
    assert_eq!(bodies.keys().collect::<Vec<_>>(), ["/client", "/servic"]);
    for body in bodies.values() {
        assert_eq!(body["type"], "order.erased");
        assert_eq!(body["data"], json!({ "order_id": erased, "is_test": false }));
    }
    let pending = "SELECT count(*) FROM webhook_deliveries WHERE delivered_at IS NULL";
    eventually(|| wiring.lines(pending) == ["0"]).await;
}

/// Eight writers on all instances, and another system that writes SQL.
async fn mirror_is_equal_to_the_orders_after_concurrent_changes(kind: Kind) {
    const WRITERS: usize = 8;
    const ORDERS: usize = 6;
    let wiring = kind.wiring();
    let instances = instances(&wiring);
    let apis: Vec<Api> = instances.iter().map(|instance| (**instance).clone()).collect();
    let writing: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let api = apis[writer % apis.len()].clone();
            tokio::spawn(async move {
                for number in 0..ORDERS {
                    let id = new_order(&api, &format!("W-{writer}-{number}")).await;
                    let note = json!({ "text": "x" });
                    let notes = format!("/api/order/{id}/notes");
                    for _ in 0..number % 3 {
                        created(api.post(&notes).json(&note).send().await.unwrap()).await;
                    }
                }
            })
        })
        .collect();
    // What a mirror keeps: the number of changes of each order, and its status.
    let mut mirror: BTreeMap<i64, (usize, String)> = BTreeMap::new();
    let (mut after, mut turn) = ("0-0".to_owned(), 0);
    loop {
        let is_last_look = writing.iter().all(tokio::task::JoinHandle::is_finished);
        if is_last_look && turn % 2 == 0 {
            let status = "UPDATE orders SET status = 'S' || id WHERE id % 5 = 0 AND status = 'NEW'";
            assert!(wiring.execute(status).is_some());
        }
        let (found, next) = changes(&apis[turn % apis.len()], after, 7).await;
        for change in &found {
            let id = change["order_id"].as_i64().unwrap();
            let entry = mirror.entry(id).or_default();
            entry.0 += 1;
            change["order_status"].as_str().unwrap().clone_into(&mut entry.1);
        }
        (after, turn) = (next, turn + 1);
        if is_last_look && found.is_empty() {
            break;
        }
    }
    for task in writing {
        task.await.unwrap();
    }
    assert_eq!(mirror.len(), WRITERS * ORDERS);
    for (id, (count, status)) in mirror {
        let read = apis[0].read(&format!("/api/order/{id}")).await;
        let expected =
            read["history"].as_array().unwrap().len() + read["notes"].as_array().unwrap().len();
        assert_eq!((count, &json!(status)), (expected, &read["order_status"]), "{id}");
    }
}
