//! What a decision on an order needs, and the rows of what it stores.

use diesel::{
    dsl::{auto_type, count_star},
    prelude::*,
};
use domain::{
    appointment::parse_date,
    document::{DocumentKind, ObjectKey},
    order::{
        DocumentId, OrderBefore, OrderEffects, OrderId, OrderStatus,
        change::{Age, DocumentBefore, WithdrawnDocument},
        record::OrderColumns,
    },
    ports::Cause,
};

use crate::{
    DocumentRow, FoundBy, NewChangeEventRow, NewChangeRow, NoteRow, Unreadable, Utc,
    orders::{
        queries::{is_signed, stored_position},
        rows::read_notary,
    },
    schema::{documents, order_notes, orders, uploads},
};

/// The columns of an order that a decision needs.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
pub struct OrderBeforeRow {
    id: i64,
    erased_at: Option<Utc>,
    status: String,
    notary_id: Option<i64>,
    notary: Option<String>,
    updated_at: Utc,
    held_until: Option<Utc>,
}

impl OrderBeforeRow {
    /// Returns the order, without documents and notes.
    pub fn into_before(self) -> Result<OrderBefore, Unreadable> {
        let unreadable = || Unreadable::new("orders", &self.id, &"status");
        Ok(OrderBefore {
            is_erased: self.erased_at.is_some(),
            status: OrderStatus::from_stored(self.status).ok_or_else(unreadable)?,
            notary_id: self.notary_id,
            notary: self.notary.as_deref().and_then(read_notary),
            updated_at: self.updated_at.0,
            held_until: self.held_until.map(|until| until.0),
            order: None,
            documents: Vec::new(),
            notes: 0,
            told: Vec::new(),
        })
    }
}

/// The columns of an order that decide whether its retention is over.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
pub struct AgedOrderRow {
    #[diesel(embed)]
    order: OrderBeforeRow,
    created_at: Utc,
    starts_at: Option<Utc>,
    ends_at: Option<Utc>,
    signing_date: Option<String>,
    documents_erased_at: Option<Utc>,
    last_change_at: Option<Utc>,
}

impl AgedOrderRow {
    /// Returns the order, and its age.
    pub fn into_aged(self) -> Result<(OrderId, OrderBefore, Age), Unreadable> {
        let instant = |at: Option<Utc>| at.map(|at| at.0);
        let age = Age {
            created_at: self.created_at.0,
            starts_at: instant(self.starts_at),
            ends_at: instant(self.ends_at),
            signing_date: self.signing_date.as_deref().and_then(parse_date),
            documents_erased_at: instant(self.documents_erased_at),
            last_change_at: instant(self.last_change_at),
        };
        Ok((OrderId(self.order.id), self.order.into_before()?, age))
    }
}

/// The columns of a document that a decision needs.
#[derive(Queryable, Selectable)]
#[diesel(table_name = documents)]
pub struct DocumentBeforeRow {
    order_id: i64,
    signed: bool,
    position: i32,
    key: Option<String>,
    name: String,
    replaced_by: Option<i32>,
}

impl DocumentBeforeRow {
    /// Returns the document.
    pub fn into_document(self) -> Result<DocumentBefore, Unreadable> {
        let position = |position: i32| {
            let unreadable = |_| Unreadable::new("documents of order", &self.order_id, &"position");
            u32::try_from(position).map_err(unreadable)
        };
        Ok(DocumentBefore {
            kind: if self.signed { DocumentKind::Signed } else { DocumentKind::ToSign },
            position: position(self.position)?,
            replaced_by: self.replaced_by.map(position).transpose()?,
            key: self.key.map(ObjectKey::from_stored),
            name: self.name,
        })
    }
}

/// Selects the documents of an order of one kind, or of both.
#[auto_type(no_type_alias)]
pub fn documents_before(order: OrderId, kinds: &[DocumentKind]) -> _ {
    let order: i64 = order.0;
    let signed: Vec<bool> = signed_flags(kinds);
    documents::table
        .filter(documents::order_id.eq(order).and(documents::signed.eq_any(signed)))
        .order((documents::signed, documents::position))
}

fn signed_flags(kinds: &[DocumentKind]) -> Vec<bool> {
    kinds.iter().copied().map(is_signed).collect()
}

/// Counts the notes of an order.
#[auto_type(no_type_alias)]
pub fn note_count(order: OrderId) -> _ {
    let order: i64 = order.0;
    order_notes::table.filter(order_notes::order_id.eq(order)).select(count_star())
}

/// The rows of what a change of an order stores.
pub struct ChangeRows {
    /// The new documents, in the order in which every call locks uploads.
    pub documents: Vec<DocumentRow>,
    /// The document that the first of them replaces, and the position of that one.
    pub replaced: Option<(DocumentId, i32)>,
    /// The withdrawn documents.
    pub withdrawn: Vec<(DocumentId, WithdrawnColumns)>,
    /// The uploads of the withdrawn documents, in the order in which every call locks them.
    pub condemned: Vec<CondemnedUpload>,
    /// The new note.
    pub note: Option<NoteRow>,
    /// The entry of the history.
    pub entry: Option<NewChangeRow>,
    /// The events.
    pub events: Vec<NewChangeEventRow>,
    /// The details of an amended order.
    pub details: Option<String>,
    /// Its columns that depend on the details.
    pub amended: Option<AmendedColumns>,
    /// The other columns of the order.
    pub order: ChangedColumns,
}

/// The columns of an order that depend on its details.
#[derive(AsChangeset)]
#[diesel(table_name = orders, treat_none_as_null = true)]
pub struct AmendedColumns {
    starts_at: Option<Utc>,
    ends_at: Option<Utc>,
    #[diesel(embed)]
    found_by: FoundBy,
}

/// The columns of an order that a change sets. `None` leaves a column as it is.
#[derive(AsChangeset)]
#[diesel(table_name = orders)]
#[expect(
    clippy::option_option,
    reason = "diesel leaves the outer `None` as it is, and stores the inner one"
)]
pub struct ChangedColumns {
    updated_at: Option<Utc>,
    held_until: Option<Option<Utc>>,
    documents_erased_at: Option<Utc>,
    last_change_at: Option<Utc>,
}

/// The columns of a document that is withdrawn.
#[derive(AsChangeset)]
#[diesel(table_name = documents, treat_none_as_null = true)]
pub struct WithdrawnColumns {
    key: Option<String>,
    name: String,
    name_as_sent: &'static str,
    withdrawn_at: Option<Utc>,
    is_erased: bool,
}

/// An upload whose object is to be deleted.
#[derive(Insertable)]
#[diesel(table_name = uploads)]
pub struct CondemnedUpload {
    key: String,
    recorded_at: Utc,
    condemned: bool,
    order_id: Option<i64>,
    signed: Option<bool>,
    position: Option<i32>,
}

impl CondemnedUpload {
    /// Returns the ledger's row of a document of an erased order.
    pub(crate) fn of_erased(key: String, at: Utc) -> Self {
        let (order_id, signed, position) = (None, None, None);
        Self { key, recorded_at: at, condemned: true, order_id, signed, position }
    }

    /// Returns the ledger's row of a withdrawn document.
    fn of_withdrawn(order: OrderId, document: &WithdrawnDocument, at: Utc) -> Self {
        Self {
            order_id: Some(order.0),
            signed: Some(is_signed(document.kind)),
            position: Some(stored_position(document.position)),
            ..Self::of_erased(document.key.as_str().to_owned(), at)
        }
    }
}

impl ChangeRows {
    /// Returns the rows of a change of an order. Fails if a value does not fit its column.
    pub fn of(order: OrderId, effects: &OrderEffects) -> Result<Self, Cause> {
        let at = effects.at.map(Utc);
        let record = effects.order.as_deref().map(OrderColumns::of).transpose()?;
        let amended = |(order, record): (&_, &OrderColumns)| AmendedColumns {
            starts_at: record.starts_at.map(Utc),
            ends_at: record.ends_at.map(Utc),
            found_by: FoundBy::of(order),
        };
        let mut documents: Vec<_> = effects
            .added
            .iter()
            .map(|added| DocumentRow::added(order, added))
            .collect::<Result<_, _>>()?;
        documents.sort_by(|one, other| one.key.cmp(&other.key));
        let mut by_key: Vec<_> = effects.withdrawn.iter().collect();
        by_key.sort_by(|one, other| one.key.cmp(&other.key));
        let id =
            |one: &WithdrawnDocument| DocumentId { order, kind: one.kind, position: one.position };
        let columns = |one: &WithdrawnDocument| WithdrawnColumns {
            key: None,
            name: one.name.clone(),
            name_as_sent: "",
            withdrawn_at: at,
            is_erased: one.is_erased,
        };
        let replaced = effects.replaced.zip(effects.added.first()).map(|(replaced, by)| {
            let document = DocumentId { order, kind: by.kind, position: replaced };
            i32::try_from(by.position).map(|by| (document, by))
        });
        Ok(Self {
            documents,
            replaced: replaced.transpose()?,
            withdrawn: by_key.iter().map(|one| (id(one), columns(one))).collect(),
            condemned: at
                .into_iter()
                .flat_map(|at| by_key.iter().map(move |one| (one, at)))
                .map(|(one, at)| CondemnedUpload::of_withdrawn(order, one, at))
                .collect(),
            note: effects.note.as_ref().map(|note| NoteRow::new(order, note)),
            entry: effects
                .entry
                .as_ref()
                .map(|entry| NewChangeRow::new(order, entry))
                .transpose()?,
            events: at
                .into_iter()
                .flat_map(|at| effects.events.iter().map(move |event| (event, at)))
                .map(|(event, at)| NewChangeEventRow::new(order, event, at))
                .collect(),
            amended: effects.order.as_deref().zip(record.as_ref()).map(amended),
            details: record.map(|record| record.details),
            order: ChangedColumns {
                updated_at: at,
                held_until: effects.held_until.map(|until| until.map(Utc)),
                documents_erased_at: at.filter(|_| effects.erased_after.is_some()),
                last_change_at: effects.erased_after.map(Utc),
            },
        })
    }
}
