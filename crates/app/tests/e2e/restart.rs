//! Stop and start again: what was acknowledged is there, what was pending is done.

use domain::order::OrderId;

use crate::harness::{TestApp, created, deed, form_with_deed, order, problem};

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_still_there_after_a_restart() {
    let app = TestApp::start().await;
    created(app.create(&order("F-1")).await).await;
    created(app.create_with(form_with_deed("F-2")).await).await;
    app.mails(2).await;
    let before = [app.storage().orders.find(OrderId(1)).await.unwrap(), app.storage().orders.find(OrderId(2)).await.unwrap()];

    let app = app.restart(&[]).await;
    let after = [app.storage().orders.find(OrderId(1)).await.unwrap(), app.storage().orders.find(OrderId(2)).await.unwrap()];
    assert!(before == after && before.iter().all(Option::is_some));
    assert_eq!(std::fs::read(&app.files("documents")[0]).unwrap(), deed());
    problem(app.create(&order("F-1")).await, 409, "duplicate_order").await;
    assert_eq!(created(app.create(&order("F-3")).await).await["order_id"], 3);
    app.mails(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_that_was_pending_at_the_stop_is_delivered_after_the_restart() {
    let app = TestApp::start().await;
    // Nothing can be dropped before the stop.
    std::fs::remove_dir_all(app.data().join("mail")).unwrap();
    std::fs::write(app.data().join("mail"), "in the way").unwrap();
    created(app.create(&order("F-1")).await).await;
    app.clock.advance(time::Duration::MINUTE);

    let data = app.data().to_owned();
    let mail = data.join("mail");
    let other = data.join("mail-after");
    let app = app.restart(&[&format!("--mail-url=file://{}", other.display())]).await;
    crate::harness::eventually(|| app.files("mail-after").len() == 1).await;
    crate::harness::eventually(|| app.rows("follow_ups") == 0).await;
    assert!(mail.is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_of_a_process_that_died_are_swept_after_an_hour() {
    use domain::{document::ObjectKey, ports::Clock as _};
    let app = TestApp::start().await;
    let key = ObjectKey::random(&app::OsEntropy);
    app.storage().uploads.record(std::slice::from_ref(&key), app.clock.now()).await.unwrap();
    let object = app.data().join("documents").join(key.as_str());
    std::fs::create_dir_all(object.parent().unwrap()).unwrap();
    std::fs::write(&object, deed()).unwrap();

    app.clock.advance(time::Duration::minutes(59));
    let app = app.restart(&[]).await;
    created(app.create(&order("F-1")).await).await;
    app.mails(1).await;
    assert!(object.exists());
    app.clock.advance(time::Duration::minutes(2));
    let app = app.restart(&[]).await;
    crate::harness::eventually(|| app.rows("uploads") == 0).await;
    assert!(!object.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_stop_leaves_a_clean_data_directory() {
    let app = TestApp::start().await;
    created(app.create_with(form_with_deed("F-1")).await).await;
    let data = app.stop().await;
    assert!(crate::harness::files_below(&data.path().join("spool")).iter().all(|path| path.ends_with("spool/lock")));
    assert_eq!(crate::harness::rows(data.path(), "orders"), 1);
}
