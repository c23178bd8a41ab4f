//! Events, and the deliveries that follow them.

use std::collections::HashMap;

use async_trait::async_trait;
use diesel::prelude::*;
use domain::{
    delivery::Audience,
    ports::{Dispatch, Event, EventId, Outbox, StoreError},
};
use sql_rows::{
    EventRow, NewWebhookRow, Utc, due_events, row_limit,
    schema::{deliveries, events, webhook_deliveries},
};
use time::OffsetDateTime;

use crate::{
    dialect::{self, Connection, RunQueryDsl, Store},
    failure::Failure,
};

#[async_trait]
impl Outbox for Store {
    async fn events(&self, now: OffsetDateTime, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.select(due_events(now).limit(row_limit(limit)), EventRow::into_event).await
    }

    async fn dispatch(
        &self,
        dispatches: &[Dispatch],
        now: OffsetDateTime,
    ) -> Result<Vec<EventId>, StoreError> {
        let dispatches = dispatches.to_vec();
        self.transaction_ported(async move |connection| dispatch(connection, dispatches, now).await)
            .await
    }

    async fn put_off(&self, events: &[EventId], until: OffsetDateTime) -> Result<(), StoreError> {
        let ids: Vec<i64> = events.iter().map(|event| event.0).collect();
        let put_off = diesel::update(events::table.filter(events::id.eq_any(ids)));
        self.execute(put_off.set(events::retry_at.eq(Utc(until)))).await.map(drop)
    }
}

/// Turns events into deliveries. Leaves out events that another worker has dispatched. The identifiers
/// of deliveries are in the order of the call: deliveries due at one instant are leased by identifier.
async fn dispatch(
    connection: &mut Connection,
    dispatches: Vec<Dispatch>,
    now: OffsetDateTime,
) -> Result<Vec<EventId>, Failure> {
    let ids: Vec<i64> = dispatches.iter().map(|one| one.event.0).collect();
    dialect::lock(connection, "events", &ids).await?;
    let removed = diesel::delete(events::table.filter(events::id.eq_any(ids)))
        .returning((events::id, (events::order_id, events::created_at)));
    let removed: Vec<(i64, (i64, Utc))> = removed.get_results(connection).await?;
    let removed: HashMap<i64, (i64, Utc)> = removed.into_iter().collect();
    // A clock that was ahead may have made an event.
    let due = |at: Utc| at.min(Utc(now));
    let (mut mails, mut webhooks, mut endpoints) = (Vec::new(), Vec::new(), Vec::new());
    for one in dispatches {
        let Some(&(order_id, at)) = removed.get(&one.event.0) else { continue };
        let due_at = due(at);
        mails.extend(one.mails.into_iter().map(|mail| {
            (
                deliveries::order_id.eq(order_id),
                deliveries::message_key.eq(mail.message_key),
                deliveries::recipient.eq(mail.recipient.as_str().to_owned()),
                deliveries::subject.eq(mail.subject.as_str()),
                deliveries::to_service.eq(mail.audience == Audience::Service),
                deliveries::created_at.eq(at),
                deliveries::due_at.eq(due_at),
            )
        }));
        for webhook in one.webhooks {
            endpoints.push(webhook.endpoint.0);
            webhooks.push(NewWebhookRow::new(webhook, Some(order_id), at, due_at));
        }
    }
    diesel::insert_into(deliveries::table).values(mails).execute(connection).await?;
    if let Some(earliest) = removed.values().map(|(_, at)| due(*at)).min() {
        // An endpoint may have been removed meanwhile.
        let found = dialect::wake(connection, &endpoints, earliest).await?;
        webhooks.retain(|webhook| found.contains(&webhook.endpoint_id));
    }
    diesel::insert_into(webhook_deliveries::table).values(webhooks).execute(connection).await?;
    Ok(removed.into_keys().map(EventId).collect())
}
