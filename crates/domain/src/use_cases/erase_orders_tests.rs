use mockall::{Sequence, predicate::eq};
use time::macros::datetime;

use super::*;
use crate::{
    access::{AccessActor, RunId},
    document::ObjectKey,
    ports::{
        ErasedDue, ErasureOutcome, MockAccessLog, MockBlobStore, MockOrderAdmin, MockUploadLedger,
    },
    test_support::clock,
    use_cases::{
        accesses::{keep_accesses::KeepAccesses, recorder::AccessRecorder},
        store_waiting::WaitingFacts as _,
    },
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

fn erasing(admin: MockOrderAdmin, uploads: MockUploadLedger, blobs: MockBlobStore) -> EraseOrders {
    EraseOrders {
        admin: Arc::new(admin),
        uploads: Arc::new(uploads),
        blobs: Arc::new(blobs),
        clock: clock(NOW),
        accesses: None,
    }
}

fn keys(names: &[&str]) -> Vec<ObjectKey> {
    names.iter().map(|name| ObjectKey::from_stored((*name).to_owned())).collect()
}

#[tokio::test]
async fn objects_are_deleted_after_the_erasure() {
    let (mut admin, mut uploads) = (MockOrderAdmin::new(), MockUploadLedger::new());
    let (mut blobs, mut sequence) = (MockBlobStore::new(), Sequence::new());
    admin
        .expect_erase()
        .with(eq(OrderId(7)), eq(NOW), eq(None))
        .once()
        .in_sequence(&mut sequence)
        .returning(|_, _, _| Ok(ErasureOutcome::Erased(keys(&["a", "b"]))));
    blobs.expect_delete().times(2).in_sequence(&mut sequence).returning(|_| Ok(()));
    uploads
        .expect_forget()
        .withf(|gone| gone.len() == 2)
        .once()
        .in_sequence(&mut sequence)
        .returning(|_| Ok(()));
    let erasure = erasing(admin, uploads, blobs).erase(OrderId(7)).await.unwrap();
    assert_eq!(erasure, Erasure { orders: 1, documents: 2, ..Erasure::default() });
}

#[tokio::test]
async fn object_that_cannot_be_deleted_is_left_to_the_sweeper() {
    let (mut admin, mut uploads) = (MockOrderAdmin::new(), MockUploadLedger::new());
    let mut blobs = MockBlobStore::new();
    admin.expect_erase().returning(|_, _, _| Ok(ErasureOutcome::Erased(keys(&["a", "b"]))));
    blobs.expect_delete().returning(|key| match key.as_str() {
        "a" => Err(StoreError::Unavailable("no bucket".into())),
        _ => Ok(()),
    });
    uploads.expect_forget().withf(|gone| gone == keys(&["b"])).once().returning(|_| Ok(()));
    let erasure = erasing(admin, uploads, blobs).erase(OrderId(7)).await.unwrap();
    assert_eq!(erasure, Erasure { orders: 1, documents: 2, left: keys(&["a"]), held: 0 });
}

#[tokio::test]
async fn batch_has_a_limit_and_passes_over_held_orders() {
    let mut admin = MockOrderAdmin::new();
    let mut sequence = Sequence::new();
    for (after, ids) in [(0, vec![OrderId(1), OrderId(2), OrderId(5)]), (5, vec![])] {
        admin
            .expect_created_before()
            .with(eq(NOW), eq(OrderId(after)), eq(BATCH))
            .once()
            .in_sequence(&mut sequence)
            .return_once(|_, _, _| Ok(ids));
    }
    admin.expect_erase().times(3).returning(|id, _, _| {
        Ok(match id.0 {
            1 => ErasureOutcome::Held,
            2 => ErasureOutcome::NotFound,
            _ => ErasureOutcome::Erased(vec![]),
        })
    });
    let erasing = erasing(admin, MockUploadLedger::new(), MockBlobStore::new());
    let erased = Erasure { orders: 1, held: 1, ..Erasure::default() };
    let batch = erasing.erase_batch(NOW, OrderId(0)).await.unwrap();
    assert_eq!(batch, Some((erased, OrderId(5))));
    assert_eq!(erasing.erase_batch(NOW, OrderId(5)).await.unwrap(), None);
}

#[tokio::test]
async fn failed_erasure_ends_the_batch() {
    let mut admin = MockOrderAdmin::new();
    admin.expect_created_before().once().returning(|_, _, _| Ok(vec![OrderId(1), OrderId(2)]));
    admin.expect_erase().once().returning(|_, _, _| Err(StoreError::Unavailable("down".into())));
    let erasing = erasing(admin, MockUploadLedger::new(), MockBlobStore::new());
    assert!(matches!(erasing.erase_batch(NOW, OrderId(0)).await, Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn only_orders_that_are_erased_have_accesses() {
    let due = Due { what: Retained::Orders, before: NOW, now: NOW };
    for (erases, rows) in
        [(None, vec![]), (Some(Ok(())), vec![DONE]), (Some(Err(())), vec!["unavailable"])]
    {
        let mut admin = MockOrderAdmin::new();
        admin.expect_due().once().returning(|_, _, _| {
            Ok(FoundDue { orders: vec![OrderId(1), OrderId(2)], looked_at: None })
        });
        admin.expect_erase_due().once().returning(move |_, ids, access_of| {
            // Another instance erases.
            let Some(outcome) = erases else { return Ok(None) };
            // The other order is not due any more.
            let row = access_of(ids[1]).unwrap();
            assert_eq!((row.id.number, &*row.outcome), (1, DONE));
            let erased = ErasedDue { orders: vec![ids[1]], condemned: Vec::new() };
            outcome.map(|()| Some(erased)).map_err(|()| StoreError::Unavailable("down".into()))
        });
        let recorder = Arc::new(AccessRecorder::new(RunId(7), clock(NOW)));
        let actor = AccessActor::Operator { command: "serve".to_owned(), user: "root".to_owned() };
        let accesses = Some(ActorAccesses { recorder: Arc::clone(&recorder), actor });
        let erasing = erasing(admin, MockUploadLedger::new(), MockBlobStore::new());
        let erased = EraseOrders { accesses, ..erasing }.erase_due(due, OrderId(0)).await;
        assert_eq!(erased.is_err(), rows == ["unavailable"]);
        let mut log = MockAccessLog::new();
        let expected = rows.clone();
        log.expect_store().times(rows.len()).returning(move |stored| {
            let stored: Vec<_> =
                stored.iter().map(|it| (it.id.number, it.facts.order, &*it.outcome)).collect();
            let order = Some(OrderId(2));
            assert_eq!(stored, expected.iter().map(|it| (1, order, *it)).collect::<Vec<_>>());
            Ok(())
        });
        KeepAccesses { log: Arc::new(log), recorder }.store_batch().await.unwrap();
    }
}
