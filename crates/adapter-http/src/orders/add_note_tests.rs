use actix_web::test::TestRequest;
use domain::{
    api_key::{Owner, Party, Scope},
    idempotency::{AddedRange, Answered, KeyUse},
    order::{Actor, Note, OrderCommand, OrderId, Refusal, SigningServiceId, change::NewNote},
    ports::{Changed, MaybeErased, NoteNumber, NumberedNote, Page, WriteError},
    precondition::OrderPrecondition,
};
use serde_json::json;

use crate::test_support::{NOW, OWNER, Ports, TestApi};

const PATH: &str = "/api/order/7/notes";
const SERVICE: Owner = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };

fn post(text: &str) -> TestRequest {
    TestApi::post(PATH).set_json(json!({ "text": text }))
}

fn note(author: Actor) -> Note {
    Note { at: NOW, author, text: "Ring\ntwice.".to_owned(), by: None }
}

#[actix_web::test]
async fn either_side_adds_a_note() {
    for (mut ports, owner, author) in [
        (Ports::new(), OWNER, Actor::Client),
        (
            Ports::with_key(|key| {
                key.for_service = Some(SigningServiceId(42));
                key.scopes = [Scope::OrdersUpdate].into_iter().collect();
            }),
            SERVICE,
            Actor::Service,
        ),
    ] {
        ports.orders.expect_change().once().returning(move |new| {
            let text = "Ring\ntwice.".to_owned();
            assert_eq!((new.owner, new.order, new.at), (Some(owner), OrderId(7), NOW));
            let precondition = OrderPrecondition::NONE;
            assert!(new.command == OrderCommand::AddNote(NewNote { author, text, precondition }));
            assert!(new.idempotent_request.is_none());
            Ok(Changed::NoteAdded(note(author)))
        });
        let answer = ports.api().send(post(" Ring\ntwice. ")).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (201, PATH));
        let expected = json!({
            "at": "2026-11-21T12:00:00.000000Z", "author": author.as_str(), "text": "Ring\ntwice.",
        });
        assert_eq!(answer.body, expected);
    }
}

/// The decision compares it with the version of the order.
#[actix_web::test]
async fn note_has_the_preconditions_of_its_request() {
    let mut ports = Ports::new();
    ports.orders.expect_change().returning(|new| {
        let OrderCommand::AddNote(note) = &new.command else { panic!("{new:?}") };
        let is_true = note.precondition.is_true_of(&NOW, NOW);
        assert!(!is_true);
        Err(Refusal::Changed.into())
    });
    let api = ports.api();
    for header in [("if-match", "\"b2\""), ("if-none-match", "*")] {
        api.send(post("a").insert_header(header)).await.problem(412, "precondition_failed");
    }
}

#[actix_web::test]
async fn repeat_is_marked() {
    let mut ports = Ports::new();
    ports.orders.expect_change().returning(|new| {
        let fingerprint = new.idempotent_request.as_ref().unwrap().attempt.fingerprint;
        let added = Some(AddedRange { first_position: 0, count: 1, total: 0 });
        let order_id = OrderId(7);
        let answered = Answered { fingerprint, order_id, added, changed_at: None };
        Err(WriteError::KeyInUse(KeyUse::Answered(answered)))
    });
    ports.reader.expect_notes().returning(|_, _, _| {
        let items = vec![NumberedNote { number: NoteNumber(1), note: note(Actor::Client) }];
        let page = Page { items, has_older: false, has_newer: false, stopped_at: None };
        Ok(Some(MaybeErased::Whole(Some(page))))
    });
    let request = post("Ring\ntwice.").insert_header(("idempotency-key", "key"));
    let answer = ports.api().send(request).await;
    assert_eq!((answer.status.as_u16(), answer.header("idempotency-replayed")), (201, "true"));
    assert_eq!(answer.body["text"], "Ring\ntwice.");
}

#[actix_web::test]
async fn rejections_are_problems() {
    for (error, status, code) in [
        (Refusal::TooManyNotes.into(), 409, "too_many_notes"),
        (Refusal::NoSuchOrder.into(), 404, "not_found"),
        (Refusal::Erased.into(), 410, "erased"),
        (WriteError::Unavailable("gone".into()), 503, "unavailable"),
    ] {
        let mut ports = Ports::new();
        ports.orders.expect_change().return_once(|_| Err(error));
        ports.api().send(post("a")).await.problem(status, code);
    }
    let read_only = Ports::with_key(|key| key.scopes = [Scope::OrdersRead].into_iter().collect());
    read_only.api().send(post("a")).await.problem(403, "forbidden");
    let api = Ports::new().api();
    let body = json!({ "text": " ", "at": "now" });
    let rejected = api.send(TestApi::post(PATH).set_json(body)).await;
    assert_eq!(rejected.status, 400);
    let fields = rejected.body["errors"].as_array().unwrap().iter();
    let fields: Vec<_> = fields.map(|error| (&error["pointer"], &error["code"])).collect();
    let expected = [("/text", "blank"), ("/at", "unknown_member")];
    let expected = expected.map(|(pointer, code)| (json!(pointer), json!(code)));
    assert_eq!(fields, expected.iter().map(|(pointer, code)| (pointer, code)).collect::<Vec<_>>());
}
