use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    document::{DocumentFault, ObjectKey, SpooledFile},
    idempotency::{AddedRange, Fingerprint, IdempotentRequest, KeyUse},
    order::OrderId,
    ports::{BlobStore, BlobStream, MaybeErased, MockServiceRepo, Standing, StoreError},
    test_support::{
        Mocks, api_key as key, attempt, document as stored_document, down, minimal_request,
        received as document, scan, stored_order,
    },
    use_cases::intake::PARALLEL_PUTS,
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

impl Mocks {
    fn use_case(self) -> CreateOrder {
        CreateOrder {
            intake: self.intake(NOW),
            window: DuplicateWindow::default(),
            known_services: None,
        }
    }

    /// Creates a minimal order without documents.
    async fn create(self, attempt: Option<&Attempt>) -> Result<CreatedOrder, OrderError> {
        self.use_case().create(&key().into(), request(minimal_request()), None, attempt).await
    }

    /// Creates a minimal order with documents of these names.
    async fn create_with(self, names: &[&str]) -> Result<CreatedOrder, OrderError> {
        self.create_from(minimal_request(), names, None).await
    }

    async fn create_from(
        self,
        json: Value,
        names: &[&str],
        attempt: Option<&Attempt>,
    ) -> Result<CreatedOrder, OrderError> {
        let documents = Some(names.iter().map(|name| document(name)).collect());
        self.use_case().create(&key().into(), request(json), documents, attempt).await
    }

    /// Expects uploads that succeed.
    fn expect_puts(&mut self) {
        self.uploads.expect_record().returning(|_, _| Ok(()));
        self.blobs.expect_put().returning(|_, _| Ok(()));
    }
}

fn rejection(result: Result<CreatedOrder, OrderError>) -> Rejection {
    match result {
        Err(OrderError::Rejected(rejection)) => rejection,
        other => panic!("{other:?}"),
    }
}

fn assert_unavailable(result: &Result<CreatedOrder, OrderError>) {
    assert!(matches!(result, Err(OrderError::Store(StoreError::Unavailable(_)))), "{result:?}");
}

fn request(json: Value) -> OrderRequest {
    serde_json::from_value(json).unwrap()
}

#[tokio::test]
async fn order_is_created() {
    let mut mocks = Mocks::default();
    mocks.orders.expect_create().once().returning(|new, window| {
        assert_eq!(
            (new.created_at, window, new.documents.len()),
            (NOW, DuplicateWindow::default(), 0)
        );
        Ok(OrderId(9))
    });
    let stored = mocks.create(None).await.unwrap().stored;
    assert_eq!(
        (stored.id, stored.status, stored.notary_id, stored.created_at, stored.updated_at),
        (OrderId(9), OrderStatus::NEW, None, NOW, NOW)
    );
}

#[tokio::test]
async fn invalid_request_stores_and_claims_nothing() {
    let mut json = minimal_request();
    json["signingServiceId"] = Value::Null;
    let mocks = Mocks::default;
    for created in [
        mocks().use_case().create(&key().into(), request(json.clone()), None, None).await,
        mocks().create_from(json.clone(), &["a.pdf"], None).await,
        mocks().create_from(json, &["a.pdf"], Some(&attempt())).await,
    ] {
        assert_eq!(rejection(created).violations[0].pointer, "/signingServiceId");
    }
}

#[tokio::test]
async fn unacceptable_document_stores_nothing() {
    let mut json = minimal_request();
    json["requestedBy"] = Value::Null;
    let created = Mocks::default().create_from(json, &["a.pdf", "b.exe", "c.png"], None).await;
    let Rejection { documents, violations, .. } = rejection(created);
    let faults =
        [(1, DocumentFault::UnsupportedExtension), (2, DocumentFault::ContentMismatch(None))];
    assert_eq!((&documents[..], violations.len()), (&faults[..], 1));
    assert!(rejection(Mocks::default().create_with(&[]).await).no_documents);
}

/// The scanner is not asked about a request that other checks reject.
#[tokio::test]
async fn scan_is_the_last_check() {
    let mocks = Mocks { scan: Some(scan(true, || panic!("scanned"))), ..Mocks::default() };
    rejection(mocks.create_with(&["a.exe"]).await);
}

#[tokio::test]
async fn documents_are_recorded_put_and_adopted_in_order() {
    let mut mocks = Mocks::default();
    let mut sequence = mockall::Sequence::new();
    mocks
        .uploads
        .expect_record()
        .withf(|keys, _| keys.len() == 2)
        .once()
        .in_sequence(&mut sequence)
        .returning(|_, _| Ok(()));
    mocks.blobs.expect_put().times(2).in_sequence(&mut sequence).returning(|_, _| Ok(()));
    mocks.orders.expect_create().once().in_sequence(&mut sequence).returning(|new, _| {
        let names: Vec<_> = new.documents.iter().map(|document| document.name.as_str()).collect();
        assert_eq!(names, ["a_1.pdf", "b.pdf"]);
        assert_eq!(
            (
                new.documents[0].name_as_sent.as_str(),
                new.documents[0].size,
                new.documents[0].media_type.as_str()
            ),
            ("a 1.pdf", 5, "application/pdf")
        );
        Ok(OrderId(1))
    });
    let stored = mocks.create_with(&["a 1.pdf", "b.pdf"]).await.unwrap().stored;
    assert_eq!(stored.documents.len(), 2);
}

#[tokio::test]
async fn failed_commit_removes_objects() {
    type Case = (fn(OffsetDateTime) -> WriteError, &'static str);
    let created_at = NOW - Duration::seconds(18);
    let cases: [Case; 2] = [
        (|created_at| WriteError::Duplicate { created_at }, "Duplicate { retry_after: 42 }"),
        (|_| WriteError::Internal("broken".into()), "Store(Internal("),
    ];
    for (fail, expected) in cases {
        let mut mocks = Mocks::default();
        mocks.expect_uploads_removed(2);
        mocks.blobs.expect_put().returning(|_, _| Ok(()));
        mocks.orders.expect_create().returning(move |_, _| Err(fail(created_at)));
        let error = mocks.create_with(&["a.pdf", "b.pdf"]).await.unwrap_err();
        assert!(format!("{error:?}").starts_with(expected), "{error:?}");
    }
}

#[tokio::test]
async fn failed_put_removes_objects() {
    let mut mocks = Mocks::default();
    mocks.expect_uploads_removed(3);
    mocks.blobs.expect_put().times(2).returning(|_, file| {
        if file.path.as_os_str() == "b.pdf" {
            Err(StoreError::Internal("broken".into()))
        } else {
            Ok(())
        }
    });
    let error = mocks.create_with(&["a.pdf", "b.pdf", "c.pdf"]).await.unwrap_err();
    assert!(matches!(error, OrderError::Store(StoreError::Internal(_))), "{error}");
}

/// The clock was set forward between the record and the put, and a sweeper has removed the first of
/// two keys.
#[tokio::test]
async fn forgotten_objects_are_recorded_again() {
    let mut mocks = Mocks::default();
    let ledger = Arc::new(Mutex::new(Vec::<ObjectKey>::new()));
    let (recorded, condemned, forgotten) =
        (Arc::clone(&ledger), Arc::clone(&ledger), Arc::clone(&ledger));
    mocks.uploads.expect_record().times(2).returning(move |keys, _| {
        recorded.lock().unwrap().extend_from_slice(keys);
        Ok(())
    });
    mocks.uploads.expect_condemn().returning(move |keys| {
        Ok(condemned.lock().unwrap().iter().filter(|key| keys.contains(key)).cloned().collect())
    });
    mocks.uploads.expect_forget().returning(move |keys| {
        forgotten.lock().unwrap().retain(|key| !keys.contains(key));
        Ok(())
    });
    let (stored, deleted) = (Arc::new(Mutex::new(Vec::<ObjectKey>::new())), Arc::clone(&ledger));
    let (put, removed) = (Arc::clone(&stored), Arc::clone(&stored));
    mocks.blobs.expect_put().times(2).returning(move |key, _| {
        put.lock().unwrap().push(key.clone());
        Ok(())
    });
    mocks.blobs.expect_delete().times(2).returning(move |key| {
        assert!(
            deleted.lock().unwrap().contains(key),
            "one that is not in the ledger is lost if its removal fails"
        );
        removed.lock().unwrap().retain(|other| other != key);
        Ok(())
    });
    let sweeper = Arc::clone(&ledger);
    mocks.orders.expect_create().once().returning(move |_, _| {
        sweeper.lock().unwrap().remove(0);
        Err(WriteError::UploadSwept)
    });
    assert_unavailable(&mocks.create_with(&["a.pdf", "b.pdf"]).await);
    assert_eq!((stored.lock().unwrap().len(), ledger.lock().unwrap().len()), (0, 0));
}

#[tokio::test]
async fn objects_of_unavailable_store_are_left_to_sweeper() {
    let mut mocks = Mocks::default();
    mocks.uploads.expect_record().returning(|_, _| Ok(()));
    mocks.blobs.expect_put().once().returning(|_, _| Err(down()));
    // Nothing is condemned or deleted.
    assert_unavailable(&mocks.create_with(&["a.pdf", "b.pdf"]).await);
}

/// A blob store whose first put fails while others are in progress.
#[derive(Default)]
struct FailingFirst {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

#[async_trait::async_trait]
impl BlobStore for FailingFirst {
    async fn put(&self, _: &ObjectKey, _: &SpooledFile) -> Result<(), StoreError> {
        let number = self.begun.fetch_add(1, Ordering::SeqCst);
        for _ in 0..=number {
            tokio::task::yield_now().await;
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
        if number == 0 { Err(down()) } else { Ok(()) }
    }

    async fn get(&self, _: &ObjectKey, _: Range<u64>) -> Result<Option<BlobStream>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn delete(&self, _: &ObjectKey) -> Result<(), StoreError> {
        unreachable!("nothing is deleted from a store that does not answer")
    }

    async fn check(&self) -> Result<(), StoreError> {
        unreachable!("not checked in this test")
    }
}

#[tokio::test]
async fn failed_put_starts_no_other() {
    let blobs = Arc::new(FailingFirst::default());
    let mut mocks = Mocks::default();
    mocks.uploads.expect_record().returning(|_, _| Ok(()));
    let mut use_case = mocks.use_case();
    use_case.intake.blobs = Arc::clone(&blobs) as _;
    let documents = (0..20).map(|number| document(&format!("{number}.pdf"))).collect();
    let request = request(minimal_request());
    assert_unavailable(&use_case.create(&key().into(), request, Some(documents), None).await);
    assert_eq!(
        (blobs.begun.load(Ordering::SeqCst), blobs.ended.load(Ordering::SeqCst)),
        (PARALLEL_PUTS, PARALLEL_PUTS)
    );
}

#[tokio::test]
async fn objects_stay_when_commit_outcome_is_unknown() {
    let mut mocks = Mocks::default();
    mocks.expect_puts();
    mocks.orders.expect_create().returning(|_, _| Err(WriteError::Unavailable("lost".into())));
    // The commit took effect: the key has left the ledger, so nothing is condemned or deleted.
    mocks.uploads.expect_condemn().once().returning(|_| Ok(vec![]));
    assert_unavailable(&mocks.create_with(&["a.pdf"]).await);
}

#[tokio::test]
async fn nothing_is_put_before_it_is_recorded() {
    let mut mocks = Mocks::default();
    mocks.uploads.expect_record().returning(|_, _| Err(down()));
    assert_unavailable(&mocks.create_with(&["a.pdf"]).await);
}

#[tokio::test]
async fn bound_key_is_checked_first() {
    let mut key = key();
    key.key.signing_service = Some(SigningServiceId(7));
    let key = Caller::from(key);
    let use_case = || Mocks::default().use_case();
    let request = || request(json!({ "signingServiceId": 42 }));
    for created in [
        use_case().create(&key, request(), None, None).await,
        use_case().create(&key, request(), Some(vec![]), None).await,
    ] {
        assert!(matches!(created, Err(OrderError::Forbidden)), "{created:?}");
    }
}

/// Returns an order that was created an hour ago and has changed since.
fn created_before() -> StoredOrder {
    StoredOrder {
        id: OrderId(5),
        notary_id: Some(77),
        documents: vec![
            stored_document("first", NOW - Duration::HOUR),
            stored_document("added", NOW),
        ],
        updated_at: NOW,
        ..stored_order(NOW - Duration::HOUR)
    }
}

/// Returns the use of a key by that order.
fn answered(fingerprint: Fingerprint) -> KeyUse {
    KeyUse::Answered(Answered { fingerprint, order_id: OrderId(5), added: None, changed_at: None })
}

#[tokio::test]
async fn request_is_stored_for_the_configured_time() {
    let mut mocks = Mocks::default();
    mocks.orders.expect_create().once().returning(|new, _| {
        assert_eq!(
            new.idempotent_request,
            Some(IdempotentRequest { attempt: attempt(), kept_until: NOW + Duration::DAY })
        );
        Ok(OrderId(9))
    });
    let created = mocks.create(Some(&attempt())).await.unwrap();
    assert!(!created.replayed);
}

#[tokio::test]
async fn repeat_returns_order_as_created() {
    let mut mocks = Mocks::default();
    let answered = answered(attempt().fingerprint);
    mocks.orders.expect_create().once().returning(move |_, _| Err(WriteError::KeyInUse(answered)));
    let mut amended = created_before();
    amended.order.signing.signer.name = "Jane Roe".to_owned();
    mocks
        .reader
        .expect_with_documents()
        .once()
        .return_once(|_, _| Ok(Some(MaybeErased::Whole(amended))));
    let created = mocks.create(Some(&attempt())).await;
    let CreatedOrder { stored, replayed, .. } = created.unwrap();
    assert!(replayed);
    assert_eq!(stored.order.signing.signer.name, "Jane Doe");
    assert_eq!(
        (stored.id, stored.notary_id, stored.updated_at),
        (OrderId(5), None, NOW - Duration::HOUR)
    );
    assert_eq!(stored.documents, [stored_document("first", NOW - Duration::HOUR)]);
}

#[tokio::test]
async fn repeat_is_answered_after_its_service_was_removed() {
    for is_answered in [true, false] {
        let mut mocks = Mocks::default();
        let answered = answered(attempt().fingerprint);
        mocks.idempotency.expect_claim().once().returning(move |_, _, _| {
            if is_answered { Err(WriteError::KeyInUse(answered)) } else { Ok(()) }
        });
        mocks.idempotency.expect_release().times(usize::from(!is_answered)).returning(|_| Ok(()));
        mocks
            .reader
            .expect_with_documents()
            .returning(|_, _| Ok(Some(MaybeErased::Whole(created_before()))));
        let mut services = MockServiceRepo::new();
        services.expect_standing().once().returning(|_| Ok(Standing::Unknown));
        let known_services = Some(Arc::new(KnownServices::new(Arc::new(services), true)));
        let use_case = CreateOrder { known_services, ..mocks.use_case() };
        let order = request(minimal_request());
        let created = use_case.create(&key().into(), order, None, Some(&attempt())).await;
        if is_answered {
            assert!(created.unwrap().replayed);
        } else {
            let codes = rejection(created).violations.into_iter().map(|violation| violation.code);
            assert_eq!(codes.collect::<Vec<_>>(), [ViolationCode::UnknownSigningService]);
        }
    }
}

#[tokio::test]
async fn key_reused_for_another_request_is_rejected() {
    let added = Some(AddedRange { first_position: 0, count: 1, total: 1 });
    let (fingerprint, order_id) = (attempt().fingerprint, OrderId(5));
    for other in [
        answered(Fingerprint([3; 32])),
        KeyUse::Answered(Answered { fingerprint, order_id, added, changed_at: None }),
    ] {
        let mut mocks = Mocks::default();
        mocks.orders.expect_create().returning(move |_, _| Err(WriteError::KeyInUse(other)));
        let error = mocks.create(Some(&attempt())).await.unwrap_err();
        assert!(matches!(error, OrderError::KeyReused), "{error}");
    }
}

#[tokio::test]
async fn repeat_for_an_erased_order_is_rejected() {
    let mut mocks = Mocks::default();
    let other = answered(attempt().fingerprint);
    mocks.orders.expect_create().returning(move |_, _| Err(WriteError::KeyInUse(other)));
    mocks.reader.expect_with_documents().returning(|_, _| Ok(Some(MaybeErased::Erased)));
    let error = mocks.create(Some(&attempt())).await.unwrap_err();
    assert!(matches!(error, OrderError::Erased), "{error}");
}

#[tokio::test]
async fn concurrent_attempt_is_rejected_with_retry_delay() {
    for (left, retry_after) in [
        (Duration::seconds(15), 5),
        (Duration::milliseconds(2_500), 2),
        (Duration::milliseconds(10), 1),
        (-Duration::SECOND, 1),
    ] {
        let mut mocks = Mocks::default();
        mocks.idempotency.expect_claim().returning(move |_, _, _| {
            Err(WriteError::KeyInUse(KeyUse::InProgress { until: NOW + left }))
        });
        let error = mocks.use_case().intake.claim(&attempt().claim).await.unwrap_err();
        assert!(
            matches!(
                error,
                OrderError::InProgress { retry_after: given } if given == retry_after
            ),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn documents_of_concurrent_repeat_are_removed() {
    let mut mocks = Mocks::default();
    mocks.expect_uploads_removed(1);
    mocks.blobs.expect_put().returning(|_, _| Ok(()));
    let answered = answered(attempt().fingerprint);
    mocks.orders.expect_create().returning(move |_, _| Err(WriteError::KeyInUse(answered)));
    mocks
        .reader
        .expect_with_documents()
        .returning(|_, _| Ok(Some(MaybeErased::Whole(created_before()))));
    let created = mocks.create_from(minimal_request(), &["a.pdf"], Some(&attempt())).await.unwrap();
    assert!(created.replayed);
}

#[tokio::test]
async fn order_of_a_test_key_is_a_test_order() {
    let mut test_key = key();
    test_key.key.is_test = true;
    let test_key = Caller::from(test_key);
    let mut mocks = Mocks::default();
    mocks.orders.expect_create().once().returning(|new, _| {
        assert!(new.is_test);
        Ok(OrderId(9))
    });
    let created = mocks.use_case().create(&test_key, request(minimal_request()), None, None).await;
    assert!(created.unwrap().stored.is_test);
}
