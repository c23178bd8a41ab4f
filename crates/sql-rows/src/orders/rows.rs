//! Rows of orders and their documents.

use diesel::{
    dsl::{AsExprOf, auto_type, sql},
    expression::{SqlLiteral, UncheckedBind},
    prelude::*,
    sql_types::{BigInt, Bool, Nullable, Text},
};
use domain::{
    api_key::{ApiKeyId, ClientId, Owner, Party},
    appointment::parse_date,
    document::{DocumentKind, ObjectKey, Sha256Digest, StoredDocument},
    duplicate_window::DuplicateWindow,
    idempotency::IdempotentRequest,
    order::{
        Actor, ChangeKind, Names, Notary, Note, Order, OrderChange, OrderId, OrderStatus,
        StoredOrder, change::AddedDocument, record::OrderColumns, search::searched_text,
    },
    ports::{Cause, ListedOrder, MaybeErased, NewOrder, NoteNumber, NumberedNote},
};

use time::Date;

use crate::{
    Unreadable, Utc, digest,
    schema::{documents, order_changes, order_notes, orders},
};

/// Returns the column of orders that names a party, and its value.
pub fn party_column(party: Party) -> (&'static str, i64) {
    match party {
        Party::Client(client) => ("client_id", client.0),
        Party::Service(service) => ("signing_service_id", service.0),
    }
}

/// The condition of an order of an owner.
#[auto_type(no_type_alias)]
pub fn is_order_of(owner: Owner) -> _ {
    let is_own: is_own = is_own(owner);
    is_own
}

/// Like [`is_order_of`], for other builders.
#[auto_type]
pub(crate) fn is_own(owner: Owner) -> _ {
    let (column, party): (&'static str, i64) = party_column(owner.party);
    let is_of_party: IsOfParty = is_of_party(column, party);
    let is_test: bool = owner.is_test;
    is_of_party.and(orders::is_test.eq(is_test))
}

type IsOfParty = UncheckedBind<SqlLiteral<Bool>, AsExprOf<i64, BigInt>>;

fn is_of_party(column: &str, party: i64) -> IsOfParty {
    sql::<Bool>(&format!("orders.{column} = ")).bind::<BigInt, _>(party)
}

/// An order without its identifier and its documents.
#[derive(Insertable, Queryable, Selectable)]
// Binds `NULL` for absent values, so the statement text is constant and stays prepared.
#[diesel(table_name = orders, treat_none_as_default_value = false)]
#[expect(missing_docs, reason = "the columns, which the migrations describe")]
pub struct OrderRow {
    pub client_id: i64,
    pub api_key_id: i64,
    pub signing_service_id: i64,
    pub notary_id: Option<i64>,
    pub notary: Option<String>,
    pub starts_at: Option<Utc>,
    pub ends_at: Option<Utc>,
    pub created_at: Utc,
    pub updated_at: Utc,
    pub is_test: bool,
    pub holds_file_number: bool,
    pub file_number: String,
    pub status: String,
    #[diesel(select_expression = details_text(), select_expression_type = SqlLiteral<Text>)]
    pub details: String,
}

/// Selects the details as JSON text; the domain reads it.
fn details_text() -> SqlLiteral<Text> {
    sql("CAST(details AS TEXT)")
}

/// The columns of an order that only lists look at. Every statement that writes the details writes them too.
#[derive(Insertable, AsChangeset)]
#[diesel(table_name = orders)]
pub struct FoundBy {
    /// The date of the appointment in its zone.
    pub signing_date: String,
    /// The texts that a search looks at.
    pub search_text: String,
}

impl FoundBy {
    /// Returns the columns of an order.
    pub fn of(order: &Order) -> Self {
        Self { signing_date: order.appointment.date.to_string(), search_text: searched_text(order) }
    }
}

impl OrderRow {
    fn new(new: &NewOrder) -> Result<Self, Cause> {
        let record = OrderColumns::of(&new.order)?;
        Ok(Self {
            client_id: new.client.0,
            api_key_id: new.api_key.0,
            signing_service_id: record.signing_service_id,
            notary_id: None,
            notary: None,
            starts_at: record.starts_at.map(Utc),
            ends_at: record.ends_at.map(Utc),
            created_at: Utc(new.created_at),
            updated_at: Utc(new.created_at),
            is_test: new.is_test,
            holds_file_number: true,
            file_number: record.file_number,
            status: OrderStatus::NEW.as_str().to_owned(),
            details: record.details,
        })
    }

    /// Returns the order. Fails if it is erased. With a date, returns what the columns know of an order whose
    /// details cannot be read.
    pub fn into_stored(
        self,
        id: OrderId,
        documents: Vec<DocumentRow>,
        known_on: Option<Date>,
    ) -> Result<StoredOrder, Unreadable> {
        let unreadable = |reason: &dyn ToString| Unreadable::new("orders", &id.0, reason);
        let columns = |file_number: &str, details: String| OrderColumns {
            signing_service_id: self.signing_service_id,
            file_number: file_number.to_owned(),
            starts_at: self.starts_at.map(|at| at.0),
            ends_at: self.ends_at.map(|at| at.0),
            details,
        };
        let order = match (columns(&self.file_number, self.details).into_order(), known_on) {
            (Ok(order), _) => order,
            (Err(_), Some(date)) => columns(&self.file_number, String::new()).known(date),
            (Err(error), None) => return Err(unreadable(&error)),
        };
        let (signed, to_sign): (Vec<_>, Vec<_>) = documents.into_iter().partition(|row| row.signed);
        let stored = |rows: Vec<DocumentRow>| {
            let rows = rows.into_iter().map(|row| row.into_document(self.created_at));
            rows.collect::<Result<Vec<_>, _>>()
        };
        Ok(StoredOrder {
            id,
            client: ClientId(self.client_id),
            api_key: ApiKeyId(self.api_key_id),
            order: Box::new(order),
            status: OrderStatus::from_stored(self.status).ok_or_else(|| unreadable(&"status"))?,
            notary_id: self.notary_id,
            notary: self.notary.as_deref().and_then(read_notary),
            changes: Vec::new(),
            notes: Vec::new(),
            names: Names::default(),
            held_until: None,
            documents: stored(to_sign)?,
            signed_documents: stored(signed)?,
            is_test: self.is_test,
            created_at: self.created_at.0,
            updated_at: self.updated_at.0,
        })
    }
}

/// Returns how a notary is stored.
pub(crate) fn stored_notary(notary: &Notary) -> String {
    // Texts become JSON without an error.
    serde_json::to_string(notary).unwrap_or_default()
}

/// Reads a notary. Another system may have written something else: an order is readable without it.
pub(crate) fn read_notary(stored: &str) -> Option<Notary> {
    serde_json::from_str(stored).ok()
}

/// An order as it is read, without its documents.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
pub struct KeptOrderRow {
    /// The identifier.
    pub id: i64,
    erased_at: Option<Utc>,
    held_until: Option<Utc>,
    #[diesel(select_expression = client_name(), select_expression_type = SqlLiteral<Nullable<Text>>)]
    client_name: Option<String>,
    #[diesel(select_expression = service_name(), select_expression_type = SqlLiteral<Nullable<Text>>)]
    service_name: Option<String>,
    #[diesel(embed)]
    order: OrderRow,
}

fn client_name() -> SqlLiteral<Nullable<Text>> {
    sql("(SELECT coalesce(k.client_name, k.name) FROM api_keys AS k WHERE k.id = orders.client_id)")
}

fn service_name() -> SqlLiteral<Nullable<Text>> {
    sql("(SELECT s.name FROM signing_services AS s WHERE s.id = orders.signing_service_id)")
}

impl KeptOrderRow {
    /// Returns the order, unless it is erased.
    pub fn into_maybe_erased(
        self,
        documents: Vec<DocumentRow>,
    ) -> Result<MaybeErased<StoredOrder>, Unreadable> {
        self.known(documents, None)
    }

    /// Returns the order, unless it is erased: see [`OrderRow::into_stored`].
    fn known(
        self,
        documents: Vec<DocumentRow>,
        known_on: Option<Date>,
    ) -> Result<MaybeErased<StoredOrder>, Unreadable> {
        if self.erased_at.is_some() {
            return Ok(MaybeErased::Erased);
        }
        let names = Names { client: self.client_name, service: self.service_name };
        let stored = self.order.into_stored(OrderId(self.id), documents, known_on)?;
        Ok(MaybeErased::Whole(StoredOrder {
            names,
            held_until: self.held_until.map(|at| at.0),
            ..stored
        }))
    }
}

/// An order in a list.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
pub struct ListedRow {
    #[diesel(embed)]
    order: KeptOrderRow,
    signing_date: Option<String>,
    #[diesel(select_expression = count_documents("NOT signed"))]
    #[diesel(select_expression_type = SqlLiteral<BigInt>)]
    documents: i64,
    #[diesel(select_expression = count_documents("signed"))]
    #[diesel(select_expression_type = SqlLiteral<BigInt>)]
    signed_documents: i64,
}

/// Counts the documents of an order that are not withdrawn.
fn count_documents(condition: &str) -> SqlLiteral<BigInt> {
    sql(&format!("(SELECT count(key) FROM documents WHERE order_id = orders.id AND {condition})"))
}

impl ListedRow {
    /// Returns the order; `None` if it is erased.
    pub fn into_listed(self) -> Result<Option<ListedOrder>, Unreadable> {
        self.known(None)
    }

    /// Returns the order like [`Self::into_listed`]. Of one whose details cannot be read, returns what the
    /// columns know: it must not hide the others.
    pub fn into_known(self) -> Result<Option<ListedOrder>, Unreadable> {
        let date = self.signing_date.as_deref().and_then(parse_date);
        let created_at = self.order.order.created_at.0;
        self.known(Some(date.unwrap_or(created_at.date())))
    }

    fn known(self, known_on: Option<Date>) -> Result<Option<ListedOrder>, Unreadable> {
        let [documents, signed_documents] = [self.documents, self.signed_documents]
            .map(|count| usize::try_from(count).unwrap_or_default());
        let stored = self.order.known(Vec::new(), known_on)?.whole();
        Ok(stored.map(|stored| ListedOrder { stored, documents, signed_documents }))
    }
}

/// An order to create, and what is written with it.
pub struct PendingOrder {
    /// The order.
    pub row: OrderRow,
    /// What lists find it by.
    pub found_by: FoundBy,
    /// Its documents. Each row gets the order's identifier when the order has one.
    pub documents: Vec<DocumentRow>,
    /// The request, if it has an idempotency key.
    pub idempotent_request: Option<IdempotentRequest>,
    /// An order created at this instant or before does not bar the file number.
    pub window_opens_at: Utc,
}

impl PendingOrder {
    /// Returns the rows of an order. Fails if a value does not fit its column.
    pub fn new(new: &NewOrder, window: DuplicateWindow) -> Result<Self, Cause> {
        let documents = (0..).zip(&new.documents);
        Ok(Self {
            row: OrderRow::new(new)?,
            found_by: FoundBy::of(&new.order),
            documents: documents
                .map(|(position, document)| DocumentRow::new(position, document))
                .collect::<Result<_, _>>()?,
            idempotent_request: new.idempotent_request.clone(),
            window_opens_at: Utc(window.opens_at(new.created_at)),
        })
    }
}

/// A change in the history of an order.
#[derive(Queryable, Selectable)]
#[diesel(table_name = order_changes)]
pub struct OrderChangeRow {
    /// The order.
    pub order_id: i64,
    at: Utc,
    kind: String,
    changed: Option<String>,
    documents: Option<String>,
    status: String,
    notary_id: Option<i64>,
    actor: String,
    reason: Option<String>,
}

impl OrderChangeRow {
    /// Returns the change.
    pub fn into_change(self) -> Result<OrderChange, Unreadable> {
        let unreadable =
            |column: &str| Unreadable::new("order_changes of order", &self.order_id, &column);
        let kind =
            ChangeKind::from_stored(&self.kind, self.changed.as_deref(), self.documents.as_deref());
        Ok(OrderChange {
            at: self.at.0,
            kind: kind.ok_or_else(|| unreadable("kind"))?,
            status: OrderStatus::from_stored(self.status).ok_or_else(|| unreadable("status"))?,
            notary_id: self.notary_id,
            // Another version of the service, or another system, has named one that this does not know.
            actor: Actor::from_name(&self.actor).unwrap_or(Actor::Database),
            reason: self.reason,
        })
    }
}

/// An entry to add to the history of an order.
#[derive(Insertable)]
#[diesel(table_name = order_changes)]
#[expect(missing_docs, reason = "the columns, which the migrations describe")]
pub struct NewChangeRow {
    pub order_id: i64,
    pub at: Utc,
    pub kind: &'static str,
    pub changed: Option<String>,
    pub documents: Option<String>,
    pub status: String,
    pub notary_id: Option<i64>,
    pub actor: &'static str,
}

impl NewChangeRow {
    /// Returns the row of an entry.
    pub(crate) fn new(order: OrderId, entry: &OrderChange) -> Result<Self, Cause> {
        let OrderChange { at, kind, status, notary_id, actor, .. } = entry;
        Ok(Self {
            order_id: order.0,
            at: Utc(*at),
            kind: kind.as_str(),
            changed: kind.changed().map(serde_json::to_string).transpose()?,
            documents: kind.documents().map(serde_json::to_string).transpose()?,
            status: status.as_str().to_owned(),
            notary_id: *notary_id,
            actor: actor.as_str(),
        })
    }
}

/// A note to add to an order.
#[derive(Insertable)]
#[diesel(table_name = order_notes)]
pub struct NoteRow {
    order_id: i64,
    at: Utc,
    author: String,
    text: String,
}

impl NoteRow {
    /// Returns the row of a note.
    pub(crate) fn new(order: OrderId, note: &Note) -> Self {
        Self {
            order_id: order.0,
            at: Utc(note.at),
            author: note.author.as_str().to_owned(),
            text: note.text.clone(),
        }
    }
}

/// A note of an order, with its number.
#[derive(QueryableByName)]
pub struct NumberedNoteRow {
    #[diesel(sql_type = BigInt)]
    number: i64,
    #[diesel(sql_type = crate::Instant)]
    at: Utc,
    #[diesel(sql_type = Text)]
    author: String,
    #[diesel(sql_type = Text)]
    text: String,
}

impl NumberedNoteRow {
    /// Returns the note.
    pub(crate) fn into_note(self) -> NumberedNote {
        // Another version of the service has named one that this does not know.
        let author = Actor::from_name(&self.author).unwrap_or(Actor::Database);
        let note = Note { at: self.at.0, author, text: self.text };
        NumberedNote { number: NoteNumber(self.number), note }
    }
}

/// A document of an order.
#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = documents, treat_none_as_default_value = false)]
#[expect(missing_docs, reason = "the columns, which the migrations describe")]
pub struct DocumentRow {
    pub order_id: i64,
    pub position: i32,
    pub key: Option<String>,
    pub name: String,
    pub name_as_sent: String,
    pub media_type: String,
    pub size: i64,
    pub sha256: Vec<u8>,
    pub added_at: Option<Utc>,
    pub signed: bool,
    pub replaced_by: Option<i32>,
    pub withdrawn_at: Option<Utc>,
    pub is_erased: bool,
    pub first_downloaded_at: Option<Utc>,
}

impl DocumentRow {
    fn new(position: i32, document: &StoredDocument) -> Result<Self, Cause> {
        Ok(Self {
            order_id: 0,
            position,
            key: document.key.as_ref().map(|key| key.as_str().to_owned()),
            name: document.name.clone(),
            name_as_sent: document.name_as_sent.clone(),
            media_type: document.media_type.clone(),
            size: i64::try_from(document.size)?,
            sha256: document.sha256.0.to_vec(),
            added_at: None,
            signed: false,
            replaced_by: None,
            withdrawn_at: None,
            is_erased: false,
            first_downloaded_at: None,
        })
    }

    /// Returns the row of a document that an order gets.
    pub(crate) fn added(order: OrderId, added: &AddedDocument) -> Result<Self, Cause> {
        let AddedDocument { kind, position, document } = added;
        Ok(Self {
            order_id: order.0,
            added_at: Some(Utc(document.created_at)),
            signed: *kind == DocumentKind::Signed,
            ..Self::new(i32::try_from(*position)?, document)?
        })
    }

    /// Returns the document of an order that was created at `order_created_at`.
    pub fn into_document(self, order_created_at: Utc) -> Result<StoredDocument, Unreadable> {
        let unreadable =
            |column: &str| Unreadable::new("documents of order", &self.order_id, &column);
        Ok(StoredDocument {
            key: self.key.map(ObjectKey::from_stored),
            name: self.name,
            name_as_sent: self.name_as_sent,
            media_type: self.media_type,
            size: u64::try_from(self.size).map_err(|_| unreadable("size"))?,
            created_at: self.added_at.unwrap_or(order_created_at).0,
            sha256: Sha256Digest(digest(self.sha256, || unreadable("sha256"))?),
            replaced_by: self
                .replaced_by
                .map(|position| u32::try_from(position).map_err(|_| unreadable("replaced_by")))
                .transpose()?,
            withdrawn_at: self.withdrawn_at.map(|at| at.0),
            is_erased: self.is_erased,
            first_downloaded_at: self.first_downloaded_at.map(|at| at.0),
        })
    }
}
