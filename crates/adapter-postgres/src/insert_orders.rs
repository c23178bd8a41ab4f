//! The statement that places the orders of a batch.

use bigdecimal::BigDecimal;
use diesel::{
    data_types::PgInterval,
    dsl::SqlTypeOf,
    pg::Pg,
    query_builder::{AstPass, Query, QueryFragment, QueryId},
    result::QueryResult,
    serialize::ToSql,
    sql_types::{Array, BigInt, Binary, Integer, Interval, Nullable, SqlType, Text, Timestamptz},
};
use domain::{
    delivery::NewDelivery,
    document::StoredDocument,
    duplicate_window::DuplicateWindow,
    idempotency::{IdempotencyKey, Remembrance},
    ports::NewOrder,
};
use serde_json::Value;
use time::{Date, OffsetDateTime, Time};

use crate::{failure::Failure, rows::OrderRow, schema::orders};

/// An order to be placed.
pub(crate) struct Wanted {
    pub(crate) row: OrderRow,
    documents: Vec<StoredDocument>,
    deliveries: Vec<NewDelivery>,
    pub(crate) remembrance: Option<Remembrance>,
    pub(crate) window: DuplicateWindow,
}

impl Wanted {
    pub(crate) fn new(new: &NewOrder, window: DuplicateWindow) -> Result<Self, Failure> {
        let NewOrder { documents, deliveries, remembrance, .. } = new;
        Ok(Self {
            row: OrderRow::new(new)?,
            documents: documents.clone(),
            deliveries: deliveries.clone(),
            remembrance: remembrance.clone(),
            window,
        })
    }

    pub(crate) fn file_number(&self) -> &str {
        &self.row.file_number
    }

    pub(crate) fn key(&self) -> Option<&IdempotencyKey> {
        self.remembrance.as_ref().map(|remembrance| &remembrance.attempt.claim.key)
    }
}

/// Claims the file numbers of a batch, except where an idempotency key is in use, keeps the orders
/// that got theirs with their documents and follow-ups, and remembers their requests. Answers the
/// identifier and the file number of each order that is placed. Everything or nothing takes place.
///
/// What others may be at is locked table by table and in the order of the keys, so that batches
/// never wait for each other in a circle: the last part, which is read first, is through with the
/// file numbers before the parts that nobody reads begin.
pub(crate) struct InsertOrders<'a> {
    /// Test orders do not take file numbers from others.
    is_test: bool,
    window: PgInterval,
    file_numbers: Vec<&'a str>,
    created_at: Vec<OffsetDateTime>,
    orders: OrderColumns<'a>,
    documents: Documents<'a>,
    deliveries: Deliveries<'a>,
    requests: Requests<'a>,
}

impl<'a> InsertOrders<'a> {
    /// The statement for a batch, all of which go with each other.
    pub(crate) fn of(batch: impl Iterator<Item = &'a Wanted> + Clone) -> Result<Self, Failure> {
        let first = batch.clone().next();
        let window = first.map_or(0, |wanted| wanted.window.0.whole_microseconds());
        Ok(Self {
            is_test: first.is_some_and(|wanted| wanted.row.is_test),
            window: PgInterval::from_microseconds(i64::try_from(window).unwrap_or(i64::MAX)),
            file_numbers: batch.clone().map(Wanted::file_number).collect(),
            created_at: batch.clone().map(|wanted| wanted.row.created_at).collect(),
            orders: OrderColumns::of(batch.clone().map(|wanted| &wanted.row)),
            documents: Documents::of(batch.clone())?,
            deliveries: Deliveries::of(batch.clone()),
            requests: Requests::of(batch),
        })
    }

    fn claim_file_numbers<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("INSERT INTO ");
        out.push_sql(if self.is_test { "test_file_numbers" } else { "file_numbers" });
        out.push_sql(
            " AS known (file_number, created_at) SELECT file_number, created_at FROM unnest(",
        );
        out.push_bind_param::<Array<Text>, _>(&self.file_numbers)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Timestamptz>, _>(&self.created_at)?;
        self.requests.unless_in_use(out.reborrow())?;
        out.push_sql(" ORDER BY file_number COLLATE \"C\" ON CONFLICT (file_number) DO UPDATE SET created_at = excluded.created_at ");
        out.push_sql("WHERE known.created_at <= excluded.created_at - ");
        out.push_bind_param::<Interval, _>(&self.window)?;
        out.push_sql(" RETURNING known.file_number");
        Ok(())
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
        out.push_sql("WITH claimed AS (");
        self.claim_file_numbers(out.reborrow())?;
        out.push_sql("), placed AS (");
        self.orders.insert(out.reborrow())?;
        out.push_sql(")");
        self.documents.insert(out.reborrow())?;
        self.deliveries.insert(out.reborrow())?;
        self.requests.insert(out.reborrow())?;
        out.push_sql(" SELECT id, file_number FROM placed");
        Ok(())
    }
}

/// Pushes one array after another, with commas between them.
fn arrays<'b, S, T>(
    out: &mut AstPass<'_, 'b, Pg>,
    columns: impl IntoIterator<Item = &'b Vec<T>>,
) -> QueryResult<()>
where
    S: SqlType,
    T: 'b,
    Vec<T>: ToSql<Array<S>, Pg>,
    Pg: diesel::sql_types::HasSqlType<Array<S>>,
{
    for (number, column) in columns.into_iter().enumerate() {
        if number > 0 {
            out.push_sql(", ");
        }
        out.push_bind_param::<Array<S>, _>(column)?;
    }
    Ok(())
}

/// The orders of a batch, column by column.
macro_rules! order_columns {
    ($($column:ident: $type:ty,)+) => {
        struct OrderColumns<'a> {
            $($column: Vec<&'a $type>,)+
        }

        impl<'a> OrderColumns<'a> {
            fn of(rows: impl Iterator<Item = &'a OrderRow> + Clone) -> Self {
                Self { $($column: rows.clone().map(|row| &row.$column).collect(),)+ }
            }

            fn insert<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
                let names = [$(stringify!($column)),+].join(", ");
                out.push_sql("INSERT INTO orders (");
                out.push_sql(&names);
                out.push_sql(") SELECT asked.* FROM unnest(");
                let mut first = true;
                $(
                    if !std::mem::take(&mut first) {
                        out.push_sql(", ");
                    }
                    out.push_bind_param::<Array<SqlTypeOf<orders::$column>>, _>(&self.$column)?;
                )+
                out.push_sql(") AS asked (");
                out.push_sql(&names);
                out.push_sql(") WHERE asked.file_number IN (SELECT file_number FROM claimed) RETURNING id, file_number");
                Ok(())
            }
        }
    };
}

crate::rows::with_order_columns!(order_columns);

/// Documents of a batch, column by column.
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
    fn of(batch: impl Iterator<Item = &'a Wanted>) -> Result<Self, Failure> {
        let mut documents = Self::default();
        for wanted in batch {
            for (position, document) in (0..).zip(&wanted.documents) {
                documents.file_numbers.push(wanted.file_number());
                documents.positions.push(position);
                documents.keys.push(document.key.as_str());
                documents.names.push(&document.name);
                documents.names_as_sent.push(&document.name_as_sent);
                documents.media_types.push(&document.media_type);
                documents.sizes.push(
                    i64::try_from(document.size)
                        .map_err(|error| Failure::Unstorable(error.into()))?,
                );
                documents.digests.push(&document.sha256.0);
            }
        }
        Ok(documents)
    }

    fn insert<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Self {
            file_numbers,
            positions,
            keys,
            names,
            names_as_sent,
            media_types,
            sizes,
            digests,
        } = self;
        if file_numbers.is_empty() {
            return Ok(());
        }
        out.push_sql(", kept AS (INSERT INTO documents (order_id, position, key, name, name_as_sent, media_type, size, sha256) ");
        out.push_sql("SELECT placed.id, d.position, d.key, d.name, d.name_as_sent, d.media_type, d.size, d.sha256 FROM unnest(");
        arrays::<Text, _>(&mut out, [file_numbers, keys, names, names_as_sent, media_types])?;
        out.push_sql(", ");
        arrays::<Integer, _>(&mut out, [positions])?;
        out.push_sql(", ");
        arrays::<BigInt, _>(&mut out, [sizes])?;
        out.push_sql(", ");
        arrays::<Binary, _>(&mut out, [digests])?;
        out.push_sql(") AS d (file_number, key, name, name_as_sent, media_type, position, size, sha256) JOIN placed USING (file_number) ");
        // Uploads are taken in the order in which others lock them.
        out.push_sql("ORDER BY d.key COLLATE \"C\")");
        Ok(())
    }
}

/// Follow-ups of a batch, column by column; each is enqueued, and due, when its order is placed.
#[derive(Default)]
struct Deliveries<'a> {
    file_numbers: Vec<&'a str>,
    message_keys: Vec<&'a str>,
    recipients: Vec<&'a str>,
    at: Vec<OffsetDateTime>,
}

impl<'a> Deliveries<'a> {
    fn of(batch: impl Iterator<Item = &'a Wanted>) -> Self {
        let mut deliveries = Self::default();
        for wanted in batch {
            for delivery in &wanted.deliveries {
                deliveries.file_numbers.push(wanted.file_number());
                deliveries.message_keys.push(&delivery.message_key);
                deliveries.recipients.push(delivery.recipient.as_str());
                deliveries.at.push(wanted.row.created_at);
            }
        }
        deliveries
    }

    fn insert<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Self { file_numbers, message_keys, recipients, at } = self;
        if file_numbers.is_empty() {
            return Ok(());
        }
        out.push_sql(", enqueued AS (INSERT INTO deliveries (order_id, message_key, recipient, created_at, due_at) ");
        out.push_sql("SELECT placed.id, f.message_key, f.recipient, f.at, f.at FROM unnest(");
        arrays::<Text, _>(&mut out, [file_numbers, message_keys, recipients])?;
        out.push_sql(", ");
        arrays::<Timestamptz, _>(&mut out, [at])?;
        // Identifiers are given in this order, by which those that are due at one instant are
        // leased.
        out.push_sql(") WITH ORDINALITY AS f (file_number, message_key, recipient, at, position) JOIN placed USING (file_number) ORDER BY f.position)");
        Ok(())
    }
}

/// What is remembered of the requests of a batch, column by column: one row for each order, and
/// nothing in it if the request has no key.
#[derive(Default)]
struct Requests<'a> {
    any: bool,
    file_numbers: Vec<&'a str>,
    clients: Vec<Option<i64>>,
    digests: Vec<Option<&'a [u8]>>,
    tokens: Vec<Option<&'a [u8]>>,
    fingerprints: Vec<Option<&'a [u8]>>,
    kept_until: Vec<Option<OffsetDateTime>>,
    created_at: Vec<OffsetDateTime>,
}

impl<'a> Requests<'a> {
    fn of(batch: impl Iterator<Item = &'a Wanted>) -> Self {
        let mut requests = Self::default();
        for wanted in batch {
            let attempt = wanted.remembrance.as_ref().map(|remembrance| &remembrance.attempt);
            requests.any |= attempt.is_some();
            requests.file_numbers.push(wanted.file_number());
            requests.clients.push(attempt.map(|attempt| attempt.claim.key.client.0));
            requests.digests.push(attempt.map(|attempt| &attempt.claim.key.digest[..]));
            requests.tokens.push(attempt.map(|attempt| &attempt.claim.token.0[..]));
            requests.fingerprints.push(attempt.map(|attempt| &attempt.fingerprint.0[..]));
            requests
                .kept_until
                .push(wanted.remembrance.as_ref().map(|remembrance| remembrance.kept_until));
            requests.created_at.push(wanted.row.created_at);
        }
        requests
    }

    /// Ends the list of what is claimed. The condition is the same as in `idempotency::in_use` and
    /// in the trigger `idempotency_keys_in_use`; as a value it is looked up in the primary key,
    /// whatever a plan is made for.
    fn unless_in_use<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        if !self.any {
            out.push_sql(") AS asked (file_number, created_at)");
            return Ok(());
        }
        out.push_sql(", ");
        arrays::<Nullable<BigInt>, _>(&mut out, [&self.clients])?;
        out.push_sql(", ");
        arrays::<Nullable<Binary>, _>(&mut out, [&self.digests, &self.tokens])?;
        out.push_sql(") AS asked (file_number, created_at, client_id, digest, token) WHERE (SELECT true FROM idempotency_keys AS known_key ");
        out.push_sql("WHERE known_key.client_id = asked.client_id AND known_key.digest = asked.digest AND known_key.kept_until > asked.created_at ");
        out.push_sql("AND (known_key.order_id IS NOT NULL OR known_key.token <> asked.token) LIMIT 1) IS NULL");
        Ok(())
    }

    /// Where another request has come first after all, a trigger refuses, and with it the whole
    /// statement.
    fn insert<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Self {
            any,
            file_numbers,
            clients,
            digests,
            tokens,
            fingerprints,
            kept_until,
            created_at,
        } = self;
        if !any {
            return Ok(());
        }
        out.push_sql(", remembered AS (INSERT INTO idempotency_keys (client_id, digest, token, fingerprint, order_id, taken_at, kept_until) ");
        out.push_sql("SELECT r.client_id, r.digest, r.token, r.fingerprint, placed.id, r.created_at, r.kept_until FROM unnest(");
        arrays::<Text, _>(&mut out, [file_numbers])?;
        out.push_sql(", ");
        arrays::<Nullable<BigInt>, _>(&mut out, [clients])?;
        out.push_sql(", ");
        arrays::<Nullable<Binary>, _>(&mut out, [digests, tokens, fingerprints])?;
        out.push_sql(", ");
        arrays::<Nullable<Timestamptz>, _>(&mut out, [kept_until])?;
        out.push_sql(", ");
        arrays::<Timestamptz, _>(&mut out, [created_at])?;
        out.push_sql(") AS r (file_number, client_id, digest, token, fingerprint, kept_until, created_at) JOIN placed USING (file_number) ");
        out.push_sql("WHERE r.client_id IS NOT NULL ORDER BY r.client_id, r.digest ON CONFLICT (client_id, digest) DO UPDATE ");
        out.push_sql("SET token = excluded.token, fingerprint = excluded.fingerprint, order_id = excluded.order_id, ");
        out.push_sql("taken_at = excluded.taken_at, kept_until = excluded.kept_until)");
        Ok(())
    }
}
