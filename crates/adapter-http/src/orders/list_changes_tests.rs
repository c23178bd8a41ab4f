use domain::{
    api_key::{NewApiKey, Scope},
    order::{
        OrderId, SigningServiceId,
        feed::{FeedChange, FeedCursor, FeedEntry, FeedPage},
    },
    ports::StoreError,
};
use serde_json::json;

use crate::test_support::{NOW, OWNER, Ports, TestApi};

const PATH: &str = "/api/order/changes";

fn place(created: i64, changed: i64) -> FeedCursor {
    FeedCursor { created: OrderId(created), changed, epoch: 0 }
}

fn entry(cursor: FeedCursor, kind: &str) -> FeedEntry {
    let change = FeedChange {
        order: OrderId(7),
        file_number: (kind != "erased").then(|| "REFI-1".to_owned()),
        kind: kind.to_owned(),
        at: NOW,
        status: "ASSIGNED".to_owned(),
        signing_service: SigningServiceId(42),
    };
    FeedEntry { cursor, change }
}

/// Returns mocks whose feed has this page behind a place.
fn ports(after: FeedCursor, limit: usize, page: FeedPage) -> Ports {
    let mut ports = Ports::new();
    ports.feed.expect_page().once().returning(move |owner, asked, entries| {
        assert_eq!((owner, asked, entries), (OWNER, after, limit));
        Ok(Some(page.clone()))
    });
    ports
}

#[actix_web::test]
async fn page_has_entries_with_their_cursors() {
    let entries = vec![entry(place(7, 2), "status"), entry(place(7, 3), "erased")];
    let page = FeedPage { entries, next: place(7, 3), has_more: true };
    let api = ports(place(6, 1), 2, page).api();

    let answer = api.send(TestApi::get(&format!("{PATH}?after=6-1&limit=2"))).await;

    assert_eq!(answer.status, 200);
    let record = |cursor: &str, kind: &str, file_number: Option<&str>| {
        json!({
            "cursor": cursor, "order_id": 7, "file_number": file_number, "kind": kind,
            "at": "2026-11-21T12:00:00.000000Z", "order_status": "ASSIGNED", "signing_service_id": 42,
            "is_test": OWNER.is_test,
        })
    };
    assert_eq!(
        answer.body,
        json!({
            "object": "list", "url": PATH, "has_more": true, "next_after": "7-3",
            "data": [record("7-2", "status", Some("REFI-1")), record("7-3", "erased", None)],
        })
    );
    assert_eq!(answer.header("cache-control"), "private, no-cache");
    assert!(answer.headers.get("link").is_none());
}

#[actix_web::test]
async fn feed_begins_at_the_oldest_change() {
    let page = FeedPage { entries: vec![], next: FeedCursor::START, has_more: false };
    let answer = ports(FeedCursor::START, 20, page).api().send(TestApi::get(PATH)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body["next_after"], "0-0");
}

#[actix_web::test]
async fn now_is_an_empty_page_with_a_cursor() {
    let mut ports = Ports::new();
    ports.feed.expect_now().once().returning(|| Ok(place(9, 4)));
    let answer = ports.api().send(TestApi::get(&format!("{PATH}?after=now"))).await;
    let found = [&answer.body["next_after"], &answer.body["data"], &answer.body["has_more"]];
    assert_eq!(found, [&json!("9-4"), &json!([]), &json!(false)]);
}

#[actix_web::test]
async fn known_page_is_not_sent_again() {
    let page = FeedPage { entries: vec![], next: place(6, 1), has_more: false };
    let mut ports = Ports::new();
    ports.feed.expect_page().times(2).returning(move |_, _, _| Ok(Some(page.clone())));
    let api = ports.api();
    let get = || TestApi::get(&format!("{PATH}?after=6-1"));
    let tag = api.send(get()).await.header("etag").to_owned();
    assert_eq!(api.send(get().insert_header(("if-none-match", tag))).await.status, 304);
}

#[actix_web::test]
async fn parameter_at_fault_is_named() {
    let mut ports = Ports::new();
    ports.feed.expect_page().returning(|_, _, _| Ok(None));
    let api = ports.api();
    for (query, parameter, code) in [
        ("after=x", "after", "invalid_format"),
        ("after=01-2", "after", "invalid_format"),
        ("after=", "after", "blank"),
        ("after=now&after=now", "after", "repeated"),
        ("after=9-9", "after", "unknown_cursor"),
        ("limit=101", "limit", "out_of_range"),
        ("starting_after=1", "starting_after", "unknown_parameter"),
    ] {
        let answer = api.send(TestApi::get(&format!("{PATH}?{query}"))).await;
        assert_eq!(answer.errors(), [(parameter, code)], "{query}");
    }
}

#[actix_web::test]
async fn feed_needs_the_scope_of_reads() {
    let without: fn(&mut NewApiKey) = |key| {
        key.scopes = [Scope::OrdersCreate].into_iter().collect();
    };
    let answer = Ports::with_key(without).api().send(TestApi::get(PATH)).await;
    answer.problem(403, "forbidden");
}

#[actix_web::test]
async fn outage_is_unavailable() {
    let mut ports = Ports::new();
    ports.feed.expect_page().returning(|_, _, _| Err(StoreError::Unavailable("down".into())));
    ports.api().send(TestApi::get(PATH)).await.problem(503, "unavailable");
}
