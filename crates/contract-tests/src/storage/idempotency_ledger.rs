//! The contract of `IdempotencyLedger`, and of idempotency keys when an order is created.

use domain::{
    api_key::Owner,
    idempotency::{Answered, Attempt, Claim, IdempotencyKey, KeyUse},
    order::OrderId,
    ports::{NewOrder, WriteError},
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use crate::samples::{
    KEPT, MICROSECOND, NOW, Storage, WINDOW, at_once, attempt, claim, document, idempotency_key,
    key_of, key_use, new_order, order_of, stored, with_key,
};

async fn try_claim(
    storage: &Storage,
    claim: &Claim,
    now: OffsetDateTime,
) -> Result<(), WriteError> {
    storage.idempotency.claim(claim, now, now + Duration::MINUTE).await
}

/// Claims a key that is in use at an instant, and returns its use.
async fn in_use(storage: &Storage, key: &IdempotencyKey, now: OffsetDateTime) -> KeyUse {
    in_use_by(storage, &claim(key), now).await
}

/// Repeats a claim to a key that is in use, and returns its use.
async fn in_use_by(storage: &Storage, claim: &Claim, now: OffsetDateTime) -> KeyUse {
    key_use(try_claim(storage, claim, now).await)
}

/// Creates an order in an attempt.
async fn create(storage: &Storage, number: &str, at: OffsetDateTime, attempt: &Attempt) -> OrderId {
    storage.create(&with_key(new_order(number, at), attempt)).await
}

/// Returns the use of a key by an attempt that created an order.
fn answered(attempt: &Attempt, order_id: OrderId) -> KeyUse {
    let fingerprint = attempt.fingerprint;
    KeyUse::Answered(Answered { fingerprint, order_id, added: None, changed_at: None })
}

fn key() -> IdempotencyKey {
    idempotency_key(1, "key")
}

/// Creates an order under a key that is in use, and returns its use.
async fn in_use_for_order(storage: &Storage, order: &NewOrder) -> KeyUse {
    key_use(storage.orders.create(order, WINDOW).await)
}

/// Other claims get the end of the first, which its holder extends any number of times. It ends to
/// the microsecond. Another claim gets the key then, and the first does not get it back.
pub async fn key_is_claimed_once(storage: &Storage) {
    let (own, other) = (claim(&key()), claim(&key()));
    for seconds in [0, 50, 59, 100] {
        try_claim(storage, &own, NOW + Duration::seconds(seconds)).await.unwrap();
    }
    let until = NOW + Duration::seconds(160);
    for now in [NOW + Duration::seconds(130), until - MICROSECOND] {
        assert_eq!(in_use_by(storage, &other, now).await, KeyUse::InProgress { until });
    }
    try_claim(storage, &other, until).await.unwrap();
    in_use_by(storage, &own, until).await;
}

/// Its process is dead, or its clock is right again.
pub async fn claim_of_a_clock_that_was_ahead_is_free(storage: &Storage) {
    try_claim(storage, &claim(&key()), NOW + Duration::days(365)).await.unwrap();
    try_claim(storage, &claim(&key()), NOW).await.unwrap();
    in_use(storage, &key(), NOW).await;
    let ahead = attempt(&idempotency_key(1, "order"), 7);
    try_claim(storage, &ahead.claim, NOW + Duration::days(365)).await.unwrap();
    create(storage, "F-1", NOW, &attempt(&idempotency_key(1, "order"), 7)).await;
}

/// The next claim gets it at once. Releasing a claim that does not hold the key changes nothing.
pub async fn key_is_released_by_its_holder(storage: &Storage) {
    let own = claim(&key());
    storage.idempotency.release(&own).await.unwrap();
    try_claim(storage, &own, NOW).await.unwrap();
    storage.idempotency.release(&claim(&key())).await.unwrap();
    in_use(storage, &key(), NOW).await;
    storage.idempotency.release(&own).await.unwrap();
    try_claim(storage, &claim(&key()), NOW).await.unwrap();
}

/// Keys that differ by letter case are different, too, and those of test keys.
pub async fn clients_do_not_share_keys(storage: &Storage) {
    let of_test =
        |key: IdempotencyKey| IdempotencyKey { owner: Owner { is_test: true, ..key.owner }, ..key };
    for key in [key(), idempotency_key(2, "key"), idempotency_key(1, "Key"), of_test(key())] {
        try_claim(storage, &claim(&key), NOW).await.unwrap();
    }
    for key in [idempotency_key(3, "order"), of_test(idempotency_key(3, "order"))] {
        let order = NewOrder { is_test: key.owner.is_test, ..new_order("F-0", NOW) };
        storage.create(&with_key(order, &attempt(&key, 7))).await;
    }
    // The walk meets each of them.
    let (mut keys, mut after) = (0, None);
    while let Some(last) = storage.idempotency.forget_free(after, NOW, 1).await.unwrap() {
        (keys, after) = (keys + 1, Some(last));
    }
    assert_eq!(keys, 6);
    for (number, client) in [("F-1", 1), ("F-2", 2)] {
        create(storage, number, NOW, &attempt(&idempotency_key(client, "order"), 7)).await;
    }
}

/// Needs no claim before. Later claims and orders get the order and its fingerprint.
pub async fn order_is_recorded_under_its_key(storage: &Storage) {
    let first = attempt(&key(), 7);
    let order = with_key(new_order("F-1", NOW), &first);
    let id = storage.create(&order).await;
    assert_eq!(order_of(&*storage.queue, id).await.unwrap(), Some(stored(id, &order)));
    // The same attempt is no exception.
    for (number, attempt) in [("F-2", &attempt(&key(), 8)), ("F-3", &first)] {
        let found = in_use_by(storage, &attempt.claim, NOW).await;
        assert_eq!(found, answered(&first, id));
        let again = with_key(new_order(number, NOW), attempt);
        assert_eq!(in_use_for_order(storage, &again).await, answered(&first, id));
    }
}

/// The key is kept as long as the order says, not as long as the claim. A release does not forget
/// the order: a request releases its claim if the outcome of its order is unknown.
pub async fn claimed_key_passes_to_its_order(storage: &Storage) {
    let own = attempt(&key(), 7);
    try_claim(storage, &own.claim, NOW).await.unwrap();
    let id = create(storage, "F-1", NOW + Duration::SECOND, &own).await;
    storage.idempotency.release(&own.claim).await.unwrap();
    assert_eq!(in_use(storage, &key(), NOW + Duration::HOUR).await, answered(&own, id));
}

/// Nothing of the rejected order is written.
pub async fn order_under_a_claimed_key_is_rejected(storage: &Storage) {
    let own = attempt(&key(), 7);
    try_claim(storage, &own.claim, NOW).await.unwrap();
    let other = with_key(new_order("F-1", NOW), &attempt(&key(), 7));
    let until = NOW + Duration::MINUTE;
    assert_eq!(in_use_for_order(storage, &other).await, KeyUse::InProgress { until });
    create(storage, "F-1", NOW, &own).await;
}

/// A repeated request is not a duplicate. Its uploads stay in the ledger, so that the caller can
/// remove their objects.
pub async fn key_in_use_precedes_duplicate(storage: &Storage) {
    let first = attempt(&key(), 7);
    let id = create(storage, "F-1", NOW, &first).await;
    let again = new_order("F-1", NOW + Duration::SECOND);
    let late = document();
    storage.record(&[key_of(&late)]).await;
    let repeated = NewOrder { documents: vec![late.clone()], ..again.clone() };
    let repeated = with_key(repeated, &attempt(&key(), 7));
    assert_eq!(in_use_for_order(storage, &repeated).await, answered(&first, id));
    assert_eq!(storage.condemn(&[key_of(&late)]).await, [key_of(&late)]);
    let under_another = with_key(again, &attempt(&idempotency_key(1, "other"), 7));
    let outcome = storage.orders.create(&under_another, WINDOW).await;
    assert!(matches!(outcome, Err(WriteError::Duplicate { .. })), "{outcome:?}");
}

/// Free to the microsecond, for a claim and for an order, which replaces the order before.
pub async fn key_is_free_when_no_longer_kept(storage: &Storage) {
    create(storage, "F-1", NOW, &attempt(&key(), 7)).await;
    let end = NOW + KEPT;
    in_use(storage, &key(), end - MICROSECOND).await;
    let later = attempt(&key(), 8);
    try_claim(storage, &later.claim, end).await.unwrap();
    storage.idempotency.release(&later.claim).await.unwrap();
    create(storage, "F-0", NOW, &attempt(&idempotency_key(1, "not claimed"), 7)).await;
    let unclaimed = attempt(&idempotency_key(1, "not claimed"), 8);
    for (number, attempt) in [("F-2", later), ("F-3", unclaimed)] {
        let id = create(storage, number, end, &attempt).await;
        let found = in_use(storage, &attempt.claim.key, end).await;
        assert_eq!(found, answered(&attempt, id));
    }
}

/// The key of a duplicate, or of an order with a swept upload, stays free. Claims of other requests
/// stay.
pub async fn failed_order_is_not_recorded_under_its_key(storage: &Storage) {
    storage.create(&new_order("F-1", NOW)).await;
    let of_another = idempotency_key(1, "of another request");
    try_claim(storage, &claim(&of_another), NOW).await.unwrap();
    let attempt = attempt(&key(), 7);
    let swept = NewOrder { documents: vec![document()], ..new_order("F-2", NOW) };
    for order in [new_order("F-1", NOW), swept] {
        storage.orders.create(&with_key(order, &attempt), WINDOW).await.unwrap_err();
        let claimed = claim(&key());
        try_claim(storage, &claimed, NOW).await.unwrap();
        storage.idempotency.release(&claimed).await.unwrap();
        in_use(storage, &of_another, NOW).await;
    }
}

/// Any page size gives the same result.
pub async fn only_free_keys_are_forgotten(storage: &Storage) {
    for limit in [1, 2, 100] {
        let key = |name: &str| {
            idempotency_key(if name == "0" { 2 } else { 1 }, &format!("{name} of {limit}"))
        };
        for number in 0..5 {
            let at = NOW + Duration::minutes(number);
            let attempt = attempt(&key(&number.to_string()), 7);
            create(storage, &format!("F-{limit}-{number}"), at, &attempt).await;
        }
        let in_progress = claim(&key("in progress"));
        let end = NOW + KEPT + Duration::minutes(3);
        storage.idempotency.claim(&in_progress, NOW, end).await.unwrap();
        let total = count(storage).await;
        walk(storage, NOW + KEPT - MICROSECOND, limit).await;
        assert_eq!(count(storage).await, total);
        let then = NOW + KEPT + Duration::minutes(2);
        walk(storage, then, limit).await;
        assert_eq!(count(storage).await, total - 3);
        for name in ["3", "4", "in progress"] {
            in_use(storage, &key(name), then).await;
        }
    }
}

/// Forgets all free keys, and returns the number of steps.
async fn walk(storage: &Storage, now: OffsetDateTime, limit: usize) -> usize {
    let (mut after, mut steps) = (None, 0);
    while let Some(last) = storage.idempotency.forget_free(after, now, limit).await.unwrap() {
        (after, steps) = (Some(last), steps + 1);
    }
    steps
}

/// Returns the number of keys: long ago, none was free.
async fn count(storage: &Storage) -> usize {
    walk(storage, NOW - Duration::WEEK, 1).await
}

/// The claims may come from different processes.
pub async fn one_of_concurrent_claims_gets_the_key(storage: &Storage) {
    let claims: Vec<_> = (0..30).map(|_| claim(&key())).collect();
    let outcomes = join_all(claims.iter().map(|claim| try_claim(storage, claim, NOW))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    for error in outcomes.into_iter().filter_map(Result::err) {
        assert!(matches!(error, WriteError::KeyInUse(KeyUse::InProgress { .. })), "{error:?}");
    }
}

/// Creates orders at the same time. Asserts that one is created, and that the others learn of it.
async fn assert_one_created(storage: &Storage, orders: impl Iterator<Item = NewOrder>) {
    let outcomes = at_once(orders.map(|order| {
        let repo = storage.orders.clone();
        async move { repo.create(&order, WINDOW).await }
    }))
    .await;
    let stored: Vec<_> = outcomes.iter().flatten().copied().collect();
    assert_eq!(stored.len(), 1, "{outcomes:?}");
    for outcome in outcomes.into_iter().filter(Result::is_err) {
        let KeyUse::Answered(answered) = key_use(outcome) else { panic!("not answered") };
        assert_eq!(answered.order_id, stored[0]);
    }
}

/// The others get that order. Covers one file number and many, which do not conflict.
pub async fn one_of_concurrent_orders_with_one_key_is_created(storage: &Storage) {
    let orders = (0..30).map(|_| with_key(new_order("F", NOW), &attempt(&key(), 7)));
    assert_one_created(storage, orders).await;
    for round in 1..=5 {
        assert_eq!(storage.stats().await.events, round);
        let key = idempotency_key(1, &format!("key {round}"));
        let order = |number| new_order(&format!("F-{round}-{number}"), NOW);
        let orders = (0..10).map(|number| with_key(order(number), &attempt(&key, number)));
        assert_one_created(storage, orders).await;
    }
}
