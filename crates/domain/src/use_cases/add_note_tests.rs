use std::sync::Mutex;

use time::{OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    api_key::{ClientId, Owner},
    idempotency::{AddedRange, Claim, ClaimToken, Fingerprint, IdempotencyKey, KeyUse},
    order::{Actor, Refusal, SigningServiceId},
    ports::{MaybeErased, MockOrderReader, MockOrderRepo, NumberedNote, Page},
    test_support::{clock, stored_order},
};

const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);
const ID: OrderId = OrderId(1);
const CLIENT: Changer = Changer {
    owner: Owner::client(ClientId(1), false),
    actor: Actor::Client,
    only_service: None,
    access: None,
};

fn note(text: &str, at: OffsetDateTime) -> Note {
    Note { at, author: Actor::Client, text: text.to_owned(), by: None }
}

fn request() -> NoteRequest {
    NoteRequest { text: "b".to_owned() }
}

fn attempt() -> Attempt {
    let key = IdempotencyKey::new(Owner::client(ClientId(1), false), "key").unwrap();
    let claim = Claim { key, token: ClaimToken([7; 16]) };
    Attempt { claim, fingerprint: Fingerprint([7; 32]) }
}

/// The use case on an order with two notes, and a store with this outcome.
fn use_case(
    outcome: fn() -> Result<Note, WriteError>,
) -> (AddNote, Arc<Mutex<Vec<OrderCommandRequest>>>) {
    let (mut orders, mut reader) = (MockOrderRepo::new(), MockOrderReader::new());
    let listed = stored_order(NOW);
    reader.expect_notes().returning(|_, _, query| {
        let expected = NoteQuery { limit: 1, cursor: Cursor::NewerThan(NoteNumber(1)) };
        assert_eq!(*query, expected);
        let items = vec![NumberedNote { number: NoteNumber(2), note: note("b", NOW) }];
        let page = Page { items, has_older: true, has_newer: false, stopped_at: None };
        Ok(Some(MaybeErased::Whole(Some(page))))
    });
    reader
        .expect_listed()
        .returning(move |_, _| Ok(Some(MaybeErased::Whole(listed.clone().into()))));
    let added = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&added);
    orders.expect_change().returning(move |new| {
        seen.lock().unwrap().push(new.clone());
        outcome().map(Changed::NoteAdded)
    });
    let use_case = AddNote {
        orders: Arc::new(orders),
        reader: Arc::new(reader),
        clock: clock(NOW),
        idempotency_retention: Duration::DAY,
    };
    (use_case, added)
}

#[tokio::test]
async fn note_is_stored_with_its_author_and_its_request() {
    let (use_case, added) = use_case(|| Ok(note("b", NOW)));
    let attempt = attempt();
    for attempt in [None, Some(&attempt)] {
        let outcome =
            use_case.add(CLIENT, ID, request(), OrderPrecondition::NONE, attempt).await.unwrap();
        assert_eq!(outcome, AddedNote { note: note("b", NOW), replayed: false });
        let precondition = OrderPrecondition::NONE;
        let note = NewNote { author: Actor::Client, text: "b".to_owned(), precondition };
        let expected = OrderCommandRequest {
            owner: Some(CLIENT.owner),
            order: ID,
            command: OrderCommand::AddNote(note),
            at: NOW,
            idempotent_request: attempt.map(|attempt| IdempotentRequest {
                attempt: attempt.clone(),
                kept_until: NOW + Duration::DAY,
            }),
            access: None,
        };
        assert_eq!(added.lock().unwrap().pop(), Some(expected));
    }
}

#[tokio::test]
async fn bound_key_notes_orders_of_its_service_only() {
    for (service, is_added) in [(42, true), (43, false)] {
        let (use_case, added) = use_case(|| Ok(note("b", NOW)));
        let bound = Changer { only_service: Some(SigningServiceId(service)), ..CLIENT };
        let outcome = use_case.add(bound, ID, request(), OrderPrecondition::NONE, None).await;
        assert_eq!(outcome.is_ok(), is_added);
        assert!(is_added || matches!(outcome, Err(OrderError::Forbidden)));
        assert_eq!(added.lock().unwrap().len(), usize::from(is_added));
    }
}

fn answered_as(order_id: OrderId, first: Option<u32>, fingerprint: u8) -> WriteError {
    let added = first.map(|first_position| AddedRange { first_position, count: 1, total: 0 });
    let fingerprint = Fingerprint([fingerprint; 32]);
    WriteError::KeyInUse(KeyUse::Answered(Answered {
        fingerprint,
        order_id,
        added,
        changed_at: None,
    }))
}

#[tokio::test]
async fn repeat_gets_the_first_note() {
    let attempt = attempt();
    let (own, _) = use_case(|| Err(answered_as(ID, Some(1), 7)));
    let repeated =
        own.add(CLIENT, ID, request(), OrderPrecondition::NONE, Some(&attempt)).await.unwrap();
    assert_eq!(repeated, AddedNote { note: note("b", NOW), replayed: true });
    // Of another text, of another order, of the creation of an order.
    let others: [fn() -> Result<Note, WriteError>; 3] = [
        || Err(answered_as(ID, Some(1), 8)),
        || Err(answered_as(OrderId(2), Some(1), 7)),
        || Err(answered_as(ID, None, 7)),
    ];
    for other in others {
        let (use_case, _) = use_case(other);
        let repeated =
            use_case.add(CLIENT, ID, request(), OrderPrecondition::NONE, Some(&attempt)).await;
        assert!(matches!(repeated, Err(OrderError::KeyReused)), "{repeated:?}");
    }
    let (in_progress, _) =
        use_case(|| Err(WriteError::KeyInUse(KeyUse::InProgress { until: NOW + Duration::HOUR })));
    let repeated =
        in_progress.add(CLIENT, ID, request(), OrderPrecondition::NONE, Some(&attempt)).await;
    assert!(matches!(repeated, Err(OrderError::InProgress { retry_after: 5 })), "{repeated:?}");
}

#[tokio::test]
async fn rejection_is_passed_on() {
    let (use_case, _) = use_case(|| Err(Refusal::TooManyNotes.into()));
    let outcome = use_case.add(CLIENT, ID, request(), OrderPrecondition::NONE, None).await;
    assert!(matches!(outcome, Err(OrderError::TooManyNotes)), "{outcome:?}");
}
