//! Events, and the deliveries that follow them.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::ports::{Dispatch, Event, EventId, Outbox, StoreError};
use sql_rows::{
    EVENT_TYPES, EventRow, Utc, row_limit,
    schema::{deliveries, events, webhook_deliveries},
};
use time::OffsetDateTime;

use crate::{failure::Failure, store::SqliteStore};

#[async_trait]
impl Outbox for SqliteStore {
    async fn events(&self, now: OffsetDateTime, limit: usize) -> Result<Vec<Event>, StoreError> {
        let read = move |connection: &mut SqliteConnection| {
            let rows: Vec<EventRow> = events::table
                .filter(events::kind.eq_any(EVENT_TYPES))
                .filter(events::retry_at.is_null().or(events::retry_at.le(Utc(now))))
                .order(events::id)
                .limit(row_limit(limit))
                .select(EventRow::as_select())
                .load(connection)?;
            Ok(rows.into_iter().map(EventRow::into_event).collect::<Result<_, _>>()?)
        };
        self.read(read).await
    }

    async fn dispatch(&self, dispatches: &[Dispatch]) -> Result<usize, StoreError> {
        let dispatches = dispatches.to_vec();
        let dispatch = move |connection: &mut SqliteConnection| {
            let mut count = 0;
            for one in &dispatches {
                count += usize::from(dispatch(connection, one)?);
            }
            Ok(count)
        };
        self.write(dispatch).await
    }

    async fn put_off(&self, events: &[EventId], until: OffsetDateTime) -> Result<(), StoreError> {
        let ids: Vec<i64> = events.iter().map(|event| event.0).collect();
        let put_off = move |connection: &mut SqliteConnection| {
            diesel::update(events::table.filter(events::id.eq_any(ids)))
                .set(events::retry_at.eq(Utc(until)))
                .execute(connection)?;
            Ok(())
        };
        self.write(put_off).await
    }
}

/// Turns an event into its deliveries. Returns `false` if another worker has done that.
fn dispatch(connection: &mut SqliteConnection, dispatch: &Dispatch) -> Result<bool, Failure> {
    let removed: Option<(i64, Utc)> = diesel::delete(events::table.find(dispatch.event.0))
        .returning((events::order_id, events::created_at))
        .get_result(connection)
        .optional()?;
    let Some((order_id, created_at)) = removed else { return Ok(false) };
    for mail in &dispatch.mails {
        let row = (
            deliveries::order_id.eq(order_id),
            deliveries::message_key.eq(&mail.message_key),
            deliveries::recipient.eq(mail.recipient.as_str()),
            deliveries::created_at.eq(created_at),
            deliveries::due_at.eq(created_at),
        );
        diesel::insert_into(deliveries::table).values(row).execute(connection)?;
    }
    for webhook in &dispatch.webhooks {
        let row = (
            webhook_deliveries::endpoint_id.eq(webhook.endpoint.0),
            webhook_deliveries::order_id.eq(order_id),
            webhook_deliveries::event.eq(webhook.event.as_str()),
            webhook_deliveries::message_key.eq(&webhook.message_key),
            webhook_deliveries::created_at.eq(created_at),
            webhook_deliveries::due_at.eq(created_at),
        );
        diesel::insert_into(webhook_deliveries::table).values(row).execute(connection)?;
    }
    Ok(true)
}
