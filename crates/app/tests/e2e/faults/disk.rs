//! The disk of the spool is full.

use std::sync::Arc;

use reqwest::Response;

use crate::{
    harness::small_disk::{SmallDisk, done_with_mounts_of_its_own},
    harness::{TestApp, assert_unavailable, created, eventually, form, order, with_documents},
    wiring::Wiring,
};

/// Returns a document of 1 MiB, which does not fit on an almost full disk.
fn large() -> Vec<u8> {
    [b"%PDF-1.7\n".to_vec(), vec![b' '; 1024 * 1024]].concat()
}

/// Sends an order with that many large documents.
async fn create_with_large(app: &TestApp, file_number: &str, count: usize) -> Response {
    app.create_with(with_documents(form(&order(file_number)), count, &large())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn full_spool_disk_fails_only_uploads() {
    if done_with_mounts_of_its_own(module_path!(), "full_spool_disk_fails_only_uploads") {
        return;
    }
    let wiring = Wiring::embedded();
    let disk = SmallDisk::at(&wiring.data().join("spool"), 5);
    let app = TestApp::start_on(wiring, Arc::default(), &[], None).await;
    created(create_with_large(&app, "F-before", 2).await).await;
    disk.fill();
    for at in 0..3 {
        assert_unavailable(create_with_large(&app, &format!("F-{at}"), 2).await).await;
        created(app.order(&format!("F-json-{at}")).await).await;
    }
    disk.clear();
    // The disk fills up in the middle of a form: only some of its five documents fit.
    assert_unavailable(create_with_large(&app, "F-five", 5).await).await;
    created(create_with_large(&app, "F-0", 2).await).await;
    assert_eq!((app.rows("orders"), app.rows("documents")), (5, 4));
    app.assert_spool_empty();
    // Failed puts may leave objects; they are swept after this time.
    app.clock.advance(time::Duration::hours(2));
    app.mails_leave().await;
    app.store_a_use().await;
    // The sweeper runs at once.
    let app = app.restart(&[]).await;
    eventually(|| app.rows("uploads") == 0).await;
    assert_eq!(app.documents(), vec![large(); 4]);
    drop(app);
    drop(disk);
}
