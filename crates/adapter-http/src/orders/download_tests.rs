use std::{cell::Cell, rc::Rc};

use actix_web::body::{BodySize, MessageBody as _};
use contract_tests::samples::{api_key, document};
use domain::{
    api_key::{ApiKey, ApiKeyId},
    ports::{
        MockAccessLog, MockApiKeyRepo, MockBlobStore, MockChangeFeed, MockClock, MockEntropy,
        MockOrderReader, MockOrderRepo, StoreError,
    },
    use_cases::{keys::manage_keys::ManageKeys, note_downloads::Downloads, read_order::ReadOrder},
};
use futures_util::{FutureExt as _, StreamExt as _, future::poll_fn, stream};
use prometheus::Registry;
use proptest::prelude::*;

use super::*;
use crate::test_support::NOW;

fn named(name: &str, name_as_sent: &str) -> StoredDocument {
    StoredDocument { name: name.to_owned(), name_as_sent: name_as_sent.to_owned(), ..document() }
}

#[test]
fn long_name_keeps_its_extension() {
    let value = disposition(&named("x.pdf", &format!("{}.pdf", "é".repeat(5_000))));
    let extended = value.split("''").nth(1).unwrap();
    assert_eq!(extended, format!("{}.pdf", "%C3%A9".repeat(LONGEST_NAME - 4)));
}

proptest! {
    #[test]
    fn names_as_sent_survive(name in ".{0,200}") {
        let value = disposition(&named("deed.pdf", &name));
        let extended = value.split_once("UTF-8''").unwrap().1;
        let attr_char = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~%".contains(&byte);
        prop_assert!(extended.bytes().all(attr_char), "{}", extended);
        let decoded = percent_encoding::percent_decode_str(extended).decode_utf8().unwrap();
        prop_assert_eq!(decoded, name);
    }
}

/// Reads a download of 10 bytes. Returns the slices before an error, and whether there was one.
fn read(blocks: Vec<Result<Bytes, StoreError>>, length: u64) -> (Vec<usize>, bool, ApiMetrics) {
    let metrics = ApiMetrics::register(&Registry::new()).unwrap();
    let stream = stream::iter(blocks).boxed();
    let mut clock = MockClock::new();
    clock.expect_now().return_const(NOW);
    let clock = Arc::new(clock);
    let mut keys = MockApiKeyRepo::new();
    keys.expect_find().returning(|_| Err(StoreError::Unavailable("down".into())));
    let mut reader = MockOrderReader::new();
    reader.expect_document().returning(|_, _| Err(StoreError::Unavailable("down".into())));
    let ports = ReadOrder {
        orders: Arc::new(MockOrderRepo::new()),
        reader: Arc::new(reader),
        feed: Arc::new(MockChangeFeed::new()),
        accesses: Arc::new(MockAccessLog::new()),
        blobs: Arc::new(MockBlobStore::new()),
        downloads: Downloads::default(),
        clock: clock.clone(),
    };
    let keys = ManageKeys {
        keys: Arc::new(keys),
        clock,
        entropy: Arc::new(MockEntropy::new()),
        uses: Arc::default(),
        cache: Arc::default(),
    };
    let key = ApiKey { id: ApiKeyId(1), key: api_key(NOW), revoked_at: None, last_used_at: None };
    let id = DocumentId { order: OrderId(7), kind: DocumentKind::ToSign, position: 0 };
    let look = Look::at(ports, keys, Arc::new(key.into()), id);
    let is_noted = Rc::new(Cell::new(false));
    let note_end = {
        let is_noted = is_noted.clone();
        move || is_noted.set(true)
    };
    let mut download = Box::pin(body(stream, length, id, look, note_end, &metrics));
    assert_eq!(download.size(), BodySize::Sized(length));
    let mut slices = Vec::new();
    loop {
        let next = poll_fn(|context| download.as_mut().poll_next(context));
        match next.now_or_never().unwrap() {
            Some(Ok(slice)) => slices.push(slice.len()),
            end => {
                assert_eq!(is_noted.get(), end.is_none());
                return (slices, end.is_some(), metrics);
            }
        }
    }
}

#[actix_web::test]
async fn whole_object_is_sent_and_counted() {
    let blocks = vec![Ok(Bytes::from(vec![1; 40_000])), Ok(Bytes::new()), Ok(Bytes::from("end"))];
    let (blocks, failed, metrics) = read(blocks, 40_003);
    assert_eq!((blocks, failed), (vec![40_000, 3], false));
    assert_eq!((metrics.document_bytes_read.get(), metrics.downloads_cut.get()), (40_003, 0));
}

#[actix_web::test]
async fn failing_store_fails_the_body() {
    let failing = || Err(StoreError::Unavailable("down".into()));
    for (blocks, whole) in [
        (vec![failing()], 0),
        (vec![Ok(Bytes::from("first")), failing()], 5),
        (vec![Ok(Bytes::from("short"))], 5),
        (vec![Ok(Bytes::from("much too long"))], 0),
    ] {
        let (slices, failed, metrics) = read(blocks, 10);
        assert_eq!((slices.iter().sum::<usize>(), failed), (whole, true));
        assert_eq!(metrics.downloads_cut.get(), 1);
    }
}
