use mockall::predicate::eq;
use time::{OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    access::{AccessId, RunId},
    api_key::ClientId,
    document::DocumentKind,
    ports::{
        MaybeErased, MockAccessLog, MockBlobStore, MockChangeFeed, MockOrderReader, MockOrderRepo,
    },
    test_support::{access_facts, clock, document},
    use_cases::accesses::recorder::{AccessRecorder, BegunAccess},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
const OWNER: Owner = Owner::client(ClientId(1), true);
const ID: DocumentId = DocumentId { order: OrderId(1), kind: DocumentKind::ToSign, position: 2 };

/// Returns the error of a document whose object is missing, and which is then looked up again.
async fn unread(looked_up_again: fn() -> MaybeErased<StoredDocument>) -> OrderError {
    // Given: a store without the object, and a database that is asked once for the document.
    let mut blobs = MockBlobStore::new();
    blobs.expect_get().once().returning(|_, _| Ok(None));
    let mut reader = MockOrderReader::new();
    reader
        .expect_document()
        .with(eq(OWNER), eq(ID))
        .once()
        .returning(move |_, _| Ok(Some(looked_up_again())));
    let reading = ReadOrder {
        orders: Arc::new(MockOrderRepo::new()),
        reader: Arc::new(reader),
        feed: Arc::new(MockChangeFeed::new()),
        accesses: Arc::new(MockAccessLog::new()),
        blobs: Arc::new(blobs),
        downloads: Downloads::default(),
        clock: clock(NOW),
    };

    // When: the client reads the first bytes.
    reading.bytes(OWNER, ID, &ObjectKey::from_stored("k".to_owned()), 0..5).await.err().unwrap()
}

#[tokio::test]
async fn missing_object_names_its_order() {
    let error = unread(|| MaybeErased::Whole(document("k", NOW))).await;

    // Then: the log says which object is missing.
    assert!(matches!(error, OrderError::MissingObject(ID)), "{error:?}");
    assert_eq!(error.to_string(), "the object of document 2 of order 1 is missing");
}

#[tokio::test]
async fn object_of_an_order_erased_meanwhile_is_erased() {
    let error = unread(|| MaybeErased::Erased).await;

    assert!(matches!(error, OrderError::Erased), "{error:?}");
}

#[tokio::test]
async fn object_of_a_document_withdrawn_meanwhile_is_withdrawn() {
    let error =
        unread(|| MaybeErased::Whole(StoredDocument { key: None, ..document("k", NOW) })).await;

    assert!(matches!(error, OrderError::Withdrawn), "{error:?}");
}

#[tokio::test]
async fn page_of_accesses_says_whether_there_are_older_ones() {
    let at = |number| {
        let (clock, run) = (clock(NOW), RunId(1));
        let recorder = Arc::new(AccessRecorder::new(run, clock));
        let access = BegunAccess::new(recorder, access_facts()).done();
        Access { id: AccessId { number, ..access.id }, ..access }
    };
    for (stored, limit, expected) in [(3, 2, (2, true)), (2, 2, (2, false)), (0, 1, (0, false))] {
        let mut accesses = MockAccessLog::new();
        accesses
            .expect_of_order()
            .with(eq(OWNER), eq(OrderId(1)), eq(None), eq(limit + 1))
            .returning(move |_, _, _, _| {
                Ok(Some(MaybeErased::Whole(Some((0..stored).map(at).collect()))))
            });
        let reading = ReadOrder {
            orders: Arc::new(MockOrderRepo::new()),
            reader: Arc::new(MockOrderReader::new()),
            feed: Arc::new(MockChangeFeed::new()),
            accesses: Arc::new(accesses),
            blobs: Arc::new(MockBlobStore::new()),
            downloads: Downloads::default(),
            clock: clock(NOW),
        };
        let (page, has_older) = reading.accesses(OWNER, OrderId(1), None, limit).await.unwrap();
        assert_eq!((page.len(), has_older), expected);
    }
}
