//! The command that copies an embedded database to PostgreSQL.

use std::process::Output;

use crate::{
    harness::{created, deed, eventually, problem},
    service_process::{ServiceProcess, issue_key, output},
    wiring::Wiring,
};

fn copy(wiring: &Wiring, from: &str, to: &str) -> Output {
    output(wiring, &["copy", "--from", from, "--to", to])
}

fn error_of(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_database_serves_the_same_service() {
    let wiring = Wiring::new();
    let from = format!("sqlite://{}", wiring.data().join("orders.sqlite").display());
    let embedded = format!("--database-url={from}");
    let service = ServiceProcess::start(&wiring, &[&embedded]);
    let issued = output(&wiring, &[&embedded, "keys", "issue", "--name", "test"]);
    let key = String::from_utf8(issued.stdout).unwrap().trim().to_owned();
    wiring.break_mail();
    created(service.post(&key, "F-1").await).await;
    created(service.post_with_deed(&key, "F-2").await).await;
    let listed = || output(&wiring, &[&embedded, "deliveries", "list"]).stdout;
    eventually(|| String::from_utf8(listed()).unwrap().lines().count() == 3).await;
    assert_eq!(service.stop("-TERM").0, Some(0));

    let to = wiring.database_url();
    let copied = copy(&wiring, &from, &to);
    let printed = String::from_utf8(copied.stdout).unwrap();
    // The first start issued the second key.
    let counts = "copied 2 orders, 1 documents, 0 unfinished uploads, \
         0 events, 2 deliveries, 0 webhook endpoints, 0 webhooks, 2 API keys";
    assert!(printed.starts_with(counts), "{printed}");
    for table in ["orders", "documents", "deliveries", "api_keys"] {
        assert!(wiring.rows(table) > 0, "{table}");
    }
    let repeated = error_of(&copy(&wiring, &from, &to));
    assert!(repeated.starts_with("error: the target is not empty: it has 2 orders"), "{repeated}");

    wiring.mend_mail();
    let service = ServiceProcess::start(&wiring, &[]);
    problem(service.post(&key, "F-1").await, 409, "duplicate_order").await;
    assert_eq!(created(service.post(&key, "F-3").await).await["order_id"], 3);
    wiring.mails_within(3, std::time::Duration::from_secs(30)).await;
    eventually(|| wiring.pending_mails() == 0).await;
    for document in wiring.document_keys() {
        assert_eq!(wiring.objects()[&document], deed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_copy_is_rejected_with_the_reason() {
    let wiring = Wiring::new();
    let missing = format!("sqlite://{}", wiring.data().join("missing.sqlite").display());
    let error = error_of(&copy(&wiring, &missing, &wiring.database_url()));
    assert!(error.starts_with("error: --from: there is no database at "), "{error}");
    assert!(!wiring.data().join("missing.sqlite").exists());

    let empty = wiring.data().join("empty.sqlite");
    let from = format!("sqlite://{}", empty.display());
    assert!(output(&wiring, &[&format!("--database-url={from}"), "migrate"]).status.success());
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
        let error = error_of(&copy(&wiring, from, to));
        assert!(
            error.starts_with(reason) && error.lines().count() == 1 && !error.contains("secret"),
            "{error}"
        );
    }
    assert!(
        copy(&wiring, &from, &wiring.database_url()).status.success(),
        "an empty database can be copied"
    );
    issue_key(&wiring);
}
