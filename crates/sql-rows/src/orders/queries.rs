//! Parts of statements on orders that both databases have, and what their rows mean together.

use diesel::{
    dsl::{self, auto_type, sql},
    expression::{SqlLiteral, UncheckedBind},
    prelude::*,
    sql_types::{BigInt, Bool, Nullable, Text},
};
use domain::{
    api_key::Owner,
    delivery::LONGEST_ATTEMPT,
    document::{DocumentKind, ObjectKey},
    idempotency::AddedRange,
    order::{
        Actor, ChangeKind, DocumentId, MAX_NOTES, OrderChange, OrderId, OrderStatus, READ_HISTORY,
        StoredOrder, after,
    },
    ports::{
        Cursor, ErasureOutcome, HistoryEntry, HistoryId, HistoryQuery, NewDocuments, OrderUpdate,
        Page, WriteError,
    },
    webhook::{EventChange, EventType},
};
use time::OffsetDateTime;

use crate::{
    DocumentRow, KeptOrderRow, NewChangeEventRow, NewChangeRow, NoteRow, OrderChangeRow,
    Unreadable, Utc,
    orders::rows::{is_own, stored_notary},
    row_limit,
    schema::{documents, order_changes, order_notes, orders, uploads},
};

/// Selects an order of an owner, with the document at a position.
#[auto_type(no_type_alias)]
pub fn order_with_document(owner: Owner, document: DocumentId) -> _ {
    let id: i64 = document.order.0;
    let signed: bool = is_signed(document.kind);
    let position: i32 = stored_position(document.position);
    let is_own: is_own = is_own(owner);
    orders::table
        .left_join(
            documents::table.on(documents::order_id
                .eq(orders::id)
                .and(documents::signed.eq(signed))
                .and(documents::position.eq(position))),
        )
        .filter(orders::id.eq(id).and(is_own))
}

/// Selects a document.
#[auto_type(no_type_alias)]
pub fn document_row(document: DocumentId) -> _ {
    let id: i64 = document.order.0;
    let signed: bool = is_signed(document.kind);
    let position: i32 = stored_position(document.position);
    documents::table.find((id, signed, position))
}

/// Selects a document to sign that is neither replaced nor withdrawn.
#[auto_type(no_type_alias)]
pub fn replaceable(order: OrderId, position: u32) -> _ {
    let (id, signed): (i64, bool) = (order.0, false);
    let position: i32 = stored_position(position);
    documents::table
        .find((id, signed, position))
        .filter(documents::replaced_by.is_null().and(documents::key.is_not_null()))
}

/// Selects a document that the other side has not downloaded yet.
#[auto_type(no_type_alias)]
pub fn not_downloaded(document: DocumentId) -> _ {
    let id: i64 = document.order.0;
    let signed: bool = is_signed(document.kind);
    let position: i32 = stored_position(document.position);
    documents::table.find((id, signed, position)).filter(documents::first_downloaded_at.is_null())
}

/// Counts the documents of a kind of an order, and those of them that are not withdrawn.
#[auto_type(no_type_alias)]
pub fn document_counts(id: OrderId, kind: DocumentKind) -> _ {
    let id: i64 = id.0;
    let signed: bool = is_signed(kind);
    documents::table
        .filter(documents::order_id.eq(id).and(documents::signed.eq(signed)))
        .select((dsl::count_star(), dsl::count(documents::key)))
}

fn is_signed(kind: DocumentKind) -> bool {
    kind == DocumentKind::Signed
}

/// Returns how a position is stored. No document has one below 0.
pub fn stored_position(position: u32) -> i32 {
    i32::try_from(position).unwrap_or(-1)
}

/// Selects orders with all their documents, so that one statement reads both at one instant.
#[auto_type(no_type_alias)]
pub fn orders_with_documents(ids: Vec<i64>) -> _ {
    orders::table
        .left_join(documents::table.on(documents::order_id.eq(orders::id)))
        .filter(orders::id.eq_any(ids))
        .order((orders::id, documents::signed, documents::position))
}

/// Groups the rows of [`orders_with_documents`] by order.
pub fn grouped(
    rows: Vec<(KeptOrderRow, Option<DocumentRow>)>,
) -> Vec<(KeptOrderRow, Vec<DocumentRow>)> {
    let mut orders: Vec<(KeptOrderRow, Vec<DocumentRow>)> = Vec::new();
    for (order, document) in rows {
        match orders.last_mut() {
            Some((last, documents)) if last.id == order.id => documents.extend(document),
            _ => orders.push((order, document.into_iter().collect())),
        }
    }
    orders
}

/// Names the order of which diesel cannot read a column.
pub fn unreadable_order<E: From<Unreadable> + From<diesel::result::Error>>(
    error: diesel::result::Error,
    row: &dyn ToString,
) -> E {
    match error {
        diesel::result::Error::DeserializationError(reason) => {
            Unreadable::new("orders", row, &reason).into()
        }
        error => error.into(),
    }
}

/// Selects the newest entries of the history of orders, up to [`READ_HISTORY`] of each, oldest first. Looks
/// up the oldest of them once for each order, and reads no other.
#[auto_type(no_type_alias)]
pub fn changes_of(orders: Vec<i64>) -> _ {
    let newest: SqlLiteral<Bool> = newest();
    order_changes::table
        .inner_join(orders::table.on(orders::id.eq(order_changes::order_id)))
        .filter(orders::id.eq_any(orders))
        .filter(newest)
        .order((order_changes::order_id, order_changes::id))
}

fn newest() -> SqlLiteral<Bool> {
    sql(&format!(
        "order_changes.id >= coalesce((SELECT entry.id FROM order_changes AS entry \
        WHERE entry.order_id = orders.id ORDER BY entry.id DESC LIMIT 1 OFFSET {}), 0)",
        READ_HISTORY - 1
    ))
}

/// Selects an order of an owner: whether it is erased, and when it was created.
#[auto_type(no_type_alias)]
pub fn created_order(owner: Owner, id: OrderId) -> _ {
    let id: i64 = id.0;
    let is_own: is_own = is_own(owner);
    orders::table
        .filter(orders::id.eq(id).and(is_own))
        .select((orders::erased_at, orders::created_at))
}

/// Selects an entry of the history of an order, to check that it is there.
#[auto_type(no_type_alias)]
pub fn history_entry(order: OrderId, entry: HistoryId) -> _ {
    let (order, entry): (i64, i64) = (order.0, entry.0);
    order_changes::table
        .filter(order_changes::order_id.eq(order).and(order_changes::id.eq(entry)))
        .select(order_changes::id)
}

/// Selects the entries of the history of an order before one, the newest first.
#[auto_type(no_type_alias)]
pub fn history_before(order: OrderId, entry: i64, limit: usize) -> _ {
    let order: i64 = order.0;
    let limit: i64 = row_limit(limit.saturating_add(1));
    order_changes::table
        .filter(order_changes::order_id.eq(order).and(order_changes::id.lt(entry)))
        .order(order_changes::id.desc())
        .limit(limit)
}

/// Selects the entries of the history of an order after one, the oldest first.
#[auto_type(no_type_alias)]
pub fn history_after(order: OrderId, entry: i64, limit: usize) -> _ {
    let order: i64 = order.0;
    let limit: i64 = row_limit(limit.saturating_add(1));
    order_changes::table
        .filter(order_changes::order_id.eq(order).and(order_changes::id.gt(entry)))
        .order(order_changes::id.asc())
        .limit(limit)
}

/// Returns a page of the history of an order that was created at an instant. `rows` are those that
/// [`history_before`] or [`history_after`] selects from the cursor on.
pub fn history_page(
    query: HistoryQuery,
    created_at: Utc,
    rows: Vec<(i64, OrderChangeRow)>,
) -> Result<Page<HistoryEntry>, Unreadable> {
    let entry = |(id, row): (i64, OrderChangeRow)| {
        Ok(HistoryEntry { id: HistoryId(id), change: row.into_change()? })
    };
    let mut entries = rows.into_iter().map(entry).collect::<Result<Vec<_>, Unreadable>>()?;
    let HistoryQuery { limit, cursor } = query;
    let reaches_creation = match cursor {
        Cursor::Newest => true,
        Cursor::OlderThan(entry) => entry > HistoryId::CREATED,
        Cursor::NewerThan(_) => false,
    };
    if reaches_creation && entries.len() <= limit {
        let change = OrderChange::created(created_at.0);
        entries.push(HistoryEntry { id: HistoryId::CREATED, change });
    }
    Ok(Page::of(limit, &cursor, entries, cursor != Cursor::Newest))
}

/// Gives orders their history up to the instant at which each was read: another system may have
/// changed them since.
pub fn add_changes(
    found: &mut [&mut StoredOrder],
    rows: Vec<OrderChangeRow>,
) -> Result<(), Unreadable> {
    for row in rows {
        let order = found.iter_mut().find(|order| order.id.0 == row.order_id);
        let change = row.into_change()?;
        if let Some(order) = order.filter(|order| change.at <= order.updated_at) {
            order.changes.push(change);
        }
    }
    Ok(())
}

/// Selects the notes of an order, oldest first.
#[auto_type(no_type_alias)]
pub fn notes_of(order: OrderId) -> _ {
    let order: i64 = order.0;
    order_notes::table.filter(order_notes::order_id.eq(order)).order(order_notes::id)
}

/// Gives an order its notes up to the instant at which it was read.
pub fn add_notes(found: &mut StoredOrder, rows: Vec<NoteRow>) {
    let notes = rows.into_iter().map(NoteRow::into_note);
    found.notes = notes.filter(|note| note.at <= found.updated_at).collect();
}

/// Returns the position of the next note of an order that has a number of them.
///
/// # Errors
/// [`WriteError::TooManyNotes`].
pub fn next_note(stored: i64) -> Result<AddedRange, WriteError> {
    let position = u32::try_from(stored).ok().filter(|position| (*position as usize) < MAX_NOTES);
    let first_position = position.ok_or(WriteError::TooManyNotes)?;
    Ok(AddedRange { first_position, count: 1, total: 0 })
}

/// Selects the order of an update if it may be changed so: `OrderRepo::update` has the rule. The conditions
/// that do not apply are there too, so the statement has one text and stays prepared.
#[auto_type(no_type_alias)]
pub fn changeable_order(update: &OrderUpdate) -> _ {
    let id: i64 = update.id.0;
    let is_own: is_own = is_own(update.owner);
    let any_service: dsl::AsExprOf<bool, Bool> = update.only_service.is_none().into_sql::<Bool>();
    let service: i64 = update.only_service.map_or(0, |service| service.0);
    let any_version: dsl::AsExprOf<bool, Bool> = update.expected.is_none().into_sql::<Bool>();
    let versions: Vec<Utc> = expected_versions(update);
    let cancels_nothing: dsl::AsExprOf<bool, Bool> = (!cancels(update)).into_sql::<Bool>();
    let cancelled: String = OrderStatus::CANCELLED.as_str().to_owned();
    let closed: Vec<String> = closed_statuses();
    let has_status: dsl::AsExprOf<bool, Bool> = update.status.is_some().into_sql::<Bool>();
    let status: String = status_of(update);
    let has_notary: dsl::AsExprOf<bool, Bool> = update.notary_id.is_some().into_sql::<Bool>();
    let is_other_notary: OtherNotary = other_notary(update);
    let has_name: dsl::AsExprOf<bool, Bool> = update.notary.is_some().into_sql::<Bool>();
    let is_other_name: OtherName = other_name(update);
    orders::table
        .filter(orders::id.eq(id).and(is_own).and(orders::erased_at.is_null()))
        .filter(orders::status.ne(cancelled))
        .filter(any_service.or(orders::signing_service_id.eq(service)))
        .filter(any_version.or(orders::updated_at.eq_any(versions)))
        .filter(cancels_nothing.or(orders::status.ne_all(closed)))
        .filter(
            has_status
                .and(orders::status.ne(status))
                .or(has_notary.and(is_other_notary))
                .or(has_name.and(is_other_name)),
        )
}

fn closed_statuses() -> Vec<String> {
    OrderStatus::CLOSED.iter().map(|status| status.as_str().to_owned()).collect()
}

fn expected_versions(update: &OrderUpdate) -> Vec<Utc> {
    update.expected.iter().flatten().copied().map(Utc).collect()
}

/// Returns the instant before which no request began that is still in progress.
pub(crate) fn nearest(now: Utc) -> Utc {
    Utc(now.0.saturating_sub(LONGEST_ATTEMPT))
}

fn cancels(update: &OrderUpdate) -> bool {
    update.status.as_ref() == Some(&OrderStatus::CANCELLED)
}

fn status_of(update: &OrderUpdate) -> String {
    update.status.as_ref().map(|status| status.as_str().to_owned()).unwrap_or_default()
}

type OtherNotary = UncheckedBind<SqlLiteral<Bool>, dsl::AsExprOf<Option<i64>, Nullable<BigInt>>>;

fn other_notary(update: &OrderUpdate) -> OtherNotary {
    sql::<Bool>("orders.notary_id IS DISTINCT FROM ")
        .bind::<Nullable<BigInt>, _>(update.notary_id.flatten())
}

type OtherName = UncheckedBind<SqlLiteral<Bool>, dsl::AsExprOf<Option<String>, Nullable<Text>>>;

fn other_name(update: &OrderUpdate) -> OtherName {
    sql::<Bool>("orders.notary IS DISTINCT FROM ").bind::<Nullable<Text>, _>(notary_of(update))
}

fn notary_of(update: &OrderUpdate) -> Option<String> {
    update.notary.as_ref().and_then(Option::as_ref).map(stored_notary)
}

type Bound<E, V, T> = UncheckedBind<E, dsl::AsExprOf<V, T>>;
type NotaryText = SqlLiteral<Nullable<Text>>;
type ChangedNotary = SqlLiteral<
    Nullable<Text>,
    Bound<
        SqlLiteral<
            Nullable<Text>,
            Bound<
                SqlLiteral<
                    Nullable<Text>,
                    Bound<
                        SqlLiteral<Nullable<Text>, Bound<NotaryText, bool, Bool>>,
                        Option<String>,
                        Nullable<Text>,
                    >,
                >,
                bool,
                Bool,
            >,
        >,
        Option<i64>,
        Nullable<BigInt>,
    >,
>;

/// Returns the notary of an order after an update: an old name never stands beside a new number.
pub fn changed_notary(update: &OrderUpdate) -> ChangedNotary {
    sql::<Nullable<Text>>("CASE WHEN ")
        .bind::<Bool, _>(update.notary.is_some())
        .sql(" THEN ")
        .bind::<Nullable<Text>, _>(notary_of(update))
        .sql(" WHEN ")
        .bind::<Bool, _>(update.notary_id.is_some())
        .sql(" AND notary_id IS DISTINCT FROM ")
        .bind::<Nullable<BigInt>, _>(update.notary_id.flatten())
        .sql(" THEN NULL ELSE notary END")
}

/// The columns of a status or notary change. `updated_at` and the notary's name are set beside it. The trigger of
/// `migrations/` adds the entry of the history and the event.
#[derive(AsChangeset)]
#[diesel(table_name = orders)]
#[expect(
    clippy::option_option,
    reason = "diesel leaves the outer `None` as it is, and stores the inner one"
)]
pub struct ChangedOrder {
    status: Option<String>,
    notary_id: Option<Option<i64>>,
    change_actor: Option<&'static str>,
    change_reason: Option<Option<String>>,
}

impl From<&OrderUpdate> for ChangedOrder {
    fn from(update: &OrderUpdate) -> Self {
        Self {
            status: update.status.as_ref().map(|status| status.as_str().to_owned()),
            notary_id: update.notary_id,
            change_actor: Some(update.actor.as_str()),
            change_reason: Some(update.reason.clone()),
        }
    }
}

/// The columns that decide whether an order takes documents and notes.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
pub struct OrderState {
    pub(super) id: i64,
    erased_at: Option<Utc>,
    pub(super) status: String,
    pub(super) notary_id: Option<i64>,
    pub(super) updated_at: Utc,
    held_until: Option<Utc>,
}

impl OrderState {
    /// Returns the order.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Returns whether the order is on hold at `now`.
    pub fn is_held(&self, now: OffsetDateTime) -> bool {
        self.held_until.is_some_and(|until| until.0 > now)
    }

    /// Returns the order if it takes documents, or why it does not.
    pub fn takes_documents(state: Option<Self>) -> Result<Self, WriteError> {
        let state = Self::is_there(state)?;
        let is_cancelled = state.status == OrderStatus::CANCELLED.as_str();
        if is_cancelled { Err(WriteError::Cancelled) } else { Ok(state) }
    }

    /// Returns the order unless it is erased.
    pub fn is_there(state: Option<Self>) -> Result<Self, WriteError> {
        match state {
            None => Err(WriteError::NoSuchOrder),
            Some(Self { erased_at: Some(_), .. }) => Err(WriteError::Erased),
            Some(state) => Ok(state),
        }
    }

    /// Returns what an erasure at `now` does with the order: `Erased` of no objects yet.
    pub fn erasure(state: Option<Self>, now: OffsetDateTime) -> ErasureOutcome {
        match Self::is_there(state) {
            Err(_) => ErasureOutcome::NotFound,
            Ok(state) if state.is_held(now) => ErasureOutcome::Held,
            Ok(_) => ErasureOutcome::Erased(Vec::new()),
        }
    }

    /// Returns the instant of a change at `now`: instants of one order increase.
    pub fn changed_at(&self, now: OffsetDateTime) -> Utc {
        Utc(after(self.updated_at.0, now))
    }
}

/// A change of documents: the entry of the history and the event.
pub struct DocumentsChange {
    /// The entry; the addition of documents to sign has none.
    pub entry: Option<NewChangeRow>,
    /// The event.
    pub event: NewChangeEventRow,
}

impl DocumentsChange {
    /// Returns the addition of documents at an instant.
    pub fn added(
        new: &NewDocuments,
        AddedRange { first_position, count, .. }: AddedRange,
        order: &OrderState,
        at: Utc,
    ) -> Self {
        let positions = (first_position..first_position.saturating_add(count)).collect();
        match (new.kind, new.replaces) {
            (DocumentKind::ToSign, None) => {
                let event = NewChangeEventRow::new(EventType::DocumentsAdded, None, order.id, at);
                Self { entry: None, event }
            }
            (DocumentKind::ToSign, Some(_)) => {
                let (event, entry) =
                    (EventType::DocumentsReplaced, ChangeKind::DocumentsReplaced(positions));
                Self::recorded(event, &entry, new.kind, order, at)
            }
            (DocumentKind::Signed, _) => {
                let (event, entry) =
                    (EventType::SignedDocumentsAdded, ChangeKind::SignedDocumentsAdded(positions));
                Self::recorded(event, &entry, new.kind, order, at)
            }
        }
    }

    /// Returns the withdrawal of a document at an instant.
    pub fn withdrawn(document: DocumentId, order: &OrderState, at: Utc) -> Self {
        let entry = ChangeKind::Withdrawn(vec![document.position]);
        Self::recorded(EventType::DocumentWithdrawn, &entry, document.kind, order, at)
    }

    fn recorded(
        event: EventType,
        entry: &ChangeKind,
        kind: DocumentKind,
        order: &OrderState,
        at: Utc,
    ) -> Self {
        let (actor, documents) = (Actor::uploading(kind), entry.documents().unwrap_or_default());
        let change = EventChange::Documents { documents: documents.to_vec(), actor };
        Self {
            event: NewChangeEventRow::new(event, Some(&change), order.id, at),
            entry: Some(NewChangeRow {
                order_id: order.id,
                at,
                kind: entry.as_str(),
                changed: None,
                documents: serde_json::to_string(documents).ok(),
                status: order.status.clone(),
                notary_id: order.notary_id,
                actor: actor.as_str(),
            }),
        }
    }
}

/// An upload that an order gets.
#[derive(Insertable)]
#[diesel(table_name = uploads)]
pub struct UploadFor {
    key: String,
    recorded_at: Utc,
    order_id: Option<i64>,
}

/// Returns the ledger's rows of documents that an order gets.
pub fn uploads_for(order: OrderId, keys: &[ObjectKey], at: OffsetDateTime) -> Vec<UploadFor> {
    let row = |key| UploadFor { key, recorded_at: Utc(at), order_id: Some(order.0) };
    sorted_keys(keys).into_iter().map(row).collect()
}

/// Returns keys in the order in which every call writes them, so that calls never deadlock.
pub fn sorted_keys(keys: &[ObjectKey]) -> Vec<String> {
    let mut keys: Vec<_> = keys.iter().map(|key| key.as_str().to_owned()).collect();
    keys.sort();
    keys
}
