//! Failures of the dialogue with a relay.

use std::{error::Error as _, fmt};

use domain::ports::Cause;
use lettre::{Address, transport::smtp::Error};

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
    #[error("the relay does not offer TLS")]
    NoTls,
    #[error("TLS with the relay failed")]
    Tls(#[source] Cause),
    #[error("the relay offers neither AUTH PLAIN nor AUTH LOGIN")]
    NoAuth,
    #[error("the relay rejected {step}: {reply}")]
    Rejected { step: Step, code: u16, reply: String },
    #[error("the connection to the relay broke")]
    Broken(#[source] Cause),
}

/// The step that a relay rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Connection,
    StartTls,
    Credentials,
    Sender,
    Recipient,
    /// `DATA`, before the relay has read the mail.
    Mail,
    /// The mail itself.
    Content,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connection => "the connection",
            Self::StartTls => "STARTTLS",
            Self::Credentials => "the user or the password",
            Self::Sender => "the sender",
            Self::Recipient => "the recipient",
            Self::Mail | Self::Content => "the mail",
        })
    }
}

/// What caused a failure after `MAIL FROM`, and whether a retry may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The relay: all mails are affected.
    Relay,
    /// This mail; a retry may succeed.
    MailForNow,
    /// This mail; no retry will succeed.
    MailForGood,
    /// Either the relay or this mail.
    Unknown,
}

impl Failure {
    /// Converts an error: a negative reply to `step`, or else what `otherwise` makes of the cause.
    pub(super) fn new(error: &Error, step: Step, otherwise: impl FnOnce(Cause) -> Self) -> Self {
        let Some(code) = error.status() else { return otherwise(root_cause(error)) };
        let text = error.source().map(ToString::to_string).unwrap_or_default();
        let text = match step {
            // The relay may repeat credentials or parts of the mail in any form.
            Step::Credentials | Step::Content => enhanced_status(&text).to_owned(),
            _ => without_addresses(&text),
        };
        Self::Rejected {
            step,
            code: code.into(),
            reply: format!("{code} {text}").trim_end().to_owned(),
        }
    }

    /// Removes words that contain the recipient's mailbox or domain from the reply.
    pub(super) fn without(mut self, recipient: &Address) -> Self {
        if let Self::Rejected { reply, .. } = &mut self {
            let names_recipient = |word: &str| {
                [recipient.user(), recipient.domain()].into_iter().any(|part| names(word, part))
            };
            *reply = reply
                .split(' ')
                .map(|word| if names_recipient(word) { "(address)" } else { word })
                .collect::<Vec<_>>()
                .join(" ");
        }
        self
    }

    /// Classifies a failure after the relay has accepted the sender. Everything up to there is the
    /// same for all mails.
    pub(super) fn fault(&self) -> Fault {
        match self {
            // The relay shuts down, lost the sequence of commands, or requires credentials (RFC
            // 5321 section 4.2.3, RFC 4954, RFC 7504).
            Self::Rejected { code: 421 | 503 | 521 | 530 | 534 | 535 | 538, .. } => Fault::Relay,
            Self::Rejected { code: 500.., .. } => Fault::MailForGood,
            Self::Rejected { .. } => Fault::MailForNow,
            _ => Fault::Unknown,
        }
    }

    /// Returns whether the relay rejected the settings: no waiting makes it accept them.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::NoTls | Self::NoAuth | Self::Rejected { code: 500.., .. })
    }

    /// Returns whether the relay may have enough connections: it rejected this one for now.
    pub(super) fn may_be_connection_limit(&self) -> bool {
        matches!(self, Self::Rejected { step: Step::Connection, code: ..500, .. })
    }

    /// Returns whether the relay still accepts commands on the connection.
    pub(super) fn leaves_connection_usable(&self) -> bool {
        matches!(self, Self::NoTls | Self::NoAuth | Self::Rejected { .. })
    }
}

/// Returns whether a word names a part of an address. Parts of one or two letters occur in many
/// words, so they must match exactly.
fn names(word: &str, part: &str) -> bool {
    let (word, part) = (word.to_ascii_lowercase(), part.to_ascii_lowercase());
    if part.len() < 3 {
        word.trim_matches(|character: char| !character.is_alphanumeric()) == part
    } else {
        word.contains(&part)
    }
}

/// Returns the last error of the chain; each error above it repeats its text.
fn root_cause(error: &Error) -> Cause {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(deeper) = deepest.source() {
        deepest = deeper;
    }
    deepest.to_string().into()
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

/// Shortens a reply to one line, without words that may be addresses.
fn without_addresses(text: &str) -> String {
    let words = text
        .split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty());
    let words: Vec<_> =
        words.map(|word| if word.contains('@') { "(address)" } else { word }).collect();
    words.join(" ").chars().take(MAX_REPLY_CHARS).collect()
}
