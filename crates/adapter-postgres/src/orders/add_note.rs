//! Adds notes to orders.

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    delivery::MailContent,
    order::Note,
    ports::{NewNote, WriteError},
    webhook::{EventChange, EventType},
};
use sql_rows::{
    KeyRow, NewChangeEventRow, NoteRow, OrderState, Prepared, Utc, is_order_of, next_note,
    schema::{events, order_notes, orders},
};

use crate::{
    accesses::store_access,
    failure::Failure,
    group_commit::key_use::{in_use, remember},
    locks,
};

/// Adds a note in a transaction. The lock of the order makes concurrent additions wait, so that each counts
/// the notes before it. A rejection has changed nothing.
pub(super) async fn add_note(
    connection: &mut AsyncPgConnection,
    new: &NewNote,
) -> Result<Result<Note, WriteError>, Failure> {
    let order_id = new.order_id.0;
    locks::lock(connection, "orders", &[order_id]).await?;
    if let Some(request) = &new.idempotent_request
        && let Some(key_use) = in_use(connection, &request.attempt.claim, Utc(new.at)).await?
    {
        return Ok(Err(WriteError::KeyInUse(key_use)));
    }
    let own = orders::table.find(order_id).filter(is_order_of(new.owner));
    let state = Prepared(own.select(OrderState::as_select())).get_result(connection).await;
    let at = match OrderState::is_there(state.optional()?) {
        Ok(order) => order.changed_at(new.at),
        Err(error) => return Ok(Err(error)),
    };
    let stored = order_notes::table.filter(order_notes::order_id.eq(order_id)).count();
    let position = match next_note(Prepared(stored).get_result(connection).await?) {
        Ok(position) => position,
        Err(error) => return Ok(Err(error)),
    };
    let added = diesel::insert_into(order_notes::table).values(NoteRow::new(new, at));
    let added = Prepared(added.returning(NoteRow::as_returning())).get_result(connection).await?;
    let told = EventChange::Note { author: new.author };
    let event = NewChangeEventRow::new(EventType::NoteAdded, Some(&told), order_id, at)
        .with_content(&MailContent::Note { author: new.author, text: new.text.clone() });
    Prepared(diesel::insert_into(events::table).values(event)).execute(connection).await?;
    if let Some(request) = &new.idempotent_request {
        remember(connection, &KeyRow::answered(request, order_id, Utc(new.at), Some(position)))
            .await?;
    }
    let update = diesel::update(orders::table.find(order_id));
    Prepared(update.set(orders::updated_at.eq(at))).execute(connection).await?;
    store_access(connection, new.access.as_ref()).await?;
    Ok(Ok(added.into_note()))
}
