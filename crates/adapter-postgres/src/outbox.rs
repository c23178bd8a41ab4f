//! Events, and the deliveries that follow them.

use async_trait::async_trait;
use diesel::{
    prelude::*,
    sql_query,
    sql_types::{Array, BigInt, Text, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::ports::{Dispatch, Event, EventId, Outbox, StoreError};
use futures_util::FutureExt as _;
use sql_rows::{EVENT_TYPES, EventRow, Utc, row_limit, schema::events};
use time::OffsetDateTime;

use crate::{
    PostgresStore,
    failure::Failure,
    statement::{DURABLE, Prepared},
};

#[async_trait]
impl Outbox for PostgresStore {
    async fn events(&self, now: OffsetDateTime, limit: usize) -> Result<Vec<Event>, StoreError> {
        Ok(self.pool.run(move |connection| events(connection, now, limit).boxed()).await?)
    }

    async fn dispatch(&self, dispatches: &[Dispatch]) -> Result<usize, StoreError> {
        let dispatches = dispatches.to_vec();
        Ok(self.pool.run(move |connection| dispatch(connection, dispatches).boxed()).await?)
    }

    async fn put_off(&self, events: &[EventId], until: OffsetDateTime) -> Result<(), StoreError> {
        let ids: Vec<i64> = events.iter().map(|event| event.0).collect();
        Ok(self.pool.run(move |connection| put_off(connection, ids, until).boxed()).await?)
    }
}

async fn events(
    connection: &mut AsyncPgConnection,
    now: OffsetDateTime,
    limit: usize,
) -> Result<Vec<Event>, Failure> {
    let oldest = events::table
        .filter(events::kind.eq_any(EVENT_TYPES))
        .filter(events::retry_at.is_null().or(events::retry_at.le(Utc(now))))
        .order(events::id)
        .limit(row_limit(limit))
        .select(EventRow::as_select());
    let rows: Vec<EventRow> = Prepared(oldest).load(connection).await?;
    Ok(rows.into_iter().map(EventRow::into_event).collect::<Result<_, _>>()?)
}

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

#[derive(QueryableByName)]
#[diesel(table_name = events)]
struct DispatchedRow {
    #[expect(dead_code, reason = "the rows are counted")]
    id: i64,
}

async fn dispatch(
    connection: &mut AsyncPgConnection,
    dispatches: Vec<Dispatch>,
) -> Result<usize, Failure> {
    let ids: Vec<i64> = dispatches.iter().map(|dispatch| dispatch.event.0).collect();
    let (mut events, mut keys, mut recipients) = (Vec::new(), Vec::new(), Vec::new());
    let mut webhooks = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for dispatch in &dispatches {
        for mail in &dispatch.mails {
            events.push(dispatch.event.0);
            keys.push(&*mail.message_key);
            recipients.push(mail.recipient.as_str());
        }
        for webhook in &dispatch.webhooks {
            webhooks.0.push(dispatch.event.0);
            webhooks.1.push(webhook.endpoint.0);
            webhooks.2.push(webhook.event.as_str());
            webhooks.3.push(&*webhook.message_key);
        }
    }
    let dispatch = sql_query(dispatch_statement())
        .bind::<Array<BigInt>, _>(ids)
        .bind::<Array<BigInt>, _>(events)
        .bind::<Array<Text>, _>(keys)
        .bind::<Array<Text>, _>(recipients)
        .bind::<Array<BigInt>, _>(webhooks.0)
        .bind::<Array<BigInt>, _>(webhooks.1)
        .bind::<Array<Text>, _>(webhooks.2)
        .bind::<Array<Text>, _>(webhooks.3);
    let rows: Vec<DispatchedRow> = Prepared(dispatch).get_results(connection).await?;
    Ok(rows.len())
}

/// Skips events that another worker dispatches.
const PUT_OFF: &str = "UPDATE events SET retry_at = $2 WHERE id = ANY (ARRAY(\
    SELECT id FROM events WHERE id = ANY ($1) ORDER BY id FOR UPDATE SKIP LOCKED))";

async fn put_off(
    connection: &mut AsyncPgConnection,
    ids: Vec<i64>,
    until: OffsetDateTime,
) -> Result<(), Failure> {
    let put_off = sql_query(PUT_OFF).bind::<Array<BigInt>, _>(ids).bind::<Timestamptz, _>(until);
    Prepared(put_off).execute(connection).await?;
    Ok(())
}
