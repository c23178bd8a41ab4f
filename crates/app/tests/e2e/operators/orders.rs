//! The commands with which operators list, show, export and erase orders.

use std::{fs, os::unix::fs::PermissionsExt as _};

use domain::{api_key::Scope, order::SigningServiceId, use_cases::keys::manage_keys::KeyTerms};
use serde_json::{Value, json};
use time::Duration;

use crate::{
    harness::documents::work_on_documents,
    harness::service_process,
    harness::{TestApp, clock_behind_system, created, deed, form, order, problem, with_documents},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    operator_finds_orders_of_all_clients,
    operator_sees_an_order_as_its_client_does,
    order_is_exported_with_its_documents,
    export_has_signed_documents_and_no_withdrawn_ones,
    export_without_all_documents_has_no_record,
    erasure_needs_confirmation_and_is_final,
    erasure_by_age_spares_newer_orders,
}

fn run(wiring: &Wiring, arguments: &[&str]) -> String {
    service_process::run(wiring, &[&["orders"], arguments].concat())
}

fn fail(wiring: &Wiring, arguments: &[&str]) -> String {
    service_process::fail(wiring, &[&["orders"], arguments].concat())
}

/// Returns the identifiers of the listed orders.
fn listed(wiring: &Wiring, filters: &[&str]) -> Vec<i64> {
    let list = run(wiring, &[&["list"], filters].concat());
    let lines = list.lines().skip(1);
    lines.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

async fn operator_finds_orders_of_all_clients(kind: Kind) {
    let app = kind.app().await;
    let other = app.issue_key(None).await;
    let mut second = order("F-2");
    second["signingDetailsFormData"]["coSignerEmail"] = json!("John.Roe@Example.com");
    for (key, order) in [(&app.key, order("F-1")), (&other, second), (&other, order("F-3"))] {
        created(app.as_key(key).create(&order).await).await;
    }
    let ids = |filters: &[&str]| listed(&app.wiring, filters);
    assert_eq!(ids(&[]), [3, 2, 1]);
    assert_eq!(ids(&["--file-number= F-2 "]), [2]);
    assert_eq!(ids(&["--client=2"]), [3, 2]);
    assert_eq!(ids(&["--client=2", "--before=3"]), [2]);
    assert_eq!(ids(&["--email", "john.roe@example.com"]), [2]);
    assert_eq!(ids(&["--email=jane.doe@example.com", "--file-number=F-1"]), [1]);
    assert_eq!(ids(&["--email=jane.doe@example.com", "--client=3"]), [0; 0]);
    assert_eq!(ids(&["--status=new,signed", "--search=f-2"]), [2]);
    assert_eq!(ids(&["--status=SIGNED"]), [0; 0]);
    assert_eq!(ids(&["--signing-date-from=2026-12-01", "--signing-date-to=2026-12-01"]), [3, 2, 1]);
    assert_eq!(ids(&["--signing-date-from=2026-12-02", "--client=2"]), [0; 0]);
    assert_eq!(ids(&["--updated-after=2020-01-01T00:00:00Z", "--search", "JANE DOE"]), [3, 2, 1]);
    for (bad, part) in [
        (&["--status=NEW,"][..], "must not be blank"),
        (&["--signing-date-from=12/01/2026"], "must be a date"),
        (&["--signing-date-from=2026-12-02", "--signing-date-to=2026-12-01"], "must not be before"),
        (&["--search=ab"], "at least 3 characters"),
    ] {
        let message = fail(&app.wiring, &[&["list"], bad].concat());
        assert!(message.contains(part), "{message}");
    }
    let list = run(&app.wiring, &["list"]);
    let newest: Vec<_> = list.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(newest[5..], ["NEW", "test", "42", "-", "F-3", "-"], "{list}");
    assert!(!list.contains("Jane"), "{list}");
}

async fn operator_sees_an_order_as_its_client_does(kind: Kind) {
    let app = kind.app().await;
    created(app.order_with_deed("F-1").await).await;
    let mut shown: Value = serde_json::from_str(&run(&app.wiring, &["show", "1"])).unwrap();
    let members = shown.as_object_mut().unwrap();
    let added = ["client_id", "api_key_id", "is_test", "held_until"];
    let added = added.map(|name| members.remove(name).unwrap());
    assert_eq!(added, [json!(1), json!(1), json!(false), Value::Null]);
    assert_eq!(shown, app.read("/api/order/1").await);
    assert!(fail(&app.wiring, &["show", "2"]).contains("there is no order 2"));
}

async fn order_is_exported_with_its_documents(kind: Kind) {
    let app = kind.app().await;
    let form = with_documents(form(&order("F-1")), 2, &deed());
    created(app.create_with(form).await).await;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("new");
    let export = ["export", "1", "--to", folder.to_str().unwrap()];
    assert_eq!(run(&app.wiring, &export), "order 1 and 2 documents are exported\n");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["00-0.pdf", "01-1.pdf", "accesses.json", "order.json"]);
    for name in &names {
        let mode = fs::metadata(folder.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read(folder.join("01-1.pdf")).unwrap(), deed());
    let exported = fs::read_to_string(folder.join("order.json")).unwrap();
    assert_eq!(exported, run(&app.wiring, &["show", "1"]));
    assert!(fail(&app.wiring, &export).contains("is not empty"));
}

async fn export_has_signed_documents_and_no_withdrawn_ones(kind: Kind) {
    let app = kind.app().await;
    let for_service = Some(SigningServiceId(42));
    let scopes = Scope::DEFAULT_OF_SERVICES.into_iter().collect();
    let of_service = KeyTerms { for_service, scopes, ..KeyTerms::default() };
    let service = app.as_key(&app.issue_key_on(of_service).await);
    created(app.order_with_deed("F-1").await).await;
    work_on_documents(&app, &service, "/api/order/1").await;
    let folder = tempfile::tempdir().unwrap();
    let export = ["export", "1", "--to", folder.path().to_str().unwrap()];
    assert_eq!(run(&app.wiring, &export), "order 1 and 2 documents are exported\n");
    for name in ["01-redraw.pdf", "signed-01-signed.pdf"] {
        assert!(fs::read(folder.path().join(name)).unwrap() == deed(), "{name}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    let exported = fs::read_to_string(folder.path().join("order.json")).unwrap();
    let exported: Value = serde_json::from_str(&exported).unwrap();
    assert!(exported["documents"][0]["withdrawn_at"].is_string());
    assert!(exported["signed_documents"][0]["withdrawn_at"].is_string());
}

async fn export_without_all_documents_has_no_record(kind: Kind) {
    let app = kind.app().await;
    created(app.order_with_deed("F-1").await).await;
    app.wiring.remove_objects();
    let folder = tempfile::tempdir().unwrap();
    let error = fail(&app.wiring, &["export", "1", "--to", folder.path().to_str().unwrap()]);
    assert!(error.contains("document 0 of order 1 was not written"), "{error}");
    assert!(!folder.path().join("order.json").exists());
}

async fn erasure_needs_confirmation_and_is_final(kind: Kind) {
    let app = kind.app().await;
    created(app.order_with_deed("F-1").await).await;
    app.mails(1).await;
    let error = fail(&app.wiring, &["erase", "1"]);
    assert!(error.contains("would erase order 1 with 1 document"), "{error}");
    assert_eq!(listed(&app.wiring, &[]), [1]);

    let report = run(&app.wiring, &["erase", "1", "--yes"]);

    assert!(report.starts_with("1 order erased, 1 document, "), "{report}");
    assert_eq!(listed(&app.wiring, &[]), [0; 0]);
    assert_eq!((app.rows("documents"), app.documents().len()), (0, 0));
    assert!(fail(&app.wiring, &["show", "1"]).contains("order 1 was erased"));
    assert!(run(&app.wiring, &["erase", "1", "--yes"]).starts_with("0 orders erased"));
    assert!(fail(&app.wiring, &["erase", "2", "--yes"]).contains("there is no order 2"));
    problem(app.get("/api/order/1").await, 410, "erased").await;
    // The file number is free at once.
    created(app.order("F-1").await).await;
}

async fn erasure_by_age_spares_newer_orders(kind: Kind) {
    // The command has the clock of the system.
    let clock = clock_behind_system(Duration::days(31));
    let app = TestApp::start_on(kind.wiring(), clock, &[], None).await;
    for number in 0..102 {
        created(app.order(&format!("OLD-{number}")).await).await;
    }
    created(app.order_with_deed("OLD").await).await;
    // The advance would end the leases of mails in progress, which would be sent twice.
    app.mails_leave().await;
    app.clock.advance(Duration::days(2));
    let recent = created(app.order_with_deed("NEW").await).await;
    app.mails(104).await;
    service_process::issue_key(&app.wiring);
    let error = fail(&app.wiring, &["erase", "--older-than=30"]);
    assert!(error.contains("would erase 103 orders created before "), "{error}");

    let report = run(&app.wiring, &["erase", "--older-than=30", "--yes"]);

    assert!(report.starts_with("103 orders erased, 1 document, "), "{report}");
    assert_eq!(listed(&app.wiring, &[]), [recent["order_id"].as_i64().unwrap()]);
    assert_eq!(app.documents().len(), 1);
    assert!(run(&app.wiring, &["erase", "--older-than=30"]).starts_with("0 orders erased"));
    for wrong in [&["erase"][..], &["erase", "1", "--older-than=1"], &["erase", "--older-than=0"]] {
        fail(&app.wiring, wrong);
    }
}

/// The clock of the machine is 25 days ahead, and a file has no other.
#[tokio::test(flavor = "multi_thread")]
async fn age_of_an_order_in_a_file_ends_with_its_newest_row() {
    let clock = clock_behind_system(Duration::days(35));
    let app = TestApp::start_on(Wiring::embedded(), clock, &[], None).await;
    created(app.order("OLD").await).await;
    app.clock.advance(Duration::days(10));
    created(app.order("NEW").await).await;
    let erase = ["erase", "--older-than=30", "--yes"];
    let report = run(&app.wiring, &erase);
    assert!(report.starts_with("0 orders erased"), "{report}");
    // The file is in use now, so the clock is right.
    service_process::issue_key(&app.wiring);
    let report = run(&app.wiring, &erase);
    assert!(report.starts_with("1 order erased"), "{report}");
}
