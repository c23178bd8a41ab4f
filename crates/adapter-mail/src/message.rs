//! The head of every mail.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use domain::{
    order::EmailAddress,
    ports::{Cause, NotifyError},
};
use email_encoding::headers::{rfc2047, writer::EmailWriter};
use lettre::{
    Address, Message,
    address::Envelope,
    message::{
        Mailbox, MessageBuilder,
        header::{HeaderName, HeaderValue},
    },
};
use time::OffsetDateTime;

use crate::Sender;

/// Builds everything but the body of a mail. Deterministic: equal arguments give equal bytes.
pub(crate) fn head(
    sender: &Sender,
    key: &str,
    recipient: &EmailAddress,
    subject: String,
    date: OffsetDateTime,
) -> Result<MessageBuilder, NotifyError> {
    let from = sender.mailbox.clone();
    let to: Address = recipient.as_str().parse().map_err(permanent)?;
    Ok(Message::builder()
        // Lettre would otherwise derive the envelope from the headers.
        .envelope(Envelope::new(Some(from.email.clone()), vec![to.clone()]).map_err(permanent)?)
        .message_id(Some(format!("<{key}@{}>", from.email.domain())))
        .from(from)
        .to(Mailbox::new(None, to))
        .raw_header(subject_header(subject).map_err(permanent)?)
        // Lettre cannot write an earlier date.
        .date(SystemTime::from(date).max(UNIX_EPOCH))
        .raw_header(header("Auto-Submitted", "auto-generated".to_owned()))
        // Exchange and Outlook read this one, and send no notes of absence then.
        .raw_header(header("X-Auto-Response-Suppress", "All".to_owned())))
}

/// Returns a header field of plain ASCII.
pub(crate) fn header(name: &'static str, value: String) -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str(name), value)
}

/// Encodes the subject as a whole (RFC 2047) unless plain ASCII is unambiguous. Lettre encodes each
/// word separately, which loses spaces and passes on text that looks like an encoded word.
fn subject_header(subject: String) -> Result<HeaderValue, fmt::Error> {
    if subject.is_ascii() && !["=?", "  "].iter().any(|ambiguous| subject.contains(ambiguous)) {
        return Ok(header("Subject", subject));
    }
    let mut encoded = String::new();
    rfc2047::encode(&subject, &mut EmailWriter::new(&mut encoded, "Subject: ".len(), 0, false))?;
    let name = HeaderName::new_from_ascii_str("Subject");
    Ok(HeaderValue::dangerous_new_pre_encoded(name, subject, encoded))
}

pub(crate) fn permanent(cause: impl Into<Cause>) -> NotifyError {
    NotifyError::Permanent(cause.into())
}
