//! Concurrent calls of several instances for the same rows.

use std::{collections::HashSet, sync::Arc};

use contract_tests::samples::{
    MICROSECOND, NOW, RUN, WINDOW, api_key, attempt, delivery, dispatch, document, idempotency_key,
    key_of, new_order, order_of,
};
use domain::{
    document::StoredDocument,
    idempotency::IdempotentRequest,
    order::OrderId,
    ports::{
        ApiKeyRepo, DeliveryQueue as _, NewOrder, OrderRepo as _, RejectedLog, UploadLedger as _,
        WriteError,
    },
    rejected::Rejected,
};
use futures_util::future::join_all;
use test_servers::postgres::Database;
use time::Duration;

use super::{PostgresStore, database, is_duplicate, open, outsider, sessions, store, until};

/// Returns two stores on one database, like two instances.
async fn two_stores() -> ([Arc<PostgresStore>; 2], Database<'static>) {
    let database = database().await;
    let stores = [0, 1].map(|_| Arc::new(open(&database.url(), 4)));
    (stores, database)
}

fn assert_no_deadlock(database: &Database<'_>) {
    assert!(!database.cluster.log().contains("deadlock detected"));
}

/// Another system changes the order that holds a file number, and has not committed yet.
#[tokio::test(flavor = "multi_thread")]
async fn locked_order_of_another_system_delays_no_order() {
    let (store, database) = store().await;
    store.create(&new_order("locked", NOW), WINDOW).await.unwrap();
    let outsider = outsider(&database).await;
    outsider.batch_execute("BEGIN; UPDATE orders SET status = 'ASSIGNED'").await.unwrap();
    let orders: Vec<_> =
        ["locked", "F-1", "F-2", "locked"].map(|number| new_order(number, NOW)).into();
    let calls = orders.iter().map(|order| store.create(order, WINDOW));
    let outcomes = join_all(calls).await;
    assert!(is_duplicate(&outcomes[0]) && is_duplicate(&outcomes[3]), "{outcomes:?}");
    assert!(outcomes[1].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    outsider.batch_execute("COMMIT").await.unwrap();
}

/// Another system changes an order that the window no longer covers, and has not committed yet.
#[tokio::test]
async fn locked_old_order_delays_only_the_order_that_takes_its_number() {
    let (store, database) = store().await;
    store.create(&new_order("locked", NOW), WINDOW).await.unwrap();
    let (outsider, watcher) = (outsider(&database).await, outsider(&database).await);
    outsider.batch_execute("BEGIN; UPDATE orders SET status = 'ASSIGNED'").await.unwrap();
    let store = Arc::new(store);
    let [first, locked, last] = ["F-1", "locked", "F-2"].map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.create(&new_order(number, NOW + WINDOW.0), WINDOW).await })
    });
    first.await.unwrap().unwrap();
    last.await.unwrap().unwrap();
    until("the order waits", async || sessions(&watcher).await.1 == 1).await;
    assert!(!locked.is_finished());
    outsider.batch_execute("COMMIT").await.unwrap();
    locked.await.unwrap().unwrap();
}

/// Another system reinstates the order that a new one follows, and has not committed yet. The newest order holds the
/// file number, or that of another client has taken it.
#[tokio::test(flavor = "multi_thread")]
async fn order_waits_for_a_change_of_the_one_that_it_follows() {
    for holds in [true, false] {
        let (store, database) = store().await;
        let followed = store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
        let (outsider, watcher) = (outsider(&database).await, outsider(&database).await);
        database.sql(&format!(
            "UPDATE orders SET status = 'DID_NOT_SIGN', holds_file_number = {holds}"
        ));
        outsider.batch_execute("BEGIN; UPDATE orders SET status = 'ASSIGNED'").await.unwrap();
        let at = NOW + WINDOW.0;
        let order = NewOrder { only_after: Some(Some(followed)), ..new_order("F-1", at) };
        let creating = tokio::spawn(async move { store.create(&order, WINDOW).await });
        until("the order waits", async || sessions(&watcher).await.1 == 1).await;
        outsider.batch_execute("COMMIT").await.unwrap();
        let outcome = creating.await.unwrap();
        assert!(is_duplicate(&outcome), "{outcome:?}");
        let left = "SELECT count(*) || ' ' || bool_and(holds_file_number) FROM orders";
        assert_eq!(database.sql(left), format!("1 {holds}"));
    }
}

/// Creates orders while another statement commits one with the file number `F-2`, for which they
/// wait.
async fn overtaken(
    store: &Arc<PostgresStore>,
    database: &Database<'_>,
    numbers: &[&'static str],
) -> Vec<Result<OrderId, WriteError>> {
    store.create(&new_order("F-0", NOW), WINDOW).await.unwrap();
    let (outsider, watcher) = (outsider(database).await, outsider(database).await);
    outsider
        .batch_execute(
            "BEGIN; INSERT INTO orders (client_id, api_key_id, signing_service_id, created_at, \
                updated_at, is_test, holds_file_number, file_number, status, details) \
            SELECT client_id, api_key_id, signing_service_id, created_at, updated_at, is_test, \
                holds_file_number, 'F-2', status, details FROM orders",
        )
        .await
        .unwrap();
    let call = |&number| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.create(&new_order(number, NOW), WINDOW).await })
    };
    let calls: Vec<_> = numbers.iter().map(call).collect();
    let waits = async || sessions(&watcher).await.1 >= 1;
    until("a statement waits for the other order", waits).await;
    outsider.batch_execute("COMMIT").await.unwrap();
    join_all(calls).await.into_iter().map(Result::unwrap).collect()
}

/// An administrator may rename the index.
#[tokio::test(flavor = "multi_thread")]
async fn file_number_taken_during_the_batch_fails_no_other_order() {
    let (store, database) = store().await;
    database.sql("ALTER INDEX orders_file_number RENAME TO orders_barred");
    let outcomes = overtaken(&Arc::new(store), &database, &["F-1", "F-2", "F-3"]).await;
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    assert!(is_duplicate(&outcomes[1]), "{outcomes:?}");
    assert_eq!(database.sql("SELECT count(*) FROM orders"), "4");
}

/// Whatever the clocks of the instances: each order is later by a window than the one before.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_the_orders_that_instances_create_after_the_newest_is_created() {
    let (stores, database) = two_stores().await;
    let mut after = None;
    for round in 1..=10 {
        let calls = (0..32_usize).map(|call| {
            let store = Arc::clone(&stores[call % 2]);
            let at = NOW + Duration::DAY * round + WINDOW.0 * i32::try_from(call).unwrap();
            let order = NewOrder { only_after: Some(after), ..new_order("F-1", at) };
            tokio::spawn(async move { store.create(&order, WINDOW).await })
        });
        let outcomes = join_all(calls).await.into_iter().map(Result::unwrap);
        let outcomes: Vec<_> = outcomes.collect();
        let created: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        let [id] = created[..] else { panic!("{outcomes:?}") };
        let is_barred = |outcome: &&_| matches!(outcome, Err(WriteError::Duplicate { .. }));
        assert_eq!(outcomes.iter().filter(is_barred).count(), 31, "{outcomes:?}");
        after = Some(*id);
        assert_eq!(database.sql("SELECT count(*) FROM orders"), round.to_string());
        database.sql("UPDATE orders SET status = 'SIGNED' WHERE status <> 'SIGNED'");
    }
    assert_no_deadlock(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_two_instances_never_deadlock() {
    let (stores, database) = two_stores().await;
    for round in 0..10 {
        let at = NOW + Duration::hours(round);
        let order = |file_number: usize, key: usize| {
            let attempt = attempt(&idempotency_key(1, &format!("{round} {key}")), 7);
            let idempotent_request =
                Some(IdempotentRequest { attempt, kept_until: at + Duration::DAY });
            NewOrder { idempotent_request, ..new_order(&format!("F-{file_number}"), at) }
        };
        // Both instances use the same numbers and keys, in opposite directions and combinations.
        let calls = (0..240_usize).map(|call| {
            let (number, second) = (call / 2, call % 2);
            let (number, key) = if second == 0 { (number, number) } else { (119 - number, number) };
            let (store, order) = (Arc::clone(&stores[second]), order(number, key));
            tokio::spawn(async move { store.create(&order, WINDOW).await })
        });
        let outcomes: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
        for outcome in &outcomes {
            assert!(
                matches!(
                    outcome,
                    Ok(_) | Err(WriteError::Duplicate { .. } | WriteError::KeyInUse(_))
                ),
                "{outcome:?}"
            );
        }
        let created = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let by = |column: &str, table: &str| {
            format!("SELECT count(DISTINCT {column}) FROM {table} WHERE ")
        };
        let rows = database.sql(&format!("{} created_at = '{at}'", by("file_number", "orders")));
        assert_eq!(rows, created.to_string(), "no file number has two orders");
        assert_eq!(
            database.sql(&format!("{} taken_at = '{at}'", by("digest", "idempotency_keys"))),
            created.to_string(),
            "no key has two orders"
        );
    }
    assert_no_deadlock(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_is_adopted_or_condemned() {
    let (stores, database) = two_stores().await;
    for round in 0..40_usize {
        let mut documents: Vec<StoredDocument> = (0..20).map(|_| document()).collect();
        let keys: Vec<_> = documents.iter().map(key_of).collect();
        stores[0].record(&keys, NOW).await.unwrap();
        // The documents of a form have no order of their keys.
        documents.reverse();
        documents.rotate_left(round % 20);
        let order = NewOrder { documents, ..new_order(&format!("F-{round}"), NOW) };
        let create = |store: &Arc<PostgresStore>| {
            let (store, order) = (Arc::clone(store), order.clone());
            tokio::spawn(async move { store.create(&order, WINDOW).await })
        };
        let condemn = |store: &Arc<PostgresStore>, backwards: bool| {
            let (store, mut keys) = (Arc::clone(store), keys.clone());
            if backwards {
                keys.reverse();
            }
            tokio::spawn(async move { store.condemn(&keys).await })
        };
        let sweep = |store: &Arc<PostgresStore>| {
            let store = Arc::clone(store);
            tokio::spawn(
                async move { store.condemn_recorded_before(NOW + MICROSECOND, None, 7).await },
            )
        };
        let (creating, others) = if round % 2 == 0 {
            (
                create(&stores[0]),
                [condemn(&stores[1], true), condemn(&stores[0], false), sweep(&stores[1])],
            )
        } else {
            let others = [condemn(&stores[1], false), sweep(&stores[0]), condemn(&stores[0], true)];
            (create(&stores[1]), others)
        };
        let (forgetting, condemned) = (Arc::clone(&stores[round / 2 % 2]), keys.clone());
        let forgetting = tokio::spawn(async move { forgetting.forget(&condemned).await });
        let outcome = creating.await.unwrap();
        let condemned: HashSet<_> = join_all(others)
            .await
            .into_iter()
            .flat_map(|outcome| outcome.unwrap().unwrap())
            .collect();
        match outcome {
            Ok(_) => assert_eq!(condemned.len(), 0),
            Err(WriteError::UploadSwept) => assert!(!condemned.is_empty()),
            Err(error) => panic!("{error:?}"),
        }
        forgetting.await.unwrap().unwrap();
        stores[0].condemn(&keys).await.unwrap();
        stores[0].forget(&keys).await.unwrap();
    }
    assert_eq!(database.sql("SELECT count(*) FROM uploads"), "0");
    assert_no_deadlock(&database);
}

/// Another system cancels the order and reinstates it all the time.
#[tokio::test(flavor = "multi_thread")]
async fn mail_begins_with_the_sequence_of_the_version_that_was_read() {
    let (store, database) = store().await;
    let id = store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    dispatch(&store, id, vec![delivery(0)]).await;
    let mail = store.lease(NOW, Duration::MINUTE, 1).await.unwrap()[0].delivery.id;
    let outsider = outsider(&database).await;
    for number in 0..100 {
        let order = order_of(&store, id).await.unwrap().unwrap();
        let status = if number % 2 == 0 { "CANCELLED" } else { "NEW" };
        let change = format!("UPDATE orders SET status = '{status}'");
        let mails = [(mail, order.updated_at)];
        let (changed, begun) =
            tokio::join!(outsider.batch_execute(&change), store.begin(&mails, NOW, 0));
        changed.unwrap();
        let counted = begun.unwrap()[0].sequence;
        assert!(counted.is_none_or(|counted| counted == number), "{counted:?} of {number}");
    }
    let version = order_of(&store, id).await.unwrap().unwrap().updated_at;
    let begun = store.begin(&[(mail, version)], NOW, 0).await.unwrap();
    assert_eq!(begun[0].sequence, Some(100));
}

/// The order may be cancelled, or erased.
#[tokio::test]
async fn mail_of_a_locked_order_does_not_begin() {
    let (store, database) = store().await;
    let id = store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    dispatch(&store, id, vec![delivery(0)]).await;
    let mail = store.lease(NOW, Duration::MINUTE, 1).await.unwrap()[0].delivery.id;
    let outsider = outsider(&database).await;
    outsider.batch_execute("BEGIN; UPDATE orders SET status = 'ASSIGNED'").await.unwrap();
    assert_eq!(store.begin(&[(mail, NOW)], NOW, 0).await.unwrap()[0].sequence, None);
    outsider.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(store.begin(&[(mail, NOW)], NOW, 0).await.unwrap()[0].sequence, Some(0));
}

/// Counts of the hour before stay, for an instance whose clock is behind.
#[tokio::test]
async fn counts_of_past_hours_are_removed_in_batches() {
    let (store, database) = store().await;
    database.sql(
        "INSERT INTO recipient_mails SELECT '2026-11-21 10:00Z', 1, n::text::bytea, 1 \
            FROM generate_series(1, 150) n; \
        INSERT INTO recipient_mails VALUES ('2026-11-21 11:00Z', 1, 'm', 1)",
    );
    for left in ["51", "1", "1"] {
        assert_eq!(store.begin(&[], NOW, 0).await.unwrap(), []);
        assert_eq!(database.sql("SELECT count(*) FROM recipient_mails"), left);
    }
}

/// Counts are stored in the order of their codes, and told by their instants.
#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_claim_never_deadlocks_with_counts_that_grow() {
    let (store, database) = store().await;
    let key = ApiKeyRepo::add(&store, &api_key(NOW), "jane").await.unwrap();
    let count = |code: &str, at| Rejected {
        key,
        at,
        code: code.to_owned(),
        run: RUN,
        requests: 1,
        faults: [].into(),
        request_ids: Vec::new(),
    };
    let told = [count("b", NOW), count("a", NOW + MICROSECOND)];
    RejectedLog::store(&store, &told).await.unwrap();
    let (other, watcher) = (outsider(&database).await, outsider(&database).await);
    let grow = |code| format!("UPDATE rejected_requests SET requests = 2 WHERE code = '{code}'");
    other.batch_execute(&format!("BEGIN; {}", grow("a"))).await.unwrap();
    let ending = tokio::spawn(async move { store.end_claim(&[key], &told, NOW).await });
    until("the end of the claim waits", async || sessions(&watcher).await.1 == 1).await;
    other.batch_execute(&grow("b")).await.unwrap();
    other.batch_execute("COMMIT").await.unwrap();
    ending.await.unwrap().unwrap();
}
