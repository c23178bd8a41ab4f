//! Rows of orders.

use diesel::{
    dsl::{AsExprOf, auto_type, sql},
    expression::{SqlLiteral, UncheckedBind},
    prelude::*,
    sql_types::{BigInt, Bool, Nullable, Text},
};
use domain::{
    api_key::{ApiKeyId, ClientId, Owner, Party},
    appointment::{AppointmentTime, parse_date},
    document::DocumentCounts,
    duplicate_window::DuplicateWindow,
    idempotency::IdempotentRequest,
    order::{
        Actor, ChangeKind, DocumentId, FileNumber, Names, Notary, Order, OrderId, OrderStatus,
        StoredOrder,
        record::OrderColumns,
        search::{FOLDED, notary_text, searched_text},
    },
    person::{Doer, PersonId},
    ports::{Cause, LastChange, ListedOrder, MaybeErased, NewOrder, OrderNews},
};
use time::Date;

use self::places::{Found, Place, STARTS};
use crate::{
    Instant, OneOf, Unreadable, Utc,
    documents::{DocumentRow, is_signed, stored_position},
    schema::{documents, orders},
    text::{Lossy, LossyNullable},
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

/// Selects an order of an owner: whether it is erased, and when it was created.
#[auto_type(no_type_alias)]
pub fn created_order(owner: Owner, id: OrderId) -> _ {
    let id: i64 = id.0;
    let is_own: is_own = is_own(owner);
    orders::table
        .filter(orders::id.eq(id).and(is_own))
        .select((orders::erased_at, orders::created_at))
}

/// Like [`created_order`], with who created it.
#[auto_type(no_type_alias)]
pub fn created_order_and_by(owner: Owner, id: OrderId) -> _ {
    let id: i64 = id.0;
    let is_own: is_own = is_own(owner);
    orders::table.filter(orders::id.eq(id).and(is_own)).select((
        orders::erased_at,
        orders::created_at,
        orders::api_key_id,
        orders::person_id,
    ))
}

/// Returns who created an order with these columns.
pub fn creator(api_key: i64, person: Option<i64>) -> Doer {
    person.map_or(Doer::Key(ApiKeyId(api_key)), |person| Doer::Person(PersonId(person)))
}

pub mod change;
pub mod erase;
pub mod find;
pub mod lists;
pub mod notaries;
pub mod places;
pub mod retention;
pub mod update;

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
    pub person_id: Option<i64>,
    pub signing_service_id: i64,
    pub notary_id: Option<i64>,
    #[diesel(deserialize_as = LossyNullable)]
    pub notary: Option<String>,
    pub starts_at: Option<Utc>,
    pub ends_at: Option<Utc>,
    pub created_at: Utc,
    pub updated_at: Utc,
    pub is_test: bool,
    pub holds_file_number: bool,
    #[diesel(deserialize_as = Lossy)]
    pub file_number: String,
    #[diesel(deserialize_as = Lossy)]
    pub status: String,
    #[diesel(select_expression = details_text(), select_expression_type = SqlLiteral<Text>)]
    #[diesel(deserialize_as = Lossy)]
    pub details: String,
}

/// Selects the details as JSON text; the domain reads it.
fn details_text() -> SqlLiteral<Text> {
    sql("CAST(details AS TEXT)")
}

/// The columns of an order that only lists look at. Every statement that writes the details writes them too.
#[derive(Insertable, AsChangeset)]
#[diesel(table_name = orders, treat_none_as_null = true, treat_none_as_default_value = false)]
pub struct FoundBy {
    /// The date of the appointment in its zone.
    pub signing_date: String,
    /// The texts that a search looks at.
    pub search_text: String,
    /// When an any-time appointment begins.
    pub day_starts_at: Option<Utc>,
}

impl FoundBy {
    /// Returns the columns of an order.
    pub fn of(order: &Order) -> Self {
        let appointment = &order.appointment;
        let is_anytime = appointment.time == AppointmentTime::Anytime;
        Self {
            signing_date: appointment.date.to_string(),
            search_text: searched_text(order),
            day_starts_at: is_anytime.then(|| Utc(appointment.starts())),
        }
    }
}

/// An order whose texts are to be folded.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
pub struct UnfoldedRow {
    #[diesel(deserialize_as = LossyNullable)]
    search_text: Option<String>,
    updated_at: Utc,
    #[diesel(embed)]
    order: KeptOrderRow,
}

/// Selects an order at a version, unless it is erased, to store its folded texts.
#[auto_type(no_type_alias)]
pub fn unfolded_order(id: i64, version: Utc) -> _ {
    orders::table
        .filter(orders::id.eq(id).and(orders::updated_at.eq(version)))
        .filter(orders::erased_at.is_null())
}

/// The columns that a search and lists look at, for an order that was written without them.
#[derive(AsChangeset)]
#[diesel(table_name = orders, treat_none_as_null = true)]
pub struct FoldedOrder {
    search_text: String,
    day_starts_at: Option<Utc>,
    notary_text: Option<String>,
}

impl UnfoldedRow {
    /// Returns the identifier of the order, its version, and its columns. One that cannot be read keeps its texts.
    pub fn folded(self) -> (i64, Utc, FoldedOrder) {
        let id = self.order.id;
        let stored = self.order.known(Vec::new(), None).ok().and_then(MaybeErased::whole);
        let found_by = stored.as_ref().map(|stored| FoundBy::of(&stored.order));
        let (search_text, day_starts_at) = match found_by {
            Some(found_by) => (found_by.search_text, found_by.day_starts_at),
            None => (format!("{FOLDED}{}", self.search_text.unwrap_or_default()), None),
        };
        let notary = stored.and_then(|stored| stored.notary);
        let notary_text = notary.as_ref().map(notary_text);
        (id, self.updated_at, FoldedOrder { search_text, day_starts_at, notary_text })
    }
}

impl OrderRow {
    fn new(new: &NewOrder) -> Result<Self, Cause> {
        let record = OrderColumns::of(&new.order)?;
        Ok(Self {
            client_id: new.client.0,
            api_key_id: new.api_key.0,
            person_id: new.person.map(|person| person.0),
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
            person: self.person_id.map(PersonId),
            order: Box::new(order),
            status: OrderStatus::from_stored(self.status).ok_or_else(|| unreadable(&"status"))?,
            notary_id: self.notary_id,
            notary: self.notary.as_deref().and_then(read_notary),
            changes: Vec::new(),
            notes: Vec::new(),
            names: Names::default(),
            held_until: None,
            touched_at: None,
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
    touched_at: Option<Utc>,
    #[diesel(select_expression = client_name(), select_expression_type = SqlLiteral<Nullable<Text>>)]
    #[diesel(deserialize_as = LossyNullable)]
    client_name: Option<String>,
    #[diesel(select_expression = service_name(), select_expression_type = SqlLiteral<Nullable<Text>>)]
    #[diesel(deserialize_as = LossyNullable)]
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
            touched_at: self.touched_at.map(|at| at.0),
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
    #[diesel(deserialize_as = LossyNullable)]
    signing_date: Option<String>,
    #[diesel(select_expression = document_counts())]
    #[diesel(select_expression_type = SqlLiteral<Counts>)]
    counts: (i64, i64, i64, i64),
}
type Counts = (BigInt, BigInt, BigInt, BigInt);

/// Counts the documents of an order that are not withdrawn: all of the client, those in force that the signing service
/// has downloaded, those in force that it has not, and the signed ones.
fn document_counts() -> SqlLiteral<Counts> {
    let count = |condition| {
        format!("(SELECT count(key) FROM documents WHERE order_id = orders.id AND {condition})")
    };
    let conditions = [
        "NOT signed",
        "NOT signed AND first_downloaded_at IS NOT NULL AND replaced_by IS NULL",
        "NOT signed AND first_downloaded_at IS NULL AND replaced_by IS NULL",
        "signed",
    ];
    sql(&conditions.map(count).join(", "))
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
        let (documents, fetched, unfetched, signed) = self.counts;
        let [documents, fetched, unfetched, signed] = [documents, fetched, unfetched, signed]
            .map(|count| usize::try_from(count).unwrap_or_default());
        let counts = DocumentCounts { documents, fetched, unfetched, signed };
        let stored = self.order.known(Vec::new(), known_on)?.whole();
        Ok(stored.map(|stored| ListedOrder { stored, counts, news: None, listed_at: None }))
    }
}

/// An order of a page, with its news. It does not embed [`ListedRow`]: each level of rows takes the compiler eight times
/// as long.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
pub struct PageRow {
    #[diesel(embed)]
    order: KeptOrderRow,
    #[diesel(deserialize_as = LossyNullable)]
    signing_date: Option<String>,
    #[diesel(select_expression = document_counts())]
    #[diesel(select_expression_type = SqlLiteral<Counts>)]
    counts: (i64, i64, i64, i64),
    #[diesel(select_expression = news(), select_expression_type = SqlLiteral<NewsColumns>)]
    news: News,
}

/// When the order begins; the instant of the newest entry of the history, and its kind, side and fields, with blanks
/// between; the instant of the newest note, and its author.
type News = (Utc, Option<Utc>, Option<Lossy>, Option<Utc>, Option<Lossy>);
type NewsColumns = (Instant, Nullable<Instant>, Nullable<Text>, Nullable<Instant>, Nullable<Text>);

fn news() -> SqlLiteral<NewsColumns> {
    let newest = |table, value| {
        format!("(SELECT {value} FROM {table} WHERE order_id = orders.id ORDER BY id DESC LIMIT 1)")
    };
    let change = "kind || ' ' || actor || ' ' || coalesce(changed, '')";
    let columns = [
        STARTS.to_owned(),
        newest("order_changes", "at"),
        newest("order_changes", change),
        newest("order_notes", "at"),
        newest("order_notes", "author"),
    ];
    sql(&columns.join(", "))
}

impl PageRow {
    /// Returns the order and its place; `None` if it is erased.
    pub(crate) fn into_found(self, by_appointment: bool) -> Result<Option<Found>, Unreadable> {
        let (starts, changed_at, change, noted_at, note_author) = self.news;
        let place = Place::of(by_appointment, starts, self.order.id);
        let Self { order, signing_date, counts, .. } = self;
        let listed = ListedRow { order, signing_date, counts };
        let Some(listed) = listed.into_known()? else { return Ok(None) };
        let created = || LastChange {
            at: listed.stored.created_at,
            kind: ChangeKind::Created.as_str().to_owned(),
            actor: Actor::Client,
            changed: None,
        };
        let change = changed_at.zip(change).map(|(at, Lossy(change))| {
            let mut parts = change.splitn(3, ' ');
            let mut part = || parts.next().unwrap_or_default();
            let (kind, actor, changed) = (part().to_owned(), part(), part());
            // Another version of the service, or another system, has named one that this does not know.
            let actor = Actor::from_name(actor).unwrap_or(Actor::Database);
            LastChange { at: at.0, kind, actor, changed: serde_json::from_str(changed).ok() }
        });
        let note = noted_at
            .zip(note_author)
            .map(|(at, Lossy(name))| (at.0, Actor::from_name(&name).unwrap_or(Actor::Database)));
        let news = Some(OrderNews { change: change.unwrap_or_else(created), note });
        let listed_at = by_appointment.then_some(place.starts.0);
        Ok(Some(Found { place, order: ListedOrder { news, listed_at, ..listed } }))
    }
}

/// An order to create, and what is written with it.
pub struct PendingOrder {
    /// The order.
    pub row: OrderRow,
    /// The text that a search looks at.
    pub found_by: FoundBy,
    /// Its documents. Each row gets the order's identifier when the order has one.
    pub documents: Vec<DocumentRow>,
    /// The request, if it has an idempotency key.
    pub idempotent_request: Option<IdempotentRequest>,
    /// An order created at this instant or before does not bar the file number.
    pub window_opens_at: Utc,
    /// The last identifier that an order of the client with the file number may have; 0 if there must be none.
    /// `None`: any order may be there. That order must still have ended.
    pub only_after: Option<i64>,
    /// Another form of the file number in which orders may have it.
    pub other_number: Option<String>,
}

impl PendingOrder {
    /// Returns the rows of an order. Fails if a value does not fit its column.
    pub fn new(new: &NewOrder, window: DuplicateWindow) -> Result<Self, Cause> {
        let documents = (0..).zip(&new.documents);
        let row = OrderRow::new(new)?;
        let mut forms = FileNumber::stored_forms(&row.file_number).into_iter();
        Ok(Self {
            other_number: forms.nth(1),
            row,
            found_by: FoundBy::of(&new.order),
            documents: documents
                .map(|(position, document)| DocumentRow::new(position, document))
                .collect::<Result<_, _>>()?,
            idempotent_request: new.idempotent_request.clone(),
            window_opens_at: Utc(window.opens_at(new.created_at)),
            only_after: new.only_after.map(|after| after.map_or(0, |order| order.0)),
        })
    }

    /// Returns the forms in which orders may have the file number.
    pub fn forms(&self) -> impl Iterator<Item = &str> {
        [Some(&self.row.file_number), self.other_number.as_ref()]
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}
