//! The news of a mail: its subject, heading and first sentences.

use domain::{
    delivery::{Audience, Extent, MailContent, MailSubject, Notification},
    document::StoredDocument,
    order::{Actor, OrderStatus},
};
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

/// Returns the first sentence of a mail that names documents or an author.
fn introduction(notification: &Notification) -> String {
    let documents = &notification.order.documents;
    match &notification.content {
        Some(MailContent::Note { author, .. }) => {
            let author = match author {
                Actor::Client => "The client",
                Actor::Service => "The signing service",
                Actor::Operator | Actor::Database => "The operator of the order system",
            };
            format!("{author} has written a note on this order.")
        }
        Some(MailContent::Documents(new))
            if notification.subject == MailSubject::DocumentReplaced =>
        {
            let is_old =
                |one: &&StoredDocument| one.replaced_by.is_some_and(|by| new.contains(&by));
            let old = documents.iter().find(is_old);
            let new =
                new.first().and_then(|position| documents.get(usize::try_from(*position).ok()?));
            let [old, new] = [old, new].map(|one| one.filter(|one| one.withdrawn_at.is_none()));
            let old = old.map_or("a document of this order", |old| &old.name);
            let new = new.map_or_else(|| "one".to_owned(), |new| format!("one, {}", new.name));
            format!("The client has replaced {old}. Please print the new {new}.")
        }
        Some(MailContent::Documents(new)) => {
            let kept = (0..).zip(&notification.order.signed_documents);
            let kept = kept.filter(|(at, one)| new.contains(at) && one.withdrawn_at.is_none());
            match kept.count() {
                1 => "The signing service has returned 1 signed document.".to_owned(),
                count => format!("The signing service has returned {count} signed documents."),
            }
        }
        _ => String::new(),
    }
}

/// Returns the news of a mail.
pub(super) fn news(notification: &Notification) -> News {
    let Notification { order, subject, audience, .. } = notification;
    let special = introduction(notification);
    let (subject, heading, introduction) = match (subject, audience) {
        (MailSubject::Created, Audience::Client) => (
            "New order",
            "We have received your signing order",
            "Thank you for your order. Please check the details below. Change the order, or tell \
            your signing service, if anything needs to be corrected.",
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
            "The cancellation of this order does not apply any more: the signing takes place. The \
            attached calendar file has the appointment.",
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
        (MailSubject::SignedDocumentsAdded, _) => {
            ("Signed documents", "Signed documents have arrived", special.as_str())
        }
        (MailSubject::DocumentReplaced, _) => {
            ("Document replaced", "A document has been replaced", special.as_str())
        }
        (MailSubject::NoteAdded, _) => {
            ("New note", "A signing order has a new note", special.as_str())
        }
    };
    let is_first = notification.subject == MailSubject::Created;
    let is_late =
        order.status == OrderStatus::CANCELLED && notification.subject != MailSubject::Cancelled;
    // The recipient may have got no mail before the cancellation, and so none about it.
    let end =
        if is_late { " The order is cancelled: the signing does not take place." } else { "" };
    let again = match audience {
        _ if notification.subject != MailSubject::Changed || !order.must_be_confirmed_again() => "",
        Audience::Service => " The appointment must be confirmed again.",
        Audience::Client => " The signing service has not confirmed the appointment again yet.",
    };
    News {
        subject,
        at: if is_first { order.created_at } else { order.updated_at },
        heading,
        introduction: format!("{introduction}{again}{end}"),
        closing: match audience {
            _ if notification.extent == Extent::EndOnly => {
                "You receive this automatic message because you had mails about this order before."
            }
            Audience::Client => {
                "You receive this automatic message because the order names you as a contact."
            }
            Audience::Service => {
                "You receive this automatic message because the order names your signing service."
            }
        },
    }
}
