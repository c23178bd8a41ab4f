//! Other systems change orders in the database while the service runs.

use domain::order::OrderId;

use crate::{
    harness::{CREATE, created, order, problem},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    other_system_changes_status_and_notary,
}

async fn other_system_changes_status_and_notary(kind: Kind) {
    let app = kind.app().await;
    let request = || app.post(CREATE).header("idempotency-key", "one").json(&order("F-1"));
    let record = created(request().send().await.unwrap()).await;
    assert_eq!(record["order_status"], "NEW");
    assert!(record["notary_id"].is_null());
    let assign = |status: &str| {
        let statement = format!("UPDATE orders SET status = '{status}', notary_id = 7");
        app.wiring.execute(&statement)
    };
    let assigned = assign("ASSIGNED");
    assert!(assigned.is_some());

    let stored = app.stored_order(OrderId(1)).await.unwrap();
    assert_eq!((stored.status.as_str(), stored.notary_id), ("ASSIGNED", Some(7)));
    // A repeated request gets the order as it was created.
    let replayed = request().send().await.unwrap();
    assert_eq!(replayed.headers()["idempotency-replayed"], "true");
    assert_eq!(created(replayed).await, record);
    problem(app.order("F-1").await, 409, "duplicate_order").await;
    created(app.order("F-2").await).await;

    let longest = "x".repeat(50);
    assert!(assign(&longest).is_some());
    for status in ["", " ", &(longest + "x")] {
        assert!(assign(status).is_none(), "{status:?}");
    }
}
