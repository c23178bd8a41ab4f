use domain::{
    order::{EmailAddress, SigningServiceId},
    signing_service::SigningService,
};
use serde_json::json;

use super::PATH;
use crate::test_support::{Ports, TestApi};

fn service(id: i64) -> SigningService {
    let emails = vec![EmailAddress::from_stored("dispatch@example.com".to_owned())];
    SigningService { id: SigningServiceId(id), name: format!("S{id}"), emails }
}

#[actix_web::test]
async fn services_are_answered_in_pages_without_addresses() {
    let mut ports = Ports::with_key(|key| key.scopes = [].into_iter().collect());
    ports.services.expect_all().returning(|| Ok([2, 4, 6].map(service).to_vec()));
    let api = ports.api();
    let get = |query: &str| api.send(TestApi::get(&format!("{PATH}{query}")));

    let first = get("?limit=2").await;
    let expected = json!({
        "object": "list", "url": PATH, "has_more": true,
        "data": [
            { "signing_service_id": 2, "name": "S2" },
            { "signing_service_id": 4, "name": "S4" },
        ],
    });
    assert_eq!((first.status.as_u16(), &first.body), (200, &expected));
    let next = format!("<{PATH}?limit=2&starting_after=4>; rel=\"next\"");
    assert_eq!(first.header("link"), next);
    assert!(first.headers.contains_key("etag"));
    let last = get("?limit=2&starting_after=4").await;
    assert_eq!(last.body["data"], json!([{ "signing_service_id": 6, "name": "S6" }]));
    assert_eq!(last.header("link"), format!("<{PATH}?limit=2&ending_before=6>; rel=\"prev\""));
    assert_eq!(get("?starting_after=3").await.errors(), [("starting_after", "unknown_service")]);
    assert_eq!(get("?limit=0&name=x").await.errors().len(), 2);
}

#[actix_web::test]
async fn unknown_key_is_rejected() {
    let mut ports = Ports::without_key();
    ports.keys.expect_find().returning(|_| Ok(None));
    ports.api().send(TestApi::get(PATH)).await.problem(401, "unauthorized");
}
