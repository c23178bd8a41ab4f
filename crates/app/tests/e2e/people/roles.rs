//! Rights: members, admins of one side, keys, and the last admin.

use std::time::Instant;

use domain::{
    api_key::{ClientId, Party},
    person::Role,
};
use reqwest::Method;
use serde_json::{Value, json};
use time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    harness::{
        JSON, TestApp, WEBHOOKS, eventually,
        page::{CLIENT, Page, SERVICE, SESSION, signed_in},
        patiently, problem,
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    admin_of_one_side_reaches_nobody_of_another,
    last_admin_of_a_side_stays,
    last_way_to_sign_in_of_the_admins_stays,
    change_of_an_admin_who_is_none_any_more_ends,
    nobody_takes_the_name_of_another,
    changed_role_counts_in_the_next_request,
    admin_makes_a_webhook_in_their_name_and_a_member_none,
    own_passkeys_are_added_and_removed_but_for_the_last,
}

/// Returns the operations that only admins have, with a body for those that take one, from the document.
async fn operations_of_admins(app: &TestApp, id: i64) -> Vec<(Method, String, Option<Value>)> {
    let document = app.read("/openapi.json").await;
    let mut found = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let is_of_admins = path.starts_with("/api/keys")
            || path.starts_with("/api/people") && !path.starts_with("/api/people/me");
        for (method, operation) in operations.as_object().unwrap() {
            if is_of_admins {
                let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                let number = |path: &str, name: &str| path.replace(name, &id.to_string());
                let path = ["{person_id}", "{key_id}", "{passkey_id}"]
                    .iter()
                    .fold(path.clone(), |path, name| number(&path, name));
                let body = &operation["requestBody"]["content"]["application/json"];
                let body = &body["examples"]["request"]["value"];
                found.push((method, path, Some(body.clone()).filter(|it| !it.is_null())));
            }
        }
    }
    assert!(found.len() >= 12, "{found:?}");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn member_and_keys_manage_nothing() {
    let app = TestApp::start().await;
    let (_, mut member) = signed_in(&app, CLIENT, "Joe Doe", Role::Member).await;
    let (admin, _) = signed_in(&app, CLIENT, "Ann Roe", Role::Admin).await;
    let mut of_key = Page::of(&app);
    let begin = of_key.request(Method::POST, "/api/session/key").bearer_auth(&app.key);
    let answer = begin.json(&json!({})).send().await.unwrap();
    of_key.keep(&answer);
    let tables = ["people", "invitations", "passkeys", "api_keys"];
    let before = tables.map(|table| app.rows(table));
    for (method, path, body) in operations_of_admins(&app, admin.0).await {
        let name = (method.clone(), &*path);
        member.refused(name.clone(), body.clone(), (403, "not_admin")).await;
        of_key.refused(name, body.clone(), (403, "key_cannot_manage")).await;
        let request = app.request(method, &path);
        let request = if let Some(body) = body { request.json(&body) } else { request };
        problem(request.send().await.unwrap(), 403, "key_cannot_manage").await;
    }
    // Nor themselves: a key has no person.
    for path in ["/api/people/me", "/api/session"] {
        let answer = app.get(path).await;
        let code = if path == "/api/session" { "no_session" } else { "key_cannot_manage" };
        problem(answer, 403, code).await;
    }
    assert_eq!(tables.map(|table| app.rows(table)), before);
}

async fn admin_of_one_side_reaches_nobody_of_another(kind: Kind) {
    let app = kind.app().await;
    // The client 1 has a key.
    signed_in(&app, SERVICE, "Zoe", Role::Member).await;
    let (theirs, mut victim) = signed_in(&app, SERVICE, "Joe Doe", Role::Admin).await;
    let key = victim.post("/api/keys", json!({ "name": "theirs" })).await;
    let passkey = victim.get("/api/people/me").await["passkeys"][0]["id"].as_i64().unwrap();
    let other = Party::Client(ClientId(theirs.0));
    let (_, mut admin) = signed_in(&app, other, "Ann Roe", Role::Admin).await;
    let tables = ["people", "invitations", "passkeys", "api_keys"];
    let before = tables.map(|table| app.rows(table));
    let person = format!("/api/people/{}", theirs.0);
    let key = format!("/api/keys/{}", key["id"]);
    for (method, path, body) in [
        (Method::PATCH, person.clone(), Some(json!({ "role": "member", "disabled": true }))),
        (Method::POST, format!("{person}/invitation"), None),
        (Method::DELETE, format!("{person}/invitation"), None),
        (Method::GET, format!("{person}/sessions"), None),
        (Method::DELETE, format!("{person}/sessions"), None),
        (Method::DELETE, format!("{person}/passkeys/{passkey}"), None),
        (Method::POST, format!("{key}/rotate"), None),
        (Method::DELETE, key.clone(), None),
    ] {
        let foreign =
            admin.refused((method.clone(), &path), body.clone(), (404, "not_found")).await;
        // As for what is not there.
        let missing = path.replace(&format!("/{}", theirs.0), "/999999");
        let missing = missing.replace(&key, "/api/keys/999999");
        let missing = admin.refused((method, &missing), body, (404, "not_found")).await;
        assert_eq!(foreign["detail"], missing["detail"], "{path}");
    }
    assert_eq!(tables.map(|table| app.rows(table)), before);
    let listed = admin.get("/api/people").await;
    assert_eq!(listed["people"].as_array().unwrap().len(), 1);
    assert_eq!(admin.get("/api/keys").await["keys"], json!([]));
    assert_eq!(victim.get("/api/people/me").await["role"], "admin");
}

async fn last_admin_of_a_side_stays(kind: Kind) {
    let app = kind.app().await;
    let (id, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Admin).await;
    let own = format!("/api/people/{}", id.0);
    for change in [json!({ "role": "member" }), json!({ "disabled": true })] {
        let change = Some(change);
        ann.refused((Method::PATCH, &own), change, (409, "last_admin")).await;
    }
    // An admin of another side is none of this one.
    signed_in(&app, SERVICE, "Eve", Role::Admin).await;
    let change = Some(json!({ "role": "member" }));
    ann.refused((Method::PATCH, &own), change.clone(), (409, "last_admin")).await;
    let (_, mut joe) = signed_in(&app, CLIENT, "Joe Doe", Role::Admin).await;
    joe.call(Method::PATCH, &own, change).await;
    assert_eq!(ann.get("/api/session").await["person"]["role"], "member");
}

/// An admin whose passkey another one has taken is no admin who stays.
async fn last_way_to_sign_in_of_the_admins_stays(kind: Kind) {
    let app = kind.app().await;
    let (ann_id, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Admin).await;
    let (joe_id, mut joe) = signed_in(&app, CLIENT, "Joe Doe", Role::Admin).await;
    let listed = ann.get("/api/people").await;
    let passkey_of = |at: usize| {
        let person = &listed["people"][at];
        format!("/api/people/{}/passkeys/{}", person["id"], person["passkeys"][0]["id"])
    };
    let (of_ann, of_joe) = (passkey_of(0), passkey_of(1));
    assert!(of_joe.starts_with(&format!("/api/people/{}/", joe_id.0)), "{of_joe}");
    ann.call(Method::DELETE, &of_joe, None).await;
    joe.refused((Method::DELETE, &of_ann), None, (409, "last_admin")).await;
    let path = format!("/api/people/{}", ann_id.0);
    for change in [json!({ "role": "member" }), json!({ "disabled": true })] {
        joe.refused((Method::PATCH, &path), Some(change), (409, "last_admin")).await;
    }
    ann.sign_in().await;
    // Joe gets another one, and is an admin who stays.
    let path = format!("/api/people/{}/invitation", joe_id.0);
    let link = ann.post(&path, json!({})).await["link"].as_str().unwrap().to_owned();
    let mut again = Page::of(&app);
    again.accept(link.split_once("#invite=").unwrap().1).await;
    again.call(Method::DELETE, &of_ann, None).await;
}

/// An invitation by an admin, which was admitted, and the end of which has not been sent.
struct Begun {
    at: Instant,
    stream: TcpStream,
    rest: String,
}

impl Begun {
    /// Begins an invitation in the session of the page of a person with this number.
    async fn in_session_of(page: &Page, id: i64, app: &TestApp) -> Self {
        let query = format!("SELECT last_used_at FROM sessions WHERE person_id = {id}");
        let used = || app.wiring.lines(&query);
        let before = used();
        app.clock.advance(Duration::SECOND);
        let body = json!({ "name": format!("Joe {id}"), "role": "member" }).to_string();
        let (first, rest) = body.split_at(5);
        let head = format!(
            "POST /api/people HTTP/1.1\r\nHost: {}\r\nCookie: {SESSION}={}\r\n\
             Sec-Fetch-Site: same-origin\r\n{JSON}Content-Length: {}\r\nConnection: close\r\n\r\n{first}",
            page.host,
            page.session.as_ref().unwrap(),
            body.len()
        );
        let at = Instant::now();
        let mut stream = TcpStream::connect(app.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // It was admitted: it has used the session.
        eventually(|| used() != before).await;
        Self { at, stream, rest: rest.to_owned() }
    }

    /// Returns whether the end can still arrive within the 15 seconds of a body.
    fn is_in_time(&self) -> bool {
        self.at.elapsed().as_secs() < 10
    }

    /// Sends the end, and returns the answer.
    async fn end(mut self) -> String {
        self.stream.write_all(self.rest.as_bytes()).await.unwrap();
        let mut answer = String::new();
        patiently(self.stream.read_to_string(&mut answer)).await.unwrap();
        answer
    }
}

/// An admitted request ends with the rights that it had. The next one has the new ones.
async fn change_of_an_admin_who_is_none_any_more_ends(kind: Kind) {
    let app = kind.app().await;
    let (_, mut eve) = signed_in(&app, CLIENT, "Eve", Role::Admin).await;
    for (change, after) in [
        (json!({ "role": "member" }), (403, "not_admin")),
        (json!({ "disabled": true }), (401, "session_ended")),
    ] {
        // A machine that is too slow once begins again, with another admin.
        let mut tries = 0..5;
        let (mut ann, begun) = loop {
            assert!(tries.next().is_some(), "no change comes within the time of a body");
            let (id, ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Admin).await;
            let begun = Begun::in_session_of(&ann, id.0, &app).await;
            let path = format!("/api/people/{}", id.0);
            eve.call(Method::PATCH, &path, Some(change.clone())).await;
            if begun.is_in_time() {
                break (ann, begun);
            }
        };
        let answer = begun.end().await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        ann.refused((Method::GET, "/api/people"), None, after).await;
        // The link is in the hands of a person who is no admin: nobody becomes a person by it.
        let token = answer.split_once("#invite=").unwrap().1.split('"').next().unwrap();
        let mut joe = Page::of(&app);
        let accept = json!({ "purpose": "accept", "token": token });
        let body = Some(json!({ "credential": joe.credential(accept).await }));
        let finish = (Method::POST, "/api/session/passkey/finish");
        joe.refused(finish, body, (410, "invitation_withdrawn")).await;
    }
}

/// Histories show no number.
async fn nobody_takes_the_name_of_another(kind: Kind) {
    let app = kind.app().await;
    let (_, mut eve) = signed_in(&app, CLIENT, "Eve Po\u{eb}", Role::Admin).await;
    let (id, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let in_use = (409, "name_in_use");
    for name in ["Eve Po\u{eb}", "EVE poe\u{308}", " eve  po\u{eb} ", "former user"] {
        let own = (Method::PATCH, "/api/people/me");
        let body = json!({ "name": name });
        ann.refused(own, Some(body.clone()), in_use).await;
        let path = format!("/api/people/{}", id.0);
        eve.refused((Method::PATCH, &path), Some(body), in_use).await;
        let invite = Some(json!({ "name": name, "role": "member" }));
        eve.refused((Method::POST, "/api/people"), invite, in_use).await;
    }
    assert_eq!(app.rows("people"), 2);
    // Nor that of a key, and no key gets that of a person. `test` is the first key of the client.
    let issue = (Method::POST, "/api/keys");
    eve.post(issue.1, json!({ "name": "Blue Desk" })).await;
    for name in ["test", "blue DESK"] {
        let own = (Method::PATCH, "/api/people/me");
        ann.refused(own, Some(json!({ "name": name })), in_use).await;
        let invite = Some(json!({ "name": name, "role": "member" }));
        eve.refused((Method::POST, "/api/people"), invite, in_use).await;
    }
    for name in ["Ann Roe", "EVE poe\u{308}"] {
        eve.refused(issue.clone(), Some(json!({ "name": name })), in_use).await;
    }
    // The own name goes along with another property, and another side has names of its own.
    let own = json!({ "name": "Ann Roe", "email": "ann@title.example.com" });
    ann.call(Method::PATCH, "/api/people/me", Some(own)).await;
    let (_, mut zoe) = signed_in(&app, SERVICE, "Zoe", Role::Member).await;
    let own = json!({ "name": "Ann Roe" });
    zoe.call(Method::PATCH, "/api/people/me", Some(own)).await;
}

async fn admin_makes_a_webhook_in_their_name_and_a_member_none(kind: Kind) {
    let app = kind.app_with(&WEBHOOKS).await;
    let (id, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Admin).await;
    let (_, mut joe) = signed_in(&app, CLIENT, "Joe Doe", Role::Member).await;
    let body = json!({ "url": "http://127.0.0.1:9999/" });
    let create = (Method::POST, "/api/webhooks");
    joe.refused(create, Some(body.clone()), (403, "forbidden")).await;
    joe.refused((Method::GET, "/api/webhooks"), None, (403, "forbidden")).await;
    assert_eq!(app.rows("webhook_endpoints"), 0);
    let created = ann.post("/api/webhooks", body).await;
    let query = "SELECT person_id, subject_id FROM accesses \
        WHERE kind = 'create_webhook' AND outcome = 'ok'";
    // The two databases print columns in two ways.
    let rows = || app.wiring.lines(query).into_iter().map(|row| row.replace(['|', '\t'], " "));
    let expected = [format!("{} {}", id.0, created["id"])];
    eventually(|| rows().eq(expected.iter().cloned())).await;
}

async fn changed_role_counts_in_the_next_request(kind: Kind) {
    let app = kind.app().await;
    let (_, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Admin).await;
    let (id, mut joe) = signed_in(&app, CLIENT, "Joe Doe", Role::Member).await;
    let path = format!("/api/people/{}", id.0);
    joe.refused((Method::GET, "/api/keys"), None, (403, "not_admin")).await;
    ann.call(Method::PATCH, &path, Some(json!({ "role": "admin" }))).await;
    joe.get("/api/keys").await;
    ann.call(Method::PATCH, &path, Some(json!({ "role": "member" }))).await;
    joe.refused((Method::GET, "/api/keys"), None, (403, "not_admin")).await;
    let disabled = ann.call(Method::PATCH, &path, Some(json!({ "disabled": true }))).await;
    assert_eq!(disabled["state"], "disabled");
    joe.refused((Method::GET, "/api/order"), None, (401, "session_ended")).await;
    let credential = joe.credential(json!({ "purpose": "sign_in" })).await;
    let finish = (Method::POST, "/api/session/passkey/finish");
    let body = Some(json!({ "credential": credential }));
    joe.refused(finish, body, (403, "person_disabled")).await;
    let again = format!("{path}/invitation");
    ann.refused((Method::POST, &again), None, (403, "person_disabled")).await;
    ann.call(Method::PATCH, &path, Some(json!({ "disabled": false }))).await;
    joe.sign_in().await;
    joe.get("/api/order").await;
}

async fn own_passkeys_are_added_and_removed_but_for_the_last(kind: Kind) {
    let app = kind.app().await;
    let (id, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let first = ann.get("/api/people/me").await["passkeys"][0]["id"].as_i64().unwrap();
    let own = |passkey: i64| format!("/api/people/me/passkeys/{passkey}");
    ann.refused((Method::DELETE, &own(first)), None, (409, "last_method")).await;
    let mut phone = test_servers::authenticator::Authenticator::new();
    let options = ann.post("/api/people/me/passkeys", json!({})).await["publicKey"].to_string();
    let made = phone.create(&options, &ann.origin()).unwrap();
    let made: Value = serde_json::from_str(&made).unwrap();
    let finish = json!({ "credential": made, "name": "Phone" });
    let added = ann.post("/api/people/me/passkeys/finish", finish).await;
    assert_eq!(added["name"], "Phone");
    ann.call(Method::DELETE, &own(first), None).await;
    // The other one signs in from now on, and the first no more.
    let mut with_phone = Page { authenticator: phone, session: None, ..ann.clone() };
    with_phone.sign_in().await;
    let mut lost = Page { session: None, ..ann.clone() };
    let credential = lost.credential(json!({ "purpose": "sign_in" })).await;
    let body = Some(json!({ "credential": credential }));
    let finish = (Method::POST, "/api/session/passkey/finish");
    lost.refused(finish, body, (401, "unknown_person")).await;
    app.clock.advance(Duration::minutes(5));
    let begin = (Method::POST, "/api/people/me/passkeys");
    ann.refused(begin, Some(json!({})), (403, "sign_in_again")).await;
    let name = json!({ "name": "Ann Smith" });
    let changed = ann.call(Method::PATCH, "/api/people/me", Some(name)).await;
    assert_eq!((&changed["name"], &changed["id"]), (&json!("Ann Smith"), &json!(id.0)));
    let role = Some(json!({ "role": "admin" }));
    ann.refused((Method::PATCH, "/api/people/me"), role, (400, "validation_failed")).await;
}
