//! Requests to providers, and their limits.

use std::{error::Error, sync::Arc};

use domain::ports::LoginError;
use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
    header, redirect, retry,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use url::{Url, form_urlencoded};

use crate::settings::ProviderSettings;

/// Most bytes of an answer. The keys of Microsoft Entra are 20 KiB; a token with hundreds of groups is as long.
const MAX_BYTES: usize = 256 * 1024;

/// Names that are resolved at a time. A dead resolver keeps each for half a minute.
const MAX_LOOKUPS: usize = 16;

/// The client for requests cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("the client for requests to identity providers cannot be made")]
pub struct NoClient(#[source] reqwest::Error);

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadAnswer {
    #[error("{0} answered {1}")]
    Status(Url, StatusCode),
    #[error("the answer of {0} is longer than {MAX_BYTES} bytes")]
    TooLong(Url),
    #[error("{0}: {1}")]
    Tls(Url, &'static str),
}

/// Resolves names on threads of their own.
struct Resolver(Arc<Semaphore>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let permits = Arc::clone(&self.0);
        Box::pin(async move {
            // `reqwest` replaces the port by that of the URL.
            let found = names::addresses(&permits, format!("{}:0", name.as_str())).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// A complete answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// The time of the server (RFC 9110, section 6.6.1).
    pub(crate) date: Option<OffsetDateTime>,
    pub(crate) body: Vec<u8>,
}

/// Makes requests. It follows no redirect, because the operator or the discovery document names every address, and
/// takes no proxy of the environment.
#[derive(Clone)]
pub struct Http {
    client: Client,
}

impl Http {
    /// Returns a client that trusts the root certificates of the system. Blocks: it reads them.
    pub fn new() -> Result<Self, NoClient> {
        let mut roots = RootCertStore::empty();
        // Without any root, each request fails for TLS.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self::trusting(roots)
    }

    pub(crate) fn trusting(roots: RootCertStore) -> Result<Self, NoClient> {
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions();
        let Ok(tls) = tls else { unreachable!("ring has ciphers for the default versions") };
        let client = Client::builder()
            .tls_backend_preconfigured(tls.with_root_certificates(roots).with_no_client_auth())
            .http1_only()
            .user_agent("notary-orders")
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            // Logins are rare. A kept connection would end with its provider, and the next login fail on it.
            .pool_max_idle_per_host(0)
            .no_proxy()
            .dns_resolver(Resolver(Arc::new(Semaphore::new(MAX_LOOKUPS))))
            .build();
        Ok(Self { client: client.map_err(NoClient)? })
    }

    /// Reads a document. Any status but 200 is that of a provider that does not work.
    pub(crate) async fn get(&self, url: &Url) -> Result<Answer, LoginError> {
        let answer = answer_of(self.client.get(url.clone()), url).await?;
        if answer.status != StatusCode::OK {
            return Err(unavailable(BadAnswer::Status(url.clone(), answer.status)));
        }
        Ok(answer)
    }

    /// Sends a form as the client of the settings.
    pub(crate) async fn post(
        &self,
        url: &Url,
        form: &[(&str, &str)],
        client: &ProviderSettings,
        is_secret_in_form: bool,
    ) -> Result<Answer, LoginError> {
        let request = self.form(url, form, client, is_secret_in_form);
        let answer = answer_of(request, url).await?;
        // Of a client's requests, a provider refuses some because there are too many.
        if answer.status.is_server_error() || answer.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(unavailable(BadAnswer::Status(url.clone(), answer.status)));
        }
        Ok(answer)
    }

    /// Adds the client and its secret to a form (RFC 6749, section 2.3.1).
    fn form(
        &self,
        url: &Url,
        form: &[(&str, &str)],
        client: &ProviderSettings,
        is_secret_in_form: bool,
    ) -> RequestBuilder {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(form);
        let request = self.client.post(url.clone());
        let request = match &client.client_secret {
            Some(secret) if !is_secret_in_form => {
                request.basic_auth(encoded(&client.client_id), Some(encoded(secret)))
            }
            secret => {
                body.append_pair("client_id", &client.client_id);
                body.extend_pairs(secret.as_ref().map(|secret| ("client_secret", secret)));
                request
            }
        };
        request
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body.finish())
    }
}

fn unavailable(cause: impl Error + Send + Sync + 'static) -> LoginError {
    LoginError::Unavailable(cause.into())
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

async fn answer_of(request: RequestBuilder, url: &Url) -> Result<Answer, LoginError> {
    let request = request.header(header::ACCEPT, "application/json");
    let mut response = request.send().await.map_err(|error| match names::tls_failure(&error) {
        Some(words) => unavailable(BadAnswer::Tls(url.clone(), words)),
        None => unavailable(error),
    })?;
    let (status, date) = (response.status(), date_of(&response));
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(unavailable)? {
        if body.len() + bytes.len() > MAX_BYTES {
            return Err(LoginError::Rejected(BadAnswer::TooLong(url.clone()).into()));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(Answer { status, date, body })
}

fn date_of(response: &Response) -> Option<OffsetDateTime> {
    let text = response.headers().get(header::DATE)?.to_str().ok()?;
    Some(httpdate::parse_http_date(text).ok()?.into())
}
