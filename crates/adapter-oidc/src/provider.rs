//! A login at a provider, and what is kept of the provider.

use std::{sync::Arc, time::Duration as Limit};

use async_trait::async_trait;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use domain::{
    person::{Identity, LoginAnswer, PendingLogin},
    ports::{Clock, IdentityProvider, LoginError, ProviderReport},
};
use reqwest::StatusCode;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use time::{Duration, OffsetDateTime};
use tokio::{sync::Mutex, time::timeout};

use crate::{
    document::Document,
    http::{Answer, Http},
    id_token::{Expected, Fault, IdToken},
    keys::Keys,
    settings::ProviderSettings,
};

/// Default of the time limit of a call, over all its requests.
const LIMIT: Limit = Limit::from_secs(10);

/// How long the discovery document and the keys count. A key that the provider withdraws counts no longer.
const KEPT: Duration = Duration::HOUR;

/// Time between two requests for keys because of unknown ones.
const BETWEEN_RENEWALS: Duration = Duration::MINUTE;

/// Longest name of an error of a token endpoint.
const MAX_ERROR: usize = 40;

/// Why an exchange of a code failed.
#[derive(Debug, thiserror::Error)]
enum NoToken {
    #[error("the provider did not answer within {} seconds", .0.as_secs())]
    TooSlow(Limit),
    #[error("the token endpoint answered {0}: {1}")]
    Refused(StatusCode, String),
    #[error("the answer of the token endpoint has no ID token")]
    Missing,
}

/// Why an answer to the browser does not count.
#[derive(Debug, thiserror::Error)]
enum BadAnswer {
    #[error("the answer is that of another issuer")]
    OtherIssuer,
    #[error("the answer does not name its issuer, though the provider says that it does")]
    NoIssuer,
}

/// Checks the issuer of an answer (RFC 9207, section 2.4): an attacker's provider may have led the browser to this one.
fn check_issuer(named: Option<&str>, own: &str, is_always_named: bool) -> Result<(), BadAnswer> {
    match named {
        Some(named) if named != own => Err(BadAnswer::OtherIssuer),
        None if is_always_named => Err(BadAnswer::NoIssuer),
        _ => Ok(()),
    }
}

/// The document and the keys of a provider, as they were read.
#[derive(Clone)]
struct Known {
    document: Arc<Document>,
    keys: Arc<Keys>,
    /// By the monotonic clock.
    read_at: Duration,
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    /// The last request for keys because of an unknown one, by the monotonic clock.
    renewed_at: Option<Duration>,
}

/// A provider that an operator has set.
pub struct Provider {
    settings: ProviderSettings,
    http: Http,
    clock: Arc<dyn Clock>,
    limit: Limit,
    state: Mutex<State>,
}

impl Provider {
    /// Returns a provider. Asks it for nothing: the service starts without it.
    pub fn new(settings: ProviderSettings, http: Http, clock: Arc<dyn Clock>) -> Self {
        Self { settings, http, clock, limit: LIMIT, state: Mutex::default() }
    }

    /// Sets the time limit of a call, over all its requests.
    pub fn within(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    async fn limited<T>(
        &self,
        call: impl Future<Output = Result<T, LoginError>>,
    ) -> Result<T, LoginError> {
        let ended = timeout(self.limit, call).await;
        ended.unwrap_or_else(|_| Err(LoginError::Unavailable(NoToken::TooSlow(self.limit).into())))
    }

    /// Reads the discovery document, and its answer.
    async fn read_document(&self) -> Result<(Document, Answer), LoginError> {
        let answer = self.http.get(self.settings.issuer.document()).await?;
        Ok((Document::parse(&answer.body, &self.settings.issuer)?, answer))
    }

    async fn read_keys(&self, document: &Document) -> Result<Keys, LoginError> {
        Keys::parse(&self.http.get(&document.keys).await?.body)
    }

    /// Returns what is known, or reads it anew. Other calls wait meanwhile, and then have it, too.
    async fn known(&self) -> Result<Known, LoginError> {
        let mut state = self.state.lock().await;
        let now = self.clock.monotonic();
        if let Some(known) = state.known.as_ref().filter(|known| now - known.read_at < KEPT) {
            return Ok(known.clone());
        }
        let (document, _) = self.read_document().await?;
        let keys = self.read_keys(&document).await?;
        let known = Known { document: Arc::new(document), keys: Arc::new(keys), read_at: now };
        state.known = Some(known.clone());
        Ok(known)
    }

    /// Reads the keys again, because one is unknown, if that has not been done within the last minute.
    async fn renewed_keys(&self, known: &Known) -> Result<Arc<Keys>, LoginError> {
        let mut state = self.state.lock().await;
        let now = self.clock.monotonic();
        if state.renewed_at.is_none_or(|renewed_at| now - renewed_at >= BETWEEN_RENEWALS) {
            // Also an attempt that fails counts.
            state.renewed_at = Some(now);
            let keys = Arc::new(self.read_keys(&known.document).await?);
            if let Some(known) = &mut state.known {
                known.keys = keys;
            }
        }
        Ok(state.known.as_ref().map_or_else(|| Arc::clone(&known.keys), |it| Arc::clone(&it.keys)))
    }

    /// Exchanges the code for an ID token.
    async fn exchange(
        &self,
        document: &Document,
        pending: &PendingLogin,
        code: &str,
    ) -> Result<String, LoginError> {
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &*pending.redirect_uri),
            ("code_verifier", &*pending.verifier),
        ];
        let sent =
            self.http.post(&document.token, &form, &self.settings, document.is_secret_in_form);
        let answer = sent.await?;
        let fault = if answer.status == StatusCode::OK {
            match serde_json::from_slice::<Tokens>(&answer.body) {
                Ok(tokens) => return Ok(tokens.id_token),
                Err(_) => NoToken::Missing,
            }
        } else {
            NoToken::Refused(answer.status, error_of(&answer.body))
        };
        Err(rejected(fault))
    }
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
}

fn rejected(cause: impl std::error::Error + Send + Sync + 'static) -> LoginError {
    LoginError::Rejected(cause.into())
}

/// Returns the name of an error (RFC 6749, section 5.2), and no other text: it may repeat the request.
fn error_of(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    let is_name = |refusal: &Refusal| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        refusal.error.len() <= MAX_ERROR && refusal.error.bytes().all(is_letter)
    };
    let refusal = serde_json::from_slice::<Refusal>(body).ok().filter(is_name);
    refusal.map_or_else(|| "no reason".to_owned(), |refusal| refusal.error)
}

#[async_trait]
impl IdentityProvider for Provider {
    fn name(&self) -> String {
        self.settings.name.clone()
    }

    fn issuer(&self) -> String {
        self.settings.issuer.as_str().to_owned()
    }

    async fn begin(&self, pending: &PendingLogin) -> Result<String, LoginError> {
        let known = self.limited(self.known()).await?;
        let challenge = digest(&SHA256, pending.verifier.as_bytes());
        let mut url = known.document.authorization.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &pending.redirect_uri)
            // Neither the e-mail address nor the profile decides anything, so neither is asked for.
            .append_pair("scope", "openid")
            .append_pair("state", &pending.state)
            .append_pair("nonce", &pending.nonce)
            .append_pair("code_challenge", &BASE64_URL_SAFE_NO_PAD.encode(challenge))
            .append_pair("code_challenge_method", "S256");
        if pending.again_since.is_some() {
            // `max_age` is the time since the person has signed in there, in seconds, and demands `auth_time`.
            url.query_pairs_mut().append_pair("prompt", "login").append_pair("max_age", "0");
        }
        Ok(url.into())
    }

    async fn finish(
        &self,
        pending: &PendingLogin,
        answer: &LoginAnswer,
        now: OffsetDateTime,
    ) -> Result<Identity, LoginError> {
        let call = async {
            let known = self.known().await?;
            let (own, is_always_named) =
                (self.settings.issuer.as_str(), known.document.names_issuer);
            check_issuer(answer.issuer.as_deref(), own, is_always_named).map_err(rejected)?;
            let token = self.exchange(&known.document, pending, &answer.code).await?;
            let token = IdToken::parse(&token).map_err(rejected)?;
            let claims = match token.verify(&known.keys) {
                Err(Fault::UnknownKey) => token.verify(&*self.renewed_keys(&known).await?),
                verified => verified,
            };
            let expected = Expected {
                issuer: self.settings.issuer.as_str(),
                client_id: &self.settings.client_id,
                nonce: &pending.nonce,
                again_since: pending.again_since,
            };
            claims.and_then(|claims| claims.identity(&expected, now)).map_err(rejected)
        };
        self.limited(call).await
    }

    async fn check(&self) -> Result<ProviderReport, LoginError> {
        let call = async {
            let (document, answer) = self.read_document().await?;
            let keys = self.read_keys(&document).await?;
            Ok(ProviderReport {
                issuer: self.settings.issuer.as_str().to_owned(),
                usable_keys: keys.len(),
                server_time: answer.date,
            })
        };
        self.limited(call).await
    }
}

#[cfg(test)]
#[path = "provider_tests.rs"]
mod tests;
