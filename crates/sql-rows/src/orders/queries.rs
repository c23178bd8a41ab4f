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
    order::{
        DocumentId, OrderChange, OrderId, OrderStatus, READ_HISTORY, READ_NOTE_BYTES, StoredOrder,
        fitting_notes,
    },
    ports::{
        Cursor, HistoryEntry, HistoryId, HistoryQuery, NoteNumber, NoteQuery, NumberedNote,
        OrderUpdate, Page,
    },
};
use time::OffsetDateTime;

use crate::{
    DocumentRow, KeptOrderRow, OneOf, OrderChangeRow, Unreadable, Utc,
    orders::rows::{NumberedNoteRow, is_own, stored_notary},
    row_limit,
    schema::{documents, order_changes, orders, uploads},
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

/// Selects a document that the other side has not downloaded yet.
#[auto_type(no_type_alias)]
pub fn not_downloaded_before(document: DocumentId, at: Utc) -> _ {
    let id: i64 = document.order.0;
    let signed: bool = is_signed(document.kind);
    let position: i32 = stored_position(document.position);
    // Two instances store the downloads that they have seen.
    let is_later = documents::first_downloaded_at.gt(at);
    documents::table
        .find((id, signed, position))
        .filter(documents::first_downloaded_at.is_null().or(is_later))
}

pub(crate) fn is_signed(kind: DocumentKind) -> bool {
    kind == DocumentKind::Signed
}

/// Returns how a position is stored. No document has one below 0.
pub(crate) fn stored_position(position: u32) -> i32 {
    i32::try_from(position).unwrap_or(-1)
}

/// Selects orders with all their documents, so that one statement reads both at one instant.
#[auto_type(no_type_alias)]
pub fn orders_with_documents(ids: Vec<i64>) -> _ {
    let ids: OneOf<i64> = OneOf::new("orders.id", ids);
    orders::table
        .left_join(documents::table.on(documents::order_id.eq(orders::id)))
        .filter(ids)
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
    let ids: OneOf<i64> = OneOf::new("orders.id", orders);
    let newest: SqlLiteral<Bool> = newest();
    order_changes::table
        .inner_join(orders::table.on(orders::id.eq(order_changes::order_id)))
        .filter(ids)
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

/// Returns the query of the notes of an order in one direction from a note, the next one first: `$1` is the
/// order, `$2` the number of the note, `$3` how many to look at. It ends behind the note that is too much for
/// one answer. Numbers come from the index alone, so the texts of other notes are not read.
pub fn notes_query(is_toward_newer: bool) -> String {
    let (way, order) = if is_toward_newer { (">", "ASC") } else { ("<", "DESC") };
    format!(
        "SELECT number, at, author, text FROM (\
            SELECT number, note.at, note.author, note.text, \
                sum(octet_length(note.text)) OVER (ORDER BY number {order}) \
                    - octet_length(note.text) AS bytes_before \
            FROM (\
                SELECT id, number FROM (\
                    SELECT id, row_number() OVER (ORDER BY id) AS number \
                    FROM order_notes WHERE order_id = $1\
                ) AS numbered WHERE number {way} $2 ORDER BY number {order} LIMIT $3\
            ) AS next CROSS JOIN order_notes AS note WHERE note.id = next.id\
        ) AS sized WHERE bytes_before <= {READ_NOTE_BYTES} ORDER BY number {order}"
    )
}

/// Returns whether a page of an order with a number of notes can begin at a cursor.
pub fn is_place_in_notes(cursor: &Cursor<NoteNumber>, count: i64) -> bool {
    match cursor {
        Cursor::Newest => true,
        Cursor::OlderThan(note) => (1..=count).contains(&note.0),
        Cursor::NewerThan(note) => (NoteNumber::START.0..=count).contains(&note.0),
    }
}

/// Returns a page of the notes of an order. `rows` are those of [`notes_query`] from the cursor on.
pub fn notes_page(query: NoteQuery, rows: Vec<NumberedNoteRow>) -> Page<NumberedNote> {
    let notes: Vec<_> = rows.into_iter().map(NumberedNoteRow::into_note).collect();
    let limit = fitting_notes(query.limit, notes.iter().map(|it| &it.note));
    let has_others = match query.cursor {
        Cursor::Newest => false,
        Cursor::OlderThan(_) => true,
        Cursor::NewerThan(note) => note != NoteNumber::START,
    };
    Page::of(limit, &query.cursor, notes, has_others)
}

/// Gives an order its newest notes up to the instant at which it was read.
pub fn add_notes(found: &mut StoredOrder, newest: Page<NumberedNote>) {
    let notes = newest.items.into_iter().rev().map(|it| it.note);
    found.notes = notes.filter(|note| note.at <= found.updated_at).collect();
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
    let is_version: OneOf<Utc> = OneOf::new("orders.updated_at", expected_versions(update));
    let cancels_nothing: dsl::AsExprOf<bool, Bool> = (!cancels(update)).into_sql::<Bool>();
    let is_final: Vec<String> = names(&OrderStatus::FINAL);
    let closed: Vec<String> = names(&OrderStatus::CLOSED);
    let has_status: dsl::AsExprOf<bool, Bool> = update.status.is_some().into_sql::<Bool>();
    let status: String = status_of(update);
    let has_notary: dsl::AsExprOf<bool, Bool> = update.notary_id.is_some().into_sql::<Bool>();
    let is_other_notary: OtherNotary = other_notary(update);
    let has_name: dsl::AsExprOf<bool, Bool> = update.notary.is_some().into_sql::<Bool>();
    let is_other_name: OtherName = other_name(update);
    orders::table
        .filter(orders::id.eq(id).and(is_own).and(orders::erased_at.is_null()))
        .filter(orders::status.ne_all(is_final))
        .filter(any_service.or(orders::signing_service_id.eq(service)))
        .filter(any_version.or(is_version))
        .filter(cancels_nothing.or(orders::status.ne_all(closed)))
        .filter(
            has_status
                .and(orders::status.ne(status))
                .or(has_notary.and(is_other_notary))
                .or(has_name.and(is_other_name)),
        )
}

fn names(statuses: &[OrderStatus]) -> Vec<String> {
    statuses.iter().map(|status| status.as_str().to_owned()).collect()
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

/// The columns of a status or notary change. `updated_at` and the notary's name are set beside it. The
/// trigger of `migrations/` adds the entry of the history and the event.
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
