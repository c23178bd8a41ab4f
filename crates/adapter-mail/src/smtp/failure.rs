//! Failures of the dialogue with a relay.

use std::{error::Error as _, iter};

use domain::ports::Cause;
use lettre::{Address, transport::smtp::Error};
use names::{is_invalid_certificate, tls_failure};

/// Most characters of a reply that an error repeats.
const MAX_REPLY_CHARS: usize = 200;

/// The reason why a step with a relay failed. Contains no credentials or addresses, so it is safe
/// to log.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("no connection to {host}:{port}")]
    NoConnection { host: String, port: u16, source: Cause },
    #[error("the relay did not answer in time")]
    Timeout,
    #[error("the service stops, and the relay has not accepted a sender yet")]
    Stopping,
    #[error("the relay does not offer TLS")]
    NoTls,
    #[error("TLS with the relay failed")]
    Tls(#[source] Cause),
    #[error(
        "TLS with the relay failed: {0}; in --mail-url, trust its root certificate with \
         ca=/absolute/root.pem, or do without TLS: smtp://… with tls=none"
    )]
    Certificate(&'static str),
    #[error("the relay offers neither AUTH PLAIN nor AUTH LOGIN")]
    NoAuth,
    #[error("the relay rejected {step}: {reply}")]
    Rejected { step: Step, code: u16, reply: String },
    #[error("the connection to the relay broke")]
    Broken(#[source] Cause),
}

/// The step that a relay rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Step {
    #[error("the connection")]
    Connection,
    #[error("STARTTLS")]
    StartTls,
    #[error("the user or the password")]
    Credentials,
    #[error("the sender")]
    Sender,
    #[error("the recipient")]
    Recipient,
    /// `DATA`, before the relay has read the mail.
    #[error("the mail")]
    Mail,
    /// The mail itself.
    #[error("the mail")]
    Content,
}

/// The cause of a failure after `MAIL FROM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The relay: all mails are affected.
    Relay,
    /// This mail.
    Mail,
    /// Either the relay or this mail.
    Unknown,
}

impl Failure {
    /// Converts an error: a negative reply to `step`, or else what `otherwise` makes of the cause. A
    /// reply may name the recipient, so those words are left out.
    pub(super) fn new(
        error: &Error,
        step: Step,
        recipient: Option<&Address>,
        otherwise: impl FnOnce(Cause) -> Self,
    ) -> Self {
        if let Some(words) = tls_failure(error).filter(|_| is_invalid_certificate(error)) {
            return Self::Certificate(words);
        }
        let Some(code) = error.status() else { return otherwise(root_cause(error)) };
        let text = error.source().map(ToString::to_string).unwrap_or_default();
        let text = match step {
            // The relay may repeat credentials or parts of the mail in any form.
            Step::Credentials | Step::Content => enhanced_status(&text).to_owned(),
            _ => without_addresses(&text, recipient),
        };
        Self::Rejected {
            step,
            code: code.into(),
            reply: format!("{code} {text}").trim_end().to_owned(),
        }
    }

    /// Returns what converts an error of a step that does not concern a recipient.
    pub(super) fn at(
        step: Step,
        otherwise: impl FnOnce(Cause) -> Self,
    ) -> impl FnOnce(Error) -> Self {
        move |error| Self::new(&error, step, None, otherwise)
    }

    /// Classifies a failure after the relay has accepted the sender. Everything up to there is the
    /// same for all mails.
    pub(super) fn fault(&self) -> Fault {
        match self {
            // The relay shuts down, lost the sequence of commands, or requires credentials (RFC
            // 5321 section 4.2.3, RFC 4954, RFC 7504).
            Self::Rejected { code: 421 | 503 | 521 | 530 | 534 | 535 | 538, .. } => Fault::Relay,
            Self::Rejected { .. } => Fault::Mail,
            _ => Fault::Unknown,
        }
    }

    /// Returns whether the relay rejected the settings or the mail for good: no waiting makes it accept
    /// them.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::NoTls | Self::NoAuth | Self::Rejected { code: 500.., .. })
    }

    /// Returns whether the relay may have enough connections: it rejected this one for now.
    pub(super) fn may_be_connection_limit(&self) -> bool {
        matches!(self, Self::Rejected { step: Step::Connection, code: ..500, .. })
    }
}

/// Returns the last error of the chain; each error above it repeats its text.
fn root_cause(error: &Error) -> Cause {
    if let Some(words) = tls_failure(error) {
        return words.into();
    }
    let chain = iter::successors(error.source(), |&cause| cause.source());
    chain.last().map_or_else(|| error.to_string(), ToString::to_string).into()
}

/// Returns the enhanced status code (RFC 3463) at the start of a reply. Some relays repeat the
/// client's input after it.
fn enhanced_status(text: &str) -> &str {
    let first = text.split(' ').next().unwrap_or_default();
    let numbers = first.split('.').all(|number| {
        (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    if numbers { first } else { "" }
}

/// Shortens a reply to one line, without words that may be addresses or name the recipient.
fn without_addresses(text: &str, recipient: Option<&Address>) -> String {
    let is_address = |word: &str| {
        let word = word.to_ascii_lowercase();
        let mut parts = recipient.into_iter().flat_map(|it| [it.user(), it.domain()]);
        word.contains('@') || parts.any(|part| word.contains(&part.to_ascii_lowercase()))
    };
    let words = text
        .split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty());
    let words: Vec<_> =
        words.map(|word| if is_address(word) { "(address)" } else { word }).collect();
    words.join(" ").chars().take(MAX_REPLY_CHARS).collect()
}
