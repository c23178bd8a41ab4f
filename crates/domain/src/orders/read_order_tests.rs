use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use mockall::predicate::eq;
use time::{OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    ports::{MockBlobStore, MockOrderReader},
    test_support::{document, stored_order},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
const CLIENT: ClientId = ClientId(1);
const ID: OrderId = OrderId(1);

fn reading(reader: MockOrderReader, blobs: MockBlobStore) -> ReadOrder {
    ReadOrder { reader: Arc::new(reader), blobs: Arc::new(blobs) }
}

/// Returns what the use case makes of a reply about an order.
async fn read(
    reply: fn() -> Result<Option<Kept<StoredOrder>>, StoreError>,
) -> Result<StoredOrder, ReadError> {
    let mut reader = MockOrderReader::new();
    reader.expect_order().with(eq(CLIENT), eq(ID)).once().returning(move |_, _| reply());
    reading(reader, MockBlobStore::new()).order(CLIENT, ID).await
}

#[tokio::test]
async fn order_is_found_missing_or_erased() {
    assert_eq!(read(|| Ok(Some(Kept::Whole(stored_order(NOW))))).await.unwrap(), stored_order(NOW));
    assert!(matches!(read(|| Ok(None)).await, Err(ReadError::NotFound)));
    assert!(matches!(read(|| Ok(Some(Kept::Erased))).await, Err(ReadError::Erased)));
    let down = read(|| Err(StoreError::Unavailable("down".into()))).await;
    assert!(matches!(down, Err(ReadError::Unavailable(_))));
    let odd = read(|| Err(StoreError::Internal("odd".into()))).await;
    assert!(matches!(odd, Err(ReadError::Internal(_))));
}

#[tokio::test]
async fn page_of_an_unknown_cursor_is_an_error() {
    let mut reader = MockOrderReader::new();
    reader.expect_page().once().returning(|_, _| Ok(None));
    let query = PageQuery {
        file_number: None,
        created_after: None,
        created_before: None,
        limit: 20,
        cursor: crate::ports::Cursor::OlderThan(OrderId(7)),
    };
    let page = reading(reader, MockBlobStore::new()).page(CLIENT, &query).await;
    assert!(matches!(page, Err(ReadError::UnknownCursor)));
}

#[tokio::test]
async fn bytes_of_a_range_are_streamed() {
    let mut blobs = MockBlobStore::new();
    blobs
        .expect_get()
        .withf(|key, range| key.as_str() == "k" && *range == (1..3))
        .once()
        .returning(|_, _| Ok(stream::iter([Ok(Bytes::from("b")), Ok(Bytes::from("c"))]).boxed()));
    let reading = reading(MockOrderReader::new(), blobs);
    let bytes = reading.bytes(CLIENT, ID, 0, &document("k", NOW), 1..3).await.unwrap();
    assert_eq!(bytes.try_collect::<Vec<_>>().await.unwrap().concat(), b"bc");
}

/// Returns the error of a document whose object the store does not give.
async fn unread(
    get: fn() -> GetError,
    looked_up_again: Option<fn() -> Option<Kept<StoredDocument>>>,
) -> ReadError {
    let mut blobs = MockBlobStore::new();
    blobs.expect_get().once().returning(move |_, _| Err(get()));
    let mut reader = MockOrderReader::new();
    if let Some(found) = looked_up_again {
        reader
            .expect_document()
            .with(eq(CLIENT), eq(ID), eq(2))
            .once()
            .returning(move |_, _, _| Ok(found()));
    }
    let reading = reading(reader, blobs);
    reading.bytes(CLIENT, ID, 2, &document("k", NOW), 0..5).await.err().unwrap()
}

#[tokio::test]
async fn missing_object_names_its_order() {
    let error = unread(|| GetError::Missing, Some(|| Some(Kept::Whole(document("k", NOW))))).await;
    assert!(matches!(error, ReadError::MissingObject { order: ID, position: 2 }), "{error:?}");
    assert_eq!(error.to_string(), "the object of document 2 of order 1 is missing");
}

#[tokio::test]
async fn object_of_an_order_erased_meanwhile_is_erased() {
    let error = unread(|| GetError::Missing, Some(|| Some(Kept::Erased))).await;
    assert!(matches!(error, ReadError::Erased), "{error:?}");
}

#[tokio::test]
async fn failing_store_is_unavailable_or_internal() {
    let error = unread(|| GetError::Unavailable("down".into()), None).await;
    assert!(matches!(error, ReadError::Unavailable(_)), "{error:?}");
    let error = unread(|| GetError::Internal("odd".into()), None).await;
    assert!(matches!(error, ReadError::Internal(_)), "{error:?}");
}
