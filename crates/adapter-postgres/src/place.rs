//! The statement that places an order.

use diesel::{
    pg::Pg,
    query_builder::{AstPass, Query, QueryFragment, QueryId},
    result::QueryResult,
    sql_types::{Array, BigInt, Binary, Text, Timestamptz},
};
use domain::{document::StoredDocument, follow_up::NewFollowUp};
use time::OffsetDateTime;

use crate::failure::Failure;

/// Claims a file number by `claim`, and if it got it, keeps `order`, which selects from what was `claimed`, with its
/// documents and follow-ups. Answers the order's identifier; no row if the file number is taken.
pub(crate) struct Place<C, O> {
    pub(crate) claim: C,
    pub(crate) order: O,
    pub(crate) documents: NewDocuments,
    pub(crate) follow_ups: NewFollowUps,
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

impl<C, O> QueryId for Place<C, O> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C, O> Query for Place<C, O> {
    type SqlType = BigInt;
}

impl<C: QueryFragment<Pg>, O: QueryFragment<Pg>> QueryFragment<Pg> for Place<C, O> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH claimed AS (");
        self.claim.walk_ast(out.reborrow())?;
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
        out.push_sql(") WITH ORDINALITY AS f (message_key, recipient, position) ORDER BY f.position) SELECT id FROM placed");
        Ok(())
    }
}
