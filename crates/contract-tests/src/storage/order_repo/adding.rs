//! Documents that are added to an order.

use domain::{
    api_key::{ClientId, Owner},
    document::DocumentKind,
    idempotency::{AddedRange, Answered, KeyUse},
    order::{OrderId, StoredOrder},
    ports::{NewDocuments, NewOrder, WriteError},
};
use futures_util::future::join_all;
use time::Duration;

use super::found;
use crate::samples::{
    CLIENT, LIVE, MICROSECOND, NOW, Storage, at_once, attempt, claim, create_with_uploads,
    document, idempotency_key, idempotent_request, key_of, key_use, keys_of, new_order,
    record_uploads, stored,
};

/// The instant of the additions.
const LATER: time::OffsetDateTime = NOW.saturating_add(Duration::HOUR);

/// Returns that many new documents for an order of [`CLIENT`], added an hour after [`NOW`].
pub(crate) fn addition(order_id: OrderId, documents: usize) -> NewDocuments {
    let mut documents: Vec<_> = (0..documents).map(|_| document()).collect();
    for document in &mut documents {
        document.created_at = LATER;
    }
    NewDocuments {
        owner: LIVE,
        order_id,
        kind: DocumentKind::ToSign,
        replaces: None,
        documents,
        at: LATER,
        max_documents: 100,
        idempotent_request: None,
        access: None,
    }
}

fn with_key(new: NewDocuments, key: &str) -> NewDocuments {
    let attempt = attempt(&idempotency_key(CLIENT.0, key), 7);
    NewDocuments { idempotent_request: idempotent_request(&attempt, new.at), ..new }
}

pub(crate) async fn add(storage: &Storage, new: &NewDocuments) -> Result<AddedRange, WriteError> {
    record_uploads(storage, &new.documents).await;
    storage.orders.add_documents(new).await
}

/// Checks that nothing was added, and that the uploads are still in the ledger.
async fn assert_not_added(storage: &Storage, new: &NewDocuments, before: Option<StoredOrder>) {
    assert_eq!(found(storage, LIVE, new.order_id).await, before);
    let keys = keys_of(&new.documents);
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
            let mut new = NewDocuments { at, ..addition(id, count) };
            new.documents.iter_mut().for_each(|document| document.created_at = at);
            // The positions follow neither the keys nor the time of recording.
            record_uploads(storage, &new.documents).await;
            new.documents.reverse();
            let range = storage.orders.add_documents(&new).await.unwrap();
            let [first_position, count] =
                [order.documents.len(), count].map(|number| u32::try_from(number).unwrap());
            assert_eq!(range, AddedRange { first_position, count, total: first_position + count });
            assert_eq!(storage.condemn(&keys_of(&new.documents)).await, []);
            order.documents.extend(new.documents);
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
        record_uploads(storage, &new.documents).await;
    }
    let ranges = at_once(additions.iter().cloned().map(|new| {
        let orders = storage.orders.clone();
        async move { orders.add_documents(&new).await.unwrap() }
    }))
    .await;
    for id in ids {
        let order = found(storage, LIVE, id).await.unwrap();
        let mut next = 0;
        let mut own: Vec<_> =
            ranges.iter().zip(&additions).filter(|(_, new)| new.order_id == id).collect();
        own.sort_unstable_by_key(|(range, _)| range.first_position);
        for (range, new) in own {
            assert_eq!(range.first_position, next);
            next = range.total;
            let positions = range.first_position as usize..range.total as usize;
            assert_eq!(order.documents[positions], new.documents);
        }
        assert_eq!(order.documents.len(), next as usize);
    }
}

/// The order can have exactly the maximum.
pub async fn order_takes_no_more_than_the_maximum(storage: &Storage) {
    let order = NewOrder { documents: vec![document(), document()], ..new_order("F-1", NOW) };
    let id = create_with_uploads(storage, &order).await;
    let at_most_5 = |count| NewDocuments { max_documents: 5, ..addition(id, count) };
    let too_many = at_most_5(4);
    let outcome = add(storage, &too_many).await;
    assert!(matches!(outcome, Err(WriteError::TooMany { stored: 2 })), "{outcome:?}");
    assert_not_added(storage, &too_many, Some(stored(id, &order))).await;
    let additions: Vec<_> = (0..10).map(|_| at_most_5(1)).collect();
    let outcomes = join_all(additions.iter().map(|new| add(storage, new))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 3);
    for outcome in outcomes.into_iter().filter_map(Result::err) {
        assert!(matches!(outcome, WriteError::TooMany { stored: 5 }), "{outcome:?}");
    }
    assert_eq!(found(storage, LIVE, id).await.unwrap().documents.len(), 5);
}

/// Orders of other clients, test orders of the client and unknown identifiers are alike.
pub async fn documents_are_added_to_own_orders_only(storage: &Storage) {
    let order = NewOrder { client: ClientId(77), ..new_order("F-1", NOW) };
    let foreign = storage.create(&order).await;
    let test = storage.create(&NewOrder { is_test: true, ..new_order("F-1", NOW) }).await;
    for unknown in [foreign.0, test.0, test.0 + 1, 0, -1, i64::MAX] {
        let new = addition(OrderId(unknown), 1);
        let outcome = add(storage, &new).await;
        assert!(matches!(outcome, Err(WriteError::NoSuchOrder)), "{outcome:?}");
        assert_not_added(storage, &new, None).await;
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
        record_uploads(storage, &new.documents).await;
        let [live, swept] = &new.documents[..] else { unreachable!() };
        storage.condemn(&[key_of(swept)]).await;
        if forget {
            storage.uploads.forget(&[key_of(swept)]).await.unwrap();
        }
        let outcome = storage.orders.add_documents(&new).await;
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
    });
    let key = &request.attempt.claim.key;
    assert_eq!(key_use(claims.claim(&claim(key), LATER, later).await), answered);
    // Also before anything else of the order.
    for order_id in [id, OrderId(0)] {
        let again = with_key(addition(order_id, 200), "key");
        assert_eq!(key_use(storage.orders.add_documents(&again).await), answered);
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
        record_uploads(storage, &new.documents).await;
    }
    let adding = additions.into_iter().map(|new| {
        let orders = storage.orders.clone();
        async move { orders.add_documents(&new).await }
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
    let failed = with_key(NewDocuments { max_documents: 0, ..addition(id, 1) }, key);
    assert!(add(storage, &failed).await.is_err());
    let swept = with_key(addition(id, 1), key);
    assert!(storage.orders.add_documents(&swept).await.is_err());
    add(storage, &with_key(addition(id, 1), key)).await.unwrap();
}
