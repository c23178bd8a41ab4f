//! Names of clients and signing services, and which services orders may name.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::service_process::{ServiceProcess, fail, output, run},
    harness::{Api, created, errors, order, problem},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    both_sides_see_the_names_of_now,
    services_are_listed_by_their_names,
    known_services_are_required_once_one_is_recorded,
}

const ADD: [&str; 5] = ["services", "add", "42", "--name=Lone Star", "--email=a@b.example.com"];

fn clients(wiring: &Wiring) -> Vec<Value> {
    let lines = run(wiring, &["clients", "list", "--json"]);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(record: &Value) -> [Value; 2] {
    ["client_name", "signing_service_name"].map(|name| record[name].clone())
}

/// Returns whether a version is still the answer.
async fn is_current(api: &Api, tag: &str) -> bool {
    let request = api.request(Method::GET, "/api/order/1").header("if-none-match", tag);
    request.send().await.unwrap().status() == 304
}

/// In each answer but that of the creation. A tag of other names is stale, and still names the version
/// that a change expects.
async fn both_sides_see_the_names_of_now(kind: Kind) {
    let wiring = kind.wiring();
    let issue = ["keys", "issue", "--name=production", "--client-name=Acme Title"];
    let key = run(&wiring, &issue).trim().to_owned();
    let client = ServiceProcess::start(&wiring, &[]).with_key(key);
    let service = run(&wiring, &["keys", "issue", "--name=s", "--for-service=42"]);
    let service = client.as_key(service.trim());
    let record = created(client.order("F-1").await).await;
    assert!(names(&record).iter().all(Value::is_null) && record.get("client_name").is_none());
    let mut tags: Vec<String> = Vec::new();
    for (command, expected) in [
        (None, [json!("Acme Title"), json!(null)]),
        (Some(&ADD[..]), [json!("Acme Title"), json!("Lone Star")]),
        (
            Some(&["clients", "rename", "1", "--name= Öl & Co "]),
            [json!("Öl & Co"), json!("Lone Star")],
        ),
        (Some(&["services", "change", "42", "--name=x"]), [json!("Öl & Co"), json!("x")]),
        (Some(&["services", "remove", "42"]), [json!("Öl & Co"), json!(null)]),
    ] {
        if let Some(command) = command {
            run(&wiring, command);
        }
        for api in [&*client, &service] {
            let order = api.get("/api/order/1").await;
            let tag = order.headers()["etag"].to_str().unwrap().to_owned();
            assert_eq!(names(&order.json().await.unwrap()), expected);
            assert_eq!(names(&api.read("/api/order").await["data"][0]), expected);
            assert!(is_current(api, &tag).await && is_current(api, &format!("W/{tag}")).await);
            for stale in &tags {
                assert_eq!(stale == &tag, is_current(api, stale).await);
            }
            tags.push(tag);
        }
    }
    let body = json!({ "order_status": "ASSIGNED" });
    let request = service.request(Method::PATCH, "/api/order/1").json(&body);
    let changed = request.header("if-match", &tags[0]).send().await.unwrap();
    assert_eq!(changed.status(), 200);
    let tag = changed.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(names(&changed.json().await.unwrap())[0], "Öl & Co");
    assert!(is_current(&client, &tag).await && !is_current(&client, &tags[9]).await);
    let listed: Value = serde_json::from_str(&run(&wiring, &["orders", "list", "--json"])).unwrap();
    assert_eq!(names(&listed), [json!("Öl & Co"), json!(null)]);
    let shown: Value = serde_json::from_str(&run(&wiring, &["orders", "show", "1"])).unwrap();
    assert_eq!(names(&shown), [json!("Öl & Co"), json!(null)]);
}

#[test]
fn operator_names_clients() {
    let wiring = Wiring::embedded();
    run(&wiring, &["keys", "issue", "--name=first"]);
    run(&wiring, &["keys", "issue", "--name=second", "--client=1"]);
    run(&wiring, &["keys", "issue", "--name=service", "--for-service=42"]);
    run(&wiring, &["keys", "issue", "--name=third", "--client-name=Acme"]);
    run(&wiring, &["keys", "rotate", "4"]);
    run(&wiring, &["keys", "revoke", "1"]);
    let found: Vec<_> = clients(&wiring)
        .iter()
        .map(|client| ["id", "name", "valid_keys"].map(|name| client[name].clone()))
        .collect();
    assert_eq!(found, [[json!(1), json!("first"), json!(1)], [json!(4), json!("Acme"), json!(2)]]);
    for id in ["2", "3", "9", "0"] {
        let error = fail(&wiring, &["clients", "rename", id, "--name=x"]);
        assert!(error.contains(&format!("there is no client {id}")), "{error}");
    }
    for wrong in [
        &["keys", "issue", "--name=x", "--client=1", "--client-name=x"][..],
        &["keys", "issue", "--name=x", "--for-service=1", "--client-name=x"],
        &["keys", "issue", "--name=x", "--client-name= "],
        &["clients", "rename", "1", "--name=a\nb"],
        &["clients", "rename", "1"],
    ] {
        assert_eq!(output(&wiring, wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// A key of a service, or one that is bound to a service, sees that alone.
async fn services_are_listed_by_their_names(kind: Kind) {
    let wiring = kind.wiring();
    let client = ServiceProcess::keyed(&wiring, &[]);
    assert_eq!(client.read("/api/services").await["data"], json!([]));
    run(&wiring, &ADD);
    for id in ["7", "9"] {
        run(&wiring, &["services", "add", id, "--name=Other", "--email=a@b.example.com"]);
    }
    let other = |id| json!({ "signing_service_id": id, "name": "Other" });
    let own = json!({ "signing_service_id": 42, "name": "Lone Star" });
    let list = client.read("/api/services").await;
    let expected = json!({
        "object": "list", "url": "/api/services", "has_more": false,
        "data": [other(7), other(9), own],
    });
    assert_eq!(list, expected);
    for terms in ["--for-service=42", "--signing-service=42"] {
        let scope = "--scope=webhooks:manage";
        let key = run(&wiring, &["keys", "issue", "--name=x", "--test", terms, scope]);
        let list = client.as_key(key.trim()).read("/api/services").await;
        assert_eq!(list["data"], json!([own]), "{terms}");
    }
    let page = client.get("/api/services?limit=1&starting_after=7").await;
    let link = page.headers()["link"].to_str().unwrap().to_owned();
    assert_eq!(
        link,
        "</api/services?limit=1&starting_after=9>; rel=\"next\", \
        </api/services?limit=1&ending_before=9>; rel=\"prev\""
    );
    assert_eq!(page.json::<Value>().await.unwrap()["data"], json!([other(9)]));
    let unknown = client.get("/api/services?starting_after=8").await;
    let unknown = problem(unknown, 400, "validation_failed").await;
    let error = &unknown["errors"][0];
    assert_eq!(
        (&error["parameter"], &error["code"]),
        (&json!("starting_after"), &json!("unknown_service"))
    );
}

/// By default as soon as one has a record. The setting requires it always or never.
async fn known_services_are_required_once_one_is_recorded(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::keyed(&wiring, &["--duplicate-window-secs=0"]);
    let create = async |api: &Api, number: i64| {
        let mut order = order("F-1");
        order["signingServiceId"] = json!(number);
        api.create(&order).await
    };
    let rejected = async |api: &Api, number| {
        let problem = problem(create(api, number).await, 400, "unknown_signing_service").await;
        assert_eq!(errors(&problem), [("/signingServiceId", "unknown_signing_service")]);
        assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("services add"));
    };
    for number in [42, 7] {
        created(create(&service, number).await).await;
    }
    run(&wiring, &ADD);
    created(create(&service, 42).await).await;
    rejected(&service, 7).await;
    run(&wiring, &["services", "add", "7", "--name=Other", "--email=a@b.example.com"]);
    created(create(&service, 7).await).await;
    rejected(&service, 8).await;
    let key = service.key.clone();
    assert_eq!(service.stop("-TERM").0, Some(0));

    for setting in ["--require-known-services=false", "--require-known-services=off"] {
        let any = ServiceProcess::start(&wiring, &[setting, "--duplicate-window-secs=0"]);
        created(create(&any.with_key(key.clone()), 8).await).await;
    }
    for number in ["7", "42"] {
        run(&wiring, &["services", "remove", number]);
    }
    for setting in [&["--require-known-services"][..], &["--require-known-services", "true"]] {
        let none = ServiceProcess::start(&wiring, &[setting, &["--drain-secs=0"]].concat());
        rejected(&none.with_key(key.clone()), 42).await;
    }
    let auto = ["--require-known-services=auto", "--duplicate-window-secs=0"];
    let auto = ServiceProcess::start(&wiring, &auto).with_key(key);
    created(create(&auto, 8).await).await;
}
