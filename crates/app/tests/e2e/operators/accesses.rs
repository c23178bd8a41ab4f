//! The rows that commands leave, and the commands that list them.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::{
    harness::service_process::{fail, issue_key, notary_orders, run, text},
    harness::{TestApp, clock_behind_system, created},
    operators::doctor::report::Report,
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    each_command_leaves_exactly_its_row,
    erasure_of_many_orders_leaves_a_row_for_each,
    accesses_are_filtered_and_printed_as_table_json_or_csv,
    export_has_the_accesses,
    doctor_names_a_removed_row,
}

/// Runs `orders …`, whatever its result.
fn orders(wiring: &Wiring, words: &str) {
    let arguments: Vec<_> = ["orders"].into_iter().chain(words.split(' ')).collect();
    notary_orders(wiring, &arguments).output().unwrap();
}

/// Returns the name of the user of this test.
fn user() -> String {
    text(Command::new("id").arg("-un").output().unwrap()).trim().to_owned()
}

/// Returns the accesses by operators, the oldest first.
fn listed(wiring: &Wiring, command: &str) -> Vec<Value> {
    let lines = run(wiring, &command.split(' ').chain(["--json"]).collect::<Vec<_>>());
    let accesses = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut accesses: Vec<_> = accesses.filter(|access| access["actor"] == "operator").collect();
    accesses.reverse();
    accesses
}

fn fact(access: &Value) -> (&str, Option<i64>, &str) {
    let kind = access["kind"].as_str().unwrap();
    (kind, access["order_id"].as_i64(), access["outcome"].as_str().unwrap())
}

/// Returns what was done to which order, and the outcome.
fn facts(accesses: &[Value]) -> Vec<(&str, Option<i64>, &str)> {
    accesses.iter().map(fact).collect()
}

async fn each_command_leaves_exactly_its_row(kind: Kind) {
    let app = kind.app().await;
    created(app.order_with_deed("F-1").await).await;
    let folder = tempfile::tempdir().unwrap();
    let export = format!("export 1 --to {}", folder.path().display());
    for words in [
        "list",
        "show 1",
        "show 7",
        &export,
        // The folder is not empty any more.
        &export,
        "update 1 --status ASSIGNED",
        // The name of the command before 0.1.0.
        "change 1 --status ASSIGNED",
        "update 7 --notary 3",
        "note 1 called",
        "cancel 1",
        "update 1 --status NEW",
        "accesses 1",
        "accesses 7",
        "erase 1",
        "erase 1 --yes",
        "erase 1 --yes",
        "erase 7 --yes",
        "show 1",
        "accesses 1",
    ] {
        orders(&app.wiring, words);
    }

    let accesses = listed(&app.wiring, "accesses list");

    assert_eq!(
        facts(&accesses),
        [
            ("list", None, "ok"),
            ("read", Some(1), "ok"),
            ("read", Some(7), "not_found"),
            ("export", Some(1), "ok"),
            ("export", Some(1), "validation_failed"),
            ("update", Some(1), "ok"),
            ("update", Some(1), "ok"),
            ("update", Some(7), "not_found"),
            ("add_note", Some(1), "ok"),
            ("cancel", Some(1), "ok"),
            ("update", Some(1), "order_cancelled"),
            ("read_accesses", Some(1), "ok"),
            ("read_accesses", Some(7), "not_found"),
            // The first erasure was not confirmed.
            ("erase", Some(1), "ok"),
            ("erase", Some(1), "erased"),
            ("erase", Some(7), "not_found"),
            ("read", Some(1), "erased"),
            ("read_accesses", Some(1), "ok"),
        ]
    );
    assert_eq!(accesses[0]["orders"], 1);
    assert_eq!(accesses[1]["command"], "orders show");
    assert_eq!([&accesses[5]["command"], &accesses[6]["command"]], ["orders update"; 2]);
    for access in &accesses {
        assert_eq!((&access["user"], &access["address"]), (&json!(user()), &Value::Null));
        assert_eq!(access["number"], 1, "{access}");
    }
    assert_eq!(Report::on(&app.wiring, &[]).found("fail", "accesses"), "");
}

/// Returns a service with three orders that one command has erased.
async fn erased_three(kind: Kind) -> TestApp {
    let clock = clock_behind_system(time::Duration::days(31));
    let app = TestApp::start_on(kind.wiring(), clock, &[], None).await;
    for number in 0..3 {
        created(app.order(&format!("F-{number}")).await).await;
    }
    // The command erases nothing if everything is old: its clock could be ahead.
    issue_key(&app.wiring);
    orders(&app.wiring, "erase --older-than 30 --yes");
    app
}

async fn erasure_of_many_orders_leaves_a_row_for_each(kind: Kind) {
    let app = erased_three(kind).await;
    let accesses = listed(&app.wiring, "accesses list");
    let expected = [1, 2, 3].map(|order| ("erase", Some(order), "ok"));
    assert_eq!(facts(&accesses), expected);
    let numbers: Vec<_> = accesses.iter().map(|access| access["number"].clone()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let runs: Vec<_> = accesses.iter().map(|access| &access["run"]).collect();
    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
}

async fn accesses_are_filtered_and_printed_as_table_json_or_csv(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    orders(&app.wiring, "show 1");
    orders(&app.wiring, "show 7");
    let of_order = listed(&app.wiring, "orders accesses 1");
    assert_eq!(facts(&of_order), [("read", Some(1), "ok")]);
    for (filter, count) in [
        ("--since 2020-01-01T00:00:00Z", 2),
        ("--since 2199-01-01T00:00:00Z", 0),
        ("--key 1", 0),
        ("--address 203.0.113.9", 0),
    ] {
        let mut found = listed(&app.wiring, &format!("accesses list {filter}"));
        found.retain(|access| access["kind"] == "read");
        assert_eq!(found.len(), count, "{filter}");
    }
    let csv = run(&app.wiring, &["orders", "accesses", "1", "--csv"]);
    let lines: Vec<_> = csv.split("\r\n").collect();
    assert!(lines[0].starts_with("at,run,number,kind,order_id,"), "{csv}");
    let end = format!(",orders show,{},,,ok,,,", user());
    assert!(lines.iter().any(|line| line.ends_with(&end)), "{csv}");
    let table = run(&app.wiring, &["accesses", "list"]);
    let by = format!("operator {}", user());
    assert!(table.contains(&by) && table.contains("not_found"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    fail(&app.wiring, &["accesses", "list", "--csv", "--json"]);
    fail(&app.wiring, &["accesses", "list", "--address", "somewhere"]);
}

async fn export_has_the_accesses(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    orders(&app.wiring, "show 1");
    let folder = tempfile::tempdir().unwrap();
    orders(&app.wiring, &format!("export 1 --to {}", folder.path().display()));
    let exported = fs::read_to_string(folder.path().join("accesses.json")).unwrap();
    let exported: Vec<Value> = serde_json::from_str(&exported).unwrap();
    // The newest first: the export has its row before its files.
    assert_eq!(facts(&exported), [("export", Some(1), "ok"), ("read", Some(1), "ok")]);
    let mut expected = listed(&app.wiring, "orders accesses 1")[..2].to_vec();
    expected.reverse();
    assert_eq!(exported, expected);
}

async fn doctor_names_a_removed_row(kind: Kind) {
    let app = erased_three(kind).await;
    let whole = Report::on(&app.wiring, &[]);
    assert!(whole.found("ok", "accesses").contains("has its row"), "{}", whole.text);

    app.wiring.execute("DELETE FROM accesses WHERE number = 2").unwrap();

    let report = Report::on(&app.wiring, &[]);
    assert!(report.failed().contains(&"accesses"), "{}", report.text);
    assert!(report.found("fail", "accesses").contains("lacks row 2, between"), "{}", report.text);
}
