//! The contract of `StoreTarget`, whose source is an in-memory store that keeps the contract of
//! `StoreSource`.

use std::{any::Any, sync::Arc};

use domain::{
    api_key::{NewApiKey, PresentedKey},
    document::StoredDocument,
    order::{Order, OrderId},
    ports::{
        ApiKeyRepo, CreateError, DeliveryQueue, IdempotencyLedger, NewOrder, OrderRepo, Settlement,
        StoreSource, StoreTarget, UploadLedger,
    },
};
use time::Duration;

use crate::{
    contents::{EARLIER, LEASE, LEASED},
    fakes::CountingEntropy,
    samples::{
        MICROSECOND, NOW, Storage, WINDOW, api_key, delivery, document, maximal_order, new_order,
        object_key, recipient,
    },
};

mod all_or_nothing;
mod source;

pub use all_or_nothing::*;

use self::source::Source;

/// An empty store that everything can be moved into.
pub struct StoreTargetFixture {
    /// What uses it.
    pub storage: Storage,
    /// What moves everything into it.
    pub target: Arc<dyn StoreTarget>,
}

impl StoreTargetFixture {
    /// A store that keeps every port.
    pub fn new<S>(store: Arc<S>, guard: impl Any + Send + Sync) -> Self
    where
        S: OrderRepo
            + UploadLedger
            + IdempotencyLedger
            + ApiKeyRepo
            + DeliveryQueue
            + StoreTarget
            + 'static,
    {
        Self { storage: Storage::new(store.clone(), guard), target: store }
    }
}

/// Runs the contract of `StoreTarget` on the [`StoreTargetFixture`] that an expression makes, anew
/// for each test.
#[macro_export]
macro_rules! store_target_contract {
    ($fixture:expr) => {
        $crate::store_target_contract!($fixture;
            everything_is_found_under_the_same_identifiers,
            gaps_between_identifiers_stay,
            what_others_wrote_to_an_order_is_found,
            keys_admit_whom_they_admitted,
            the_duplicate_window_goes_on,
            pending_follow_ups_are_leased_when_they_are_due,
            a_follow_up_that_was_leased_at_the_source_is_leased,
            buried_follow_ups_wait_until_they_are_retried,
            uploads_are_swept_as_before,
            an_upload_that_was_not_condemned_is_adopted,
            identifiers_go_on_after_those_that_were_moved,
            more_than_fits_into_one_statement_is_moved,
            of_nothing_nothing_is_moved,
            a_store_with_an_order_is_refused_and_stays_as_it_was,
            a_store_with_a_key_is_refused_and_stays_as_it_was,
            a_store_with_an_upload_is_refused_and_stays_as_it_was,
            a_store_that_took_everything_over_is_refused,
            a_source_that_fails_at_any_point_leaves_nothing,
            what_was_given_up_half_way_leaves_nothing,
            a_source_that_somebody_wrote_to_meanwhile_is_noticed,
            of_two_that_take_over_at_once_one_does,
            an_order_that_is_placed_meanwhile_is_not_lost,
        );
    };
    ($fixture:expr; $($obligation:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $obligation() {
            $crate::store_target::$obligation(&$fixture).await;
        }
    )+};
}

/// Of every kind, in every state.
pub async fn everything_is_found_under_the_same_identifiers(fixture: &StoreTargetFixture) {
    Source::full().await.assert_moved_to(fixture).await;
}

/// An operator may have removed orders, and what is done has left the queue.
pub async fn gaps_between_identifiers_stay(fixture: &StoreTargetFixture) {
    let mut source =
        Source::with((0..20).map(|number| NewOrder {
            deliveries: vec![],
            ..new_order(&format!("F-{number}"), NOW)
        }))
        .await;
    for gone in [0, 1, 7, 8, 9, 15, 19] {
        source.store.remove_order(source.contents.orders[gone].id);
    }
    source.contents.orders = source.store.orders(None, 20).await.unwrap();
    assert_eq!(source.contents.orders.len(), 13);
    source.assert_moved_to(fixture).await;
    assert_eq!(fixture.storage.orders.find(OrderId(1)).await.unwrap(), None);
}

/// The service gives orders to nobody, but those that work them off do.
pub async fn what_others_wrote_to_an_order_is_found(fixture: &StoreTargetFixture) {
    let mut source =
        Source::with(["F-1", "F-2"].map(|file_number| new_order(file_number, NOW))).await;
    source.store.assign_notary(
        source.contents.orders[0].id,
        i64::MAX,
        NOW + Duration::microseconds(90_000_000_001),
    );
    source.contents.orders = source.store.orders(None, 2).await.unwrap();
    assert_eq!(source.contents.orders[0].notary_id, Some(i64::MAX));
    source.assert_moved_to(fixture).await;
}

/// And nobody whose key has expired or is revoked. Nor is there a first key to be issued.
pub async fn keys_admit_whom_they_admitted(fixture: &StoreTargetFixture) {
    let (mut source, entropy) = (Source::empty(), CountingEntropy::default());
    let [live, expired, revoked] = [(); 3].map(|()| PresentedKey::random(false, &entropy));
    for (presented, expires_at) in [(&live, None), (&expired, Some(NOW)), (&revoked, None)] {
        let key = NewApiKey {
            lookup: presented.lookup().to_owned(),
            hash: presented.hash(),
            expires_at,
            ..api_key(EARLIER)
        };
        let id = source.storage.keys.add(&key, "jane").await.unwrap();
        if *presented == revoked {
            source.storage.keys.revoke(id, EARLIER, "jane").await.unwrap();
        }
    }
    source.contents.read_back(&source.storage).await;
    source.assert_moved_to(fixture).await;

    let keys = &fixture.storage.keys;
    for (presented, admitted) in [(live, true), (expired, false), (revoked, false)] {
        let found = keys.find(presented.lookup()).await.unwrap().unwrap();
        assert_eq!(found.admits(&presented, NOW), admitted);
        assert!(!found.admits(&PresentedKey::random(false, &entropy), NOW));
    }
    assert_eq!(keys.add_first(&api_key(NOW), "jane").await.unwrap(), None);
}

/// To the microsecond, and ends when it would have ended.
pub async fn the_duplicate_window_goes_on(fixture: &StoreTargetFixture) {
    Source::with([new_order("F-1", NOW - WINDOW.0), new_order("F-1", NOW)])
        .await
        .move_to(fixture)
        .await;
    let end = NOW + WINDOW.0;
    match fixture.storage.orders.create(&new_order("F-1", end - MICROSECOND), WINDOW).await {
        Err(CreateError::Duplicate { created_at }) => assert_eq!(created_at, NOW),
        other => panic!("{other:?}"),
    }
    fixture.storage.orders.create(&new_order("F-1", end), WINDOW).await.unwrap();
}

/// With the attempts and the last error that they had, and as the work of whoever leases them.
pub async fn pending_follow_ups_are_leased_when_they_are_due(fixture: &StoreTargetFixture) {
    let source = Source::full().await;
    source.move_to(fixture).await;
    let mut pending: Vec<_> = source
        .contents
        .deliveries
        .into_iter()
        .filter(|delivery| delivery.failed_at.is_none())
        .collect();
    pending.sort_by_key(|delivery| (delivery.due_at, delivery.id));
    assert!(pending.iter().any(|delivery| delivery.attempts == 2 && delivery.last_error.is_some()));

    let queue = &fixture.storage.queue;
    for due in pending.chunk_by(|one, next| one.due_at == next.due_at) {
        assert_eq!(
            queue.lease(due[0].due_at - MICROSECOND, Duration::weeks(52), 100).await.unwrap(),
            []
        );
        let leases = queue.lease(due[0].due_at, Duration::weeks(52), 100).await.unwrap();
        assert_eq!(leases.iter().map(|lease| lease.delivery.clone()).collect::<Vec<_>>(), due);
        for lease in leases {
            assert!(queue.settle(lease.delivery.id, lease.token, &Settlement::Done).await.unwrap());
        }
    }
    assert_eq!(queue.list(false, 100).await.unwrap(), []);
}

/// However long the lease would have held there: whoever has it is gone.
pub async fn a_follow_up_that_was_leased_at_the_source_is_leased(fixture: &StoreTargetFixture) {
    let mut source =
        Source::with([NewOrder { deliveries: vec![delivery(LEASED)], ..new_order("F-1", NOW) }])
            .await;
    let there = source.storage.queue.lease(NOW, Duration::weeks(52), 1).await.unwrap().remove(0);
    source.contents.read_back(&source.storage).await;
    source.assert_moved_to(fixture).await;
    let here = fixture.storage.queue.lease(NOW, LEASE, 10).await.unwrap().remove(0);
    assert_eq!(here.delivery, there.delivery);
    assert_eq!(here.delivery.task.recipient, recipient(LEASED));
}

/// By an operator, which makes them due.
pub async fn buried_follow_ups_wait_until_they_are_retried(fixture: &StoreTargetFixture) {
    let source = Source::full().await;
    source.move_to(fixture).await;
    let queue = &fixture.storage.queue;
    let failed = queue.list(true, 10).await.unwrap().remove(0);
    assert_eq!(failed.failed_at, Some(EARLIER + Duration::SECOND));
    let later = NOW + Duration::weeks(52);
    let leased = queue.lease(later, LEASE, 100).await.unwrap();
    assert!(!leased.is_empty() && leased.iter().all(|lease| lease.delivery.id != failed.id));
    assert!(queue.retry(failed.id, later).await.unwrap());
    let retried = queue.lease(later, LEASE, 100).await.unwrap();
    assert_eq!(
        retried
            .iter()
            .map(|lease| (lease.delivery.id, lease.delivery.attempts))
            .collect::<Vec<_>>(),
        [(failed.id, 0)]
    );
}

/// By their age, or at once if they were condemned.
pub async fn uploads_are_swept_as_before(fixture: &StoreTargetFixture) {
    let source = Source::full().await;
    source.move_to(fixture).await;
    let uploads = &fixture.storage.uploads;
    for instant in [EARLIER, EARLIER + MICROSECOND, NOW, NOW + MICROSECOND] {
        let mut swept = uploads.condemn_recorded_before(instant, 100).await.unwrap();
        swept.sort();
        let due = source
            .contents
            .uploads
            .iter()
            .filter(|upload| upload.condemned || upload.recorded_at < instant);
        assert_eq!(swept, due.map(|upload| upload.key.clone()).collect::<Vec<_>>());
    }
    let all: Vec<_> = source.contents.uploads.iter().map(|upload| upload.key.clone()).collect();
    uploads.forget(&all).await.unwrap();
    assert_eq!(uploads.condemn(&all).await.unwrap(), []);
}

/// Nor is one that was: its object may be gone.
pub async fn an_upload_that_was_not_condemned_is_adopted(fixture: &StoreTargetFixture) {
    let source = Source::full().await;
    source.move_to(fixture).await;
    for (number, upload) in source.contents.uploads.iter().enumerate() {
        let documents = vec![StoredDocument { key: upload.key.clone(), ..document() }];
        let outcome = fixture
            .storage
            .orders
            .create(&NewOrder { documents, ..new_order(&format!("F-{number}"), NOW) }, WINDOW)
            .await;
        match outcome {
            Err(CreateError::UploadSwept) => assert!(upload.condemned),
            other => assert!(other.is_ok() && !upload.condemned, "{other:?}"),
        }
    }
}

/// For orders, keys and follow-ups.
pub async fn identifiers_go_on_after_those_that_were_moved(fixture: &StoreTargetFixture) {
    let source = Source::full().await;
    source.move_to(fixture).await;
    let (contents, storage) = (&source.contents, &fixture.storage);
    for file_number in ["F-1", "F-2"] {
        let id = storage
            .orders
            .create(&NewOrder { deliveries: vec![], ..new_order(file_number, NOW) }, WINDOW)
            .await
            .unwrap();
        assert!(id > contents.orders.last().unwrap().id);
        assert!(
            storage.keys.add(&api_key(NOW), "jane").await.unwrap().0
                > contents.api_keys.last().unwrap().id.0
        );
    }
    storage
        .orders
        .create(&NewOrder { deliveries: vec![delivery(99)], ..new_order("F-3", NOW) }, WINDOW)
        .await
        .unwrap();
    let pending = storage.queue.list(false, 100).await.unwrap();
    let new = pending.iter().find(|delivery| delivery.task.recipient == recipient(99)).unwrap();
    assert!(new.id > contents.deliveries.last().unwrap().id);
}

/// Of each kind, such as orders with every field; and twenty documents of each of many orders that
/// follow each other.
pub async fn more_than_fits_into_one_statement_is_moved(fixture: &StoreTargetFixture) {
    let every_field = Order { special_instructions: Some("short".to_owned()), ..maximal_order() };
    let orders = (0..520).map(|number| {
        let order =
            Order { file_number: format!("F-{number}").try_into().unwrap(), ..every_field.clone() };
        let documents = if (470..510).contains(&number) {
            (0..20).map(|_| document()).collect()
        } else {
            vec![]
        };
        NewOrder {
            order,
            documents,
            deliveries: vec![delivery(number)],
            ..new_order("replaced", NOW)
        }
    });
    let mut source = Source::with(orders).await;
    for _ in 0..520 {
        source.storage.keys.add(&api_key(NOW), "jane").await.unwrap();
    }
    let keys: Vec<_> = (0..520).map(|_| object_key()).collect();
    source.storage.uploads.record(&keys, NOW).await.unwrap();
    source.contents.uploads = source.store.uploads().await.unwrap();
    source.contents.read_back(&source.storage).await;
    source.assert_moved_to(fixture).await;
    assert_eq!(
        fixture
            .storage
            .uploads
            .condemn_recorded_before(NOW + MICROSECOND, 10_000)
            .await
            .unwrap()
            .len(),
        keys.len()
    );
}

/// And the store is as empty as it was.
pub async fn of_nothing_nothing_is_moved(fixture: &StoreTargetFixture) {
    Source::empty().assert_moved_to(fixture).await;
    Source::full().await.assert_moved_to(fixture).await;
}
