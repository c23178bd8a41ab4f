//! The contract of `IdempotencyLedger`, and of idempotency keys when an order is created.

use std::slice::from_ref;

use domain::{
    idempotency::{Answered, Attempt, Claim, IdempotentRequest, KeyUse},
    order::OrderId,
    ports::{ClaimError, CreateError, NewOrder},
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use crate::samples::{
    MICROSECOND, NOW, Storage, WINDOW, attempt, claim, document, idempotency_key, new_order,
    order_of, stored,
};

/// Runs the contract of `IdempotencyLedger`. The expression makes the `Storage` of each test.
#[macro_export]
macro_rules! idempotency_ledger_contract {
    ($storage:expr) => {
        $crate::obligations!(idempotency_ledger, $storage;
            key_is_claimed_once,
            claim_is_extended_by_its_holder,
            claim_ends_at_its_deadline,
            released_key_is_free,
            only_the_holder_releases_a_claim,
            clients_do_not_share_keys,
            order_is_recorded_under_its_key,
            claimed_key_passes_to_its_order,
            order_under_a_claimed_key_is_rejected,
            key_in_use_precedes_duplicate,
            key_is_free_when_no_longer_kept,
            order_under_a_freed_key_is_recorded,
            failed_order_is_not_recorded_under_its_key,
            release_does_not_forget_an_order,
            only_free_keys_are_forgotten,
            one_of_concurrent_claims_gets_the_key,
            one_of_concurrent_orders_with_one_key_is_created,
            one_key_creates_one_order_of_many_file_numbers,
            uploads_of_rejected_repeat_stay_in_the_ledger,
        );
    };
}

/// Time for which a request is recorded.
const KEPT: Duration = Duration::DAY;

fn with_key(order: NewOrder, attempt: &Attempt) -> NewOrder {
    let kept_until = order.created_at + KEPT;
    NewOrder {
        idempotent_request: Some(IdempotentRequest { attempt: attempt.clone(), kept_until }),
        ..order
    }
}

async fn try_claim(
    storage: &Storage,
    claim: &Claim,
    now: OffsetDateTime,
) -> Result<(), ClaimError> {
    storage.idempotency.claim(claim, now, now + Duration::MINUTE).await
}

/// Claims a key that is in use, and returns its use.
async fn in_use(storage: &Storage, claim: &Claim, now: OffsetDateTime) -> KeyUse {
    match try_claim(storage, claim, now).await {
        Err(ClaimError::InUse(taken)) => taken,
        other => panic!("{other:?}"),
    }
}

/// Creates an order under a key that is in use, and returns its use.
async fn in_use_for_order(storage: &Storage, order: &NewOrder) -> KeyUse {
    match storage.orders.create(order, WINDOW).await {
        Err(CreateError::KeyInUse(taken)) => taken,
        other => panic!("{other:?}"),
    }
}

/// Other claims get the end of the first.
pub async fn key_is_claimed_once(storage: &Storage) {
    let key = idempotency_key(1, "key");
    try_claim(storage, &claim(&key), NOW).await.unwrap();
    assert_eq!(
        in_use(storage, &claim(&key), NOW).await,
        KeyUse::InProgress { until: NOW + Duration::MINUTE }
    );
}

/// A claim can be extended any number of times.
pub async fn claim_is_extended_by_its_holder(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let own = claim(&key);
    for seconds in [0, 50, 59, 100] {
        try_claim(storage, &own, NOW + Duration::seconds(seconds)).await.unwrap();
    }
    assert_eq!(
        in_use(storage, &claim(&key), NOW + Duration::seconds(130)).await,
        KeyUse::InProgress { until: NOW + Duration::seconds(160) }
    );
}

/// Ends to the microsecond. Another claim gets the key then, and the first does not get it back.
pub async fn claim_ends_at_its_deadline(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let (own, other) = (claim(&key), claim(&key));
    try_claim(storage, &own, NOW).await.unwrap();
    in_use(storage, &other, NOW + Duration::MINUTE - MICROSECOND).await;
    try_claim(storage, &other, NOW + Duration::MINUTE).await.unwrap();
    in_use(storage, &own, NOW + Duration::MINUTE).await;
}

/// The next claim gets it at once.
pub async fn released_key_is_free(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let own = claim(&key);
    try_claim(storage, &own, NOW).await.unwrap();
    storage.idempotency.release(&own).await.unwrap();
    try_claim(storage, &claim(&key), NOW).await.unwrap();
}

/// Releasing a claim that does not hold the key is no error.
pub async fn only_the_holder_releases_a_claim(storage: &Storage) {
    let key = idempotency_key(1, "key");
    storage.idempotency.release(&claim(&key)).await.unwrap();
    try_claim(storage, &claim(&key), NOW).await.unwrap();
    storage.idempotency.release(&claim(&key)).await.unwrap();
    in_use(storage, &claim(&key), NOW).await;
}

/// Keys that differ by letter case are different, too.
pub async fn clients_do_not_share_keys(storage: &Storage) {
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

/// Needs no claim before. Later claims and orders get the order and its fingerprint.
pub async fn order_is_recorded_under_its_key(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let first = attempt(&key, 7);
    let order = with_key(new_order("F-1", NOW), &first);
    let order_id = storage.orders.create(&order, WINDOW).await.unwrap();
    assert_eq!(order_of(&*storage.queue, order_id).await.unwrap(), Some(stored(order_id, &order)));
    let answered =
        KeyUse::Answered(Answered { fingerprint: first.fingerprint, order_id, added: None });
    assert_eq!(in_use(storage, &claim(&key), NOW).await, answered);
    assert_eq!(
        in_use_for_order(storage, &with_key(new_order("F-2", NOW), &attempt(&key, 8))).await,
        answered
    );
    // The same attempt is no exception.
    assert_eq!(in_use(storage, &first.claim, NOW).await, answered);
    assert_eq!(in_use_for_order(storage, &with_key(new_order("F-3", NOW), &first)).await, answered);
}

/// The key is kept as long as the order says, not as long as the claim.
pub async fn claimed_key_passes_to_its_order(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let own = attempt(&key, 7);
    try_claim(storage, &own.claim, NOW).await.unwrap();
    let order_id = storage
        .orders
        .create(&with_key(new_order("F-1", NOW + Duration::SECOND), &own), WINDOW)
        .await
        .unwrap();
    let answered =
        KeyUse::Answered(Answered { fingerprint: own.fingerprint, order_id, added: None });
    assert_eq!(in_use(storage, &claim(&key), NOW + Duration::HOUR).await, answered);
}

/// Nothing of the rejected order is written.
pub async fn order_under_a_claimed_key_is_rejected(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let own = attempt(&key, 7);
    try_claim(storage, &own.claim, NOW).await.unwrap();
    let other = with_key(new_order("F-1", NOW), &attempt(&key, 7));
    assert_eq!(
        in_use_for_order(storage, &other).await,
        KeyUse::InProgress { until: NOW + Duration::MINUTE }
    );
    storage.orders.create(&with_key(new_order("F-1", NOW), &own), WINDOW).await.unwrap();
}

/// A repeated request is not a duplicate.
pub async fn key_in_use_precedes_duplicate(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let first = attempt(&key, 7);
    let order_id =
        storage.orders.create(&with_key(new_order("F-1", NOW), &first), WINDOW).await.unwrap();
    let again = with_key(new_order("F-1", NOW + Duration::SECOND), &attempt(&key, 7));
    assert_eq!(
        in_use_for_order(storage, &again).await,
        KeyUse::Answered(Answered { fingerprint: first.fingerprint, order_id, added: None })
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

/// Free to the microsecond.
pub async fn key_is_free_when_no_longer_kept(storage: &Storage) {
    let key = idempotency_key(1, "key");
    storage
        .orders
        .create(&with_key(new_order("F-1", NOW), &attempt(&key, 7)), WINDOW)
        .await
        .unwrap();
    in_use(storage, &claim(&key), NOW + KEPT - MICROSECOND).await;
    try_claim(storage, &claim(&key), NOW + KEPT).await.unwrap();
}

/// It replaces the order before.
pub async fn order_under_a_freed_key_is_recorded(storage: &Storage) {
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
        KeyUse::Answered(Answered { fingerprint: later.fingerprint, order_id, added: None })
    );
}

/// The key of a duplicate, or of an order with a swept upload, stays free.
pub async fn failed_order_is_not_recorded_under_its_key(storage: &Storage) {
    storage.orders.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let key = idempotency_key(1, "key");
    let attempt = attempt(&key, 7);
    for order in
        [new_order("F-1", NOW), NewOrder { documents: vec![document()], ..new_order("F-2", NOW) }]
    {
        storage.orders.create(&with_key(order, &attempt), WINDOW).await.unwrap_err();
        try_claim(storage, &claim(&key), NOW).await.unwrap();
        // Another claim is not affected.
        let claimed = claim(&idempotency_key(1, "claimed"));
        try_claim(storage, &claimed, NOW).await.unwrap();
        storage.idempotency.release(&claimed).await.unwrap();
        walk(storage, NOW + Duration::HOUR, 10).await;
    }
}

/// A request releases its claim if the outcome of its order is unknown.
pub async fn release_does_not_forget_an_order(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let own = attempt(&key, 7);
    try_claim(storage, &own.claim, NOW).await.unwrap();
    storage.orders.create(&with_key(new_order("F-1", NOW), &own), WINDOW).await.unwrap();
    storage.idempotency.release(&own.claim).await.unwrap();
    assert!(matches!(in_use(storage, &claim(&key), NOW).await, KeyUse::Answered(_)));
}

/// Any page size gives the same result.
pub async fn only_free_keys_are_forgotten(storage: &Storage) {
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
            .claim(&claim(&key("in progress")), NOW, NOW + KEPT + Duration::minutes(3))
            .await
            .unwrap();
        let total = count(storage).await;
        assert_eq!(walk(storage, NOW + KEPT - MICROSECOND, limit).await.1, 0);
        assert_eq!(count(storage).await, total);
        let then = NOW + KEPT + Duration::minutes(2);
        assert_eq!(walk(storage, then, limit).await.1, 3);
        assert_eq!(count(storage).await, total - 3);
        for name in ["3", "4", "in progress"] {
            in_use(storage, &claim(&key(name)), then).await;
        }
    }
}

/// Forgets all free keys, and returns the numbers of steps and of forgotten keys.
async fn walk(storage: &Storage, now: OffsetDateTime, limit: usize) -> (usize, usize) {
    let (mut last, mut steps, mut forgotten) = (None, 0, 0);
    while let Some(walked) = storage.idempotency.forget_free(last, now, limit).await.unwrap() {
        (last, steps, forgotten) = (Some(walked.last), steps + 1, forgotten + walked.forgotten);
    }
    (steps, forgotten)
}

/// Returns the number of keys: long ago, none was free.
async fn count(storage: &Storage) -> usize {
    walk(storage, NOW - Duration::WEEK, 1).await.0
}

/// The claims may come from different processes.
pub async fn one_of_concurrent_claims_gets_the_key(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let claims: Vec<_> = (0..30).map(|_| claim(&key)).collect();
    let outcomes = join_all(claims.iter().map(|claim| try_claim(storage, claim, NOW))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(
        outcomes.iter().all(|outcome| matches!(
            outcome,
            Ok(()) | Err(ClaimError::InUse(KeyUse::InProgress { .. }))
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

/// Asserts that one order was created and that all other errors name it.
fn assert_one_created(outcomes: &[Result<OrderId, CreateError>]) {
    let stored: Vec<_> = outcomes.iter().flatten().collect();
    assert_eq!(stored.len(), 1, "{outcomes:?}");
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert!(
            matches!(error, CreateError::KeyInUse(KeyUse::Answered(answered))
                if answered.order_id == *stored[0]),
            "{error:?}"
        );
    }
}

/// The others get that order.
pub async fn one_of_concurrent_orders_with_one_key_is_created(storage: &Storage) {
    let key = idempotency_key(1, "key");
    let orders = (0..30).map(|_| with_key(new_order("F-1", NOW), &attempt(&key, 7))).collect();
    assert_one_created(&create_all(storage, orders).await);
    assert_eq!(storage.queue.stats().await.unwrap().events, 1);
}

/// The file numbers do not conflict.
pub async fn one_key_creates_one_order_of_many_file_numbers(storage: &Storage) {
    for round in 0..5 {
        let key = idempotency_key(1, &format!("key {round}"));
        let orders = (0..10)
            .map(|number| {
                with_key(new_order(&format!("F-{round}-{number}"), NOW), &attempt(&key, number))
            })
            .collect();
        assert_one_created(&create_all(storage, orders).await);
        assert_eq!(storage.queue.stats().await.unwrap().events, round + 1);
    }
}

/// The caller can remove their objects.
pub async fn uploads_of_rejected_repeat_stay_in_the_ledger(storage: &Storage) {
    let key = idempotency_key(1, "key");
    storage
        .orders
        .create(&with_key(new_order("F-1", NOW), &attempt(&key, 7)), WINDOW)
        .await
        .unwrap();
    let late = document();
    storage.uploads.record(from_ref(&late.key), NOW).await.unwrap();
    in_use_for_order(
        storage,
        &with_key(
            NewOrder { documents: vec![late.clone()], ..new_order("F-2", NOW) },
            &attempt(&key, 7),
        ),
    )
    .await;
    assert_eq!(storage.uploads.condemn(from_ref(&late.key)).await.unwrap(), [late.key]);
}
