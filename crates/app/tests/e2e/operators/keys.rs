//! API keys: the commands of operators and the requests of clients.

use std::process::Command;

use domain::{order::OrderId, use_cases::keys::manage_keys::KeyTerms};
use serde_json::{Value, json};

use crate::{
    harness::service_process::{
        ServiceProcess, error_of, fail, notary_orders, on_a_terminal, output, run, text,
    },
    harness::{WEBHOOKS, created, eventually, form_with_deed, order, problem},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    rotated_key_is_valid_for_grace_period,
    key_is_issued_with_scopes_for_a_client,
    trail_names_the_operator_of_each_change,
    list_shows_last_use_of_keys,
    last_use_before_stop_is_stored,
    test_key_creates_orders_without_mails,
    revoked_key_names_its_webhooks_and_takes_them_along,
}

/// Returns the key that a command prints. It prints nothing else, so that a script can use it.
fn key(printed: &str) -> String {
    assert_eq!(printed.lines().count(), 1, "{printed}");
    printed.trim().to_owned()
}

fn issue(wiring: &Wiring, flags: &[&str]) -> String {
    key(&run(wiring, &[&["keys", "issue"], flags].concat()))
}

/// Returns the keys, in the order in which they were issued.
fn listed(wiring: &Wiring) -> Vec<Value> {
    let printed = run(wiring, &["keys", "list", "--json"]);
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the identifier of the key that was issued last.
fn newest_id(wiring: &Wiring) -> i64 {
    listed(wiring).last().unwrap()["id"].as_i64().unwrap()
}

#[test]
fn list_of_keys_is_whole_in_a_pipe_and_fits_a_terminal() {
    let wiring = Wiring::embedded();
    let long = "é".repeat(100);
    issue(&wiring, &["--name", &long, "--client-name", &long, "--test"]);
    let acme = issue(&wiring, &["--name=portal", "--client-name=Acme Title"]);
    issue(&wiring, &["--name=second", "--client=2"]);
    issue(&wiring, &["--name=dispatch", "--for-service=42"]);
    let table = run(&wiring, &["keys", "list"]);
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("NAME "), "{table}");
    assert!(lines[1].starts_with(&long) && lines[1].contains(&format!(" 1 {long} ")), "{table}");
    for (line, name, client) in [
        (2, "portal ", "2 Acme Title "),
        (3, "second ", "2 Acme Title "),
        (4, "dispatch ", "service 42 "),
    ] {
        assert!(lines[line].starts_with(name) && lines[line].contains(client), "{table}");
    }
    let public = lines[2].split_whitespace().nth(1).unwrap();
    assert!(acme.starts_with(&format!("{public}_")), "{table}");
    assert_eq!(listed(&wiring)[2]["client_name"], "Acme Title");

    let mut terminal = on_a_terminal(&notary_orders(&wiring, &["keys", "list"]));
    let shown = text(terminal.output().unwrap());
    assert!(shown.contains('…') && !shown.contains(&long), "{shown}");
    assert!(shown.lines().all(|line| line.trim_end().chars().count() <= 100), "{shown}");

    // The old key of a rotation ends soon.
    run(&wiring, &["keys", "rotate", "2"]);
    let table = run(&wiring, &["keys", "list"]);
    let end = listed(&wiring)[1]["expires"].as_str().unwrap()[..16].replace('T', " ");
    assert!(table.lines().nth(2).unwrap().contains(&format!(" {end}Z ")), "{end} {table}");
}

async fn rotated_key_is_valid_for_grace_period(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::start(&wiring, &[]);
    let terms = ["--signing-service=42", "--limit-per-second=7", "--limit-burst=9"];
    let old = issue(&wiring, &[&["--name=title company"], &terms[..]].concat());
    let id = newest_id(&wiring).to_string();
    let rotated = output(&wiring, &["keys", "rotate", &id, "--grace-hours", "2"]);
    let note = String::from_utf8(rotated.stderr.clone()).unwrap();
    let new = key(&text(rotated));
    assert!(note.contains(&format!("the successor of key {id}, which is valid until ")), "{note}");
    for (at, key) in [&old, &new].into_iter().enumerate() {
        created(service.as_key(key).order(&format!("F-{at}")).await).await;
    }
    let new = service.as_key(&new);
    // The new key has the terms of the old one.
    let limited = new.order("F-2").await;
    assert_eq!(limited.headers()["ratelimit-policy"], r#""orders";q=9;w=2"#);
    let mut of_other_service = order("F-3");
    of_other_service["signingServiceId"] = 43.into();
    let forbidden = new.create(&of_other_service).await;
    let challenge = r#"Bearer realm="notary-orders", error="insufficient_scope""#;
    assert_eq!(forbidden.headers()["www-authenticate"], challenge);
    problem(forbidden, 403, "forbidden").await;

    let last = key(&run(&wiring, &["keys", "rotate", &id, "--grace-hours", "0"]));
    service.rejects(&old).await;
    created(new.order("F-5").await).await;
    created(service.as_key(&last).order("F-6").await).await;
    // The old key had no expiry before its rotation, so the newest has none.
    let newest = listed(&wiring).pop().unwrap();
    assert_eq!(newest["expires"], Value::Null);
    let expired = fail(&wiring, &["keys", "rotate", &id]);
    assert!(expired.contains("is revoked or expired"), "{expired}");
    let unknown = fail(&wiring, &["keys", "rotate", "999"]);
    assert!(unknown.contains("there is no key 999"), "{unknown}");
}

/// Returns the client and the scopes of the key that was issued last.
fn newest_client_and_scopes(wiring: &Wiring) -> [String; 2] {
    let newest = listed(wiring).pop().unwrap();
    let scopes = newest["scopes"].as_array().unwrap().iter();
    let scopes: Vec<_> = scopes.map(|scope| scope.as_str().unwrap()).collect();
    [newest["client"].to_string(), scopes.join(",")]
}

async fn key_is_issued_with_scopes_for_a_client(kind: Kind) {
    let wiring = kind.wiring();
    issue(&wiring, &["--name=first"]);
    assert_eq!(newest_client_and_scopes(&wiring), ["1", "orders:create,orders:read"]);
    let scopes = ["--scope=webhooks:manage", "--scope=orders:read"];
    issue(&wiring, &[&["--name=second", "--client=1"], &scopes[..]].concat());
    assert_eq!(newest_client_and_scopes(&wiring), ["1", "orders:read,webhooks:manage"]);
    // A rotation keeps both.
    key(&run(&wiring, &["keys", "rotate", "2"]));
    assert_eq!(newest_client_and_scopes(&wiring), ["1", "orders:read,webhooks:manage"]);
    let issue_wrongly = |flag| fail(&wiring, &["keys", "issue", "--name=wrong", flag]);
    let unknown = issue_wrongly("--client=2");
    assert!(unknown.contains("there is no client 2"), "{unknown}");
    let unknown = issue_wrongly("--scope=orders:delete");
    assert!(
        unknown.contains("orders:create, orders:read, orders:update, webhooks:manage"),
        "{unknown}"
    );
    assert_eq!(listed(&wiring).len(), 3);
}

async fn trail_names_the_operator_of_each_change(kind: Kind) {
    let wiring = kind.wiring();
    let by = |uid: &str, arguments: &[&str]| {
        let mut command = notary_orders(&wiring, arguments);
        // What users may set themselves does not count.
        for variable in ["SUDO_USER", "USER", "LOGNAME"] {
            command.env(variable, "forged");
        }
        text(command.env("SUDO_UID", uid).output().unwrap())
    };
    by("1", &["keys", "issue", "--name", "title company"]);
    by("4294967000", &["keys", "rotate", "1", "--grace-hours", "1"]);
    by("0", &["keys", "revoke", "1"]);
    let trail = run(&wiring, &["keys", "trail"]);
    let lines: Vec<Vec<&str>> =
        trail.lines().skip(1).map(|line| line.split_whitespace().skip(1).collect()).collect();
    let name = |user: &str| text(Command::new("id").args(["-un", user]).output().unwrap());
    let (own, first) = (text(Command::new("id").arg("-un").output().unwrap()), name("1"));
    let (own, first) = (own.trim(), first.trim());
    // Only what root's `sudo` has set counts.
    let expected = |asker: &str| match own {
        "root" => format!("{asker} as root"),
        own => own.to_owned(),
    };
    let words = |change: &str, by: &str| format!("{change} {by}");
    assert_eq!(
        lines.iter().map(|line| line.join(" ")).collect::<Vec<_>>(),
        [
            words("1 issued", &expected(first)),
            words("2 issued", &expected("user 4294967000")),
            words("1 rotated to key 2", &expected("user 4294967000")),
            words("1 revoked", own),
        ],
        "{trail}"
    );
}

async fn list_shows_last_use_of_keys(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::start(&wiring, &[]);
    let used = issue(&wiring, &["--name=used"]);
    issue(&wiring, &["--name=unused", "--test"]);
    let lines_of = |name: &str| -> Vec<String> {
        let table = run(&wiring, &["keys", "list"]);
        let named = table.lines().filter(|line| line.starts_with(&format!("{name} ")));
        named.map(str::to_owned).collect()
    };
    let is_unused = |name| lines_of(name).iter().all(|line| line.ends_with("  never"));
    assert!(is_unused("used"));
    created(service.as_key(&used).order("F-1").await).await;
    eventually(|| !is_unused("used")).await;
    assert!(is_unused("unused") && lines_of("unused")[0].contains(" test "));
    service.stop("-TERM");
}

async fn last_use_before_stop_is_stored(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    let (keys, used_at) = (app.storage().keys.clone(), domain::ports::Clock::now(&*app.clock));
    app.stop().await;
    assert_eq!(keys.list().await.unwrap()[0].last_used_at, Some(used_at));
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_needs_rate_and_burst() {
    let wiring = Wiring::embedded();
    for flag in [
        "--limit-per-second",
        "--limit-burst",
        "--documents-limit-per-second",
        "--documents-limit-burst",
    ] {
        let rejected = fail(&wiring, &["keys", "issue", "--name", "x", flag, "5"]);
        assert!(rejected.contains("required"), "{flag}: {rejected}");
        fail(&wiring, &["keys", "issue", "--name", "x", flag, "0"]);
    }
}

async fn test_key_creates_orders_without_mails(kind: Kind) {
    let app = kind.app().await;
    let key = app.issue_key_on(KeyTerms { is_test: true, ..KeyTerms::default() }).await;
    assert!(key.starts_with("nok_test_"));
    let test = app.as_key(&key);
    let record = created(test.order("F-1").await).await;
    let documents = created(test.create_with(form_with_deed("F-2")).await).await;
    assert_eq!(
        (&record["order_status"], &documents["documents_uploaded"]),
        (&"NEW".into(), &1.into())
    );
    problem(test.order("F-1").await, 409, "duplicate_order").await;
    problem(test.create(&json!({})).await, 400, "validation_failed").await;
    // Test orders and real orders do not share file numbers.
    let real = created(app.order("F-1").await).await;
    let members = |record: &Value| record.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(members(&real), members(&record));
    let is_test = async |record: &Value| {
        let id = OrderId(record["order_id"].as_i64().unwrap());
        app.stored_order(id).await.unwrap().is_test
    };
    assert!(is_test(&record).await && is_test(&documents).await && !is_test(&real).await);
    let mails = app.mails(1).await;
    assert!(mails[0].contains("F-1"));
    app.mails_leave().await;
    app.assert_metrics(&[
        r#"notary_orders_orders_created_total{operation="json"} 1"#,
        r#"notary_orders_test_orders_created_total{operation="json"} 1"#,
        r#"notary_orders_test_orders_created_total{operation="multipart"} 1"#,
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn misleading_key_names_are_rejected() {
    let wiring = Wiring::embedded();
    let too_long = "x".repeat(101);
    for name in ["", " ", "two\nlines", "a\u{2028}b", "\u{202e}evil", "\u{200b}", &too_long] {
        let rejected = fail(&wiring, &["keys", "issue", "--name", name]);
        assert!(rejected.contains("--name"), "{name:?}: {rejected}");
    }
    issue(&wiring, &["--name", &"é".repeat(100)]);
    assert_eq!(listed(&wiring).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unprinted_key_is_named_for_revocation() {
    let wiring = Wiring::embedded();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = notary_orders(&wiring, &["keys", "issue", "--name", "lost"]);
    let failed = error_of(command.stdout(full).output().unwrap());
    assert!(failed.contains("key 1 was issued and could not be shown; revoke it"), "{failed}");
}

/// Those of other keys of the client stay, until its last key is revoked.
async fn revoked_key_names_its_webhooks_and_takes_them_along(kind: Kind) {
    let wiring = kind.wiring();
    let scopes = ["--scope=webhooks:manage", "--scope=orders:read"];
    let first = issue(&wiring, &[&["--name=first"], &scopes[..]].concat());
    let client = format!("--client={}", newest_client_and_scopes(&wiring)[0]);
    let second = issue(&wiring, &[&["--name=second", &*client], &scopes[..]].concat());
    let id = newest_id(&wiring);
    let (first_id, second_id) = ((id - 1).to_string(), id.to_string());
    let service = ServiceProcess::start(&wiring, &WEBHOOKS);
    let mut paths = Vec::new();
    for key in [&first, &second] {
        let webhook = json!({ "url": "http://127.0.0.1:9009/hook" });
        let response = service.as_key(key).post("/api/webhooks").json(&webhook).send().await;
        paths.push(created(response.unwrap()).await["id"].to_string());
    }
    let states = || async {
        let list = service.as_key(&second).read("/api/webhooks").await;
        let all = list["data"].as_array().unwrap().clone();
        all.iter().map(|one| one["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let revoke = |arguments: &[&str]| {
        let output = output(&wiring, &[&["keys", "revoke"], arguments].concat());
        let note = String::from_utf8(output.stderr.clone()).unwrap();
        assert!(text(output).contains("is revoked"));
        note
    };
    let note = revoke(&[&first_id]);
    assert!(note.contains(&format!("webhook endpoint {} (http://", paths[0])), "{note}");
    assert!(note.contains("--webhooks") && note.lines().count() == 1, "{note}");
    assert_eq!(states().await, ["enabled", "enabled"]);
    let note = revoke(&[&first_id, "--webhooks"]);
    assert!(
        note.contains(&format!("endpoint {}", paths[0])) && note.contains("disabled"),
        "{note}"
    );
    assert_eq!(states().await, ["disabled", "enabled"]);
    let note = revoke(&[&second_id]);
    assert!(
        note.contains(&format!("endpoint {}", paths[1])) && note.contains("disabled"),
        "{note}"
    );
    let disabled = run(&wiring, &["webhooks", "list"]);
    assert_eq!(disabled.lines().filter(|line| line.contains("disabled")).count(), 2, "{disabled}");
}
