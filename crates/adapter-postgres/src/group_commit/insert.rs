//! The statement that creates the orders of a batch.

use std::{sync::LazyLock, time::Duration};

use diesel::{
    QueryResult, QueryableByName, sql_query,
    sql_types::{Array, BigInt, Binary, Bool, Integer, Nullable, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{order::OrderStatus, webhook::EventType};
use sql_rows::{
    Instant, Utc,
    orders::{PendingOrder, update::ended},
    party::stored_party,
    schema::orders,
};

use crate::{
    limits::milliseconds,
    statement::{DURABLE, Prepared, column},
};

/// Announces that the transaction will draw larger identifiers than the last one drawn. Two shared
/// locks, which end with the transaction, name the table and the last one. The horizon of pages looks
/// for such pairs. Locks hold for the whole database, in which other schemas have tables of their own.
/// The upper bits keep away from small numbers, which other programs lock.
const ANNOUNCE: &str = "(SELECT pg_advisory_xact_lock_shared(28530, 'orders'::regclass::oid::integer) \
    IS NOT NULL AND pg_advisory_xact_lock_shared((28530::bigint << 48) \
    # coalesce(pg_sequence_last_value('orders_id_seq'), 0)) IS NOT NULL)";

/// The statement creates the orders of a batch, all in one transaction:
///
/// 1. `candidates`: leaves out orders whose file number or idempotency key is in use, or whose client has a newer
///    one than it may have. It takes no
///    lock, so that another system that updates an order delays no other order. Subqueries and
///    `LIMIT` keep the planner from a join: one index lookup per order, in every plan. A file number that version 0.1.0
///    has stored in another form is in use, too.
/// 2. `held`, `allowed`, `released`: takes the file number from an order that the window no longer covers, or that the
///    new one follows. Leaves out an order that follows one that takes changes again: its lock tells. That
///    waits shortly for other systems that update it, so only a batch of one does it.
/// 3. `created`: inserts the orders, and leaves out those whose file number another statement took
///    meanwhile. [`ANNOUNCE`] and [`DURABLE`] run once before the first insert. Counts the rows of
///    step 2, to run after it.
/// 4. `stored`: inserts their documents, which adopts the uploads.
/// 5. `remembered`: remembers their requests. Where a concurrent request has remembered its order
///    under the same key, a trigger rejects the whole statement.
/// 6. `noted`: inserts an event for each order.
///
/// Each step locks rows in the order of their keys, so that batches never deadlock.
static STATEMENT: LazyLock<String> = LazyLock::new(|| {
    let (status, event) = (OrderStatus::NEW.as_str(), EventType::OrderCreated.as_str());
    let ended = ended().join("', '");
    format!(
        "WITH candidates AS (\
            SELECT c.*, h.id AS holder \
            FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
                $25, $26, $29, $30, $31, $32) \
            AS c (file_number, details, client_id, api_key_id, signing_service_id, starts_at, \
                ends_at, created_at, window_opens_at, key_party, digest, token, fingerprint, \
                kept_until, signing_date, search_text, only_after, day_starts_at, person_id, \
                other_number) \
            LEFT JOIN LATERAL (SELECT id, client_id, created_at FROM orders \
                WHERE file_number = c.file_number AND is_test = $1 AND holds_file_number LIMIT 1) \
                AS h ON true \
            LEFT JOIN LATERAL (SELECT id, client_id, created_at FROM orders \
                WHERE file_number = c.other_number AND is_test = $1 AND holds_file_number LIMIT 1) \
                AS other ON true \
            WHERE (h.created_at <= c.window_opens_at OR h.id IS NOT DISTINCT FROM c.only_after) \
                IS NOT FALSE AND ($24 OR h.id IS NULL AND coalesce(c.only_after, 0) = 0) \
            AND (other.created_at <= c.window_opens_at \
                OR other.id IS NOT DISTINCT FROM c.only_after) IS NOT FALSE \
            AND (c.only_after IS NULL \
                OR (h.client_id = c.client_id AND h.id > c.only_after) IS NOT TRUE \
                AND (other.client_id = c.client_id AND other.id > c.only_after) IS NOT TRUE \
                AND (SELECT o.id FROM orders AS o WHERE o.file_number = c.file_number \
                    AND o.client_id = c.client_id AND o.is_test = $1 AND NOT o.holds_file_number \
                    AND o.erased_at IS NULL AND o.id > c.only_after LIMIT 1) IS NULL \
                AND (SELECT o.id FROM orders AS o WHERE o.file_number = c.other_number \
                    AND o.client_id = c.client_id AND o.is_test = $1 AND NOT o.holds_file_number \
                    AND o.erased_at IS NULL AND o.id > c.only_after LIMIT 1) IS NULL) \
            AND (SELECT idempotency_key_in_use(k.kept_until, k.order_id, k.token, c.token, \
                c.created_at) \
                FROM idempotency_keys AS k WHERE k.party = c.key_party \
                AND k.is_test = $1 AND k.digest = c.digest) IS NOT TRUE \
            ORDER BY c.file_number COLLATE \"C\"\
        ), held AS (\
            SELECT id, erased_at IS NOT NULL OR status IN ('{ended}') AS has_ended FROM orders \
            WHERE id = ANY (ARRAY(SELECT unnest(ARRAY[holder, only_after]) FROM candidates \
                WHERE coalesce(holder, only_after, 0) > 0)) \
            AND (SELECT CASE WHEN EXISTS (SELECT FROM candidates \
                    WHERE coalesce(holder, only_after, 0) > 0) \
                THEN set_config('lock_timeout', $27, true) ELSE '' END) IS NOT NULL \
            ORDER BY file_number, id FOR NO KEY UPDATE\
        ), allowed AS (\
            SELECT * FROM candidates WHERE coalesce(only_after, 0) = 0 \
                OR only_after IN (SELECT id FROM held WHERE has_ended)\
        ), released AS (\
            UPDATE orders SET holds_file_number = false \
            WHERE id = ANY (ARRAY(SELECT held.id FROM held JOIN allowed ON holder = held.id)) \
                AND holds_file_number RETURNING id\
        ), created AS (\
            INSERT INTO orders (client_id, api_key_id, signing_service_id, starts_at, ends_at, \
                created_at, updated_at, is_test, holds_file_number, file_number, status, details, \
                signing_date, search_text, day_starts_at, person_id) \
            SELECT client_id, api_key_id, signing_service_id, starts_at, ends_at, created_at, \
                created_at, $1, true, file_number, '{status}', details::json, \
                signing_date, search_text, day_starts_at, person_id \
            FROM allowed \
            WHERE {ANNOUNCE} AND {DURABLE} AND (SELECT count(*) FROM released) >= 0 \
            ON CONFLICT (file_number, is_test) WHERE holds_file_number DO NOTHING \
            RETURNING id, file_number, created_at\
        ), stored AS (\
            INSERT INTO documents (order_id, position, key, name, name_as_sent, media_type, size, \
                sha256, crc32) \
            SELECT created.id, position, key, name, name_as_sent, media_type, size, sha256, crc32 \
            FROM unnest($16, $17, $18, $19, $20, $21, $22, $23, $28) AS document \
                (file_number, position, key, name, name_as_sent, media_type, size, sha256, crc32) \
            JOIN created USING (file_number) ORDER BY key COLLATE \"C\"\
        ), remembered AS (\
            INSERT INTO idempotency_keys (party, is_test, digest, token, fingerprint, order_id, \
                taken_at, kept_until) \
            SELECT key_party, $1, digest, token, fingerprint, created.id, created.created_at, \
                kept_until \
            FROM candidates JOIN created USING (file_number) WHERE key_party IS NOT NULL \
            ORDER BY key_party, digest ON CONFLICT (party, is_test, digest) DO UPDATE \
            SET token = excluded.token, fingerprint = excluded.fingerprint, \
                order_id = excluded.order_id, first_document = NULL, documents = NULL, \
                documents_stored = NULL, \
                taken_at = excluded.taken_at, kept_until = excluded.kept_until\
        ), noted AS (\
            INSERT INTO events (type, order_id, created_at) \
            SELECT '{event}', id, created_at FROM created\
        ) SELECT id, file_number FROM created"
    )
});

/// An order that was created.
#[derive(QueryableByName)]
#[diesel(table_name = orders)]
pub(crate) struct Created {
    pub(crate) id: i64,
    pub(crate) file_number: String,
}

/// Runs the statement for a batch, either all test orders or none. A batch of more than one leaves
/// out the orders whose file number an older order still holds. `lock` limits the wait for that one.
pub(crate) async fn insert_orders(
    connection: &mut AsyncPgConnection,
    batch: &[&PendingOrder],
    lock: Duration,
) -> QueryResult<Vec<Created>> {
    let requests = column(batch, |order| order.idempotent_request.as_ref());
    let attempts = column(&requests, |request| request.map(|request| &request.attempt));
    let documents: Vec<_> = batch
        .iter()
        .flat_map(|order| order.documents.iter().map(|document| (&order.row, document)))
        .collect();
    let statement = sql_query(&*STATEMENT)
        .bind::<Bool, _>(batch.iter().any(|order| order.row.is_test))
        .bind::<Array<Text>, _>(column(batch, |order| &*order.row.file_number))
        .bind::<Array<Text>, _>(column(batch, |order| &*order.row.details))
        .bind::<Array<BigInt>, _>(column(batch, |order| order.row.client_id))
        .bind::<Array<BigInt>, _>(column(batch, |order| order.row.api_key_id))
        .bind::<Array<BigInt>, _>(column(batch, |order| order.row.signing_service_id))
        .bind::<Array<Nullable<Instant>>, _>(column(batch, |order| order.row.starts_at))
        .bind::<Array<Nullable<Instant>>, _>(column(batch, |order| order.row.ends_at))
        .bind::<Array<Instant>, _>(column(batch, |order| order.row.created_at))
        .bind::<Array<Instant>, _>(column(batch, |order| order.window_opens_at))
        .bind::<Array<Nullable<BigInt>>, _>(column(&attempts, |a| {
            a.map(|a| stored_party(a.claim.key.owner.party))
        }))
        .bind::<Array<Nullable<Binary>>, _>(column(&attempts, |a| {
            a.map(|a| &a.claim.key.digest[..])
        }))
        .bind::<Array<Nullable<Binary>>, _>(column(&attempts, |a| a.map(|a| &a.claim.token.0[..])))
        .bind::<Array<Nullable<Binary>>, _>(column(&attempts, |a| a.map(|a| &a.fingerprint.0[..])))
        .bind::<Array<Nullable<Instant>>, _>(column(&requests, |request| {
            request.map(|request| Utc(request.kept_until))
        }))
        .bind::<Array<Text>, _>(column(&documents, |(order, _)| &*order.file_number))
        .bind::<Array<Integer>, _>(column(&documents, |(_, document)| document.position))
        .bind::<Array<Nullable<Text>>, _>(column(&documents, |(_, document)| {
            document.key.as_deref()
        }))
        .bind::<Array<Text>, _>(column(&documents, |(_, document)| &*document.name))
        .bind::<Array<Text>, _>(column(&documents, |(_, document)| &*document.name_as_sent))
        .bind::<Array<Text>, _>(column(&documents, |(_, document)| &*document.media_type))
        .bind::<Array<BigInt>, _>(column(&documents, |(_, document)| document.size))
        .bind::<Array<Binary>, _>(column(&documents, |(_, document)| &*document.sha256))
        .bind::<Bool, _>(batch.len() == 1)
        .bind::<Array<Text>, _>(column(batch, |order| &*order.found_by.signing_date))
        .bind::<Array<Text>, _>(column(batch, |order| &*order.found_by.search_text))
        .bind::<Text, _>(milliseconds(lock))
        .bind::<Array<Nullable<BigInt>>, _>(column(&documents, |(_, document)| document.crc32))
        .bind::<Array<Nullable<BigInt>>, _>(column(batch, |order| order.only_after))
        .bind::<Array<Nullable<Instant>>, _>(column(batch, |order| order.found_by.day_starts_at))
        .bind::<Array<Nullable<BigInt>>, _>(column(batch, |order| order.row.person_id))
        .bind::<Array<Nullable<Text>>, _>(column(batch, |order| order.other_number.as_deref()));
    // Reads to the end: the rows arrive before the commit, and an error of the commit after them.
    Prepared(statement).get_results(connection).await
}
