//! Adds documents to an order.

use diesel::{prelude::*, sql_query, sql_types::BigInt};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    idempotency::{AddedRange, IdempotentRequest},
    ports::{AddDocumentsError, NewDocuments},
    webhook::EventType,
};
use sql_rows::{
    KeyRow, NewEventRow, PendingAddition, Utc,
    schema::{documents, events, orders},
};

use crate::{
    claims,
    failure::Failure,
    pool::Pool,
    statement::{ADOPTION, DURABLE, KEY_IN_USE, Prepared},
};

pub(crate) async fn add_documents(
    pool: &Pool,
    new: &NewDocuments,
) -> Result<AddedRange, AddDocumentsError> {
    let addition = PendingAddition::new(new).map_err(Failure::Unstorable)?;
    let added = pool.transaction(async |connection| add(connection, addition).await).await;
    let failure = match added {
        Ok(outcome) => return outcome,
        Err(failure) => failure,
    };
    match (failure.constraint(), &new.idempotent_request) {
        (Some(ADOPTION), _) => Err(AddDocumentsError::UploadSwept),
        (Some(KEY_IN_USE), Some(IdempotentRequest { attempt, .. })) => {
            let key_use = pool.run(async |connection| {
                claims::in_use_or_released(connection, &attempt.claim, Utc(new.at)).await
            });
            Err(AddDocumentsError::KeyInUse(key_use.await?))
        }
        _ => Err(failure.into()),
    }
}

/// Adds documents in a transaction. The lock of the order makes concurrent additions wait. Each
/// statement after it sees what they have added. A rejection has changed nothing.
async fn add(
    connection: &mut AsyncPgConnection,
    mut addition: PendingAddition,
) -> Result<Result<AddedRange, AddDocumentsError>, Failure> {
    let lock = format!(
        "SELECT erased_at FROM orders WHERE id = $1 AND client_id = $2 AND {DURABLE} \
        FOR NO KEY UPDATE"
    );
    let lock =
        sql_query(lock).bind::<BigInt, _>(addition.order_id).bind::<BigInt, _>(addition.client_id);
    let locked: Option<Locked> = Prepared(lock).get_result(connection).await.optional()?;
    if let Some(IdempotentRequest { attempt, .. }) = &addition.idempotent_request
        && let Some(key_use) = claims::in_use(connection, &attempt.claim, addition.at).await?
    {
        return Ok(Err(AddDocumentsError::KeyInUse(key_use)));
    }
    match locked {
        None => return Ok(Err(AddDocumentsError::NoSuchOrder)),
        Some(Locked { erased_at: Some(_) }) => return Ok(Err(AddDocumentsError::Erased)),
        Some(Locked { erased_at: None }) => {}
    }
    let of_order = documents::table.filter(documents::order_id.eq(addition.order_id));
    let stored: i64 = Prepared(of_order.count()).get_result(connection).await?;
    let range = match addition.range(stored) {
        Ok(range) => range,
        Err(too_many) => return Ok(Err(too_many)),
    };
    let rows = addition.take_rows(range);
    let PendingAddition { order_id, at, idempotent_request, .. } = addition;
    diesel::insert_into(documents::table).values(rows).execute(connection).await?;
    let event = NewEventRow::new(EventType::DocumentsAdded, order_id, at);
    diesel::insert_into(events::table).values(event).execute(connection).await?;
    if let Some(request) = &idempotent_request {
        let row = KeyRow::answered(request, order_id, at, Some(range));
        claims::remember(connection, &row).await?;
    }
    let update = diesel::update(orders::table.find(order_id)).set(orders::updated_at.eq(at));
    Prepared(update).execute(connection).await?;
    Ok(Ok(range))
}

#[derive(QueryableByName)]
#[diesel(table_name = orders)]
struct Locked {
    erased_at: Option<Utc>,
}
