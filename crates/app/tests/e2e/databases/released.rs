//! Databases as releases wrote them: the current program migrates a copy, and finds everything. Their folder
//! says how they were made.

use std::{fs, path::PathBuf, process::Command, sync::Arc};

use contract_tests::fakes::ManualClock;
use domain::ports::Clock as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    harness::{TestApp, eventually_async, files_below, problem, service_process::run},
    wiring::{Kind, Wiring, on_both_wirings, psql},
};

on_both_wirings! {
    database_of_each_release_is_found_whole,
    deliveries_of_each_release_leave,
}

/// The database and the documents of a release.
struct Released {
    folder: PathBuf,
    expected: Value,
}

impl Released {
    /// Returns those of each release.
    fn all(kind: Kind) -> Vec<Self> {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../contract-tests/fixtures/released");
        let name = match kind {
            Kind::Embedded => "sqlite",
            Kind::Production => "postgres",
        };
        let releases = fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path());
        let folders = releases.filter(|release| release.is_dir()).map(|release| release.join(name));
        let all: Vec<_> = folders.map(Self::in_folder).collect();
        assert!(!all.is_empty(), "{fixtures}");
        all
    }

    fn in_folder(folder: PathBuf) -> Self {
        let expected = fs::read(folder.join("expected.json")).unwrap();
        Self { expected: serde_json::from_slice(&expected).unwrap(), folder }
    }

    fn text(&self, name: &str) -> &str {
        self.expected[name].as_str().unwrap()
    }

    /// Copies the documents, and the database, or this dump of it.
    fn copied_to(&self, wiring: &Wiring, dump: &str) {
        let data = self.folder.join("data");
        for file in files_below(&data) {
            let name = file.strip_prefix(&data).unwrap();
            match name.strip_prefix("documents") {
                Ok(key) => wiring.put_object(key.to_str().unwrap(), &fs::read(&file).unwrap()),
                Err(_) => drop(fs::copy(&file, wiring.data().join(name)).unwrap()),
            }
        }
        if let Wiring::Production(stores) = wiring {
            let mut psql = psql(&stores.database_url());
            // The rows are as triggers have left them.
            psql.args(["--command", "SET session_replication_role = replica"]);
            let loaded = psql.arg("--file").arg(self.folder.join(dump)).output().unwrap();
            assert!(loaded.status.success(), "{loaded:?}");
        }
    }

    /// Starts the current program an hour after the last change.
    async fn app(&self, wiring: Wiring) -> TestApp {
        let clock = ManualClock::default();
        let last = OffsetDateTime::parse(self.text("at"), &Rfc3339).unwrap();
        clock.set(last + Duration::HOUR - clock.now());
        let secrets = format!("--secrets-key={}", self.text("secrets_key"));
        // From the release after 0.1.0 on, a database knows that it was copied here.
        let flags = [&*secrets, "--webhook-allow=127.0.0.1", "--sends-messages=true"];
        TestApp::start_on(wiring, Arc::new(clock), &flags, Some(self.text("client_key").to_owned()))
            .await
    }
}

/// Asserts that an answer still has every member of an earlier one. Later versions add members.
fn assert_has(found: &Value, expected: &Value, place: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(members)) => {
            for (name, expected) in members {
                let found = found.get(name).unwrap_or(&Value::Null);
                assert_has(found, expected, &format!("{place}/{name}"));
            }
        }
        (Value::Array(found), Value::Array(items)) => {
            assert_eq!(found.len(), items.len(), "{place}");
            for (position, (found, expected)) in found.iter().zip(items).enumerate() {
                assert_has(found, expected, &format!("{place}/{position}"));
            }
        }
        _ => assert_eq!(found, expected, "{place}"),
    }
}

/// Asserts that the program finds what the release had stored.
async fn assert_whole(app: &TestApp, released: &Released) {
    let expected = &released.expected;
    for (path, stored) in expected["reads"].as_object().unwrap() {
        let reader = app.as_key(stored["key"].as_str().unwrap());
        assert_has(&reader.read(path).await, &stored["order"], path);
        let history = reader.read(&format!("{path}/history?limit=100")).await;
        assert_has(&history["data"], &stored["history"], path);
    }
    let service = app.as_key(released.text("service_key"));
    let papers = released.text("papers");
    assert_has(&service.read(papers).await, &expected["of_service"], papers);
    for (document, content) in expected["documents"].as_object().unwrap() {
        let answer = app.get(&format!("{papers}/{document}")).await;
        assert_eq!(answer.status(), 200, "{document}");
        let hash = format!("\"{}\"", hex(&Sha256::digest(content.as_str().unwrap())));
        assert_eq!(answer.headers()["etag"], hash.as_str(), "{document}");
        assert_eq!(answer.text().await.unwrap(), *content, "{document}");
    }
    assert_archives_have_crc32(app, papers).await;
    problem(app.get(&format!("{papers}/documents/1")).await, 410, "withdrawn").await;
    problem(app.get(released.text("erased")).await, 410, "erased").await;
    let orders = app.read("/api/order?limit=100").await;
    let own = expected["reads"].as_object().unwrap().values();
    let own = own.filter(|read| read["key"] == expected["client_key"]).count();
    assert_eq!(orders["data"].as_array().unwrap().len(), own);
    // A worker folds the texts of 0.1.0.
    for words in ["elm, austin", "quimby"] {
        let path = format!("/api/order?search={words}");
        eventually_async(async || !app.read(&path).await["data"].as_array().unwrap().is_empty())
            .await;
    }
    let accesses = app.read(&format!("{papers}/accesses?limit=100")).await;
    assert!(
        accesses["data"].as_array().unwrap().len() as u64
            >= expected["accesses"].as_u64().unwrap() / 2
    );
    let deliveries = app.read(&format!("/api/webhooks/{}/deliveries", expected["endpoint"])).await;
    assert_eq!(
        deliveries["data"].as_array().unwrap().len() as u64,
        expected["webhooks"].as_u64().unwrap()
    );
}

/// The feed begins with what the release had stored.
async fn assert_feed_has_the_changes_before(app: &TestApp, released: &Released) {
    let (mut changes, mut after) = (Vec::new(), "0-0".to_owned());
    loop {
        let page = app.read(&format!("/api/order/changes?limit=100&after={after}")).await;
        changes.extend(page["data"].as_array().unwrap().iter().cloned());
        page["next_after"].as_str().unwrap().clone_into(&mut after);
        if page["has_more"] == false {
            break;
        }
    }
    let kinds = |id: &Value| -> Vec<&Value> {
        let own = changes.iter().filter(|change| change["order_id"] == *id);
        own.map(|change| &change["kind"]).collect()
    };
    let orders = app.read("/api/order?limit=100").await;
    for order in orders["data"].as_array().unwrap() {
        let id = &order["order_id"];
        let history = app.read(&format!("/api/order/{id}/history?limit=100")).await;
        let history = history["data"].as_array().unwrap().iter().rev();
        let mut found = kinds(id);
        found.retain(|kind| **kind != "documents_added" && **kind != "note_added");
        assert_eq!(found, history.map(|entry| &entry["kind"]).collect::<Vec<_>>(), "{id}");
    }
    let erased = released.text("erased").rsplit('/').next().unwrap().parse::<i64>().unwrap();
    assert_eq!(kinds(&erased.into()), ["erased"]);
}

/// Version 0.1.0 stored no CRC-32. The first archive adds it.
async fn assert_archives_have_crc32(app: &TestApp, papers: &str) {
    const MISSING: &str = "SELECT count(*) FROM documents WHERE key IS NOT NULL AND crc32 IS NULL";
    let missing = || app.wiring.lines(MISSING)[0].parse::<u32>().unwrap();
    let (before, mut added) = (missing(), 0);
    for documents in ["documents", "signed-documents"] {
        let answer = app.get(&format!("{papers}/{documents}.zip")).await;
        let (size, tag) = (answer.content_length(), answer.headers()["etag"].clone());
        let archive = answer.bytes().await.unwrap();
        assert_eq!(size, Some(archive.len() as u64));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        fs::write(&path, archive).unwrap();
        let tested = Command::new("unzip").arg("-t").arg(&path).output().unwrap();
        assert!(tested.status.success(), "{tested:?}");
        let stored = app.read(&format!("{papers}/{documents}")).await;
        let stored = stored["data"].as_array().unwrap().iter();
        added += stored.filter(|document| document["withdrawn_at"].is_null()).count();
        let again = app.get(&format!("{papers}/{documents}.zip")).await;
        assert_eq!((again.headers()["etag"].clone(), again.content_length()), (tag, size));
    }
    assert_eq!(before - missing(), u32::try_from(added).unwrap());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

async fn database_of_each_release_is_found_whole(kind: Kind) {
    for released in Released::all(kind) {
        let wiring = kind.wiring_without_tables();
        released.copied_to(&wiring, "dump.sql");
        run(&wiring, &["migrate"]);
        let app = released.app(wiring).await;
        assert_whole(&app, &released).await;
        assert_feed_has_the_changes_before(&app, &released).await;
        let held = "SELECT count(*) FROM orders WHERE held_until IS NOT NULL";
        assert_eq!(app.wiring.lines(held), ["1"]);
        app.stop().await;
    }
}

async fn deliveries_of_each_release_leave(kind: Kind) {
    for released in Released::all(kind) {
        let wiring = kind.wiring_without_tables();
        released.copied_to(&wiring, "dump.sql");
        run(&wiring, &["migrate"]);
        let app = released.app(wiring).await;
        let mails = usize::try_from(released.expected["waiting_mails"].as_u64().unwrap()).unwrap();
        app.mails(mails).await;
        app.mails_leave().await;
        app.stop().await;
    }
}

/// Also before the current program has migrated it, and after an upgrade.
#[tokio::test(flavor = "multi_thread")]
async fn backup_of_each_release_is_made_and_restored() {
    for released in Released::all(Kind::Embedded) {
        let (wiring, restored) = (Wiring::embedded(), Wiring::embedded());
        released.copied_to(&wiring, "dump.sql");
        let folder = tempfile::tempdir().unwrap();
        run(&wiring, &["backup", folder.path().to_str().unwrap()]);
        run(&restored, &["restore", folder.path().to_str().unwrap()]);
        let app = released.app(restored).await;
        assert_whole(&app, &released).await;
        app.stop().await;
    }
}

/// An instance of a release goes on beside the current program while the database has the current schema. What
/// it writes are the rows of its dump: the current schema takes them.
#[tokio::test(flavor = "multi_thread")]
async fn current_schema_takes_the_rows_of_each_release() {
    for released in Released::all(Kind::Production) {
        let wiring = Wiring::production_without_tables();
        run(&wiring, &["migrate"]);
        released.copied_to(&wiring, "rows.sql");
        let app = released.app(wiring).await;
        assert_whole(&app, &released).await;
        app.stop().await;
    }
}
