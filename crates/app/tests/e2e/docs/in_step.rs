//! Runs the example programs that keep the table of a client in step: those that send an order again at each
//! change, and those that mirror all orders.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Command, Stdio},
};

use domain::order::OrderId;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_servers::{proxy::Proxy, tools::examples};

use super::examples::{MIRRORS, RESENDERS, configured, docs, lines, of_service};
use crate::harness::{Api, TestApp, created, deed, eventually, order};

const DEED: &str = "deed-of-trust.pdf";
const INSTRUCTIONS: &str = "signing-instructions.docx";

/// Prepares a run that sends an order again with a date.
fn resend(
    app: &TestApp,
    resender: &str,
    file_number: &str,
    date: &str,
    state: &TempDir,
) -> Command {
    let mut command = configured(resender, &app.url(""), &app.key, state);
    command.env("FILE_NUMBER", file_number).env("SIGNING_DATE", date);
    command
}

/// Returns the number of the order that a run has sent, and the other lines that it printed.
fn sent(mut lines: Vec<String>, date: &str) -> (i64, Vec<String>) {
    let first = lines.remove(0);
    let id = first.strip_prefix("sent ").and_then(|it| it.strip_suffix(&format!(" {date}")));
    (id.unwrap_or_else(|| panic!("{first}")).parse().unwrap(), lines)
}

/// Asserts that an order has these changes, and these documents with their numbers of bytes.
async fn assert_order(app: &TestApp, id: i64, kinds: &[&str], documents: &[(&str, usize)]) {
    let order = app.read(&format!("/api/order/{id}")).await;
    let entries = order["history"].as_array().unwrap().iter();
    let found: Vec<_> = entries.map(|entry| entry["kind"].as_str().unwrap()).collect();
    // Newer versions may also have entries of added documents.
    let found: Vec<_> = found.into_iter().filter(|kind| *kind != "documents_added").collect();
    assert_eq!(found, kinds, "{order}");
    let document = |it: &Value| {
        let name = it["name_as_sent"].as_str().unwrap().to_owned();
        (name, usize::try_from(it["size"].as_u64().unwrap()).unwrap())
    };
    let found: Vec<_> = order["documents"].as_array().unwrap().iter().map(document).collect();
    let expected: Vec<_> =
        documents.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
    assert_eq!(found, expected, "{order}");
}

#[tokio::test(flavor = "multi_thread")]
async fn resent_orders_are_created_once_and_amended_after_that() {
    let app = TestApp::start().await;
    let size = |name: &str| fs::read(docs().join("examples").join(name)).unwrap().len();
    for resender in examples(&RESENDERS) {
        let state = tempfile::tempdir().unwrap();
        // A file number that a URL must encode.
        let file_number = format!("A&B {resender}");
        let run = async |date| {
            sent(lines(resend(&app, resender, &file_number, date, &state)).await, date)
        };

        let ((id, first), (other, second)) = tokio::join!(run("2026-12-02"), run("2026-12-02"));
        assert_eq!(id, other, "{resender}");
        let mut added = [first, second].concat();
        added.sort();
        assert_eq!(added, [format!("added {DEED}"), format!("added {INSTRUCTIONS}")], "{resender}");
        let both = [(DEED, size(DEED)), (INSTRUCTIONS, size(INSTRUCTIONS))];
        assert_order(&app, id, &["created"], &both).await;

        // Another date, and a newer version of a document.
        let newer = state.path().join(DEED);
        let content = [&deed()[..], b"\n% The second version.\n"].concat();
        fs::write(&newer, &content).unwrap();
        let mut command = resend(&app, resender, &file_number, "2026-12-03", &state);
        let printed = lines({
            command.env("DOCUMENTS", &newer);
            command
        })
        .await;
        assert_eq!(sent(printed, "2026-12-03"), (id, vec![format!("replaced {DEED}")]));
        let kinds = ["created", "changed", "documents_replaced"];
        let three = [&both[..], &[(DEED, content.len())]].concat();
        assert_order(&app, id, &kinds, &three).await;

        // A replaced document does not come back, nor does one that was withdrawn.
        let withdraw = app.request(Method::DELETE, &format!("/api/order/{id}/documents/1"));
        assert_eq!(withdraw.send().await.unwrap().status(), 204);
        assert_eq!(run("2026-12-03").await, (id, Vec::new()), "{resender}");

        // After the end of an order, its file number begins another one.
        let cancel = app.post(&format!("/api/order/{id}/cancel")).json(&json!({}));
        assert_eq!(cancel.send().await.unwrap().status(), 200);
        let (next, added) = run("2026-12-04").await;
        assert_ne!(next, id, "{resender}");
        assert_eq!(added, [format!("added {DEED}"), format!("added {INSTRUCTIONS}")], "{resender}");
    }
}

/// More than two pages of changes.
const ORDERS: usize = 200;

/// Returns every order that a mirror has, by its number.
pub(super) fn mirrored(state: &Path) -> BTreeMap<i64, Value> {
    let orders: Vec<Value> = if state.join("mirror.json").exists() {
        let mirror: Value =
            serde_json::from_slice(&fs::read(state.join("mirror.json")).unwrap()).unwrap();
        mirror["orders"].as_object().unwrap().values().cloned().collect()
    } else {
        let mut query = Command::new("sqlite3");
        query.arg(state.join("mirror.db")).arg("SELECT record FROM orders");
        let output = query.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let records = String::from_utf8(output.stdout).unwrap();
        records.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    orders.into_iter().map(|order| (order["order_id"].as_i64().unwrap(), order)).collect()
}

/// Makes a mirror that of a database with later changes, and with an order that is not in this one.
fn outdate(state: &Path) {
    let json = state.join("mirror.json");
    if json.exists() {
        let mut mirror: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        mirror["next_after"] = json!("999-999-9");
        mirror["orders"]["999"] = json!({ "order_id": 999 });
        fs::write(json, mirror.to_string()).unwrap();
        return;
    }
    let lost = r#"INSERT INTO orders VALUES (999, 'F', 'NEW', '', '{"order_id":999}');"#;
    let outdate = format!("UPDATE feed SET next_after = '999-999-9'; {lost}");
    let mut query = Command::new("sqlite3");
    let output = query.arg(state.join("mirror.db")).arg(outdate).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Reads every order of the list.
pub(super) async fn listed(app: &Api) -> BTreeMap<i64, Value> {
    let (mut orders, mut after) = (BTreeMap::new(), String::new());
    loop {
        let page = app.read(&format!("/api/order?limit=100{after}")).await;
        for order in page["data"].as_array().unwrap() {
            let id = order["order_id"].as_i64().unwrap();
            orders.insert(id, app.read(&format!("/api/order/{id}")).await);
            after = format!("&starting_after={id}");
        }
        if page["has_more"] == false {
            return orders;
        }
    }
}

/// Runs a mirror until the service has begun so many answers, and kills it.
async fn run_and_kill(mut command: Command, proxy: &Proxy, answers: usize) {
    let before = proxy.round_trips();
    let mut mirror = command.stdout(Stdio::null()).spawn().unwrap();
    eventually(|| proxy.round_trips() >= before + answers || mirror.try_wait().unwrap().is_some())
        .await;
    mirror.kill().unwrap();
    let status = mirror.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "{command:?} ended before it was killed: {status}");
}

async fn succeed(request: RequestBuilder, status: u16) {
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), status, "{}", response.text().await.unwrap());
}

/// Changes six orders in each way that there is.
async fn change(app: &TestApp, service: &Api, ids: &[i64]) {
    let [assigned, changed, cancelled, noted, by_sql, erased] = ids[..6] else { panic!("{ids:?}") };
    let path = |id: i64| format!("/api/order/{id}");
    let assign = json!({ "order_status": "ASSIGNED", "notary_id": 7001 });
    succeed(service.request(Method::PATCH, &path(assigned)).json(&assign), 200).await;
    let file_number = app.read(&path(changed)).await["file_number"].as_str().unwrap().to_owned();
    let mut other = order(&file_number);
    other["signingDetailsFormData"]["signerName"] = json!("Zo\u{eb} O'Hara");
    succeed(app.request(Method::PUT, &path(changed)).json(&other), 200).await;
    succeed(app.post(&format!("{}/cancel", path(cancelled))).json(&json!({})), 200).await;
    let note = json!({ "text": "It's the \"blue\" door.\nRing twice." });
    succeed(app.post(&format!("{}/notes", path(noted))).json(&note), 201).await;
    app.wiring.lines(&format!("UPDATE orders SET status = 'ON_HOLD' WHERE id = {by_sql}"));
    let now = app.machine().clock.now();
    app.storage().admin.erase(OrderId(erased), now, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_mirrors_end_equal_to_the_list() {
    for mirror in examples(&MIRRORS) {
        let app = TestApp::start().await;
        let service = app.as_key(&app.issue_key_on(of_service()).await);
        let state = tempfile::tempdir().unwrap();
        let mut ids = Vec::new();
        for number in 0..ORDERS {
            let record = created(app.order(&format!("MIRROR-{number}")).await).await;
            ids.push(record["order_id"].as_i64().unwrap());
        }
        let proxy = Proxy::to(app.address.port());
        let url = format!("http://127.0.0.1:{}", proxy.port());
        // At the first page, in the middle of it, and in the middle of the next one.
        for (round, answers) in [1, 50, 120].into_iter().enumerate() {
            run_and_kill(configured(mirror, &url, &app.key, &state), &proxy, answers).await;
            change(&app, &service, &ids[round * 6..]).await;
        }
        let run = async || lines(configured(mirror, &app.url(""), &app.key, &state)).await;
        run().await;
        assert_eq!(mirrored(state.path()), listed(&app).await, "{mirror}");
        assert_eq!(mirrored(state.path()).len(), ORDERS - 3, "{mirror}");

        // The next runs read what has changed since, and nothing else.
        assert_eq!(run().await, [""; 0], "{mirror}");
        let last = &ids[ORDERS - 6..];
        change(&app, &service, last).await;
        let mut printed = run().await;
        printed.sort();
        let mut expected = ["ASSIGNED", "NEW", "CANCELLED", "NEW", "ON_HOLD", "erased"]
            .iter()
            .zip(last)
            .map(|(status, id)| format!("{status} {id}"))
            .collect::<Vec<_>>();
        expected.sort();
        assert_eq!(printed, expected, "{mirror}");
        assert_eq!(mirrored(state.path()), listed(&app).await, "{mirror}");

        // After a restore of an older backup, it begins anew, and what was lost goes.
        outdate(state.path());
        assert!(mirrored(state.path()).contains_key(&999), "{mirror}");
        run().await;
        assert_eq!(mirrored(state.path()), listed(&app).await, "{mirror}");
    }
}
