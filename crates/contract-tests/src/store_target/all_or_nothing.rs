//! What is not moved leaves nothing, whatever else happens.

use std::{
    future::{pending, ready},
    slice::from_ref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use domain::ports::{
    ApiKeyRepo, CreateError, DeliveryQueue, MoveError, NewOrder, OrderRepo, RecordedUpload,
    Settlement, StoreError, StoreSource, UploadLedger,
};
use futures_util::FutureExt as _;
use tokio::sync::{Notify, mpsc};

use super::{StoreTargetFixture, source::Source};
use crate::{
    contents::{Contents, LEASE},
    fakes::{InMemoryStore, InterruptedSource},
    samples::{MICROSECOND, NOW, WINDOW, api_key, document, new_order, object_key, stored},
};

/// Says what is there.
async fn assert_refused(fixture: &StoreTargetFixture, there: &Contents) {
    match fixture.target.take_over(&*Source::full().await.store).await {
        Err(MoveError::NotEmpty(counts)) => assert_eq!(counts, there.counts()),
        other => panic!("{other:?}"),
    }
    there.assert_shown_by(&fixture.storage).await;
}

/// Even one order without documents or follow-ups.
pub async fn a_store_with_an_order_is_refused_and_stays_as_it_was(fixture: &StoreTargetFixture) {
    let mut there = Contents::default();
    there.create(&fixture.storage, NewOrder { deliveries: vec![], ..new_order("F-1", NOW) }).await;
    assert_refused(fixture, &there).await;
}

/// Even a revoked one.
pub async fn a_store_with_a_key_is_refused_and_stays_as_it_was(fixture: &StoreTargetFixture) {
    let id = fixture.storage.keys.add(&api_key(NOW), "jane").await.unwrap();
    fixture.storage.keys.revoke(id, NOW, "jane").await.unwrap();
    let mut there = Contents::default();
    there.read_back(&fixture.storage).await;
    assert_refused(fixture, &there).await;
}

/// A service is running on it.
pub async fn a_store_with_an_upload_is_refused_and_stays_as_it_was(fixture: &StoreTargetFixture) {
    let key = object_key();
    fixture.storage.uploads.record(from_ref(&key), NOW).await.unwrap();
    let uploads = vec![RecordedUpload { key: key.clone(), recorded_at: NOW, condemned: false }];
    assert_refused(fixture, &Contents { uploads, ..Contents::default() }).await;
    assert_eq!(
        fixture.storage.uploads.condemn_recorded_before(NOW + MICROSECOND, 100).await.unwrap(),
        [key]
    );
}

/// The same command given twice does nothing the second time.
pub async fn a_store_that_took_everything_over_is_refused(fixture: &StoreTargetFixture) {
    let source = Source::full().await;
    source.move_to(fixture).await;
    assert_refused(fixture, &source.contents).await;
}

/// And the next attempt can succeed.
pub async fn a_source_that_fails_at_any_point_leaves_nothing(fixture: &StoreTargetFixture) {
    let source = Source::full().await;
    for last in 0.. {
        let failing = InterruptedSource::new(source.store.clone(), move |call| {
            ready(if call.number == last {
                Err(StoreError::Unavailable("on purpose".into()))
            } else {
                Ok(())
            })
            .boxed()
        });
        match fixture.target.take_over(&failing).await {
            Err(MoveError::Source(StoreError::Unavailable(_))) => {
                source.assert_left_nothing_in(&fixture.storage).await
            }
            Ok(counts) => {
                assert_eq!(counts, source.contents.counts());
                assert!(last > 5, "every kind was asked for, and the counts");
                break;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    source.contents.assert_shown_by(&fixture.storage).await;
}

/// Whoever gave up may have died.
pub async fn what_was_given_up_half_way_leaves_nothing(fixture: &StoreTargetFixture) {
    let source = Source::full().await;
    for method in ["orders", "counts"] {
        let (reached, target) = (Arc::new(Notify::new()), fixture.target.clone());
        let there = reached.clone();
        let stuck = InterruptedSource::new(source.store.clone(), move |call| {
            if call.method == method {
                there.notify_one();
                return pending().boxed();
            }
            ready(Ok(())).boxed()
        });
        let mut moving = tokio::spawn(async move { target.take_over(&stuck).await });
        tokio::select! {
            () = reached.notified() => moving.abort(),
            ended = &mut moving => panic!("{ended:?}"),
        }
        assert!(moving.await.unwrap_err().is_cancelled());
        source.assert_left_nothing_in(&fixture.storage).await;
    }
    source.assert_moved_to(fixture).await;
}

/// What somebody does to a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Order,
    Key,
    Upload,
    DeliveryDone,
    AllOfThem,
}

impl Write {
    async fn to(self, store: Arc<InMemoryStore>) -> Result<(), StoreError> {
        let is = |kind| self == kind || self == Self::AllOfThem;
        if is(Self::Order) {
            let order = NewOrder { documents: vec![document()], ..new_order("meanwhile", NOW) };
            store.record(from_ref(&order.documents[0].key), NOW).await?;
            store.create(&order, WINDOW).await.unwrap();
        }
        if is(Self::Key) {
            store.add(&api_key(NOW), "jane").await?;
        }
        if is(Self::Upload) {
            store.record(&[object_key(), object_key()], NOW).await?;
        }
        if self == Self::DeliveryDone {
            let lease = store.lease(NOW, LEASE, 1).await?.remove(0);
            assert!(store.settle(lease.delivery.id, lease.token, &Settlement::Done).await?);
        }
        Ok(())
    }
}

/// What a target asks its source for first.
async fn first_question(fixture: &StoreTargetFixture) -> &'static str {
    let first = Arc::new(OnceLock::new());
    let asked = first.clone();
    let silent = InterruptedSource::new(Arc::default(), move |call| {
        asked.get_or_init(|| call.method);
        ready(Err(StoreError::Unavailable("on purpose".into()))).boxed()
    });
    fixture.target.take_over(&silent).await.unwrap_err();
    first.get().unwrap()
}

/// Whatever was written, between whichever of the questions; and nothing is moved.
pub async fn a_source_that_somebody_wrote_to_meanwhile_is_noticed(fixture: &StoreTargetFixture) {
    let first = first_question(fixture).await;
    // What was written before anything was asked would simply be moved.
    let later = [
        "key_events",
        "api_keys",
        "file_numbers",
        "orders",
        "deliveries",
        "uploads",
        "remembered",
        "counts",
    ]
    .into_iter()
    .filter(|method| *method != first);
    let kinds = [Write::Order, Write::Key, Write::Upload, Write::DeliveryDone]
        .map(|write| ("counts", write));
    for (method, write) in later.map(|method| (method, Write::AllOfThem)).chain(kinds) {
        let (source, written) = (Source::full().await, AtomicBool::new(false));
        let store = source.store.clone();
        let written_to = InterruptedSource::new(source.store.clone(), move |call| {
            let now = call.method == method && !written.swap(true, Ordering::SeqCst);
            if now { write.to(store.clone()).boxed() } else { ready(Ok(())).boxed() }
        });
        match fixture.target.take_over(&written_to).await {
            Err(MoveError::Differs { source_has, arrived }) => {
                assert_eq!(*source_has, source.store.counts().await.unwrap());
                assert_ne!(arrived, source_has);
            }
            other => panic!("{write:?} before {method}: {other:?}"),
        }
        source.assert_left_nothing_in(&fixture.storage).await;
    }
    Source::full().await.assert_moved_to(fixture).await;
}

/// The other one is told that there is something.
pub async fn of_two_that_take_over_at_once_one_does(fixture: &StoreTargetFixture) {
    let sources = [
        Source::full().await,
        Source::with((0..30).map(|number| new_order(&format!("F-{number}"), NOW))).await,
    ];
    let moves = sources.each_ref().map(|source| {
        let (target, store) = (fixture.target.clone(), source.store.clone());
        tokio::spawn(async move { target.take_over(&*store).await })
    });
    let mut winners = Vec::new();
    for (source, moved) in sources.iter().zip(moves) {
        match moved.await.unwrap() {
            Ok(counts) => winners.push((source, counts)),
            Err(MoveError::NotEmpty(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    let [(winner, counts)] = &winners[..] else { panic!("{} took over", winners.len()) };
    assert_eq!(*counts, winner.contents.counts());
    winner.contents.assert_shown_by(&fixture.storage).await;
}

/// It waits, or is refused as unavailable, or is there first; however it comes out, both agree on
/// it.
pub async fn an_order_that_is_placed_meanwhile_is_not_lost(fixture: &StoreTargetFixture) {
    let source = Source::full().await;
    let (tasks, mut placing) = mpsc::unbounded_channel();
    let orders = fixture.storage.orders.clone();
    let slow = InterruptedSource::new(source.store.clone(), move |call| {
        let orders = orders.clone();
        let order =
            NewOrder { deliveries: vec![], ..new_order(&format!("F-{}", call.number), NOW) };
        tasks
            .send(tokio::spawn(async move { (orders.create(&order, WINDOW).await, order) }))
            .unwrap();
        ready(Ok(())).boxed()
    });
    let moved = fixture.target.take_over(&slow).await;
    drop(slow);
    match &moved {
        Ok(counts) => {
            assert_eq!(*counts, source.contents.counts());
            source.contents.assert_shown_by(&fixture.storage).await;
        }
        Err(MoveError::NotEmpty(_)) => assert_eq!(fixture.storage.keys.list().await.unwrap(), []),
        Err(error) => panic!("{error:?}"),
    }
    let last_moved = source.contents.orders.last().unwrap().id;
    while let Some(task) = placing.recv().await {
        match task.await.unwrap() {
            (Ok(id), order) => {
                assert_eq!(
                    fixture.storage.orders.find(id).await.unwrap(),
                    Some(stored(id, &order))
                );
                assert!(moved.is_err() || id > last_moved);
            }
            (Err(CreateError::Unavailable(_)), _) => assert!(moved.is_ok()),
            (Err(error), _) => panic!("{error:?}"),
        }
    }
}
