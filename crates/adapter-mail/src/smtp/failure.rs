//! What goes wrong between the service and a relay.

use std::{error::Error as _, fmt};

use domain::ports::Cause;
use lettre::{Address, transport::smtp::Error};

/// Most characters of a reply that are kept.
const REPLY_LENGTH: usize = 200;

/// Why a relay did not do as it was asked. The texts hold neither credentials nor addresses of
/// people: they are logged.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("no connection to {host}:{port}")]
    NoConnection { host: String, port: u16, source: Cause },
    #[error("the relay does not answer in time")]
    Silence,
    #[error("the relay offers no TLS")]
    NoTls,
    #[error("TLS with the relay failed")]
    Tls(#[source] Cause),
    #[error("the relay offers no way to log in that is known, which are AUTH PLAIN and AUTH LOGIN")]
    NoAuth,
    #[error("the relay refuses {what}: {reply}")]
    Refused { what: What, code: u16, reply: String },
    #[error("the connection to the relay broke")]
    Broken(#[source] Cause),
}

/// What a relay refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Connection,
    StartTls,
    Credentials,
    Sender,
    Recipient,
    Mail,
    /// The mail, once the relay has read it.
    Content,
}

impl fmt::Display for What {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connection => "the connection",
            Self::StartTls => "to begin TLS",
            Self::Credentials => "the user or the password",
            Self::Sender => "the sender",
            Self::Recipient => "the recipient",
            Self::Mail | Self::Content => "the mail",
        })
    }
}

/// Whose a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is everybody's.
    Service,
    /// It is this mail's, and may pass.
    Later,
    /// It is this mail's, for good.
    Never,
    /// It may be either.
    Unknown,
}

impl Failure {
    /// Of a command, which the relay may have refused; `otherwise` of whatever else went wrong.
    pub(super) fn new(error: &Error, what: What, otherwise: impl FnOnce(Cause) -> Self) -> Self {
        let Some(code) = error.status() else { return otherwise(cause(error)) };
        let text = error.source().map(ToString::to_string).unwrap_or_default();
        let text = match what {
            // What the relay was told may be repeated by it in any form.
            What::Credentials | What::Content => enhanced_status(&text).to_owned(),
            _ => without_addresses(&text),
        };
        Self::Refused {
            what,
            code: code.into(),
            reply: format!("{code} {text}").trim_end().to_owned(),
        }
    }

    /// The same, should a reply name the mailbox or the domain of a recipient on its own, or write
    /// them otherwise.
    pub(super) fn without(mut self, recipient: &Address) -> Self {
        if let Self::Refused { reply, .. } = &mut self {
            let named = |word: &str| {
                [recipient.user(), recipient.domain()].into_iter().any(|part| is_of(part, word))
            };
            *reply = reply
                .split(' ')
                .map(|word| if named(word) { "(address)" } else { word })
                .collect::<Vec<_>>()
                .join(" ");
        }
        self
    }

    /// Whose a failure is that came after the sender was accepted: each mail has the same, so
    /// before it is everybody's.
    pub(super) fn verdict(&self) -> Verdict {
        match self {
            // The relay closes down, or lost track, or wants credentials (RFC 5321 section 4.2.3,
            // RFC 4954, RFC 7504).
            Self::Refused { code: 421 | 503 | 521 | 530 | 534 | 535 | 538, .. } => Verdict::Service,
            Self::Refused { code: 500.., .. } => Verdict::Never,
            Self::Refused { .. } => Verdict::Later,
            _ => Verdict::Unknown,
        }
    }

    /// Whether the relay waits for another command.
    pub(super) fn leaves_connection(&self) -> bool {
        matches!(self, Self::NoTls | Self::NoAuth | Self::Refused { .. })
    }
}

/// Whether a word is a part of an address, or has it in it. One or two letters are in many words.
fn is_of(part: &str, word: &str) -> bool {
    let (part, word) = (part.to_ascii_lowercase(), word.to_ascii_lowercase());
    if part.len() < 3 {
        word.trim_matches(|character: char| !character.is_alphanumeric()) == part
    } else {
        word.contains(&part)
    }
}

/// What is at the bottom of an error; each layer above repeats it.
fn cause(error: &Error) -> Cause {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(deeper) = deepest.source() {
        deepest = deeper;
    }
    deepest.to_string().into()
}

/// The enhanced status code (RFC 3463) that a reply begins with. Relays are known to repeat what
/// they were sent after it.
fn enhanced_status(text: &str) -> &str {
    let first = text.split(' ').next().unwrap_or_default();
    let numbers = first.split('.').all(|number| {
        (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    if numbers { first } else { "" }
}

/// A reply in one short line, with what may be an address left out.
fn without_addresses(text: &str) -> String {
    let words = text
        .split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty());
    let words: Vec<_> =
        words.map(|word| if word.contains('@') { "(address)" } else { word }).collect();
    words.join(" ").chars().take(REPLY_LENGTH).collect()
}
