//! Stop and start again: what was acknowledged is there, what was pending is done.

use domain::order::OrderId;

use crate::harness::{TestApp, created, deed, form_with_deed, order, problem};

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_still_there_after_a_restart() {
    let app = TestApp::start().await;
    created(app.create(&order("F-1")).await).await;
    created(app.create_with(form_with_deed("F-2")).await).await;
    app.mails(2).await;
    let before = [
        app.storage().orders.find(OrderId(1)).await.unwrap(),
        app.storage().orders.find(OrderId(2)).await.unwrap(),
    ];

    let app = app.restart(&[]).await;
    let after = [
        app.storage().orders.find(OrderId(1)).await.unwrap(),
        app.storage().orders.find(OrderId(2)).await.unwrap(),
    ];
    assert!(before == after && before.iter().all(Option::is_some));
    assert_eq!(app.documents()[0], deed());
    problem(app.create(&order("F-1")).await, 409, "duplicate_order").await;
    assert_eq!(created(app.create(&order("F-3")).await).await["order_id"], 3);
    app.mails(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_that_was_pending_at_the_stop_is_delivered_after_the_restart() {
    let app = TestApp::start().await;
    // Nothing can be delivered before the stop.
    app.wiring.break_mail();
    created(app.create(&order("F-1")).await).await;
    app.clock.advance(time::Duration::MINUTE);
    let (clock, key) = (std::sync::Arc::clone(&app.clock), app.key.clone());
    let wiring = app.stop().await;
    assert_eq!((wiring.mails().len(), wiring.rows("deliveries")), (0, 1));

    wiring.mend_mail();
    let app = TestApp::start_on(wiring, clock, &[], Some(key)).await;
    app.mails(1).await;
    crate::harness::eventually(|| app.rows("deliveries") == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_of_a_process_that_died_are_swept_after_an_hour() {
    use domain::{document::ObjectKey, ports::Clock as _};
    let app = TestApp::start().await;
    let key = ObjectKey::random(&app::OsEntropy);
    app.storage().uploads.record(std::slice::from_ref(&key), app.clock.now()).await.unwrap();
    app.wiring.put_object(key.as_str(), &deed());

    app.clock.advance(time::Duration::minutes(59));
    let app = app.restart(&[]).await;
    created(app.create(&order("F-1")).await).await;
    app.mails(1).await;
    assert!(app.wiring.objects().contains_key(key.as_str()));
    app.clock.advance(time::Duration::minutes(2));
    let app = app.restart(&[]).await;
    crate::harness::eventually(|| app.rows("uploads") == 0).await;
    assert_eq!(app.wiring.objects().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_stop_leaves_a_clean_data_directory() {
    let app = TestApp::start().await;
    created(app.create_with(form_with_deed("F-1")).await).await;
    let wiring = app.stop().await;
    assert!(crate::harness::spooled(wiring.data()).is_empty());
    assert_eq!(wiring.rows("orders"), 1);
}
