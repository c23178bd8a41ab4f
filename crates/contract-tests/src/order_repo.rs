//! The contract of `OrderRepo`, and of what placing an order writes beside it.

use std::slice::from_ref;

use domain::{
    api_key::{ApiKeyId, ClientId},
    duplicate_window::DuplicateWindow,
    order::{OrderId, OrderStatus, StoredOrder},
    ports::{CreateError, NewOrder, QueueStats},
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use crate::samples::{
    API_KEY, CLIENT, MICROSECOND, NOW, Storage, WINDOW, delivery, document, maximal_order,
    minimal_order, new_order, object_key, stored, unlike_orders,
};

mod together;

pub use together::*;

/// Runs the contract of `OrderRepo` on the [`Storage`] that an expression makes, anew for each
/// test.
#[macro_export]
macro_rules! order_repo_contract {
    ($storage:expr) => {
        $crate::obligations!(order_repo, $storage;
            a_minimal_order_is_found_as_it_was_placed,
            a_maximal_order_is_found_as_it_was_placed,
            every_kind_of_order_is_found_as_it_was_placed,
            documents_keep_their_order,
            what_was_never_placed_is_not_found,
            a_second_order_within_the_window_is_a_duplicate_of_the_first,
            a_duplicate_ends_exactly_with_the_window,
            an_order_after_a_step_back_of_the_clock_is_a_duplicate,
            a_window_of_nothing_makes_no_duplicate,
            a_later_order_starts_a_window_of_its_own,
            file_numbers_differ_by_letter_case,
            a_refused_duplicate_writes_nothing,
            of_many_concurrent_orders_with_one_file_number_one_is_placed,
            of_many_concurrent_orders_after_the_window_one_is_placed,
            concurrent_orders_with_different_file_numbers_are_all_placed,
            placing_adopts_the_uploads,
            an_order_with_a_condemned_upload_is_not_placed,
            an_order_with_an_upload_that_was_never_recorded_is_not_placed,
            follow_ups_are_due_at_once,
            a_test_order_is_found_as_one,
            test_orders_and_others_do_not_take_each_others_file_numbers,
            client_and_api_key_are_found,
            status_and_notary_of_another_system_are_found,
            failed_order_after_window_releases_no_file_number,
            a_store_that_works_says_so,
            of_many_orders_at_once_each_has_an_outcome_of_its_own,
            documents_and_follow_ups_of_orders_at_once_are_not_mixed_up,
            an_order_with_a_condemned_upload_fails_alone,
            orders_at_once_are_judged_each_by_its_own_kind_and_window,
        );
    };
}

async fn create(storage: &Storage, order: &NewOrder) -> OrderId {
    storage.orders.create(order, WINDOW).await.unwrap()
}

/// When the order that makes this one a duplicate was placed.
async fn duplicate_of(
    storage: &Storage,
    order: &NewOrder,
    window: DuplicateWindow,
) -> OffsetDateTime {
    match storage.orders.create(order, window).await {
        Err(CreateError::Duplicate { created_at }) => created_at,
        other => panic!("{other:?}"),
    }
}

async fn assert_found_as_created(storage: &Storage, order: &NewOrder) {
    let keys: Vec<_> = order.documents.iter().map(|document| document.key.clone()).collect();
    storage.uploads.record(&keys, NOW).await.unwrap();
    let id = create(storage, order).await;
    assert!(id.0 > 0);
    assert_eq!(storage.orders.find(id).await.unwrap(), Some(stored(id, order)));
}

/// Round trip of an order with no optional field.
pub async fn a_minimal_order_is_found_as_it_was_placed(storage: &Storage) {
    assert_found_as_created(
        storage,
        &NewOrder {
            order: minimal_order(),
            documents: vec![],
            client: CLIENT,
            api_key: API_KEY,
            deliveries: vec![],
            created_at: NOW,
            is_test: false,
            remembrance: None,
        },
    )
    .await;
}

/// Round trip of an order with every field at its extreme.
pub async fn a_maximal_order_is_found_as_it_was_placed(storage: &Storage) {
    let documents = (0..20).map(|_| document()).collect();
    assert_found_as_created(
        storage,
        &NewOrder {
            order: maximal_order(),
            documents,
            client: CLIENT,
            api_key: API_KEY,
            deliveries: vec![delivery(0)],
            created_at: NOW,
            is_test: false,
            remembrance: None,
        },
    )
    .await;
}

/// Round trip of orders of every kind.
pub async fn every_kind_of_order_is_found_as_it_was_placed(storage: &Storage) {
    for (number, mut order) in unlike_orders().into_iter().enumerate() {
        order.file_number = format!("kind {number}").try_into().unwrap();
        assert_found_as_created(
            storage,
            &NewOrder {
                order,
                documents: vec![document()],
                client: CLIENT,
                api_key: API_KEY,
                deliveries: vec![],
                created_at: NOW,
                is_test: false,
                remembrance: None,
            },
        )
        .await;
    }
}

/// Their order is neither that of their keys nor that of their recording.
pub async fn documents_keep_their_order(storage: &Storage) {
    let mut documents: Vec<_> = (0..12).map(|_| document()).collect();
    documents.reverse();
    documents.swap(3, 7);
    assert_found_as_created(storage, &NewOrder { documents, ..new_order("F-1", NOW) }).await;
}

/// Neither identifiers that are not given yet nor such as are never given.
pub async fn what_was_never_placed_is_not_found(storage: &Storage) {
    let id = create(storage, &new_order("F-1", NOW)).await;
    for unknown in [i64::MIN, -1, 0, id.0 + 1, i64::MAX] {
        assert_eq!(storage.orders.find(OrderId(unknown)).await.unwrap(), None);
    }
}

/// The answer says when the first was placed, to the microsecond.
pub async fn a_second_order_within_the_window_is_a_duplicate_of_the_first(storage: &Storage) {
    create(storage, &new_order("F-1", NOW)).await;
    assert_eq!(duplicate_of(storage, &new_order("F-1", NOW), WINDOW).await, NOW);
    assert_eq!(
        duplicate_of(storage, &new_order("F-1", NOW + Duration::seconds(30)), WINDOW).await,
        NOW
    );
}

/// One microsecond before its end the window still covers the first order; at its end it does not.
pub async fn a_duplicate_ends_exactly_with_the_window(storage: &Storage) {
    create(storage, &new_order("F-1", NOW)).await;
    let end = NOW + WINDOW.0;
    assert_eq!(duplicate_of(storage, &new_order("F-1", end - MICROSECOND), WINDOW).await, NOW);
    create(storage, &new_order("F-1", end)).await;
}

/// Another instance may be ahead, or the clock may have been set.
pub async fn an_order_after_a_step_back_of_the_clock_is_a_duplicate(storage: &Storage) {
    create(storage, &new_order("F-1", NOW)).await;
    assert_eq!(duplicate_of(storage, &new_order("F-1", NOW - Duration::DAY), WINDOW).await, NOW);
}

/// Not even of an order at the same instant.
pub async fn a_window_of_nothing_makes_no_duplicate(storage: &Storage) {
    let nothing = DuplicateWindow(Duration::ZERO);
    let first = storage.orders.create(&new_order("F-1", NOW), nothing).await.unwrap();
    let second = storage.orders.create(&new_order("F-1", NOW), nothing).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(duplicate_of(storage, &new_order("F-1", NOW - MICROSECOND), nothing).await, NOW);
}

/// The window is that of the last order placed.
pub async fn a_later_order_starts_a_window_of_its_own(storage: &Storage) {
    create(storage, &new_order("F-1", NOW)).await;
    let later = NOW + WINDOW.0;
    create(storage, &new_order("F-1", later)).await;
    assert_eq!(
        duplicate_of(storage, &new_order("F-1", later + WINDOW.0 - MICROSECOND), WINDOW).await,
        later
    );
}

/// Nor do accents or trailing characters make two file numbers one.
pub async fn file_numbers_differ_by_letter_case(storage: &Storage) {
    for file_number in ["Fé-1", "fé-1", "FÉ-1", "Fe-1", "Fe\u{301}-1", "Fé-1.", "Fé-10"] {
        create(storage, &new_order(file_number, NOW)).await;
    }
}

/// No order, no follow-up, no adoption; and the window ends when it would have ended.
pub async fn a_refused_duplicate_writes_nothing(storage: &Storage) {
    let first = create(storage, &NewOrder { deliveries: vec![], ..new_order("F-1", NOW) }).await;
    let document = document();
    storage.uploads.record(from_ref(&document.key), NOW).await.unwrap();
    let again = NewOrder {
        documents: vec![document.clone()],
        ..new_order("F-1", NOW + WINDOW.0 - MICROSECOND)
    };
    duplicate_of(storage, &again, WINDOW).await;

    assert_eq!(storage.orders.find(OrderId(first.0 + 1)).await.unwrap(), None);
    assert_eq!(storage.queue.stats().await.unwrap(), QueueStats::default());
    assert_eq!(storage.uploads.condemn(from_ref(&document.key)).await.unwrap(), [document.key]);
    create(storage, &new_order("F-1", NOW + WINDOW.0)).await;
}

async fn create_at_once(
    storage: &Storage,
    orders: Vec<NewOrder>,
) -> Vec<Result<OrderId, CreateError>> {
    let tasks = orders.into_iter().map(|order| {
        let repo = storage.orders.clone();
        tokio::spawn(async move { repo.create(&order, WINDOW).await })
    });
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

async fn assert_one_of_fifty_wins(storage: &Storage, at: OffsetDateTime) {
    let outcomes = create_at_once(storage, (0..50).map(|_| new_order("F-1", at)).collect()).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    for outcome in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert!(
            matches!(outcome, CreateError::Duplicate { created_at } if *created_at == at),
            "{outcome}"
        );
    }
}

/// Every other one is told that it is a duplicate of that one.
pub async fn of_many_concurrent_orders_with_one_file_number_one_is_placed(storage: &Storage) {
    assert_one_of_fifty_wins(storage, NOW).await;
    assert_eq!(storage.queue.stats().await.unwrap().pending, 1);
}

/// The same where the file number is known already.
pub async fn of_many_concurrent_orders_after_the_window_one_is_placed(storage: &Storage) {
    create(storage, &new_order("F-1", NOW)).await;
    assert_one_of_fifty_wins(storage, NOW + WINDOW.0).await;
    assert_eq!(storage.queue.stats().await.unwrap().pending, 2);
}

/// Each under an identifier of its own, and each is found.
pub async fn concurrent_orders_with_different_file_numbers_are_all_placed(storage: &Storage) {
    let orders: Vec<_> = (0..50).map(|number| new_order(&format!("F-{number}"), NOW)).collect();
    let outcomes = create_at_once(storage, orders.clone()).await;
    let ids: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    for (id, order) in ids.iter().zip(&orders) {
        assert_eq!(storage.orders.find(*id).await.unwrap(), Some(stored(*id, order)));
    }
}

/// They leave the ledger; the uploads of others stay.
pub async fn placing_adopts_the_uploads(storage: &Storage) {
    let (one, two, of_another) = (document(), document(), object_key());
    storage
        .uploads
        .record(&[one.key.clone(), two.key.clone(), of_another.clone()], NOW)
        .await
        .unwrap();
    create(
        storage,
        &NewOrder { documents: vec![one.clone(), two.clone()], ..new_order("F-1", NOW) },
    )
    .await;
    assert_eq!(storage.uploads.condemn(&[one.key, two.key]).await.unwrap(), []);
    assert_eq!(
        storage.uploads.condemn_recorded_before(NOW + MICROSECOND, 10).await.unwrap(),
        [of_another]
    );
}

async fn assert_swept(storage: &Storage, order: &NewOrder) {
    let outcome = storage.orders.create(order, WINDOW).await;
    assert!(matches!(outcome, Err(CreateError::UploadSwept)), "{outcome:?}");
    assert_eq!(storage.queue.stats().await.unwrap(), QueueStats::default());
    let live = from_ref(&order.documents[0].key);
    assert_eq!(storage.uploads.condemn(live).await.unwrap(), live, "it is still in the ledger");
    let next = create(storage, &NewOrder { documents: vec![], ..order.clone() }).await;
    assert_eq!(storage.orders.find(next).await.unwrap().unwrap().documents, []);
}

/// Nothing is written: the file number stays free, the other uploads stay in the ledger.
pub async fn an_order_with_a_condemned_upload_is_not_placed(storage: &Storage) {
    let (live, condemned) = (document(), document());
    storage.uploads.record(&[live.key.clone(), condemned.key.clone()], NOW).await.unwrap();
    storage.uploads.condemn(from_ref(&condemned.key)).await.unwrap();
    assert_swept(storage, &NewOrder { documents: vec![live, condemned], ..new_order("F-1", NOW) })
        .await;
}

/// The same: a condemned upload that was forgotten looks like this.
pub async fn an_order_with_an_upload_that_was_never_recorded_is_not_placed(storage: &Storage) {
    let (live, unknown) = (document(), document());
    storage.uploads.record(from_ref(&live.key), NOW).await.unwrap();
    assert_swept(storage, &NewOrder { documents: vec![live, unknown], ..new_order("F-1", NOW) })
        .await;
}

/// In the order in which they were given, and with what they were given.
pub async fn follow_ups_are_due_at_once(storage: &Storage) {
    let order = NewOrder { deliveries: (0..5).map(delivery).collect(), ..new_order("F-1", NOW) };
    let id = create(storage, &order).await;
    let leases = storage.queue.lease(NOW, Duration::MINUTE, 10).await.unwrap();
    let tasks: Vec<_> = leases.iter().map(|lease| lease.delivery.task.clone()).collect();
    assert_eq!(tasks, order.deliveries);
    for delivery in leases.into_iter().map(|lease| lease.delivery) {
        assert!(delivery.id.0 > 0);
        assert_eq!(
            (delivery.order_id, delivery.attempts, delivery.last_error, delivery.failed_at),
            (id, 0, None, None)
        );
        assert_eq!((delivery.created_at, delivery.due_at), (NOW, NOW));
    }
}

/// Each order has those with which it was created.
pub async fn client_and_api_key_are_found(storage: &Storage) {
    for number in [1, i64::MAX] {
        let (client, api_key) = (ClientId(number), ApiKeyId(number - 1));
        let order = NewOrder { client, api_key, ..new_order(&format!("F-{number}"), NOW) };
        assert_found_as_created(storage, &order).await;
    }
}

/// Any status of 1 to 50 characters is returned as it is.
pub async fn status_and_notary_of_another_system_are_found(storage: &Storage) {
    let new = new_order("F-1", NOW);
    let id = create(storage, &new).await;
    create(storage, &new_order("F-2", NOW)).await;
    for status in ["A".to_owned(), "assigned, é".to_owned(), "中".repeat(50)] {
        (storage.sql)(&format!(
            "UPDATE orders SET status = '{status}', notary_id = 7 WHERE id = {}",
            id.0
        ));
        let expected = StoredOrder {
            status: OrderStatus::from_stored(status).unwrap(),
            notary_id: Some(7),
            ..stored(id, &new)
        };
        assert_eq!(storage.orders.find(id).await.unwrap(), Some(expected));
    }
}

/// The order that held the file number before still holds it.
pub async fn failed_order_after_window_releases_no_file_number(storage: &Storage) {
    create(storage, &new_order("F-1", NOW)).await;
    let later = NewOrder { documents: vec![document()], ..new_order("F-1", NOW + WINDOW.0) };
    let failed = storage.orders.create(&later, WINDOW).await;
    assert!(matches!(failed, Err(CreateError::UploadSwept)), "{failed:?}");
    let earlier = new_order("F-1", NOW + WINDOW.0 - MICROSECOND);
    assert_eq!(duplicate_of(storage, &earlier, WINDOW).await, NOW);
}

/// And looks at nothing that changes: asked twice, it says so twice.
pub async fn a_store_that_works_says_so(storage: &Storage) {
    storage.orders.check().await.unwrap();
    storage.orders.check().await.unwrap();
    create(storage, &new_order("F-1", NOW)).await;
}

/// And no other is.
pub async fn a_test_order_is_found_as_one(storage: &Storage) {
    assert_found_as_created(
        storage,
        &NewOrder { is_test: true, documents: vec![document()], ..new_order("F-1", NOW) },
    )
    .await;
    assert_found_as_created(
        storage,
        &NewOrder { is_test: false, documents: vec![document()], ..new_order("F-2", NOW) },
    )
    .await;
}

/// But each kind its own.
pub async fn test_orders_and_others_do_not_take_each_others_file_numbers(storage: &Storage) {
    let (real, test) = (
        new_order("F-1", NOW),
        NewOrder { is_test: true, ..new_order("F-1", NOW + Duration::SECOND) },
    );
    create(storage, &test).await;
    create(storage, &real).await;
    assert_eq!(duplicate_of(storage, &test, WINDOW).await, NOW + Duration::SECOND);
    assert_eq!(duplicate_of(storage, &real, WINDOW).await, NOW);
    create(
        storage,
        &NewOrder { created_at: NOW + Duration::seconds(61), deliveries: vec![], ..test },
    )
    .await;
}
