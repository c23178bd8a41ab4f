use contract_tests::samples::{document, new_order, stored};
use domain::{
    order::{OrderId, StoredOrder},
    ports::Kept,
};
use serde_json::json;

use crate::test_support::{NOW, Ports, TestApi};

#[actix_web::test]
async fn documents_are_listed_in_their_order() {
    let mut ports = Ports::new();
    let documents = vec![document(), document()];
    let order = StoredOrder {
        documents: documents.clone(),
        ..stored(OrderId(7), &new_order("REFI-1", NOW))
    };
    ports.reader.expect_order().return_once(|_, _| Ok(Some(Kept::Whole(order))));

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
        "url": "/api/order/7/documents/1"
    });
    expected["created_at"] = data[1]["created_at"].clone();
    assert!(expected["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(data[1], expected);
    assert!(answer.headers.contains_key("etag"));
}

#[actix_web::test]
async fn missing_and_erased_orders_have_no_list() {
    for (found, status, code) in [(None, 404, "not_found"), (Some(Kept::Erased), 410, "erased")] {
        let mut ports = Ports::new();
        ports.reader.expect_order().return_once(|_, _| Ok(found));
        let answer = ports.api().send(TestApi::get("/api/order/7/documents")).await;
        answer.problem(status, code);
    }
}
