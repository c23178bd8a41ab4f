use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::{http::StatusCode, test::TestRequest};
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

/// Guesses keys until so many requests were rejected because of the rate. Returns the number of the others.
async fn guess_until_throttled(api: &TestApi, times: usize) -> usize {
    let (mut others, mut throttled) = (0, 0);
    for number in 0.. {
        let answer = api.send(guess(number)).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            answer.problem(429, "rate_limited");
            throttled += 1;
        } else {
            answer.problem(401, "unauthorized");
            others += 1;
        }
        if throttled == times {
            break;
        }
    }
    others
}

#[actix_web::test]
async fn throttled_address_causes_no_look_ups() {
    let mut ports = Ports { rate: Rate { per_second: 1, burst: 2 }, ..Ports::without_key() };
    let look_ups = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&look_ups);
    ports.keys.expect_find().returning(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    });
    ports.keys.expect_list().returning(|| Ok(vec![]));
    let api = ports.api();
    let others = guess_until_throttled(&api, 7).await;
    assert!(others >= 2, "{others}");
    assert_eq!(look_ups.load(Ordering::Relaxed), others);
    let unauthorized =
        format!(r#"notary_orders_http_problems_total{{code="unauthorized"}} {others}"#);
    assert!(api.has_metric(&unauthorized));
    assert!(api.has_metric(r#"notary_orders_http_problems_total{code="rate_limited"} 7"#));
}

#[actix_web::test]
async fn throttled_address_does_not_block_valid_keys() {
    let mut ports = Ports { rate: Rate { per_second: 1, burst: 1 }, ..Ports::without_key() };
    let valid = api_key().key.lookup;
    ports.keys.expect_find().returning(move |lookup| Ok((lookup == valid).then(api_key)));
    ports.keys.expect_list().returning(|| Ok(vec![api_key()]));
    let api = ports.api();
    assert!(guess_until_throttled(&api, 1).await >= 1);

    let order = TestApi::post(PATH).peer_addr("192.0.2.1:4711".parse().unwrap());
    let mut invalid = minimal_request();
    invalid["requestedBy"].take();

    api.send(order.set_json(invalid)).await.problem(400, "validation_failed");
}
