use std::sync::{Arc, Mutex};

use time::{Duration, OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    api_key::{ApiKey, ClientId, NewApiKey},
    document::DocumentFault,
    idempotency::{Fingerprint, IdempotentRequest, KeyUse},
    order::{Refusal, SigningServiceId, StoredOrder},
    ports::MaybeErased,
    test_support::{Mocks, api_key, attempt, document, infected, received, scan, stored_order},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
const ID: OrderId = OrderId(1);

const ADDITION: Addition = Addition {
    order_id: ID,
    kind: DocumentKind::ToSign,
    replaces: None,
    precondition: OrderPrecondition::NONE,
    access: None,
};

fn new_documents(request: &OrderCommandRequest) -> &NewDocuments {
    let OrderCommand::AddDocuments(new) = &request.command else { panic!("{request:?}") };
    new
}

#[expect(clippy::unnecessary_wraps, reason = "the answer of the store")]
fn added_at(range: AddedRange) -> Result<Changed, WriteError> {
    Ok(Changed::DocumentsAdded(range))
}

/// Returns the order with that many documents.
fn order(documents: usize) -> StoredOrder {
    let created_at = NOW - Duration::HOUR;
    let document = |number: usize| document(&format!("k{number}"), created_at);
    StoredOrder { documents: (0..documents).map(document).collect(), ..stored_order(created_at) }
}

/// The owner of the order.
const OWNER: Owner = Owner::client(ClientId(1), false);

/// Returns mocks with the order, which its owner finds.
fn mocks(documents: usize) -> Mocks {
    let mut mocks = Mocks::default();
    mocks.reader.expect_with_documents().returning(move |owner, id| {
        assert_eq!((owner.party, id), (OWNER.party, ID));
        Ok((owner == OWNER).then(|| MaybeErased::Whole(order(documents))))
    });
    mocks
}

fn claims(mocks: &mut Mocks, outcome: impl Fn() -> Result<(), WriteError> + Send + 'static) {
    mocks.idempotency.expect_claim().returning(move |_, _, _| outcome());
}

async fn add(mocks: Mocks, names: &[&str], key: bool) -> Result<AddedDocuments, OrderError> {
    let documents = names.iter().map(|name| received(name)).collect();
    let attempt = key.then(attempt);
    AddDocuments { intake: mocks.intake(NOW) }
        .add(&api_key().into(), &ADDITION, documents, attempt.as_ref())
        .await
}

fn answered(added: Option<AddedRange>) -> Answered {
    Answered { fingerprint: attempt().fingerprint, order_id: ID, added, changed_at: None }
}

#[tokio::test]
async fn documents_are_recorded_put_and_added() {
    let mut mocks = mocks(2);
    claims(&mut mocks, || Ok(()));
    let keys = Arc::new(Mutex::new(Vec::new()));
    let (recorded, put) = (Arc::clone(&keys), Arc::clone(&keys));
    mocks.uploads.expect_record_for().once().returning(move |party, order, keys, _| {
        assert_eq!((party, order), (OWNER.party, ID));
        recorded.lock().unwrap().extend_from_slice(keys);
        Ok(true)
    });
    mocks.blobs.expect_put().times(2).returning(move |key, _| {
        assert!(put.lock().unwrap().contains(key));
        Ok(())
    });
    mocks.orders.expect_change().once().returning(move |request| {
        let new = new_documents(request);
        let added: Vec<_> =
            new.documents.iter().filter_map(|document| document.key.clone()).collect();
        assert_eq!(added, *keys.lock().unwrap());
        assert!(new.documents.iter().all(|document| document.created_at == NOW));
        assert_eq!((request.owner, request.order, request.at), (Some(OWNER), ID, NOW));
        let kept_until = NOW + Duration::DAY;
        let stored = IdempotentRequest { attempt: attempt(), kept_until };
        assert_eq!(request.idempotent_request, Some(stored));
        added_at(AddedRange { first_position: 2, count: 2, total: 4 })
    });
    let added = add(mocks, &["a.pdf", "b.pdf"], true).await.unwrap();
    let names: Vec<_> = added.documents.iter().map(|document| &*document.name).collect();
    assert_eq!((added.range.total, added.replayed, names), (4, false, vec!["a.pdf", "b.pdf"]));
}

#[tokio::test]
async fn unacceptable_documents_store_nothing() {
    for (names, faults) in [
        (&["a.pdf", "b.exe"][..], vec![(1, DocumentFault::UnsupportedExtension)]),
        (&[][..], vec![]),
    ] {
        let error = add(Mocks::default(), names, true).await.unwrap_err();
        let OrderError::Rejected(rejection) = error else { panic!("{error}") };
        assert_eq!((rejection.no_documents, rejection.documents), (names.is_empty(), faults));
    }
}

#[tokio::test]
async fn order_that_cannot_take_documents_stores_nothing() {
    let error = add(mocks(99), &["a.pdf", "b.pdf"], false).await.unwrap_err();
    assert!(matches!(error, OrderError::TooMany { stored: 99 }), "{error}");
    for (found, expected) in [(None, "no such order"), (Some(MaybeErased::Erased), "erased")] {
        let mut mocks = Mocks::default();
        mocks.reader.expect_with_documents().times(2).returning(move |_, _| Ok(found.clone()));
        let adding = AddDocuments { intake: mocks.intake(NOW) };
        for error in [
            adding.intake.order(&api_key().into(), ID).await.unwrap_err(),
            adding
                .add(&api_key().into(), &ADDITION, vec![received("a.pdf")], None)
                .await
                .unwrap_err(),
        ] {
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}

/// An erasure that found no upload in progress does not wait for this one.
#[tokio::test]
async fn nothing_is_put_for_an_order_that_was_erased_meanwhile() {
    let mut mocks = mocks(0);
    mocks.uploads.expect_record_for().once().returning(|_, _, _, _| Ok(false));
    let error = add(mocks, &["a.pdf"], false).await.unwrap_err();
    assert!(matches!(error, OrderError::Erased), "{error}");
}

#[tokio::test]
async fn infected_documents_are_not_added() {
    let mut mocks = Mocks { scan: Some(scan(false, || Ok(infected()))), ..mocks(0) };
    mocks.expect_uploads_removed(2);
    let error = add(mocks, &["a.pdf", "b.pdf"], false).await.unwrap_err();
    let OrderError::Rejected(rejection) = error else { panic!("{error}") };
    assert_eq!(rejection.documents, [(0, DocumentFault::Infected), (1, DocumentFault::Infected)]);
}

/// The rules of creating hold for adding.
#[tokio::test]
async fn key_adds_only_to_orders_that_it_could_create() {
    let bound = |service| NewApiKey { signing_service: service, ..api_key().key };
    let test = NewApiKey { is_test: true, ..api_key().key };
    for (key, expected) in [
        (bound(None), "Ok"),
        (bound(Some(SigningServiceId(42))), "Ok"),
        (bound(Some(SigningServiceId(99))), "Forbidden"),
        (test.clone(), "NoSuchOrder"),
        (NewApiKey { signing_service: Some(SigningServiceId(99)), ..test }, "NoSuchOrder"),
    ] {
        let key = Caller::from(ApiKey { key, ..api_key() });
        let checked = mocks(0).intake(NOW).order(&key, ID).await;
        assert!(format!("{checked:?}").contains(expected), "{checked:?}");
        if checked.is_err() {
            // Nothing is recorded or put.
            let adding = AddDocuments { intake: mocks(0).intake(NOW) };
            let added = adding.add(&key, &ADDITION, vec![received("a.pdf")], None).await;
            assert!(format!("{added:?}").contains(expected), "{added:?}");
        }
    }
}

#[tokio::test]
async fn full_order_takes_no_more_but_one_less_does() {
    let mut mocks = mocks(99);
    mocks.uploads.expect_record_for().returning(|_, _, _, _| Ok(true));
    mocks.blobs.expect_put().returning(|_, _| Ok(()));
    let range = AddedRange { first_position: 99, count: 1, total: 100 };
    mocks.orders.expect_change().once().returning(move |_| added_at(range));
    assert_eq!(add(mocks, &["a.pdf"], false).await.unwrap().range, range);
}

#[tokio::test]
async fn objects_of_a_failed_addition_are_removed() {
    type Fail = fn() -> WriteError;
    let cases: [(Fail, &str); 5] = [
        (|| Refusal::NoSuchOrder.into(), "no such order"),
        (|| Refusal::Erased.into(), "erased"),
        (|| Refusal::TooMany { stored: 100 }.into(), "too many"),
        (|| WriteError::Unavailable("down".into()), "the store is unavailable"),
        (|| WriteError::Internal("odd".into()), "the store failed"),
    ];
    for (fail, expected) in cases {
        let mut mocks = mocks(0);
        mocks.expect_uploads_removed(1);
        mocks.blobs.expect_put().returning(|_, _| Ok(()));
        mocks.orders.expect_change().once().returning(move |_| Err(fail()));
        let error = add(mocks, &["a.pdf"], false).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn repeat_returns_the_documents_of_the_first_request() {
    let range = AddedRange { first_position: 1, count: 2, total: 3 };
    for at_commit in [false, true] {
        // The order has got further documents since.
        let mut mocks = mocks(5);
        let key_use = KeyUse::Answered(answered(Some(range)));
        if at_commit {
            mocks.expect_uploads_removed(1);
            mocks.blobs.expect_put().returning(|_, _| Ok(()));
            claims(&mut mocks, || Ok(()));
            let fail = move |_: &OrderCommandRequest| Err(WriteError::KeyInUse(key_use));
            mocks.orders.expect_change().once().returning(fail);
        } else {
            claims(&mut mocks, move || Err(WriteError::KeyInUse(key_use)));
        }
        let added = add(mocks, &["a.pdf"], true).await.unwrap();
        assert_eq!((added.range, added.replayed), (range, true));
        assert_eq!(added.documents, order(5).documents[1..3]);
    }
}

#[tokio::test]
async fn key_of_another_request_is_rejected() {
    let range = Some(AddedRange { first_position: 0, count: 1, total: 1 });
    for other in [
        Answered { fingerprint: Fingerprint([9; 32]), ..answered(range) },
        Answered { order_id: OrderId(2), ..answered(range) },
        answered(None),
    ] {
        let mut mocks = Mocks::default();
        claims(&mut mocks, move || Err(WriteError::KeyInUse(KeyUse::Answered(other))));
        let error = add(mocks, &["a.pdf"], true).await.unwrap_err();
        assert!(matches!(error, OrderError::KeyReused), "{error}");
    }
}

/// A blank one is none, and the other faults are reported with it.
#[tokio::test]
async fn replaced_document_must_be_a_current_one_for_one_document() {
    let with = async |documents: usize, replaces: &str, names: &[&str]| {
        let mut mocks = Mocks::default();
        mocks.reader.expect_with_documents().returning(move |_, _| {
            let mut order = order(documents);
            order.documents[0].key = None;
            order.documents[1].replaced_by = Some(2);
            Ok(Some(MaybeErased::Whole(order)))
        });
        mocks.uploads.expect_record_for().returning(|_, _, _, _| Ok(true));
        mocks.blobs.expect_put().returning(|_, _| Ok(()));
        let range = AddedRange { first_position: 3, count: 1, total: 3 };
        mocks.orders.expect_change().returning(move |request| {
            assert!(new_documents(request).replaces.is_none_or(|position| position == 2));
            added_at(range)
        });
        let addition = Addition { replaces: Some(replaces.to_owned()), ..ADDITION };
        let documents = names.iter().map(|name| received(name)).collect();
        let adding = AddDocuments { intake: mocks.intake(NOW) };
        adding.add(&api_key().into(), &addition, documents, None).await
    };
    for (replaces, replaced) in [(" 2 ", Some(2)), ("02", Some(2)), ("  ", None)] {
        assert_eq!(with(3, replaces, &["a.pdf"]).await.unwrap().replaces, replaced);
    }
    for (replaces, names, code, documents) in [
        ("0", &["a.pdf"][..], ViolationCode::NotReplaceable, 0),
        ("1", &["a.pdf"], ViolationCode::NotReplaceable, 0),
        ("3", &["a.pdf"], ViolationCode::NotReplaceable, 0),
        ("3", &["a.exe"], ViolationCode::NotReplaceable, 1),
        ("+2", &["a.pdf"], ViolationCode::InvalidFormat, 0),
        ("4294967296", &["a.pdf"], ViolationCode::InvalidFormat, 0),
        ("two", &["a.exe"], ViolationCode::InvalidFormat, 1),
        ("2", &["a.pdf", "b.pdf"], ViolationCode::NotAllowed, 0),
    ] {
        let error = with(3, replaces, names).await.unwrap_err();
        let OrderError::Rejected(rejection) = error else { panic!("{error}") };
        let [violation] = &rejection.violations[..] else { panic!("{rejection:?}") };
        assert_eq!((&*violation.pointer, violation.code), ("/replaces", code), "{replaces}");
        assert_eq!(rejection.documents.len(), documents);
    }
}
