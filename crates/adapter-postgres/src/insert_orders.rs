//! The statement that creates the orders of a batch.

use diesel::{
    pg::Pg,
    query_builder::{AstPass, Query, QueryFragment, QueryId},
    result::QueryResult,
    serialize::ToSql,
    sql_types::{
        Array, BigInt, Binary, Bool, HasSqlType, Integer, Nullable, SqlType, Text, Timestamptz,
    },
};
use domain::{
    delivery::NewDelivery,
    document::StoredDocument,
    duplicate_window::DuplicateWindow,
    idempotency::{IdempotencyKey, IdempotentRequest},
    order::{OrderStatus, record::OrderRecord},
    ports::NewOrder,
};
use time::OffsetDateTime;

use crate::failure::Failure;

/// An order to create.
pub(crate) struct PendingOrder {
    record: OrderRecord,
    client_id: i64,
    api_key_id: i64,
    documents: Vec<StoredDocument>,
    deliveries: Vec<NewDelivery>,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) is_test: bool,
    pub(crate) idempotent_request: Option<IdempotentRequest>,
    pub(crate) window: DuplicateWindow,
}

impl PendingOrder {
    pub(crate) fn new(new: &NewOrder, window: DuplicateWindow) -> Result<Self, Failure> {
        Ok(Self {
            record: OrderRecord::of(&new.order)
                .map_err(|error| Failure::Unstorable(error.into()))?,
            client_id: new.client.0,
            api_key_id: new.api_key.0,
            documents: new.documents.clone(),
            deliveries: new.deliveries.clone(),
            created_at: new.created_at,
            is_test: new.is_test,
            idempotent_request: new.idempotent_request.clone(),
            window,
        })
    }

    pub(crate) fn file_number(&self) -> &str {
        &self.record.file_number
    }

    pub(crate) fn key(&self) -> Option<&IdempotencyKey> {
        self.idempotent_request
            .as_ref()
            .map(|idempotent_request| &idempotent_request.attempt.claim.key)
    }
}

/// Creates the orders of a batch, all in one statement and so in one transaction:
///
/// 1. `candidates`: leaves out duplicates and orders whose idempotency key is in use. It takes no
///    lock, so that another system that updates an order delays no other order.
/// 2. `held`, `released`: takes the file numbers from orders that the window no longer covers.
/// 3. `created`: inserts the orders whose file number is free, and returns them.
/// 4. Inserts their documents and deliveries, and remembers their requests.
///
/// Each step locks rows in the order of their keys, so that batches never deadlock. Step 3 counts
/// the rows of step 2 to run after it.
pub(crate) struct InsertOrders<'a> {
    is_test: bool,
    status: OrderStatus,
    orders: Orders<'a>,
    documents: Documents<'a>,
    deliveries: Deliveries<'a>,
    requests: Option<Requests<'a>>,
}

impl<'a> InsertOrders<'a> {
    /// Returns the statement for a batch, either all test orders or none.
    pub(crate) fn of(
        batch: impl Iterator<Item = &'a PendingOrder> + Clone,
    ) -> Result<Self, Failure> {
        let first = batch.clone().next();
        Ok(Self {
            is_test: first.is_some_and(|order| order.is_test),
            status: OrderStatus::NEW,
            orders: Orders::of(batch.clone()),
            documents: Documents::of(batch.clone())?,
            deliveries: Deliveries::of(batch.clone()),
            requests: Requests::of(batch),
        })
    }
}

impl QueryId for InsertOrders<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for InsertOrders<'_> {
    type SqlType = (BigInt, Text);
}

impl QueryFragment<Pg> for InsertOrders<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH candidates AS (SELECT c.*, h.id AS holder FROM unnest(");
        self.orders.bind(&mut out)?;
        match &self.requests {
            None => out.push_sql(ORDER_COLUMNS),
            Some(requests) => requests.bind(&mut out)?,
        }
        // LIMIT keeps the planner from a join: one index lookup per order, in every plan.
        out.push_sql(
            " LEFT JOIN LATERAL (SELECT id, created_at FROM orders \
            WHERE file_number = c.file_number AND is_test = ",
        );
        out.push_bind_param::<Bool, _>(&self.is_test)?;
        out.push_sql(
            " AND holds_file_number LIMIT 1) AS h ON true \
            WHERE (h.created_at <= c.window_opens_at) IS NOT FALSE",
        );
        if self.requests.is_some() {
            out.push_sql(KEY_IS_FREE);
        }
        out.push_sql(
            " ORDER BY c.file_number COLLATE \"C\"), \
            held AS (SELECT id FROM orders WHERE id = ANY (ARRAY(SELECT holder FROM candidates \
            WHERE holder IS NOT NULL)) ORDER BY file_number FOR NO KEY UPDATE), \
            released AS (UPDATE orders SET holds_file_number = false \
            WHERE id = ANY (ARRAY(SELECT id FROM held)) AND holds_file_number RETURNING id), \
            created AS (INSERT INTO orders (client_id, api_key_id, signing_service_id, starts_at, \
            ends_at, created_at, updated_at, is_test, holds_file_number, file_number, status, \
            details) SELECT client_id, api_key_id, signing_service_id, starts_at, ends_at, \
            created_at, created_at, ",
        );
        out.push_bind_param::<Bool, _>(&self.is_test)?;
        out.push_sql(", true, file_number, ");
        out.push_bind_param::<Text, _>(self.status.as_str())?;
        out.push_sql(
            ", details::jsonb FROM candidates WHERE (SELECT count(*) FROM released) >= 0 \
            ON CONFLICT (file_number, is_test) WHERE holds_file_number DO NOTHING \
            RETURNING id, file_number)",
        );
        self.documents.insert(out.reborrow())?;
        self.deliveries.insert(out.reborrow())?;
        if self.requests.is_some() {
            out.push_sql(REMEMBER);
        }
        out.push_sql(" SELECT id, file_number FROM created");
        Ok(())
    }
}

/// Pushes arrays, each after a comma.
fn arrays<'b, S, T>(
    out: &mut AstPass<'_, 'b, Pg>,
    columns: impl IntoIterator<Item = &'b Vec<T>>,
) -> QueryResult<()>
where
    S: SqlType,
    T: 'b,
    Vec<T>: ToSql<Array<S>, Pg>,
    Pg: HasSqlType<Array<S>>,
{
    for column in columns {
        out.push_sql(", ");
        out.push_bind_param::<Array<S>, _>(column)?;
    }
    Ok(())
}

/// The orders of a batch, column by column.
#[derive(Default)]
struct Orders<'a> {
    file_numbers: Vec<&'a str>,
    details: Vec<&'a str>,
    client_ids: Vec<i64>,
    api_key_ids: Vec<i64>,
    signing_service_ids: Vec<i64>,
    starts_at: Vec<Option<OffsetDateTime>>,
    ends_at: Vec<Option<OffsetDateTime>>,
    created_at: Vec<OffsetDateTime>,
    window_opens_at: Vec<OffsetDateTime>,
}

/// The columns of [`Orders`].
const ORDER_COLUMNS: &str = ") AS c (file_number, details, client_id, api_key_id, \
    signing_service_id, starts_at, ends_at, created_at, window_opens_at)";

impl<'a> Orders<'a> {
    fn of(batch: impl Iterator<Item = &'a PendingOrder>) -> Self {
        let mut orders = Self::default();
        for order in batch {
            let record = &order.record;
            orders.file_numbers.push(&record.file_number);
            orders.details.push(&record.details);
            orders.client_ids.push(order.client_id);
            orders.api_key_ids.push(order.api_key_id);
            orders.signing_service_ids.push(record.signing_service_id);
            orders.starts_at.push(record.starts_at);
            orders.ends_at.push(record.ends_at);
            orders.created_at.push(order.created_at);
            orders.window_opens_at.push(order.window.opens_at(order.created_at));
        }
        orders
    }

    fn bind<'b>(&'b self, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_bind_param::<Array<Text>, _>(&self.file_numbers)?;
        arrays::<Text, _>(out, [&self.details])?;
        arrays::<BigInt, _>(out, [&self.client_ids, &self.api_key_ids, &self.signing_service_ids])?;
        arrays::<Nullable<Timestamptz>, _>(out, [&self.starts_at, &self.ends_at])?;
        arrays::<Timestamptz, _>(out, [&self.created_at, &self.window_opens_at])
    }
}

/// The idempotency keys of a batch, column by column: one row for each order, of NULL if the
/// request has no key.
#[derive(Default)]
struct Requests<'a> {
    clients: Vec<Option<i64>>,
    digests: Vec<Option<&'a [u8]>>,
    tokens: Vec<Option<&'a [u8]>>,
    fingerprints: Vec<Option<&'a [u8]>>,
    kept_until: Vec<Option<OffsetDateTime>>,
}

/// Remembers the requests of the orders that were created. Where a concurrent request has
/// remembered its order under the same key, a trigger rejects the whole statement.
const REMEMBER: &str = ", remembered AS (INSERT INTO idempotency_keys \
    (client_id, digest, token, fingerprint, order_id, taken_at, kept_until) \
    SELECT key_client, digest, token, fingerprint, id, created_at, kept_until \
    FROM candidates JOIN created USING (file_number) WHERE key_client IS NOT NULL \
    ORDER BY key_client, digest ON CONFLICT (client_id, digest) DO UPDATE \
    SET token = excluded.token, fingerprint = excluded.fingerprint, \
    order_id = excluded.order_id, taken_at = excluded.taken_at, kept_until = excluded.kept_until)";

/// The condition of an order with an idempotency key. A scalar subquery looks each key up in the
/// primary key.
const KEY_IS_FREE: &str = " AND (SELECT idempotency_key_in_use(k, c.token, c.created_at) \
    FROM idempotency_keys AS k WHERE k.client_id = c.key_client AND k.digest = c.digest) \
    IS NOT TRUE";

impl<'a> Requests<'a> {
    /// Returns nothing if no request of the batch has a key.
    fn of(batch: impl Iterator<Item = &'a PendingOrder> + Clone) -> Option<Self> {
        batch.clone().find(|order| order.idempotent_request.is_some())?;
        let mut requests = Self::default();
        for order in batch {
            let idempotent_request = order.idempotent_request.as_ref();
            let attempt = idempotent_request.map(|idempotent_request| &idempotent_request.attempt);
            requests.clients.push(attempt.map(|attempt| attempt.claim.key.client.0));
            requests.digests.push(attempt.map(|attempt| &attempt.claim.key.digest[..]));
            requests.tokens.push(attempt.map(|attempt| &attempt.claim.token.0[..]));
            requests.fingerprints.push(attempt.map(|attempt| &attempt.fingerprint.0[..]));
            requests
                .kept_until
                .push(idempotent_request.map(|idempotent_request| idempotent_request.kept_until));
        }
        Some(requests)
    }

    /// Ends the list of orders.
    fn bind<'b>(&'b self, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        arrays::<Nullable<BigInt>, _>(out, [&self.clients])?;
        arrays::<Nullable<Binary>, _>(out, [&self.digests, &self.tokens, &self.fingerprints])?;
        arrays::<Nullable<Timestamptz>, _>(out, [&self.kept_until])?;
        out.push_sql(ORDER_COLUMNS.trim_end_matches(')'));
        out.push_sql(", key_client, digest, token, fingerprint, kept_until)");
        Ok(())
    }
}

/// The documents of a batch, column by column.
#[derive(Default)]
struct Documents<'a> {
    file_numbers: Vec<&'a str>,
    positions: Vec<i32>,
    keys: Vec<&'a str>,
    names: Vec<&'a str>,
    names_as_sent: Vec<&'a str>,
    media_types: Vec<&'a str>,
    sizes: Vec<i64>,
    digests: Vec<&'a [u8]>,
}

impl<'a> Documents<'a> {
    fn of(batch: impl Iterator<Item = &'a PendingOrder>) -> Result<Self, Failure> {
        let mut documents = Self::default();
        for order in batch {
            for (position, document) in (0..).zip(&order.documents) {
                let size = i64::try_from(document.size)
                    .map_err(|error| Failure::Unstorable(error.into()))?;
                documents.file_numbers.push(order.file_number());
                documents.positions.push(position);
                documents.keys.push(document.key.as_str());
                documents.names.push(&document.name);
                documents.names_as_sent.push(&document.name_as_sent);
                documents.media_types.push(&document.media_type);
                documents.sizes.push(size);
                documents.digests.push(&document.sha256.0);
            }
        }
        Ok(documents)
    }

    /// Adopts the uploads in the order of their keys, in which other calls lock them.
    fn insert<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        if self.file_numbers.is_empty() {
            return Ok(());
        }
        out.push_sql(
            ", stored AS (INSERT INTO documents (order_id, position, key, name, name_as_sent, \
            media_type, size, sha256) SELECT created.id, position, key, name, name_as_sent, \
            media_type, size, sha256 FROM unnest(",
        );
        out.push_bind_param::<Array<Text>, _>(&self.file_numbers)?;
        arrays::<Integer, _>(&mut out, [&self.positions])?;
        arrays::<Text, _>(
            &mut out,
            [&self.keys, &self.names, &self.names_as_sent, &self.media_types],
        )?;
        arrays::<BigInt, _>(&mut out, [&self.sizes])?;
        arrays::<Binary, _>(&mut out, [&self.digests])?;
        out.push_sql(
            ") AS document (file_number, position, key, name, name_as_sent, media_type, size, \
            sha256) JOIN created USING (file_number) ORDER BY key COLLATE \"C\")",
        );
        Ok(())
    }
}

/// The deliveries of a batch, column by column; each is due when its order is created.
#[derive(Default)]
struct Deliveries<'a> {
    file_numbers: Vec<&'a str>,
    message_keys: Vec<&'a str>,
    recipients: Vec<&'a str>,
    created_at: Vec<OffsetDateTime>,
}

impl<'a> Deliveries<'a> {
    fn of(batch: impl Iterator<Item = &'a PendingOrder>) -> Self {
        let mut deliveries = Self::default();
        for order in batch {
            for delivery in &order.deliveries {
                deliveries.file_numbers.push(order.file_number());
                deliveries.message_keys.push(&delivery.message_key);
                deliveries.recipients.push(delivery.recipient.as_str());
                deliveries.created_at.push(order.created_at);
            }
        }
        deliveries
    }

    /// Gives identifiers in the order of the batch: deliveries due at one instant are leased by
    /// identifier.
    fn insert<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        if self.file_numbers.is_empty() {
            return Ok(());
        }
        out.push_sql(
            ", enqueued AS (INSERT INTO deliveries (order_id, message_key, recipient, created_at, \
            due_at) SELECT created.id, message_key, recipient, at, at FROM unnest(",
        );
        out.push_bind_param::<Array<Text>, _>(&self.file_numbers)?;
        arrays::<Text, _>(&mut out, [&self.message_keys, &self.recipients])?;
        arrays::<Timestamptz, _>(&mut out, [&self.created_at])?;
        out.push_sql(
            ") WITH ORDINALITY AS delivery (file_number, message_key, recipient, at, number) \
            JOIN created USING (file_number) ORDER BY number)",
        );
        Ok(())
    }
}
