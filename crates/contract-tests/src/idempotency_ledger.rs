//! The contract of `IdempotencyLedger`, and of what placing an order makes of idempotency keys.

use std::slice::from_ref;

use domain::{
    idempotency::{Answered, Attempt, Claim, KeyUse, Remembrance},
    order::OrderId,
    ports::{ClaimError, CreateError, NewOrder},
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use crate::samples::{
    MICROSECOND, NOW, Storage, WINDOW, attempt, claim, document, idempotency_key, new_order, stored,
};

/// Runs the contract of `IdempotencyLedger` on the [`Storage`] that an expression makes, anew for
/// each test.
#[macro_export]
macro_rules! idempotency_ledger_contract {
    ($storage:expr) => {
        $crate::obligations!(idempotency_ledger, $storage;
            a_key_is_claimed_once,
            a_claim_is_extended_by_who_has_it,
            a_claim_ends_when_it_was_to_end,
            a_released_key_is_free,
            only_who_has_a_claim_releases_it,
            clients_do_not_see_each_others_keys,
            an_order_is_remembered_under_its_key,
            a_claimed_key_passes_to_the_order_of_its_claim,
            a_key_in_flight_refuses_orders_of_others,
            a_key_in_use_is_told_before_a_file_number_in_use,
            a_key_is_free_again_when_it_was_kept_long_enough,
            an_order_under_a_key_that_is_free_again_is_remembered,
            what_was_not_placed_is_not_remembered,
            a_release_does_not_forget_an_order,
            what_is_free_is_forgotten_and_nothing_else,
            of_many_concurrent_claims_one_is_kept,
            of_many_concurrent_orders_with_one_key_one_is_placed,
            of_concurrent_orders_with_one_key_and_file_numbers_of_their_own_one_is_placed,
            documents_of_an_order_that_lost_the_race_stay_in_the_ledger,
        );
    };
}

/// How long a request is remembered here.
const KEPT: Duration = Duration::DAY;

fn with_key(order: NewOrder, attempt: &Attempt) -> NewOrder {
    let kept_until = order.created_at + KEPT;
    NewOrder { remembrance: Some(Remembrance { attempt: attempt.clone(), kept_until }), ..order }
}

async fn try_claim(
    storage: &Storage,
    claim: &Claim,
    now: OffsetDateTime,
) -> Result<(), ClaimError> {
    storage.idempotency.claim(claim, now, now + Duration::MINUTE).await
}

/// What a key is in use for, as a claim to it is told.
async fn in_use(storage: &Storage, claim: &Claim, now: OffsetDateTime) -> KeyUse {
    match try_claim(storage, claim, now).await {
        Err(ClaimError::Taken(taken)) => taken,
        other => panic!("{other:?}"),
    }
}

/// What a key is in use for, as an order under it is told.
async fn refused(storage: &Storage, order: &NewOrder) -> KeyUse {
    match storage.orders.create(order, WINDOW).await {
        Err(CreateError::KeyTaken(taken)) => taken,
        other => panic!("{other:?}"),
    }
}

/// Others are told until when.
pub async fn a_key_is_claimed_once(storage: &Storage) {
    let key = idempotency_key(1, "key");
    try_claim(storage, &claim(&key), NOW).await.unwrap();
    assert_eq!(
        in_use(storage, &claim(&key), NOW).await,
        KeyUse::InFlight { until: NOW + Duration::MINUTE }
    );
}

/// As often as it likes.
pub async fn a_claim_is_extended_by_who_has_it(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let own = claim(&key);
    for seconds in [0, 50, 59, 100] {
        try_claim(storage, &own, NOW + Duration::seconds(seconds)).await.unwrap();
    }
    assert_eq!(
        in_use(storage, &claim(&key), NOW + Duration::seconds(130)).await,
        KeyUse::InFlight { until: NOW + Duration::seconds(160) }
    );
}

/// To the microsecond; then another has it, and who had it does not get it back.
pub async fn a_claim_ends_when_it_was_to_end(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let (own, other) = (claim(&key), claim(&key));
    try_claim(storage, &own, NOW).await.unwrap();
    in_use(storage, &other, NOW + Duration::MINUTE - MICROSECOND).await;
    try_claim(storage, &other, NOW + Duration::MINUTE).await.unwrap();
    in_use(storage, &own, NOW + Duration::MINUTE).await;
}

/// At once.
pub async fn a_released_key_is_free(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let own = claim(&key);
    try_claim(storage, &own, NOW).await.unwrap();
    storage.idempotency.release(&own).await.unwrap();
    try_claim(storage, &claim(&key), NOW).await.unwrap();
}

/// Nothing to release is no error.
pub async fn only_who_has_a_claim_releases_it(storage: &Storage) {
    let key = idempotency_key(1, "key");
    storage.idempotency.release(&claim(&key)).await.unwrap();
    try_claim(storage, &claim(&key), NOW).await.unwrap();
    storage.idempotency.release(&claim(&key)).await.unwrap();
    in_use(storage, &claim(&key), NOW).await;
}

/// Nor keys that differ by a letter's case.
pub async fn clients_do_not_see_each_others_keys(storage: &Storage) {
    for key in [idempotency_key(1, "key"), idempotency_key(2, "key"), idempotency_key(1, "Key")] {
        try_claim(storage, &claim(&key), NOW).await.unwrap();
    }
    for (number, client) in [1, 2].into_iter().enumerate() {
        let key = idempotency_key(client, "order");
        storage
            .orders
            .create(&with_key(new_order(&format!("F-{number}"), NOW), &attempt(&key, 7)), WINDOW)
            .await
            .unwrap();
    }
}

/// Without a claim before; claims and orders under it are told which order, and what was asked for.
pub async fn an_order_is_remembered_under_its_key(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let first = attempt(&key, 7);
    let order = with_key(new_order("F-1", NOW), &first);
    let order_id = storage.orders.create(&order, WINDOW).await.unwrap();
    assert_eq!(storage.orders.find(order_id).await.unwrap(), Some(stored(order_id, &order)));
    let answered = KeyUse::Answered(Answered { fingerprint: first.fingerprint, order_id });
    assert_eq!(in_use(storage, &claim(&key), NOW).await, answered);
    assert_eq!(
        refused(storage, &with_key(new_order("F-2", NOW), &attempt(&key, 8))).await,
        answered
    );
    // Who placed it included.
    assert_eq!(in_use(storage, &first.claim, NOW).await, answered);
    assert_eq!(refused(storage, &with_key(new_order("F-3", NOW), &first)).await, answered);
}

/// It is kept for as long as the order says, not the claim.
pub async fn a_claimed_key_passes_to_the_order_of_its_claim(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let own = attempt(&key, 7);
    try_claim(storage, &own.claim, NOW).await.unwrap();
    let order_id = storage
        .orders
        .create(&with_key(new_order("F-1", NOW + Duration::SECOND), &own), WINDOW)
        .await
        .unwrap();
    let answered = KeyUse::Answered(Answered { fingerprint: own.fingerprint, order_id });
    assert_eq!(in_use(storage, &claim(&key), NOW + Duration::HOUR).await, answered);
}

/// And nothing of them is kept.
pub async fn a_key_in_flight_refuses_orders_of_others(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let own = attempt(&key, 7);
    try_claim(storage, &own.claim, NOW).await.unwrap();
    let other = with_key(new_order("F-1", NOW), &attempt(&key, 7));
    assert_eq!(refused(storage, &other).await, KeyUse::InFlight { until: NOW + Duration::MINUTE });
    storage.orders.create(&with_key(new_order("F-1", NOW), &own), WINDOW).await.unwrap();
}

/// A repeat wins over the duplicate window.
pub async fn a_key_in_use_is_told_before_a_file_number_in_use(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let first = attempt(&key, 7);
    let order_id =
        storage.orders.create(&with_key(new_order("F-1", NOW), &first), WINDOW).await.unwrap();
    let again = with_key(new_order("F-1", NOW + Duration::SECOND), &attempt(&key, 7));
    assert_eq!(
        refused(storage, &again).await,
        KeyUse::Answered(Answered { fingerprint: first.fingerprint, order_id })
    );
    let under_another = with_key(
        new_order("F-1", NOW + Duration::SECOND),
        &attempt(&idempotency_key(1, "other"), 7),
    );
    assert!(matches!(
        storage.orders.create(&under_another, WINDOW).await,
        Err(CreateError::Duplicate { .. })
    ));
}

/// To the microsecond.
pub async fn a_key_is_free_again_when_it_was_kept_long_enough(storage: &Storage) {
    let key = idempotency_key(1, "key");
    storage
        .orders
        .create(&with_key(new_order("F-1", NOW), &attempt(&key, 7)), WINDOW)
        .await
        .unwrap();
    in_use(storage, &claim(&key), NOW + KEPT - MICROSECOND).await;
    try_claim(storage, &claim(&key), NOW + KEPT).await.unwrap();
}

/// Instead of the one before.
pub async fn an_order_under_a_key_that_is_free_again_is_remembered(storage: &Storage) {
    let key = idempotency_key(1, "key");
    storage
        .orders
        .create(&with_key(new_order("F-1", NOW), &attempt(&key, 7)), WINDOW)
        .await
        .unwrap();
    let later = attempt(&key, 8);
    let order_id = storage
        .orders
        .create(&with_key(new_order("F-1", NOW + KEPT), &later), WINDOW)
        .await
        .unwrap();
    assert_eq!(
        in_use(storage, &claim(&key), NOW + KEPT).await,
        KeyUse::Answered(Answered { fingerprint: later.fingerprint, order_id })
    );
}

/// The key of a duplicate, or of an order whose upload was swept, may be used for the next attempt.
pub async fn what_was_not_placed_is_not_remembered(storage: &Storage) {
    storage.orders.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let key = idempotency_key(1, "key");
    let attempt = attempt(&key, 7);
    for refused in
        [new_order("F-1", NOW), NewOrder { documents: vec![document()], ..new_order("F-2", NOW) }]
    {
        storage.orders.create(&with_key(refused, &attempt), WINDOW).await.unwrap_err();
        try_claim(storage, &claim(&key), NOW).await.unwrap();
        // What was claimed before stays claimed.
        let claimed = claim(&idempotency_key(1, "claimed"));
        try_claim(storage, &claimed, NOW).await.unwrap();
        storage.idempotency.release(&claimed).await.unwrap();
        walk(storage, NOW + Duration::HOUR, 10).await;
    }
}

/// When the outcome of an order is unknown, its claim is released in vain.
pub async fn a_release_does_not_forget_an_order(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let own = attempt(&key, 7);
    try_claim(storage, &own.claim, NOW).await.unwrap();
    storage.orders.create(&with_key(new_order("F-1", NOW), &own), WINDOW).await.unwrap();
    storage.idempotency.release(&own.claim).await.unwrap();
    assert!(matches!(in_use(storage, &claim(&key), NOW).await, KeyUse::Answered(_)));
}

/// However many are looked at at a time.
pub async fn what_is_free_is_forgotten_and_nothing_else(storage: &Storage) {
    for limit in [1, 2, 100] {
        let key = |name: &str| {
            idempotency_key(if name == "0" { 2 } else { 1 }, &format!("{name} of {limit}"))
        };
        for number in 0..5 {
            let order = new_order(&format!("F-{limit}-{number}"), NOW + Duration::minutes(number));
            storage
                .orders
                .create(&with_key(order, &attempt(&key(&number.to_string()), 7)), WINDOW)
                .await
                .unwrap();
        }
        storage
            .idempotency
            .claim(&claim(&key("in flight")), NOW, NOW + KEPT + Duration::minutes(3))
            .await
            .unwrap();
        let there = count(storage).await;
        walk(storage, NOW + KEPT - MICROSECOND, limit).await;
        assert_eq!(count(storage).await, there);
        let then = NOW + KEPT + Duration::minutes(2);
        walk(storage, then, limit).await;
        assert_eq!(count(storage).await, there - 3);
        for kept in ["3", "4", "in flight"] {
            in_use(storage, &claim(&key(kept)), then).await;
        }
    }
}

/// Walks past all keys; the answer is in how many steps.
async fn walk(storage: &Storage, now: OffsetDateTime, limit: usize) -> usize {
    let (mut last, mut steps) = (None, 0);
    while let Some(next) = storage.idempotency.forget_free(last, now, limit).await.unwrap() {
        (last, steps) = (Some(next), steps + 1);
    }
    steps
}

/// How many keys there are: long ago, none was free.
async fn count(storage: &Storage) -> usize {
    walk(storage, NOW - Duration::WEEK, 1).await
}

/// From any number of processes.
pub async fn of_many_concurrent_claims_one_is_kept(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let claims: Vec<_> = (0..30).map(|_| claim(&key)).collect();
    let outcomes = join_all(claims.iter().map(|claim| try_claim(storage, claim, NOW))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(
        outcomes.iter().all(|outcome| matches!(
            outcome,
            Ok(()) | Err(ClaimError::Taken(KeyUse::InFlight { .. }))
        )),
        "{outcomes:?}"
    );
}

async fn create_all(storage: &Storage, orders: Vec<NewOrder>) -> Vec<Result<OrderId, CreateError>> {
    let tasks = orders.into_iter().map(|order| {
        let repo = storage.orders.clone();
        tokio::spawn(async move { repo.create(&order, WINDOW).await })
    });
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

/// The others are told of it, and of nothing else.
fn assert_one_created(outcomes: &[Result<OrderId, CreateError>]) {
    let stored: Vec<_> = outcomes.iter().flatten().collect();
    assert_eq!(stored.len(), 1, "{outcomes:?}");
    for refusal in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert!(
            matches!(refusal, CreateError::KeyTaken(KeyUse::Answered(answered)) if answered.order_id == *stored[0]),
            "{refusal:?}"
        );
    }
}

/// The others are told which order it is.
pub async fn of_many_concurrent_orders_with_one_key_one_is_placed(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let orders = (0..30).map(|_| with_key(new_order("F-1", NOW), &attempt(&key, 7))).collect();
    assert_one_created(&create_all(storage, orders).await);
    assert_eq!(storage.queue.stats().await.unwrap().pending, 1);
}

/// Where no file number keeps them apart.
pub async fn of_concurrent_orders_with_one_key_and_file_numbers_of_their_own_one_is_placed(
    storage: &Storage,
) {
    for round in 0..5 {
        let key = idempotency_key(1, &format!("key {round}"));
        let orders = (0..10)
            .map(|number| {
                with_key(new_order(&format!("F-{round}-{number}"), NOW), &attempt(&key, number))
            })
            .collect();
        assert_one_created(&create_all(storage, orders).await);
        assert_eq!(storage.queue.stats().await.unwrap().pending, round + 1);
    }
}

/// So that they can be removed.
pub async fn documents_of_an_order_that_lost_the_race_stay_in_the_ledger(storage: &Storage) {
    let key = idempotency_key(1, "key");
    storage
        .orders
        .create(&with_key(new_order("F-1", NOW), &attempt(&key, 7)), WINDOW)
        .await
        .unwrap();
    let late = document();
    storage.uploads.record(from_ref(&late.key), NOW).await.unwrap();
    refused(
        storage,
        &with_key(
            NewOrder { documents: vec![late.clone()], ..new_order("F-2", NOW) },
            &attempt(&key, 7),
        ),
    )
    .await;
    assert_eq!(storage.uploads.condemn(from_ref(&late.key)).await.unwrap(), [late.key]);
}
