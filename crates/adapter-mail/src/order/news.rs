//! The news of a mail: its subject, heading and first sentences.

use domain::delivery::{Audience, MailSubject, Notification};
use time::OffsetDateTime;

/// The news of a mail.
pub(super) struct News {
    /// Beginning of the subject. The file number follows.
    pub(super) subject: &'static str,
    /// Instant of the news.
    pub(super) at: OffsetDateTime,
    /// Heading.
    pub(super) heading: &'static str,
    /// First sentences.
    pub(super) introduction: String,
    /// The reason why the recipient gets the mail.
    pub(super) closing: &'static str,
}

/// Returns the news of a mail.
pub(super) fn news(notification: &Notification) -> News {
    let Notification { order, subject, audience, .. } = notification;
    let arrived = notification.arrived.map(|count| match count {
        1 => "The signing service has returned 1 signed document.".to_owned(),
        _ => format!("The signing service has returned {count} signed documents."),
    });
    let (subject, heading, introduction) = match (subject, audience) {
        (MailSubject::Created, Audience::Client) => (
            "New order",
            "We have received your signing order",
            "Thank you for your order. Please check the details below, and tell your signing \
            service if anything needs to be corrected.",
        ),
        (MailSubject::Created, Audience::Service) => (
            "New order",
            "A new signing order",
            "A client has created this order for your signing service. Please assign a notary.",
        ),
        (MailSubject::DocumentsAdded, _) => (
            "Documents added",
            "A signing order has new documents",
            "The client has added documents to this order.",
        ),
        (MailSubject::Reinstated, _) => (
            "Order reinstated",
            "A signing order takes place again",
            "The order was cancelled, and is not any more. The attached calendar file has the \
            appointment.",
        ),
        (MailSubject::Cancelled, _) => (
            "Order cancelled",
            "A signing order is cancelled",
            "The signing does not take place. The attached calendar file removes the appointment.",
        ),
        (MailSubject::Changed, _) => (
            "Order changed",
            "A signing order has changed",
            "The client has changed this order. The attached calendar file has the appointment.",
        ),
        (MailSubject::NotaryAssigned, _) => (
            "Notary assigned",
            "A signing order has a notary",
            "The signing service has assigned a notary to this order.",
        ),
        (MailSubject::Confirmed, _) => (
            "Appointment confirmed",
            "The appointment is confirmed",
            "The signing service has confirmed the appointment.",
        ),
        (MailSubject::Signed, _) => (
            "Order signed",
            "The documents are signed",
            "The signing service reports that the documents are signed.",
        ),
        (MailSubject::NotSigned, _) => (
            "Order not signed",
            "The documents are not signed",
            "The signing service reports that the documents were not signed.",
        ),
        (MailSubject::SignedDocumentsAdded, _) => (
            "Signed documents",
            "Signed documents have arrived",
            arrived.as_deref().unwrap_or("The signing service has returned signed documents."),
        ),
        (MailSubject::DocumentReplaced, _) => (
            "Document replaced",
            "A document has been replaced",
            "The client has replaced a document of this order. Please print the new one.",
        ),
        (MailSubject::NoteAdded, _) => {
            ("New note", "A signing order has a new note", "Here is a new note on this order.")
        }
    };
    let is_first = notification.subject == MailSubject::Created;
    News {
        subject,
        at: if is_first { order.created_at } else { order.updated_at },
        heading,
        introduction: introduction.to_owned(),
        closing: match audience {
            Audience::Client => {
                "You receive this automatic message because the order names you as a contact."
            }
            Audience::Service => {
                "You receive this automatic message because the order names your signing service."
            }
        },
    }
}
