use std::sync::Arc;

use actix_web::{
    http::{Method, header},
    test::TestRequest,
};
use contract_tests::samples::minimal_request;
use domain::{
    access::{AccessActor, AccessKind},
    api_key::Party,
    person::{Caller, Doer, Holder, NewSession, PersonId, Session, SessionId, Way},
    ports::{Page, WhichSessions},
};
use serde_json::{Value, json};
use time::Duration;

use crate::{
    orders::create_json,
    test_support::{NOW, OWNER, Ports, TestApi, api_key},
};

const TOKEN: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

#[actix_web::test]
async fn session_stands_where_a_key_stands() {
    let mut ports = Ports::with_person(|_, _| {});
    ports.reader.expect_page().once().returning(|owner, _| {
        assert_eq!(owner, OWNER);
        Ok(Some(Page { items: vec![], has_older: false, has_newer: false, stopped_at: None }))
    });
    let api = ports.api();
    let answer = api.send(TestApi::by_page(Method::GET, "/api/order")).await;
    assert_eq!(answer.status, 200);
    // No shared cache keeps what one person sees.
    assert_eq!(answer.header("cache-control"), "private, no-cache");
    let accesses = api.accesses().await;
    let Party::Client(client) = OWNER.party else { panic!() };
    let actor = AccessActor::Person { id: PersonId(3), party: Party::Client(client) };
    assert_eq!((accesses[0].facts.kind, &accesses[0].facts.actor), (AccessKind::List, &actor));
}

#[actix_web::test]
async fn rate_is_that_of_the_person() {
    let rate = domain::api_key::Rate { per_second: 1, burst: 1 };
    let api = Ports { rate, ..Ports::with_person(|_, _| {}) }.api();
    let read = || TestApi::by_page(Method::GET, "/api/session");
    assert_eq!(api.send(read()).await.status, 200);
    api.send(read()).await.problem(429, "rate_limited");
}

#[actix_web::test]
async fn session_tells_whose_it_is_and_when_it_ends() {
    let api = Ports::with_person(|_, _| {}).api();
    let answer = api.send(TestApi::by_page(Method::GET, "/api/session")).await;
    assert_eq!(answer.header("cache-control"), "no-store");
    let expected = json!({
        "id": 7,
        "person": { "id": 3, "name": "Ann Roe", "email": answer.body["person"]["email"], "role": "admin" },
        "key": null, "side": "client", "way": "passkey", "is_test": false,
        "signed_in_at": "2026-11-21T12:00:00.000000Z",
        "expires_at": "2026-11-22T00:00:00.000000Z",
        "idle_seconds": 3600, "confirmed_until": "2026-11-21T12:05:00.000000Z",
    });
    assert_eq!(answer.body, expected);
}

#[actix_web::test]
async fn ended_session_is_told_and_clears_no_cookie() {
    let read = || TestApi::by_page(Method::GET, "/api/session");
    for change in [
        (|_, session| session.last_used_at = NOW - Duration::HOUR)
            as fn(&mut domain::person::Person, &mut domain::person::Session),
        |_, session| session.session.expires_at = NOW,
        |_, session| session.ended_at = Some(NOW),
        |person, _| person.disabled_at = Some(NOW),
    ] {
        let answer = Ports::with_person(change).api().send(read()).await;
        answer.problem(401, "session_ended");
        assert!(!answer.headers.contains_key(header::SET_COOKIE));
    }
    let mut ports = Ports::without_key();
    ports.sessions.expect_find().returning(|_, _| Ok(None));
    ports.api().send(read()).await.problem(401, "session_ended");
    let malformed =
        TestRequest::get().uri("/api/session").insert_header(("cookie", "__Host-notary_session=x"));
    Ports::without_key().api().send(malformed).await.problem(401, "session_ended");
    let without = TestRequest::get().uri("/api/session");
    Ports::without_key().api().send(without).await.problem(401, "unauthorized");
}

/// No session is even looked for.
#[actix_web::test]
async fn changing_request_of_another_site_is_refused() {
    let api = Ports::without_key().api();
    for site in [Some("cross-site"), Some("same-site"), None] {
        let mut request = TestApi::by_page(Method::POST, create_json::PATH);
        request = request.insert_header(("sec-fetch-site", site.unwrap_or("none")));
        let answer = api.send(request.set_json(minimal_request())).await;
        answer.problem(403, "cross_site");
    }
}

#[actix_web::test]
async fn key_wins_over_the_cookie() {
    let api = Ports::new().api();
    let request = TestApi::by_page(Method::GET, "/api/session");
    let key = crate::test_support::presented_key();
    let request = request.insert_header(("authorization", format!("Bearer {}", key.expose())));
    api.send(request).await.problem(403, "no_session");
}

#[actix_web::test]
async fn sign_out_ends_the_session_of_the_browser() {
    let mut ports = Ports::with_person(|_, _| {});
    ports.sessions.expect_end().once().returning(|which, except, _| {
        assert_eq!((which, except), (WhichSessions::One(SessionId(7)), None));
        Ok(1)
    });
    let api = ports.api();
    let answer = api.send(TestApi::by_page(Method::DELETE, "/api/session")).await;
    assert_eq!(answer.status, 204);
    assert!(answer.header("set-cookie").contains("__Host-notary_session=; Path=/; Secure"));
    assert_eq!(api.accesses().await[0].facts.kind, AccessKind::SignOut);
    // Without one, the answer is the same.
    let without =
        TestRequest::delete().uri("/api/session").insert_header(("sec-fetch-site", "same-origin"));
    let answer = Ports::without_key().api().send(without).await;
    assert_eq!((answer.status.as_u16(), answer.body), (204, Value::Null));
}

#[actix_web::test]
async fn key_of_the_page_becomes_a_session() {
    let mut ports = Ports::new();
    ports.sessions.expect_add().once().returning(|session, replaces| {
        assert_eq!((session.doer, replaces), (domain::person::Doer::Key(api_key().id), None));
        let (session, id) = (session.clone(), SessionId(9));
        Ok(Some(domain::person::Session { id, session, last_used_at: NOW, ended_at: None }))
    });
    let api = ports.api();
    let begin = || {
        TestApi::post("/api/session/key")
            .insert_header(("sec-fetch-site", "same-origin"))
            .set_json(json!({}))
    };
    let answer = api.send(begin()).await;
    assert_eq!((answer.status.as_u16(), &answer.body["way"]), (201, &json!("key")));
    assert!(answer.header("set-cookie").starts_with("__Host-notary_session="));
    assert!(api.has_metric(r#"notary_orders_sign_ins_total{outcome="ok",way="key"} 1"#));
    let api = Ports { console_keys: false, ..Ports::new() }.api();
    api.send(begin()).await.problem(403, "keys_disabled");
}

/// Each leaves a row, for as long as a session may last.
#[actix_web::test]
async fn sessions_that_an_address_begins_with_a_key_are_throttled() {
    let mut ports = Ports::new();
    ports.sessions.expect_add().returning(|session, _| {
        let (session, id) = (session.clone(), SessionId(9));
        Ok(Some(Session { id, session, last_used_at: NOW, ended_at: None }))
    });
    let api = ports.api();
    let mut statuses = Vec::new();
    while statuses.last().is_none_or(|last| *last == 201) && statuses.len() < 500 {
        let begin = TestApi::post("/api/session/key")
            .peer_addr("192.0.2.1:4711".parse().unwrap())
            .insert_header(("sec-fetch-site", "same-origin"));
        statuses.push(api.send(begin.set_json(json!({}))).await.status.as_u16());
    }
    assert!(statuses.len() > 60 && statuses.last() == Some(&429), "{statuses:?}");
}

/// The operator has taken keys out of the page since.
#[actix_web::test]
async fn session_of_a_key_does_not_outlast_keys_in_the_page() {
    for (console_keys, status) in [(true, 200), (false, 401)] {
        let mut ports = Ports { console_keys, ..Ports::without_key() };
        ports.sessions.expect_find().returning(|token, _| {
            let (key, end) = (api_key(), NOW + Duration::HOUR);
            let session = NewSession {
                token,
                doer: Doer::Key(key.id),
                way: Way::Key,
                is_test: false,
                signed_in_at: NOW,
                expires_at: end,
            };
            let session = Session { id: SessionId(7), session, last_used_at: NOW, ended_at: None };
            Ok(Some(Caller::of_session(session, Holder::Key(Arc::new(key)))))
        });
        let answer = ports.api().send(TestApi::by_page(Method::GET, "/api/session")).await;
        assert_eq!(answer.status, status);
    }
}

#[actix_web::test]
async fn ways_are_those_of_the_settings_and_the_host() {
    for (host, passkeys) in [("localhost:8080", true), ("192.0.2.1", false)] {
        let request = TestRequest::get().uri("/api/session/ways").insert_header(("host", host));
        let answer =
            Ports { console_keys: false, ..Ports::without_key() }.api().send(request).await;
        assert_eq!(answer.body, json!({ "passkeys": passkeys, "logins": [], "keys": false }));
    }
}

/// With cookies of ceremonies that nobody has begun.
#[actix_web::test]
async fn ends_of_sign_ins_of_an_address_are_throttled_before_the_store_is_asked() {
    for (path, body) in [
        ("/api/session/passkey/finish", json!({ "credential": {} })),
        ("/api/session/login/finish", json!({ "state": "s", "code": "c" })),
    ] {
        let rate = domain::api_key::Rate { per_second: 1, burst: 2 };
        let mut ports = Ports { rate, ..Ports::without_key() };
        ports.sessions.expect_take().times(2).returning(|_, _| Ok(None));
        let fault = || domain::ports::PasskeyFault("no passkey".into());
        ports.passkeys.expect_named_credential().times(..=2).returning(move |_| Err(fault()));
        let api = ports.api();
        for expected in [400, 400, 429, 429, 429] {
            let finish = TestRequest::post()
                .uri(path)
                .peer_addr("192.0.2.1:4711".parse().unwrap())
                .insert_header(("sec-fetch-site", "same-origin"))
                .insert_header(("cookie", format!("__Host-notary_ceremony={TOKEN}")));
            let code = if expected == 400 { "no_ceremony" } else { "rate_limited" };
            api.send(finish.set_json(&body)).await.problem(expected, code);
        }
    }
}
