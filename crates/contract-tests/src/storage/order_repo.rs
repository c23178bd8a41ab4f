//! The contract of `OrderRepo`, and of what creating an order writes with it.

use std::slice::from_ref;

use domain::{
    api_key::{ApiKeyId, ClientId, Owner},
    duplicate_window::DuplicateWindow,
    order::{FileNumber, OrderId, StoredOrder},
    ports::{MaybeErased, NewOrder, QueueStats, WriteError},
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use crate::samples::{
    LIVE, MICROSECOND, NOW, Storage, WINDOW, at_once, create_with_uploads, document, key_of,
    keys_of, maximal_order, minimal_order, new_order, object_key, stored, various_orders,
};

mod accessing;
mod adding;
mod amending;
pub(crate) mod changing;
mod documents;
mod following;
mod noting;
mod together;

pub use accessing::*;
pub use adding::*;
pub(crate) use adding::{added, addition, addition_at};
pub use amending::*;
pub use changing::*;
pub use documents::*;
pub use following::*;
pub use noting::*;
pub use together::*;

/// Creates a duplicate, and returns the instant of the order before.
async fn duplicate_of(
    storage: &Storage,
    order: &NewOrder,
    window: DuplicateWindow,
) -> OffsetDateTime {
    match storage.orders.create(order, window).await {
        Err(WriteError::Duplicate { created_at }) => created_at,
        other => panic!("{other:?}"),
    }
}

/// Returns an order as its client finds it.
async fn found(storage: &Storage, owner: Owner, id: OrderId) -> Option<StoredOrder> {
    match storage.reader.order(owner, id).await.unwrap() {
        Some(MaybeErased::Whole(order)) => Some(order),
        Some(MaybeErased::Erased) => panic!("{id:?} was erased"),
        None => None,
    }
}

/// Covers orders with no optional field, with every field at its limit, with every kind of
/// appointment and section, of test keys, and of several clients. The positions of documents follow
/// neither their keys nor the time of recording.
pub async fn order_is_found_as_created(storage: &Storage) {
    let small = (*minimal_order(), 0);
    let large = (*maximal_order(), 20);
    let various = various_orders().into_iter().map(|order| (order, 1));
    for (number, (mut order, count)) in [small, large].into_iter().chain(various).enumerate() {
        order.file_number = FileNumber::new(format!("kind {number}")).unwrap();
        let mut documents: Vec<_> = (0..count).map(|_| document()).collect();
        documents.reverse();
        if count > 7 {
            documents.swap(3, 7);
        }
        let client = ClientId(if number == 0 { i64::MAX } else { 1 });
        let new = NewOrder {
            order: Box::new(order),
            client,
            api_key: ApiKeyId(client.0 - 1),
            documents,
            is_test: number % 2 == 0,
            ..new_order("F", NOW)
        };
        let id = create_with_uploads(storage, &new).await;
        assert!(id.0 > 0);
        assert_eq!(
            found(storage, Owner::client(client, new.is_test), id).await,
            Some(stored(id, &new))
        );
    }
}

/// To the microsecond, and whenever it comes before the first: the clock of another instance may be
/// ahead, or the clock was set back. The error has the instant of the first order.
pub async fn file_number_is_free_exactly_at_window_end(storage: &Storage) {
    storage.create(&new_order("F-1", NOW)).await;
    let end = NOW + WINDOW.0;
    for at in [NOW, NOW + Duration::seconds(30), end - MICROSECOND, NOW - Duration::DAY] {
        assert_eq!(duplicate_of(storage, &new_order("F-1", at), WINDOW).await, NOW, "{at}");
    }
    // The later order starts its own window.
    storage.create(&new_order("F-1", end)).await;
    let last = end + WINDOW.0 - MICROSECOND;
    assert_eq!(duplicate_of(storage, &new_order("F-1", last), WINDOW).await, end);
}

/// Orders at the same instant are all created, also at the same time.
pub async fn window_of_zero_makes_no_duplicate(storage: &Storage) {
    let nothing = DuplicateWindow(Duration::ZERO);
    let order = new_order("F-1", NOW);
    storage.orders.create(&order, nothing).await.unwrap();
    let calls = (0..30).map(|_| storage.orders.create(&order, nothing));
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(storage.stats().await.events, 31);
    assert_eq!(duplicate_of(storage, &new_order("F-1", NOW - MICROSECOND), nothing).await, NOW);
}

/// Letter case, accents and trailing characters make different file numbers.
pub async fn file_numbers_are_compared_exactly(storage: &Storage) {
    for file_number in ["Fé-1", "fé-1", "FÉ-1", "Fe-1", "Fé-1.", "Fé-10"] {
        storage.create(&new_order(file_number, NOW)).await;
    }
}

/// Writes no order and no event, adopts no upload, and does not extend the window.
pub async fn duplicate_writes_nothing(storage: &Storage) {
    let first = storage.create(&new_order("F-1", NOW)).await;
    let document = document();
    storage.record(&[key_of(&document)]).await;
    let again = NewOrder {
        documents: vec![document.clone()],
        ..new_order("F-1", NOW + WINDOW.0 - MICROSECOND)
    };
    duplicate_of(storage, &again, WINDOW).await;

    assert_eq!(found(storage, LIVE, OrderId(first.0 + 1)).await, None);
    assert_eq!(storage.stats().await.events, 1);
    assert_eq!(storage.condemn(&[key_of(&document)]).await, [key_of(&document)]);
    storage.create(&new_order("F-1", NOW + WINDOW.0)).await;
}

async fn create_at_once(
    storage: &Storage,
    orders: Vec<NewOrder>,
) -> Vec<Result<OrderId, WriteError>> {
    let create = |order: NewOrder| {
        let repo = storage.orders.clone();
        async move { repo.create(&order, WINDOW).await }
    };
    at_once(orders.into_iter().map(create)).await
}

/// The others are duplicates of that one. Covers a new file number, and one used before the window.
pub async fn one_of_concurrent_orders_is_created(storage: &Storage) {
    for (at, events) in [(NOW, 1), (NOW + WINDOW.0, 2)] {
        let orders = (0..50).map(|_| new_order("F-1", at)).collect();
        let outcomes = create_at_once(storage, orders).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        for error in outcomes.into_iter().filter_map(Result::err) {
            let of_that_one =
                matches!(error, WriteError::Duplicate { created_at } if created_at == at);
            assert!(of_that_one, "{error}");
        }
        assert_eq!(storage.stats().await.events, events);
    }
}

/// Adopted uploads leave the ledger. The uploads of other orders stay.
pub async fn creating_an_order_adopts_its_uploads(storage: &Storage) {
    let (documents, of_another) = (vec![document(), document()], object_key());
    let keys = keys_of(&documents);
    storage.record(&[&keys[..], from_ref(&of_another)].concat()).await;
    storage.create(&NewOrder { documents, ..new_order("F-1", NOW) }).await;
    assert_eq!(storage.condemn(&keys).await, []);
    let left = storage.uploads.condemn_recorded_before(NOW + MICROSECOND, None, 10).await.unwrap();
    assert_eq!(left, [of_another]);
}

/// Nothing is written: the file number stays free and other uploads stay in the ledger. A condemned
/// upload that was forgotten is unknown.
pub async fn order_with_swept_upload_is_rejected(storage: &Storage) {
    let (live, swept) = (document(), document());
    storage.record(&keys_of(&[live.clone(), swept.clone()])).await;
    storage.condemn(&[key_of(&swept)]).await;
    let order = NewOrder { documents: vec![live.clone(), swept.clone()], ..new_order("F-1", NOW) };
    for forget in [false, true] {
        if forget {
            storage.uploads.forget(&[key_of(&swept)]).await.unwrap();
        }
        let outcome = storage.orders.create(&order, WINDOW).await;
        assert!(matches!(outcome, Err(WriteError::UploadSwept)), "{outcome:?}");
        assert_eq!(storage.stats().await, QueueStats::default());
    }
    let next = storage.create(&NewOrder { documents: vec![], ..order }).await;
    assert_eq!(found(storage, LIVE, next).await.unwrap().documents, []);
    assert_eq!(storage.condemn(&[key_of(&live)]).await, [key_of(&live)], "it is in the ledger");
}

/// The order that held the file number before still holds it.
pub async fn failed_order_after_window_releases_no_file_number(storage: &Storage) {
    storage.create(&new_order("F-1", NOW)).await;
    let later = NewOrder { documents: vec![document()], ..new_order("F-1", NOW + WINDOW.0) };
    let failed = storage.orders.create(&later, WINDOW).await;
    assert!(matches!(failed, Err(WriteError::UploadSwept)), "{failed:?}");
    let earlier = new_order("F-1", NOW + WINDOW.0 - MICROSECOND);
    assert_eq!(duplicate_of(storage, &earlier, WINDOW).await, NOW);
}

/// Repeated checks succeed and change nothing.
pub async fn check_of_working_store_succeeds(storage: &Storage) {
    storage.orders.check().await.unwrap();
    storage.orders.check().await.unwrap();
    storage.create(&new_order("F-1", NOW)).await;
}

/// Each kind has its own duplicates.
pub async fn test_and_real_orders_do_not_share_file_numbers(storage: &Storage) {
    let (real, test) = (
        new_order("F-1", NOW),
        NewOrder { is_test: true, ..new_order("F-1", NOW + Duration::SECOND) },
    );
    storage.create(&test).await;
    storage.create(&real).await;
    assert_eq!(duplicate_of(storage, &test, WINDOW).await, NOW + Duration::SECOND);
    assert_eq!(duplicate_of(storage, &real, WINDOW).await, NOW);
    storage.create(&NewOrder { created_at: NOW + Duration::seconds(61), ..test }).await;
}
