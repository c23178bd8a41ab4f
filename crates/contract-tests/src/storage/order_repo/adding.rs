//! Documents that are added to an order.

use domain::{
    api_key::{ClientId, Owner},
    document::{DocumentKind, MAX_DOCUMENTS_PER_ORDER, StoredDocument},
    idempotency::{AddedRange, Answered, KeyUse},
    order::{OrderCommand, OrderId, Refusal, StoredOrder, change::NewDocuments},
    ports::{Changed, NewOrder, OrderCommandRequest, OrderRepo, WriteError},
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use super::found;
use crate::samples::{
    CLIENT, LIVE, MICROSECOND, NOW, Storage, add_documents, at_once, attempt, claim,
    create_with_uploads, document, idempotency_key, idempotent_request, key_of, key_use, keys_of,
    new_order, record_uploads, stored,
};

/// The instant of the additions.
const LATER: OffsetDateTime = NOW.saturating_add(Duration::HOUR);

/// Returns that many new documents for an order of [`CLIENT`], added an hour after [`NOW`].
pub(crate) fn addition(order: OrderId, documents: usize) -> OrderCommandRequest {
    addition_at(order, documents, LATER)
}

/// Returns such an addition at an instant.
pub(crate) fn addition_at(
    order: OrderId,
    documents: usize,
    at: OffsetDateTime,
) -> OrderCommandRequest {
    let new = || StoredDocument { created_at: at, ..document() };
    let documents = (0..documents).map(|_| new()).collect();
    OrderCommandRequest { at, ..add_documents(order, DocumentKind::ToSign, documents) }
}

/// Returns the documents of an addition.
pub(crate) fn added(request: &OrderCommandRequest) -> &NewDocuments {
    let OrderCommand::AddDocuments(new) = &request.command else { panic!("{request:?}") };
    new
}

fn with_key(new: OrderCommandRequest, key: &str) -> OrderCommandRequest {
    let attempt = attempt(&idempotency_key(CLIENT.0, key), 7);
    OrderCommandRequest { idempotent_request: idempotent_request(&attempt, new.at), ..new }
}

/// Records the uploads of an addition, and adds the documents.
pub(crate) async fn add(
    storage: &Storage,
    new: &OrderCommandRequest,
) -> Result<AddedRange, WriteError> {
    record_uploads(storage, &added(new).documents).await;
    add_recorded(&*storage.orders, new).await
}

async fn add_recorded(
    orders: &dyn OrderRepo,
    new: &OrderCommandRequest,
) -> Result<AddedRange, WriteError> {
    match orders.change(new).await? {
        Changed::DocumentsAdded(range) => Ok(range),
        other => panic!("{other:?}"),
    }
}

/// Checks that nothing was added, and that the uploads are still in the ledger.
async fn assert_not_added(storage: &Storage, new: &OrderCommandRequest) {
    assert_eq!(found(storage, LIVE, new.order).await, None);
    let keys = keys_of(&added(new).documents);
    let left = storage.condemn(&keys).await;
    assert_eq!(left.len(), keys.len(), "the uploads stay in the ledger");
}

/// They have the instant of the addition, and so has the order's last change. Their uploads leave
/// the ledger. Covers an order without documents.
pub async fn added_documents_follow_the_others(storage: &Storage) {
    for documents in [vec![], vec![document()]] {
        let file_number = format!("F-{}", documents.len());
        let mut order = NewOrder { documents, ..new_order(&file_number, NOW) };
        let id = create_with_uploads(storage, &order).await;
        let before = order.documents.len();
        let instants = [LATER - MICROSECOND, LATER];
        for (count, at) in [3, 1].into_iter().zip(instants) {
            // The positions follow neither the keys nor the time of recording.
            let new = addition_at(id, count, at);
            let mut documents = added(&new).documents.clone();
            record_uploads(storage, &documents).await;
            documents.reverse();
            let kind = DocumentKind::ToSign;
            let new = OrderCommandRequest { at, ..add_documents(id, kind, documents.clone()) };
            let range = add_recorded(&*storage.orders, &new).await.unwrap();
            let [first_position, count] =
                [order.documents.len(), count].map(|number| u32::try_from(number).unwrap());
            assert_eq!(range, AddedRange { first_position, count, total: first_position + count });
            assert_eq!(storage.condemn(&keys_of(&documents)).await, []);
            order.documents.extend(documents);
        }
        let documents = order.documents.clone();
        let expected = StoredOrder { documents, updated_at: LATER, ..stored(id, &order) };
        let order = found(storage, LIVE, id).await.unwrap();
        assert_eq!(order, expected);
        assert_eq!(order.as_created().documents.len(), before);
    }
}

/// Nor do they leave one out.
pub async fn concurrent_additions_never_share_a_position(storage: &Storage) {
    // Orders without documents.
    let ids = storage.create_all(["F-1", "F-2"]).await;
    let additions: Vec<_> =
        (0..24).map(|number| addition(ids[number % 2], 1 + number % 3)).collect();
    for new in &additions {
        record_uploads(storage, &added(new).documents).await;
    }
    let ranges = at_once(additions.iter().cloned().map(|new| {
        let orders = storage.orders.clone();
        async move { add_recorded(&*orders, &new).await.unwrap() }
    }))
    .await;
    for id in ids {
        let order = found(storage, LIVE, id).await.unwrap();
        let mut next = 0;
        let mut own: Vec<_> =
            ranges.iter().zip(&additions).filter(|(_, new)| new.order == id).collect();
        own.sort_unstable_by_key(|(range, _)| range.first_position);
        for (range, new) in own {
            assert_eq!(range.first_position, next);
            next = range.total;
            let positions = range.first_position as usize..range.total as usize;
            assert_eq!(order.documents[positions], added(new).documents);
        }
        assert_eq!(order.documents.len(), next as usize);
    }
}

/// Each of concurrent additions counts those before it.
pub async fn concurrent_additions_do_not_pass_the_greatest_number(storage: &Storage) {
    let documents = (2..MAX_DOCUMENTS_PER_ORDER).map(|_| document()).collect();
    let order = NewOrder { documents, ..new_order("F-1", NOW) };
    let id = create_with_uploads(storage, &order).await;
    let additions: Vec<_> = (0..5).map(|_| addition(id, 1)).collect();
    let outcomes = join_all(additions.iter().map(|new| add(storage, new))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 2);
    let full = Refusal::TooMany { stored: MAX_DOCUMENTS_PER_ORDER };
    for outcome in outcomes.into_iter().filter_map(Result::err) {
        assert!(matches!(outcome, WriteError::Refused(it) if it == full), "{outcome:?}");
    }
    let order = found(storage, LIVE, id).await.unwrap();
    assert_eq!(order.documents.len(), MAX_DOCUMENTS_PER_ORDER);
}

/// Orders of other clients, test orders of the client and unknown identifiers are alike.
pub async fn documents_are_added_to_own_orders_only(storage: &Storage) {
    let order = NewOrder { client: ClientId(77), ..new_order("F-1", NOW) };
    let foreign = storage.create(&order).await;
    let test = storage.create(&NewOrder { is_test: true, ..new_order("F-1", NOW) }).await;
    for unknown in [foreign.0, test.0, test.0 + 1, 0, -1, i64::MAX] {
        let new = addition(OrderId(unknown), 1);
        let outcome = add(storage, &new).await;
        assert!(matches!(outcome, Err(WriteError::Refused(Refusal::NoSuchOrder))), "{outcome:?}");
        assert_not_added(storage, &new).await;
    }
    let owner = Owner::client(order.client, false);
    assert_eq!(found(storage, owner, foreign).await, Some(stored(foreign, &order)));
}

/// Nothing is stored, and other uploads stay in the ledger. Covers a condemned upload, and one
/// that was forgotten.
pub async fn addition_with_swept_upload_is_rejected(storage: &Storage) {
    let order = new_order("F-1", NOW);
    let id = storage.create(&order).await;
    for forget in [false, true] {
        let new = addition(id, 2);
        record_uploads(storage, &added(&new).documents).await;
        let [live, swept] = &added(&new).documents[..] else { unreachable!() };
        storage.condemn(&[key_of(swept)]).await;
        if forget {
            storage.uploads.forget(&[key_of(swept)]).await.unwrap();
        }
        let outcome = storage.orders.change(&new).await;
        assert!(matches!(outcome, Err(WriteError::UploadSwept)), "{outcome:?}");
        assert_eq!(found(storage, LIVE, id).await, Some(stored(id, &order)));
        let left = storage.condemn(&[key_of(live)]).await;
        assert_eq!(left, &[key_of(live)]);
    }
}

/// The key then stands for the positions, even after further documents.
pub async fn addition_is_stored_under_its_key(storage: &Storage) {
    let order = NewOrder { documents: vec![document()], ..new_order("F-1", NOW) };
    let id = create_with_uploads(storage, &order).await;
    let new = with_key(addition(id, 2), "key");
    let request = new.idempotent_request.clone().unwrap();
    // The request has claimed its key before.
    let (claims, later) = (&storage.idempotency, LATER + Duration::MINUTE);
    claims.claim(&request.attempt.claim, LATER, later).await.unwrap();
    let range = add(storage, &new).await.unwrap();
    add(storage, &addition(id, 1)).await.unwrap();
    let answered = KeyUse::Answered(Answered {
        fingerprint: request.attempt.fingerprint,
        order_id: id,
        added: Some(range),
        changed_at: None,
    });
    let key = &request.attempt.claim.key;
    assert_eq!(key_use(claims.claim(&claim(key), LATER, later).await), answered);
    // Also before anything else of the order.
    for order_id in [id, OrderId(0)] {
        let again = with_key(addition(order_id, 200), "key");
        assert_eq!(key_use(storage.orders.change(&again).await), answered);
    }
    assert_eq!(found(storage, LIVE, id).await.unwrap().documents.len(), 4);
    let kept_until = request.kept_until;
    claims.claim(&claim(key), kept_until, kept_until + Duration::MINUTE).await.unwrap();
}

/// The others learn of it.
pub async fn one_of_concurrent_additions_with_one_key_is_stored(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let additions: Vec<_> = (0..12).map(|_| with_key(addition(id, 1), "key")).collect();
    for new in &additions {
        record_uploads(storage, &added(new).documents).await;
    }
    let adding = additions.into_iter().map(|new| {
        let orders = storage.orders.clone();
        async move { add_recorded(&*orders, &new).await }
    });
    let range = AddedRange { first_position: 0, count: 1, total: 1 };
    let outcomes = at_once(adding).await;
    assert_eq!(outcomes.iter().flatten().collect::<Vec<_>>(), [&range]);
    for outcome in outcomes.into_iter().filter(Result::is_err) {
        let KeyUse::Answered(answered) = key_use(outcome) else { panic!("not answered") };
        assert_eq!((answered.order_id, answered.added), (id, Some(range)));
    }
    assert_eq!(found(storage, LIVE, id).await.unwrap().documents.len(), 1);
}

/// A failed addition does not use its key.
pub async fn failed_addition_leaves_its_key_free(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let key = "key";
    let refused = with_key(addition(OrderId(id.0 + 1), 1), key);
    assert!(add(storage, &refused).await.is_err());
    let swept = with_key(addition(id, 1), key);
    assert!(storage.orders.change(&swept).await.is_err());
    add(storage, &with_key(addition(id, 1), key)).await.unwrap();
}
