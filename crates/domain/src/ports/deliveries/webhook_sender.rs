use async_trait::async_trait;
use time::{Duration, OffsetDateTime};

use crate::{api_key::Party, trace_context::TraceContext, webhook::secret::WebhookSecret};

/// Time limit of an attempt, from the name to the last byte of the answer that is read.
pub const WEBHOOK_TIME_LIMIT: Duration = Duration::seconds(15);

/// The service must not call this URL. The text is a sentence for the client: the reason, and the
/// setting that permits such a URL, if there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UrlRefused(pub String);

/// One attempt of a webhook.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookRequest {
    /// The party whose endpoint gets it.
    pub party: Party,
    /// Where to send it.
    pub url: String,
    /// The `webhook-id`, equal in all attempts.
    pub id: String,
    /// The `webhook-timestamp`: the instant of this attempt.
    pub timestamp: OffsetDateTime,
    /// The body, JSON.
    pub body: String,
    /// The secrets that sign, the newest first. There are two while a secret is being rotated.
    pub secrets: Vec<WebhookSecret>,
    /// The trace that the receiver can continue.
    pub trace: Option<TraceContext>,
}

conceal!(WebhookRequest);

/// The answer of a receiver. It has no more than the engine needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookAnswer {
    /// The status code.
    pub status: u16,
    /// The time that the receiver asks to wait (`Retry-After`).
    pub retry_after: Option<Duration>,
}

/// The reason why an attempt got no answer. Its name is the text, in answers, storage and the log. It
/// contains no URL and no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// The service must not call the URL, or an address of its host.
    #[error("url_refused")]
    Refused(UrlRefused),
    /// The name of the host has no address.
    #[error("name_not_resolved")]
    Unresolved,
    /// The receiver or the proxy accepts no connection.
    #[error("connection_failed")]
    Connect,
    /// TLS failed: most often the certificate is invalid.
    #[error("tls_failed")]
    Tls,
    /// The attempt took longer than its time limit.
    #[error("timed_out")]
    TimedOut,
    /// The connection ended before the head of an answer was complete, or the answer is not HTTP.
    #[error("invalid_answer")]
    Protocol,
}

/// Sends webhooks (Standard Webhooks 1.0.0).
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait WebhookSender: Send + Sync {
    /// Checks whether the service may call a URL of a party. Resolves its name, and accepts a name
    /// that does not resolve now. Sends nothing.
    async fn check(&self, party: Party, url: &str) -> Result<(), UrlRefused>;

    /// Makes one attempt.
    ///
    /// An implementation guarantees:
    /// - The body arrives byte for byte, with a signature for each secret, the newest first.
    /// - The trace context arrives as `traceparent` and `tracestate`, if there is one.
    /// - The attempt ends after [`WEBHOOK_TIME_LIMIT`], however slowly the receiver answers.
    /// - It follows no redirect: its status is the answer.
    /// - It reads at most 16 KiB of the body of an answer. A longer body does not change the result.
    /// - It connects only to an address that [`check`](Self::check) would accept now.
    ///
    /// # Errors
    /// [`WebhookError`], if there was no complete head of an answer.
    async fn send(&self, request: &WebhookRequest) -> Result<WebhookAnswer, WebhookError>;
}
