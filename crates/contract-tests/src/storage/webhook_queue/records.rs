//! Webhooks that wait or have ended: their pages, replays, lists and numbers.

use domain::{
    ports::{
        Cursor, DeliveryPageQuery, EndpointEffect, ReplayBatch, Replayed, Retried, Settlement,
    },
    webhook::{EndpointId, EndpointPrecondition, WebhookDeliveryId},
};
use time::Duration;

use super::{LEASE, OTHER, add, add_many, disable, endpoint, ids, page};
use crate::samples::{
    LIVE, MICROSECOND, NOW, Storage, attempt_webhook, lease_webhooks, settle_webhook,
};

/// In both directions, newest first.
pub async fn pages_have_every_webhook_once(storage: &Storage) {
    let (own, other) = (endpoint(storage).await, endpoint(storage).await);
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(add(storage, own, NOW).await);
        add(storage, other, NOW).await;
    }
    let (older, newer) = (Cursor::OlderThan, Cursor::NewerThan);
    for (cursor, expected, has_older, has_newer) in [
        (Cursor::Newest, vec![all[4], all[3]], true, false),
        (older(all[3]), vec![all[2], all[1]], true, true),
        (older(all[1]), vec![all[0]], false, true),
        (newer(all[0]), vec![all[2], all[1]], true, true),
        (newer(all[2]), vec![all[4], all[3]], true, false),
        (newer(all[4]), vec![], true, false),
    ] {
        let query = DeliveryPageQuery { limit: 2, cursor };
        let page = storage.webhook_queue.page(LIVE, own, &query).await.unwrap().unwrap();
        let found: Vec<_> = page.items.iter().map(|delivery| delivery.id).collect();
        assert_eq!((found, page.has_older, page.has_newer), (expected, has_older, has_newer));
    }
}

/// A delivery of another endpoint is no cursor.
pub async fn page_of_another_owner_or_cursor_is_none(storage: &Storage) {
    let (own, other) = (endpoint(storage).await, endpoint(storage).await);
    let (of_own, of_other) = (add(storage, own, NOW).await, add(storage, other, NOW).await);
    for (owner, endpoint, cursor) in [
        (OTHER, own, Cursor::Newest),
        (OTHER, own, Cursor::OlderThan(of_own)),
        (LIVE, EndpointId(i64::MAX), Cursor::Newest),
        (LIVE, own, Cursor::OlderThan(of_other)),
        (LIVE, own, Cursor::NewerThan(WebhookDeliveryId(i64::MAX))),
    ] {
        let query = DeliveryPageQuery { limit: 2, cursor };
        let page = storage.webhook_queue.page(owner, endpoint, &query).await.unwrap();
        assert_eq!(page, None, "{owner:?} {endpoint:?} {cursor:?}");
    }
}

/// Whether it was delivered or failed. Its attempts and its event stay.
pub async fn ended_webhook_is_replayed(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    let later = NOW + Duration::HOUR;
    let failed = Settlement::Fail { at: NOW, error: "status 400".to_owned() };
    for settlement in [Settlement::Done, failed] {
        let id = add(storage, endpoint, NOW).await;
        let lease = lease_webhooks(storage, NOW).await.remove(0);
        settle_webhook(storage, &lease, settlement, EndpointEffect::None, NOW).await;
        let queue = &storage.webhook_queue;
        let other = EndpointPrecondition::expecting(vec![]);
        assert!(!queue.replay(LIVE, endpoint, id, &other, later).await.unwrap());
        assert!(
            !queue.replay(OTHER, endpoint, id, &EndpointPrecondition::NONE, later).await.unwrap()
        );
        assert!(
            !queue
                .replay(LIVE, EndpointId(i64::MAX), id, &EndpointPrecondition::NONE, later)
                .await
                .unwrap()
        );
        let unknown = WebhookDeliveryId(i64::MAX);
        assert!(
            !queue
                .replay(LIVE, endpoint, unknown, &EndpointPrecondition::NONE, later)
                .await
                .unwrap()
        );
        assert_eq!(lease_webhooks(storage, later).await, []);
        assert!(
            queue.replay(LIVE, endpoint, id, &EndpointPrecondition::NONE, later).await.unwrap()
        );
        let again = lease_webhooks(storage, later).await.remove(0);
        assert_eq!((again.delivery.id, again.delivery.failures), (id, 0));
        assert_eq!(again.delivery.message_key, lease.delivery.message_key);
        assert_eq!(again.delivery.created_at, NOW);
        assert_eq!(again.delivery.attempts.len(), 1);
        // A replay leaves the lease of a worker alone.
        assert!(
            queue.replay(LIVE, endpoint, id, &EndpointPrecondition::NONE, later).await.unwrap()
        );
        assert_eq!(lease_webhooks(storage, later).await, []);
        settle_webhook(storage, &again, Settlement::Done, EndpointEffect::None, NOW).await;
    }
}

/// Those that wait stay as they are.
pub async fn webhooks_of_a_time_are_replayed(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    attempt_webhook(storage, endpoint, 200, NOW - Duration::DAY).await;
    let mut all = Vec::new();
    for hour in 0..6 {
        let at = NOW + Duration::hours(hour);
        all.push(add(storage, endpoint, at).await);
        let lease = lease_webhooks(storage, at).await.remove(0);
        let due_at = NOW + Duration::DAY * 2;
        let retry = Settlement::RetryAt { due_at, error: "status 500".to_owned() };
        let settlement = if hour == 3 { retry } else { Settlement::Done };
        settle_webhook(storage, &lease, settlement, EndpointEffect::None, at).await;
    }
    let at = NOW + Duration::DAY;
    let range = |before| ReplayBatch {
        since: NOW + Duration::HOUR,
        until: NOW + Duration::hours(5),
        before,
        limit: 2,
    };
    let queue = &storage.webhook_queue;
    let none = EndpointPrecondition::NONE;
    let other = EndpointPrecondition::expecting(vec![]);
    for (owner, precondition) in [(OTHER, &none), (LIVE, &other)] {
        let refused = queue.replay_batch(owner, endpoint, &range(None), precondition, at).await;
        assert_eq!(refused.unwrap(), Replayed::Refused);
    }
    assert_eq!(lease_webhooks(storage, at).await, []);
    let (mut before, mut calls) = (None, 0);
    while calls == 0 || before.is_some() {
        let replayed = queue.replay_batch(LIVE, endpoint, &range(before), &none, at).await;
        before = match replayed.unwrap() {
            Replayed::UpTo(delivery) => Some(delivery),
            Replayed::All => None,
            Replayed::Refused => panic!(),
        };
        calls += 1;
        assert!(calls <= 5);
    }
    let mut replayed = ids(&lease_webhooks(storage, at).await);
    replayed.sort_unstable();
    assert_eq!(replayed, [all[1], all[2], all[4]]);
}

/// By age.
pub async fn webhooks_are_listed_and_retried(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    let failed = add(storage, endpoint, NOW).await;
    let lease = lease_webhooks(storage, NOW).await.remove(0);
    let fail = Settlement::Fail { at: NOW, error: "status 400".to_owned() };
    settle_webhook(storage, &lease, fail, EndpointEffect::None, NOW).await;
    let pending = add_many(storage, endpoint, 3).await;
    let list = async |failed, limit| -> Vec<_> {
        let listed = storage.webhook_queue.list(failed, limit).await.unwrap();
        listed.into_iter().map(|delivery| delivery.id).collect()
    };
    assert_eq!(list(true, 10).await, [failed]);
    assert_eq!(list(false, 2).await, pending[..2]);
    let queue = &storage.webhook_queue;
    assert_eq!(queue.retry(failed, NOW).await.unwrap(), Retried::Due);
    let unknown = WebhookDeliveryId(i64::MAX);
    assert_eq!(queue.retry(unknown, NOW).await.unwrap(), Retried::NotFound);
    assert_eq!((list(true, 10).await.len(), list(false, 10).await.len()), (0, 4));
}

/// Its counts stay, and its worker settles it.
pub async fn retry_changes_no_webhook_in_progress(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    let id = add(storage, endpoint, NOW).await;
    let first = lease_webhooks(storage, NOW).await.remove(0);
    let again = Settlement::RetryAt { due_at: NOW, error: "status 500".to_owned() };
    settle_webhook(storage, &first, again, EndpointEffect::None, NOW).await;
    let leased = lease_webhooks(storage, NOW).await.remove(0);
    let queue = &storage.webhook_queue;
    let before = queue.list(false, 10).await.unwrap();
    let end = NOW + LEASE;
    for at in [NOW, end - MICROSECOND] {
        assert_eq!(queue.retry(id, at).await.unwrap(), Retried::Leased);
    }
    assert_eq!(queue.list(false, 10).await.unwrap(), before);
    assert_eq!(queue.retry(id, end).await.unwrap(), Retried::Due);
    assert!(lease_webhooks(storage, end).await[0].token != leased.token);
}

/// Those of disabled endpoints wait for their clients, so they are no work of the service.
pub async fn stats_count_webhooks(storage: &Storage) {
    let stats = || async { storage.webhook_queue.stats().await.unwrap() };
    assert_eq!(stats().await, domain::ports::WebhookStats::default());
    let (own, failing, disabled) =
        (endpoint(storage).await, endpoint(storage).await, endpoint(storage).await);
    attempt_webhook(storage, failing, 500, NOW).await;
    for (id, age) in [(own, 1), (own, 2), (failing, 3), (disabled, 4)] {
        add(storage, id, NOW - Duration::hours(age)).await;
    }
    disable(storage, disabled, true).await;
    let counted = stats().await;
    assert_eq!((counted.pending, counted.failed, counted.disabled_endpoints), (3, 1, 1));
    assert_eq!(counted.oldest_untried_at, Some(NOW - Duration::hours(2)));
}

/// Whatever their state. At most the limit is looked at.
pub async fn old_webhooks_are_forgotten(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    let day = |number| NOW + Duration::days(number);
    for number in 0..5 {
        add(storage, endpoint, day(number)).await;
    }
    let queue = &storage.webhook_queue;
    assert_eq!(queue.forget(day(0), 10).await.unwrap(), 0);
    assert_eq!(queue.forget(day(3), 2).await.unwrap(), 2);
    assert_eq!(queue.forget(day(3), 2).await.unwrap(), 1);
    assert_eq!(queue.forget(day(3), 2).await.unwrap(), 0);
    assert_eq!(page(storage, endpoint).await.len(), 2);
}
