//! The statement that turns events into deliveries.

use diesel::{
    sql_query,
    sql_types::{Array, BigInt, Bool, Text},
};
use domain::{
    delivery::Audience,
    ports::{Dispatch, StoreError},
};

use crate::{
    statement::{DURABLE, IdRow, column},
    store::PostgresStore,
};

/// Locks events by identifier, so that two workers never deadlock, and skips those that another
/// worker dispatches. The identifiers of deliveries are in the order of the call: deliveries due at
/// one instant are leased by identifier. Locks all endpoints of the webhooks: a lease that is about
/// to put one off does not see its new delivery.
fn dispatch_statement() -> String {
    format!(
        "WITH held AS (\
            SELECT id FROM events WHERE id = ANY ($1) ORDER BY id FOR UPDATE SKIP LOCKED\
        ), dispatched AS (\
            DELETE FROM events WHERE id = ANY (ARRAY(SELECT id FROM held)) \
            RETURNING id, order_id, created_at, change\
        ), added AS (\
            INSERT INTO deliveries \
                (order_id, message_key, recipient, subject, to_service, created_at, due_at) \
            SELECT order_id, message_key, recipient, subject, to_service, created_at, created_at \
            FROM unnest($2, $3, $4, $5, $6) WITH ORDINALITY AS delivery \
                (event, message_key, recipient, subject, to_service, number) \
            JOIN dispatched ON dispatched.id = event ORDER BY number\
        ), webhooks AS (\
            INSERT INTO webhook_deliveries \
                (order_id, endpoint_id, event, message_key, change, created_at, due_at) \
            SELECT order_id, endpoint, type, message_key, change, created_at, created_at \
            FROM unnest($7, $8, $9, $10) WITH ORDINALITY AS delivery \
                (event, endpoint, type, message_key, number) \
            JOIN dispatched ON dispatched.id = event ORDER BY number \
            RETURNING endpoint_id, created_at\
        ), due AS (\
            SELECT endpoint_id, min(created_at) AS at FROM webhooks GROUP BY endpoint_id\
        ), locked AS (\
            SELECT e.id, e.due_at, due.at FROM webhook_endpoints AS e \
            JOIN due ON due.endpoint_id = e.id ORDER BY e.id FOR UPDATE OF e\
        ), woken AS (\
            UPDATE webhook_endpoints AS e SET due_at = locked.at FROM locked \
            WHERE e.id = locked.id AND (locked.due_at IS NULL OR locked.due_at > locked.at)\
        ) SELECT id FROM dispatched WHERE {DURABLE}"
    )
}

pub(crate) async fn dispatch(
    store: &PostgresStore,
    dispatches: &[Dispatch],
) -> Result<usize, StoreError> {
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
        .bind::<Array<Text>, _>(column(&mails, |(_, mail)| mail.subject.as_str()))
        .bind::<Array<Bool>, _>(column(&mails, |(_, mail)| mail.audience == Audience::Service))
        .bind::<Array<BigInt>, _>(column(&webhooks, |(event, _)| *event))
        .bind::<Array<BigInt>, _>(column(&webhooks, |(_, webhook)| webhook.endpoint.0))
        .bind::<Array<Text>, _>(column(&webhooks, |(_, webhook)| webhook.event.as_str()))
        .bind::<Array<Text>, _>(column(&webhooks, |(_, webhook)| &*webhook.message_key));
    let removed: Vec<IdRow> = store.pool.rows(dispatch).await?;
    Ok(removed.len())
}
