//! The commands of the binary, beside a running server and without one.

use serde_json::Value;

use crate::{
    harness::created,
    harness::service_process::{ServiceProcess, fail, output, run},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    commands_manage_keys_of_running_server,
    commands_need_no_server,
}

async fn commands_manage_keys_of_running_server(kind: Kind) {
    let wiring = kind.wiring();
    let server = ServiceProcess::start(&wiring, &[]);
    let terms = ["--name=Title Co", "--signing-service=42", "--expires-in-days=30"];
    let issued = run(&wiring, &[&["keys", "issue"], &terms[..]].concat());
    assert_eq!(issued.lines().count(), 1);
    let key = issued.trim();
    created(server.as_key(key).order("F-1").await).await;

    let list = || run(&wiring, &["keys", "list"]);
    let listed = list();
    let line = listed.lines().find(|line| line.starts_with("Title Co ")).unwrap();
    assert!(line.contains(" live ") && !listed.contains(&key[20..]), "{listed}");
    run(&wiring, &["keys", "revoke", line.split_whitespace().nth(2).unwrap()]);
    server.rejects(key).await;
    assert!(list().lines().any(|line| line.starts_with("Title Co ") && line.contains(" revoked ")));
    assert_eq!(output(&wiring, &["keys", "revoke", "999"]).status.code(), Some(1));
    assert_eq!(server.stop("-TERM").0, Some(0));
}

async fn commands_need_no_server(kind: Kind) {
    let wiring = kind.wiring();
    run(&wiring, &["migrate"]);
    assert_eq!(run(&wiring, &["deliveries", "list"]).lines().count(), 1);
    run(&wiring, &["deliveries", "list", "--failed"]);
    fail(&wiring, &["deliveries", "retry", "1"]);
    let document: Value = serde_json::from_str(&run(&wiring, &["openapi"])).unwrap();
    assert!(document["paths"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_entries_of_the_spool_stay_and_are_named_once() {
    let wiring = Wiring::embedded();
    let precious = wiring.data().join("spool/precious/deed.pdf");
    std::fs::create_dir_all(precious.parent().unwrap()).unwrap();
    std::fs::write(&precious, "papers").unwrap();
    let log = ServiceProcess::start(&wiring, &[]).stop_and_read_log();
    assert!(precious.exists());
    let lines: Vec<_> =
        log.lines().filter(|line| line.contains("the service did not make")).collect();
    assert!(matches!(lines[..], [line] if line.contains("precious")), "{log}");
}
