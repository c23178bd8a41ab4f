use actix_web::test::TestRequest;
use contract_tests::samples::minimal_request;
use domain::api_key::Rate;

use super::*;
use crate::{
    orders::create_json::PATH,
    test_support::{Ports, TestApi, api_key},
};

/// Builds a request with a key of the right form that was never issued.
fn guess(number: u32) -> TestRequest {
    let key = format!("nok_{number:016x}_{:048x}", 0);
    TestRequest::post()
        .uri(PATH)
        .insert_header((header::AUTHORIZATION, format!("Bearer {key}")))
        .peer_addr("192.0.2.1:4711".parse().unwrap())
}

#[test]
fn bearer_scheme_is_case_insensitive() {
    for value in ["Bearer abc", "bearer abc", "BEARER  abc "] {
        let request =
            TestRequest::default().insert_header((header::AUTHORIZATION, value)).to_http_request();
        assert_eq!(bearer(request.headers()), Ok("abc"), "{value}");
    }
}

#[test]
fn other_authorization_headers_are_rejected() {
    for value in ["", "abc", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearerabc"] {
        let request =
            TestRequest::default().insert_header((header::AUTHORIZATION, value)).to_http_request();
        assert!(bearer(request.headers()).is_err(), "{value}");
    }
    let twice = TestRequest::default()
        .append_header((header::AUTHORIZATION, "Bearer a"))
        .append_header((header::AUTHORIZATION, "Bearer b"));
    assert!(bearer(twice.to_http_request().headers()).is_err());
}

#[actix_web::test]
async fn throttled_address_causes_no_look_ups() {
    let mut ports = Ports { rate: Rate { per_second: 1, burst: 2 }, ..Ports::without_key() };
    ports.keys.expect_find().times(2).returning(|_| Ok(None));
    ports.keys.expect_list().times(..=1).returning(|| Ok(vec![]));
    let api = ports.api();
    for number in 0..2 {
        api.send(guess(number)).await.problem(401, "unauthorized");
    }
    for number in 2..9 {
        api.send(guess(number)).await.problem(429, "rate_limited");
    }
    assert!(api.has_metric(r#"notary_orders_http_problems_total{code="unauthorized"} 2"#));
    assert!(api.has_metric(r#"notary_orders_http_problems_total{code="rate_limited"} 7"#));
}

#[actix_web::test]
async fn throttled_address_does_not_block_valid_keys() {
    let mut ports = Ports { rate: Rate { per_second: 1, burst: 1 }, ..Ports::without_key() };
    let valid = api_key().key.lookup;
    ports.keys.expect_find().returning(move |lookup| Ok((lookup == valid).then(api_key)));
    ports.keys.expect_list().returning(|| Ok(vec![api_key()]));
    let api = ports.api();
    api.send(guess(0)).await.problem(401, "unauthorized");
    api.send(guess(1)).await.problem(429, "rate_limited");

    let order = TestApi::post(PATH).peer_addr("192.0.2.1:4711".parse().unwrap());
    let mut invalid = minimal_request();
    invalid["requestedBy"].take();

    api.send(order.set_json(invalid)).await.problem(400, "validation_failed");
}
