//! The statement that creates the orders of a batch.

use std::sync::OnceLock;

use diesel::{
    QueryResult, QueryableByName,
    pg::Pg,
    query_builder::{BoxedSqlQuery, SqlQuery},
    serialize::ToSql,
    sql_query,
    sql_types::{Array, BigInt, Binary, Bool, HasSqlType, Integer, Nullable, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{order::OrderStatus, webhook::EventType};
use sql_rows::{Instant, OrderRow, PendingOrder, Utc, schema::orders};

use crate::statement::{DURABLE, Prepared};

/// The smallest identifier that a transaction has announced, which draws only larger ones. Other
/// programs have locks with other upper 16 bits.
pub(crate) const ANNOUNCED: &str = "(\
    SELECT min(((classid::bigint & 65535) << 32) | objid::bigint) FROM pg_locks \
    WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 16 = 28530 \
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";

/// Announces that the transaction will draw larger identifiers than the last one drawn. A shared
/// lock names the last one until the transaction ends. Readers of pages look for such locks
/// ([`ANNOUNCED`]).
const ANNOUNCE: &str = "(SELECT pg_advisory_xact_lock_shared((28530::bigint << 48) \
    | coalesce(pg_sequence_last_value('orders_id_seq'), 0)) IS NOT NULL)";

/// Returns the text of [`statement`], which is built once.
fn text(
    file_numbers: FileNumbers,
    size: Size,
    has_documents: bool,
    has_keys: bool,
) -> &'static str {
    static TEXTS: [OnceLock<String>; 16] = [const { OnceLock::new() }; 16];
    let takes_over = file_numbers == FileNumbers::TakeOver;
    let differences = [takes_over, size == Size::One, has_documents, has_keys];
    let at = differences.iter().fold(0, |at, differs| 2 * at + usize::from(*differs));
    TEXTS[at].get_or_init(|| statement(file_numbers, size, has_documents, has_keys))
}

/// Returns the statement that creates the orders of a batch, all in one transaction:
///
/// 1. `candidates`: leaves out orders whose file number or idempotency key is in use. It takes no
///    lock, so that another system that updates an order delays no other order. Scalar subqueries
///    and `LIMIT` keep the planner from a join: one index lookup per order, in every plan.
/// 2. `held`, `released`: takes the file numbers from orders that the window no longer covers, see
///    [`FileNumbers::TakeOver`].
/// 3. `created`: inserts the orders, and returns them. [`ANNOUNCE`] and [`DURABLE`] run once before
///    the first insert.
/// 4. `stored`: inserts their documents and adopts the uploads, in the order of their keys, in
///    which other calls lock them.
/// 5. `remembered`: remembers their requests. Where a concurrent request has remembered its order
///    under the same key, a trigger rejects the whole statement.
/// 6. `noted`: inserts an event for each, whatever will follow it.
///
/// A single order comes as values instead of arrays, which saves PostgreSQL a third of the work.
///
/// Each step locks rows in the order of their keys, so that batches never deadlock. Step 3 counts
/// the rows of step 2 to run after it. A batch without idempotency keys or documents has
/// no step for them: steps that do nothing would make a single order a third slower.
fn statement(file_numbers: FileNumbers, size: Size, has_documents: bool, has_keys: bool) -> String {
    let documents = 2 + COLUMNS.len() + file_numbers.columns().len();
    let keys = documents + if has_documents { 8 } else { 0 };
    let (key_columns, key_is_free, remembered) = if has_keys { KEYS } else { ("", "", "") };
    let key_parameters =
        if has_keys { format!(", {}", parameters(keys, 5)) } else { String::new() };
    let stored = if has_documents { stored(&parameters(documents, 8)) } else { String::new() };
    let Parts { holder, lookup, is_free, released, after_release, on_conflict } =
        file_numbers.parts();
    let (rows, end_of_rows, sorted) = match size {
        Size::One => ("(VALUES (", "))", ""),
        Size::Many => ("unnest(", ")", " ORDER BY c.file_number COLLATE \"C\""),
    };
    let row_parameters = parameters(2, documents - 2);
    let columns = [COLUMNS, file_numbers.columns()].concat().join(", ");
    let status = OrderStatus::NEW.as_str();
    let event = EventType::OrderCreated.as_str();
    format!(
        "WITH candidates AS (\
            SELECT c.*{holder} FROM {rows}{row_parameters}{key_parameters}{end_of_rows} \
            AS c ({columns}{key_columns}){lookup} WHERE {is_free}{key_is_free}{sorted}\
        ){released}, created AS (\
            INSERT INTO orders (client_id, api_key_id, signing_service_id, starts_at, ends_at, \
                created_at, updated_at, is_test, holds_file_number, file_number, status, details) \
            SELECT client_id, api_key_id, signing_service_id, starts_at, ends_at, created_at, \
                created_at, $1, true, file_number, '{status}', details::json \
            FROM candidates WHERE {ANNOUNCE} AND {DURABLE}{after_release}{on_conflict} \
            RETURNING id, file_number, created_at\
        ){stored}{remembered}, noted AS (\
            INSERT INTO events (type, order_id, created_at) \
            SELECT '{event}', id, created_at FROM created\
        ) SELECT id, file_number FROM created"
    )
}

/// The columns of an order that differ within a batch.
const COLUMNS: &[&str] = &[
    "file_number",
    "details",
    "client_id",
    "api_key_id",
    "signing_service_id",
    "starts_at",
    "ends_at",
    "created_at",
];

/// How many orders a statement creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    One,
    Many,
}

/// What a statement does with an order that holds the file number of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileNumbers {
    /// Leaves the new order out. Few file numbers come again, so this is tried first. If another
    /// statement commits an order with the file number at the same time, the whole batch fails
    /// and is repeated as [`Self::TakeOver`].
    LeaveOut,
    /// Takes the file number from an order that the window no longer covers. Leaves the new order
    /// out if another statement was faster. That takes one more lookup and one more log record.
    TakeOver,
}

/// The parts of the statement that differ.
struct Parts {
    holder: &'static str,
    lookup: &'static str,
    is_free: &'static str,
    released: &'static str,
    after_release: &'static str,
    on_conflict: &'static str,
}

impl FileNumbers {
    /// Returns the columns that only this statement needs.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::LeaveOut => &[],
            Self::TakeOver => &["window_opens_at"],
        }
    }

    fn parts(self) -> Parts {
        match self {
            Self::LeaveOut => Parts {
                holder: "",
                lookup: "",
                is_free: "(SELECT id FROM orders WHERE file_number = c.file_number \
                    AND is_test = $1 AND holds_file_number LIMIT 1) IS NULL",
                released: "",
                after_release: "",
                on_conflict: "",
            },
            Self::TakeOver => Parts {
                holder: ", h.id AS holder",
                lookup: " LEFT JOIN LATERAL (SELECT id, created_at FROM orders \
                    WHERE file_number = c.file_number AND is_test = $1 AND holds_file_number \
                    LIMIT 1) AS h ON true",
                is_free: "(h.created_at <= c.window_opens_at) IS NOT FALSE",
                released: ", held AS (\
                        SELECT id FROM orders \
                        WHERE id = ANY (ARRAY(SELECT holder FROM candidates \
                            WHERE holder IS NOT NULL)) \
                        ORDER BY file_number FOR NO KEY UPDATE\
                    ), released AS (\
                        UPDATE orders SET holds_file_number = false \
                        WHERE id = ANY (ARRAY(SELECT id FROM held)) AND holds_file_number \
                        RETURNING id\
                    )",
                after_release: " AND (SELECT count(*) FROM released) >= 0",
                on_conflict: " ON CONFLICT (file_number, is_test) WHERE holds_file_number DO NOTHING",
            },
        }
    }
}

/// Returns a list of parameters.
fn parameters(first: usize, count: usize) -> String {
    let parameters: Vec<_> = (first..first + count).map(|number| format!("${number}")).collect();
    parameters.join(", ")
}

/// Returns the step for documents.
fn stored(parameters: &str) -> String {
    format!(
        ", stored AS (\
            INSERT INTO documents (order_id, position, key, name, name_as_sent, media_type, size, \
                sha256) \
            SELECT created.id, position, key, name, name_as_sent, media_type, size, sha256 \
            FROM unnest({parameters}) AS document \
                (file_number, position, key, name, name_as_sent, media_type, size, sha256) \
            JOIN created USING (file_number) ORDER BY key COLLATE \"C\"\
        )"
    )
}

/// The parts for idempotency keys: columns, condition, and step.
const KEYS: (&str, &str, &str) = (
    ", key_client, digest, token, fingerprint, kept_until",
    " AND (SELECT idempotency_key_in_use(k, c.token, c.created_at) FROM idempotency_keys AS k \
        WHERE k.client_id = c.key_client AND k.digest = c.digest) IS NOT TRUE",
    ", remembered AS (\
        INSERT INTO idempotency_keys (client_id, digest, token, fingerprint, order_id, taken_at, \
            kept_until) \
        SELECT key_client, digest, token, fingerprint, created.id, created.created_at, kept_until \
        FROM candidates JOIN created USING (file_number) WHERE key_client IS NOT NULL \
        ORDER BY key_client, digest ON CONFLICT (client_id, digest) DO UPDATE \
        SET token = excluded.token, fingerprint = excluded.fingerprint, \
            order_id = excluded.order_id, first_document = NULL, documents = NULL, \
            taken_at = excluded.taken_at, kept_until = excluded.kept_until\
    )",
);

/// An order that was created.
#[derive(QueryableByName)]
#[diesel(table_name = orders)]
pub(crate) struct Created {
    pub(crate) id: i64,
    pub(crate) file_number: String,
}

/// Runs the statement for a batch, either all test orders or none.
pub(crate) async fn insert_orders(
    connection: &mut AsyncPgConnection,
    batch: &[&PendingOrder],
    file_numbers: FileNumbers,
) -> QueryResult<Vec<Created>> {
    let orders: Vec<&OrderRow> = batch.iter().map(|order| &order.row).collect();
    let size = if batch.len() == 1 { Size::One } else { Size::Many };
    let has_keys = batch.iter().any(|order| order.idempotent_request.is_some());
    let documents: Vec<_> = batch
        .iter()
        .flat_map(|order| order.documents.iter().map(move |document| (order, document)))
        .collect();
    let sql = text(file_numbers, size, !documents.is_empty(), has_keys);
    let mut statement = Columns(sql_query(sql).into_boxed())
        .value::<Bool, _>(batch.iter().any(|order| order.row.is_test))
        .column::<Text, _>(values(&orders, |order| &*order.file_number))
        .column::<Text, _>(values(&orders, |order| &*order.details))
        .column::<BigInt, _>(values(&orders, |order| order.client_id))
        .column::<BigInt, _>(values(&orders, |order| order.api_key_id))
        .column::<BigInt, _>(values(&orders, |order| order.signing_service_id))
        .column::<Nullable<Instant>, _>(values(&orders, |order| order.starts_at))
        .column::<Nullable<Instant>, _>(values(&orders, |order| order.ends_at))
        .column::<Instant, _>(values(&orders, |order| order.created_at));
    if file_numbers == FileNumbers::TakeOver {
        statement = statement.column::<Instant, _>(values(batch, |order| order.window_opens_at));
    }
    if !documents.is_empty() {
        statement = statement
            .value::<Array<Text>, _>(values(&documents, |(order, _)| &*order.row.file_number))
            .value::<Array<Integer>, _>(values(&documents, |(_, document)| document.position))
            .value::<Array<Text>, _>(values(&documents, |(_, document)| &*document.key))
            .value::<Array<Text>, _>(values(&documents, |(_, document)| &*document.name))
            .value::<Array<Text>, _>(values(&documents, |(_, document)| &*document.name_as_sent))
            .value::<Array<Text>, _>(values(&documents, |(_, document)| &*document.media_type))
            .value::<Array<BigInt>, _>(values(&documents, |(_, document)| document.size))
            .value::<Array<Binary>, _>(values(&documents, |(_, document)| &*document.sha256));
    }
    if has_keys {
        let requests: Vec<_> = values(batch, |order| order.idempotent_request.as_ref());
        let attempts = values(&requests, |request| request.map(|request| &request.attempt));
        statement = statement
            .column::<Nullable<BigInt>, _>(values(&attempts, |a| a.map(|a| a.claim.key.client.0)))
            .column::<Nullable<Binary>, _>(values(&attempts, |a| {
                a.map(|a| &a.claim.key.digest[..])
            }))
            .column::<Nullable<Binary>, _>(values(&attempts, |a| a.map(|a| &a.claim.token.0[..])))
            .column::<Nullable<Binary>, _>(values(&attempts, |a| a.map(|a| &a.fingerprint.0[..])))
            .column::<Nullable<Instant>, _>(values(&requests, |request| {
                request.map(|request| Utc(request.kept_until))
            }));
    }
    // Reads to the end: the rows arrive before the commit, and an error of the commit after them.
    Prepared(statement.0).get_results(connection).await
}

/// A statement whose parameters are columns of rows.
struct Columns<'v>(BoxedSqlQuery<'v, Pg, SqlQuery>);

impl<'v> Columns<'v> {
    /// Binds one value for all rows.
    fn value<T: Send + 'static, V>(self, value: V) -> Self
    where
        Pg: HasSqlType<T>,
        V: ToSql<T, Pg> + Send + 'v,
    {
        Self(self.0.bind::<T, V>(value))
    }

    /// Binds the values of the rows: an array, or of a single row its value.
    fn column<T: Send + 'static, V>(self, values: Vec<V>) -> Self
    where
        Pg: HasSqlType<T> + HasSqlType<Array<T>>,
        V: ToSql<T, Pg> + Send + 'v,
        Vec<V>: ToSql<Array<T>, Pg>,
    {
        match <[V; 1]>::try_from(values) {
            Ok([value]) => self.value::<T, V>(value),
            Err(values) => self.value::<Array<T>, Vec<V>>(values),
        }
    }
}

fn values<'r, R, T>(rows: &'r [R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}
