//! Keys in the page: they become sessions, and admins issue them for programs.

use domain::{api_key::ClientId, person::Role, use_cases::keys::manage_keys::KeyTerms};
use reqwest::Method;
use serde_json::{Value, json};
use time::Duration;

use crate::{
    harness::{
        TestApp, created,
        page::{CLIENT, Page, SERVICE, signed_in},
        problem,
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    key_becomes_a_session_that_ends_with_it,
    admin_issues_rotates_and_revokes_keys_of_the_side,
}

async fn begin_with(page: &mut Page, key: &str) -> reqwest::Response {
    let begin = page.request(Method::POST, "/api/session/key").bearer_auth(key).json(&json!({}));
    let response = begin.send().await.unwrap();
    page.keep(&response);
    response
}

async fn key_becomes_a_session_that_ends_with_it(kind: Kind) {
    let app = kind.app().await;
    let terms = KeyTerms { client: Some(ClientId(1)), is_test: true, ..KeyTerms::default() };
    let test_key = app.issue_key_on(terms).await;
    let mut page = Page::of(&app);
    let begun = begin_with(&mut page, &test_key).await;
    assert_eq!(begun.status(), 201);
    let session = page.get("/api/session").await;
    assert_eq!(
        (&session["way"], &session["is_test"], &session["person"], &session["confirmed_until"]),
        (&json!("key"), &json!(true), &Value::Null, &Value::Null)
    );
    assert_eq!(session["key"]["name"], "test");
    // It is as its key: test orders, its scopes.
    created(app.order("F-1").await).await;
    assert_eq!(page.get("/api/order").await["data"], json!([]));
    page.refused((Method::GET, "/api/webhooks"), None, (403, "forbidden")).await;
    // With its key, it ends.
    let id = session["key"]["id"].as_i64().unwrap();
    let (_, mut admin) = signed_in(&app, CLIENT, "Ann Roe", Role::Admin).await;
    admin.call(Method::DELETE, &format!("/api/keys/{id}"), None).await;
    page.refused((Method::GET, "/api/order"), None, (401, "session_ended")).await;
    app.clock.advance(Duration::seconds(5));
    problem(begin_with(&mut Page::of(&app), &test_key).await, 401, "unauthorized").await;
}

async fn admin_issues_rotates_and_revokes_keys_of_the_side(kind: Kind) {
    let app = kind.app().await;
    for (party, scopes, foreign) in [
        (CLIENT, ["orders:create", "orders:read"], "orders:update"),
        (SERVICE, ["orders:read", "orders:update"], "orders:create"),
    ] {
        let (id, mut admin) = signed_in(&app, party, "Ann Roe", Role::Admin).await;
        let issue = (Method::POST, "/api/keys");
        let body = json!({ "name": "desk", "scopes": [foreign] });
        let refused = admin.refused(issue, Some(body), (400, "validation_failed")).await;
        assert_eq!(refused["errors"][0]["pointer"], "/scopes/0");
        let issued =
            admin.post("/api/keys", json!({ "name": "desk", "expires_in_days": 30 })).await;
        assert_eq!(issued["scopes"], json!(scopes));
        let (key, path) = (issued["key"].as_str().unwrap(), format!("/api/keys/{}", issued["id"]));
        assert!(key.starts_with(issued["start"].as_str().unwrap()));
        assert_eq!(app.as_key(key).get("/api/order").await.status(), 200);
        let terms = app.as_key(key).read("/api/key").await;
        assert_eq!((&terms["name"], &terms["scopes"]), (&json!("desk"), &json!(scopes)));
        // Nobody sees it once more.
        let listed = admin.get("/api/keys").await;
        let listed = listed["keys"].as_array().unwrap();
        assert!(listed.iter().all(|it| it.get("key").is_none()));
        assert!(listed.iter().any(|it| it["id"] == issued["id"]));
        let rotated = admin.post(&format!("{path}/rotate"), json!({ "grace_hours": 1 })).await;
        let successor = rotated["key"].as_str().unwrap().to_owned();
        for key in [key, &successor] {
            assert_eq!(app.as_key(key).get("/api/order").await.status(), 200);
        }
        let successor_path = format!("/api/keys/{}", rotated["id"]);
        admin.call(Method::DELETE, &successor_path, None).await;
        app.clock.advance(Duration::seconds(5));
        problem(app.as_key(&successor).get("/api/order").await, 401, "unauthorized").await;
        let rotate = format!("{successor_path}/rotate");
        admin.refused((Method::POST, &rotate), None, (409, "key_not_valid")).await;
        let trail = app.storage().keys.trail().await.unwrap();
        let by = format!("person {}", id.0);
        assert!(trail.iter().filter(|event| event.by == by).count() >= 3, "{trail:?}");
    }
    let kinds = "SELECT DISTINCT kind FROM accesses WHERE kind LIKE '%_key' ORDER BY 1";
    let expected = ["issue_key", "revoke_key", "rotate_key"];
    crate::harness::eventually(|| app.wiring.lines(kinds) == expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn page_takes_no_key_if_the_operator_says_so() {
    let app = TestApp::start_with(&["--console-keys=false"]).await;
    let mut page = Page::of(&app);
    assert_eq!(page.get("/api/session/ways").await["keys"], false);
    problem(begin_with(&mut page, &app.key.clone()).await, 403, "keys_disabled").await;
    assert_eq!(page.session, None);
    // Keys of programs go on.
    created(app.order("F-1").await).await;
}
