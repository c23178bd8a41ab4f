//! Turns events into deliveries.

use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    delivery::Audience,
    ports::{Dispatch, StoreError},
};
use sql_rows::{
    NewWebhookRow, Utc,
    schema::{deliveries, events, webhook_deliveries},
};

use crate::{failure::Failure, ports::webhook_lease, store::SqliteStore};

pub(crate) async fn dispatch(
    store: &SqliteStore,
    dispatches: &[Dispatch],
) -> Result<usize, StoreError> {
    let dispatches = dispatches.to_vec();
    let dispatch = async move |connection: &mut SqliteConnection| {
        let mut count = 0;
        for one in dispatches {
            count += usize::from(dispatch_one(connection, one).await?);
        }
        Ok(count)
    };
    store.transaction(dispatch).await
}

/// Turns an event into its deliveries. Returns `false` if another worker has done that.
async fn dispatch_one(
    connection: &mut SqliteConnection,
    dispatch: Dispatch,
) -> Result<bool, Failure> {
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
            deliveries::subject.eq(mail.subject.as_str()),
            deliveries::to_service.eq(mail.audience == Audience::Service),
            deliveries::created_at.eq(created_at),
            deliveries::due_at.eq(created_at),
        );
        diesel::insert_into(deliveries::table).values(row).execute(connection)?;
    }
    for webhook in dispatch.webhooks {
        webhook_lease::wake(connection, vec![webhook.endpoint.0], created_at).await?;
        let row = NewWebhookRow::new(webhook, Some(order_id), created_at);
        diesel::insert_into(webhook_deliveries::table).values(row).execute(connection)?;
    }
    Ok(true)
}
