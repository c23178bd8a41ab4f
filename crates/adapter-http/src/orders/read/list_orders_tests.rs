use contract_tests::samples::{new_order, stored};
use domain::{
    api_key::ClientId,
    order::OrderId,
    ports::{Cursor, ListedOrder, Page, StoreError},
};
use serde_json::json;

use crate::test_support::{NOW, Ports, TestApi};

fn page(ids: &[i64], has_older: bool, has_newer: bool) -> Page {
    let listed = |id: &i64| ListedOrder {
        stored: stored(OrderId(*id), &new_order("REFI-1", NOW)),
        documents: 3,
    };
    Page { items: ids.iter().map(listed).collect(), has_older, has_newer }
}

#[actix_web::test]
async fn page_has_records_and_links() {
    let mut ports = Ports::new();
    ports.reader.expect_page().once().returning(|client, query| {
        assert_eq!((client, query.limit), (ClientId(1), 2));
        assert_eq!(query.cursor, Cursor::OlderThan(OrderId(9)));
        Ok(Some(page(&[8, 5], true, true)))
    });

    let answer = ports.api().send(TestApi::get("/api/order?limit=2&starting_after=9")).await;

    assert_eq!(answer.status, 200);
    assert_eq!(
        (&answer.body["object"], &answer.body["url"]),
        (&json!("list"), &json!("/api/order"))
    );
    assert_eq!(answer.body["has_more"], true);
    let records = answer.body["data"].as_array().unwrap();
    let ids: Vec<_> =
        records.iter().map(|it| (&it["order_id"], &it["documents_uploaded"])).collect();
    assert_eq!(ids, [(&json!(8), &json!(3)), (&json!(5), &json!(3))]);
    assert!(records[0].get("details").is_none() && records[0].get("documents").is_none());
    assert_eq!(
        answer.header("link"),
        "</api/order?limit=2&starting_after=5>; rel=\"next\", \
         </api/order?limit=2&ending_before=8>; rel=\"prev\""
    );
    assert_eq!(answer.header("cache-control"), "private, no-cache");
}

#[actix_web::test]
async fn empty_page_has_no_links() {
    let mut ports = Ports::new();
    ports.reader.expect_page().returning(|_, _| Ok(Some(page(&[], false, false))));

    let answer = ports.api().send(TestApi::get("/api/order")).await;

    assert_eq!((&answer.body["data"], &answer.body["has_more"]), (&json!([]), &json!(false)));
    assert!(!answer.headers.contains_key("link"));
}

#[actix_web::test]
async fn bad_parameters_are_named() {
    let answer = Ports::new().api().send(TestApi::get("/api/order?limit=0&page=2")).await;

    let errors = answer.problem(400, "validation_failed")["errors"].as_array().unwrap();
    let named: Vec<_> = errors.iter().map(|it| (&it["parameter"], &it["code"])).collect();
    assert_eq!(
        named,
        [(&json!("limit"), &json!("out_of_range")), (&json!("page"), &json!("unknown_parameter"))]
    );
    assert!(errors.iter().all(|error| error.get("pointer").is_none()));
}

#[actix_web::test]
async fn cursor_of_no_order_of_the_client_is_rejected() {
    let mut ports = Ports::new();
    ports.reader.expect_page().returning(|_, _| Ok(None));

    let answer = ports.api().send(TestApi::get("/api/order?ending_before=9")).await;

    let problem = answer.problem(400, "validation_failed");
    assert_eq!(problem["errors"][0]["parameter"], "ending_before");
}

#[actix_web::test]
async fn unresponsive_store_is_unavailable() {
    let mut ports = Ports::new();
    ports.reader.expect_page().returning(|_, _| Err(StoreError::Unavailable("down".into())));

    ports.api().send(TestApi::get("/api/order")).await.problem(503, "unavailable");
}

#[actix_web::test]
async fn reads_have_a_rate_limit_of_their_own() {
    let mut ports = Ports::new();
    ports.rate = domain::api_key::Rate { per_second: 1, burst: 1 };
    ports.reader.expect_page().returning(|_, _| Ok(Some(page(&[], false, false))));
    let api = ports.api();

    let first = api.send(TestApi::get("/api/order")).await;
    let second = api.send(TestApi::get("/api/order")).await;

    assert_eq!((first.status.as_u16(), first.header("ratelimit")), (200, "\"reads\";r=0;t=1"));
    assert_eq!(second.problem(429, "rate_limited")["violated-policies"], json!(["reads"]));
    api.send(TestApi::post("/api/order/create").set_payload("{"))
        .await
        .problem(415, "unsupported_media_type");
}
