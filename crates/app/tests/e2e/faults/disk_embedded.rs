//! The disk of the embedded default is full.

use std::sync::Arc;

use crate::{
    harness::small_disk::{SmallDisk, done_with_mounts_of_its_own},
    harness::{TestApp, assert_unavailable, created, deed, eventually, eventually_async, order},
    wiring::Wiring,
};

/// Returns an order that fills a page of the database.
fn long_order(file_number: &str) -> serde_json::Value {
    let mut order = order(file_number);
    order["signingDetailsFormData"]["specialInstructions"] =
        "Ring twice. ".repeat(400).trim().into();
    order
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_loses_no_acknowledged_order() {
    if done_with_mounts_of_its_own(module_path!(), "full_disk_loses_no_acknowledged_order") {
        return;
    }
    let wiring = Wiring::embedded();
    let disk = SmallDisk::at(wiring.data(), 8);
    let app = TestApp::start_on(wiring, Arc::default(), &[], None).await;
    let mut acknowledged = vec![created(app.create(&long_order("F-before")).await).await];
    app.mails(1).await;
    disk.fill();
    // The log of the database may still have space for a few orders.
    let mut failures = 0;
    for at in 0.. {
        let response = app.create(&long_order(&format!("F-{at}"))).await;
        if response.status() == 201 {
            acknowledged.push(created(response).await);
            assert!(at < 2_000, "the disk is not full");
            continue;
        }
        assert_unavailable(response).await;
        assert_unavailable(app.order_with_deed(&format!("F-form-{at}")).await).await;
        failures += 1;
        if failures == 5 {
            break;
        }
    }
    let (status, body) = app.ops("/readyz").await;
    assert!(status == 503 && body.contains("database"), "{body}");
    disk.clear();
    acknowledged.push(created(app.create(&long_order("F-after")).await).await);
    created(app.order_with_deed("F-form-after").await).await;
    app.assert_spool_empty();
    assert_eq!(app.rows("orders"), acknowledged.len() + 1);
    for order in &acknowledged {
        let id = domain::order::OrderId(order["order_id"].as_i64().unwrap());
        assert!(app.stored_order(id).await.is_some());
    }
    // Mails that could not be written on the full disk are retried.
    app.clock.advance(time::Duration::hours(2));
    app.mails(acknowledged.len() + 1).await;
    app.store_a_use().await;
    let app = app.restart(&[]).await;
    eventually(|| app.rows("uploads") == 0).await;
    assert_eq!(app.documents(), [deed()]);
    assert_eq!(app.ops("/readyz").await.0, 200);
    drop(app);
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_documents_disk_fails_only_uploads() {
    if done_with_mounts_of_its_own(module_path!(), "full_documents_disk_fails_only_uploads") {
        return;
    }
    let wiring = Wiring::embedded();
    let disk = SmallDisk::at(&wiring.data().join("documents"), 2);
    let app = TestApp::start_on(wiring, Arc::default(), &[], None).await;
    created(app.order_with_deed("F-before").await).await;
    disk.fill();
    for at in 0..3 {
        assert_unavailable(app.order_with_deed(&format!("F-{at}")).await).await;
        created(app.order(&format!("F-json-{at}")).await).await;
    }
    let (status, body) = app.ops("/readyz").await;
    assert!(status == 503 && body.contains("documents"), "{body}");
    disk.clear();
    for at in 0..3 {
        created(app.order_with_deed(&format!("F-{at}")).await).await;
    }
    app.assert_spool_empty();
    app.clock.advance(time::Duration::hours(2));
    app.store_a_use().await;
    let app = app.restart(&[]).await;
    eventually(|| app.rows("uploads") == 0).await;
    assert_eq!((app.rows("orders"), app.documents()), (7, vec![deed(); 4]));
    drop(app);
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_mail_disk_delays_mails() {
    if done_with_mounts_of_its_own(module_path!(), "full_mail_disk_delays_mails") {
        return;
    }
    let wiring = Wiring::embedded();
    let disk = SmallDisk::at(&wiring.data().join("mail"), 1);
    let app = TestApp::start_on(wiring, Arc::default(), &[], None).await;
    disk.fill();
    for at in 0..5 {
        created(app.order(&format!("F-{at}")).await).await;
    }
    let is_full =
        |error: &Option<String>| error.as_ref().is_some_and(|error| error.contains("space"));
    // A mail that fails after the clock has advanced would be due after the end of the test.
    eventually_async(async || {
        let mails = app.storage().queue.list(false, 10).await.unwrap();
        mails.len() == 5 && mails.iter().all(|mail| is_full(&mail.last_error))
    })
    .await;
    assert_eq!(app.wiring.mails().len(), 0);
    disk.clear();
    app.clock.advance(time::Duration::seconds(5));
    app.mails(5).await;
    drop(app);
    drop(disk);
}
