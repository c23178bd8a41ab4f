//! Both sides change an order: at once, by SQL, and by the commands of operators.

mod amendments;
mod by_file_number;
mod by_sql;
mod feed;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::{
    harness::scripted_server::{Request, ScriptedServer},
    harness::service_process::{ServiceProcess, fail, issue_key, output, run},
    harness::{Api, WEBHOOKS, created, errors, eventually, problem, setting},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    each_change_by_sql_has_one_entry_and_one_event,
    one_of_concurrent_changes_of_one_version_succeeds,
    operator_updates_and_cancels_orders,
    notary_is_shown_to_both_sides_and_in_no_event,
    notes_reach_the_other_side,
}

/// Orders that each statement changes.
const ORDERS: usize = 10;

/// Default number of changes by SQL; `just changes-by-sql` makes more.
const CHANGES: usize = 100;

const UNLIMITED: [&str; 2] = ["--rate-per-second=0", "--reads-rate-per-second=0"];

/// Returns the services of a wiring, with the key of the client 1.
pub fn instances(wiring: &Wiring) -> Vec<ServiceProcess> {
    let (key, flags) = (issue_key(wiring), [&WEBHOOKS[..], &UNLIMITED].concat());
    let start = |_| ServiceProcess::start(wiring, &flags).with_key(key.clone());
    (0..wiring.instances()).map(start).collect()
}

/// Returns a service with a key of the signing service of all test orders.
pub fn as_service(wiring: &Wiring, api: &Api) -> Api {
    let key = run(wiring, &["keys", "issue", "--name=service", "--for-service=42"]);
    api.as_key(key.trim())
}

async fn patch(api: &Api, order: i64, tag: &str, body: &Value) -> Response {
    let request = api.request(Method::PATCH, &format!("/api/order/{order}")).json(body);
    request.header("if-match", tag).send().await.unwrap()
}

async fn new_order(api: &Api, file_number: &str) -> i64 {
    created(api.order(file_number).await).await["order_id"].as_i64().unwrap()
}

async fn history(api: &Api, order: i64) -> Vec<Value> {
    let read = api.read(&format!("/api/order/{order}")).await;
    read["history"].as_array().unwrap().clone()
}

/// Returns the owner, the order and the status of an event. The path of its URL is the owner.
fn event_of(request: &Request) -> (String, i64, String) {
    let owner = request.path().to_owned();
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let data = &body["data"];
    let status = data["order_status"].as_str().unwrap().to_owned();
    (owner, data["order_id"].as_i64().unwrap(), status)
}

async fn each_change_by_sql_has_one_entry_and_one_event(kind: Kind) {
    let wiring = kind.wiring();
    let receiver = ScriptedServer::start(Vec::new());
    let instances = instances(&wiring);
    for owner in ["--client=1", "--service=42"] {
        let url = format!("--url={}/{}", receiver.url(), &owner[2..8]);
        let create = ["webhooks", "create", owner, "--event=order.updated", &url];
        run(&wiring, &[&create[..], &WEBHOOKS].concat());
    }
    let mut orders = Vec::new();
    for at in 0..ORDERS {
        orders.push(new_order(&instances[at % instances.len()], &format!("F-{at}")).await);
    }
    let rounds = setting("SQL_CHANGES", CHANGES) / ORDERS;
    let statuses: Vec<String> = (0..rounds).map(|at| format!("S{at}")).collect();
    for (at, status) in statuses.iter().enumerate() {
        let notary = at + 1;
        let change = format!("UPDATE orders SET status = '{status}', notary_id = {notary}");
        // The second changes nothing.
        assert!(wiring.execute(&format!("{change}; {change}")).is_some());
    }

    let mut expected = BTreeSet::new();
    for owner in ["/client", "/servic"] {
        for &order in &orders {
            let event = |status: &String| (owner.to_owned(), order, status.clone());
            expected.extend(statuses.iter().map(event));
        }
    }
    eventually(|| receiver.requests().len() >= expected.len()).await;
    eventually(|| wiring.rows("events") == 0).await;
    let pending = "SELECT count(*) FROM webhook_deliveries WHERE delivered_at IS NULL";
    eventually(|| wiring.lines(pending) == ["0"]).await;
    let requests = receiver.requests();
    assert_eq!(requests.len(), expected.len());
    assert_eq!(requests.iter().map(event_of).collect::<BTreeSet<_>>(), expected);
    for &order in &orders {
        let history = history(&instances[0], order).await;
        let changed = statuses.iter().map(|status| (&**status, "database"));
        let expected: Vec<_> = [("NEW", "client")].into_iter().chain(changed).collect();
        let entry = |entry: &'_ Value| -> [String; 2] {
            ["order_status", "actor"].map(|name| entry[name].as_str().unwrap().to_owned())
        };
        let found: Vec<_> = history.iter().map(entry).collect();
        let found: Vec<_> = found.iter().map(|[status, actor]| (&**status, &**actor)).collect();
        assert_eq!(found, expected);
        let instants: BTreeSet<_> = history.iter().map(|it| it["at"].as_str().unwrap()).collect();
        assert_eq!(instants.len(), history.len(), "instants increase");
    }
    let mut counted = [0; 2];
    for instance in &instances {
        for (count, label) in counted.iter_mut().zip([
            r#"notary_orders_order_changes_total{actor="database"}"#,
            r#"notary_orders_order_status_entered_total{status="other"}"#,
        ]) {
            *count += instance.metric(label).await;
        }
    }
    assert_eq!(counted, [(rounds * ORDERS) as u64; 2]);
}

async fn one_of_concurrent_changes_of_one_version_succeeds(kind: Kind) {
    let wiring = kind.wiring();
    let instances = instances(&wiring);
    let order = new_order(&instances[0], "F-1").await;
    let services: Vec<_> = instances.iter().map(|it| as_service(&wiring, it)).collect();
    let tag = services[0].get(&format!("/api/order/{order}")).await;
    let tag = tag.headers()["etag"].to_str().unwrap().to_owned();
    let bodies: Vec<_> = (0..20).map(|at| json!({ "order_status": format!("S{at}") })).collect();
    let requests = bodies.iter().enumerate();
    let requests =
        requests.map(|(at, body)| patch(&services[at % services.len()], order, &tag, body));
    let mut statuses = BTreeMap::new();
    for response in join_all(requests).await {
        *statuses.entry(response.status().as_u16()).or_insert(0) += 1;
    }
    // A busy machine may not carry some out in time.
    let in_vain = statuses.remove(&503).unwrap_or_default();
    assert_eq!(statuses, BTreeMap::from([(200, 1), (412, 19 - in_vain)]));
    assert_eq!(history(&services[0], order).await.len(), 2);
}

async fn operator_updates_and_cancels_orders(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::keyed(&wiring, &[]);
    for file_number in ["F-1", "F-2"] {
        new_order(&service, file_number).await;
    }
    let orders = |arguments: &[&str]| run(&wiring, &[&["orders"], arguments].concat());
    assert_eq!(
        orders(&["update", "1", "--status=ASSIGNED", "--notary=7"]),
        "order 1 has the status ASSIGNED and the notary 7\n"
    );
    orders(&["update", "1", "--notary=none"]);
    orders(&["cancel", "1", "--reason= ill "]);
    orders(&["cancel", "1"]);
    orders(&["update", "2", "--status=SIGNED"]);
    let entry = |it: &Value| {
        let text = |name: &str| it[name].as_str().map(str::to_owned);
        (text("order_status").unwrap(), it["notary_id"].clone(), text("actor").unwrap())
    };
    let history = history(&service, 1).await;
    let of_operator =
        [("ASSIGNED", json!(7)), ("ASSIGNED", json!(null)), ("CANCELLED", json!(null))];
    let of_operator =
        of_operator.map(|(status, notary)| (status.to_owned(), notary, "operator".to_owned()));
    assert_eq!(history[1..].iter().map(entry).collect::<Vec<_>>(), of_operator);
    assert_eq!(history[3]["reason"], "ill");
    let exported: Value = serde_json::from_str(&orders(&["show", "1"])).unwrap();
    assert_eq!(exported["history"], json!(history));
    for (arguments, error) in [
        (
            ["orders", "update", "1", "--status=NEW"],
            "order 1 was not changed: the order is cancelled",
        ),
        (["orders", "cancel", "2", "--reason=x"], "order 2 was not cancelled: the order is signed"),
        (["orders", "update", "3", "--notary=1"], "there is no order 3"),
    ] {
        let found = fail(&wiring, &arguments);
        assert!(found.contains(error), "{found}");
    }
    let service_of = as_service(&wiring, &service);
    let change = json!({ "notary_id": 8 });
    let request = service_of.request(Method::PATCH, "/api/order/1").json(&change);
    problem(request.send().await.unwrap(), 409, "order_cancelled").await;
}

/// In reads and answers of changes, and in no event and no history. Another number forgets the name, by
/// SQL too.
async fn notary_is_shown_to_both_sides_and_in_no_event(kind: Kind) {
    let wiring = kind.wiring();
    let receiver = ScriptedServer::start(Vec::new());
    let flags = [&WEBHOOKS[..], &["--duplicate-window-secs=0"]].concat();
    let client = ServiceProcess::keyed(&wiring, &flags);
    let url = format!("--url={}/client", receiver.url());
    run(&wiring, &[&["webhooks", "create", "--client=1", &url], &WEBHOOKS[..]].concat());
    let service = as_service(&wiring, &client);
    let order = new_order(&client, "F-1").await;
    let pat =
        json!({ "name": "Pat Quill", "phone": "+1 555 010 0142", "email": "pat@example.com" });
    let change = async |body: Value| {
        let answer = patch(&service, order, "*", &body).await;
        assert_eq!(answer.status(), 200, "{body}");
        answer.json::<Value>().await.unwrap()
    };
    for (body, expected) in [
        (json!({ "order_status": "ASSIGNED", "notary_id": 7, "notary": pat }), &pat),
        (json!({ "order_status": "CONFIRMED", "notary_id": 7 }), &pat),
        (json!({ "notary_id": 8 }), &Value::Null),
        (json!({ "notary": pat }), &pat),
        (json!({ "notary": null }), &Value::Null),
        (json!({ "notary": { "name": "Kim" } }), &json!({ "name": "Kim" })),
    ] {
        let answer = change(body.clone()).await;
        assert_eq!(answer["notary"], *expected, "{body}");
        for api in [&*client, &service] {
            assert_eq!(api.read(&format!("/api/order/{order}")).await["notary"], *expected);
            assert_eq!(api.read("/api/order").await["data"][0]["notary"], *expected);
        }
    }
    let read = async || client.read(&format!("/api/order/{order}")).await;
    for (set, expected) in [
        ("notary_id = 9", Value::Null),
        (r#"notary_id = 10, notary = '{"name": "Lee"}'"#, json!({ "name": "Lee" })),
        ("status = 'SIGNED'", json!({ "name": "Lee" })),
        ("notary_id = NULL", Value::Null),
    ] {
        let before = read().await;
        let change = format!("UPDATE orders SET {set}");
        assert!(wiring.execute(&format!("{change}; {change}")).is_some());
        let after = read().await;
        assert_eq!(after["notary"], expected, "{set}");
        let entries = |order: &Value| order["history"].as_array().unwrap().len();
        assert_eq!(entries(&after), entries(&before) + 1, "{set}");
        assert!(after["updated_at"].as_str() > before["updated_at"].as_str());
    }
    let fault = json!({ "notary": { "name": "P", "email": "x", "mobile": 1 } });
    let fault = problem(patch(&service, order, "*", &fault).await, 400, "validation_failed").await;
    assert_eq!(
        errors(&fault),
        [("/notary/email", "invalid_format"), ("/notary/mobile", "unknown_member")]
    );
    let orders = |arguments: &[&str]| run(&wiring, &[&["orders"], arguments].concat());
    orders(&["update", "1", "--notary=11", "--notary-name=Ann", "--notary-phone=555 010 0143"]);
    assert_eq!(read().await["notary"], json!({ "name": "Ann", "phone": "555 010 0143" }));
    orders(&["update", "1", "--notary-name=none"]);
    assert_eq!(read().await["notary"], json!(null));
    let whole = read().await;
    eventually(|| receiver.requests().len() == whole["history"].as_array().unwrap().len()).await;
    let told =
        receiver.requests().into_iter().map(|it| String::from_utf8_lossy(&it.body).into_owned());
    let told = told.collect::<String>() + &whole["history"].to_string();
    for name in ["Pat", "Kim", "Lee", "Ann", "555 010", "\"notary\""] {
        assert!(!told.contains(name), "{name}: {told}");
    }
}

/// Once, with one event without the text, also when a request is repeated under its key.
async fn notes_reach_the_other_side(kind: Kind) {
    let wiring = kind.wiring();
    let receiver = ScriptedServer::start(Vec::new());
    let client = ServiceProcess::keyed(&wiring, &WEBHOOKS);
    let url = format!("--url={}/client", receiver.url());
    let create = ["webhooks", "create", "--client=1", "--event=order.note_added", &url];
    run(&wiring, &[&create[..], &WEBHOOKS].concat());
    let service = as_service(&wiring, &client);
    let order = new_order(&client, "F-1").await;
    let path = format!("/api/order/{order}/notes");
    let post = async |api: &Api, text: &str, key: &str| {
        let request = api.post(&path).json(&json!({ "text": text }));
        request.header("idempotency-key", key).send().await.unwrap()
    };
    let mut expected = Vec::new();
    for (api, text, author) in [
        (&*client, " Ring\r\ntwice. ", "client"),
        (&service, "Done.", "service"),
        (&*client, "Thanks.", "client"),
    ] {
        let key = format!("key-{}", expected.len());
        let tag = api.get(&format!("/api/order/{order}")).await.headers()["etag"].clone();
        let added = post(api, text, &key).await;
        let repeated = post(api, text, &key).await;
        assert_eq!([added.status().as_u16(), repeated.status().as_u16()], [201, 201]);
        assert_eq!(repeated.headers()["idempotency-replayed"], "true");
        assert!(!added.headers().contains_key("idempotency-replayed"));
        let added: Value = added.json().await.unwrap();
        assert_eq!(repeated.json::<Value>().await.unwrap(), added);
        assert_eq!((&added["author"], &added["text"]), (&json!(author), &json!(text.trim())));
        problem(post(api, "Another text.", &key).await, 422, "idempotency_key_reused").await;
        assert_eq!(added["by"], if author == "service" { author } else { "test" });
        assert_eq!(added.as_object().unwrap().len(), 4);
        expected.push(added);
        let read = api.get(&format!("/api/order/{order}")).await;
        assert_ne!(read.headers()["etag"], tag);
        let read: Value = read.json().await.unwrap();
        // Each side sees the names of its own people and keys.
        let seen = expected.iter().map(|note: &Value| {
            let mut note = note.clone();
            if note["author"] != author {
                note.as_object_mut().unwrap().remove("by");
            }
            note
        });
        assert_eq!(read["notes"], seen.collect::<Value>());
        assert_eq!(read["updated_at"], expected.last().unwrap()["at"]);
        if author == "service" {
            let cancel = client.post(&format!("/api/order/{order}/cancel"));
            assert_eq!(cancel.send().await.unwrap().status(), 200);
        }
    }
    run(&wiring, &["orders", "note", "1", "By phone:\nno answer"]);
    let notes = service.read(&format!("/api/order/{order}")).await["notes"].clone();
    assert_eq!(
        (&notes[3]["author"], &notes[3]["text"]),
        (&json!("operator"), &json!("By phone:\nno answer"))
    );
    let shown: Value = serde_json::from_str(&run(&wiring, &["orders", "show", "1"])).unwrap();
    // An operator sees every name, but a command has none.
    let names: Vec<_> = shown["notes"].as_array().unwrap().iter().map(|note| &note["by"]).collect();
    assert_eq!(names, [&json!("test"), &json!("service"), &json!("test"), &Value::Null]);
    assert_eq!(shown["notes"][3], notes[3]);
    eventually(|| receiver.requests().len() == 4).await;
    let mut authors = Vec::new();
    for request in receiver.requests() {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(
            (&body["type"], &body["data"]["order_id"]),
            (&json!("order.note_added"), &json!(1))
        );
        assert!(body["data"].get("text").is_none() && body["data"].get("notary_id").is_none());
        authors.push(body["data"]["author"].as_str().unwrap().to_owned());
    }
    authors.sort_unstable();
    assert_eq!(authors, ["client", "client", "operator", "service"]);

    let send = async |api: &Api, body: Value| api.post(&path).json(&body).send().await.unwrap();
    for (body, pointer, code) in [
        (json!({}), "/text", "required"),
        (json!({ "text": " \n" }), "/text", "blank"),
        (json!({ "text": "x".repeat(5_001) }), "/text", "too_long"),
        (json!({ "text": "a\u{0}" }), "/text", "invalid_characters"),
        (json!({ "text": "a", "author": "client" }), "/author", "unknown_member"),
    ] {
        let fault = problem(send(&client, body).await, 400, "validation_failed").await;
        assert_eq!(errors(&fault), [(pointer, code)]);
    }
    let more = "INSERT INTO order_notes (order_id, at, author, text) \
        SELECT id, created_at, 'client', 'x' FROM orders, \
        (VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) AS a, \
        (VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) AS b, \
        (VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) AS c LIMIT 995";
    assert!(wiring.execute(more).is_some());
    assert_eq!(send(&client, json!({ "text": "the last" })).await.status(), 201);
    problem(send(&service, json!({ "text": "x" })).await, 409, "too_many_notes").await;
    all_notes_are_in_pages(&wiring, &client, &path).await;
    let error = fail(&wiring, &["orders", "note", "1", "x"]);
    assert!(error.contains("order 1 got no note"), "{error}");
    run(&wiring, &["orders", "erase", "1", "--yes"]);
    problem(send(&service, json!({ "text": "x" })).await, 410, "erased").await;
    assert_eq!(wiring.lines("SELECT count(*) FROM order_notes WHERE text <> ''"), ["0"]);
}

/// A read has the newest ones. The operator sees all.
async fn all_notes_are_in_pages(wiring: &Wiring, client: &Api, path: &str) {
    let read = client.read("/api/order/1").await["notes"].clone();
    let (mut address, mut found) = (Some(format!("{path}?limit=90")), Vec::new());
    while let Some(page) = address {
        let page = client.get(&page).await;
        let link = page.headers().get("link").and_then(|link| link.to_str().ok());
        let next = link.and_then(|link| link.split_once(">; rel=\"next\"")?.0.strip_prefix('<'));
        address = next.map(str::to_owned);
        found.extend(page.json::<Value>().await.unwrap()["data"].as_array().unwrap().clone());
    }
    let numbers: Vec<_> = found.iter().map(|note| note["id"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (1..=1_000).rev().collect::<Vec<_>>());
    let texts = |notes: &[Value]| notes.iter().map(|it| it["text"].clone()).collect::<Vec<_>>();
    found.reverse();
    assert_eq!(texts(read.as_array().unwrap()), texts(&found[900..]));
    let shown: Value = serde_json::from_str(&run(wiring, &["orders", "show", "1"])).unwrap();
    assert_eq!(texts(shown["notes"].as_array().unwrap()), texts(&found));
}

#[test]
fn operator_keeps_the_records_of_services() {
    let wiring = Wiring::embedded();
    let services = |arguments: &[&str]| run(&wiring, &[&["services"], arguments].concat());
    let emails = ["--email=a@service.example.com", "--email=A@service.example.com"];
    let more = ["--email", "b@service.example.com", "c@service.example.com"];
    services(&[&["add", "42", "--name= Best Signings "], &emails[..], &more].concat());
    let list = || -> Value { serde_json::from_str(&services(&["list", "--json"])).unwrap() };
    let emails = ["a@service.example.com", "b@service.example.com", "c@service.example.com"];
    assert_eq!(list(), json!({ "id": 42, "name": "Best Signings", "emails": emails }));
    services(&["change", "42", "--email=d@service.example.com"]);
    services(&["change", "42", "--name=Better"]);
    let emails = ["d@service.example.com"];
    assert_eq!(list(), json!({ "id": 42, "name": "Better", "emails": emails }));
    let add = ["services", "add", "42", "--name=x", "--email=a@b.example.com"];
    assert!(fail(&wiring, &add).contains("service 42 has a record"));
    services(&["remove", "42"]);
    assert_eq!(services(&["list", "--json"]), "");
    for command in [["services", "remove", "42"], ["services", "change", "42"]] {
        let name = ["--name=x"];
        let named = if command[1] == "change" { &name[..] } else { &[] };
        let error = fail(&wiring, &[&command[..], named].concat());
        assert!(error.contains("there is no service 42"), "{error}");
    }
}

#[test]
fn wrong_arguments_exit_with_2() {
    let wiring = Wiring::embedded();
    let long = format!("--status={}", "x".repeat(51));
    let emails: Vec<_> = (0..11).map(|at| format!("--email=a{at}@b.example.com")).collect();
    let emails: Vec<_> = emails.iter().map(String::as_str).collect();
    let many = [&["services", "add", "42", "--name=x"], &emails[..]].concat();
    let wrong: [&[&str]; 21] = [
        &["orders", "note", "1", " "],
        &["orders", "update", "1", "--notary-phone=5550100"],
        &["orders", "update", "1", "--notary-name=x", "--notary-email=nobody"],
        &["orders", "update", "1", "--notary-name= "],
        &["services", "add", "0", "--name=x", "--email=a@b.example.com"],
        &["services", "add", "42", "--name=x"],
        &["services", "add", "42", "--name= ", "--email=a@b.example.com"],
        &["services", "add", "42", "--name=x", "--email=nobody"],
        &["services", "change", "42"],
        &many,
        &["keys", "issue", "--name=x", "--for-service=0"],
        &["keys", "issue", "--name=x", "--for-service=42", "--signing-service=42"],
        &["keys", "issue", "--name=x", "--for-service=42", "--client=1"],
        &["keys", "issue", "--name=x", "--for-service=42", "--scope=orders:create"],
        &["keys", "issue", "--name=x", "--scope=orders:update"],
        &["orders", "update", "1"],
        &["orders", "update", "1", "--status= "],
        &["orders", "update", "1", &long],
        &["orders", "update", "1", "--notary=0"],
        &["webhooks", "create", "--url=https://a.example.com/"],
        &["webhooks", "list", "--client=1", "--service=42"],
    ];
    for arguments in wrong {
        assert_eq!(output(&wiring, arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn key_of_a_service_is_listed_with_its_scopes() {
    let wiring = Wiring::embedded();
    run(&wiring, &["keys", "issue", "--name=service", "--for-service=42"]);
    let listed: Value = serde_json::from_str(&run(&wiring, &["keys", "list", "--json"])).unwrap();
    assert_eq!((&listed["for_service"], &listed["client"]), (&json!(42), &json!(null)));
    assert_eq!(listed["scopes"], json!(["orders:read", "orders:update"]));
}
