//! Sessions: in the place of keys, of this site alone, and over when they shall be.

use domain::{
    api_key::{ClientId, Party},
    person::{MAX_SESSIONS, Role, Token},
};
use reqwest::Method;
use serde_json::json;
use test_servers::authenticator::Authenticator;
use time::Duration;

use crate::{
    harness::{
        CREATE, TestApp, created, order,
        page::{CLIENT, Page, SERVICE, signed_in},
        problem,
    },
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    person_sees_and_makes_what_a_key_of_the_side_does,
    person_orders_for_the_only_service_of_all_keys,
    idempotency_keys_and_preconditions_hold_for_people,
    each_sign_in_has_a_new_token_and_ends_none_of_others,
    sign_in_ends_the_session_that_its_browser_had,
    longest_unused_session_of_a_person_ends_beyond_twenty,
    stored_hash_opens_no_session,
    idle_and_old_sessions_end,
    sign_in_in_place_replaces_the_session,
    sign_ins_and_sign_outs_are_recorded,
}

async fn person_sees_and_makes_what_a_key_of_the_side_does(kind: Kind) {
    let app = kind.app_with(&["--duplicate-window-secs=0"]).await;
    let by_key = created(app.order("F-1").await).await["order_id"].clone();
    let (_, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let by_person = ann.post(CREATE, order("F-2")).await["order_id"].clone();
    let listed = ann.get("/api/order").await;
    let ids: Vec<_> = listed["data"].as_array().unwrap().iter().map(|it| &it["order_id"]).collect();
    assert_eq!(ids, [&by_person, &by_key]);
    let read = app.read(&format!("/api/order/{by_person}")).await;
    assert_eq!(read["history"][0]["by"], "Ann Roe");
    // The other side works with it, and does not learn the name.
    let (_, mut joe) = signed_in(&app, SERVICE, "Joe Doe", Role::Member).await;
    let seen = joe.get(&format!("/api/order/{by_person}")).await;
    assert_eq!(seen["history"][0].get("by"), None);
    let update = json!({ "order_status": "CONFIRMED" });
    joe.call(Method::PATCH, &format!("/api/order/{by_person}"), Some(update)).await;
    let seen = joe.get(&format!("/api/order/{by_person}")).await;
    assert_eq!(seen["history"][1]["by"], "Joe Doe");
    // A client does not, and neither side reaches orders of others.
    let path = format!("/api/order/{by_person}");
    let update = Some(json!({ "order_status": "SIGNED" }));
    ann.refused((Method::PATCH, &path), update, (403, "forbidden")).await;
    let other = Party::Client(ClientId(77));
    let (_, mut stranger) = signed_in(&app, other, "Eve", Role::Admin).await;
    stranger.refused((Method::GET, &path), None, (404, "not_found")).await;
    assert_eq!(stranger.get("/api/order").await["data"], json!([]));
    let terms = ann.get("/api/key").await;
    assert_eq!(
        (&terms["name"], &terms["party"], &terms["client_id"], &terms["is_test"]),
        (&json!("Ann Roe"), &json!("client"), &json!(1), &json!(false))
    );
    assert_eq!(terms["scopes"], json!(["orders:create", "orders:read"]));
}

/// Nobody gets more of a side than its keys.
async fn person_orders_for_the_only_service_of_all_keys(kind: Kind) {
    let app = kind.app().await;
    let key = app.issue_key(Some(7)).await;
    let client = app.as_key(&key).read("/api/key").await["client_id"].as_i64().unwrap();
    let client = Party::Client(ClientId(client));
    let (_, mut ann) = signed_in(&app, client, "Ann Roe", Role::Admin).await;
    assert_eq!(ann.get("/api/key").await["signing_service_id"], 7);
    let create = (Method::POST, CREATE);
    ann.refused(create, Some(order("F-1")), (403, "forbidden")).await;
    let mut own = order("F-1");
    own["signingServiceId"] = json!(7);
    own["requestedBy"]["signingServiceId"] = json!(7);
    ann.post(CREATE, own).await;
}

async fn idempotency_keys_and_preconditions_hold_for_people(kind: Kind) {
    let app = kind.app().await;
    let (_, ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let (_, joe) = signed_in(&app, CLIENT, "Joe Doe", Role::Member).await;
    let send = async |page: &Page| {
        let request = page.request(Method::POST, CREATE).header("idempotency-key", "\"k-1\"");
        request.json(&order("F-1")).send().await.unwrap()
    };
    let first = created(send(&ann).await).await;
    for page in [&ann, &joe] {
        let again = send(page).await;
        assert_eq!(again.headers()["idempotency-replayed"], "true");
        assert_eq!(created(again).await, first);
    }
    let path = format!("/api/order/{}", first["order_id"]);
    let read = ann.request(Method::GET, &path).send().await.unwrap();
    let (tag, caching) = (read.headers()["etag"].clone(), read.headers()["cache-control"].clone());
    // No shared cache keeps what one person may see.
    assert_eq!(caching, "private, no-cache");
    let known = ann.request(Method::GET, &path).header("if-none-match", tag).send().await.unwrap();
    assert_eq!(known.status(), 304);
    let old = ann.request(Method::POST, &format!("{path}/cancel")).header("if-match", "\"0\"");
    problem(old.send().await.unwrap(), 412, "precondition_failed").await;
}

/// Whatever a browser had before.
async fn each_sign_in_has_a_new_token_and_ends_none_of_others(kind: Kind) {
    let app = kind.app().await;
    let (_, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let first = ann.session.clone().unwrap();
    // An attacker fixes a token beforehand.
    let fixed = Token::random(&operator::OsEntropy).expose().to_owned();
    ann.session = Some(fixed.clone());
    ann.sign_in().await;
    let second = ann.session.clone().unwrap();
    assert!(second != fixed && second != first);
    for (token, is_valid) in [(&fixed, false), (&first, true), (&second, true)] {
        let page = Page { session: Some(token.clone()), ..ann.clone() };
        let answer = page.request(Method::GET, "/api/session").send().await.unwrap();
        if is_valid {
            assert_eq!(answer.status(), 200);
        } else {
            // The browser may have a newer one meanwhile.
            assert!(answer.headers().get("set-cookie").is_none());
            problem(answer, 401, "session_ended").await;
        }
    }
}

/// Of the same or of another person, or of a key: the browser has lost its token.
async fn sign_in_ends_the_session_that_its_browser_had(kind: Kind) {
    let app = kind.app().await;
    let (_, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let (_, joe) = signed_in(&app, CLIENT, "Joe Doe", Role::Member).await;
    for before in [ann.session.clone(), joe.session.clone()] {
        ann.session = before.clone();
        ann.sign_in().await;
        let old = Page { session: before, ..ann.clone() };
        let answer = old.request(Method::GET, "/api/session").send().await.unwrap();
        problem(answer, 401, "session_ended").await;
        ann.get("/api/session").await;
    }
}

async fn longest_unused_session_of_a_person_ends_beyond_twenty(kind: Kind) {
    assert_eq!(MAX_SESSIONS, 20);
    let app = kind.app().await;
    let (_, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let mut browsers = vec![ann.session.clone()];
    for _ in 0..MAX_SESSIONS {
        ann.session = None;
        ann.sign_in().await;
        browsers.push(ann.session.clone());
    }
    let mut codes = Vec::new();
    for session in browsers {
        let page = Page { session, ..ann.clone() };
        let answer = page.request(Method::GET, "/api/session").send().await.unwrap();
        codes.push(answer.status().as_u16());
    }
    assert_eq!(codes.remove(0), 401);
    assert_eq!(codes, [200; MAX_SESSIONS]);
}

async fn stored_hash_opens_no_session(kind: Kind) {
    let app = kind.app().await;
    let (_, ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let token = ann.session.clone().unwrap();
    let hash = Token::parse(&token).unwrap().hash().0;
    let hex = hex::encode(hash);
    let hex_of = match kind {
        Kind::Embedded => "lower(hex(token))",
        Kind::Production => "encode(token, 'hex')",
    };
    let stored = app.wiring.lines(&format!("SELECT {hex_of} FROM sessions"));
    assert_eq!(stored, std::slice::from_ref(&hex));
    for copied in [hex.clone(), hex[..32].to_owned(), "x".to_owned()] {
        let page = Page { session: Some(copied), ..ann.clone() };
        let answer = page.request(Method::GET, "/api/session").send().await.unwrap();
        problem(answer, 401, "session_ended").await;
    }
}

async fn idle_and_old_sessions_end(kind: Kind) {
    let flags = ["--session-idle-mins=60", "--session-hours=12"];
    let app = kind.app_with(&flags).await;
    let (_, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let (_, mut joe) = signed_in(&app, CLIENT, "Joe Doe", Role::Member).await;
    let used = || app.wiring.lines("SELECT max(last_used_at) FROM sessions");
    for _ in 0..12 {
        ann.get("/api/order").await;
        // The worker stores the use.
        let before = used();
        app.clock.advance(Duration::minutes(59));
        ann.get("/api/session").await;
        crate::harness::eventually(|| used() != before).await;
    }
    // Eleven hours and 48 minutes: one is idle, the other soon too old.
    joe.refused((Method::GET, "/api/order"), None, (401, "session_ended")).await;
    let session = ann.get("/api/session").await;
    assert_eq!(session["idle_seconds"], 3600);
    app.clock.advance(Duration::minutes(12));
    ann.refused((Method::GET, "/api/order"), None, (401, "session_ended")).await;
    // The page signs in again in place.
    ann.sign_in().await;
    ann.get("/api/order").await;
}

async fn sign_in_in_place_replaces_the_session(kind: Kind) {
    let app = kind.app().await;
    let (id, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Admin).await;
    let before = ann.clone();
    app.clock.advance(Duration::minutes(5));
    let person = json!({ "name": "Joe Doe", "role": "member" });
    let invite = (Method::POST, "/api/people");
    ann.refused(invite, Some(person.clone()), (403, "sign_in_again")).await;
    ann.confirm().await;
    ann.post("/api/people", person).await;
    let of_old = before.request(Method::GET, "/api/session").send().await.unwrap();
    problem(of_old, 401, "session_ended").await;
    let path = format!("/api/people/{}/sessions", id.0);
    let sessions = ann.get(&path).await;
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(sessions["sessions"][0]["is_current"], true);
    // Another person with another passkey does not take it over.
    let (_, joe) = signed_in(&app, CLIENT, "Joe Doe", Role::Member).await;
    let mut shared = Page { authenticator: joe.authenticator, ..ann.clone() };
    let credential = shared.credential(json!({ "purpose": "confirm" })).await;
    let finish = (Method::POST, "/api/session/passkey/finish");
    let body = Some(json!({ "credential": credential }));
    shared.refused(finish, body, (403, "other_person")).await;
    ann.get("/api/session").await;
}

async fn sign_ins_and_sign_outs_are_recorded(kind: Kind) {
    let app = kind.app().await;
    let (id, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    assert_eq!(ann.ceremony, None, "the browser forgets it");
    let finish = (Method::POST, "/api/session/passkey/finish");
    let credential = ann.credential(json!({ "purpose": "sign_in" })).await;
    let replayed = json!({ "credential": credential });
    let ceremony = ann.ceremony.clone();
    ann.post("/api/session/passkey/finish", replayed.clone()).await;
    ann.ceremony = ceremony;
    ann.refused(finish, Some(replayed), (400, "no_ceremony")).await;
    ann.call(Method::DELETE, "/api/session", None).await;
    assert_eq!(ann.session, None);
    // Once more does no harm.
    ann.call(Method::DELETE, "/api/session", None).await;
    let query = "SELECT kind, outcome, person_id, subject_id FROM accesses \
                 WHERE kind LIKE 'sign%' ORDER BY number";
    let rows = || app.wiring.lines(query);
    crate::harness::eventually(|| rows().len() == 4).await;
    let rows: Vec<_> = rows().into_iter().map(|row| row.replace(['|', '\t'], " ")).collect();
    let by = |kind: &str| format!("{kind} ok {0} {0}", id.0);
    assert_eq!(rows[..2], [by("sign_in"), by("sign_in")]);
    assert!(rows[2].starts_with("sign_in no_ceremony  "), "{rows:?}");
    assert!(rows[3].starts_with(&format!("sign_out ok {} ", id.0)), "{rows:?}");
    for line in [
        r#"notary_orders_sign_ins_total{outcome="ok",way="passkey"} 2"#,
        r#"notary_orders_sign_ins_total{outcome="no_ceremony",way="passkey"} 1"#,
    ] {
        app.assert_metrics(&[line]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_other_sites_change_nothing() {
    let app = TestApp::start().await;
    let (_, ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Admin).await;
    let body = json!({ "name": "Joe Doe", "role": "admin" });
    let headers = [
        vec![("sec-fetch-site", "cross-site".to_owned())],
        // A subdomain.
        vec![("sec-fetch-site", "same-site".to_owned())],
        vec![("sec-fetch-site", "none".to_owned())],
        vec![("origin", "https://evil.example".to_owned())],
        vec![("origin", "http://localhost:1".to_owned())],
        vec![("origin", "null".to_owned())],
        vec![],
    ];
    for headers in headers {
        for (method, path) in [
            (Method::POST, CREATE),
            (Method::POST, "/api/people"),
            (Method::POST, "/api/keys"),
            (Method::POST, "/api/webhooks"),
            (Method::DELETE, "/api/session"),
            (Method::POST, "/api/session/passkey"),
            (Method::POST, "/api/session/key"),
        ] {
            let request = ann.bare(method, path).json(&body);
            let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, value));
            problem(request.send().await.unwrap(), 403, "cross_site").await;
        }
    }
    // A form cannot send JSON.
    let form = ann.request(Method::POST, "/api/people").body("name=Joe&role=admin");
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    problem(form.send().await.unwrap(), 415, "unsupported_media_type").await;
    assert_eq!((app.rows("people"), app.rows("orders"), app.rows("webhook_endpoints")), (1, 0, 0));
    // The own page, in an old browser.
    let own = ann.bare(Method::POST, CREATE).header("origin", ann.origin()).json(&order("F-1"));
    created(own.send().await.unwrap()).await;
    // An image of another page leaves no access of hers, and fetches no document in her name.
    for (site, status) in [("cross-site", 401), ("same-site", 401), ("none", 200)] {
        let read = ann.bare(Method::GET, "/api/order").header("sec-fetch-site", site);
        assert_eq!(read.send().await.unwrap().status(), status, "{site}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_change_nothing() {
    let app = TestApp::start().await;
    let (id, ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Admin).await;
    let tables = ["people", "invitations", "passkeys", "sessions", "ceremonies", "api_keys"];
    let before = tables.map(|table| app.rows(table));
    let sessions = format!("/api/people/{}/sessions", id.0);
    for path in ["/api/session", "/api/session/ways", "/api/people", "/api/people/me", "/api/keys"]
        .into_iter()
        .chain([&*sessions])
    {
        for method in [Method::GET, Method::HEAD] {
            let answer = ann.bare(method, path).send().await.unwrap();
            assert_eq!(
                (answer.status().as_u16(), &answer.headers()["cache-control"]),
                (200, &"no-store".parse().unwrap()),
                "{path}"
            );
        }
    }
    for path in ["/api/session/key", "/api/session/passkey", "/api/session/invitation"] {
        let answer = ann.bare(Method::GET, path).send().await.unwrap();
        problem(answer, 405, "method_not_allowed").await;
    }
    assert_eq!(tables.map(|table| app.rows(table)), before);
}

/// Within ten seconds, by the clock that both have.
#[tokio::test(flavor = "multi_thread")]
async fn sign_out_ends_the_session_on_every_instance() {
    let first = Kind::Production.app().await;
    let stores = Wiring::on_database(first.wiring.servers().database_url());
    let second = TestApp::start_on(stores, first.clock.clone(), &[], Some(first.key.clone())).await;
    let (id, mut ann) = signed_in(&first, CLIENT, "Ann Roe", Role::Member).await;
    let (_, mut admin) = signed_in(&first, CLIENT, "Eve", Role::Admin).await;
    let elsewhere = |page: &Page| {
        let request = page.at(&second).request(Method::GET, "/api/session");
        async move { request.send().await.unwrap() }
    };
    for end in ["sign-out", "sessions", "disabled"] {
        ann.sign_in().await;
        let page = ann.clone();
        assert_eq!(elsewhere(&page).await.status(), 200, "{end}");
        let path = format!("/api/people/{}", id.0);
        match end {
            "sign-out" => ann.call(Method::DELETE, "/api/session", None).await,
            "sessions" => admin.call(Method::DELETE, &format!("{path}/sessions"), None).await,
            _ => admin.call(Method::PATCH, &path, Some(json!({ "disabled": true }))).await,
        };
        // At once here, and soon there.
        let here = page.request(Method::GET, "/api/session").send().await.unwrap();
        problem(here, 401, "session_ended").await;
        first.clock.advance(Duration::seconds(9));
        problem(elsewhere(&page).await, 401, "session_ended").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_role_counts_on_every_instance() {
    let first = Kind::Production.app().await;
    let stores = Wiring::on_database(first.wiring.servers().database_url());
    let second = TestApp::start_on(stores, first.clock.clone(), &[], Some(first.key.clone())).await;
    let (id, joe) = signed_in(&first, CLIENT, "Joe Doe", Role::Member).await;
    let (_, mut ann) = signed_in(&first, CLIENT, "Ann Roe", Role::Admin).await;
    let (mut elsewhere, path) = (joe.at(&second), format!("/api/people/{}", id.0));
    let keys = (Method::GET, "/api/keys");
    elsewhere.refused(keys.clone(), None, (403, "not_admin")).await;
    ann.call(Method::PATCH, &path, Some(json!({ "role": "admin" }))).await;
    first.clock.advance(Duration::seconds(9));
    elsewhere.get("/api/keys").await;
    ann.call(Method::PATCH, &path, Some(json!({ "role": "member" }))).await;
    first.clock.advance(Duration::seconds(9));
    elsewhere.refused(keys, None, (403, "not_admin")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_in_a_header_wins_over_the_cookie() {
    let app = TestApp::start().await;
    let (_, ann) = signed_in(&app, SERVICE, "Ann Roe", Role::Admin).await;
    // A program needs no Sec-Fetch-Site.
    let both = ann.bare(Method::POST, CREATE).bearer_auth(&app.key).json(&order("F-1"));
    let made = created(both.send().await.unwrap()).await;
    let read = app.read(&format!("/api/order/{}", made["order_id"])).await;
    assert_eq!(read["history"][0]["by"], "test");
    let wrong = ann.request(Method::GET, "/api/order").bearer_auth("nok_x").send().await.unwrap();
    problem(wrong, 401, "unauthorized").await;
}

/// Of a sign-in, of one more passkey, and of another person.
#[tokio::test(flavor = "multi_thread")]
async fn ceremony_ends_only_as_it_has_begun() {
    let app = TestApp::start().await;
    let (_, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let (_, mut joe) = signed_in(&app, CLIENT, "Joe Doe", Role::Admin).await;
    let add = (Method::POST, "/api/people/me/passkeys/finish");
    let sign_in = (Method::POST, "/api/session/passkey/finish");
    let login = (Method::POST, "/api/session/login/finish");
    let no_ceremony = (400, "no_ceremony");

    let credential = ann.credential(json!({ "purpose": "sign_in" })).await;
    let body = json!({ "credential": credential });
    ann.refused(add.clone(), Some(body.clone()), no_ceremony).await;
    // It is over with that.
    ann.refused(sign_in.clone(), Some(body), no_ceremony).await;
    ann.credential(json!({ "purpose": "sign_in" })).await;
    ann.refused(login, Some(json!({ "state": "s", "code": "c" })), no_ceremony).await;

    for by_other in [false, true] {
        let begun = ann.post("/api/people/me/passkeys", json!({})).await;
        let made = Authenticator::new().create(&begun["publicKey"].to_string(), &ann.origin());
        let made: serde_json::Value = serde_json::from_str(&made.unwrap()).unwrap();
        let body = Some(json!({ "credential": made }));
        if by_other {
            joe.ceremony = ann.ceremony.clone();
            joe.refused(add.clone(), body, no_ceremony).await;
        } else {
            ann.refused(sign_in.clone(), body, no_ceremony).await;
        }
    }
    assert_eq!((app.rows("passkeys"), app.rows("sessions")), (2, 2));
}
