//! Sample webhooks.

use std::collections::BTreeMap;

use domain::{
    api_key::{Owner, Party},
    order::OrderId,
    ports::{
        Cursor, DeliveryPageQuery, EndpointEffect, NewEndpoint, ReplayBatch, Replayed, Retried,
        Settlement, WebhookAttempted, WebhookLease, WebhookQueue, WebhookRepo, WebhookSlots,
    },
    webhook::{
        AttemptOutcome, AttemptRecord, Endpoint, EndpointId, EndpointPrecondition, EventType,
        endpoint_request::EndpointChange,
    },
};
use time::{Duration, OffsetDateTime};

use super::{CLIENT, NOW, Storage};

/// The owner of the endpoints of the live keys of [`CLIENT`].
pub const LIVE: Owner = Owner::client(CLIENT, false);

/// Slots for everything that is due.
pub const WEBHOOK_SLOTS: WebhookSlots =
    WebhookSlots { limit: 1_000, unproven: 1_000, per_party: 1_000, busy: BTreeMap::new() };

/// Returns an endpoint that gets every event of orders.
pub fn new_endpoint(owner: Owner) -> NewEndpoint {
    NewEndpoint {
        owner,
        key: None,
        url: "https://a.example/hook?é='\"\\".to_owned(),
        events: EventType::OF_ORDERS.into(),
        description: None,
        secret: vec![0, 1, 255],
        created_at: NOW,
    }
}

/// Returns an endpoint of [`LIVE`].
pub async fn read_endpoint(storage: &Storage, id: EndpointId) -> Endpoint {
    storage.webhooks.endpoint(LIVE, id).await.unwrap().unwrap()
}

/// Leases every webhook delivery that is due, for two minutes.
pub async fn lease_webhooks(storage: &Storage, now: OffsetDateTime) -> Vec<WebhookLease> {
    storage.webhook_queue.lease(now, Duration::minutes(2), &WEBHOOK_SLOTS).await.unwrap()
}

/// Returns an attempt that ended at [`NOW`].
pub fn webhook_attempted(
    lease: &WebhookLease,
    settlement: Settlement,
    effect: EndpointEffect,
) -> WebhookAttempted {
    let mut attempts = lease.delivery.attempts.clone();
    attempts.push(AttemptRecord { at: NOW, outcome: AttemptOutcome::Status(200) });
    WebhookAttempted {
        id: lease.delivery.id,
        token: lease.token,
        endpoint: lease.delivery.endpoint,
        url: lease.url.clone(),
        at: NOW,
        settlement,
        attempts,
        effect,
    }
}

/// Settles a delivery whose lease is held.
pub async fn settle_webhook(
    storage: &Storage,
    lease: &WebhookLease,
    settlement: Settlement,
    effect: EndpointEffect,
    at: OffsetDateTime,
) {
    let attempted = WebhookAttempted { at, ..webhook_attempted(lease, settlement, effect) };
    let settled = storage.webhook_queue.settle(&[attempted]).await.unwrap();
    assert_eq!(settled.held, [lease.delivery.id]);
}

/// Returns what is wrong with rows that cannot be read, or not whole.
pub async fn faults(storage: &Storage) -> Vec<String> {
    let found = storage.webhook_queue.unreadable(OrderId(0), 10).await.unwrap();
    found.rows.into_iter().map(|row| row.fault).collect()
}

/// Calls every method of both ports of webhooks, on an endpoint of its own.
pub async fn call_webhooks<S: WebhookRepo + WebhookQueue>(store: &S) {
    let id = store.add(&new_endpoint(LIVE), 100).await.unwrap().unwrap().id;
    let change = EndpointChange { is_enabled: Some(true), ..EndpointChange::default() };
    store.change(LIVE, id, &change, &EndpointPrecondition::NONE, NOW).await.unwrap().unwrap();
    assert!(store.rotate_secret(LIVE, id, &[1], &EndpointPrecondition::NONE, NOW).await.unwrap());
    let secrets = store.secrets().await.unwrap().into_iter().find(|of| of.id == id).unwrap();
    assert!(store.replace_secrets(&secrets, &secrets.secrets).await.unwrap());
    store.endpoint(LIVE, id).await.unwrap().unwrap();
    assert_eq!(store.of_owner(LIVE).await.unwrap().len(), 1);
    assert_eq!(store.of_parties(&[Party::Client(CLIENT)]).await.unwrap().len(), 1);
    store.all().await.unwrap();
    let delivery =
        store.add_test(LIVE, id, "key", &EndpointPrecondition::NONE, NOW).await.unwrap().unwrap();
    let leases = store.lease(NOW, Duration::MINUTE, &WEBHOOK_SLOTS).await.unwrap();
    let fail = Settlement::Fail { at: NOW, error: String::new() };
    let attempted = webhook_attempted(&leases[0], fail, EndpointEffect::Failed);
    assert_eq!(WebhookQueue::settle(store, &[attempted]).await.unwrap().held, [delivery]);
    assert_eq!(WebhookQueue::list(store, true, 10).await.unwrap().len(), 1);
    assert_eq!(WebhookQueue::list(store, false, 10).await.unwrap().len(), 0);
    for cursor in [Cursor::Newest, Cursor::OlderThan(delivery), Cursor::NewerThan(delivery)] {
        let query = DeliveryPageQuery { limit: 1, cursor };
        WebhookQueue::page(store, LIVE, id, &query).await.unwrap().unwrap();
    }
    let batch = ReplayBatch { since: NOW, until: NOW, before: None, limit: 10 };
    let replayed = store.replay_batch(LIVE, id, &batch, &EndpointPrecondition::NONE, NOW).await;
    assert_eq!(replayed.unwrap(), Replayed::All);
    assert!(store.replay(LIVE, id, delivery, &EndpointPrecondition::NONE, NOW).await.unwrap());
    assert_eq!(WebhookQueue::retry(store, delivery, NOW).await.unwrap(), Retried::Due);
    WebhookQueue::stats(store).await.unwrap();
    assert_eq!(store.unreadable(OrderId(0), 10).await.unwrap().rows, []);
    assert_eq!(store.untold(NOW).await.unwrap().len(), 1);
    store.told(id, false, NOW).await.unwrap();
    assert_eq!(store.disable_failing(NOW, NOW, NOW).await.unwrap(), [id]);
    store.told(id, true, NOW).await.unwrap();
    assert!(store.remove(LIVE, id, &EndpointPrecondition::NONE).await.unwrap());
    WebhookQueue::forget(store, NOW, 10).await.unwrap();
}

/// Makes an attempt at an endpoint of [`LIVE`] that gets this status and ends the delivery. A 202
/// comes late.
pub async fn attempt_webhook(storage: &Storage, id: EndpointId, status: u16, at: OffsetDateTime) {
    let delivery = storage
        .webhook_queue
        .add_test(LIVE, id, "attempt", &EndpointPrecondition::NONE, at)
        .await
        .unwrap()
        .unwrap();
    let leases = lease_webhooks(storage, at).await;
    let lease = leases.iter().find(|lease| lease.delivery.id == delivery).unwrap();
    let failed = Settlement::Fail { at, error: format!("status {status}") };
    let (settlement, effect) = match status {
        200 => (Settlement::Done, EndpointEffect::Succeeded),
        202 => (Settlement::Done, EndpointEffect::Slow),
        _ => (failed, EndpointEffect::Failed),
    };
    settle_webhook(storage, lease, settlement, effect, at).await;
}
