//! Signed documents, and documents that are replaced, withdrawn and downloaded.

use domain::{
    api_key::{ClientId, Owner, Party},
    document::{DocumentCounts, DocumentKind, ObjectKey, StoredDocument},
    order::{
        Actor, ChangeKind, DocumentId, OrderChange, OrderCommand, OrderId, Refusal,
        SigningServiceId, StoredOrder, change::NewDocuments,
    },
    ports::{Changed, Download, NewOrder, OrderCommandRequest, WriteError},
    webhook::{EventChange, EventType},
};
use futures_util::future::join_all;
use time::{Duration, OffsetDateTime};

use super::{
    adding::{add, added, addition},
    found,
};
use crate::samples::{
    self, LIVE, MICROSECOND, NOW, Storage, create_with_uploads, document, key_of, new_order,
    to_sign,
};

const SERVICE: Owner = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };

async fn order_of(storage: &Storage, id: OrderId) -> StoredOrder {
    found(storage, LIVE, id).await.unwrap()
}

/// Creates an order with that many documents.
async fn create(storage: &Storage, documents: usize) -> OrderId {
    create_with(storage, (0..documents).map(|_| document()).collect()).await
}

async fn create_with(storage: &Storage, documents: Vec<StoredDocument>) -> OrderId {
    create_with_uploads(storage, &NewOrder { documents, ..new_order("F-1", NOW) }).await
}

fn signed(order: OrderId, documents: usize) -> OrderCommandRequest {
    let new = addition(order, documents);
    let new = NewDocuments { kind: DocumentKind::Signed, ..added(&new).clone() };
    let command = OrderCommand::AddDocuments(new);
    OrderCommandRequest { owner: Some(SERVICE), command, ..addition(order, 0) }
}

fn replacement(order: OrderId, position: u32) -> OrderCommandRequest {
    let new = addition(order, 1);
    let documents = NewDocuments { replaces: Some(position), ..added(&new).clone() };
    OrderCommandRequest { command: OrderCommand::AddDocuments(documents), ..new }
}

fn withdrawal(document: DocumentId, at: OffsetDateTime) -> OrderCommandRequest {
    OrderCommandRequest { at, ..samples::withdraw(document) }
}

/// Withdraws a document, and returns its condemned key.
async fn withdraw(storage: &Storage, withdrawal: &OrderCommandRequest) -> Vec<ObjectKey> {
    match storage.orders.change(withdrawal).await.unwrap() {
        Changed::DocumentsWithdrawn(condemned) => condemned,
        other => panic!("{other:?}"),
    }
}

/// Returns what the newest event of an order tells.
async fn newest_event(storage: &Storage, id: OrderId) -> (EventType, Option<EventChange>) {
    let events = storage.outbox.events(NOW + 400 * Duration::DAY, 10_000).await.unwrap();
    let newest = events.into_iter().rfind(|event| event.order_id == id).unwrap();
    (newest.event, newest.change)
}

fn documents(documents: &[u32], actor: Actor) -> EventChange {
    EventChange::Documents { documents: documents.to_vec(), actor }
}

/// Returns the kinds and the actors of the entries of the history.
fn entries(order: &StoredOrder) -> Vec<(ChangeKind, Actor)> {
    let entry = |OrderChange { kind, actor, .. }: &OrderChange| (kind.clone(), *actor);
    order.changes.iter().map(entry).collect()
}

/// Each addition has an entry in the history, and an event.
pub async fn signed_documents_have_positions_of_their_own(storage: &Storage) {
    let id = create(storage, 2).await;
    let (first, second) = (signed(id, 2), signed(id, 1));
    for (new, first_position, total) in [(&first, 0, 2), (&second, 2, 3)] {
        let range = add(storage, new).await.unwrap();
        assert_eq!((range.first_position, range.total), (first_position, total));
    }
    add(storage, &addition(id, 1)).await.unwrap();
    let order = order_of(storage, id).await;
    assert_eq!(
        order.signed_documents,
        [&added(&first).documents[..], &added(&second).documents].concat()
    );
    assert_eq!(order.documents.len(), 3);
    let entry = |positions| (ChangeKind::SignedDocumentsAdded(positions), Actor::Service);
    assert_eq!(entries(&order), [entry(vec![0, 1]), entry(vec![2])]);
    let events = storage.outbox.events(NOW + 400 * Duration::DAY, 10).await.unwrap();
    let event = events.iter().find(|event| event.event == EventType::SignedDocumentsAdded);
    assert_eq!(event.unwrap().change, Some(documents(&[0, 1], Actor::Service)));
    let listed = storage.reader.listed(LIVE, id).await.unwrap().unwrap().whole().unwrap();
    assert_eq!((listed.counts.documents, listed.counts.signed), (3, 3));
    for (kind, expected) in
        [(DocumentKind::ToSign, &order.documents), (DocumentKind::Signed, &order.signed_documents)]
    {
        let document = DocumentId { order: id, kind, position: 2 };
        let read = storage.reader.document(SERVICE, document).await.unwrap().unwrap();
        assert_eq!(read.whole().as_ref(), expected.get(2));
    }
}

/// The new one is stored behind the others. Lists count what is fetched of the documents in force.
pub async fn replaced_document_keeps_its_place(storage: &Storage) {
    let id = create(storage, 2).await;
    let before = order_of(storage, id).await;
    let range = add(storage, &replacement(id, 1)).await.unwrap();
    assert_eq!((range.first_position, range.total), (2, 3));
    let order = order_of(storage, id).await;
    let replaced_by: Vec<_> = order.documents.iter().map(|it| it.replaced_by).collect();
    assert_eq!(replaced_by, [None, Some(2), None]);
    assert_eq!(order.documents[1].key, before.documents[1].key);
    assert_eq!(entries(&order), [(ChangeKind::DocumentsReplaced(vec![2]), Actor::Client)]);
    let told = (EventType::DocumentsReplaced, Some(documents(&[2], Actor::Client)));
    assert_eq!(newest_event(storage, id).await, told);
    for (position, fetched, unfetched) in [(1, 0, 2), (2, 1, 1)] {
        let download = Download { document: to_sign(id, position), at: NOW };
        storage.orders.note_downloads(&[download]).await.unwrap();
        let listed = storage.reader.listed(LIVE, id).await.unwrap().unwrap().whole().unwrap();
        let counts = DocumentCounts { documents: 3, fetched, unfetched, signed: 0 };
        assert_eq!(listed.counts, counts, "after the download of {position}");
    }
}

/// The others find it replaced.
pub async fn one_of_concurrent_replacements_of_a_document_is_stored(storage: &Storage) {
    let id = create(storage, 2).await;
    let replacing: Vec<_> = (0..6).map(|_| replacement(id, 1)).collect();
    let outcomes = join_all(replacing.iter().map(|new| add(storage, new))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    for outcome in outcomes.into_iter().filter_map(Result::err) {
        let expected = matches!(outcome, WriteError::Refused(Refusal::NotReplaceable));
        assert!(expected, "{outcome:?}");
    }
    assert_eq!(order_of(storage, id).await.documents.len(), 3);
}

/// It loses its names and its key, which is returned until it is forgotten. Later documents keep their
/// positions.
pub async fn withdrawn_document_keeps_its_record(storage: &Storage) {
    let id = create(storage, 2).await;
    let before = order_of(storage, id).await;
    let key = key_of(&before.documents[0]);
    for at in [NOW, NOW + Duration::MINUTE] {
        let condemned = withdraw(storage, &withdrawal(to_sign(id, 0), at)).await;
        assert_eq!(condemned, std::slice::from_ref(&key));
    }
    // The object of one document that cannot be deleted is not that of another.
    let other = create_with_uploads(
        storage,
        &NewOrder { documents: vec![document(), document()], ..new_order("F-2", NOW) },
    )
    .await;
    let kept = withdraw(storage, &withdrawal(to_sign(other, 0), NOW)).await;
    let next = withdraw(storage, &withdrawal(to_sign(other, 1), NOW)).await;
    assert!(kept.len() == 1 && next.len() == 1 && kept != next, "{kept:?} {next:?}");
    // Nor does the erasure of its order wait for it.
    samples::condemned(storage.admin.erase(other, NOW, None).await.unwrap());
    assert_eq!(storage.admin.remove_mails(&[], NOW).await.unwrap(), 0);
    storage.uploads.forget(&[key]).await.unwrap();
    assert_eq!(withdraw(storage, &withdrawal(to_sign(id, 0), NOW)).await, []);
    let order = order_of(storage, id).await;
    let (withdrawn, old) = (&order.documents[0], &before.documents[0]);
    assert_eq!((&withdrawn.key, withdrawn.withdrawn_at), (&None, Some(order.updated_at)));
    assert_eq!((&*withdrawn.name, &*withdrawn.name_as_sent), ("document.pdf", ""));
    assert_eq!((withdrawn.size, withdrawn.sha256), (old.size, old.sha256));
    assert_eq!(order.documents[1], before.documents[1]);
    assert_eq!(order.updated_at, before.updated_at + MICROSECOND);
    assert_eq!(entries(&order), [(ChangeKind::Withdrawn(vec![0]), Actor::Client)]);
    let told = (EventType::DocumentWithdrawn, Some(documents(&[0], Actor::Client)));
    assert_eq!(newest_event(storage, id).await, told);
    let listed = storage.reader.listed(LIVE, id).await.unwrap().unwrap().whole().unwrap();
    assert_eq!(listed.counts.documents, 1);
    let range = add(storage, &addition(id, 1)).await.unwrap();
    assert_eq!((range.first_position, range.total), (2, 2));
    let document = DocumentId { order: id, kind: DocumentKind::Signed, position: 0 };
    add(storage, &signed(id, 1)).await.unwrap();
    let own = OrderCommandRequest { owner: Some(SERVICE), ..withdrawal(document, NOW) };
    assert_eq!(withdraw(storage, &own).await.len(), 1);
    let order = order_of(storage, id).await;
    assert_eq!(entries(&order)[2], (ChangeKind::Withdrawn(vec![0]), Actor::Service));
    let condemned = samples::condemned(storage.admin.erase(id, NOW, None).await.unwrap());
    assert_eq!(condemned.len(), 2, "those of the documents that were left");
}

/// Nor one that is not there, nor one of an erased order.
pub async fn document_of_another_owner_is_not_withdrawn(storage: &Storage) {
    let id = create(storage, 1).await;
    let before = order_of(storage, id).await;
    let own = withdrawal(to_sign(id, 0), NOW);
    let service = |number| Party::Service(SigningServiceId(number));
    let of = |owner| OrderCommandRequest { owner: Some(owner), ..own.clone() };
    for other in [
        of(Owner::client(ClientId(99), false)),
        of(Owner { is_test: true, ..LIVE }),
        of(Owner { party: service(43), is_test: false }),
        withdrawal(to_sign(id, 1), NOW),
        withdrawal(to_sign(OrderId(id.0 + 1), 0), NOW),
        withdrawal(DocumentId { kind: DocumentKind::Signed, ..to_sign(id, 0) }, NOW),
    ] {
        let outcome = storage.orders.change(&other).await;
        assert!(matches!(outcome, Err(WriteError::Refused(Refusal::NoSuchOrder))), "{outcome:?}");
    }
    assert_eq!(order_of(storage, id).await, before);
    storage.admin.erase(id, NOW, None).await.unwrap();
    let outcome = storage.orders.change(&own).await;
    assert!(matches!(outcome, Err(WriteError::Refused(Refusal::Erased))), "{outcome:?}");
}

/// It leaves the version of the order. Those of unknown documents and of erased orders are left out.
pub async fn first_download_is_kept(storage: &Storage) {
    let id = create(storage, 2).await;
    let erased = storage.create(&new_order("F-2", NOW)).await;
    storage.admin.erase(erased, NOW, None).await.unwrap();
    let download = |order, position, at| Download { document: to_sign(order, position), at };
    let later = NOW + Duration::MINUTE;
    for downloads in [
        vec![download(id, 0, NOW - MICROSECOND), download(id, 7, NOW), download(erased, 0, NOW)],
        vec![download(id, 0, later), download(OrderId(erased.0 + 1), 0, NOW)],
    ] {
        storage.orders.note_downloads(&downloads).await.unwrap();
        let order = order_of(storage, id).await;
        let first: Vec<_> = order.documents.iter().map(|it| it.first_downloaded_at).collect();
        assert_eq!(first, [Some(NOW - MICROSECOND), None]);
        assert_eq!((order.updated_at, order.touched_at), (NOW, Some(NOW - MICROSECOND)));
        assert_eq!(order.changes, []);
    }
    storage.orders.note_downloads(&[download(id, 1, later)]).await.unwrap();
    assert_eq!(order_of(storage, id).await.touched_at, Some(later));
    // Another instance stores later what it has seen earlier.
    storage.orders.note_downloads(&[download(id, 1, NOW)]).await.unwrap();
    let order = order_of(storage, id).await;
    assert_eq!(order.documents[1].first_downloaded_at, Some(NOW));
    assert_eq!((order.updated_at, order.touched_at), (NOW, Some(later + MICROSECOND)));
}

/// Each instance stores the downloads that it has seen, in any order.
pub async fn earliest_of_concurrent_downloads_is_the_first(storage: &Storage) {
    let id = create(storage, 2).await;
    let batches = [7, 3, 9, 1, 8, 2, 6, 4, 5].map(|number: i32| {
        let orders = storage.orders.clone();
        let at = |number: i32| NOW + number * MICROSECOND;
        let downloads = [(0, number), (1, 10 - number)];
        let downloads = downloads
            .map(|(position, number)| Download { document: to_sign(id, position), at: at(number) });
        async move { orders.note_downloads(&downloads).await.unwrap() }
    });
    samples::at_once(batches).await;
    let order = order_of(storage, id).await;
    let first: Vec<_> = order.documents.iter().map(|it| it.first_downloaded_at).collect();
    assert_eq!(first, [Some(NOW + MICROSECOND); 2]);
}

/// A version before it stored none. The order keeps its version, and so its tag.
pub async fn late_crc32_is_kept(storage: &Storage) {
    let documents = vec![StoredDocument { crc32: None, ..document() }, document()];
    let id = create_with(storage, documents).await;
    let before = order_of(storage, id).await;
    let crc32 = |order: &StoredOrder| order.documents.iter().map(|it| it.crc32).collect::<Vec<_>>();
    assert_eq!(crc32(&before), [None, Some(u32::MAX)]);
    let erased = storage.create(&new_order("F-2", NOW)).await;
    storage.admin.erase(erased, NOW, None).await.unwrap();
    for document in [to_sign(id, 0), to_sign(id, 7), to_sign(erased, 0)] {
        storage.orders.store_crc32(document, 7).await.unwrap();
    }
    let after = order_of(storage, id).await;
    assert_eq!(
        (crc32(&after), after.updated_at),
        (vec![Some(7), Some(u32::MAX)], before.updated_at)
    );
}
