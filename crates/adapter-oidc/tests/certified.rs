//! Logins at `oidc-provider`, a certified provider.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::{sync::Arc, time::Duration};

use adapter_oidc::{Http, Issuer, Provider, ProviderSettings};
use contract_tests::fakes::ManualClock;
use domain::{
    person::{Identity, LoginAnswer, PendingLogin},
    ports::{IdentityProvider as _, LoginError, error_chain},
};
use serde_json::{Value, json};
use test_servers::oidc::{CLIENT_ID, CLIENT_SECRET, OidcProvider, REDIRECT_URI, parameter};
use time::OffsetDateTime;

/// A limit that no call meets on a busy machine.
const GENEROUS: Duration = Duration::from_secs(60 * 60);

/// The service's view of a provider.
struct Service {
    provider: Provider,
}

impl Service {
    fn at(server: &OidcProvider, secret: Option<&str>) -> Self {
        let settings = ProviderSettings {
            name: "Office".to_owned(),
            issuer: Issuer::parse(&server.issuer()).unwrap(),
            client_id: CLIENT_ID.to_owned(),
            client_secret: secret.map(str::to_owned),
        };
        let clock = Arc::new(ManualClock::default());
        let provider = Provider::new(settings, Http::new().unwrap(), clock);
        Self { provider: provider.within(GENEROUS) }
    }

    /// Signs in as a subject, and returns the answer.
    async fn answer(&self, server: &OidcProvider, login: &PendingLogin, sub: &str) -> LoginAnswer {
        let url = self.provider.begin(login).await.unwrap();
        let back = server.sign_in(&url, sub, json!({ "email_verified": "true" })).await;
        assert!(back.starts_with(&format!("{REDIRECT_URI}?")), "{back}");
        assert_eq!(parameter(&back, "state").as_deref(), Some(&*login.state));
        // It always names itself.
        assert_eq!(parameter(&back, "iss"), Some(server.issuer()));
        LoginAnswer {
            state: login.state.clone(),
            code: parameter(&back, "code").unwrap(),
            issuer: parameter(&back, "iss"),
        }
    }

    async fn finish(
        &self,
        login: &PendingLogin,
        answer: &LoginAnswer,
    ) -> Result<Identity, LoginError> {
        self.provider.finish(login, answer, self.time().await).await
    }

    /// Returns the time of the provider, whose clock is that of this machine.
    async fn time(&self) -> OffsetDateTime {
        self.provider.check().await.unwrap().server_time.unwrap()
    }
}

fn login(nonce: &str) -> PendingLogin {
    PendingLogin {
        provider: "Office".to_owned(),
        redirect_uri: REDIRECT_URI.to_owned(),
        state: "state".to_owned(),
        nonce: nonce.to_owned(),
        verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
        again_since: None,
    }
}

fn rejection(finished: Result<Identity, LoginError>) -> String {
    let Err(error @ LoginError::Rejected(_)) = finished else { panic!("{finished:?}") };
    error_chain(&error)
}

async fn signs_in(client: &Value, secret: Option<&str>) {
    let server = OidcProvider::start(client);
    let service = Service::at(&server, secret);
    let login = login("nonce");
    let answer = service.answer(&server, &login, "ann").await;
    let identity = service.finish(&login, &answer).await;
    let identity = identity.unwrap_or_else(|error| panic!("{client}: {}", error_chain(&error)));
    assert_eq!((identity.issuer, &*identity.subject), (server.issuer(), "ann"));
}

#[tokio::test]
async fn every_asymmetric_algorithm_signs_in() {
    for algorithm in ["RS256", "PS256", "ES256"] {
        let client = json!({ "id_token_signed_response_alg": algorithm });
        signs_in(&client, Some(CLIENT_SECRET)).await;
    }
}

#[tokio::test]
async fn public_client_signs_in_without_a_secret() {
    let client = json!({ "token_endpoint_auth_method": "none", "client_secret": null });
    signs_in(&client, None).await;
}

#[tokio::test]
async fn hmac_of_the_secret_is_no_signature() {
    let server = OidcProvider::start(&json!({ "id_token_signed_response_alg": "HS256" }));
    let service = Service::at(&server, Some(CLIENT_SECRET));
    let login = login("nonce");
    let answer = service.answer(&server, &login, "ann").await;
    let reason = rejection(service.finish(&login, &answer).await);
    assert!(reason.contains("HS256"), "{reason}");
}

#[tokio::test]
async fn code_counts_once_with_its_verifier_nonce_and_client() {
    let server = OidcProvider::start(&json!({}));
    let service = Service::at(&server, Some(CLIENT_SECRET));
    let mine = login("nonce");
    let answer = service.answer(&server, &mine, "ann").await;
    service.finish(&mine, &answer).await.unwrap();
    let reason = rejection(service.finish(&mine, &answer).await);
    assert!(reason.contains("invalid_grant"), "{reason}");

    let answer = service.answer(&server, &mine, "ann").await;
    let verifier = "another-verifier".repeat(4);
    let reason =
        rejection(service.finish(&PendingLogin { verifier, ..mine.clone() }, &answer).await);
    assert!(reason.contains("invalid_grant"), "{reason}");

    let answer = service.answer(&server, &mine, "ann").await;
    let reason = rejection(service.finish(&login("another nonce"), &answer).await);
    assert!(reason.contains("another login"), "{reason}");

    let answer = service.answer(&server, &mine, "ann").await;
    let reason = rejection(Service::at(&server, Some("wrong")).finish(&mine, &answer).await);
    assert!(reason.contains("invalid_client"), "{reason}");
}

#[tokio::test]
async fn login_that_is_done_again_counts_from_then_on() {
    let server = OidcProvider::start(&json!({}));
    let service = Service::at(&server, Some(CLIENT_SECRET));
    let asked_at = service.time().await;
    for (since, counts) in [(asked_at, true), (asked_at + Duration::from_secs(60 * 60), false)] {
        let again = PendingLogin { again_since: Some(since), ..login("nonce") };
        let answer = service.answer(&server, &again, "ann").await;
        let finished = service.finish(&again, &answer).await;
        if counts {
            assert_eq!(finished.unwrap().subject, "ann");
        } else {
            let reason = rejection(finished);
            assert!(reason.contains("signed in"), "{reason}");
        }
    }
}

#[tokio::test]
async fn answer_without_its_issuer_or_with_another_is_rejected() {
    let server = OidcProvider::start(&json!({}));
    let service = Service::at(&server, Some(CLIENT_SECRET));
    let mine = login("nonce");
    let answer = service.answer(&server, &mine, "ann").await;
    for issuer in [None, Some("https://other.example".to_owned())] {
        let changed = LoginAnswer { issuer, ..answer.clone() };
        let reason = rejection(service.finish(&mine, &changed).await);
        assert!(reason.contains("issuer"), "{reason}");
    }
    // The provider has not seen the code.
    service.finish(&mine, &answer).await.unwrap();
}

#[tokio::test]
async fn provider_that_has_restarted_has_other_keys_and_signs_in() {
    let server = OidcProvider::start(&json!({}));
    let service = Service::at(&server, Some(CLIENT_SECRET));
    for nonce in ["one", "two"] {
        let login = login(nonce);
        let answer = service.answer(&server, &login, "ann").await;
        service.finish(&login, &answer).await.unwrap();
        server.start_again();
    }
    let (login, now) = (login("three"), service.time().await);
    let answer = service.answer(&server, &login, "ann").await;
    server.stop();
    let finished = service.provider.finish(&login, &answer, now).await;
    assert!(matches!(finished, Err(LoginError::Unavailable(_))), "{finished:?}");
}
