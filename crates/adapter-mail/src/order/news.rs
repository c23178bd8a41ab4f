//! The news of a mail: its subject, heading and first sentences.

use std::{collections::BTreeSet, iter};

use domain::{
    delivery::{Audience, Extent, MailContent, MailSubject, Notification},
    document::StoredDocument,
    order::{Actor, OrderStatus, event::NoteThen},
};
use time::OffsetDateTime;

use super::facts::lines;

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

/// Returns the name of a side at the beginning of a sentence.
fn author(side: Actor) -> &'static str {
    match side {
        Actor::Client => "The client",
        Actor::Service => "The signing service",
        Actor::Operator | Actor::Database => "The operator of the order system",
    }
}

fn are_of_one_author(notes: &[NoteThen]) -> bool {
    let authors: BTreeSet<Actor> = notes.iter().map(|note| note.author).collect();
    authors.len() == 1
}

/// Returns the lines of the notes that a mail tells. Notes of several authors have their names before them.
pub(super) fn notes(notification: &Notification) -> Vec<String> {
    let notes = notification.content.as_ref().map(MailContent::notes).unwrap_or_default();
    let is_of_one = are_of_one_author(&notes);
    let mut shown = Vec::new();
    for note in notes {
        if !shown.is_empty() {
            shown.push(String::new());
        }
        if !is_of_one {
            shown.push(format!("{}:", author(note.author)));
        }
        shown.extend(lines(Some(&note.text)));
    }
    shown
}

/// Returns a sentence about the notes that a mail tells.
fn of_notes(notification: &Notification) -> String {
    let notes = notification.content.as_ref().map(MailContent::notes).unwrap_or_default();
    match &notes[..] {
        [] => "This order has a new note.".to_owned(),
        [one] => format!("{} has written a note on this order.", author(one.author)),
        several @ [first, ..] if are_of_one_author(several) => {
            let count = several.len();
            format!("{} has written {count} notes on this order.", author(first.author))
        }
        several => format!("This order has {} new notes.", several.len()),
    }
}

/// Returns the documents at the positions of a mail that fit, the oldest first. All that fit, if the mail
/// has no positions.
fn documents<'a>(
    notification: &Notification,
    of: &'a [StoredDocument],
    fits: fn(&StoredDocument) -> bool,
) -> Vec<&'a StoredDocument> {
    let is_told = |position: u32| match &notification.content {
        Some(MailContent::Documents(positions)) => positions.contains(&position),
        _ => true,
    };
    let told = (0..).zip(of).filter(|(position, one)| is_told(*position) && fits(one));
    told.map(|(_, one)| one).collect()
}

/// Returns a number of documents, such as `2 documents`.
fn counted(documents: &[&StoredDocument], kind: &str) -> String {
    match documents.len() {
        1 => format!("1 {kind}"),
        count => format!("{count} {kind}s"),
    }
}

fn names(documents: &[&StoredDocument]) -> String {
    let names: Vec<_> = documents.iter().map(|document| document.name.as_str()).collect();
    names.join(", ")
}

/// Returns a sentence about the documents that replace others.
fn of_replacements(notification: &Notification) -> String {
    let all = &notification.order.documents;
    let new = match &notification.content {
        Some(MailContent::Documents(positions)) => positions.as_slice(),
        _ => &[],
    };
    // A document may have been replaced several times, and the last one may be withdrawn.
    let has_current = |first: u32| {
        let at = |position: u32| usize::try_from(position).ok().and_then(|at| all.get(at));
        let by = |position: &u32| at(*position).and_then(|one| one.replaced_by);
        let last = iter::successors(Some(first), by).take(all.len()).last().and_then(at);
        last.is_some_and(StoredDocument::is_current)
    };
    let is_old = |(position, one): &(u32, &StoredDocument)| {
        let by = one.replaced_by.filter(|by| new.contains(by) && has_current(*by));
        !new.contains(position) && by.is_some()
    };
    let old: Vec<_> = (0..).zip(all).filter(is_old).map(|(_, old)| old).collect();
    let is_named = old.iter().all(|old| old.withdrawn_at.is_none());
    let current = documents(notification, all, StoredDocument::is_current);
    match (&old[..], &current[..]) {
        ([], _) | (_, []) => "The client has replaced documents of this order. Please print the \
            new ones."
            .to_owned(),
        ([old], [new]) => {
            let old = if is_named { old.name.as_str() } else { "a document of this order" };
            format!("The client has replaced {old}. Please print the new one, {}.", new.name)
        }
        _ => {
            let (count, new) = (counted(&old, "document"), names(&current));
            let old = if is_named { format!(": {}", names(&old)) } else { String::new() };
            format!("The client has replaced {count}{old}. Please print the new ones: {new}.")
        }
    }
}

/// Returns the first sentences of a mail to a service about its new order, or that names documents or authors.
fn introduction(notification: &Notification) -> String {
    let order = &notification.order;
    let kept = |one: &StoredDocument| one.withdrawn_at.is_none();
    let recalled = |of: &[StoredDocument], kind: &str| {
        let recalled = documents(notification, of, StoredDocument::is_recalled);
        let them = if recalled.len() == 1 { "it" } else { "them" };
        format!(
            "has withdrawn {} that you had fetched. Please do not use {them} any more.",
            counted(&recalled, kind)
        )
    };
    match notification.subject {
        // It may have a notary already when the mail leaves.
        MailSubject::Created if order.notary_id.is_some() || order.notary.is_some() => {
            "A client has created this order for your signing service.".to_owned()
        }
        MailSubject::Created => {
            "A client has created this order for your signing service. Please assign a notary."
                .to_owned()
        }
        MailSubject::NoteAdded => of_notes(notification),
        MailSubject::DocumentReplaced => of_replacements(notification),
        MailSubject::DocumentsAdded if notification.content.is_some() => {
            let new = documents(notification, &order.documents, StoredDocument::is_current);
            format!("The client has added {}: {}.", counted(&new, "document"), names(&new))
        }
        MailSubject::DocumentsAdded => "The client has added documents to this order.".to_owned(),
        MailSubject::SignedDocumentsAdded => {
            let new = documents(notification, &order.signed_documents, kept);
            format!("The signing service has returned {}.", counted(&new, "signed document"))
        }
        MailSubject::DocumentWithdrawn => {
            format!("The client {}", recalled(&order.documents, "document"))
        }
        MailSubject::SignedDocumentWithdrawn => {
            let recalled = recalled(&order.signed_documents, "signed document");
            format!("The signing service {recalled}")
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
        (MailSubject::Created, Audience::Service) => {
            ("New order", "A new signing order", special.as_str())
        }
        (MailSubject::DocumentsAdded, _) => {
            ("Documents added", "A signing order has new documents", special.as_str())
        }
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
        (MailSubject::AssignedAgain, _) => (
            "Order assigned again",
            "A signing order is assigned again",
            "The signing service has set this order back to assigned. The appointment is not confirmed.",
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
        (MailSubject::DocumentWithdrawn, _) => {
            ("Document withdrawn", "A document has been withdrawn", special.as_str())
        }
        (MailSubject::SignedDocumentWithdrawn, _) => {
            ("Signed document withdrawn", "A signed document has been withdrawn", special.as_str())
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
    let is_whole = MailSubject::WHOLE.contains(&notification.subject);
    let again = match audience {
        _ if !is_whole || !order.must_be_confirmed_again() => "",
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
