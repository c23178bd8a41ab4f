//! Backup and restore of an embedded service.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::{runtime::Handle, task::block_in_place};

use crate::{
    harness::documents::{assert_documents_are_left, work_on_documents},
    harness::service_process::{ServiceProcess, error_of, fail, output, run, text},
    harness::{CREATE_WITH_DOCUMENTS, LONG_WINDOW, created, deed, files_below, patiently, problem},
    wiring::Wiring,
};

/// Runs a command on a folder.
fn on(wiring: &Wiring, command: &str, folder: &Path) -> Output {
    output(wiring, &[command, folder.to_str().unwrap()])
}

/// Returns a data directory with an order and its document, and a backup of it.
async fn with_backup() -> (Wiring, tempfile::TempDir) {
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &[]);
    created(service.order_with_deed("F-1").await).await;
    assert_eq!(service.stop("-TERM").0, Some(0));
    let backup = tempfile::tempdir().unwrap();
    text(on(&wiring, "backup", backup.path()));
    (wiring, backup)
}

/// Sends a request until the service carries it out: the database of a busy machine may be late. Returns the answer.
async fn insist(request: impl Fn() -> RequestBuilder) -> Response {
    let carried_out = async {
        loop {
            let answer = request().send().await.unwrap();
            if answer.status() != StatusCode::SERVICE_UNAVAILABLE {
                break answer;
            }
        }
    };
    patiently(carried_out).await
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_under_load_restores_complete_orders() {
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &["--rate-per-second=0", LONG_WINDOW]);
    for number in 0..20 {
        created(service.order_with_deed(&format!("before-{number}")).await).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|number| {
            let (stop, service) = (Arc::clone(&stop), (*service).clone());
            tokio::spawn(async move {
                let mut orders = 0;
                while !stop.load(Ordering::SeqCst) {
                    let number = format!("during-{number}-{orders}");
                    let create = || service.order_on(CREATE_WITH_DOCUMENTS, &number);
                    let order = created(insist(create).await).await;
                    orders += 1;
                    if orders % 2 == 0 {
                        let document = format!("/api/order/{}/documents/0", order["order_id"]);
                        let withdraw = || service.request(Method::DELETE, &document);
                        assert_eq!(insist(withdraw).await.status(), 204);
                    }
                }
                orders
            })
        })
        .collect();
    let (folder, data) = (tempfile::tempdir().unwrap(), wiring.data().to_owned());
    let backup = folder.path().join("backup");
    let done = block_in_place(|| on(&wiring, "backup", &backup));
    stop.store(true, Ordering::SeqCst);
    let mut during = 0;
    for task in load {
        during += task.await.unwrap();
    }
    let lines = text(done);
    assert!(lines.starts_with(&format!("copying the database {}", data.display())), "{lines}");
    assert!(lines.contains("\nthe backup is complete: "), "{lines}");
    let key = service.key.clone();
    assert_eq!(service.stop("-TERM").0, Some(0));

    let restored = Wiring::embedded();
    text(on(&restored, "restore", &backup));
    let orders = restored.rows("orders");
    assert!((20..=20 + during).contains(&orders), "{orders} of {during} more");
    assert_eq!((restored.rows("documents"), restored.rows("uploads")), (orders, 0));
    let objects = restored.objects();
    let keys = restored.lines("SELECT key FROM documents WHERE key IS NOT NULL");
    assert!(keys.len() >= 20 && keys.len() == objects.len(), "{} {}", keys.len(), objects.len());
    assert!(keys.iter().all(|key| objects[key] == deed()));
    let service = ServiceProcess::start(&restored, &[LONG_WINDOW]).with_key(key);
    problem(service.order("before-19").await, 409, "duplicate_order").await;
    created(service.order_with_deed("after").await).await;
}

/// Creates an order, and changes it.
async fn change(service: &ServiceProcess, number: &str) {
    let order = created(service.order(number).await).await;
    let notes = format!("/api/order/{}/notes", order["order_id"]);
    created(service.post(&notes).json(&json!({ "text": "x" })).send().await.unwrap()).await;
}

/// Returns the cursor of now.
async fn now(service: &ServiceProcess) -> String {
    let page = service.read("/api/order/changes?after=now").await;
    page["next_after"].as_str().unwrap().to_owned()
}

/// Asserts that a cursor is of lost changes, and another one is not.
async fn assert_lost(service: &ServiceProcess, lost: &str, kept: &str) -> Value {
    let behind = service.get(&format!("/api/order/changes?after={lost}")).await;
    let behind = problem(behind, 400, "validation_failed").await;
    assert_eq!(behind["errors"][0]["code"], "unknown_cursor");
    let page = service.read(&format!("/api/order/changes?after={kept}")).await;
    let numbers = page["data"].as_array().unwrap().iter().map(|change| &change["file_number"]);
    assert_eq!(numbers.collect::<Vec<_>>(), ["F-3", "F-3", "F-4", "F-4"]);
    page
}

/// The restored database gives the same identifiers and numbers again. A cursor in what it has goes on.
#[tokio::test(flavor = "multi_thread")]
async fn cursor_from_behind_a_restored_backup_is_unknown() {
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &[]);
    change(&service, "F-1").await;
    let kept = now(&service).await;
    let folder = tempfile::tempdir().unwrap();
    text(on(&wiring, "backup", folder.path()));
    change(&service, "F-2").await;
    let lost = now(&service).await;
    let key = service.key.clone();
    assert_eq!(service.stop("-TERM").0, Some(0));

    let restored = Wiring::embedded();
    text(on(&restored, "restore", folder.path()));
    let service = ServiceProcess::start(&restored, &[]).with_key(key.clone());
    for number in ["F-3", "F-4"] {
        change(&service, number).await;
    }
    let page = assert_lost(&service, &lost, &kept).await;
    // Its own cursors go on across the next start, and across `adopt`.
    let own = page["next_after"].as_str().unwrap().to_owned();
    assert_eq!(service.stop("-TERM").0, Some(0));
    run(&restored, &["adopt"]);
    let service = ServiceProcess::start(&restored, &[]).with_key(key);
    assert_eq!(now(&service).await, own);
}

/// The service takes the file for the original, so the guide has a statement for it.
#[tokio::test(flavor = "multi_thread")]
async fn cursor_from_behind_a_snapshot_in_place_is_unknown_after_the_statement_of_the_guide() {
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &[]);
    let key = service.key.clone();
    change(&service, "F-1").await;
    let kept = now(&service).await;
    assert_eq!(service.stop("-TERM").0, Some(0));
    let (file, snapshot) =
        (wiring.data().join("notary-orders.sqlite"), wiring.data().join("snapshot"));
    fs::copy(&file, &snapshot).unwrap();
    let service = ServiceProcess::start(&wiring, &[]).with_key(key.clone());
    change(&service, "F-2").await;
    let lost = now(&service).await;
    assert_eq!(service.stop("-TERM").0, Some(0));

    // The file stays the same one.
    fs::copy(&snapshot, &file).unwrap();
    let guide = include_str!("../../../../../docs/operations.md");
    let statement =
        guide.lines().map(str::trim).find(|line| line.starts_with("UPDATE order_feed")).unwrap();
    wiring.lines(statement);
    assert_eq!(wiring.rows("orders"), 1);
    let service = ServiceProcess::start(&wiring, &[]).with_key(key);
    for number in ["F-3", "F-4"] {
        change(&service, number).await;
    }
    assert_lost(&service, &lost, &kept).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn document_that_is_withdrawn_meanwhile_is_left_out() {
    let wiring = Wiring::embedded();
    let service = ServiceProcess::keyed(&wiring, &[]);
    for number in ["F-1", "F-2"] {
        created(service.order_with_deed(number).await).await;
    }
    // The backup waits at the first document until the other one is withdrawn.
    let first = &wiring.lines("SELECT key FROM documents ORDER BY key")[0];
    let pipe = wiring.data().join("documents").join(first);
    fs::remove_file(&pipe).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let order = &wiring.lines("SELECT order_id FROM documents ORDER BY key")[1];
    let document = format!("/api/order/{order}/documents/0");
    let withdraw = service.request(Method::DELETE, &document).send();
    let folder = tempfile::tempdir().unwrap();
    let report = block_in_place(|| {
        thread::scope(|scope| {
            let backup = scope.spawn(|| text(on(&wiring, "backup", folder.path())));
            let mut pipe = File::options().write(true).open(&pipe).unwrap();
            assert_eq!(Handle::current().block_on(withdraw).unwrap().status(), 204);
            pipe.write_all(&deed()).unwrap();
            drop(pipe);
            backup.join().unwrap()
        })
    });
    assert!(report.contains("the backup is complete: 2 orders, 1 document of"), "{report}");
    let restored = Wiring::embedded();
    text(on(&restored, "restore", folder.path()));
    assert_eq!(restored.objects().into_values().collect::<Vec<_>>(), [deed()]);
}

/// A withdrawn document has no bytes, so it is neither missing in a backup, nor back after it.
#[tokio::test(flavor = "multi_thread")]
async fn restored_orders_have_the_documents_of_both_sides() {
    let wiring = Wiring::embedded();
    let client = ServiceProcess::keyed(&wiring, &[]);
    let of_service = run(&wiring, &["keys", "issue", "--name=service", "--for-service=42"]);
    created(client.order_with_deed("F-1").await).await;
    work_on_documents(&client, &client.as_key(of_service.trim()), "/api/order/1").await;
    let (order, key) = (client.read("/api/order/1").await, client.key.clone());
    assert_eq!(client.stop("-TERM").0, Some(0));
    let (backup, restored) = (tempfile::tempdir().unwrap(), Wiring::embedded());
    text(on(&wiring, "backup", backup.path()));
    text(on(&restored, "restore", backup.path()));
    assert_eq!(restored.objects(), wiring.objects());
    let client = ServiceProcess::start(&restored, &[]).with_key(key);
    assert_eq!(client.read("/api/order/1").await, order);
    assert_documents_are_left(&client, "/api/order/1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_wiring, backup) = with_backup().await;
    let files = files_below(backup.path());
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_backup_is_rejected_with_the_reason() {
    let (wiring, backup) = with_backup().await;
    let again = error_of(on(&wiring, "backup", backup.path()));
    assert!(again.contains("is not empty"), "{again}");
    let folder = backup.path().join("new");
    for (flag, reason) in [
        ("--database-url=postgres://u:secret@h/d", "use pg_dump or pg_basebackup"),
        ("--documents-url=s3://bucket/prefix", "the documents are in a bucket"),
        ("--database-url=sqlite:///nowhere/orders.sqlite", "there is no database at /nowhere"),
    ] {
        let error = fail(&wiring, &[flag, "backup", folder.to_str().unwrap()]);
        assert!(error.contains(reason) && !error.contains("secret"), "{error}");
        assert!(!folder.exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_or_damaged_document_fails_the_backup() {
    let (wiring, _backup) = with_backup().await;
    let document = files_below(&wiring.data().join("documents")).remove(0);
    fs::write(&document, "other bytes").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let error = error_of(on(&wiring, "backup", folder.path()));
    assert!(error.contains("is damaged"), "{error}");
    // What is there is no complete backup.
    let error = error_of(on(&Wiring::embedded(), "restore", folder.path()));
    assert!(error.contains("is no complete backup"), "{error}");

    fs::remove_file(&document).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let error = error_of(on(&wiring, "backup", folder.path()));
    assert!(error.starts_with("error: the document "), "{error}");
    assert!(!folder.path().join("manifest.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_backup_is_not_restored() {
    let (wiring, backup) = with_backup().await;
    let error = error_of(on(&wiring, "restore", backup.path()));
    assert!(error.contains("is not empty"), "{error}");

    let document = files_below(&backup.path().join("documents")).remove(0);
    for (file, reason) in [
        (document, "is damaged: its size or its SHA-256"),
        (backup.path().join("notary-orders.sqlite"), "the database of the backup is damaged"),
    ] {
        let mut bytes = fs::read(&file).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&file, &bytes).unwrap();
        let target = Wiring::embedded();
        let error = error_of(on(&target, "restore", backup.path()));
        assert!(error.contains(reason), "{error}");
        assert!(!target.data().join("notary-orders.sqlite").exists());
    }
}
