//! The disk of the spool is full.

use std::{sync::Arc, time::Instant};

use reqwest::Response;

use crate::{
    harness::{TestApp, assert_unavailable, created, eventually, file, form, order},
    small_disk::{SmallDisk, done_with_mounts_of_its_own},
    wiring::Wiring,
};

/// Returns a document of 1 MiB, which does not fit on an almost full disk.
fn large() -> Vec<u8> {
    [b"%PDF-1.7\n".to_vec(), vec![b' '; 1024 * 1024]].concat()
}

/// Sends an order with two large documents.
async fn create_with_large(app: &TestApp, file_number: &str) -> Response {
    app.create_with((0..2).fold(form(&order(file_number)), |form, at| {
        form.part("documents", file(&format!("{at}.pdf"), large()))
    }))
    .await
}

/// Asserts the number of orders and documents, and that the spool is empty.
async fn assert_clean(app: &TestApp, orders: i64, documents: i64) {
    assert_eq!((app.rows("orders"), app.rows("documents")), (orders, documents));
    app.assert_spool_empty();
    // Failed puts may leave objects; they are swept after this time.
    app.clock.advance(time::Duration::hours(2));
    eventually(|| app.pending_mails() == 0).await;
}

/// Restarts the service, so that the sweeper runs at once, and checks the objects.
async fn assert_swept(app: TestApp) -> TestApp {
    let app = app.restart(&[]).await;
    eventually(|| app.rows("uploads") == 0).await;
    let objects = app.wiring.objects();
    assert_eq!(i64::try_from(objects.len()).unwrap(), app.rows("documents"));
    assert!(objects.values().all(|object| *object == large()));
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn full_spool_disk_fails_only_uploads() {
    if done_with_mounts_of_its_own(module_path!(), "full_spool_disk_fails_only_uploads") {
        return;
    }
    let wiring = Wiring::new();
    let disk = SmallDisk::at(&wiring.data().join("spool"), 5);
    let app = TestApp::start_on(wiring, Arc::default(), &[], None).await;
    created(create_with_large(&app, "F-before").await).await;
    disk.fill();
    for at in 0..3 {
        let sent = Instant::now();
        assert_unavailable(sent, create_with_large(&app, &format!("F-{at}")).await).await;
        created(app.create(&order(&format!("F-json-{at}"))).await).await;
    }
    disk.clear();
    // The disk fills up in the middle of a form: only some of its five documents fit.
    let sent = Instant::now();
    let five = (0..5).fold(form(&order("F-five")), |form, at| {
        form.part("documents", file(&format!("{at}.pdf"), large()))
    });
    assert_unavailable(sent, app.create_with(five).await).await;
    created(create_with_large(&app, "F-0").await).await;
    assert_clean(&app, 5, 4).await;
    drop(assert_swept(app).await);
    drop(disk);
}
