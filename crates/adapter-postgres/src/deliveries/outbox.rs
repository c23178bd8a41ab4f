//! Events, and the deliveries that follow them.

use async_trait::async_trait;
use diesel::{
    prelude::*,
    sql_query,
    sql_types::{Array, BigInt, Text, Timestamptz},
};
use domain::ports::{Dispatch, Event, EventId, Outbox, StoreError};
use sql_rows::{EVENT_TYPES, EventRow, Utc, row_limit, schema::events};
use time::OffsetDateTime;

use crate::{
    PostgresStore,
    statement::{DURABLE, IdRow, column},
};

/// Locks events by identifier, so that two workers never deadlock, and skips those that another
/// worker dispatches. The identifiers of deliveries are in the order of the call: deliveries due at
/// one instant are leased by identifier.
fn dispatch_statement() -> String {
    format!(
        "WITH held AS (\
            SELECT id FROM events WHERE id = ANY ($1) ORDER BY id FOR UPDATE SKIP LOCKED\
        ), dispatched AS (\
            DELETE FROM events WHERE id = ANY (ARRAY(SELECT id FROM held)) \
            RETURNING id, order_id, created_at\
        ), added AS (\
            INSERT INTO deliveries (order_id, message_key, recipient, created_at, due_at) \
            SELECT order_id, message_key, recipient, created_at, created_at \
            FROM unnest($2, $3, $4) WITH ORDINALITY AS delivery \
                (event, message_key, recipient, number) \
            JOIN dispatched ON dispatched.id = event ORDER BY number\
        ), webhooks AS (\
            INSERT INTO webhook_deliveries \
                (order_id, endpoint_id, event, message_key, created_at, due_at) \
            SELECT order_id, endpoint, type, message_key, created_at, created_at \
            FROM unnest($5, $6, $7, $8) WITH ORDINALITY AS delivery \
                (event, endpoint, type, message_key, number) \
            JOIN dispatched ON dispatched.id = event ORDER BY number\
        ) SELECT id FROM dispatched WHERE {DURABLE}"
    )
}

/// Skips events that another worker dispatches.
const PUT_OFF: &str = "UPDATE events SET retry_at = $2 WHERE id = ANY (ARRAY(\
    SELECT id FROM events WHERE id = ANY ($1) ORDER BY id FOR UPDATE SKIP LOCKED))";

#[async_trait]
impl Outbox for PostgresStore {
    async fn events(&self, now: OffsetDateTime, limit: usize) -> Result<Vec<Event>, StoreError> {
        let oldest = events::table
            .filter(events::kind.eq_any(EVENT_TYPES))
            .filter(events::retry_at.is_null().or(events::retry_at.le(Utc(now))))
            .order(events::id)
            .limit(row_limit(limit))
            .select(EventRow::as_select());
        Ok(self.pool.all(oldest, EventRow::into_event).await?)
    }

    async fn dispatch(&self, dispatches: &[Dispatch]) -> Result<usize, StoreError> {
        let ids: Vec<i64> = dispatches.iter().map(|dispatch| dispatch.event.0).collect();
        let mails: Vec<_> = dispatches
            .iter()
            .flat_map(|dispatch| dispatch.mails.iter().map(|mail| (dispatch.event.0, mail)))
            .collect();
        let webhooks: Vec<_> = dispatches
            .iter()
            .flat_map(|dispatch| dispatch.webhooks.iter().map(|hook| (dispatch.event.0, hook)))
            .collect();
        let dispatch = sql_query(dispatch_statement())
            .bind::<Array<BigInt>, _>(ids)
            .bind::<Array<BigInt>, _>(column(&mails, |(event, _)| *event))
            .bind::<Array<Text>, _>(column(&mails, |(_, mail)| &*mail.message_key))
            .bind::<Array<Text>, _>(column(&mails, |(_, mail)| mail.recipient.as_str()))
            .bind::<Array<BigInt>, _>(column(&webhooks, |(event, _)| *event))
            .bind::<Array<BigInt>, _>(column(&webhooks, |(_, webhook)| webhook.endpoint.0))
            .bind::<Array<Text>, _>(column(&webhooks, |(_, webhook)| webhook.event.as_str()))
            .bind::<Array<Text>, _>(column(&webhooks, |(_, webhook)| &*webhook.message_key));
        let removed: Vec<IdRow> = self.pool.rows(dispatch).await?;
        Ok(removed.len())
    }

    async fn put_off(&self, events: &[EventId], until: OffsetDateTime) -> Result<(), StoreError> {
        let put_off = sql_query(PUT_OFF)
            .bind::<Array<BigInt>, _>(column(events, |event| event.0))
            .bind::<Timestamptz, _>(until);
        self.pool.write(put_off).await?;
        Ok(())
    }
}
