//! The statement that places an order.

use diesel::{
    pg::Pg,
    query_builder::{AstPass, Query, QueryFragment, QueryId},
    result::QueryResult,
    sql_types::{Array, BigInt, Binary, Text, Timestamptz},
};
use domain::{document::StoredDocument, duplicate_window::DuplicateWindow, follow_up::NewFollowUp, idempotency::Remembrance, ports::NewOrder};
use time::OffsetDateTime;

use crate::failure::Failure;

/// Claims a file number, unless the request's idempotency key is in use, and if it got it, keeps `order`, which selects from
/// what was `claimed`, with its documents and follow-ups, and remembers the request. Answers the order's identifier; no row
/// if the file number or the key is taken.
pub(crate) struct Place<O> {
    pub(crate) file_number: FileNumberClaim,
    pub(crate) order: O,
    pub(crate) documents: NewDocuments,
    pub(crate) follow_ups: NewFollowUps,
    pub(crate) remember: Option<Remember>,
}

/// What takes a file number for the window.
pub(crate) struct FileNumberClaim {
    /// Test orders do not take file numbers from others.
    pub(crate) is_test: bool,
    pub(crate) file_number: String,
    pub(crate) placed_at: OffsetDateTime,
    opens_at: OffsetDateTime,
}

impl FileNumberClaim {
    pub(crate) fn new(new: &NewOrder, window: DuplicateWindow) -> Self {
        let opens_at = window.opens_at(new.placed_at);
        Self { is_test: new.is_test, file_number: new.order.file_number.as_str().to_owned(), placed_at: new.placed_at, opens_at }
    }
}

/// What is remembered of the request.
pub(crate) struct Remember {
    client_id: i64,
    digest: Vec<u8>,
    token: Vec<u8>,
    fingerprint: Vec<u8>,
    placed_at: OffsetDateTime,
    kept_until: OffsetDateTime,
}

impl Remember {
    pub(crate) fn new(remembrance: &Remembrance, placed_at: OffsetDateTime) -> Self {
        let Remembrance { attempt, kept_until } = remembrance;
        let (key, token) = (&attempt.claim.key, attempt.claim.token);
        Self {
            client_id: key.client.0,
            digest: key.digest.to_vec(),
            token: token.0.to_vec(),
            fingerprint: attempt.fingerprint.0.to_vec(),
            placed_at,
            kept_until: *kept_until,
        }
    }
}

/// Documents of one order, column by column.
#[derive(Default)]
pub(crate) struct NewDocuments {
    keys: Vec<String>,
    names: Vec<String>,
    names_as_sent: Vec<String>,
    media_types: Vec<String>,
    sizes: Vec<i64>,
    digests: Vec<Vec<u8>>,
}

impl NewDocuments {
    pub(crate) fn new(documents: &[StoredDocument]) -> Result<Self, Failure> {
        let mut new = Self::default();
        for document in documents {
            new.keys.push(document.key.as_str().to_owned());
            new.names.push(document.name.clone());
            new.names_as_sent.push(document.name_as_sent.clone());
            new.media_types.push(document.media_type.clone());
            new.sizes.push(i64::try_from(document.size).map_err(|error| Failure::Unstorable(error.into()))?);
            new.digests.push(document.sha256.0.to_vec());
        }
        Ok(new)
    }
}

/// Follow-ups of one order, column by column; all are enqueued, and due, at one instant.
pub(crate) struct NewFollowUps {
    message_keys: Vec<String>,
    recipients: Vec<String>,
    at: OffsetDateTime,
}

impl NewFollowUps {
    pub(crate) fn new(follow_ups: &[NewFollowUp], at: OffsetDateTime) -> Self {
        let message_keys = follow_ups.iter().map(|follow_up| follow_up.message_key.clone()).collect();
        let recipients = follow_ups.iter().map(|follow_up| follow_up.recipient.as_str().to_owned()).collect();
        Self { message_keys, recipients, at }
    }
}

impl<O> QueryId for Place<O> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<O> Query for Place<O> {
    type SqlType = BigInt;
}

impl<O: QueryFragment<Pg>> QueryFragment<Pg> for Place<O> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH claimed AS (");
        self.claim_file_number(out.reborrow())?;
        out.push_sql("), placed AS (");
        self.order.walk_ast(out.reborrow())?;
        out.push_sql("), kept AS (INSERT INTO documents (order_id, position, key, name, name_as_sent, media_type, size, sha256) ");
        out.push_sql("SELECT placed.id, d.position - 1, d.key, d.name, d.name_as_sent, d.media_type, d.size, d.sha256 FROM placed, unnest(");
        let NewDocuments { keys, names, names_as_sent, media_types, sizes, digests } = &self.documents;
        for texts in [keys, names, names_as_sent, media_types] {
            out.push_bind_param::<Array<Text>, _>(texts)?;
            out.push_sql(", ");
        }
        out.push_bind_param::<Array<BigInt>, _>(sizes)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Binary>, _>(digests)?;
        // Uploads are taken in the order in which others lock them, so that the two never wait for each other.
        out.push_sql(") WITH ORDINALITY AS d (key, name, name_as_sent, media_type, size, sha256, position) ORDER BY d.key COLLATE \"C\"");
        out.push_sql("), enqueued AS (INSERT INTO follow_ups (order_id, message_key, recipient, created_at, due_at) ");
        out.push_sql("SELECT placed.id, f.message_key, f.recipient, ");
        out.push_bind_param::<Timestamptz, _>(&self.follow_ups.at)?;
        out.push_sql(", ");
        out.push_bind_param::<Timestamptz, _>(&self.follow_ups.at)?;
        out.push_sql(" FROM placed, unnest(");
        out.push_bind_param::<Array<Text>, _>(&self.follow_ups.message_keys)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Text>, _>(&self.follow_ups.recipients)?;
        // Identifiers are given in this order, by which those that are due at one instant are leased.
        out.push_sql(") WITH ORDINALITY AS f (message_key, recipient, position) ORDER BY f.position)");
        if let Some(remember) = &self.remember {
            remember.request(out.reborrow())?;
        }
        out.push_sql(" SELECT id FROM placed");
        Ok(())
    }
}

impl<O> Place<O> {
    /// Inserts the file number, or renews it when the window has left its last use behind, or touches nothing.
    fn claim_file_number<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let FileNumberClaim { is_test, file_number, placed_at, opens_at } = &self.file_number;
        out.push_sql("INSERT INTO ");
        out.push_sql(if *is_test { "test_file_numbers" } else { "file_numbers" });
        out.push_sql(" AS known (file_number, placed_at) SELECT ");
        out.push_bind_param::<Text, _>(file_number)?;
        out.push_sql(", ");
        out.push_bind_param::<Timestamptz, _>(placed_at)?;
        if let Some(remember) = &self.remember {
            remember.unless_in_use(out.reborrow())?;
        }
        out.push_sql(" ON CONFLICT (file_number) DO UPDATE SET placed_at = excluded.placed_at WHERE known.placed_at <= ");
        out.push_bind_param::<Timestamptz, _>(opens_at)?;
        out.push_sql(" RETURNING known.file_number");
        Ok(())
    }
}

impl Remember {
    /// The same condition as in `idempotency::in_use` and in the trigger `idempotency_keys_in_use`.
    fn unless_in_use<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(" WHERE NOT EXISTS (SELECT FROM idempotency_keys WHERE client_id = ");
        out.push_bind_param::<BigInt, _>(&self.client_id)?;
        out.push_sql(" AND digest = ");
        out.push_bind_param::<Binary, _>(&self.digest)?;
        out.push_sql(" AND kept_until > ");
        out.push_bind_param::<Timestamptz, _>(&self.placed_at)?;
        out.push_sql(" AND (order_id IS NOT NULL OR token <> ");
        out.push_bind_param::<Binary, _>(&self.token)?;
        out.push_sql("))");
        Ok(())
    }

    /// Where another request has come first after all, a trigger refuses, and with it the whole statement.
    fn request<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(", remembered AS (INSERT INTO idempotency_keys (client_id, digest, token, fingerprint, order_id, taken_at, kept_until) SELECT ");
        out.push_bind_param::<BigInt, _>(&self.client_id)?;
        for bytes in [&self.digest, &self.token, &self.fingerprint] {
            out.push_sql(", ");
            out.push_bind_param::<Binary, _>(bytes)?;
        }
        out.push_sql(", placed.id, ");
        out.push_bind_param::<Timestamptz, _>(&self.placed_at)?;
        out.push_sql(", ");
        out.push_bind_param::<Timestamptz, _>(&self.kept_until)?;
        out.push_sql(" FROM placed ON CONFLICT (client_id, digest) DO UPDATE SET token = excluded.token, fingerprint = excluded.fingerprint, ");
        out.push_sql("order_id = excluded.order_id, taken_at = excluded.taken_at, kept_until = excluded.kept_until)");
        Ok(())
    }
}
