use biscuit::{jwa::SignatureAlgorithm, jws::Secret};
use contract_tests::fakes::ManualClock;
use domain::ports::error_chain;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use test_servers::certificates::Certificates;
use tokio::net::TcpSocket;

use super::*;
use crate::{
    settings::Issuer,
    test_provider::{Reaction, TestKey, TestProvider, signed},
};

/// A limit that no call meets on a busy machine. A test of the limit sets its own.
const GENEROUS: Limit = Limit::from_hours(1);

const SECRET: &str = "passw0rd +/:";

/// A provider with one key, and the service's view of it.
struct Login {
    server: TestProvider,
    key: TestKey,
    clock: Arc<ManualClock>,
    provider: Provider,
}

impl Login {
    async fn new() -> Self {
        Self::with(Some(SECRET)).await
    }

    async fn with(client_secret: Option<&str>) -> Self {
        let (server, key) = (TestProvider::start().await, TestKey::new("first"));
        server.has_keys(&[&key]);
        let clock = Arc::new(ManualClock::default());
        let provider = provider_at(&server.issuer, client_secret, &clock);
        Self { server, key, clock, provider }
    }

    /// Returns the claims of a token for the login.
    fn claims(&self) -> Value {
        let now = self.clock.now().unix_timestamp();
        json!({
            "iss": self.server.issuer,
            "sub": "Ann",
            "aud": "orders",
            "exp": now + 300,
            "iat": now,
            "nonce": pending().nonce,
        })
    }

    /// Returns those claims with other members. `null` removes one.
    fn claims_but(&self, members: &Value) -> Value {
        let mut claims = self.claims();
        for (name, value) in members.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        claims
    }

    async fn finish(&self) -> Result<Identity, LoginError> {
        self.provider.finish(&pending(), &answer(None), self.clock.now()).await
    }

    /// Returns the outcome of a login whose token is this one.
    async fn outcome(&self, id_token: &str) -> String {
        self.server.has_token(id_token);
        outcome(self.finish().await)
    }
}

fn provider_at(issuer: &str, secret: Option<&str>, clock: &Arc<ManualClock>) -> Provider {
    let settings = ProviderSettings {
        name: "Office".to_owned(),
        issuer: Issuer::parse(issuer).unwrap(),
        client_id: "orders".to_owned(),
        client_secret: secret.map(str::to_owned),
    };
    let http = Http::trusting(RootCertStore::empty()).unwrap();
    let mut provider = Provider::new(settings, http, Arc::<ManualClock>::clone(clock));
    provider.limit = GENEROUS;
    provider
}

/// The verifier is that of RFC 7636, appendix B.
fn pending() -> PendingLogin {
    PendingLogin {
        provider: "Office".to_owned(),
        redirect_uri: "https://orders.example.com/console".to_owned(),
        state: "the state".to_owned(),
        nonce: "the nonce".to_owned(),
        verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
        again_since: None,
    }
}

/// Returns what the provider has sent along.
fn answer(issuer: Option<&str>) -> LoginAnswer {
    LoginAnswer {
        state: pending().state,
        code: "a code".to_owned(),
        issuer: issuer.map(str::to_owned),
    }
}

/// Returns the subject, or the kind of the error and its causes.
fn outcome(result: Result<Identity, LoginError>) -> String {
    match result {
        Ok(identity) => identity.subject,
        Err(error) => {
            let kind = match error {
                LoginError::Unavailable(_) => "unavailable",
                LoginError::Rejected(_) => "rejected",
            };
            let text = error_chain(&error);
            for secret in [SECRET, "passw0rd", "a code", "the nonce", &pending().verifier] {
                assert!(!text.contains(secret), "{text}");
            }
            format!("{kind}: {text}")
        }
    }
}

fn is_rejected(outcome: &str, reason: &str) -> bool {
    outcome.starts_with("rejected: ") && outcome.contains(reason)
}

#[tokio::test]
async fn browser_goes_with_the_challenge_of_s256_and_asks_for_nothing_personal() {
    let login = Login::new().await;
    let url = login.provider.begin(&pending()).await.unwrap();
    let expected = format!(
        "{}/authorize?tenant=7&response_type=code&client_id=orders\
         &redirect_uri=https%3A%2F%2Forders.example.com%2Fconsole&scope=openid&state=the+state\
         &nonce=the+nonce&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM\
         &code_challenge_method=S256",
        login.server.issuer
    );
    assert_eq!(url, expected);
}

#[tokio::test]
async fn code_is_exchanged_with_the_verifier_and_the_secret_of_the_client() {
    let form = "grant_type=authorization_code&code=a+code\
                &redirect_uri=https%3A%2F%2Forders.example.com%2Fconsole\
                &code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    // The base64 text of `orders:passw0rd+%2B%2F%3A`.
    let basic = Some("authorization: Basic b3JkZXJzOnBhc3N3MHJkKyUyQiUyRiUzQQ==");
    for (secret, methods, header, more) in [
        (Some(SECRET), json!(null), basic, ""),
        (Some(SECRET), json!(["client_secret_post", "client_secret_basic"]), basic, ""),
        (
            Some(SECRET),
            json!(["client_secret_post", "private_key_jwt"]),
            None,
            "&client_id=orders&client_secret=passw0rd+%2B%2F%3A",
        ),
        (None, json!(null), None, "&client_id=orders"),
    ] {
        let login = Login::with(secret).await;
        let mut document = login.server.document();
        document["token_endpoint_auth_methods_supported"] = methods;
        login.server.has_document(&document);
        assert_eq!(login.outcome(&login.key.sign(&login.claims())).await, "Ann");
        let received = login.server.received("POST /token");
        let [(head, body)] = &received[..] else { panic!("{received:?}") };
        assert_eq!(*body, format!("{form}{more}"));
        let sent = head.lines().find(|line| line.starts_with("authorization"));
        assert_eq!(sent, header);
    }
}

#[tokio::test]
async fn identity_is_issuer_and_subject_and_no_other_claim_decides() {
    let login = Login::new().await;
    for claims in [
        json!({}),
        json!({ "email": "ann@office.example", "email_verified": false }),
        json!({ "email": "ann@office.example", "email_verified": "true" }),
        json!({ "email": "changed@office.example", "email_verified": true, "name": "Bob" }),
        json!({ "email": 7, "email_verified": {}, "groups": [1, null] }),
    ] {
        login.server.has_token(&login.key.sign(&login.claims_but(&claims)));
        let Identity { issuer, subject } = login.finish().await.unwrap();
        assert_eq!((issuer, &*subject), (login.server.issuer.clone(), "Ann"), "{claims}");
    }
    let claims = json!({ "sub": "Bob", "email": "ann@office.example", "email_verified": true });
    assert_eq!(login.outcome(&login.key.sign(&login.claims_but(&claims))).await, "Bob");
}

/// A code of another provider is shown to none.
#[tokio::test]
async fn answer_of_another_issuer_does_not_count() {
    for says in [json!(null), json!(false), json!(true)] {
        let login = Login::new().await;
        let mut document = login.server.document();
        document["authorization_response_iss_parameter_supported"] = says.clone();
        login.server.has_document(&document);
        login.server.has_token(&login.key.sign(&login.claims()));
        let own = login.server.issuer.clone();
        let finish = async |issuer: Option<&str>| {
            let now = login.clock.now();
            outcome(login.provider.finish(&pending(), &answer(issuer), now).await)
        };
        for other in ["", "https://other.example", &format!("{own}/"), &own.to_uppercase()] {
            let finished = finish(Some(other)).await;
            assert!(is_rejected(&finished, "another issuer"), "{other}: {finished}");
        }
        let unnamed = finish(None).await;
        if says == json!(true) {
            assert!(is_rejected(&unnamed, "does not name its issuer"), "{unnamed}");
            assert!(login.server.received("POST /token").is_empty());
        } else {
            assert_eq!(unnamed, "Ann", "{says}");
        }
        assert_eq!(finish(Some(&own)).await, "Ann", "{says}");
    }
}

#[tokio::test]
async fn two_subjects_that_differ_in_case_are_two() {
    let login = Login::new().await;
    let claims = login.claims_but(&json!({ "sub": "ann" }));
    assert_eq!(login.outcome(&login.key.sign(&claims)).await, "ann");
}

#[tokio::test]
async fn document_must_be_that_of_the_issuer_with_safe_addresses_and_s256() {
    let login = Login::new().await;
    let issuer = &login.server.issuer;
    for (members, reason) in [
        (json!({ "issuer": "https://other.example" }), "https://other.example"),
        (json!({ "issuer": format!("{issuer}/") }), "not of"),
        (json!({ "issuer": issuer.to_uppercase() }), "not of"),
        (json!({ "issuer": null }), "members"),
        (json!({ "token_endpoint": null }), "members"),
        (json!({ "jwks_uri": 7 }), "members"),
        (json!({ "token_endpoint": "http://other.example/token" }), "token_endpoint"),
        (json!({ "jwks_uri": "file:///etc/passwd" }), "jwks_uri"),
        (json!({ "authorization_endpoint": "javascript:alert(1)" }), "authorization_endpoint"),
        (json!({ "code_challenge_methods_supported": ["plain"] }), "S256"),
        (json!({ "code_challenge_methods_supported": [] }), "S256"),
    ] {
        let mut document = login.server.document();
        for (name, value) in members.as_object().unwrap() {
            document[name] = value.clone();
        }
        login.server.has_document(&document);
        let begun = login.provider.begin(&pending()).await;
        let Err(LoginError::Rejected(cause)) = begun else { panic!("{members}: {begun:?}") };
        assert!(cause.to_string().contains(reason), "{members}: {cause}");
    }
    for body in ["", "no JSON", "[]", "null"] {
        login.server.on_document(Reaction::Answer(200, String::new(), body.to_owned()));
        let begun = login.provider.begin(&pending()).await;
        assert!(matches!(begun, Err(LoginError::Rejected(_))), "{body}: {begun:?}");
    }
    let mut document = login.server.document();
    document["code_challenge_methods_supported"] = json!(["plain", "S256"]);
    login.server.has_document(&document);
    let url = login.provider.begin(&pending()).await.unwrap();
    assert!(url.ends_with("&code_challenge_method=S256"), "{url}");
}

#[tokio::test]
async fn token_must_be_for_this_login() {
    let login = Login::new().await;
    let long = "x".repeat(256);
    for (members, reason) in [
        (json!({ "iss": "https://other.example" }), "another issuer"),
        (json!({ "iss": format!("{}/", login.server.issuer) }), "another issuer"),
        (json!({ "iss": null }), "cannot be read"),
        (json!({ "aud": "others" }), "another client"),
        (json!({ "aud": "Orders" }), "another client"),
        (json!({ "aud": [] }), "another client"),
        (json!({ "aud": null }), "cannot be read"),
        (json!({ "aud": ["orders", "others"] }), "another client"),
        (json!({ "aud": ["orders", "others"], "azp": "others" }), "another client"),
        (json!({ "azp": "others" }), "another client"),
        (json!({ "aud": "others", "azp": "orders" }), "another client"),
        (json!({ "nonce": null }), "another login"),
        (json!({ "nonce": "" }), "another login"),
        (json!({ "nonce": "another nonce" }), "another login"),
        (json!({ "nonce": 7 }), "cannot be read"),
        (json!({ "sub": null }), "cannot be read"),
        (json!({ "sub": "" }), "subject"),
        (json!({ "sub": long }), "subject"),
        (json!({ "sub": "Ann\u{e9}" }), "subject"),
        (json!({ "sub": 7 }), "cannot be read"),
        (json!({ "exp": null }), "cannot be read"),
        (json!({ "exp": "9999999999" }), "cannot be read"),
        (json!({ "exp": 1e300 }), "cannot be read"),
        (json!({ "exp": i64::MIN }), "expired"),
        (json!({ "iat": null }), "cannot be read"),
        (json!({ "iat": i64::MAX }), "begins"),
        (json!({ "nbf": i64::MAX }), "begins"),
    ] {
        let outcome = login.outcome(&login.key.sign(&login.claims_but(&members))).await;
        assert!(is_rejected(&outcome, reason), "{members}: {outcome}");
    }
    for members in [
        json!({ "aud": ["orders"] }),
        json!({ "azp": "orders" }),
        json!({ "aud": ["others", "orders"], "azp": "orders" }),
        json!({ "exp": i64::MAX }),
        json!({ "sub": "x".repeat(255) }),
    ] {
        let outcome = login.outcome(&login.key.sign(&login.claims_but(&members))).await;
        assert!(!outcome.contains("rejected"), "{members}: {outcome}");
    }
}

#[tokio::test]
async fn login_is_done_again_where_the_service_asks_for_it() {
    let login = Login::new().await;
    let asked_at = login.clock.now() - Duration::minutes(9);
    let again = PendingLogin { again_since: Some(asked_at), ..pending() };
    let url = login.provider.begin(&again).await.unwrap();
    assert_eq!(url, login.provider.begin(&pending()).await.unwrap() + "&prompt=login&max_age=0");
    let since = asked_at.unix_timestamp();
    // By a clock that is off by a minute.
    for (signed_in, counts) in [
        (json!(since + 540), true),
        (json!(since), true),
        (json!(since - 60), true),
        (json!(since - 61), false),
        (json!(i64::MIN), false),
        // A provider that knows neither parameter may have signed in nobody.
        (json!(null), false),
        (json!("yesterday"), false),
    ] {
        login
            .server
            .has_token(&login.key.sign(&login.claims_but(&json!({ "auth_time": signed_in }))));
        let found = login.provider.finish(&again, &answer(None), login.clock.now()).await;
        let found = outcome(found);
        assert_eq!(found == "Ann", counts, "{signed_in}: {found}");
        assert!(counts || is_rejected(&found, "sign in again"), "{found}");
        // It does not matter for another login.
        assert_eq!(outcome(login.finish().await), "Ann", "{signed_in}");
    }
}

#[tokio::test]
async fn clock_may_be_off_by_a_minute() {
    let login = Login::new().await;
    let now = login.clock.now().unix_timestamp();
    for (members, counts) in [
        (json!({ "exp": now - 60 }), true),
        (json!({ "exp": now - 61 }), false),
        (json!({ "iat": now + 60, "exp": now + 360 }), true),
        (json!({ "iat": now + 61, "exp": now + 361 }), false),
        (json!({ "nbf": now + 60 }), true),
        (json!({ "nbf": now + 61 }), false),
        // As Microsoft Entra does.
        (json!({ "iat": now - 300, "nbf": now - 300 }), true),
    ] {
        let outcome = login.outcome(&login.key.sign(&login.claims_but(&members))).await;
        assert_eq!(outcome == "Ann", counts, "{members}: {outcome}");
        assert!(counts || is_rejected(&outcome, "look at the clocks"), "{outcome}");
    }
}

#[tokio::test]
async fn only_a_key_of_the_issuer_signs() {
    let login = Login::new().await;
    let (claims, public) = (login.claims(), login.key.public().to_vec());
    let jwk = login.key.jwk();
    let bytes = |bytes: &[u8]| Secret::Bytes(bytes.to_vec());
    for (algorithm, secret) in [
        (SignatureAlgorithm::None, Secret::None),
        (SignatureAlgorithm::HS256, bytes(&public)),
        (SignatureAlgorithm::HS256, bytes(&public[1..])),
        (SignatureAlgorithm::HS384, bytes(jwk.to_string().as_bytes())),
        (SignatureAlgorithm::HS512, bytes(jwk["x"].as_str().unwrap().as_bytes())),
        (SignatureAlgorithm::HS256, bytes(SECRET.as_bytes())),
        (SignatureAlgorithm::HS256, bytes(b"")),
    ] {
        for kid in [Some("first"), None] {
            let outcome = login.outcome(&signed(&claims, algorithm, kid, &secret)).await;
            assert!(is_rejected(&outcome, "does not count"), "{algorithm:?}: {outcome}");
        }
    }
    let impostor = TestKey::new("first");
    let outcome = login.outcome(&impostor.sign(&claims)).await;
    assert!(is_rejected(&outcome, "signature"), "{outcome}");
    let good = login.key.sign(&claims);
    let [head, body, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!() };
    let other = login.key.sign(&login.claims_but(&json!({ "sub": "Bob" })));
    let other_body = other.split('.').nth(1).unwrap();
    for token in [
        format!("{head}.{other_body}.{signature}"),
        format!("{head}.{body}."),
        format!("{head}.{body}"),
        format!("{head}.{body}.{signature}.{signature}"),
        format!("{head}.{body}.{signature}.{signature}.{signature}"),
        format!(".{body}.{signature}"),
        "..".to_owned(),
        String::new(),
        "é.é.é".to_owned(),
    ] {
        let outcome = login.outcome(&token).await;
        assert!(is_rejected(&outcome, "ID token"), "{token}: {outcome}");
    }
    assert_eq!(login.outcome(&good).await, "Ann");
}

/// An algorithm of another kind of key must not reach the key: the library would panic.
#[tokio::test]
async fn key_signs_only_by_its_own_algorithm() {
    let login = Login::new().await;
    let header = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let good = login.key.sign(&login.claims());
    let (_, rest) = good.split_once('.').unwrap();
    for head in [
        r#"{"alg":"RS256","kid":"first"}"#,
        r#"{"alg":"PS512","kid":"first"}"#,
        r#"{"alg":"ES384","kid":"first"}"#,
        r#"{"alg":"ES512","kid":"first"}"#,
        r#"{"alg":"EdDSA","kid":"first"}"#,
        r#"{"alg":"es256","kid":"first"}"#,
        r#"{"alg":"ES256","kid":"first","crit":["exp"]}"#,
        r#"{"alg":"ES256","kid":7}"#,
        r#"{"kid":"first"}"#,
    ] {
        let outcome = login.outcome(&format!("{}.{rest}", header(head))).await;
        assert!(is_rejected(&outcome, ""), "{head}: {outcome}");
    }
    // A set with the same key as one of another algorithm or use.
    for (name, value) in [("alg", "ES384"), ("use", "enc"), ("crv", "P-384"), ("kty", "RSA")] {
        let login = Login::new().await;
        let mut jwk = login.key.jwk();
        jwk[name] = json!(value);
        login.server.on_keys(Reaction::json(&json!({ "keys": [jwk] })));
        let outcome = login.outcome(&login.key.sign(&login.claims())).await;
        assert!(is_rejected(&outcome, "no such key"), "{name}: {outcome}");
    }
}

#[tokio::test]
async fn key_without_identifier_counts_only_alone() {
    let login = Login::new().await;
    let (mut jwk, other) = (login.key.jwk(), TestKey::new("second"));
    jwk.as_object_mut().unwrap().remove("kid");
    login.server.on_keys(Reaction::json(&json!({ "keys": [jwk.clone()] })));
    let outcome = login.outcome(&login.key.sign(&login.claims())).await;
    assert!(is_rejected(&outcome, "no such key"), "{outcome}");
    let unnamed = login.key.sign_unnamed(&login.claims());
    assert_eq!(login.outcome(&unnamed).await, "Ann");
    login.clock.advance(KEPT);
    login.server.on_keys(Reaction::json(&json!({ "keys": [jwk, other.jwk()] })));
    let unnamed = login.key.sign_unnamed(&login.claims());
    let outcome = login.outcome(&unnamed).await;
    assert!(is_rejected(&outcome, "names no key"), "{outcome}");
}

#[tokio::test]
async fn keys_are_fetched_again_for_an_unknown_one_at_most_once_a_minute() {
    let login = Login::new().await;
    let [second, third] = ["second", "third"].map(TestKey::new);
    let fetched = || login.server.received("GET /keys").len();
    assert_eq!(login.outcome(&login.key.sign(&login.claims())).await, "Ann");
    assert_eq!(fetched(), 1);
    login.server.has_keys(&[&second]);
    assert_eq!(login.outcome(&second.sign(&login.claims())).await, "Ann");
    assert_eq!(fetched(), 2);
    login.server.has_keys(&[&third]);
    login.clock.advance(Duration::seconds(59));
    for _ in 0..3 {
        let outcome = login.outcome(&third.sign(&login.claims())).await;
        assert!(is_rejected(&outcome, "no such key"), "{outcome}");
    }
    // A clock that is set is no time that passes.
    login.clock.set(Duration::minutes(5));
    let outcome = login.outcome(&third.sign(&login.claims())).await;
    assert!(is_rejected(&outcome, "no such key"), "{outcome}");
    assert_eq!(fetched(), 2);
    login.clock.advance(Duration::seconds(1));
    assert_eq!(login.outcome(&third.sign(&login.claims())).await, "Ann");
    assert_eq!(fetched(), 3);
    let outcome = login.outcome(&second.sign(&login.claims())).await;
    assert!(is_rejected(&outcome, "no such key"), "{outcome}");
}

#[tokio::test]
async fn failed_request_for_keys_counts_as_one() {
    let login = Login::new().await;
    login.provider.begin(&pending()).await.unwrap();
    let other = TestKey::new("second");
    login.server.on_keys(Reaction::Answer(503, String::new(), String::new()));
    let first = login.outcome(&other.sign(&login.claims())).await;
    assert!(first.starts_with("unavailable: "), "{first}");
    let second = login.outcome(&other.sign(&login.claims())).await;
    assert!(is_rejected(&second, "no such key"), "{second}");
    assert_eq!(login.server.received("GET /keys").len(), 2);
}

#[tokio::test]
async fn document_and_keys_count_for_an_hour() {
    let login = Login::new().await;
    let second = TestKey::new("second");
    assert_eq!(login.outcome(&login.key.sign(&login.claims())).await, "Ann");
    login.server.has_keys(&[&second]);
    login.clock.advance(KEPT - Duration::SECOND);
    assert_eq!(login.outcome(&login.key.sign(&login.claims())).await, "Ann");
    assert_eq!(login.server.received("GET /.well-known").len(), 1);
    login.clock.advance(Duration::SECOND);
    let withdrawn = login.outcome(&login.key.sign(&login.claims())).await;
    assert!(is_rejected(&withdrawn, "no such key"), "{withdrawn}");
    assert_eq!(login.server.received("GET /.well-known").len(), 2);
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let elsewhere = Login::new().await;
    let moved = |path: &str| {
        let location = format!("Location: {}{path}\r\n", elsewhere.server.issuer);
        Reaction::Answer(302, location, String::new())
    };
    let login = Login::new().await;
    login.server.on_token(moved("/token"));
    let outcome = outcome(login.finish().await);
    assert!(is_rejected(&outcome, "302"), "{outcome}");
    let login = Login::new().await;
    login.server.on_keys(moved("/keys"));
    let begun = login.provider.begin(&pending()).await;
    assert!(matches!(begun, Err(LoginError::Unavailable(_))), "{begun:?}");
    let login = Login::new().await;
    login.server.on_document(moved("/.well-known/openid-configuration"));
    let begun = login.provider.begin(&pending()).await;
    assert!(matches!(begun, Err(LoginError::Unavailable(_))), "{begun:?}");
    assert!(elsewhere.server.received("").is_empty());
}

#[tokio::test]
async fn answer_is_bounded_in_bytes() {
    let login = Login::new().await;
    login.server.on_token(Reaction::EndlessBody);
    let outcome = outcome(login.finish().await);
    assert!(is_rejected(&outcome, "262144 bytes"), "{outcome}");
    let login = Login::new().await;
    login.server.on_document(Reaction::EndlessBody);
    let begun = login.provider.begin(&pending()).await;
    assert!(matches!(begun, Err(LoginError::Rejected(_))), "{begun:?}");
}

#[tokio::test]
async fn call_ends_at_its_limit() {
    assert_eq!(LIMIT, Limit::from_secs(10));
    let short = Limit::from_millis(200);
    for reaction in [Reaction::Silence, Reaction::SlowBody] {
        let mut login = Login::new().await;
        login.provider.begin(&pending()).await.unwrap();
        login.provider.limit = short;
        login.server.on_token(reaction.clone());
        let finished = outcome(login.finish().await);
        assert!(finished.starts_with("unavailable: "), "{finished}");
        let mut login = Login::new().await;
        login.provider.limit = short;
        login.server.on_document(reaction);
        // One call waits for the other, and no longer than its own limit.
        let pending = pending();
        let (first, second) = tokio::join!(login.provider.begin(&pending), login.finish());
        assert!(matches!(first, Err(LoginError::Unavailable(_))), "{first:?}");
        assert!(matches!(second, Err(LoginError::Unavailable(_))), "{second:?}");
        let checked = login.provider.check().await;
        assert!(matches!(checked, Err(LoginError::Unavailable(_))), "{checked:?}");
    }
}

#[tokio::test]
async fn provider_that_is_down_is_unavailable_until_it_answers() {
    let clock = Arc::new(ManualClock::default());
    // It does not listen.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = closed.local_addr().unwrap();
    let provider = provider_at(&format!("http://{address}"), None, &clock);
    let begun = provider.begin(&pending()).await;
    assert!(matches!(begun, Err(LoginError::Unavailable(_))), "{begun:?}");
    let login = Login::new().await;
    for reaction in [
        Reaction::Answer(500, String::new(), String::new()),
        Reaction::Answer(429, String::new(), String::new()),
        Reaction::Answer(404, String::new(), String::new()),
        Reaction::Close,
    ] {
        login.server.on_document(reaction.clone());
        let begun = login.provider.begin(&pending()).await;
        assert!(matches!(begun, Err(LoginError::Unavailable(_))), "{reaction:?}: {begun:?}");
    }
    login.server.has_document(&login.server.document());
    login.provider.begin(&pending()).await.unwrap();
    for reaction in [
        Reaction::Answer(502, String::new(), String::new()),
        Reaction::Answer(429, String::new(), String::new()),
        Reaction::Close,
    ] {
        login.server.on_token(reaction);
        let finished = outcome(login.finish().await);
        assert!(finished.starts_with("unavailable: "), "{finished}");
    }
    assert_eq!(login.outcome(&login.key.sign(&login.claims())).await, "Ann");
}

#[tokio::test]
async fn refused_code_is_rejected_with_the_name_of_the_error_only() {
    let login = Login::new().await;
    for (status, body, reason) in [
        (400, r#"{"error":"invalid_grant","error_description":"a code"}"#, "invalid_grant"),
        (401, r#"{"error":"invalid_client"}"#, "invalid_client"),
        (400, r#"{"error":"the nonce of passw0rd"}"#, "no reason"),
        (400, "", "no reason"),
        (403, "<html>", "no reason"),
        (201, r#"{"id_token":"x"}"#, "201"),
        (200, "", "no ID token"),
        (200, "{}", "no ID token"),
        (200, r#"{"id_token":7}"#, "no ID token"),
        (200, r#"{"access_token":"x"}"#, "no ID token"),
        (200, "[]", "no ID token"),
    ] {
        login.server.on_token(Reaction::Answer(status, String::new(), body.to_owned()));
        let outcome = outcome(login.finish().await);
        assert!(is_rejected(&outcome, reason), "{status} {body}: {outcome}");
    }
}

#[tokio::test]
async fn keys_that_are_none_are_left_out() {
    let login = Login::new().await;
    let short = json!({ "kty": "RSA", "kid": "short", "n": "wQ", "e": "AQAB" });
    let keys = json!({ "keys": [
        7, null, {}, { "kty": "oct", "kid": "first", "k": "c2VjcmV0" },
        { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": "wQ" },
        { "kty": "new", "kid": "new" }, short, login.key.jwk(),
    ] });
    login.server.on_keys(Reaction::json(&keys));
    assert_eq!(login.outcome(&login.key.sign(&login.claims())).await, "Ann");
    assert_eq!(login.provider.check().await.unwrap().usable_keys, 1);
    for body in ["", "{}", r#"{"keys":{}}"#, "[]"] {
        login.server.on_keys(Reaction::Answer(200, String::new(), body.to_owned()));
        let checked = login.provider.check().await;
        assert!(matches!(checked, Err(LoginError::Rejected(_))), "{body}: {checked:?}");
    }
}

#[tokio::test]
async fn check_reads_everything_anew_and_tells_the_time_of_the_server() {
    let login = Login::new().await;
    login.provider.begin(&pending()).await.unwrap();
    let date = "Date: Sat, 21 Nov 2026 12:00:07 GMT\r\n".to_owned();
    let document = login.server.document().to_string();
    login.server.on_document(Reaction::Answer(200, date, document));
    let report = login.provider.check().await.unwrap();
    let expected = ProviderReport {
        issuer: login.server.issuer.clone(),
        usable_keys: 1,
        server_time: Some(login.clock.now() + Duration::seconds(7)),
    };
    assert_eq!(report, expected);
    login.server.on_document(Reaction::Close);
    login.provider.check().await.unwrap_err();
}

#[tokio::test]
async fn certificate_must_be_one_that_the_system_trusts() {
    let certificates = Certificates::issue("Root of the provider", &["localhost"]);
    let root = CertificateDer::from_pem_slice(certificates.root.as_bytes()).unwrap();
    let server = TestProvider::start_with(Some(certificates.acceptor())).await;
    server.has_keys(&[&TestKey::new("first")]);
    let mut provider = provider_at(&server.issuer, None, &Arc::new(ManualClock::default()));
    let Err(LoginError::Unavailable(cause)) = provider.check().await else { panic!() };
    assert!(error_chain(&*cause).contains("certificate"), "{}", error_chain(&*cause));
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    provider.http = Http::trusting(roots).unwrap();
    assert_eq!(provider.check().await.unwrap().usable_keys, 1);
}
