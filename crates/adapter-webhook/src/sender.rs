//! One attempt, and connections that are used again.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use domain::{
    api_key::Party,
    ports::{
        UrlRefused, WEBHOOK_TIME_LIMIT, WebhookAnswer, WebhookError, WebhookRequest, WebhookSender,
    },
    trace_context::TraceContext,
};
use ipnet::IpNet;
use reqwest::{Client, Response, header, redirect, retry};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use time::OffsetDateTime;
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use crate::{
    failure,
    guard::Guard,
    resolver::{ATTEMPT, Find, Lookups, Resolver, ask_system},
    signature::sign,
};

/// Header fields of an answer that are read. Only its status and `Retry-After` count.
const MAX_FIELDS: usize = 4_096;
/// Bytes of the body of an answer that are read.
const MAX_BODY: usize = 16 * 1024;
/// Time for the name of a URL that a client just sent.
const CHECK_LIMIT: Duration = Duration::from_secs(5);

/// Time limits of attempts, and of connections.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// A whole attempt.
    attempt: Duration,
    /// A connection, over all addresses of a name. The rest of an attempt is for the answer.
    connect: Duration,
    /// The body of an answer. The body is read only to use the connection again, so a slow one must
    /// not keep the slot of the attempt.
    body: Duration,
    /// How long an idle connection is kept: shorter than receivers keep it, so that a webhook does
    /// not meet a connection that its receiver is closing. It also bounds their number.
    idle: Duration,
}

const LIMITS: Limits = Limits {
    attempt: WEBHOOK_TIME_LIMIT.unsigned_abs(),
    connect: Duration::from_secs(10),
    body: Duration::from_millis(200),
    idle: Duration::from_secs(1),
};

/// The text is no URL of a proxy. It is not repeated, because it may contain a password.
#[derive(Debug, thiserror::Error)]
#[error("must be of the form http://host:port or https://host:port")]
pub struct InvalidProxy;

/// Sends webhooks to addresses that the service may call.
pub struct Sender {
    guard: Arc<Guard>,
    lookups: Arc<Lookups>,
    http: Client,
    limits: Limits,
}

impl Sender {
    /// Returns a sender that may also call the networks, and that sends everything through the
    /// proxy, if there is one: `http://` or `https://`, with or without `user:password@`. It trusts
    /// the root certificates of the system.
    pub fn new(open: Vec<IpNet>, proxy: Option<&str>) -> Result<Self, InvalidProxy> {
        let mut roots = RootCertStore::empty();
        // Without any root, each attempt fails for TLS.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self::with(open, proxy, roots, Arc::new(ask_system), LIMITS)
    }

    fn with(
        open: Vec<IpNet>,
        proxy: Option<&str>,
        roots: RootCertStore,
        find: Arc<Find>,
        limits: Limits,
    ) -> Result<Self, InvalidProxy> {
        let guard = Arc::new(Guard { open, proxied: proxy.is_some() });
        let lookups = Arc::new(Lookups::new(find));
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions();
        let Ok(tls) = tls else { unreachable!("ring has ciphers for the default versions") };
        let tls = tls.with_root_certificates(roots).with_no_client_auth();
        // Behind a proxy it resolves only the name of the proxy, which the operator chose.
        let admits = proxy.is_none().then(|| Arc::clone(&guard));
        let builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            // The status decides, however the rest of a head is written (RFC 9112, section 5.2).
            .http1_allow_obsolete_multiline_headers_in_responses(true)
            .http1_allow_spaces_after_header_name_in_responses(true)
            .http1_ignore_invalid_headers_in_responses(true)
            .http1_max_headers(MAX_FIELDS)
            .user_agent("notary-orders")
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .connect_timeout(limits.connect)
            .pool_idle_timeout(limits.idle)
            .dns_resolver(Resolver { lookups: Arc::clone(&lookups), admits });
        let builder = match proxy {
            Some(proxy) => builder.proxy(proxy_at(proxy)?),
            None => builder.no_proxy(),
        };
        let http = builder.build().map_err(|_| InvalidProxy)?;
        Ok(Self { guard, lookups, http, limits })
    }
}

fn proxy_at(url: &str) -> Result<reqwest::Proxy, InvalidProxy> {
    let is_origin =
        |url: &Url| url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let url = Url::parse(url).ok().filter(is_origin).ok_or(InvalidProxy)?;
    let is_web = ["http", "https"].contains(&url.scheme());
    is_web.then(|| reqwest::Proxy::all(url).ok()).flatten().ok_or(InvalidProxy)
}

#[async_trait]
impl WebhookSender for Sender {
    async fn check(&self, party: Party, url: &str) -> Result<(), UrlRefused> {
        let (url, scheme) = self.guard.target(url)?;
        let Some(name) = url.domain().filter(|_| !self.guard.proxied) else { return Ok(()) };
        match timeout(CHECK_LIMIT, self.lookups.lookup(party, name)).await {
            Ok(Ok(addresses)) => self.guard.admit(scheme, &addresses),
            _ => Ok(()),
        }
    }

    async fn send(&self, request: &WebhookRequest) -> Result<WebhookAnswer, WebhookError> {
        let deadline = Instant::now() + self.limits.attempt;
        let (url, scheme) = self.guard.target(&request.url).map_err(WebhookError::Refused)?;
        let mut attempt = self
            .http
            .post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", &request.id)
            .header("webhook-timestamp", request.timestamp.unix_timestamp())
            .header("webhook-signature", sign(request))
            .body(request.body.clone());
        if let Some(TraceContext { traceparent, tracestate }) = &request.trace {
            attempt = attempt.header("traceparent", traceparent);
            attempt = tracestate.iter().fold(attempt, |one, state| one.header("tracestate", state));
        }
        let sending = ATTEMPT.scope((request.party, scheme), attempt.send());
        let response = timeout_at(deadline, sending).await.map_err(|_| WebhookError::TimedOut)?;
        let response = response.map_err(|error| failure::reason(&error))?;
        let answer = WebhookAnswer {
            status: response.status().as_u16(),
            retry_after: retry_after(&response, request.timestamp),
        };
        // Whatever happens to the body, the answer has a status.
        let _ = timeout_at(deadline.min(Instant::now() + self.limits.body), read(response)).await;
        Ok(answer)
    }
}

/// Reads the body to its end, so that the connection can be used again, or to the limit.
async fn read(mut response: Response) {
    let mut rest = MAX_BODY;
    while let Ok(Some(bytes)) = response.chunk().await {
        let Some(less) = rest.checked_sub(bytes.len()) else { return };
        rest = less;
    }
}

/// Reads `Retry-After`: seconds, or a date (RFC 9110, section 10.2.3). A date in the past is zero.
fn retry_after(response: &Response, now: OffsetDateTime) -> Option<time::Duration> {
    let text = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(time::Duration::seconds(seconds.into()));
    }
    let date = OffsetDateTime::from(httpdate::parse_http_date(text).ok()?);
    Some((date - now).max(time::Duration::ZERO))
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
