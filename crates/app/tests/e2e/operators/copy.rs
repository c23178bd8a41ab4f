//! The command that copies an embedded database to PostgreSQL.

use std::fs;

use contract_tests::samples::{by_passkey, new_session};
use domain::{
    person::{Identity, PersonId, Token},
    ports::{Clock as _, NewMethod},
};
use operator::{SystemClock, adapters::Storage};
use serde_json::{Value, json};

use crate::{
    harness::documents::{assert_documents_are_left, work_on_documents},
    harness::service_process::{ServiceProcess, fail, output, run},
    harness::{LONG_WINDOW, created, deed, eventually, problem, settings},
    wiring::Wiring,
};

#[tokio::test(flavor = "multi_thread")]
async fn copied_database_serves_the_same_service() {
    let wiring = Wiring::production_without_tables();
    let from = format!("sqlite://{}", wiring.data().join("orders.sqlite").display());
    let embedded = format!("--database-url={from}");
    let key = run(&wiring, &[&embedded, "keys", "issue", "--name", "test"]).trim().to_owned();
    let service = ServiceProcess::start(&wiring, &[&embedded, LONG_WINDOW]).with_key(key.clone());
    wiring.break_mail();
    created(service.order("F-1").await).await;
    created(service.order_with_deed("F-2").await).await;
    let listed = || run(&wiring, &[&embedded, "deliveries", "list"]);
    eventually(|| listed().lines().count() == 3).await;
    let issue = ["keys", "issue", "--name=service", "--for-service=42"];
    let of_service = run(&wiring, &[&[&*embedded][..], &issue].concat());
    work_on_documents(&service, &service.as_key(of_service.trim()), "/api/order/2").await;
    let documents = service.read("/api/order/2").await;
    let changes = service.read("/api/order/changes?limit=100").await;
    let cursor = changes["next_after"].as_str().unwrap();
    assert_eq!(service.stop("-TERM").0, Some(0));
    let add = ["services", "add", "42", "--name=x", "--email=dispatch@service.example.com"];
    run(&wiring, &[&[&*embedded][..], &add].concat());
    run(
        &wiring,
        &[
            &embedded,
            "orders",
            "change",
            "1",
            "--status=ASSIGNED",
            "--notary=7",
            "--notary-name=Pat",
        ],
    );
    run(&wiring, &[&embedded, "orders", "note", "1", "two\nlines"]);

    let to = wiring.servers().database_url();
    let printed = run(&wiring, &["copy", "--from", &from, "--to", &to]);
    let lines: Vec<Vec<_>> = printed.lines().map(|it| it.split_whitespace().collect()).collect();
    let row = |text: &str| lines.iter().any(|line| *line == text.split(' ').collect::<Vec<_>>());
    for expected in [
        "COPIED ROWS",
        "signing services 1",
        "orders 2",
        "changes of orders 5",
        "notes of orders 1",
        "documents 4",
        "deliveries 3",
        "webhooks 0",
        "API keys 2",
    ] {
        assert!(row(expected), "{expected}: {printed}");
    }
    for table in ["orders", "documents", "deliveries", "api_keys"] {
        assert!(wiring.rows(table) > 0, "{table}");
    }
    let repeated = fail(&wiring, &["copy", "--from", &from, "--to", &to]);
    assert!(
        repeated
            .starts_with("error: the target is not empty: it has signing services: 1, orders: 2"),
        "{repeated}"
    );

    wiring.mend_mail();
    let service = ServiceProcess::start(&wiring, &[LONG_WINDOW]).with_key(key);
    problem(service.order("F-1").await, 409, "duplicate_order").await;
    let order = service.read("/api/order/1").await;
    let assigned = json!({ "order_status": "ASSIGNED", "notary_id": 7, "actor": "operator" });
    for (name, value) in assigned.as_object().unwrap() {
        assert_eq!(&order["history"][1][name], value);
    }
    assert_eq!(order["notary"], json!({ "name": "Pat" }));
    assert_eq!(order["notes"][0]["text"], "two\nlines");
    run(&wiring, &["orders", "update", "1", "--status=CONFIRMED"]);
    let order = service.read("/api/order/1").await;
    assert_eq!(order["history"][2]["order_status"], "CONFIRMED");
    assert_eq!(created(service.order("F-3").await).await["order_id"], 3);
    // The source may go on, so the copy waits.
    assert_eq!(service.readiness().await.1["messages"], "waiting");
    run(&wiring, &["adopt"]);
    // The third order has a mail to the service, too.
    wiring.servers().wait_for_mails(4).await;
    eventually(|| wiring.pending_mails() == 0).await;
    let later = service.read(&format!("/api/order/changes?after={cursor}")).await;
    let later = later["data"].as_array().unwrap().iter();
    // The note comes after the status: the operator wrote both before the copy.
    let later: Vec<_> =
        later.map(|one| (&one["order_id"], one["kind"].as_str().unwrap())).collect();
    let (first, third) = (&json!(1), &json!(3));
    let expected =
        [(first, "status"), (first, "note_added"), (first, "status"), (third, "created")];
    assert_eq!(later, expected);
    let whole = service.read("/api/order/changes?limit=100").await;
    // Its cursors are of another epoch.
    let without_cursors = |page: &Value| -> Vec<Value> {
        let mut entries = page["data"].as_array().unwrap().clone();
        for entry in &mut entries {
            entry.as_object_mut().unwrap().remove("cursor").unwrap();
        }
        entries
    };
    let before = without_cursors(&changes);
    assert_eq!(without_cursors(&whole)[..before.len()], before[..]);
    let copied = service.read("/api/order/2").await;
    for list in ["documents", "signed_documents", "history", "updated_at"] {
        assert_eq!(copied[list], documents[list]);
    }
    assert_documents_are_left(&service, "/api/order/2").await;
    assert_eq!(wiring.objects().into_values().collect::<Vec<_>>(), [deed(), deed()]);
}

/// With their ways to sign in, byte for byte, and without their sessions.
#[tokio::test(flavor = "multi_thread")]
async fn copied_people_sign_in_as_before() {
    let wiring = Wiring::production_without_tables();
    let from = format!("sqlite://{}", wiring.data().join("orders.sqlite").display());
    let embedded = format!("--database-url={from}");
    run(&wiring, &[&embedded, "keys", "issue", "--name=test"]);
    let invite = ["people", "invite", "--client=1", "--name=Ann", "--email=ann@a.example"];
    let people = || run(&wiring, &[&embedded, "people", "list", "--json"]);
    let identity =
        Identity { issuer: "https://login.example".to_owned(), subject: "é".to_owned() };
    let (session, before, passkeys) = {
        let storage = Storage::open(&settings(&wiring, &[], &[&embedded])).await.unwrap();
        let mut ids = Vec::new();
        for method in [by_passkey(), NewMethod::Login(identity.clone())] {
            let link = run(&wiring, &[&[&*embedded][..], &invite].concat());
            let (_, token) = link.trim_end().split_once('=').unwrap();
            let token = Token::parse(token).unwrap().hash();
            let now = SystemClock.now();
            ids.push(storage.people.accept(token, &method, now).await.unwrap().id);
        }
        let session = new_session(ids[0], SystemClock.now());
        storage.sessions.add(&session, None).await.unwrap().unwrap();
        (session, people(), storage.people.passkeys_of(&ids).await.unwrap())
    };
    assert_eq!((before.lines().count(), passkeys.len()), (2, 1));
    let to = wiring.servers().database_url();
    let printed = run(&wiring, &["copy", "--from", &from, "--to", &to]);
    assert!(!printed.contains("Left out"), "{printed}");

    let storage = Storage::open(&settings(&wiring, &[], &[])).await.unwrap();
    assert_eq!(run(&wiring, &["people", "list", "--json"]), before);
    let copied = storage.people.passkeys_of(&[PersonId(1), PersonId(2)]).await.unwrap();
    assert_eq!(copied, passkeys);
    let by_login = storage.people.by_identity(&identity).await.unwrap().unwrap();
    assert_eq!(by_login.id, PersonId(2));
    assert_eq!(storage.sessions.find(session.token, SystemClock.now()).await.unwrap(), None);
    run(&wiring, &invite);
    assert_eq!(run(&wiring, &["people", "list", "--json"]).lines().count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_webhooks_need_the_key_of_their_secrets() {
    let wiring = Wiring::production_without_tables();
    let from = format!("sqlite://{}", wiring.data().join("orders.sqlite").display());
    let embedded = format!("--database-url={from}");
    run(&wiring, &[&embedded, "keys", "issue", "--name", "test"]);
    let url = ["--webhook-allow=127.0.0.1", "--url=http://127.0.0.1:9999/"];
    let create = ["webhooks", "create", "--client=1"];
    run(&wiring, &[&[&*embedded][..], &create, &url].concat());
    let printed =
        run(&wiring, &["copy", "--from", &from, "--to", &wiring.servers().database_url()]);
    assert!(printed.contains("NOTARY_ORDERS_SECRETS_KEY") && printed.contains("secrets.key"));
    let key = fs::read_to_string(wiring.data().join("secrets.key")).unwrap();
    let fresh = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    for (key, finding) in [
        ("", "fail  webhooks     1 endpoint gets no webhooks"),
        (fresh, "fail  webhooks     1 endpoint gets no webhooks"),
        (key.trim(), "ok    webhooks     the key of their secrets can be read"),
    ] {
        let key = format!("--secrets-key={key}");
        let report = output(&wiring, &[&key, "doctor"]).stdout;
        let report = String::from_utf8(report).unwrap();
        assert!(report.contains(finding), "{report}");
        let log = ServiceProcess::start(&wiring, &[&key]).stop_and_read_log();
        let is_wrong = finding.starts_with("fail");
        assert_eq!(log.contains("after `copy` it is in secrets.key"), is_wrong, "{log}");
    }
}

/// Also if nobody uses the service during the copy.
#[tokio::test(flavor = "multi_thread")]
async fn database_of_a_running_service_is_not_copied() {
    let wiring = Wiring::production_without_tables();
    let from = format!("sqlite://{}", wiring.data().join("orders.sqlite").display());
    let service = ServiceProcess::start(&wiring, &[&format!("--database-url={from}")]);
    let to = wiring.servers().database_url();
    let error = fail(&wiring, &["copy", "--from", &from, "--to", &to]);
    assert!(error.contains("--from: another process uses the database"), "{error}");
    assert_eq!(service.stop("-TERM").0, Some(0));
    run(&wiring, &["copy", "--from", &from, "--to", &to]);
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_copy_is_rejected_with_the_reason() {
    let wiring = Wiring::production_without_tables();
    let missing = format!("sqlite://{}", wiring.data().join("missing.sqlite").display());
    let error =
        fail(&wiring, &["copy", "--from", &missing, "--to", &wiring.servers().database_url()]);
    assert!(error.starts_with("error: --from: there is no database at "), "{error}");
    assert!(!wiring.data().join("missing.sqlite").exists());

    let empty = wiring.data().join("empty.sqlite");
    let from = format!("sqlite://{}", empty.display());
    run(&wiring, &[&format!("--database-url={from}"), "migrate"]);
    for (from, to, reason) in [
        (
            "postgres://u:secret@h/d",
            "sqlite://x",
            "error: --from must be sqlite://PATH and --to must be postgres://",
        ),
        ("mysql://u:secret@h/d", "sqlite://x", "error: --from: is neither"),
        (&from, "mysql://u:secret@h/d", "error: --to: is neither"),
        (&from, "postgres://u:secret@127.0.0.1:1/d", "error: --to: no connection to the database"),
    ] {
        let error = fail(&wiring, &["copy", "--from", from, "--to", to]);
        assert!(
            error.starts_with(reason) && error.lines().count() == 1 && !error.contains("secret"),
            "{error}"
        );
    }
    // An empty database can be copied.
    run(&wiring, &["copy", "--from", &from, "--to", &wiring.servers().database_url()]);
    run(&wiring, &["keys", "issue", "--name=test"]);
}
