//! Builds the mail for a notification.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use askama::Template as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{
    delivery::{MailSubject, Notification},
    order::{EmailAddress, OrderId},
    ports::{Cause, NotifyError},
};
use email_encoding::headers::{rfc2047, writer::EmailWriter};
use lettre::{
    Address, Message,
    address::Envelope,
    message::{
        Attachment, Mailbox, MessageBuilder, MultiPart, SinglePart,
        header::{ContentType, HeaderName, HeaderValue},
    },
};
use time::OffsetDateTime;

use crate::{
    Sender,
    calendar::calendar,
    confirmation::{Confirmation, Html, Text},
};

/// Beginning of the subject of every mail. The identifier of the order and a space follow.
const SUBJECT_START: &str = "Signing order ";

/// Returns the order that the first line of the header field of a subject names.
pub(crate) fn order_of_subject(line: &str) -> Option<OrderId> {
    // The first encoded word has the identifier, because the text before it is short.
    let encoded = line.strip_prefix("=?utf-8?b?").and_then(|rest| rest.split_once("?="));
    let text = match encoded {
        Some((word, _)) => STANDARD.decode(word).ok()?,
        None => line.into(),
    };
    let text = String::from_utf8_lossy(&text);
    let (id, _) = text.strip_prefix(SUBJECT_START)?.split_once(' ')?;
    id.parse().ok().map(OrderId)
}

/// Builds everything but the body of a mail. Deterministic: equal arguments give equal bytes.
pub(crate) fn head(
    sender: &Sender,
    key: &str,
    recipient: &EmailAddress,
    subject: String,
    date: OffsetDateTime,
) -> Result<MessageBuilder, NotifyError> {
    let from = sender.0.clone();
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
        .raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        )))
}

/// Builds a mail about an order. Deterministic: equal notifications give equal bytes.
pub(crate) fn render(sender: &Sender, notification: &Notification) -> Result<Message, NotifyError> {
    let Notification { order, recipient, message_key: key, .. } = notification;
    let (id, file_number) = (order.id.0, order.order.file_number.as_str());
    let (event, date) = match notification.subject {
        MailSubject::Created => ("received", order.created_at),
        MailSubject::DocumentsAdded => ("has new documents", order.updated_at),
        MailSubject::Cancelled => ("cancelled", order.updated_at),
        MailSubject::Reinstated => ("takes place again", order.updated_at),
    };
    let subject = format!("{SUBJECT_START}{id} {event}: file {file_number}");
    let head = head(sender, key, recipient, subject, date)?;
    let confirmation = Confirmation::new(notification).map_err(permanent)?;

    // Clients cannot put these boundaries into a part: they do not know the random key.
    let alternatives = MultiPart::alternative()
        .boundary(format!("{key}-alternative"))
        .singlepart(SinglePart::plain(Text(&confirmation).render().map_err(permanent)?))
        .singlepart(SinglePart::html(Html(&confirmation).render().map_err(permanent)?));
    let is_cancelled = notification.subject == MailSubject::Cancelled;
    let method = if is_cancelled { "CANCEL" } else { "PUBLISH" };
    // Exchange shows a mail whose calendar is an alternative as an appointment, without its text.
    let calendar = Attachment::new("appointment.ics".to_owned()).body(
        calendar(order, notification.subject, notification.sequence).map_err(permanent)?,
        ContentType::parse(&format!("text/calendar; charset=utf-8; method={method}"))
            .map_err(permanent)?,
    );
    let parts = MultiPart::mixed()
        .boundary(format!("{key}-mixed"))
        .multipart(alternatives)
        .singlepart(calendar);
    head.multipart(parts).map_err(permanent)
}

/// Encodes the subject as a whole (RFC 2047) unless plain ASCII is unambiguous. Lettre encodes each
/// word separately, which loses spaces and passes on text that looks like an encoded word.
pub(crate) fn subject_header(subject: String) -> Result<HeaderValue, fmt::Error> {
    let name = HeaderName::new_from_ascii_str("Subject");
    if subject.is_ascii() && !["=?", "  "].iter().any(|ambiguous| subject.contains(ambiguous)) {
        return Ok(HeaderValue::new(name, subject));
    }
    let mut encoded = String::new();
    rfc2047::encode(&subject, &mut EmailWriter::new(&mut encoded, "Subject: ".len(), 0, false))?;
    Ok(HeaderValue::dangerous_new_pre_encoded(name, subject, encoded))
}

pub(crate) fn permanent(cause: impl Into<Cause>) -> NotifyError {
    NotifyError::Permanent(cause.into())
}

#[cfg(test)]
#[path = "message_tests.rs"]
pub(crate) mod tests;
