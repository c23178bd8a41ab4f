//! Events, and the deliveries that follow them.

use std::collections::HashMap;

use async_trait::async_trait;
use diesel::{prelude::*, sql_query, sql_types::Text, sqlite::SqliteConnection};
use domain::ports::{Dispatch, Event, EventId, Outbox, StoreError};
use serde_json::json;
use sql_rows::{
    Prepared, Utc,
    deliveries::{DeliveryRow, Dispatched, WaitingMail, waiting_mails},
    events::{EventRow, UNREADABLE_EVENT_DELAY, due_events, readable_events},
    pieces, row_limit,
    schema::{deliveries, events, webhook_deliveries},
};
use time::OffsetDateTime;

use crate::{failure::Failure, store::SqliteStore, webhooks::wake};

#[async_trait]
impl Outbox for SqliteStore {
    async fn events(&self, now: OffsetDateTime, limit: usize) -> Result<Vec<Event>, StoreError> {
        let due = due_events(now).limit(row_limit(limit));
        let (events, unreadable) = readable_events(self.select(due, Ok::<EventRow, _>).await?);
        if !unreadable.is_empty() {
            // Otherwise, many of them would hold up the others.
            let unreadable: Vec<_> = unreadable.into_iter().map(EventId).collect();
            self.put_off(&unreadable, now.saturating_add(UNREADABLE_EVENT_DELAY)).await?;
        }
        Ok(events)
    }

    async fn dispatch(
        &self,
        dispatches: &[Dispatch],
        now: OffsetDateTime,
    ) -> Result<Vec<EventId>, StoreError> {
        let dispatches = dispatches.to_vec();
        self.transaction(move |connection| dispatch(connection, dispatches, now)).await
    }

    async fn put_off(&self, events: &[EventId], until: OffsetDateTime) -> Result<(), StoreError> {
        let ids: Vec<i64> = events.iter().map(|event| event.0).collect();
        let put_off = diesel::update(events::table.filter(events::id.eq_any(ids)));
        self.execute(put_off.set(events::retry_at.eq(Utc(until)))).await.map(drop)
    }
}

/// Returns the mails of orders that further news join.
fn waiting(connection: &mut SqliteConnection, orders: &[i64]) -> Result<Vec<WaitingMail>, Failure> {
    if orders.is_empty() {
        return Ok(Vec::new());
    }
    let waiting = waiting_mails("IN (SELECT value FROM json_each(?))", "");
    let waiting = Prepared(sql_query(waiting).bind::<Text, _>(json!(orders).to_string()));
    let waiting: Vec<DeliveryRow> = waiting.get_results(connection)?;
    Ok(waiting.into_iter().map(DeliveryRow::into_waiting).collect::<Result<_, _>>()?)
}

/// Turns events into deliveries. Leaves out events that another worker has dispatched.
fn dispatch(
    connection: &mut SqliteConnection,
    dispatches: Vec<Dispatch>,
    now: OffsetDateTime,
) -> Result<Vec<EventId>, Failure> {
    let ids: Vec<i64> = dispatches.iter().map(|one| one.event.0).collect();
    let removed = diesel::delete(events::table.filter(events::id.eq_any(ids)))
        .returning((events::id, (events::order_id, events::created_at)));
    let removed: Vec<(i64, (i64, Utc))> = removed.get_results(connection)?;
    let removed: HashMap<i64, (i64, Utc)> = removed.into_iter().collect();
    let waiting = waiting(connection, &Dispatched::gathering(&dispatches, &removed))?;
    let Dispatched { mails, joined, mut webhooks, endpoints, earliest } =
        Dispatched::of(dispatches, &removed, waiting, now);
    for mails in pieces(mails) {
        diesel::insert_into(deliveries::table).values(mails).execute(connection)?;
    }
    for (id, columns) in joined {
        diesel::update(deliveries::table.find(id)).set(columns).execute(connection)?;
    }
    if let Some(earliest) = earliest {
        // An endpoint may have been removed meanwhile.
        let found = wake(connection, &endpoints, earliest)?;
        webhooks.retain(|webhook| found.contains(&webhook.endpoint_id));
    }
    for webhooks in pieces(webhooks) {
        let added = diesel::insert_into(webhook_deliveries::table).values(webhooks);
        added.execute(connection)?;
    }
    Ok(removed.into_keys().map(EventId).collect())
}
