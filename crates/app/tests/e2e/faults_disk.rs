//! The disk is full: that of the spool, of the documents, of the database, of the mails.

use std::{sync::Arc, time::Instant};

use reqwest::Response;

use crate::{
    harness::{TestApp, assert_unavailable, created, eventually, file, form, order},
    small_disk::{SmallDisk, done_with_mounts_of_its_own},
    wiring::Wiring,
};

/// A document of a megabyte, of which little room is no room.
fn large() -> Vec<u8> {
    [b"%PDF-1.7\n".to_vec(), vec![b' '; 1024 * 1024]].concat()
}

async fn create_with_large(app: &TestApp, file_number: &str) -> Response {
    app.create_with((0..2).fold(form(&order(file_number)), |form, at| {
        form.part("documents", file(&format!("{at}.pdf"), large()))
    }))
    .await
}

async fn assert_clean(app: &TestApp, orders: i64, documents: i64) {
    assert_eq!((app.rows("orders"), app.rows("documents")), (orders, documents));
    app.assert_spool_empty();
    // What a put left that failed for want of room is swept.
    app.clock.advance(time::Duration::hours(2));
    eventually(|| app.rows("deliveries") == 0).await;
}

/// Restarted, so that the sweeper comes at once.
async fn assert_swept(app: TestApp) -> TestApp {
    let app = app.restart(&[]).await;
    eventually(|| app.rows("uploads") == 0).await;
    let objects = app.wiring.objects();
    assert_eq!(i64::try_from(objects.len()).unwrap(), app.rows("documents"));
    assert!(objects.values().all(|object| *object == large()));
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_spool() {
    if done_with_mounts_of_its_own(module_path!(), "of_the_spool") {
        return;
    }
    let wiring = Wiring::new();
    let disk = SmallDisk::at(&wiring.data().join("spool"), 5);
    let app = TestApp::start_on(wiring, Arc::default(), &[], None).await;
    created(create_with_large(&app, "F-before").await).await;
    disk.fill();
    for at in 0..3 {
        let asked = Instant::now();
        assert_unavailable(asked, create_with_large(&app, &format!("F-{at}")).await).await;
        created(app.create(&order(&format!("F-json-{at}"))).await).await;
    }
    disk.clear();
    // One that ends in the middle: five documents are more than there is room for.
    let asked = Instant::now();
    let five = (0..5).fold(form(&order("F-five")), |form, at| {
        form.part("documents", file(&format!("{at}.pdf"), large()))
    });
    assert_unavailable(asked, app.create_with(five).await).await;
    created(create_with_large(&app, "F-0").await).await;
    assert_clean(&app, 5, 4).await;
    drop(assert_swept(app).await);
    drop(disk);
}
