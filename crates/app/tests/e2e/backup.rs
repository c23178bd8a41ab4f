//! Backup and restore of an embedded service.

use std::{
    fs,
    path::Path,
    process::Output,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    harness::{CREATE_WITH_DOCUMENTS, client, created, deed, files_below, form_with_deed, problem},
    service_process::{ServiceProcess, issue_key, output},
    wiring::Wiring,
};

fn back_up(wiring: &Wiring, folder: &Path) -> Output {
    output(wiring, &["backup", folder.to_str().unwrap()])
}

fn restore(wiring: &Wiring, folder: &Path) -> Output {
    output(wiring, &["restore", folder.to_str().unwrap()])
}

fn error_of(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns a data directory with an order and its document, and a backup of it.
async fn with_backup() -> (Wiring, tempfile::TempDir) {
    let wiring = Wiring::new();
    let service = ServiceProcess::start(&wiring, &[]);
    created(service.post_with_deed(&issue_key(&wiring), "F-1").await).await;
    assert_eq!(service.stop("-TERM").0, Some(0));
    let backup = tempfile::tempdir().unwrap();
    let done = back_up(&wiring, backup.path());
    assert!(done.status.success(), "{done:?}");
    (wiring, backup)
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_under_load_restores_complete_orders() {
    let wiring = Wiring::new();
    let service = ServiceProcess::start(&wiring, &["--rate-per-second=0"]);
    let key = issue_key(&wiring);
    for number in 0..20 {
        created(service.post_with_deed(&key, &format!("before-{number}")).await).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|number| {
            let (stop, key) = (Arc::clone(&stop), key.clone());
            let (client, url) = (client(), service.url(CREATE_WITH_DOCUMENTS));
            tokio::spawn(async move {
                let mut orders = 0;
                while !stop.load(Ordering::SeqCst) {
                    let form = form_with_deed(&format!("during-{number}-{orders}"));
                    let request = client.post(&url).bearer_auth(&key).multipart(form);
                    created(request.send().await.unwrap()).await;
                    orders += 1;
                }
                orders
            })
        })
        .collect();
    let (folder, data) = (tempfile::tempdir().unwrap(), wiring.data().to_owned());
    let backup = folder.path().join("backup");
    let done = tokio::task::block_in_place(|| back_up(&wiring, &backup));
    stop.store(true, Ordering::SeqCst);
    let mut during = 0;
    for task in load {
        during += task.await.unwrap();
    }
    assert!(done.status.success(), "{done:?}");
    let lines = String::from_utf8(done.stdout).unwrap();
    assert!(lines.starts_with(&format!("copying the database {}", data.display())), "{lines}");
    assert!(lines.contains("\nthe backup is complete: "), "{lines}");
    assert_eq!(service.stop("-TERM").0, Some(0));

    let restored = Wiring::new();
    let done = restore(&restored, &backup);
    assert!(done.status.success(), "{done:?}");
    let orders = restored.rows("orders");
    assert!((20..=20 + during).contains(&orders), "{orders} of {during} more");
    assert_eq!((restored.rows("documents"), restored.rows("uploads")), (orders, 0));
    let objects = restored.objects();
    let keys = restored.lines("SELECT key AS line FROM documents");
    assert_eq!(i64::try_from(keys.len()), Ok(orders));
    assert!(keys.iter().all(|key| objects[key] == deed()));
    let service = ServiceProcess::start(&restored, &[]);
    problem(service.post(&key, "before-19").await, 409, "duplicate_order").await;
    created(service.post_with_deed(&key, "after").await).await;
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
    let again = error_of(&back_up(&wiring, backup.path()));
    assert!(again.contains("is not empty"), "{again}");
    let folder = backup.path().join("new");
    for (flag, reason) in [
        ("--database-url=postgres://u:secret@h/d", "use pg_dump or pg_basebackup"),
        ("--documents-url=s3://bucket/prefix", "the documents are in a bucket"),
        ("--database-url=sqlite:///nowhere/orders.sqlite", "there is no database at /nowhere"),
    ] {
        let error = error_of(&output(&wiring, &[flag, "backup", folder.to_str().unwrap()]));
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
    let error = error_of(&back_up(&wiring, folder.path()));
    assert!(error.contains("is damaged"), "{error}");
    // What is there is no complete backup.
    let error = error_of(&restore(&Wiring::new(), folder.path()));
    assert!(error.contains("is no complete backup"), "{error}");

    fs::remove_file(&document).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let error = error_of(&back_up(&wiring, folder.path()));
    assert!(error.starts_with("error: the document "), "{error}");
    assert!(!folder.path().join("manifest.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_backup_is_not_restored() {
    let (wiring, backup) = with_backup().await;
    let error = error_of(&restore(&wiring, backup.path()));
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
        let target = Wiring::new();
        let error = error_of(&restore(&target, backup.path()));
        assert!(error.contains(reason), "{error}");
        assert!(!target.data().join("notary-orders.sqlite").exists());
    }
}
