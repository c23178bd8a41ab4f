//! The records of orders and of their documents, which `docs/openapi.json` describes.

use domain::{
    appointment::{Appointment, Moment},
    document::{DocumentCounts, DocumentKind, StoredDocument},
    order::{
        Actor, Dollars, Notary, Note, OldValues, OrderChange, OrderRequest, StoredOrder,
        attention::Attention, hh_mm,
    },
    ports::{HistoryEntry, ListedOrder, NumberedNote, OrderNews},
    use_cases::people::name_doers::DoerNames,
};
use serde::Serialize;
use time::OffsetDateTime;

use crate::{orders::path, respond::instants::timestamp};

/// The members that the record of a read has and the answer to a creation has not (spec section 2.5).
#[derive(Serialize)]
struct ReadMembers<'a> {
    notary: Option<&'a Notary>,
    client_name: Option<&'a str>,
    signing_service_name: Option<&'a str>,
    documents_fetched: usize,
    documents_to_fetch: usize,
    signed_documents_uploaded: usize,
    attention: Vec<&'static str>,
    signing_type: &'a str,
    scanbacks_required: bool,
    appointment: AppointmentRecord,
    calendar_uid: String,
    signing_city: Option<String>,
    signing_state: Option<String>,
}

/// When the signing is.
#[derive(Serialize)]
struct AppointmentRecord {
    starts_at: Option<String>,
    ends_at: Option<String>,
    start_time: Option<String>,
    end_time: Option<String>,
    time_zone_id: &'static str,
}

impl AppointmentRecord {
    fn of(appointment: &Appointment) -> Self {
        let [start, end] = appointment.time.bounds();
        let instant = |moment: Moment| (moment.utc.year() >= 1).then(|| timestamp(moment.utc));
        Self {
            starts_at: start.and_then(instant),
            ends_at: end.and_then(instant),
            start_time: start.map(|moment| hh_mm(moment.local)),
            end_time: end.map(|moment| hh_mm(moment.local)),
            time_zone_id: appointment.zone.id(),
        }
    }
}

/// The record of an order.
#[derive(Serialize)]
pub(crate) struct OrderRecord<'a> {
    order_id: i64,
    file_number: &'a str,
    order_status: &'a str,
    signer_name: &'a str,
    signing_date: String,
    property_address: &'a str,
    signing_service_id: i64,
    client_company_id: Option<i64>,
    notary_id: Option<i64>,
    #[serde(flatten)]
    read: Option<ReadMembers<'a>>,
    invoice_fee: Option<Dollars>,
    notary_pay: Option<Dollars>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents_uploaded: Option<usize>,
    created_at: String,
    updated_at: String,
}

impl<'a> OrderRecord<'a> {
    /// Returns the record of an order that is read or changed at `now`, with the numbers of its documents.
    fn of(stored: &'a StoredOrder, counts: DocumentCounts, now: OffsetDateTime) -> Self {
        let signing = &stored.order.signing;
        let location = signing.signing_location();
        let attention = Attention::of(stored, counts, now);
        let read = ReadMembers {
            notary: stored.notary.as_ref(),
            client_name: stored.names.client.as_deref(),
            signing_service_name: stored.names.service.as_deref(),
            documents_fetched: counts.fetched,
            documents_to_fetch: counts.unfetched,
            signed_documents_uploaded: counts.signed,
            attention: attention.into_iter().map(Attention::as_str).collect(),
            signing_type: &signing.signing_type,
            scanbacks_required: signing.scanbacks_required,
            appointment: AppointmentRecord::of(&stored.order.appointment),
            calendar_uid: stored.calendar_uid(),
            signing_city: location.city,
            signing_state: location.state,
        };
        Self { read: Some(read), ..Self::created(stored, Some(counts.documents)) }
    }

    /// Returns the record of a created order. It states the number of documents, unless that is `None`.
    pub(crate) fn created(stored: &'a StoredOrder, documents: Option<usize>) -> Self {
        let order = &stored.order;
        let invoice = &order.signing.invoice;
        Self {
            order_id: stored.id.0,
            file_number: order.file_number.as_str(),
            order_status: stored.status.as_str(),
            signer_name: &order.signing.signer.name,
            signing_date: order.appointment.date.to_string(),
            property_address: &order.signing.property.address,
            signing_service_id: order.signing_service_id.0,
            client_company_id: order.contacts.client_company_id,
            notary_id: stored.notary_id,
            read: None,
            invoice_fee: invoice.fee.map(Dollars),
            notary_pay: invoice.notary_pay.map(Dollars),
            documents_uploaded: documents,
            created_at: timestamp(stored.created_at),
            updated_at: timestamp(stored.updated_at),
        }
    }

    /// Returns the record of an order without its documents, with their numbers.
    pub(crate) fn listed(order: &'a ListedOrder, now: OffsetDateTime) -> Self {
        Self::of(&order.stored, order.counts, now)
    }
}

/// An order in a list.
#[derive(Serialize)]
pub(super) struct EntryOfList<'a> {
    #[serde(flatten)]
    record: OrderRecord<'a>,
    #[serde(flatten)]
    news: Option<NewsRecord<'a>>,
}

#[derive(Serialize)]
struct NewsRecord<'a> {
    last_change: LastChangeRecord<'a>,
    newest_note: Option<NewestNote>,
}

#[derive(Serialize)]
struct LastChangeRecord<'a> {
    at: String,
    kind: &'a str,
    actor: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<&'a [String]>,
}

#[derive(Serialize)]
struct NewestNote {
    at: String,
    author: &'static str,
}

impl<'a> EntryOfList<'a> {
    /// Returns the entry of an order at `now`.
    pub(super) fn of(order: &'a ListedOrder, now: OffsetDateTime) -> Self {
        let news = order.news.as_ref().map(|OrderNews { change, note }| NewsRecord {
            last_change: LastChangeRecord {
                at: timestamp(change.at),
                kind: &change.kind,
                actor: change.actor.as_str(),
                changed: change.changed.as_deref(),
            },
            newest_note: note.map(|(at, author)| {
                let author = author.as_str();
                NewestNote { at: timestamp(at), author }
            }),
        });
        Self { record: OrderRecord::listed(order, now), news }
    }
}

/// An order as a client reads it.
#[derive(Serialize)]
pub struct WholeOrder<'a> {
    #[serde(flatten)]
    record: OrderRecord<'a>,
    details: OrderRequest,
    documents: Vec<DocumentRecord<'a>>,
    signed_documents: Vec<DocumentRecord<'a>>,
    history: Vec<ChangeRecord>,
    notes: Vec<NoteRecord<'a>>,
}

impl<'a> WholeOrder<'a> {
    /// Returns an order as a client reads it below a base path at `now`.
    /// `names` has those of the people and keys whom the reader sees.
    pub fn of(
        stored: &'a StoredOrder,
        base_path: &str,
        now: OffsetDateTime,
        names: &DoerNames,
    ) -> Self {
        let counts = DocumentCounts::of(&stored.documents, &stored.signed_documents);
        let documents = |kind| DocumentRecord::of_kind(stored, kind, base_path, names).collect();
        Self {
            record: OrderRecord::of(stored, counts, now),
            details: OrderRequest::of(&stored.order),
            documents: documents(DocumentKind::ToSign),
            signed_documents: documents(DocumentKind::Signed),
            history: stored.history().map(|change| ChangeRecord::of(change, names)).collect(),
            notes: stored.notes.iter().map(|note| NoteRecord::of(note, names)).collect(),
        }
    }

    /// Replaces the newest entries of the history by these.
    pub fn with_history(
        self,
        history: impl Iterator<Item = OrderChange>,
        names: &DoerNames,
    ) -> Self {
        Self { history: history.map(|change| ChangeRecord::of(change, names)).collect(), ..self }
    }

    /// Replaces the newest notes by these.
    pub fn with_notes(self, notes: &'a [Note], names: &DoerNames) -> Self {
        Self { notes: notes.iter().map(|note| NoteRecord::of(note, names)).collect(), ..self }
    }
}

/// An entry of the history of an order.
#[derive(Serialize)]
struct ChangeRecord {
    at: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<OldValues>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<Vec<u32>>,
    order_status: String,
    notary_id: Option<i64>,
    actor: &'static str,
    /// The person or the key, for their own side.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    reason: Option<String>,
}

impl ChangeRecord {
    fn of(change: OrderChange, names: &DoerNames) -> Self {
        Self {
            by: names.by(change.actor, change.by).map(str::to_owned),
            at: timestamp(change.at),
            kind: change.kind.as_str(),
            changed: change.kind.changed().map(<[String]>::to_vec),
            before: change.before,
            documents: change.kind.documents().map(<[u32]>::to_vec),
            order_status: change.status.as_str().to_owned(),
            notary_id: change.notary_id,
            actor: change.actor.as_str(),
            reason: change.reason,
        }
    }
}

/// A note of an order.
#[derive(Serialize)]
pub(super) struct NoteRecord<'a> {
    at: String,
    author: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    text: &'a str,
}

impl<'a> NoteRecord<'a> {
    pub(super) fn of(note: &'a Note, names: &DoerNames) -> Self {
        let by = names.by(note.author, note.by).map(str::to_owned);
        Self { at: timestamp(note.at), author: note.author.as_str(), by, text: &note.text }
    }
}

/// A note in the list of the notes of an order.
#[derive(Serialize)]
pub(super) struct NumberedNoteRecord<'a> {
    id: i64,
    #[serde(flatten)]
    note: NoteRecord<'a>,
}

impl<'a> NumberedNoteRecord<'a> {
    pub(super) fn of(it: &'a NumberedNote, names: &DoerNames) -> Self {
        Self { id: it.number.0, note: NoteRecord::of(&it.note, names) }
    }
}

/// An entry of the list of the history of an order.
#[derive(Serialize)]
pub(super) struct EntryRecord {
    id: i64,
    #[serde(flatten)]
    change: ChangeRecord,
}

impl EntryRecord {
    pub(super) fn of(entry: HistoryEntry, names: &DoerNames) -> Self {
        Self { id: entry.id.0, change: ChangeRecord::of(entry.change, names) }
    }
}

/// The record of a document.
#[derive(Serialize)]
pub(super) struct DocumentRecord<'a> {
    position: u32,
    name: &'a str,
    name_as_sent: &'a str,
    media_type: &'a str,
    size: u64,
    sha256: String,
    created_at: String,
    uploaded_by: Actor,
    /// The person or the key, for their own side.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    replaces: Option<u32>,
    replaced_by: Option<u32>,
    withdrawn_at: Option<String>,
    withdrawn_by: Option<Actor>,
    first_downloaded_at: Option<String>,
    url: String,
}

impl<'a> DocumentRecord<'a> {
    /// Returns the records of the documents of a kind of an order below a base path.
    pub(super) fn of_kind(
        stored: &'a StoredOrder,
        kind: DocumentKind,
        base_path: &str,
        names: &DoerNames,
    ) -> impl Iterator<Item = Self> {
        let (documents, url) =
            (stored.documents_of(kind), path::of_documents(base_path, stored.id, kind));
        (0..).zip(documents).map(move |(position, document)| {
            let is_replaced = |other: &StoredDocument| other.replaced_by == Some(position);
            let replaces = (0..).zip(documents).find(|(_, other)| is_replaced(other));
            let replaces = replaces.map(|(replaced, _)| replaced);
            let by = names.by(Actor::uploading(kind), stored.uploader(document));
            Self::new(document, kind, (position, replaces), &url, by)
        })
    }

    /// Returns the record of a document at a position, which replaces another. `url` is the path of the order's documents of
    /// its kind.
    pub(super) fn new(
        document: &'a StoredDocument,
        kind: DocumentKind,
        (position, replaces): (u32, Option<u32>),
        url: &str,
        by: Option<&str>,
    ) -> Self {
        let uploader = Actor::uploading(kind);
        let withdrawn_by = if document.is_erased { Actor::Operator } else { uploader };
        Self {
            position,
            name: &document.name,
            name_as_sent: &document.name_as_sent,
            media_type: &document.media_type,
            size: document.size,
            sha256: document.sha256.to_string(),
            created_at: timestamp(document.created_at),
            uploaded_by: uploader,
            by: by.map(str::to_owned),
            replaces,
            replaced_by: document.replaced_by,
            withdrawn_at: document.withdrawn_at.map(timestamp),
            withdrawn_by: document.withdrawn_at.map(|_| withdrawn_by),
            first_downloaded_at: document.first_downloaded_at.map(timestamp),
            url: format!("{url}/{position}"),
        }
    }
}
