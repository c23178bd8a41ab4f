//! The lists of the commands, as tables and as JSON.

use serde_json::{Value, json};

use crate::{
    harness::service_process::{fail, run},
    harness::{TestApp, created, order},
    wiring::Wiring,
};

/// Returns the lines of a list in JSON.
fn listed(wiring: &Wiring, words: &str) -> Vec<Value> {
    let arguments: Vec<_> = words.split(' ').chain(["--json"]).collect();
    let lines = run(wiring, &arguments);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_list_is_one_json_object_a_line_on_request() {
    let app = TestApp::start().await;
    let wiring = &app.wiring;
    let issue = ["keys", "issue", "--name=it's \"a\" test", "--test", "--limit-per-second=7"];
    let key = run(wiring, &[&issue[..], &["--limit-burst=9"]].concat());
    created(app.create(&order("F-1")).await).await;
    created(app.as_key(key.trim()).create(&order("it's \"F-2\"")).await).await;
    app.mails(1).await;
    let url = "--url=https://example.com/a";
    run(wiring, &["webhooks", "create", "--client=2", "--test", url]);
    let unknown = fail(wiring, &["webhooks", "create", "--client=9", url]);
    assert!(unknown.contains("there is no client 9"), "{unknown}");
    run(wiring, &["webhooks", "test", "1"]);

    let members = |value: &Value, names: &[&str]| {
        names.iter().map(|name| value[*name].clone()).collect::<Vec<_>>()
    };
    let keys = listed(wiring, "keys list");
    assert_eq!(keys.len(), 2);
    let names = ["id", "state", "mode", "expires", "signing_service", "limit", "scopes", "name"];
    let scopes = json!(["orders:create", "orders:read"]);
    let expected = [
        json!(2),
        json!("valid"),
        json!("test"),
        Value::Null,
        Value::Null,
        json!({ "per_second": 7, "burst": 9 }),
        scopes,
        json!("it's \"a\" test"),
    ];
    assert_eq!(members(&keys[1], &names), expected);
    assert_eq!(members(&keys[0], &["id", "mode", "limit"]), [json!(1), json!("live"), Value::Null]);
    // A leaked key is found by its beginning, and revoked by it.
    let public = keys[1]["key"].as_str().unwrap().to_owned();
    assert!(key.starts_with(&format!("{public}_")), "{public}");
    let trail = listed(wiring, "keys trail");
    assert_eq!(members(&trail[1], &["key", "what"]), [json!(2), json!("issued")]);

    let orders = listed(wiring, "orders list");
    let names = ["id", "client", "mode", "documents", "status", "file_number"];
    let expected =
        [json!(2), json!(2), json!("test"), json!(0), json!("NEW"), json!("it's \"F-2\"")];
    assert_eq!((orders.len(), members(&orders[0], &names)), (2, expected.to_vec()));

    let webhooks = listed(wiring, "webhooks list");
    let names = ["id", "client", "mode", "url"];
    let expected = [json!(1), json!(2), json!("test"), json!("https://example.com/a")];
    assert_eq!((webhooks.len(), members(&webhooks[0], &names)), (1, expected.to_vec()));
    let sent = listed(wiring, "webhooks deliveries 1");
    assert_eq!(members(&sent[0], &["id", "order"]), [json!(1), Value::Null]);
    assert!(listed(wiring, "deliveries list").iter().all(|delivery| delivery["id"].is_string()));
    assert_eq!(listed(wiring, "deliveries list --failed"), [Value::Null; 0]);

    // The same words and values are in the tables.
    for (words, expected) in [
        (&["keys", "list"][..], "valid  test"),
        (&["keys", "list"], "valid  live"),
        (&["keys", "list"], "it's \"a\" test"),
        (&["orders", "list"], "it's \"F-2\""),
        (&["webhooks", "list"], "https://example.com/a"),
    ] {
        let table = run(wiring, words);
        assert!(table.contains(expected), "{expected}: {table}");
    }
    assert!(run(wiring, &["keys", "list"]).contains(&public));
    assert_eq!(run(wiring, &["keys", "revoke", &public]), "key 2 is revoked\n");
}
