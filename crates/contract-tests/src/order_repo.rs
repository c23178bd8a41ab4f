//! The contract of `OrderRepo`, and of what creating an order writes with it.

use std::slice::from_ref;

use domain::{
    api_key::{ApiKeyId, ClientId},
    duplicate_window::DuplicateWindow,
    order::{FileNumber, OrderId, OrderStatus, StoredOrder},
    ports::{CreateError, Kept, NewOrder, QueueStats},
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use crate::samples::{
    API_KEY, CLIENT, MICROSECOND, NOW, Storage, WINDOW, document, maximal_order, minimal_order,
    new_order, object_key, stored, various_orders,
};

mod adding;
mod together;

pub(crate) use adding::addition;
pub use adding::*;
pub use together::*;

/// Runs the contract of `OrderRepo`. The expression makes the `Storage` of each test.
#[macro_export]
macro_rules! order_repo_contract {
    ($storage:expr) => {
        $crate::obligations!(order_repo, $storage;
            minimal_order_is_found_as_created,
            maximal_order_is_found_as_created,
            every_kind_of_order_is_found_as_created,
            documents_keep_their_positions,
            unknown_order_is_not_found,
            second_order_within_window_is_a_duplicate,
            file_number_is_free_exactly_at_window_end,
            order_before_the_first_is_a_duplicate,
            window_of_zero_makes_no_duplicate,
            concurrent_orders_with_window_of_zero_are_created,
            later_order_starts_its_own_window,
            file_numbers_are_compared_exactly,
            duplicate_writes_nothing,
            one_of_concurrent_orders_within_window_is_created,
            one_of_concurrent_orders_after_window_is_created,
            concurrent_orders_with_other_file_numbers_are_created,
            creating_an_order_adopts_its_uploads,
            order_with_condemned_upload_is_rejected,
            order_with_unknown_upload_is_rejected,
            test_order_is_found_as_test_order,
            test_and_real_orders_do_not_share_file_numbers,
            client_and_api_key_are_found,
            status_and_notary_of_another_system_are_found,
            failed_order_after_window_releases_no_file_number,
            check_of_working_store_succeeds,
            concurrent_orders_have_their_own_outcomes,
            concurrent_orders_keep_their_documents_and_events,
            concurrent_order_with_condemned_upload_fails_alone,
            concurrent_orders_have_their_own_kinds_and_windows,
            added_documents_follow_the_others,
            order_without_documents_gets_some,
            concurrent_additions_never_share_a_position,
            order_takes_no_more_than_the_maximum,
            documents_are_added_to_own_orders_only,
            addition_with_swept_upload_is_rejected,
            adding_documents_adopts_their_uploads,
            addition_is_stored_under_its_key,
            one_of_concurrent_additions_with_one_key_is_stored,
            failed_addition_leaves_its_key_free,
        );
    };
}

async fn create(storage: &Storage, order: &NewOrder) -> OrderId {
    storage.orders.create(order, WINDOW).await.unwrap()
}

/// Creates a duplicate, and returns the instant of the order before.
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
    assert_eq!(found(storage, order.client, id).await, Some(stored(id, order)));
}

/// Returns an order as its client finds it.
async fn found(storage: &Storage, client: ClientId, id: OrderId) -> Option<StoredOrder> {
    match storage.reader.order(client, id).await.unwrap() {
        Some(Kept::Whole(order)) => Some(order),
        Some(Kept::Erased) => panic!("{id:?} was erased"),
        None => None,
    }
}

/// Stores and reads an order with no optional field.
pub async fn minimal_order_is_found_as_created(storage: &Storage) {
    assert_found_as_created(
        storage,
        &NewOrder {
            order: minimal_order(),
            documents: vec![],
            client: CLIENT,
            api_key: API_KEY,
            created_at: NOW,
            is_test: false,
            idempotent_request: None,
        },
    )
    .await;
}

/// Stores and reads an order with every field at its limit.
pub async fn maximal_order_is_found_as_created(storage: &Storage) {
    let documents = (0..20).map(|_| document()).collect();
    assert_found_as_created(
        storage,
        &NewOrder {
            order: maximal_order(),
            documents,
            client: CLIENT,
            api_key: API_KEY,
            created_at: NOW,
            is_test: false,
            idempotent_request: None,
        },
    )
    .await;
}

/// Stores and reads every kind of appointment and section.
pub async fn every_kind_of_order_is_found_as_created(storage: &Storage) {
    for (number, mut order) in various_orders().into_iter().enumerate() {
        order.file_number = FileNumber::new(format!("kind {number}")).unwrap();
        assert_found_as_created(
            storage,
            &NewOrder {
                order: Box::new(order),
                documents: vec![document()],
                client: CLIENT,
                api_key: API_KEY,
                created_at: NOW,
                is_test: false,
                idempotent_request: None,
            },
        )
        .await;
    }
}

/// The positions follow neither the keys nor the time of recording.
pub async fn documents_keep_their_positions(storage: &Storage) {
    let mut documents: Vec<_> = (0..12).map(|_| document()).collect();
    documents.reverse();
    documents.swap(3, 7);
    assert_found_as_created(storage, &NewOrder { documents, ..new_order("F-1", NOW) }).await;
}

/// Covers identifiers that are not assigned yet and those that never will be.
pub async fn unknown_order_is_not_found(storage: &Storage) {
    let id = create(storage, &new_order("F-1", NOW)).await;
    for unknown in [i64::MIN, -1, 0, id.0 + 1, i64::MAX] {
        assert_eq!(found(storage, CLIENT, OrderId(unknown)).await, None);
    }
}

/// The error has the instant of the first order, to the microsecond.
pub async fn second_order_within_window_is_a_duplicate(storage: &Storage) {
    create(storage, &new_order("F-1", NOW)).await;
    assert_eq!(duplicate_of(storage, &new_order("F-1", NOW), WINDOW).await, NOW);
    assert_eq!(
        duplicate_of(storage, &new_order("F-1", NOW + Duration::seconds(30)), WINDOW).await,
        NOW
    );
}

/// One microsecond before the end of the window, the order is still a duplicate.
pub async fn file_number_is_free_exactly_at_window_end(storage: &Storage) {
    create(storage, &new_order("F-1", NOW)).await;
    let end = NOW + WINDOW.0;
    assert_eq!(duplicate_of(storage, &new_order("F-1", end - MICROSECOND), WINDOW).await, NOW);
    create(storage, &new_order("F-1", end)).await;
}

/// The clock of another instance may be ahead, or the clock was set back.
pub async fn order_before_the_first_is_a_duplicate(storage: &Storage) {
    create(storage, &new_order("F-1", NOW)).await;
    assert_eq!(duplicate_of(storage, &new_order("F-1", NOW - Duration::DAY), WINDOW).await, NOW);
}

/// Two orders at the same instant are both created.
pub async fn window_of_zero_makes_no_duplicate(storage: &Storage) {
    let nothing = DuplicateWindow(Duration::ZERO);
    let first = storage.orders.create(&new_order("F-1", NOW), nothing).await.unwrap();
    let second = storage.orders.create(&new_order("F-1", NOW), nothing).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(duplicate_of(storage, &new_order("F-1", NOW - MICROSECOND), nothing).await, NOW);
}

/// The window is that of the latest order.
pub async fn later_order_starts_its_own_window(storage: &Storage) {
    create(storage, &new_order("F-1", NOW)).await;
    let later = NOW + WINDOW.0;
    create(storage, &new_order("F-1", later)).await;
    assert_eq!(
        duplicate_of(storage, &new_order("F-1", later + WINDOW.0 - MICROSECOND), WINDOW).await,
        later
    );
}

/// Letter case, accents and trailing characters make different file numbers.
pub async fn file_numbers_are_compared_exactly(storage: &Storage) {
    for file_number in ["Fé-1", "fé-1", "FÉ-1", "Fe-1", "Fe\u{301}-1", "Fé-1.", "Fé-10"] {
        create(storage, &new_order(file_number, NOW)).await;
    }
}

/// Writes no order and no event, adopts no upload, and does not extend the window.
pub async fn duplicate_writes_nothing(storage: &Storage) {
    let first = create(storage, &new_order("F-1", NOW)).await;
    let document = document();
    storage.uploads.record(from_ref(&document.key), NOW).await.unwrap();
    let again = NewOrder {
        documents: vec![document.clone()],
        ..new_order("F-1", NOW + WINDOW.0 - MICROSECOND)
    };
    duplicate_of(storage, &again, WINDOW).await;

    assert_eq!(found(storage, CLIENT, OrderId(first.0 + 1)).await, None);
    assert_eq!(storage.queue.stats().await.unwrap().events, 1);
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

/// The others are duplicates of that one.
pub async fn one_of_concurrent_orders_within_window_is_created(storage: &Storage) {
    assert_one_of_fifty_wins(storage, NOW).await;
    assert_eq!(storage.queue.stats().await.unwrap().events, 1);
}

/// The file number was used before the window.
pub async fn one_of_concurrent_orders_after_window_is_created(storage: &Storage) {
    create(storage, &new_order("F-1", NOW)).await;
    assert_one_of_fifty_wins(storage, NOW + WINDOW.0).await;
    assert_eq!(storage.queue.stats().await.unwrap().events, 2);
}

/// Each has its own identifier and is found.
pub async fn concurrent_orders_with_other_file_numbers_are_created(storage: &Storage) {
    let orders: Vec<_> = (0..50).map(|number| new_order(&format!("F-{number}"), NOW)).collect();
    let outcomes = create_at_once(storage, orders.clone()).await;
    let ids: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    for (id, order) in ids.iter().zip(&orders) {
        assert_eq!(found(storage, CLIENT, *id).await, Some(stored(*id, order)));
    }
}

/// Adopted uploads leave the ledger. The uploads of other orders stay.
pub async fn creating_an_order_adopts_its_uploads(storage: &Storage) {
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
    assert_eq!(found(storage, CLIENT, next).await.unwrap().documents, []);
}

/// Nothing is written: the file number stays free and other uploads stay in the ledger.
pub async fn order_with_condemned_upload_is_rejected(storage: &Storage) {
    let (live, condemned) = (document(), document());
    storage.uploads.record(&[live.key.clone(), condemned.key.clone()], NOW).await.unwrap();
    storage.uploads.condemn(from_ref(&condemned.key)).await.unwrap();
    assert_swept(storage, &NewOrder { documents: vec![live, condemned], ..new_order("F-1", NOW) })
        .await;
}

/// A condemned upload that was forgotten is unknown.
pub async fn order_with_unknown_upload_is_rejected(storage: &Storage) {
    let (live, unknown) = (document(), document());
    storage.uploads.record(from_ref(&live.key), NOW).await.unwrap();
    assert_swept(storage, &NewOrder { documents: vec![live, unknown], ..new_order("F-1", NOW) })
        .await;
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
        assert_eq!(found(storage, CLIENT, id).await, Some(expected));
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

/// Repeated checks succeed and change nothing.
pub async fn check_of_working_store_succeeds(storage: &Storage) {
    storage.orders.check().await.unwrap();
    storage.orders.check().await.unwrap();
    create(storage, &new_order("F-1", NOW)).await;
}

/// Other orders are found as real ones.
pub async fn test_order_is_found_as_test_order(storage: &Storage) {
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

/// Each kind has its own duplicates.
pub async fn test_and_real_orders_do_not_share_file_numbers(storage: &Storage) {
    let (real, test) = (
        new_order("F-1", NOW),
        NewOrder { is_test: true, ..new_order("F-1", NOW + Duration::SECOND) },
    );
    create(storage, &test).await;
    create(storage, &real).await;
    assert_eq!(duplicate_of(storage, &test, WINDOW).await, NOW + Duration::SECOND);
    assert_eq!(duplicate_of(storage, &real, WINDOW).await, NOW);
    create(storage, &NewOrder { created_at: NOW + Duration::seconds(61), ..test }).await;
}
