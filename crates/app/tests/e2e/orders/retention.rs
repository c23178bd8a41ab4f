//! Orders that are kept no longer, and those on hold.

use reqwest::Method;
use serde_json::json;

use crate::{
    harness::{
        created, eventually, eventually_async, problem,
        service_process::{ServiceProcess, fail, issue_key, output, run},
    },
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    retention_erases_what_is_due_and_keeps_what_is_on_hold,
    documents_go_earlier_than_their_order,
    each_order_is_erased_once,
}

const DAYS: &str = "--erase-after-days=30";

/// Counts an erasure after it is visible.
const ERASED: &str = "notary_orders_retention_erased_total";

/// Moves everything of orders to the year 2020. One of the statements is for the other database.
fn age(wiring: &Wiring, orders: &str) {
    for instant in ["'2020-01-01T00:00:00Z'", "1577836800000000"] {
        wiring.execute(&format!(
            "UPDATE orders SET created_at = {instant}, updated_at = {instant}, starts_at = {instant}, \
            ends_at = {instant}, signing_date = '2020-01-01' WHERE {orders}"
        ));
    }
    let aged = wiring.lines("SELECT count(*) FROM orders WHERE signing_date = '2020-01-01'");
    assert_ne!(aged, ["0"]);
}

/// Creates orders with a document each, and waits for their mails.
async fn orders(wiring: &Wiring, count: usize) -> String {
    let service = ServiceProcess::keyed(wiring, &[]);
    for number in 1..=count {
        created(service.order_with_deed(&format!("F-{number}")).await).await;
    }
    eventually(|| wiring.rows("events") == 0 && wiring.pending_mails() == 0).await;
    let key = service.key.clone();
    service.stop_and_read_log();
    key
}

async fn retention_erases_what_is_due_and_keeps_what_is_on_hold(kind: Kind) {
    let wiring = kind.wiring();
    let key = orders(&wiring, 3).await;
    age(&wiring, "id <= 2");
    assert_eq!(run(&wiring, &["orders", "hold", "2"]), "order 2 is on hold until it is released\n");
    let held = run(&wiring, &["orders", "list", "--held", "--json"]);
    assert_eq!(held.lines().count(), 1, "{held}");
    let past = fail(&wiring, &["orders", "hold", "2", "--until=2020-01-01"]);
    assert!(past.contains("--until must not be in the past"), "{past}");
    let shorter = run(&wiring, &["orders", "hold", "2", "--until=9998-01-01"]);
    assert!(shorter.ends_with("; before, it was until it is released\n"), "{shorter}");

    let service = ServiceProcess::start(&wiring, &[DAYS]).with_key(key);
    eventually_async(async || service.get("/api/order/1").await.status() == 410).await;
    eventually(|| wiring.objects().len() == 2).await;
    eventually_async(async || service.metric(ERASED).await == 1).await;
    for path in ["/api/order/2/documents/0", "/api/order/3/documents/0"] {
        assert_eq!(service.get(path).await.status(), 200, "{path}");
    }

    let error = fail(&wiring, &["orders", "erase", "2", "--yes"]);
    assert!(error.contains("order 2 is on hold and was not erased"), "{error}");
    let older = output(&wiring, &["orders", "erase", "--older-than=1000", "--yes"]);
    let text = String::from_utf8(older.stdout).unwrap();
    assert!(text.starts_with("0 orders erased"), "{text}");
    assert!(String::from_utf8(older.stderr).unwrap().contains("1 order is on hold"));
    let withdrawal = service.request(Method::DELETE, "/api/order/2/documents/0");
    problem(withdrawal.send().await.unwrap(), 409, "order_on_hold").await;
    for end in ["is not on hold any more", "was not on hold"] {
        assert_eq!(run(&wiring, &["orders", "release", "2"]), format!("order 2 {end}\n"));
    }
    let erased = run(&wiring, &["orders", "erase", "2", "--yes"]);
    assert!(erased.starts_with("1 order erased, 1 document"), "{erased}");
    let error = fail(&wiring, &["orders", "hold", "2"]);
    assert!(error.contains("order 2 was erased"), "{error}");
    assert_eq!(wiring.objects().len(), 1);
}

async fn documents_go_earlier_than_their_order(kind: Kind) {
    let wiring = kind.wiring();
    let key = orders(&wiring, 2).await;
    age(&wiring, "id = 1");
    let service =
        ServiceProcess::start(&wiring, &["--erase-documents-after-days=30"]).with_key(key);
    eventually(|| wiring.objects().len() == 1).await;
    problem(service.get("/api/order/1/documents/0").await, 410, "withdrawn").await;
    let order = service.read("/api/order/1").await;
    let document = &order["documents"][0];
    assert_eq!(document["withdrawn_by"], "operator");
    assert_ne!(document["withdrawn_at"], order["updated_at"]);
    let entry = order["history"].as_array().unwrap().last().unwrap();
    assert_eq!((&entry["kind"], &entry["actor"]), (&json!("documents_erased"), &json!("operator")));
    assert_eq!(service.get("/api/order/2/documents/0").await.status(), 200);
}

/// SQLite has one instance.
async fn each_order_is_erased_once(kind: Kind) {
    const ORDERS: usize = 50;
    let wiring = kind.wiring();
    let key = issue_key(&wiring);
    let service = ServiceProcess::start(&wiring, &["--rate-per-second=0"]).with_key(key.clone());
    for number in 0..ORDERS {
        created(service.order(&format!("F-{number}")).await).await;
    }
    eventually(|| wiring.rows("events") == 0 && wiring.pending_mails() == 0).await;
    service.stop_and_read_log();
    age(&wiring, "true");
    let instances: Vec<_> =
        (0..wiring.instances()).map(|_| ServiceProcess::start(&wiring, &[DAYS])).collect();
    let left = "SELECT count(*) FROM orders WHERE erased_at IS NULL";
    eventually(|| wiring.lines(left) == ["0"]).await;
    eventually_async(async || {
        let mut erased = 0;
        for instance in &instances {
            erased += instance.metric(ERASED).await;
        }
        assert!(erased <= ORDERS as u64, "{erased}");
        erased == ORDERS as u64
    })
    .await;
    for instance in instances {
        instance.stop_and_read_log();
    }
    let rows = "SELECT outcome, count(*), count(DISTINCT order_id) FROM accesses \
        WHERE kind = 'erase' GROUP BY outcome";
    assert_eq!(wiring.lines(rows), [format!("ok|{ORDERS}|{ORDERS}")]);
}

/// It is a folder, which no store removes. A bucket may lock objects.
#[tokio::test(flavor = "multi_thread")]
async fn erasure_that_leaves_an_object_names_it_and_ends_with_3() {
    let wiring = Wiring::embedded();
    orders(&wiring, 1).await;
    let object = wiring.objects().into_keys().next().unwrap();
    let file = wiring.data().join("documents").join(&object);
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    std::fs::write(file.join("kept"), "").unwrap();
    let erased = output(&wiring, &["orders", "erase", "1", "--yes"]);
    let error = String::from_utf8(erased.stderr).unwrap();
    assert_eq!(erased.status.code(), Some(3), "{error}");
    assert!(error.contains(&object), "{error}");
    assert!(erased.stdout.starts_with(b"1 order erased"), "{error}");
}
