//! The contract of `StoreSource`.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    order::OrderId,
    ports::{NewOrder, StoreCounts, StoreSource},
};
use time::{Duration, OffsetDateTime};

use crate::{
    contents::{Contents, EARLIER, LEASE, LEASED},
    samples::{NOW, Storage, WINDOW, delivery, document, new_order, recipient},
};

/// An empty store, and what others do to it than the service.
#[async_trait]
pub trait StoreSourceFixture: Send + Sync {
    /// What fills it.
    fn storage(&self) -> &Storage;

    /// What takes everything out of it.
    fn source(&self) -> Arc<dyn StoreSource>;

    /// Removes an order that has neither documents nor follow-ups; its file number stays used.
    async fn remove_order(&self, id: OrderId);

    /// Gives an order to a notary.
    async fn assign_notary(&self, id: OrderId, notary_id: i64, at: OffsetDateTime);
}

/// Runs the contract of `StoreSource` on the [`StoreSourceFixture`] that an expression makes, anew
/// for each test.
#[macro_export]
macro_rules! store_source_contract {
    ($fixture:expr) => {
        $crate::store_source_contract!($fixture;
            an_empty_store_has_nothing,
            everything_comes_out_as_the_ports_show_it,
            pages_of_every_size_are_complete_and_in_order,
            gaps_between_identifiers_are_passed_over,
            after_the_last_comes_nothing,
            what_others_wrote_to_an_order_comes_out,
            a_leased_follow_up_comes_out,
            what_is_gone_does_not_come_out,
            the_counts_are_those_of_what_comes_out,
            to_take_everything_out_changes_nothing,
            an_order_that_is_placed_meanwhile_comes_out_whole_or_not_at_all,
        );
    };
    ($fixture:expr; $($obligation:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $obligation() {
            $crate::store_source::$obligation(&$fixture).await;
        }
    )+};
}

/// Nor does it count something.
pub async fn an_empty_store_has_nothing(fixture: &dyn StoreSourceFixture) {
    assert_eq!(Contents::of(&*fixture.source(), 10).await, Contents::default());
    assert_eq!(fixture.source().counts().await.unwrap(), StoreCounts::default());
}

/// Of every kind, in every state.
pub async fn everything_comes_out_as_the_ports_show_it(fixture: &dyn StoreSourceFixture) {
    let filled = Contents::fill(fixture.storage()).await;
    assert_eq!(Contents::of(&*fixture.source(), 1_000).await, filled);
}

/// However the pages divide orders of many documents and of none, and file numbers that differ by
/// little.
pub async fn pages_of_every_size_are_complete_and_in_order(fixture: &dyn StoreSourceFixture) {
    let filled = Contents::fill(fixture.storage()).await;
    let (orders, file_numbers) = (filled.orders.len(), filled.file_numbers.len());
    for limit in [
        1,
        2,
        3,
        orders - 1,
        orders,
        orders + 1,
        file_numbers - 1,
        file_numbers,
        file_numbers + 1,
        usize::MAX,
    ] {
        assert_eq!(Contents::of(&*fixture.source(), limit).await, filled, "{limit} at a time");
    }
}

/// At the start, in the middle and at the end; several of them are wider than a page.
pub async fn gaps_between_identifiers_are_passed_over(fixture: &dyn StoreSourceFixture) {
    let mut contents = Contents::default();
    for number in 0..12 {
        let documents = if number % 4 == 1 { vec![document(), document()] } else { vec![] };
        contents
            .create(
                fixture.storage(),
                NewOrder {
                    documents,
                    deliveries: vec![],
                    ..new_order(&format!("F-{number}"), NOW)
                },
            )
            .await;
    }
    let ids: Vec<OrderId> = contents.orders.iter().map(|order| order.id).collect();
    for gone in [0, 3, 4, 6, 7, 8, 11] {
        fixture.remove_order(ids[gone]).await;
        contents.orders.retain(|order| order.id != ids[gone]);
    }
    let found = |page: Vec<domain::order::StoredOrder>| {
        page.into_iter().map(|order| order.id).collect::<Vec<_>>()
    };
    for limit in [1, 2, 3, 100] {
        let out = Contents::of(&*fixture.source(), limit).await;
        assert_eq!(out.orders, contents.orders, "{limit} at a time");
        assert_eq!(out.file_numbers.len(), 12, "their file numbers stay used");
        let after_one_that_is_gone = fixture.source().orders(Some(ids[7]), limit).await.unwrap();
        assert_eq!(found(after_one_that_is_gone), ids[9..11.min(9 + limit)]);
    }
    let counts = fixture.source().counts().await.unwrap();
    assert_eq!((counts.orders, counts.documents, counts.file_numbers), (5, 6, 12));
}

/// And before the first, everything.
pub async fn after_the_last_comes_nothing(fixture: &dyn StoreSourceFixture) {
    let filled = Contents::fill(fixture.storage()).await;
    let source = fixture.source();
    for id in [filled.orders.last().unwrap().id, OrderId(i64::MAX)] {
        assert_eq!(source.orders(Some(id), 10).await.unwrap(), []);
    }
    for id in [OrderId(i64::MIN), OrderId(0)] {
        assert_eq!(source.orders(Some(id), usize::MAX).await.unwrap(), filled.orders);
    }
    let all = source.file_numbers(None, usize::MAX).await.unwrap();
    assert_eq!(
        source.file_numbers(Some(all.last().unwrap().file_number.clone()), 10).await.unwrap(),
        []
    );
}

/// The service gives orders to nobody, but those that work them off do.
pub async fn what_others_wrote_to_an_order_comes_out(fixture: &dyn StoreSourceFixture) {
    let mut contents = Contents::default();
    contents.create(fixture.storage(), new_order("F-1", NOW)).await;
    contents.create(fixture.storage(), new_order("F-2", NOW)).await;
    let (id, later) = (contents.orders[0].id, NOW + Duration::microseconds(90_000_000_001));
    fixture.assign_notary(id, i64::MAX, later).await;
    (contents.orders[0].notary_id, contents.orders[0].updated_at) = (Some(i64::MAX), later);
    assert_eq!(fixture.source().orders(None, 10).await.unwrap(), contents.orders);
}

/// Whoever leased it cannot settle it elsewhere.
pub async fn a_leased_follow_up_comes_out(fixture: &dyn StoreSourceFixture) {
    let storage = fixture.storage();
    storage
        .orders
        .create(
            &NewOrder { deliveries: vec![delivery(LEASED)], ..new_order("F-1", EARLIER) },
            WINDOW,
        )
        .await
        .unwrap();
    let lease = storage.queue.lease(EARLIER, LEASE, 1).await.unwrap().remove(0);
    assert_eq!(lease.delivery.task.recipient, recipient(LEASED));
    assert_eq!(fixture.source().deliveries().await.unwrap(), [lease.delivery]);
}

/// Follow-ups that are done, uploads that an order has adopted or that are forgotten.
pub async fn what_is_gone_does_not_come_out(fixture: &dyn StoreSourceFixture) {
    let (storage, source) = (fixture.storage(), fixture.source());
    let mut contents = Contents::default();
    let order = NewOrder {
        documents: vec![document()],
        deliveries: vec![delivery(0)],
        ..new_order("F-1", NOW)
    };
    contents.create(storage, order).await;
    let lease = storage.queue.lease(NOW, LEASE, 1).await.unwrap().remove(0);
    storage
        .queue
        .settle(lease.delivery.id, lease.token, &domain::ports::Settlement::Done)
        .await
        .unwrap();
    let forgotten = [document().key];
    storage.uploads.record(&forgotten, NOW).await.unwrap();
    storage.uploads.condemn(&forgotten).await.unwrap();
    storage.uploads.forget(&forgotten).await.unwrap();

    assert_eq!(source.deliveries().await.unwrap(), []);
    assert_eq!(source.uploads().await.unwrap(), []);
    assert_eq!(
        source.counts().await.unwrap(),
        StoreCounts { orders: 1, documents: 1, file_numbers: 1, ..StoreCounts::default() }
    );
}

/// A file number used twice counts once.
pub async fn the_counts_are_those_of_what_comes_out(fixture: &dyn StoreSourceFixture) {
    let filled = Contents::fill(fixture.storage()).await;
    let counts = fixture.source().counts().await.unwrap();
    assert_eq!(counts, filled.counts());
    assert!(counts.file_numbers < counts.orders);
}

/// The store can go on as if nobody had asked.
pub async fn to_take_everything_out_changes_nothing(fixture: &dyn StoreSourceFixture) {
    let filled = Contents::fill(fixture.storage()).await;
    Contents::of(&*fixture.source(), 5).await;
    fixture.source().counts().await.unwrap();
    filled.assert_shown_by(fixture.storage()).await;
    let pending = filled.deliveries.iter().filter(|delivery| delivery.failed_at.is_none());
    let leased =
        fixture.storage().queue.lease(NOW + Duration::weeks(1), LEASE, usize::MAX).await.unwrap();
    assert_eq!(leased.len(), pending.count());
}

/// Never with some of its documents.
pub async fn an_order_that_is_placed_meanwhile_comes_out_whole_or_not_at_all(
    fixture: &dyn StoreSourceFixture,
) {
    let (source, orders, uploads) =
        (fixture.source(), fixture.storage().orders.clone(), fixture.storage().uploads.clone());
    let placing = tokio::spawn(async move {
        for number in 0..40 {
            let documents: Vec<_> = (0..5).map(|_| document()).collect();
            uploads
                .record(
                    &documents.iter().map(|document| document.key.clone()).collect::<Vec<_>>(),
                    NOW,
                )
                .await
                .unwrap();
            orders
                .create(&NewOrder { documents, ..new_order(&format!("F-{number}"), NOW) }, WINDOW)
                .await
                .unwrap();
        }
    });
    let (mut after, mut read) = (None, 0);
    loop {
        let all_are_placed = placing.is_finished();
        let page = source.orders(after, 3).await.unwrap();
        assert!(page.iter().all(|order| order.documents.len() == 5));
        if page.is_empty() && all_are_placed {
            break;
        }
        after = page.last().map(|order| order.id).or(after);
        read += page.len();
    }
    assert_eq!(read, 40);
}
