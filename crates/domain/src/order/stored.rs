//! An order that the service has created, and its state.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use super::{EmailAddress, MAX_STATUS, OldValues, Order, OrderId};
use crate::{
    api_key::{ApiKeyId, ClientId, Party},
    document::{DocumentKind, StoredDocument},
    person::{Doer, PersonId},
};

conceal!(Notary, Note);

/// State of an order: 1 to [`MAX_STATUS`] characters. The service creates orders as `NEW`. Signing
/// services and other systems set further states, and the service returns them unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderStatus(Cow<'static, str>);

impl OrderStatus {
    /// The state of every order on creation (spec section 3).
    pub const NEW: Self = Self(Cow::Borrowed("NEW"));
    /// The signing does not take place. Such an order does not change any more.
    pub const CANCELLED: Self = Self(Cow::Borrowed("CANCELLED"));
    /// It has a notary.
    pub const ASSIGNED: Self = Self(Cow::Borrowed("ASSIGNED"));
    /// The appointment is confirmed.
    pub const CONFIRMED: Self = Self(Cow::Borrowed("CONFIRMED"));
    /// The signing is put off.
    pub const ON_HOLD: Self = Self(Cow::Borrowed("ON_HOLD"));
    /// The documents are signed. Such an order cannot be cancelled.
    pub const SIGNED: Self = Self(Cow::Borrowed("SIGNED"));
    /// Nothing is left to do. Such an order cannot be cancelled.
    pub const COMPLETED: Self = Self(Cow::Borrowed("COMPLETED"));

    /// The signing did not take place as it was to. The client cannot change such an order.
    pub const DID_NOT_SIGN: Self = Self(Cow::Borrowed("DID_NOT_SIGN"));

    /// The usual states. The service knows the rules of some; all others are free texts.
    pub const USUAL: [Self; 8] = [
        Self::NEW,
        Self::ASSIGNED,
        Self::CONFIRMED,
        Self::ON_HOLD,
        Self::SIGNED,
        Self::DID_NOT_SIGN,
        Self::COMPLETED,
        Self::CANCELLED,
    ];

    /// The states of which a mail tells something of the history: a reason, or that a confirmation has ended.
    pub const TOLD_WITH_HISTORY: [Self; 3] = [Self::ASSIGNED, Self::DID_NOT_SIGN, Self::CANCELLED];

    /// Returns the state that a text names; `None` unless it has 1 to 50 characters. A near spelling of
    /// a usual state is that state: programs must not miss a cancellation for a letter.
    pub fn named(text: String) -> Option<Self> {
        let letters = |text: &str| {
            let is_letter = |c: &char| !matches!(c, ' ' | '\t' | '\u{a0}' | '-' | '_');
            text.chars().filter(is_letter).collect::<String>().to_ascii_uppercase()
        };
        let written = letters(&text);
        let written = if written == "CANCELED" { "CANCELLED" } else { &written };
        let usual = Self::USUAL.into_iter().find(|usual| letters(usual.as_str()) == written);
        usual.or_else(|| Self::from_stored(text))
    }

    /// Returns a state that was read from storage; `None` unless it has 1 to 50 characters.
    pub fn from_stored(text: String) -> Option<Self> {
        (1..=MAX_STATUS).contains(&text.chars().count()).then_some(Self(text.into()))
    }

    /// Returns the name of the state, in answers and in storage.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the instant of a change at `now` of an order that was last changed at `before`. Instants of
/// one order increase, although clocks of instances differ.
pub fn after(before: OffsetDateTime, now: OffsetDateTime) -> OffsetDateTime {
    now.max(before.saturating_add(Duration::MICROSECOND))
}

/// The side that changed an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// The client that created it.
    Client,
    /// Its signing service.
    Service,
    /// An operator, by a command.
    Operator,
    /// Another system, by SQL.
    Database,
}

impl Actor {
    /// Returns the name, in answers, metrics and storage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Service => "service",
            Self::Operator => "operator",
            Self::Database => "database",
        }
    }

    /// Returns whether this side is that of a party, which then sees the names of those who acted.
    pub fn is_of(self, party: Party) -> bool {
        matches!(
            (party, self),
            (Party::Client(_), Self::Client) | (Party::Service(_), Self::Service)
        )
    }

    /// Returns the side that uploads and withdraws documents of a kind.
    pub fn uploading(kind: DocumentKind) -> Self {
        match kind {
            DocumentKind::ToSign => Self::Client,
            DocumentKind::Signed => Self::Service,
        }
    }

    /// Returns the actor of a name; `None` if it is none.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Client, Self::Service, Self::Operator, Self::Database]
            .into_iter()
            .find(|actor| actor.as_str() == name)
    }
}

/// The kind of a change of an order, and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// The order was created.
    Created,
    /// Its status or its notary changed.
    Status,
    /// The client changed the fields at these JSON Pointers of the request.
    Changed(Vec<String>),
    /// The signing service added the signed documents at these positions.
    SignedDocumentsAdded(Vec<u32>),
    /// New documents at these positions replaced others.
    DocumentsReplaced(Vec<u32>),
    /// Documents at these positions were withdrawn.
    Withdrawn(Vec<u32>),
    /// All documents of both sides were withdrawn, because the operator keeps them no longer.
    DocumentsErased,
}

impl ChangeKind {
    /// Returns the name, in answers and in storage.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Status => "status",
            Self::Changed(_) => "changed",
            Self::SignedDocumentsAdded(_) => "signed_documents_added",
            Self::DocumentsReplaced(_) => "documents_replaced",
            Self::Withdrawn(_) => "withdrawn",
            Self::DocumentsErased => "documents_erased",
        }
    }

    /// Returns the changed fields; `None` for a change of no fields.
    pub fn changed(&self) -> Option<&[String]> {
        if let Self::Changed(pointers) = self { Some(pointers) } else { None }
    }

    /// Returns the positions of documents; `None` for a change of no documents.
    pub fn documents(&self) -> Option<&[u32]> {
        match self {
            Self::SignedDocumentsAdded(positions)
            | Self::DocumentsReplaced(positions)
            | Self::Withdrawn(positions) => Some(positions),
            Self::Created | Self::Status | Self::Changed(_) | Self::DocumentsErased => None,
        }
    }

    /// Returns a kind that was read from storage: its name, and JSON arrays of fields and of positions.
    /// `None` if an array is missing or unreadable. An unknown name, which another version of the service
    /// has written, is a change of status or notary.
    pub fn from_stored(name: &str, changed: Option<&str>, documents: Option<&str>) -> Option<Self> {
        let positions = || serde_json::from_str(documents?).ok();
        match name {
            "changed" => Some(Self::Changed(serde_json::from_str(changed?).ok()?)),
            "signed_documents_added" => positions().map(Self::SignedDocumentsAdded),
            "documents_replaced" => positions().map(Self::DocumentsReplaced),
            "withdrawn" => positions().map(Self::Withdrawn),
            "documents_erased" => Some(Self::DocumentsErased),
            _ => Some(Self::Status),
        }
    }
}

/// An entry in the history of an order: what a change left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderChange {
    /// Instant of the change.
    pub at: OffsetDateTime,
    /// Its kind and values.
    pub kind: ChangeKind,
    /// What the changed fields were before; `None` for other kinds, and for changes by version 0.1.0.
    pub before: Option<OldValues>,
    /// The status after it.
    pub status: OrderStatus,
    /// The notary after it.
    pub notary_id: Option<i64>,
    /// The side that made it.
    pub actor: Actor,
    /// The reason that it gave.
    pub reason: Option<String>,
    /// The key or the person; `None` for operators, other systems and version 0.1.0. Their own side sees the name.
    pub by: Option<Doer>,
}

impl OrderChange {
    /// Returns the first entry of the history of an order that was created at an instant.
    pub fn created(at: OffsetDateTime) -> Self {
        let (status, actor) = (OrderStatus::NEW, Actor::Client);
        let kind = ChangeKind::Created;
        Self { at, kind, before: None, status, notary_id: None, actor, reason: None, by: None }
    }
}

/// The notary of an order. The `serde` names are those of answers and of storage.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notary {
    /// Full name.
    pub name: String,
    /// Phone number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phone: Option<String>,
    /// E-mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<EmailAddress>,
}

/// A note about an order, for the other side. It is never changed.
#[derive(Clone, PartialEq, Eq)]
pub struct Note {
    /// Instant at which it was added. Instants of the notes of one order increase.
    pub at: OffsetDateTime,
    /// The side that wrote it.
    pub author: Actor,
    /// Its text, on one or several lines.
    pub text: String,
    /// The key or the person who wrote it; `None` for operators and version 0.1.0. Their own side sees the name.
    pub by: Option<Doer>,
}

/// The names of both sides of an order. They are no part of it: operators change them at any time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// The name of the client.
    pub client: Option<String>,
    /// The name of the signing service; none without a record.
    pub service: Option<String>,
}

/// A document of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentId {
    /// The order.
    pub order: OrderId,
    /// The kind.
    pub kind: DocumentKind,
    /// The position among the documents of this kind. It never changes.
    pub position: u32,
}

/// Maximum number of entries of the history that a read of an order has.
pub const READ_HISTORY: usize = 100;

/// Maximum number of notes that a read of an order has.
pub const READ_NOTES: usize = 100;

/// Maximum size of the texts of notes in one answer, in bytes. An answer has at least one note, if there is
/// one.
pub const READ_NOTE_BYTES: usize = 64 * 1024;

/// Returns how many of the first notes an answer has: up to `limit`, and up to [`READ_NOTE_BYTES`] of text.
pub fn fitting_notes<'n>(limit: usize, notes: impl IntoIterator<Item = &'n Note>) -> usize {
    let mut bytes = 0;
    let fits = |(position, note): &(usize, &Note)| {
        bytes += note.text.len();
        *position == 0 || bytes <= READ_NOTE_BYTES
    };
    notes.into_iter().take(limit).enumerate().take_while(fits).count()
}

/// An order that the service has created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOrder {
    /// Identifier of the order.
    pub id: OrderId,
    /// The order itself.
    pub order: Box<Order>,
    /// State of the order.
    pub status: OrderStatus,
    /// The assigned notary; none on creation.
    pub notary_id: Option<i64>,
    /// Who that is, if the service or another system has told.
    pub notary: Option<Notary>,
    /// The documents by position, those of the request first.
    pub documents: Vec<StoredDocument>,
    /// The signed documents by position.
    pub signed_documents: Vec<StoredDocument>,
    /// The newest changes since the creation, up to [`READ_HISTORY`], oldest first.
    /// Lists of orders leave them out.
    pub changes: Vec<OrderChange>,
    /// Its newest notes, up to [`READ_NOTES`] and [`READ_NOTE_BYTES`], oldest first. Lists of orders leave
    /// them out.
    pub notes: Vec<Note>,
    /// The names of its client and its signing service.
    pub names: Names,
    /// Until when an operator keeps it from erasure. Only operators see it.
    pub held_until: Option<OffsetDateTime>,
    /// When reads last began to show something else without a change by people: a first download, or the erasure
    /// of documents by the retention. `None` if that never happened.
    pub touched_at: Option<OffsetDateTime>,
    /// The client that created it.
    pub client: ClientId,
    /// The API key with which the client created it; of a person, the first key of the client.
    pub api_key: ApiKeyId,
    /// The person who created it; `None` for a key.
    pub person: Option<PersonId>,
    /// Whether a test key created it. A test order is no real signing and has no mail recipients.
    pub is_test: bool,
    /// Instant of creation, to the microsecond.
    pub created_at: OffsetDateTime,
    /// Instant of the last change by people, to the microsecond. It is the version.
    pub updated_at: OffsetDateTime,
}

/// Returns the changes since an order has its status, the newest first, from a history that is sorted by time.
fn of_status<'a>(
    changes: &'a [OrderChange],
    status: &'a OrderStatus,
) -> impl Iterator<Item = &'a OrderChange> {
    changes.iter().rev().take_while(move |change| change.status == *status)
}

/// Returns the last reason of the status that an order has, from its history.
pub fn reason_of<'a>(changes: &'a [OrderChange], status: &'a OrderStatus) -> Option<&'a str> {
    of_status(changes, status).find_map(|change| change.reason.as_deref())
}

impl StoredOrder {
    /// Returns the documents of a kind, by position.
    pub fn documents_of(&self, kind: DocumentKind) -> &[StoredDocument] {
        match kind {
            DocumentKind::ToSign => &self.documents,
            DocumentKind::Signed => &self.signed_documents,
        }
    }

    /// Returns who created it.
    pub fn creator(&self) -> Doer {
        self.person.map_or(Doer::Key(self.api_key), Doer::Person)
    }

    /// Returns who uploaded one of its documents; `None` if nobody knows.
    pub fn uploader(&self, document: &StoredDocument) -> Option<Doer> {
        let came_with_it = document.created_at == self.created_at;
        document.by.or(came_with_it.then(|| self.creator()))
    }

    /// Returns the newest entries of the history, up to [`READ_HISTORY`], oldest first. The oldest of all
    /// is the creation.
    pub fn history(&self) -> impl Iterator<Item = OrderChange> {
        let by = Some(self.creator());
        let created = Some(OrderChange { by, ..OrderChange::created(self.created_at) });
        let created = created.filter(|_| self.changes.len() < READ_HISTORY);
        created.into_iter().chain(self.changes.iter().cloned())
    }

    /// Returns whether the signing service has confirmed an appointment that the client has changed since: the
    /// client's change has made the order `ASSIGNED`, and it is so still. Needs the history.
    pub fn must_be_confirmed_again(&self) -> bool {
        self.must_be_confirmed_again_since().is_some()
    }

    /// Returns when the client's change ended the confirmation; `None` if the appointment need not be confirmed again.
    /// Needs the history.
    pub fn must_be_confirmed_again_since(&self) -> Option<OffsetDateTime> {
        let of_status = of_status(&self.changes, &self.status);
        let first = of_status.last().filter(|first| first.kind == ChangeKind::Status)?;
        let is_ended = self.status == OrderStatus::ASSIGNED && first.actor == Actor::Client;
        is_ended.then_some(first.at)
    }

    /// Returns the last reason of the status that the order has. Needs the history.
    pub fn reason_of_status(&self) -> Option<&str> {
        reason_of(&self.changes, &self.status)
    }

    /// Returns the name of the order in the `UID` of its calendar files, and in the `References` of its mails, which
    /// mail programs show as one conversation. The instant makes it unique among services.
    pub fn name(&self) -> String {
        let microseconds = self.created_at.unix_timestamp_nanos() / 1_000;
        format!("order-{}-{microseconds}", self.id.0)
    }

    /// Returns the `UID` of the appointment in the calendar files of mails. It has no address or host name (RFC
    /// 7986).
    pub fn calendar_uid(&self) -> String {
        format!("{}@notary-orders", self.name())
    }

    /// Returns the order as it was on creation, without documents that were added later.
    pub fn as_created(mut self) -> Self {
        self.documents.retain(|document| document.created_at == self.created_at);
        self.signed_documents.clear();
        self.status = OrderStatus::NEW;
        self.notary_id = None;
        self.notary = None;
        self.changes.clear();
        self.notes.clear();
        self.updated_at = self.created_at;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{people::SigningServiceId, test_support::stored_order};

    #[test]
    fn actor_is_of_its_own_side() {
        let client = Party::Client(ClientId(1));
        let service = Party::Service(SigningServiceId(7));
        assert!(Actor::Client.is_of(client) && Actor::Service.is_of(service));
        for (actor, party) in [
            (Actor::Service, client),
            (Actor::Client, service),
            (Actor::Operator, client),
            (Actor::Database, service),
        ] {
            assert!(!actor.is_of(party));
        }
    }

    /// Also after another notary was named.
    #[test]
    fn reason_of_a_status_is_the_last_since_it_was_set() {
        let change = |status: OrderStatus, reason: Option<&str>| OrderChange {
            kind: ChangeKind::Status,
            status,
            reason: reason.map(str::to_owned),
            ..OrderChange::created(OffsetDateTime::UNIX_EPOCH)
        };
        let told = |reason| change(OrderStatus::DID_NOT_SIGN, Some(reason));
        let not_signed = || told("ill");
        let assigned = || change(OrderStatus::ASSIGNED, None);
        let renamed = || change(OrderStatus::DID_NOT_SIGN, None);
        let cancelled = || change(OrderStatus::CANCELLED, None);
        for (changes, expected) in [
            (vec![], None),
            (vec![not_signed()], Some("ill")),
            (vec![not_signed(), renamed()], Some("ill")),
            (vec![renamed(), not_signed()], Some("ill")),
            (vec![not_signed(), told("late")], Some("late")),
            (vec![not_signed(), assigned(), renamed()], None),
            (vec![not_signed(), cancelled()], None),
        ] {
            let status = changes.last().map(|last| last.status.clone());
            let status = status.unwrap_or(OrderStatus::DID_NOT_SIGN);
            let order = StoredOrder { status, changes, ..stored_order(OffsetDateTime::UNIX_EPOCH) };
            assert_eq!(order.reason_of_status(), expected, "{:?}", order.changes);
        }
    }

    #[test]
    fn confirmation_that_the_client_has_ended_must_be_given_again() {
        let at = OffsetDateTime::UNIX_EPOCH;
        let status = |status: OrderStatus, actor| OrderChange {
            kind: ChangeKind::Status,
            status,
            actor,
            ..OrderChange::created(at)
        };
        let changed = |status: OrderStatus| OrderChange {
            kind: ChangeKind::Changed(vec!["/a".to_owned()]),
            status,
            ..OrderChange::created(at)
        };
        let confirmed = || status(OrderStatus::CONFIRMED, Actor::Service);
        let ended = || status(OrderStatus::ASSIGNED, Actor::Client);
        let assigned = || status(OrderStatus::ASSIGNED, Actor::Service);
        for (changes, expected) in [
            (vec![], false),
            (vec![assigned()], false),
            (vec![assigned(), changed(OrderStatus::ASSIGNED)], false),
            (vec![confirmed(), changed(OrderStatus::CONFIRMED), ended()], true),
            (vec![confirmed(), ended(), changed(OrderStatus::ASSIGNED), assigned()], true),
            (vec![confirmed(), ended(), confirmed(), assigned()], false),
            (vec![confirmed(), ended(), confirmed()], false),
        ] {
            let last = changes.last().map(|last: &OrderChange| last.status.clone());
            let status = last.unwrap_or(OrderStatus::ASSIGNED);
            let order = StoredOrder { status, changes, ..stored_order(at) };
            assert_eq!(order.must_be_confirmed_again(), expected, "{:?}", order.changes);
        }
    }

    #[test]
    fn answer_has_notes_up_to_a_number_and_a_size() {
        let note = |bytes: usize| Note {
            at: OffsetDateTime::UNIX_EPOCH,
            author: Actor::Client,
            text: "x".repeat(bytes),
            by: None,
        };
        for (limit, sizes, expected) in [
            (2, &[1, 1, 1][..], 2),
            (100, &[], 0),
            (100, &[READ_NOTE_BYTES - 1, 1, 1], 2),
            (100, &[READ_NOTE_BYTES + 1, 1], 1),
            (100, &[1, READ_NOTE_BYTES, 1], 1),
        ] {
            let notes: Vec<_> = sizes.iter().map(|bytes| note(*bytes)).collect();
            assert_eq!(fitting_notes(limit, &notes), expected, "{sizes:?}");
        }
    }

    #[test]
    fn kind_is_read_as_it_was_stored() {
        let positions = || vec![0, 7];
        for kind in [
            ChangeKind::Status,
            ChangeKind::Changed(vec!["/a".to_owned(), "/b~1".to_owned()]),
            ChangeKind::SignedDocumentsAdded(positions()),
            ChangeKind::DocumentsReplaced(positions()),
            ChangeKind::Withdrawn(positions()),
        ] {
            let changed = kind.changed().map(|it| serde_json::to_string(it).unwrap());
            let documents = kind.documents().map(|it| serde_json::to_string(it).unwrap());
            let [changed, documents] = [changed.as_deref(), documents.as_deref()];
            let read = ChangeKind::from_stored(kind.as_str(), changed, documents);
            assert_eq!(read.as_ref(), Some(&kind));
        }
        let later = ChangeKind::from_stored("later", Some("{}"), None);
        assert_eq!(later, Some(ChangeKind::Status));
        for (changed, documents) in [(None, None), (Some("["), Some("[-1]"))] {
            for name in ["changed", "withdrawn"] {
                assert_eq!(ChangeKind::from_stored(name, changed, documents), None);
            }
        }
    }
}
