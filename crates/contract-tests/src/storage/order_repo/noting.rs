//! Notes that are added to an order.

use domain::{
    api_key::{ClientId, Owner, Party},
    idempotency::{AddedRange, Answered, KeyUse},
    order::{Actor, Note, OrderId, OrderStatus, Refusal, SigningServiceId},
    ports::{Changed, NewOrder, OrderCommandRequest, WriteError},
    webhook::{EventChange, EventType},
};
use time::Duration;

use super::{changing::update, found};
use crate::samples::{
    CLIENT, LIVE, MICROSECOND, NOW, Storage, add_note, at_once, attempt, claim, idempotency_key,
    idempotent_request, key_use, new_order,
};

/// Returns a note of the client, added at [`NOW`].
pub(crate) fn new_note(order: OrderId, text: &str) -> OrderCommandRequest {
    add_note(order, Actor::Client, text)
}

fn with_key(new: OrderCommandRequest, key: &str) -> OrderCommandRequest {
    let attempt = attempt(&idempotency_key(CLIENT.0, key), 7);
    OrderCommandRequest { idempotent_request: idempotent_request(&attempt, new.at), ..new }
}

async fn add(storage: &Storage, new: &OrderCommandRequest) -> Result<Note, WriteError> {
    match storage.orders.change(new).await? {
        Changed::NoteAdded(note) => Ok(note),
        other => panic!("{other:?}"),
    }
}

async fn notes(storage: &Storage, id: OrderId) -> Vec<Note> {
    found(storage, LIVE, id).await.unwrap().notes
}

/// In the order of their instants, although the clock of the last ones was behind. Each sets the instant
/// of the last change, and adds an event with its author. A cancelled order takes notes.
pub async fn notes_are_found_as_added(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let text = "Ring twice.\r\n\tThen \"knock\", it's \\ é 🔔";
    let service = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };
    let later = NOW + Duration::HOUR;
    let mut expected = Vec::new();
    for (at, owner, author, text, after) in [
        (later, LIVE, Actor::Client, text, 0),
        (NOW, service, Actor::Service, "b", 1),
        // Behind the cancellation.
        (NOW, LIVE, Actor::Operator, "a", 3),
    ] {
        let owner = Some(owner);
        let new = OrderCommandRequest { at, owner, ..add_note(id, author, text) };
        let note =
            Note { at: later + MICROSECOND * after, author, text: text.to_owned(), by: None };
        assert_eq!(add(storage, &new).await.unwrap(), note);
        expected.push(note.clone());
        let order = found(storage, LIVE, id).await.unwrap();
        assert_eq!((order.updated_at, &order.notes), (note.at, &expected));
        if after == 1 {
            let cancelled = update(id, order.updated_at, OrderStatus::CANCELLED.as_str());
            assert!(storage.orders.update(&cancelled).await.unwrap().is_some());
        }
    }
    let events = storage.outbox.events(later + Duration::DAY, 100).await.unwrap();
    let events = events.into_iter().filter(|event| event.event == EventType::NoteAdded);
    let authors: Vec<_> = events.map(|event| event.change).collect();
    let told = |author| Some(EventChange::Note { author });
    assert_eq!(authors, [Actor::Client, Actor::Service, Actor::Operator].map(told));
}

/// Nor to an erased one, of which the notes are gone too.
pub async fn notes_are_added_to_own_orders_only(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let test = storage.create(&NewOrder { is_test: true, ..new_order("F-1", NOW) }).await;
    let foreign = Owner { party: Party::Service(SigningServiceId(43)), is_test: false };
    for other in [
        OrderCommandRequest { owner: Some(foreign), ..new_note(id, "a") },
        OrderCommandRequest {
            owner: Some(Owner::client(ClientId(99), false)),
            ..new_note(id, "a")
        },
        OrderCommandRequest { owner: Some(Owner { is_test: true, ..LIVE }), ..new_note(id, "a") },
        new_note(test, "a"),
        new_note(OrderId(test.0 + 1), "a"),
    ] {
        let added = add(storage, &other).await;
        assert!(
            matches!(added, Err(WriteError::Refused(Refusal::NoSuchOrder))),
            "{other:?}: {added:?}"
        );
    }
    assert_eq!(notes(storage, id).await, []);
    add(storage, &new_note(id, "a")).await.unwrap();
    assert!(storage.other_system.remains(id).await.data.contains(&"a".to_owned()));
    storage.admin.erase(id, NOW, None).await.unwrap();
    let added = add(storage, &new_note(id, "b")).await;
    assert!(matches!(added, Err(WriteError::Refused(Refusal::Erased))), "{added:?}");
    assert_eq!(storage.other_system.remains(id).await.data, Vec::<String>::new());
}

/// Their instants increase, and each note counts those before it.
pub async fn concurrent_notes_are_added_one_after_the_other(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let outcomes = at_once((0..8).map(|number| {
        let (orders, new) = (storage.orders.clone(), new_note(id, &number.to_string()));
        let new = with_key(new, &number.to_string());
        async move {
            loop {
                match orders.change(&new).await {
                    // The others hold the lock of the order for longer than a request waits.
                    Err(WriteError::Unavailable(_)) => {}
                    outcome => return outcome,
                }
            }
        }
    }))
    .await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let notes = notes(storage, id).await;
    assert_eq!(notes.len(), 8);
    assert!(notes.is_sorted_by(|one, next| one.at < next.at));
    for (position, note) in (0..).zip(&notes) {
        let key = idempotency_key(CLIENT.0, &note.text);
        let claimed = storage.idempotency.claim(&claim(&key), NOW, NOW + Duration::MINUTE).await;
        let KeyUse::Answered(answered) = key_use(claimed) else { panic!("{note:?}") };
        let added = AddedRange { first_position: position, count: 1, total: 0 };
        assert_eq!(answered.added, Some(added));
    }
}

/// The key then stands for the note, even after further ones.
pub async fn note_is_stored_under_its_key(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    add(storage, &new_note(id, "a")).await.unwrap();
    let new = with_key(new_note(id, "b"), "key");
    let request = new.idempotent_request.clone().unwrap();
    add(storage, &new).await.unwrap();
    add(storage, &new_note(id, "c")).await.unwrap();
    let answered = KeyUse::Answered(Answered {
        fingerprint: request.attempt.fingerprint,
        order_id: id,
        added: Some(AddedRange { first_position: 1, count: 1, total: 0 }),
        changed_at: None,
    });
    let (claims, key) = (&storage.idempotency, &request.attempt.claim.key);
    let later = NOW + Duration::MINUTE;
    assert_eq!(key_use(claims.claim(&claim(key), NOW, later).await), answered);
    // Also before anything else of the order.
    for order_id in [id, OrderId(0)] {
        let again = with_key(new_note(order_id, "d"), "key");
        assert_eq!(key_use(add(storage, &again).await), answered);
    }
    assert_eq!(notes(storage, id).await.len(), 3);
}

/// Also of notes of several orders. The others learn of it.
pub async fn one_of_concurrent_notes_with_one_key_is_stored(storage: &Storage) {
    let ids = storage.create_all(["F-1", "F-2"]).await;
    let outcomes = at_once((0..12).map(|number| {
        let (orders, id) = (storage.orders.clone(), ids[number % 2]);
        let new = with_key(new_note(id, "a"), "key");
        async move { orders.change(&new).await }
    }))
    .await;
    assert_eq!(outcomes.iter().filter(|added| added.is_ok()).count(), 1);
    for outcome in outcomes.into_iter().filter(Result::is_err) {
        assert!(matches!(key_use(outcome), KeyUse::Answered(_)));
    }
    assert_eq!(notes(storage, ids[0]).await.len() + notes(storage, ids[1]).await.len(), 1);
}
