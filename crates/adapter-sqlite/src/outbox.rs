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
        Ok(self.reader.run(move |connection| events(connection, now, limit)).await?)
    }

    async fn dispatch(&self, dispatches: &[Dispatch]) -> Result<usize, StoreError> {
        let dispatches = dispatches.to_vec();
        Ok(self.writer.run(move |connection| dispatch(connection, &dispatches)).await?)
    }

    async fn put_off(&self, events: &[EventId], until: OffsetDateTime) -> Result<(), StoreError> {
        let ids: Vec<i64> = events.iter().map(|event| event.0).collect();
        Ok(self.writer.run(move |connection| put_off(connection, &ids, until)).await?)
    }
}

fn events(
    connection: &mut SqliteConnection,
    now: OffsetDateTime,
    limit: usize,
) -> Result<Vec<Event>, Failure> {
    let rows: Vec<EventRow> = events::table
        .filter(events::kind.eq_any(EVENT_TYPES))
        .filter(events::retry_at.is_null().or(events::retry_at.le(Utc(now))))
        .order(events::id)
        .limit(row_limit(limit))
        .select(EventRow::as_select())
        .load(connection)?;
    Ok(rows.into_iter().map(EventRow::into_event).collect::<Result<_, _>>()?)
}

fn dispatch(connection: &mut SqliteConnection, dispatches: &[Dispatch]) -> Result<usize, Failure> {
    let mut count = 0;
    for Dispatch { event, mails, webhooks } in dispatches {
        let removed: Option<(i64, Utc)> = diesel::delete(events::table.find(event.0))
            .returning((events::order_id, events::created_at))
            .get_result(connection)
            .optional()?;
        let Some((order_id, created_at)) = removed else { continue };
        for mail in mails {
            let row = (
                deliveries::order_id.eq(order_id),
                deliveries::message_key.eq(&mail.message_key),
                deliveries::recipient.eq(mail.recipient.as_str()),
                deliveries::created_at.eq(created_at),
                deliveries::due_at.eq(created_at),
            );
            diesel::insert_into(deliveries::table).values(row).execute(connection)?;
        }
        for webhook in webhooks {
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
        count += 1;
    }
    Ok(count)
}

fn put_off(
    connection: &mut SqliteConnection,
    ids: &[i64],
    until: OffsetDateTime,
) -> Result<(), Failure> {
    for id in ids {
        diesel::update(events::table.find(id))
            .set(events::retry_at.eq(Utc(until)))
            .execute(connection)?;
    }
    Ok(())
}
