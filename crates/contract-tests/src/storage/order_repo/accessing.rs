//! Accesses that are stored with the changes that they make.

use domain::{
    access::{Access, AccessActor, AccessKind},
    api_key::{ClientId, Owner, Party},
    document::DocumentKind,
    order::{OrderId, SigningServiceId},
    ports::{
        AccessFilter, NewDocuments, NewNote, NewOrder, OrderAmendment, OrderUpdate, Withdrawal,
        WriteError,
    },
};

use super::{addition, amending::amendment, changing::update, noting::new_note};
use crate::samples::{
    API_KEY, LIVE, NOW, Storage, access, condemned, create_with_uploads, document, key_of,
    new_order, record_uploads, to_sign,
};

/// Returns the accesses, the oldest first.
async fn accesses(storage: &Storage) -> Vec<Access> {
    let listed = storage.accesses.list(&AccessFilter::default(), None, 100).await;
    let mut listed = listed.unwrap();
    listed.reverse();
    listed
}

fn access_of(kind: AccessKind, number: u32, id: OrderId) -> Access {
    let mut access = access(number, id);
    access.facts.kind = kind;
    access
}

async fn create(storage: &Storage) -> OrderId {
    let documents = vec![document()];
    create_with_uploads(storage, &NewOrder { documents, ..new_order("F-1", NOW) }).await
}

async fn recorded_addition(storage: &Storage, id: OrderId) -> NewDocuments {
    let new = addition(id, 1);
    record_uploads(storage, &new.documents).await;
    new
}

/// Each kind of change, once.
pub async fn change_is_stored_with_its_access(storage: &Storage) {
    let id = create(storage).await;
    let orders = &storage.orders;
    let mut assigned = access_of(AccessKind::Update, 1, id);
    let party = Party::Service(SigningServiceId(42));
    assigned.facts.actor = AccessActor::Key { id: API_KEY, party };
    assigned.facts.request_id = None;
    let stored = [
        assigned,
        access_of(AccessKind::Change, 2, id),
        access_of(AccessKind::AddDocuments, 3, id),
        access_of(AccessKind::AddNote, 4, id),
        access_of(AccessKind::Withdraw, 5, id),
        access_of(AccessKind::Erase, 6, id),
    ];
    let access = |number: usize| Some(stored[number].clone());
    let update = OrderUpdate { access: access(0), ..update(id, NOW, "NEXT") };
    let changed = orders.update(&update).await.unwrap().unwrap();
    assert_eq!(changed.stored.status.as_str(), "NEXT");
    let amendment = OrderAmendment { access: access(1), ..amendment(id, "F-1", "A") };
    orders.amend(&amendment).await.unwrap();
    let addition = recorded_addition(storage, id).await;
    orders.add_documents(&NewDocuments { access: access(2), ..addition }).await.unwrap();
    orders.add_note(&NewNote { access: access(3), ..new_note(id, "a") }).await.unwrap();
    let withdrawal =
        Withdrawal { owner: LIVE, document: to_sign(id, 0), at: NOW, access: access(4) };
    orders.withdraw(&withdrawal).await.unwrap();
    condemned(storage.admin.erase(id, NOW, access(5)).await.unwrap());
    assert_eq!(accesses(storage).await, stored);
    assert_eq!(storage.accesses.missing(10).await.unwrap(), []);
}

/// It was refused, it changes nothing, or it was undone.
pub async fn access_of_a_change_that_is_not_stored_is_not_stored(storage: &Storage) {
    let id = create(storage).await;
    let orders = &storage.orders;
    let access = || Some(access(1, id));
    let foreign = Owner::client(ClientId(99), false);
    let refused =
        OrderUpdate { access: access(), expected: Some(Vec::new()), ..update(id, NOW, "A") };
    assert_eq!(orders.update(&refused).await.unwrap(), None);
    for amendment in [
        OrderAmendment { owner: foreign, ..amendment(id, "F-1", "A") },
        OrderAmendment { expected: Some(Vec::new()), ..amendment(id, "F-1", "A") },
    ] {
        orders.amend(&OrderAmendment { access: access(), ..amendment }).await.unwrap_err();
    }
    let first = amendment(id, "F-1", "A");
    orders.amend(&first).await.unwrap();
    orders.amend(&OrderAmendment { access: access(), ..first }).await.unwrap();
    let addition = recorded_addition(storage, id).await;
    let full = NewDocuments { access: access(), max_documents: 1, ..addition.clone() };
    orders.add_documents(&full).await.unwrap_err();
    storage.condemn(&[key_of(&addition.documents[0])]).await;
    let swept = orders.add_documents(&NewDocuments { access: access(), ..addition }).await;
    assert!(matches!(swept, Err(WriteError::UploadSwept)), "{swept:?}");
    let note = NewNote { owner: foreign, access: access(), ..new_note(id, "a") };
    orders.add_note(&note).await.unwrap_err();
    let withdrawal = Withdrawal { owner: LIVE, document: to_sign(id, 0), at: NOW, access: None };
    orders.withdraw(&withdrawal).await.unwrap();
    orders.withdraw(&Withdrawal { access: access(), ..withdrawal }).await.unwrap();
    condemned(storage.admin.erase(id, NOW, None).await.unwrap());
    for id in [id, OrderId(id.0 + 1)] {
        let again = storage.admin.erase(id, NOW, access()).await.unwrap();
        assert_eq!(again, domain::ports::ErasureOutcome::NotFound);
    }
    assert_eq!(accesses(storage).await, []);
}

/// The worker may have stored the number: the outcome of the change was unknown for a while.
pub async fn access_that_is_stored_already_does_not_undo_its_change(storage: &Storage) {
    let id = create(storage).await;
    let orders = &storage.orders;
    let stored = Access { outcome: "unavailable".to_owned(), ..access(1, id) };
    storage.accesses.store(std::slice::from_ref(&stored)).await.unwrap();
    let access = || Some(access(1, id));
    let update = OrderUpdate { access: access(), ..update(id, NOW, "NEXT") };
    assert!(orders.update(&update).await.unwrap().is_some());
    let amendment = OrderAmendment { access: access(), ..amendment(id, "F-1", "A") };
    orders.amend(&amendment).await.unwrap();
    let signed = NewDocuments {
        owner: Owner { party: Party::Service(SigningServiceId(42)), is_test: false },
        kind: DocumentKind::Signed,
        access: access(),
        ..recorded_addition(storage, id).await
    };
    orders.add_documents(&signed).await.unwrap();
    orders.add_note(&NewNote { access: access(), ..new_note(id, "a") }).await.unwrap();
    condemned(storage.admin.erase(id, NOW, access()).await.unwrap());
    assert_eq!(accesses(storage).await, [stored]);
}
