//! Logins at companies, by OpenID Connect, at `oidc-provider`.

use std::sync::Arc;

use contract_tests::fakes::ManualClock;
use domain::{person::Role, ports::Clock as _};
use reqwest::Method;
use serde_json::{Value, json};
use test_servers::oidc::{CLIENT_ID, CLIENT_SECRET, OidcProvider, REDIRECT_URI, parameter};
use time::Duration;

use crate::{
    harness::{
        TestApp, clock_behind_system,
        page::{CLIENT, Page, invited, signed_in},
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    person_is_issuer_and_subject_whatever_the_address,
}

const BEGIN: (Method, &str) = (Method::POST, "/api/session/login");
const FINISH: (Method, &str) = (Method::POST, "/api/session/login/finish");

/// A service with two logins, `Office` and `Other`.
struct Offices {
    app: TestApp,
    office: OidcProvider,
    other: OidcProvider,
}

impl Offices {
    /// The providers have the clock of the system. A token counts for an hour, and not before it is issued.
    async fn start(kind: Kind) -> Self {
        Self::start_at(kind, clock_behind_system(Duration::minutes(-5))).await
    }

    async fn start_at(kind: Kind, clock: Arc<ManualClock>) -> Self {
        let [office, other] = [(), ()].map(|()| OidcProvider::start(&json!({})));
        let flags = [
            format!("--oidc=Office={},Other={}", office.issuer(), other.issuer()),
            format!("--oidc-client=Office={CLIENT_ID},Other={CLIENT_ID}"),
            format!("--oidc-secret=Office={CLIENT_SECRET},Other={CLIENT_SECRET}"),
        ];
        let flags = flags.each_ref().map(String::as_str);
        let app = TestApp::start_on(kind.wiring(), clock, &flags, None).await;
        Self { app, office, other }
    }

    /// Lets the clock catch up with that of the providers, which tell when a person has signed in again.
    fn catch_up(&self) {
        self.app.clock.advance(operator::SystemClock.now() - self.app.clock.now());
    }

    /// Opens the console where the client of the providers has it.
    fn page(&self) -> Page {
        let mut page = Page::of(&self.app);
        "localhost:8080".clone_into(&mut page.host);
        page
    }

    /// Invites a person, who accepts with an account of the office. Returns the session.
    async fn accepted(&self, subject: &str) -> (Page, Value) {
        let (_, token) = invited(&self.app, CLIENT, "Ann Roe", Role::Member).await;
        let mut page = self.page();
        let purpose = json!({ "purpose": "accept", "token": token.expose() });
        let url = begin(&mut page, "Office", purpose).await;
        let back = self.office.sign_in(&url, subject, json!({ "email": "ann@title.example.com" }));
        let answer = answer_of(&back.await);
        if self.app.clock.now() < operator::SystemClock.now() {
            self.catch_up();
        }
        let session = page.post(FINISH.1, answer).await;
        (page, session)
    }

    /// Signs in at a provider in a new browser, up to the answer of the provider.
    async fn signed_in_at(
        &self,
        (name, provider): (&str, &OidcProvider),
        subject: &str,
        claims: Value,
    ) -> (Page, Value) {
        let mut page = self.page();
        let url = begin(&mut page, name, json!({ "purpose": "sign_in" })).await;
        let back = provider.sign_in(&url, subject, claims).await;
        (page, answer_of(&back))
    }

    async fn signed_in(&self, subject: &str) -> (Page, Value) {
        self.signed_in_at(("Office", &self.office), subject, json!({})).await
    }
}

/// Begins a login, and returns where the browser goes.
async fn begin(page: &mut Page, provider: &str, members: Value) -> String {
    let mut body = members;
    body["provider"] = json!(provider);
    page.post(BEGIN.1, body).await["url"].as_str().unwrap().to_owned()
}

/// Returns what the page sends when the provider has led back to it.
fn answer_of(back: &str) -> Value {
    assert!(back.starts_with(&format!("{REDIRECT_URI}?")), "{back}");
    let [state, code, iss] = ["state", "code", "iss"].map(|name| parameter(back, name));
    json!({ "state": state, "code": code, "iss": iss })
}

async fn is_stranger(page: &mut Page) {
    assert_eq!(page.session, None);
    assert_eq!(page.send(Method::GET, "/api/session", None).await.status(), 401);
}

async fn person_is_issuer_and_subject_whatever_the_address(kind: Kind) {
    let offices = Offices::start(kind).await;
    let (office, other) = (("Office", &offices.office), ("Other", &offices.other));
    let (_, ann) = offices.accepted("ann").await;
    assert_eq!(
        (&ann["person"]["name"], &ann["way"]),
        (&json!("Ann Roe"), &json!("login:Office")),
        "{ann}"
    );

    let address = "ann@title.example.com";
    for (provider, subject, claims) in [
        (office, "bob", json!({ "email": address, "email_verified": true })),
        (office, "bob", json!({ "email": address, "email_verified": false })),
        (office, "bob", json!({ "email": address, "email_verified": "true" })),
        (office, "bob", json!({ "email": address })),
        (office, "Ann", json!({ "email": address, "email_verified": true })),
        (other, "ann", json!({ "email": address, "email_verified": true })),
    ] {
        let (mut page, answer) = offices.signed_in_at(provider, subject, claims).await;
        page.refused(FINISH, Some(answer), (401, "unknown_person")).await;
        is_stranger(&mut page).await;
    }
    for claims in [
        json!({}),
        json!({ "email": "roe@new.example" }),
        json!({ "email": "roe@new.example", "email_verified": "true" }),
    ] {
        let (mut page, answer) = offices.signed_in_at(office, "ann", claims).await;
        let session = page.post(FINISH.1, answer).await;
        assert_eq!(session["person"], ann["person"], "{session}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn account_is_one_person() {
    let offices = Offices::start(Kind::Embedded).await;
    let (_, ann) = offices.accepted("ann").await;
    // Another invitation to the same address is another person.
    let (_, bob) = offices.accepted("bob").await;
    assert_ne!(ann["person"]["id"], bob["person"]["id"]);
    let (_, token) = invited(&offices.app, CLIENT, "Ann Roe", Role::Admin).await;
    let mut page = offices.page();
    let purpose = json!({ "purpose": "accept", "token": token.expose() });
    let url = begin(&mut page, "Office", purpose).await;
    let back = offices.office.sign_in(&url, "ann", json!({})).await;
    let refused = page.send(FINISH.0, FINISH.1, Some(answer_of(&back))).await;
    assert!(refused.status().is_client_error(), "{}", refused.status());
    is_stranger(&mut page).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn person_that_signs_in_again_is_that_of_the_session() {
    let offices = Offices::start_at(Kind::Embedded, clock_behind_system(Duration::ZERO)).await;
    let (mut page, ann) = offices.accepted("ann").await;
    offices.accepted("bob").await;
    for (subject, is_same) in [("bob", false), ("ann", true)] {
        let url = begin(&mut page, "Office", json!({ "purpose": "confirm" })).await;
        let back = offices.office.sign_in(&url, subject, json!({})).await;
        offices.catch_up();
        if is_same {
            let session = page.post(FINISH.1, answer_of(&back)).await;
            assert_eq!(session["person"]["id"], ann["person"]["id"], "{session}");
        } else {
            page.refused(FINISH, Some(answer_of(&back)), (403, "other_person")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn state_must_be_that_of_this_browser_and_of_the_last_ten_minutes() {
    let offices = Offices::start(Kind::Embedded).await;
    offices.accepted("ann").await;
    let gone = (400, "no_ceremony");

    let (mut mine, answer) = offices.signed_in("ann").await;
    let (mut others, of_others) = offices.signed_in("ann").await;
    // Another browser, with a ceremony of its own or with none.
    others.refused(FINISH, Some(answer.clone()), gone).await;
    offices.page().refused(FINISH, Some(answer.clone()), gone).await;
    // A ceremony that fails is over.
    others.refused(FINISH, Some(of_others), gone).await;
    is_stranger(&mut others).await;
    mine.post(FINISH.1, answer).await;

    for state in [json!(null), json!(""), json!("another state")] {
        let (mut page, mut answer) = offices.signed_in("ann").await;
        answer["state"] = state.clone();
        let refused = page.send(FINISH.0, FINISH.1, Some(answer)).await;
        assert_eq!(refused.status(), 400, "{state}");
        is_stranger(&mut page).await;
    }

    let (mut page, answer) = offices.signed_in("ann").await;
    offices.app.clock.advance(Duration::minutes(10));
    page.refused(FINISH, Some(answer), gone).await;
    is_stranger(&mut page).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_counts_once_and_for_its_own_login_only() {
    let offices = Offices::start(Kind::Embedded).await;
    offices.accepted("ann").await;
    let (mut page, used) = offices.signed_in("ann").await;
    let ceremony = page.ceremony.clone();
    page.post(FINISH.1, used.clone()).await;
    page.ceremony = ceremony;
    page.refused(FINISH, Some(used.clone()), (400, "no_ceremony")).await;

    // Codes of other logins, one used and one fresh, under the state of a login that waits.
    let (_, fresh) = offices.signed_in("ann").await;
    for stolen in [used, fresh] {
        let mut victim = offices.page();
        let url = begin(&mut victim, "Office", json!({ "purpose": "sign_in" })).await;
        let state = parameter(&url, "state");
        let body = json!({ "state": state, "code": stolen["code"], "iss": stolen["iss"] });
        victim.refused(FINISH, Some(body), (401, "login_rejected")).await;
        is_stranger(&mut victim).await;
    }
}

/// The mix-up of RFC 9207.
#[tokio::test(flavor = "multi_thread")]
async fn answer_of_another_issuer_signs_nobody_in() {
    let offices = Offices::start(Kind::Embedded).await;
    offices.accepted("ann").await;
    for iss in [json!(offices.other.issuer()), json!(null), json!("")] {
        let (mut page, mut answer) = offices.signed_in("ann").await;
        answer["iss"] = iss;
        page.refused(FINISH, Some(answer), (401, "login_rejected")).await;
        is_stranger(&mut page).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn browser_goes_to_the_provider_with_pkce_and_comes_back_to_this_service_only() {
    let offices = Offices::start(Kind::Embedded).await;
    offices.accepted("ann").await;
    let sign_in = json!({ "purpose": "sign_in" });
    let url = begin(&mut offices.page(), "Office", sign_in.clone()).await;
    assert!(url.starts_with(&format!("{}/", offices.office.issuer())), "{url}");
    for (name, expected) in [
        ("redirect_uri", REDIRECT_URI),
        ("code_challenge_method", "S256"),
        ("response_type", "code"),
        ("scope", "openid"),
    ] {
        assert_eq!(parameter(&url, name).as_deref(), Some(expected), "{url}");
    }
    let again = begin(&mut offices.page(), "Office", sign_in.clone()).await;
    for name in ["state", "nonce", "code_challenge"] {
        let value = parameter(&url, name).unwrap();
        assert!(value.len() >= 32 && !again.contains(&value), "{name}");
    }
    let mut unknown = sign_in;
    unknown["provider"] = json!("office");
    offices.page().refused(BEGIN, Some(unknown), (404, "unknown_provider")).await;

    for (return_to, expected) in [
        ("/console#order=7", Some("/console#order=7")),
        ("https://evil.example/", None),
        ("//evil.example", None),
        ("/\\evil.example", None),
        ("javascript:evil()", None),
    ] {
        let mut page = offices.page();
        let purpose = json!({ "purpose": "sign_in", "return_to": return_to });
        let url = begin(&mut page, "Office", purpose).await;
        let back = offices.office.sign_in(&url, "ann", json!({})).await;
        let session = page.post(FINISH.1, answer_of(&back)).await;
        let path = session["return_to"].as_str().unwrap();
        assert!(expected.is_none_or(|expected| path == expected), "{path}");
        assert!(path.starts_with('/') && !path.contains("evil"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_that_is_down_holds_up_no_other_way_to_sign_in() {
    let offices = Offices::start(Kind::Embedded).await;
    let Offices { app, office, .. } = &offices;
    offices.accepted("ann").await;
    let (_, mut by_passkey) = signed_in(app, CLIENT, "Joe Doe", Role::Member).await;
    let (mut page, answer) = offices.signed_in("ann").await;
    office.stop();
    let unavailable = (503, "provider_unavailable");
    page.refused(FINISH, Some(answer), unavailable).await;
    // The document is read again after an hour.
    app.clock.advance(Duration::minutes(61));
    let sign_in = json!({ "provider": "Office", "purpose": "sign_in" });
    offices.page().refused(BEGIN, Some(sign_in), unavailable).await;

    let ways = offices.page().get("/api/session/ways").await;
    assert_eq!(ways["logins"], json!(["Office", "Other"]), "{ways}");
    begin(&mut offices.page(), "Other", json!({ "purpose": "sign_in" })).await;
    by_passkey.sign_in().await;
    let by_key = offices.page().request(Method::POST, "/api/session/key").bearer_auth(&app.key);
    assert_eq!(by_key.json(&json!({})).send().await.unwrap().status(), 201);

    // It is asked again.
    office.start_again();
    begin(&mut offices.page(), "Office", json!({ "purpose": "sign_in" })).await;
}
