//! The contract of `WebhookQueue`.

use std::collections::BTreeMap;

use domain::{
    api_key::{ClientId, Owner},
    delivery::{FARTHEST_DUE, Settling},
    ports::{
        Cursor, DeliveryPageQuery, Dispatch, EndpointEffect, NewWebhookDelivery, PartyAttempts,
        Retried, Settlement, WebhookLease, WebhookSlots,
    },
    webhook::{
        AttemptOutcome, AttemptRecord, DisabledBy, EndpointId, EndpointPrecondition, EventType,
        WebhookDelivery, WebhookDeliveryId, WebhookStatus, endpoint_request::EndpointChange,
    },
};
use time::{Duration, OffsetDateTime};

use crate::samples::{
    self, LIVE, MICROSECOND, NOW, Storage, WEBHOOK_SLOTS, at_once, attempt_webhook, lease_webhooks,
    new_endpoint, new_order, read_endpoint, settle_webhook, webhook_attempted,
};

mod pace;
mod records;

pub use pace::*;
pub use records::*;

const LEASE: Duration = Duration::minutes(2);
const OTHER: Owner = Owner::client(ClientId(99), false);

async fn endpoint(storage: &Storage) -> EndpointId {
    storage.webhooks.add(&new_endpoint(LIVE), 100).await.unwrap().unwrap().id
}

/// Returns endpoints whose last attempt succeeded.
async fn proven(storage: &Storage, count: usize) -> Vec<EndpointId> {
    let mut endpoints = Vec::new();
    for _ in 0..count {
        let endpoint = endpoint(storage).await;
        attempt_webhook(storage, endpoint, 200, NOW).await;
        endpoints.push(endpoint);
    }
    endpoints
}

/// Adds a test event.
async fn add(storage: &Storage, id: EndpointId, at: OffsetDateTime) -> WebhookDeliveryId {
    storage
        .webhook_queue
        .add_test(LIVE, id, "key", &EndpointPrecondition::NONE, at)
        .await
        .unwrap()
        .unwrap()
}

async fn add_many(storage: &Storage, id: EndpointId, count: usize) -> Vec<WebhookDeliveryId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(add(storage, id, NOW).await);
    }
    ids
}

async fn lease(storage: &Storage, slots: &WebhookSlots) -> Vec<WebhookLease> {
    storage.webhook_queue.lease(NOW, LEASE, slots).await.unwrap()
}

fn ids(leases: &[WebhookLease]) -> Vec<WebhookDeliveryId> {
    leases.iter().map(|lease| lease.delivery.id).collect()
}

fn ids_of(deliveries: &[WebhookDelivery]) -> Vec<WebhookDeliveryId> {
    deliveries.iter().map(|delivery| delivery.id).collect()
}

fn count(leases: &[WebhookLease], endpoint: EndpointId) -> usize {
    leases.iter().filter(|lease| lease.delivery.endpoint == endpoint).count()
}

async fn page(storage: &Storage, id: EndpointId) -> Vec<WebhookDelivery> {
    let query = DeliveryPageQuery { limit: 1_000, cursor: Cursor::Newest };
    storage.webhook_queue.page(LIVE, id, &query).await.unwrap().unwrap().items
}

/// It is as old as the event.
pub async fn webhook_of_an_event_is_due_at_once(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    let order = storage.create(&new_order("F-1", NOW)).await;
    let event = storage.outbox.events(NOW, 1).await.unwrap().remove(0).id;
    let webhook = NewWebhookDelivery {
        change: None,
        endpoint,
        event: EventType::OrderCreated,
        message_key: "m".to_owned(),
        body: Some("{}".to_owned()),
    };
    let dispatch = || Dispatch {
        event,
        mails: Vec::new(),
        settling: Settling::NONE,
        webhooks: vec![webhook.clone()],
    };
    for dispatched in [1, 0] {
        let removed = storage.outbox.dispatch(&[dispatch()], NOW).await.unwrap();
        assert_eq!(removed.len(), dispatched);
    }
    let early = NOW - MICROSECOND;
    let queue = &storage.webhook_queue;
    assert_eq!(queue.lease(early, LEASE, &WEBHOOK_SLOTS).await.unwrap(), []);
    let leases = lease_webhooks(storage, NOW).await;
    assert_eq!(leases.len(), 1);
    let delivery = &leases[0].delivery;
    assert!(delivery.id.0 > 0);
    assert_eq!(
        (delivery.endpoint, delivery.event, delivery.order_id, &*delivery.message_key),
        (endpoint, EventType::OrderCreated, Some(order), "m")
    );
    assert_eq!((delivery.created_at, delivery.failures, &delivery.attempts[..]), (NOW, 0, &[][..]));
    assert_eq!(delivery.status, WebhookStatus::Pending { due_at: NOW });
    assert_eq!((leases[0].party, &leases[0].url), (LIVE.party, &new_endpoint(LIVE).url));
    assert_eq!(leases[0].secrets.current, new_endpoint(LIVE).secret);
    assert_eq!((&leases[0].secrets.older, leases[0].is_proven), (&vec![], false));
    assert_eq!(leases[0].body.as_deref(), Some("{}"));
}

/// It has no order. A disabled or foreign endpoint gets none.
pub async fn test_event_is_due_at_once(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    let id = add(storage, endpoint, NOW).await;
    let delivery = lease_webhooks(storage, NOW).await.remove(0).delivery;
    let found =
        (delivery.id, delivery.endpoint, delivery.event, delivery.order_id, delivery.created_at);
    assert_eq!(found, (id, endpoint, EventType::Test, None, NOW));
    let queue = &storage.webhook_queue;
    disable(storage, endpoint, true).await;
    for (owner, id) in [(OTHER, endpoint), (LIVE, EndpointId(i64::MAX)), (LIVE, endpoint)] {
        assert_eq!(
            queue.add_test(owner, id, "k", &EndpointPrecondition::NONE, NOW).await.unwrap(),
            None
        );
    }
    assert_eq!(page(storage, endpoint).await.len(), 1);
}

async fn disable(storage: &Storage, id: EndpointId, is_disabled: bool) {
    let change = EndpointChange { is_enabled: Some(!is_disabled), ..EndpointChange::default() };
    storage
        .webhooks
        .change(LIVE, id, &change, &EndpointPrecondition::NONE, NOW)
        .await
        .unwrap()
        .unwrap();
}

/// A microsecond earlier it is not. An expired lease is given again, with another token.
pub async fn webhook_is_leased_when_due(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    attempt_webhook(storage, endpoint, 200, NOW).await;
    let (late, early) =
        (add(storage, endpoint, NOW + MICROSECOND).await, add(storage, endpoint, NOW).await);
    assert_eq!(lease_webhooks(storage, NOW - MICROSECOND).await, []);
    let first = lease_webhooks(storage, NOW).await;
    assert_eq!(ids(&first), [early]);
    assert_eq!(ids(&lease_webhooks(storage, NOW + LEASE - MICROSECOND).await), [late]);
    let second = lease_webhooks(storage, NOW + LEASE).await;
    assert_eq!(ids(&second), [early]);
    assert_ne!(first[0].token, second[0].token);
}

/// The process is dead, or its clock is right again. Both the delivery and its endpoint are due.
pub async fn webhook_leased_by_a_clock_that_was_ahead_is_retried(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    let id = add(storage, endpoint, NOW).await;
    assert_eq!(ids(&lease_webhooks(storage, NOW + Duration::days(365)).await), [id]);
    assert_eq!(storage.webhook_queue.retry(id, NOW).await.unwrap(), Retried::Due);
    assert_eq!(ids(&lease_webhooks(storage, NOW).await), [id]);
    assert_eq!(lease_webhooks(storage, NOW + MICROSECOND).await, []);
}

/// A clock was ahead when it was put off. Its endpoint is due with it.
pub async fn webhook_that_waits_longer_than_any_delay_is_brought_forward(storage: &Storage) {
    let (near, far) = (endpoint(storage).await, endpoint(storage).await);
    let (latest, years) = (NOW + FARTHEST_DUE, NOW + Duration::days(3_650));
    for endpoint in [near, far] {
        add(storage, endpoint, NOW).await;
    }
    for lease in lease_webhooks(storage, NOW).await {
        let due_at = if lease.delivery.endpoint == near { latest } else { years };
        let again = Settlement::RetryAt { due_at, error: "status 500".to_owned() };
        settle_webhook(storage, &lease, again, EndpointEffect::Failed, NOW).await;
    }
    let queue = &storage.webhook_queue;
    assert_eq!(queue.stats().await.unwrap().latest_due_at, Some(years));
    assert_eq!(lease_webhooks(storage, NOW).await, []);
    for brought in [1, 0] {
        assert_eq!(queue.bring_forward(NOW, 10).await.unwrap(), brought);
    }
    assert_eq!(queue.stats().await.unwrap().latest_due_at, Some(latest));
    let due = lease_webhooks(storage, NOW).await;
    assert_eq!((due.len(), count(&due, far)), (1, 1));
}

/// All that it has was leased then, so nothing else would wake it.
pub async fn endpoint_that_a_clock_ahead_has_put_off_is_brought_forward(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    let id = add(storage, endpoint, NOW).await;
    assert_eq!(ids(&lease_webhooks(storage, NOW + Duration::days(365)).await), [id]);
    assert_eq!(lease_webhooks(storage, NOW).await, []);
    assert_eq!(storage.webhook_queue.bring_forward(NOW, 10).await.unwrap(), 0);
    assert_eq!(ids(&lease_webhooks(storage, NOW).await), [id]);
}

/// Every delivery is leased by one.
pub async fn concurrent_workers_never_share_a_webhook(storage: &Storage) {
    let mut expected = Vec::new();
    for endpoint in proven(storage, 6).await {
        expected.extend(add_many(storage, endpoint, 10).await);
    }
    let workers = (0..4).map(|_| {
        let queue = storage.webhook_queue.clone();
        async move {
            let slots = WebhookSlots { limit: 5, ..WEBHOOK_SLOTS };
            let (mut mine, mut empty) = (Vec::new(), 0);
            // A call finds nothing while another locks the first endpoints.
            while empty < 20 {
                let leases = queue.lease(NOW, LEASE, &slots).await.unwrap();
                empty = if leases.is_empty() { empty + 1 } else { 0 };
                let done = |lease| webhook_attempted(lease, Settlement::Done, EndpointEffect::None);
                let done: Vec<_> = leases.iter().map(done).collect();
                assert_eq!(queue.settle(&done).await.unwrap().held.len(), done.len());
                mine.extend(ids(&leases));
            }
            mine
        }
    });
    let mut leased = at_once(workers).await.concat();
    leased.sort_unstable();
    assert_eq!(leased, expected);
}

/// However many one has that are due longer.
pub async fn each_endpoint_gets_one_before_any_gets_two(storage: &Storage) {
    let endpoints = proven(storage, 3).await;
    for (age, &endpoint) in [3, 2, 1].into_iter().zip(&endpoints) {
        for _ in 0..5 {
            add(storage, endpoint, NOW - Duration::hours(age)).await;
        }
    }
    let leases = lease(storage, &WebhookSlots { limit: 4, ..WEBHOOK_SLOTS }).await;
    let served: Vec<_> = leases.iter().map(|lease| lease.delivery.endpoint).collect();
    assert_eq!(served, [endpoints[0], endpoints[1], endpoints[2], endpoints[0]]);
}

/// Four if it works, and one if it was never called, failed or was slow: over all workers, until their
/// leases end.
pub async fn endpoint_gets_no_more_than_its_slots(storage: &Storage) {
    let works = proven(storage, 1).await[0];
    let (new, failed, slow) =
        (endpoint(storage).await, endpoint(storage).await, endpoint(storage).await);
    attempt_webhook(storage, failed, 500, NOW).await;
    attempt_webhook(storage, slow, 202, NOW).await;
    let all = [works, new, failed, slow];
    for endpoint in all {
        add_many(storage, endpoint, 3).await;
    }
    let counts = |leases: &[WebhookLease]| all.map(|endpoint| count(leases, endpoint));
    let first = lease(storage, &WEBHOOK_SLOTS).await;
    assert_eq!(counts(&first), [3, 1, 1, 1]);
    for endpoint in all {
        add_many(storage, endpoint, 3).await;
    }
    assert_eq!(counts(&lease(storage, &WEBHOOK_SLOTS).await), [1, 0, 0, 0]);
    assert_eq!(lease(storage, &WEBHOOK_SLOTS).await, []);
    let of_works = first.iter().find(|lease| lease.delivery.endpoint == works).unwrap();
    let of_new = first.iter().find(|lease| lease.delivery.endpoint == new).unwrap();
    for one in [of_works, of_new] {
        settle_webhook(storage, one, Settlement::Done, EndpointEffect::Succeeded, NOW).await;
    }
    assert_eq!(counts(&lease(storage, &WEBHOOK_SLOTS).await), [1, 4, 0, 0]);
    let over = lease_webhooks(storage, NOW + LEASE).await;
    assert_eq!(counts(&over), [4, 4, 1, 1]);
}

/// Those at its endpoints that work, and the others, each count apart. Other clients get theirs, although
/// those of the client are due longer.
pub async fn client_gets_no_more_than_its_slots(storage: &Storage) {
    let proven = proven(storage, 2).await;
    let new = endpoint(storage).await;
    for endpoint in proven.iter().copied().chain([new]) {
        add_many(storage, endpoint, 4).await;
    }
    let other = storage.webhooks.add(&new_endpoint(OTHER), 100).await.unwrap().unwrap().id;
    let busy =
        |proven, unproven| BTreeMap::from([(LIVE.party, PartyAttempts { proven, unproven })]);
    for (slots, of_proven, of_new) in [
        (WebhookSlots { per_party: 2, ..WEBHOOK_SLOTS }, 2, 1),
        (WebhookSlots { per_party: 4, busy: busy(3, 4), ..WEBHOOK_SLOTS }, 1, 0),
        (WebhookSlots { per_party: 4, busy: busy(4, 3), ..WEBHOOK_SLOTS }, 0, 1),
        (WebhookSlots { unproven: 0, ..WEBHOOK_SLOTS }, 8, 0),
        (WebhookSlots { limit: 0, ..WEBHOOK_SLOTS }, 0, 0),
    ] {
        storage
            .webhook_queue
            .add_test(OTHER, other, "key", &EndpointPrecondition::NONE, NOW)
            .await
            .unwrap()
            .unwrap();
        let leases = lease(storage, &slots).await;
        let found =
            (leases.len() - count(&leases, other) - count(&leases, new), count(&leases, new));
        assert_eq!(found, (of_proven, of_new), "{slots:?}");
        let of_other = slots.limit.min(slots.unproven).min(1);
        assert_eq!(count(&leases, other), of_other, "{slots:?}");
        for one in &leases {
            settle_webhook(
                storage,
                one,
                Settlement::Postpone { due_at: NOW, error: String::new() },
                EndpointEffect::None,
                NOW,
            )
            .await;
        }
    }
}

/// However old the deliveries are that it still has.
pub async fn endpoint_that_got_one_comes_after_those_that_have_waited(storage: &Storage) {
    let (old, new) = (endpoint(storage).await, endpoint(storage).await);
    for _ in 0..3 {
        add(storage, old, NOW - Duration::HOUR).await;
    }
    let slots = WebhookSlots { limit: 1, ..WEBHOOK_SLOTS };
    let mut served = Vec::new();
    for second in 0..3 {
        let at = NOW + Duration::seconds(second);
        let lease = storage.webhook_queue.lease(at, LEASE, &slots).await.unwrap().remove(0);
        served.push(lease.delivery.endpoint);
        settle_webhook(storage, &lease, Settlement::Done, EndpointEffect::Slow, at).await;
        if second == 0 {
            add(storage, new, at - MICROSECOND).await;
        }
    }
    assert_eq!(served, [old, new, old]);
}

/// The deliveries of a disabled one wait.
pub async fn disabled_and_removed_endpoints_get_nothing(storage: &Storage) {
    let (disabled, removed) = (endpoint(storage).await, endpoint(storage).await);
    let waiting = add(storage, disabled, NOW).await;
    add(storage, removed, NOW).await;
    disable(storage, disabled, true).await;
    assert!(storage.webhooks.remove(LIVE, removed, &EndpointPrecondition::NONE).await.unwrap());
    assert_eq!(lease_webhooks(storage, NOW).await, []);
    assert_eq!(ids_of(&storage.webhook_queue.list(false, 10).await.unwrap()), [waiting]);
    disable(storage, disabled, false).await;
    assert_eq!(ids(&lease_webhooks(storage, NOW).await), [waiting]);
}

/// It was removed after the event was read. Its deliveries go with it, those in progress too.
pub async fn removed_endpoint_leaves_no_webhook(storage: &Storage) {
    let removed = endpoint(storage).await;
    attempt_webhook(storage, removed, 200, NOW).await;
    add_many(storage, removed, 2).await;
    let in_progress = lease_webhooks(storage, NOW).await.remove(0);
    storage.create(&new_order("F-1", NOW)).await;
    let event = storage.outbox.events(NOW, 1).await.unwrap().remove(0).id;
    let kept = endpoint(storage).await;
    assert!(storage.webhooks.remove(LIVE, removed, &EndpointPrecondition::NONE).await.unwrap());
    let webhook = |endpoint| NewWebhookDelivery {
        change: None,
        endpoint,
        event: EventType::OrderCreated,
        message_key: "m".to_owned(),
        body: Some("{}".to_owned()),
    };
    let webhooks = vec![webhook(removed), webhook(kept)];
    let dispatch = Dispatch { event, mails: Vec::new(), settling: Settling::NONE, webhooks };
    assert_eq!(storage.outbox.dispatch(&[dispatch], NOW).await.unwrap(), [event]);
    let queue = &storage.webhook_queue;
    let left = queue.list(false, 10).await.unwrap();
    assert_eq!(left.iter().map(|one| one.endpoint).collect::<Vec<_>>(), [kept]);
    let settled = webhook_attempted(&in_progress, Settlement::Done, EndpointEffect::Gone);
    let settled = queue.settle(&[settled]).await.unwrap();
    assert_eq!((settled.held, settled.disabled), (vec![], vec![]));
    assert_eq!(queue.retry(in_progress.delivery.id, NOW).await.unwrap(), Retried::NotFound);
    assert_eq!(queue.stats().await.unwrap().pending, 1);
}

/// A newer version of the service has written it. It waits for that, and the others leave.
pub async fn webhook_of_an_unknown_event_holds_up_no_other(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    let unknown = add(storage, endpoint, NOW - Duration::HOUR).await;
    let known = add(storage, endpoint, NOW).await;
    storage.other_system.make_webhook_unknown(unknown).await;
    assert_eq!(ids(&lease_webhooks(storage, NOW).await), [known]);
    assert_eq!(lease_webhooks(storage, NOW).await, [], "it is not looked at again and again");
    let queue = &storage.webhook_queue;
    assert_eq!(ids_of(&queue.list(false, 10).await.unwrap()), [known]);
    assert_eq!(ids_of(&page(storage, endpoint).await), [known]);
    let faults = samples::faults(storage).await;
    let fault = format!("row {} of webhook_deliveries cannot be read: event", unknown.0);
    assert_eq!(faults, [fault]);
}

/// One that has another unreadable part is read again later.
pub async fn unreadable_webhook_holds_up_no_other(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    let damaged = add(storage, endpoint, NOW - Duration::HOUR).await;
    let readable = add(storage, endpoint, NOW).await;
    storage.other_system.damage_webhook(damaged).await;
    let faults = samples::faults(storage).await;
    assert_eq!(faults, [format!("row {} of webhook_deliveries cannot be read: change", damaged.0)]);
    assert_eq!(lease_webhooks(storage, NOW).await, []);
    assert_eq!(ids(&lease_webhooks(storage, NOW).await), [readable]);
    assert_eq!(ids_of(&storage.webhook_queue.list(false, 10).await.unwrap()), [readable]);
    assert_eq!(ids_of(&page(storage, endpoint).await), [readable]);
}

/// A delivery that ended stays, and is due no more.
pub async fn outcome_of_a_webhook_is_stored(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    attempt_webhook(storage, endpoint, 200, NOW).await;
    let later = NOW + Duration::HOUR;
    let error = String::from;
    for (settlement, status, failures) in [
        (Settlement::Done, WebhookStatus::Delivered, 0),
        (Settlement::Fail { at: NOW, error: error("status 410") }, WebhookStatus::Failed, 1),
        (
            Settlement::RetryAt { due_at: later, error: error("status 500") },
            WebhookStatus::Pending { due_at: later },
            1,
        ),
        (
            Settlement::Postpone { due_at: later, error: error("no database") },
            WebhookStatus::Pending { due_at: later },
            0,
        ),
    ] {
        let id = add(storage, endpoint, NOW).await;
        let lease = lease_webhooks(storage, NOW).await.remove(0);
        assert_eq!(lease.delivery.id, id);
        let mut attempted = webhook_attempted(&lease, settlement, EndpointEffect::None);
        attempted.attempts = vec![
            AttemptRecord { at: NOW, outcome: AttemptOutcome::Status(500) },
            AttemptRecord { at: later, outcome: AttemptOutcome::Error("timed_out".to_owned()) },
        ];
        let settled = storage.webhook_queue.settle(&[attempted.clone()]).await.unwrap();
        assert_eq!((settled.held, settled.disabled), (vec![id], vec![]));
        let stored = page(storage, endpoint).await.remove(0);
        assert_eq!((stored.id, stored.status, stored.failures), (id, status, failures));
        assert_eq!(stored.attempts, attempted.attempts);
        let again = storage.webhook_queue.settle(&[attempted]).await.unwrap();
        assert_eq!(again.held, []);
    }
    assert_eq!(lease_webhooks(storage, later - MICROSECOND).await, []);
    assert_eq!(lease_webhooks(storage, later).await.len(), 2);
}

/// Others of the call are settled. An endpoint that was removed has nothing to settle.
pub async fn lost_lease_of_a_webhook_settles_nothing(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    attempt_webhook(storage, endpoint, 200, NOW).await;
    add_many(storage, endpoint, 2).await;
    let leases = lease_webhooks(storage, NOW).await;
    let mut attempted = leases
        .iter()
        .map(|lease| webhook_attempted(lease, Settlement::Done, EndpointEffect::None))
        .collect::<Vec<_>>();
    attempted[0].token += 1;
    attempted[0].effect = EndpointEffect::Gone;
    let settled = storage.webhook_queue.settle(&attempted).await.unwrap();
    assert_eq!((settled.held, settled.disabled), (vec![attempted[1].id], vec![]));
    assert_eq!(read_endpoint(storage, endpoint).await.disabled, None);
    assert_eq!(storage.webhook_queue.settle(&[]).await.unwrap().held, []);
}

/// Later ones do not. A late success makes it like one that was never called.
pub async fn first_failure_and_first_success_change_the_endpoint(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    for (minute, status, failing_since, is_proven) in [
        (0, 200, None, true),
        (1, 500, Some(1), false),
        (2, 500, Some(1), false),
        (3, 200, None, true),
        (4, 503, Some(4), false),
        (5, 202, None, false),
        (6, 200, None, true),
        (7, 202, None, false),
    ] {
        attempt_webhook(storage, endpoint, status, NOW + Duration::minutes(minute)).await;
        let found = read_endpoint(storage, endpoint).await;
        let since = failing_since.map(|minute| NOW + Duration::minutes(minute));
        assert_eq!(found.failing_since, since, "{minute}");
        add(storage, endpoint, NOW).await;
        let lease = lease_webhooks(storage, NOW).await.remove(0);
        assert_eq!(lease.is_proven, is_proven, "{minute}");
        settle_webhook(storage, &lease, Settlement::Done, EndpointEffect::None, NOW).await;
    }
}

/// Once, also if others of the call succeeded.
pub async fn receiver_that_is_gone_disables_its_endpoint(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    attempt_webhook(storage, endpoint, 200, NOW).await;
    add_many(storage, endpoint, 4).await;
    let leases = lease_webhooks(storage, NOW).await;
    let effects = [EndpointEffect::Gone, EndpointEffect::Gone, EndpointEffect::Succeeded];
    let attempted: Vec<_> = leases
        .iter()
        .zip(effects)
        .map(|(lease, effect)| webhook_attempted(lease, Settlement::Done, effect))
        .collect();
    let settled = storage.webhook_queue.settle(&attempted).await.unwrap();
    assert_eq!((settled.held.len(), settled.disabled), (3, vec![endpoint]));
    assert_eq!(read_endpoint(storage, endpoint).await.disabled, Some((NOW, DisabledBy::Gone)));
    let gone = webhook_attempted(&leases[3], Settlement::Done, EndpointEffect::Gone);
    assert_eq!(storage.webhook_queue.settle(&[gone]).await.unwrap().disabled, []);
}

/// The client has changed it meanwhile.
pub async fn attempt_at_another_url_does_not_change_the_endpoint(storage: &Storage) {
    let endpoint = endpoint(storage).await;
    for effect in [EndpointEffect::Gone, EndpointEffect::Failed, EndpointEffect::Succeeded] {
        add(storage, endpoint, NOW).await;
        let lease = lease_webhooks(storage, NOW).await.remove(0);
        let mut attempted = webhook_attempted(&lease, Settlement::Done, effect);
        "https://before.example".clone_into(&mut attempted.url);
        let settled = storage.webhook_queue.settle(&[attempted]).await.unwrap();
        assert_eq!((settled.held.len(), settled.disabled), (1, vec![]));
        let found = read_endpoint(storage, endpoint).await;
        assert_eq!((found.disabled, found.failing_since), (None, None));
    }
    add(storage, endpoint, NOW).await;
    assert!(!lease_webhooks(storage, NOW).await[0].is_proven);
}
