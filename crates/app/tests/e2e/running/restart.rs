//! Restarts: acknowledged orders are kept, and pending work is done.

use std::sync::Arc;

use domain::{document::ObjectKey, order::OrderId, ports::Clock as _};

use crate::{
    harness::{TestApp, created, deed, eventually, problem},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    restart_keeps_orders_and_documents,
    pending_delivery_is_made_after_restart,
    abandoned_uploads_are_deleted_after_an_hour,
}

async fn restart_keeps_orders_and_documents(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    created(app.order_with_deed("F-2").await).await;
    app.mails(2).await;
    let before = [app.stored_order(OrderId(1)).await, app.stored_order(OrderId(2)).await];

    let app = app.restart(&[]).await;
    let after = [app.stored_order(OrderId(1)).await, app.stored_order(OrderId(2)).await];
    assert!(before == after && before.iter().all(Option::is_some));
    assert_eq!(app.documents()[0], deed());
    problem(app.order("F-1").await, 409, "duplicate_order").await;
    assert_eq!(created(app.order("F-3").await).await["order_id"], 3);
    app.mails(3).await;
}

async fn pending_delivery_is_made_after_restart(kind: Kind) {
    let app = kind.app().await;
    app.wiring.break_mail();
    created(app.order("F-1").await).await;
    let (clock, key) = (Arc::clone(&app.clock), app.key.clone());
    let wiring = app.stop().await;
    assert_eq!((wiring.mails().len(), wiring.pending_mails()), (0, 1));

    // The mail is due again if it was attempted before the stop.
    clock.advance(time::Duration::MINUTE);
    wiring.mend_mail();
    let app = TestApp::start_on(wiring, clock, &[], Some(key)).await;
    app.mails(1).await;
    app.mails_leave().await;
}

async fn abandoned_uploads_are_deleted_after_an_hour(kind: Kind) {
    let app = kind.app().await;
    let key = ObjectKey::random(&operator::OsEntropy);
    app.storage().uploads.record(std::slice::from_ref(&key), app.clock.now()).await.unwrap();
    app.wiring.put_object(key.as_str(), &deed());

    app.clock.advance(time::Duration::minutes(59));
    let app = app.restart(&[]).await;
    created(app.order("F-1").await).await;
    app.mails(1).await;
    assert!(app.wiring.objects().contains_key(key.as_str()));
    app.clock.advance(time::Duration::minutes(2));
    let app = app.restart(&[]).await;
    eventually(|| app.rows("uploads") == 0).await;
    assert_eq!(app.wiring.objects().len(), 0);
}
