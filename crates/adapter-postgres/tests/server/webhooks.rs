//! Webhooks that are added while another instance leases.

use std::sync::Arc;

use contract_tests::samples::{LIVE, NOW, WEBHOOK_SLOTS, WINDOW, new_endpoint, new_order};
use domain::{
    delivery::Settling,
    ports::{Dispatch, NewWebhookDelivery, OrderRepo as _, Outbox as _, WebhookQueue, WebhookRepo},
    webhook::{EndpointPrecondition, EventType},
};
use time::Duration;

use super::{outsider, sessions, store, until};

/// A lease does not see the deliveries that another instance is adding, and puts the endpoint off.
#[tokio::test]
async fn webhook_that_is_added_beside_a_lease_is_due() {
    let (store, database) = store().await;
    let store = Arc::new(store);
    let endpoint = WebhookRepo::add(&*store, &new_endpoint(LIVE), 1).await.unwrap().unwrap().id;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let event = store.events(NOW, 1).await.unwrap().remove(0).id;
    let webhook = NewWebhookDelivery {
        endpoint,
        event: EventType::OrderCreated,
        change: None,
        message_key: "m".to_owned(),
        body: Some("{}".to_owned()),
    };
    let dispatch =
        Dispatch { event, mails: Vec::new(), settling: Settling::NONE, webhooks: vec![webhook] };
    let (leasing, watcher) = (outsider(&database).await, outsider(&database).await);
    for is_event in [true, false] {
        // The endpoint is due before the lease, and may have several.
        let due = format!("UPDATE webhook_endpoints SET due_at = '{NOW}', succeeded_at = '{NOW}'");
        database.sql(&due);
        leasing.batch_execute("BEGIN; SELECT FROM webhook_endpoints FOR UPDATE").await.unwrap();
        let (adder, dispatch) = (Arc::clone(&store), dispatch.clone());
        let adding = tokio::spawn(async move {
            if is_event {
                assert_eq!(adder.dispatch(&[dispatch], NOW).await.unwrap(), [event]);
            } else {
                adder
                    .add_test(LIVE, endpoint, "key", &EndpointPrecondition::NONE, NOW)
                    .await
                    .unwrap()
                    .unwrap();
            }
        });
        until("the call waits or ends", async || {
            adding.is_finished() || sessions(&watcher).await.1 == 1
        })
        .await;
        let put_off = "UPDATE webhook_endpoints SET due_at = NULL; COMMIT";
        leasing.batch_execute(put_off).await.unwrap();
        adding.await.unwrap();
        let leases = store.lease(NOW, Duration::MINUTE, &WEBHOOK_SLOTS).await.unwrap();
        assert_eq!(leases.len(), 1, "an event: {is_event}");
    }
}

/// A statement that removes them all would meet its time limit.
#[tokio::test]
async fn endpoint_is_removed_with_any_number_of_deliveries() {
    let (store, database) = store().await;
    let endpoint = WebhookRepo::add(&store, &new_endpoint(LIVE), 1).await.unwrap().unwrap().id;
    database.sql(&format!(
        "INSERT INTO webhook_deliveries (endpoint_id, created_at, due_at, event, message_key) \
        SELECT {}, now(), now(), 'webhook.test', 'k' || n FROM generate_series(1, 2500) AS n; \
        CREATE FUNCTION count_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        IF (SELECT count(*) FROM removed) > 1000 THEN RAISE 'too many'; END IF; RETURN NULL; END $$; \
        CREATE TRIGGER few AFTER DELETE ON webhook_deliveries REFERENCING OLD TABLE AS removed \
        FOR EACH STATEMENT EXECUTE FUNCTION count_removed()",
        endpoint.0
    ));
    assert!(store.remove(LIVE, endpoint, &EndpointPrecondition::NONE).await.unwrap());
    assert_eq!(store.endpoint(LIVE, endpoint).await.unwrap(), None);
    assert_eq!(database.sql("SELECT count(*) FROM webhook_deliveries").trim(), "0");
}
