use contract_tests::samples::{
    document, maximal_request, minimal_request, new_order, order, stored,
};
use domain::{
    order::{Actor, Note, OrderChange, OrderId, StoredOrder},
    ports::{
        Cursor, HistoryEntry, HistoryId, MaybeErased, NewOrder, NoteNumber, NumberedNote, Page,
        StoreError, UnreadableRecord,
    },
};
use serde_json::{Value, json};

use crate::test_support::{NOW, OWNER, Ports, TestAnswer, TestApi};

/// Returns the order 7 with every field and two documents.
fn whole() -> StoredOrder {
    let new = NewOrder { order: order(maximal_request()), ..new_order("REFI-1", NOW) };
    StoredOrder { documents: vec![document(), document()], ..stored(OrderId(7), &new) }
}

async fn get(ports: Ports, path: &str) -> TestAnswer {
    ports.api().send(TestApi::get(path)).await
}

#[actix_web::test]
async fn order_is_answered_with_its_details_and_documents() {
    let mut ports = Ports::new();
    ports.reader.expect_order().once().returning(|owner, id| {
        assert_eq!((owner, id), (OWNER, OrderId(7)));
        Ok(Some(MaybeErased::Whole(whole())))
    });

    let answer = get(ports, "/api/order/7").await;

    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "private, no-cache");
    assert_eq!(
        (&answer.body["order_id"], &answer.body["documents_uploaded"]),
        (&json!(7), &json!(2))
    );
    let details = answer.body["details"].as_object().unwrap();
    assert!(!details.contains_key("signingServiceId"));
    let signer = &details["signingDetailsFormData"]["signerName"];
    assert_eq!(signer, &maximal_request()["signingDetailsFormData"]["signerName"]);
    let documents = answer.body["documents"].as_array().unwrap();
    let paths: Vec<_> = documents.iter().map(|it| (&it["position"], &it["url"])).collect();
    let path = |position| json!(format!("/api/order/7/documents/{position}"));
    assert_eq!(paths, [(&json!(0), &path(0)), (&json!(1), &path(1))]);
    let created = json!([{
        "at": "2026-11-21T12:00:00.000000Z",
        "kind": "created",
        "order_status": "NEW",
        "notary_id": null,
        "actor": "client",
        "reason": null,
    }]);
    assert_eq!(answer.body["history"], created);
    for private in ["client", "api_key", "key", "is_test"] {
        assert!(!answer.body.to_string().contains(&format!("\"{private}\":")), "{private}");
    }
}

#[actix_web::test]
async fn absent_fields_are_left_out_of_details() {
    let mut ports = Ports::new();
    let new = NewOrder { order: order(minimal_request()), ..new_order("REFI-1", NOW) };
    let order = stored(OrderId(7), &new);
    ports.reader.expect_order().return_once(|_, _| Ok(Some(MaybeErased::Whole(order))));

    let answer = get(ports, "/api/order/7").await;

    assert_eq!(answer.body["documents"], json!([]));
    assert!(!answer.body["details"].to_string().contains("null"), "{}", answer.body["details"]);
}

/// Returns the body of a problem without its request id.
fn without_id(answer: &TestAnswer) -> Value {
    let mut body = answer.body.clone();
    body["request_id"].take();
    body
}

#[actix_web::test]
async fn every_order_that_is_not_the_clients_is_the_same_404() {
    let mut ports = Ports::new();
    ports.reader.expect_order().returning(|_, _| Ok(None));
    let api = ports.api();
    let missing = api.send(TestApi::get("/api/order/7")).await;
    missing.problem(404, "not_found");
    for id in ["0", "-1", "+7", "07", "7.0", "seven", "9223372036854775808", "%37x", "7%00"] {
        let answer = api.send(TestApi::get(&format!("/api/order/{id}"))).await;
        assert_eq!(without_id(&answer), without_id(&missing), "{id}");
    }
}

#[actix_web::test]
async fn failing_store_is_unavailable_or_internal() {
    for (error, status, code) in [
        (StoreError::Unavailable("down".into()), 503, "unavailable"),
        (StoreError::Internal("bug".into()), 500, "internal"),
        (StoreError::Internal(UnreadableRecord("row".to_owned()).into()), 500, "unreadable_order"),
    ] {
        let mut ports = Ports::new();
        ports.reader.expect_order().return_once(move |_, _| Err(error));
        get(ports, "/api/order/7").await.problem(status, code);
    }
}

#[actix_web::test]
async fn head_has_the_headers_of_get() {
    let mut ports = Ports::new();
    let order = whole();
    ports.reader.expect_order().returning(move |_, _| Ok(Some(MaybeErased::Whole(order.clone()))));
    let api = ports.api();

    let get = api.send(TestApi::get("/api/order/7")).await;
    let head = api.send(TestApi::get("/api/order/7").method(actix_web::http::Method::HEAD)).await;

    assert_eq!((head.status, head.header("etag")), (get.status, get.header("etag")));
}

#[actix_web::test]
async fn documents_are_listed_in_their_order() {
    let mut ports = Ports::new();
    let documents = vec![document(), document()];
    let order = StoredOrder {
        documents: documents.clone(),
        ..stored(OrderId(7), &new_order("REFI-1", NOW))
    };
    ports.reader.expect_with_documents().return_once(|_, _| Ok(Some(MaybeErased::Whole(order))));

    let answer = ports.api().send(TestApi::get("/api/order/7/documents")).await;

    let data = answer.body["data"].as_array().unwrap();
    assert_eq!((answer.status.as_u16(), data.len()), (200, 2));
    assert_eq!(answer.body["url"], "/api/order/7/documents");
    assert_eq!(answer.body["has_more"], false);
    let mut expected = json!({
        "position": 1,
        "name": documents[1].name,
        "name_as_sent": documents[1].name_as_sent,
        "media_type": "application/pdf",
        "size": 10 * 1024 * 1024,
        "sha256": documents[1].sha256.to_string(),
        "uploaded_by": "client",
        "replaces": null,
        "replaced_by": null,
        "withdrawn_at": null,
        "withdrawn_by": null,
        "first_downloaded_at": null,
        "url": "/api/order/7/documents/1"
    });
    expected["created_at"] = data[1]["created_at"].clone();
    assert!(expected["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(data[1], expected);
    assert!(answer.headers.contains_key("etag"));
}

#[actix_web::test]
async fn missing_and_erased_orders_are_not_read() {
    for path in ["/api/order/7", "/api/order/7/documents"] {
        for (found, status, code) in
            [(None, 404, "not_found"), (Some(MaybeErased::Erased), 410, "erased")]
        {
            let mut ports = Ports::new();
            let same = found.clone();
            ports.reader.expect_order().return_once(|_, _| Ok(found));
            ports.reader.expect_with_documents().return_once(|_, _| Ok(same));
            get(ports, path).await.problem(status, code);
        }
    }
}

fn entry(id: i64) -> HistoryEntry {
    HistoryEntry { id: HistoryId(id), change: OrderChange::created(NOW) }
}

#[actix_web::test]
async fn history_is_a_list_in_pages() {
    let path = "/api/order/7/history";
    let mut ports = Ports::new();
    ports.reader.expect_history().returning(|_, id, query| {
        assert_eq!((id, query.limit), (OrderId(7), 2));
        let items = match query.cursor {
            Cursor::Newest => vec![entry(9), entry(5)],
            Cursor::OlderThan(HistoryId(5)) => vec![entry(0)],
            Cursor::OlderThan(_) => return Ok(Some(MaybeErased::Whole(None))),
            Cursor::NewerThan(_) => return Ok(Some(MaybeErased::Erased)),
        };
        let (has_older, has_newer) = (items.len() == 2, items.len() == 1);
        Ok(Some(MaybeErased::Whole(Some(Page { items, has_older, has_newer, stopped_at: None }))))
    });
    let api = ports.api();
    let get = |query: &str| api.send(TestApi::get(&format!("{path}?limit=2{query}")));

    let first = get("").await;
    assert_eq!(first.header("link"), format!("<{path}?limit=2&starting_after=5>; rel=\"next\""));
    let expected = json!({
        "id": 9, "at": "2026-11-21T12:00:00.000000Z", "kind": "created", "order_status": "NEW", "notary_id": null,
        "actor": "client", "reason": null,
    });
    assert_eq!((&first.body["data"][0], &first.body["has_more"]), (&expected, &true.into()));
    let last = get("&starting_after=5").await;
    assert_eq!(last.header("link"), format!("<{path}?limit=2&ending_before=0>; rel=\"prev\""));
    assert_eq!(get("&starting_after=6").await.errors(), [("starting_after", "unknown_entry")]);
    get("&ending_before=0").await.problem(410, "erased");
}

fn numbered_note(number: i64) -> NumberedNote {
    let note = Note { at: NOW, author: Actor::Client, text: "Ring\ntwice.".to_owned(), by: None };
    NumberedNote { number: NoteNumber(number), note }
}

#[actix_web::test]
async fn notes_are_a_list_in_pages() {
    let path = "/api/order/7/notes";
    let mut ports = Ports::new();
    ports.reader.expect_notes().returning(|_, id, query| {
        assert_eq!((id, query.limit), (OrderId(7), 2));
        let items = match query.cursor {
            Cursor::Newest => vec![numbered_note(3), numbered_note(2)],
            Cursor::OlderThan(NoteNumber(2)) => vec![numbered_note(1)],
            Cursor::OlderThan(_) => return Ok(Some(MaybeErased::Whole(None))),
            Cursor::NewerThan(_) => return Ok(Some(MaybeErased::Erased)),
        };
        let (has_older, has_newer) = (items.len() == 2, items.len() == 1);
        Ok(Some(MaybeErased::Whole(Some(Page { items, has_older, has_newer, stopped_at: None }))))
    });
    let api = ports.api();
    let get = |query: &str| api.send(TestApi::get(&format!("{path}?limit=2{query}")));

    let first = get("").await;
    assert_eq!(first.header("link"), format!("<{path}?limit=2&starting_after=2>; rel=\"next\""));
    let expected = json!({
        "id": 3, "at": "2026-11-21T12:00:00.000000Z", "author": "client", "text": "Ring\ntwice.",
    });
    assert_eq!((&first.body["data"][0], &first.body["has_more"]), (&expected, &true.into()));
    let last = get("&starting_after=2").await;
    assert_eq!(last.header("link"), format!("<{path}?limit=2&ending_before=1>; rel=\"prev\""));
    assert_eq!(get("&starting_after=9").await.errors(), [("starting_after", "unknown_entry")]);
    get("&ending_before=0").await.problem(410, "erased");
}
