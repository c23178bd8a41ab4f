//! Events, and the deliveries that follow them.

use async_trait::async_trait;
use diesel::prelude::*;
use domain::ports::{Dispatch, Event, EventId, Outbox, StoreError};
use sql_rows::{EventRow, Utc, due_events, row_limit, schema::events};
use time::OffsetDateTime;

use crate::{deliveries::dispatch::dispatch, dialect::Store};

#[async_trait]
impl Outbox for Store {
    async fn events(&self, now: OffsetDateTime, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.select(due_events(now).limit(row_limit(limit)), EventRow::into_event).await
    }

    async fn dispatch(&self, dispatches: &[Dispatch]) -> Result<usize, StoreError> {
        dispatch(self, dispatches).await
    }

    async fn put_off(&self, events: &[EventId], until: OffsetDateTime) -> Result<(), StoreError> {
        let ids: Vec<i64> = events.iter().map(|event| event.0).collect();
        let put_off = diesel::update(events::table.filter(events::id.eq_any(ids)));
        self.execute(put_off.set(events::retry_at.eq(Utc(until)))).await.map(drop)
    }
}
