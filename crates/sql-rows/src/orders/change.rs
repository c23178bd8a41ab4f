//! The columns that a decision on an order reads, and the rows that it stores.

use diesel::prelude::*;
use domain::{
    appointment::parse_date,
    order::{
        DocumentId, OrderBefore, OrderEffects, OrderId, OrderStatus,
        change::{Age, FollowingStatus, WithdrawnDocument},
        record::OrderColumns,
    },
    ports::Cause,
};

use crate::{
    Unreadable, Utc,
    documents::{DocumentRow, WithdrawnColumns},
    events::NewChangeEventRow,
    order_changes::NewChangeRow,
    order_notes::NoteRow,
    orders::{FoundBy, read_notary},
    people::stored_doer,
    schema::orders,
    text::{Lossy, LossyNullable},
    uploads::CondemnedUpload,
};

/// The columns of an order that a decision needs.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
pub struct OrderBeforeRow {
    id: i64,
    erased_at: Option<Utc>,
    #[diesel(deserialize_as = Lossy)]
    status: String,
    notary_id: Option<i64>,
    #[diesel(deserialize_as = LossyNullable)]
    notary: Option<String>,
    created_at: Utc,
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
            reason: None,
            created_at: self.created_at.0,
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
    starts_at: Option<Utc>,
    ends_at: Option<Utc>,
    #[diesel(deserialize_as = LossyNullable)]
    signing_date: Option<String>,
    documents_erased_at: Option<Utc>,
    last_change_at: Option<Utc>,
    changes: i64,
}

impl AgedOrderRow {
    /// Returns the number of entries of its history.
    pub fn entries(&self) -> i64 {
        self.changes
    }

    /// Returns the order, and its age.
    pub fn into_aged(self) -> Result<(OrderId, OrderBefore, Age), Unreadable> {
        let instant = |at: Option<Utc>| at.map(|at| at.0);
        let age = Age {
            created_at: self.order.created_at.0,
            starts_at: instant(self.starts_at),
            ends_at: instant(self.ends_at),
            signing_date: self.signing_date.as_deref().and_then(parse_date),
            documents_erased_at: instant(self.documents_erased_at),
            last_change_at: instant(self.last_change_at),
        };
        Ok((OrderId(self.order.id), self.order.into_before()?, age))
    }
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
    /// The status that follows, set after all others: a trigger adds its entry and its event.
    pub status: Option<FollowingColumns>,
}

/// The columns of a status that follows from an amendment.
#[derive(AsChangeset)]
#[diesel(table_name = orders)]
pub struct FollowingColumns {
    status: String,
    change_actor: &'static str,
    change_doer: Option<i64>,
    updated_at: Utc,
}

impl From<&FollowingStatus> for FollowingColumns {
    fn from(FollowingStatus { status, actor, at, by }: &FollowingStatus) -> Self {
        Self {
            status: status.as_str().to_owned(),
            change_actor: actor.as_str(),
            change_doer: by.map(stored_doer),
            updated_at: Utc(*at),
        }
    }
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
    touched_at: Option<Utc>,
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
        let replaced = effects.replaced.zip(effects.added.first()).map(|(replaced, by)| {
            let document = DocumentId { order, kind: by.kind, position: replaced };
            i32::try_from(by.position).map(|by| (document, by))
        });
        Ok(Self {
            documents,
            replaced: replaced.transpose()?,
            withdrawn: by_key.iter().map(|one| (id(one), WithdrawnColumns::of(one, at))).collect(),
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
                updated_at: at.filter(|_| !effects.keeps_version),
                touched_at: at.filter(|_| effects.keeps_version),
                held_until: effects.held_until.map(|until| until.map(Utc)),
            },
            status: effects.status.as_ref().map(FollowingColumns::from),
        })
    }
}
