//! Accesses that are stored with the changes that they make.

use domain::{
    access::{Access, AccessActor, AccessKind},
    api_key::{ClientId, Owner, Party},
    order::{OrderId, SigningServiceId},
    person::{Doer, PersonId},
    ports::{
        AccessFilter, Cursor, HistoryQuery, MaybeErased, NewOrder, OrderCommandRequest,
        OrderUpdate, WriteError,
    },
};

use super::{
    added, addition,
    amending::{amendment, of_versions},
    changing::update,
    noting::new_note,
};
use crate::samples::{
    API_KEY, CLIENT, LIVE, NOW, Storage, access, condemned, create_with_uploads, document, hold,
    key_of, new_order, record_uploads, to_sign, withdraw,
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

async fn recorded_addition(storage: &Storage, id: OrderId) -> OrderCommandRequest {
    let new = addition(id, 1);
    record_uploads(storage, &added(&new).documents).await;
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
        access_of(AccessKind::Hold, 6, id),
        access_of(AccessKind::Release, 7, id),
        access_of(AccessKind::Erase, 8, id),
    ];
    let access = |number: usize| Some(stored[number].clone());
    let update = OrderUpdate { access: access(0), ..update(id, NOW, "NEXT") };
    let changed = orders.update(&update).await.unwrap().unwrap();
    assert_eq!(changed.stored.status.as_str(), "NEXT");
    for (number, command) in (1..).zip([
        amendment(id, "F-1", "A"),
        recorded_addition(storage, id).await,
        new_note(id, "a"),
        withdraw(to_sign(id, 0)),
        hold(id, Some(NOW)),
        hold(id, None),
    ]) {
        let command = OrderCommandRequest { access: access(number), ..command };
        orders.change(&command).await.unwrap();
    }
    condemned(storage.admin.erase(id, NOW, access(7)).await.unwrap());
    assert_eq!(accesses(storage).await, stored);
    assert_eq!(storage.accesses.missing(10).await.unwrap(), []);
}

/// Of a person, a key and an operator, in the history, of notes and of documents.
pub async fn doer_of_each_change_is_read_back(storage: &Storage) {
    let (jane, party) = (PersonId(5), Party::Client(CLIENT));
    let new = NewOrder { person: Some(jane), documents: vec![document()], ..new_order("F-1", NOW) };
    let id = create_with_uploads(storage, &new).await;
    let by = |number, actor| {
        let mut access = access(number, id);
        access.facts.actor = actor;
        Some(access)
    };
    let person = |number| by(number, AccessActor::Person { id: jane, party });
    let orders = &storage.orders;
    for (number, command) in (1..).zip([
        amendment(id, "F-1", "A"),
        recorded_addition(storage, id).await,
        new_note(id, "a"),
    ]) {
        let command = OrderCommandRequest { access: person(number), ..command };
        orders.change(&command).await.unwrap();
    }
    let (command, user) = ("orders change".to_owned(), "root".to_owned());
    for (access, status) in [
        (person(4), "FIRST"),
        (by(5, AccessActor::Key { id: API_KEY, party }), "SECOND"),
        (by(6, AccessActor::Operator { command, user }), "THIRD"),
        (None, "FOURTH"),
    ] {
        let update = OrderUpdate { access, expected: None, ..update(id, NOW, status) };
        assert!(orders.update(&update).await.unwrap().is_some(), "{status}");
    }
    orders.change(&new_note(id, "b")).await.unwrap();
    let order = storage.admin.order(id).await.unwrap().and_then(MaybeErased::whole).unwrap();
    let (person, key) = (Some(Doer::Person(jane)), Some(Doer::Key(API_KEY)));
    let history: Vec<_> = order.history().map(|change| change.by).collect();
    // The creation, the amendment, and the statuses.
    assert_eq!(history, [person, person, person, key, None, None]);
    let notes: Vec<_> = order.notes.iter().map(|note| note.by).collect();
    assert_eq!(notes, [person, None]);
    let uploaders: Vec<_> = order.documents.iter().map(|it| order.uploader(it)).collect();
    assert_eq!(uploaders, [person, person]);
    let query = HistoryQuery { limit: 100, cursor: Cursor::Newest };
    let page = storage.reader.history(LIVE, id, &query).await.unwrap();
    let page = page.and_then(MaybeErased::whole).flatten().unwrap();
    let page: Vec<_> = page.items.iter().rev().map(|entry| entry.change.by).collect();
    assert_eq!(page, history);
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
    let recorded = |command| OrderCommandRequest { access: access(), ..command };
    let foreign = |command| OrderCommandRequest { owner: Some(foreign), ..command };
    let amendment = amendment(id, "F-1", "A");
    let addition = recorded_addition(storage, id).await;
    for refused in [
        foreign(amendment.clone()),
        of_versions(amendment.clone(), Vec::new()),
        foreign(addition.clone()),
        foreign(new_note(id, "a")),
        hold(OrderId(id.0 + 1), Some(NOW)),
    ] {
        orders.change(&recorded(refused)).await.unwrap_err();
    }
    // Repeated, they change nothing.
    for command in [amendment, withdraw(to_sign(id, 0))] {
        orders.change(&command).await.unwrap();
        orders.change(&recorded(command)).await.unwrap();
    }
    storage.condemn(&[key_of(&added(&addition).documents[0])]).await;
    let swept = orders.change(&recorded(addition)).await;
    assert!(matches!(swept, Err(WriteError::UploadSwept)), "{swept:?}");
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
    for command in [
        amendment(id, "F-1", "A"),
        recorded_addition(storage, id).await,
        new_note(id, "a"),
        withdraw(to_sign(id, 0)),
        hold(id, None),
    ] {
        let command = OrderCommandRequest { access: access(), ..command };
        orders.change(&command).await.unwrap();
    }
    condemned(storage.admin.erase(id, NOW, access()).await.unwrap());
    assert_eq!(accesses(storage).await, [stored]);
}
