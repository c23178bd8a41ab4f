//! Adds documents to an order.

use diesel::{
    prelude::*,
    sql_query,
    sql_types::{BigInt, Binary, Integer, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    idempotency::{AddedRange, IdempotentRequest},
    ports::{NewDocuments, WriteError},
    webhook::EventType,
};
use sql_rows::{
    DocumentRow, PendingAddition, Utc,
    schema::{documents, events, orders},
};
use time::OffsetDateTime;

use crate::{
    failure::Failure,
    idempotency,
    pool::Pool,
    statement::{ADOPTION, DURABLE, KEY_IN_USE, Prepared},
};

pub(crate) async fn add_documents(
    pool: &Pool,
    new: &NewDocuments,
) -> Result<AddedRange, WriteError> {
    let addition = PendingAddition::new(new).map_err(Failure::Unstorable)?;
    let added = pool.transaction(async |connection| add(connection, addition).await).await;
    let failure = match added {
        Ok(outcome) => return outcome,
        Err(failure) => failure,
    };
    match (failure.constraint(), &new.idempotent_request) {
        (Some(ADOPTION), _) => Err(WriteError::UploadSwept),
        (Some(KEY_IN_USE), Some(IdempotentRequest { attempt, .. })) => {
            let key_use = pool.run(async |connection| {
                idempotency::in_use_or_released(connection, &attempt.claim, new.at).await
            });
            Err(WriteError::KeyInUse(key_use.await?))
        }
        _ => Err(failure.into()),
    }
}

/// Adds documents in a transaction. The lock of the order makes concurrent additions wait. Each
/// statement after it sees what they have added. A rejection has changed nothing.
async fn add(
    connection: &mut AsyncPgConnection,
    addition: PendingAddition,
) -> Result<Result<AddedRange, WriteError>, Failure> {
    let lock = format!(
        "SELECT erased_at FROM orders WHERE id = $1 AND client_id = $2 AND {DURABLE} \
        FOR NO KEY UPDATE"
    );
    let lock =
        sql_query(lock).bind::<BigInt, _>(addition.order_id).bind::<BigInt, _>(addition.client_id);
    let locked: Option<Locked> = Prepared(lock).get_result(connection).await.optional()?;
    if let Some(IdempotentRequest { attempt, .. }) = &addition.idempotent_request
        && let Some(key_use) =
            idempotency::in_use(connection, &attempt.claim, addition.at.0).await?
    {
        return Ok(Err(WriteError::KeyInUse(key_use)));
    }
    match locked {
        None => return Ok(Err(WriteError::NoSuchOrder)),
        Some(Locked { erased_at: Some(_) }) => return Ok(Err(WriteError::Erased)),
        Some(Locked { erased_at: None }) => {}
    }
    let of_order = documents::table.filter(documents::order_id.eq(addition.order_id));
    let stored: i64 = Prepared(of_order.count()).get_result(connection).await?;
    let range = match addition.range(stored) {
        Ok(range) => range,
        Err(too_many) => return Ok(Err(too_many)),
    };
    let PendingAddition { order_id, at, idempotent_request, .. } = addition;
    let positions = i32::try_from(range.first_position).unwrap_or(i32::MAX)..;
    let mut rows: Vec<DocumentRow> = positions
        .zip(addition.documents)
        .map(|(position, row)| DocumentRow { order_id, position, ..row })
        .collect();
    // The order in which other calls lock uploads.
    rows.sort_by(|one, other| one.key.cmp(&other.key));
    diesel::insert_into(documents::table).values(rows).execute(connection).await?;
    let event = (
        events::kind.eq(EventType::DocumentsAdded.as_str()),
        events::order_id.eq(order_id),
        events::created_at.eq(at),
    );
    diesel::insert_into(events::table).values(event).execute(connection).await?;
    if let Some(request) = &idempotent_request {
        remember(connection, request, order_id, range, at.0).await?;
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

/// Where a concurrent request has remembered its answer under the same key, a trigger rejects the
/// statement.
const REMEMBER: &str = "INSERT INTO idempotency_keys (client_id, digest, token, fingerprint, \
        order_id, first_document, documents, taken_at, kept_until) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (client_id, digest) DO UPDATE \
    SET token = excluded.token, fingerprint = excluded.fingerprint, \
        order_id = excluded.order_id, first_document = excluded.first_document, \
        documents = excluded.documents, taken_at = excluded.taken_at, \
        kept_until = excluded.kept_until";

async fn remember(
    connection: &mut AsyncPgConnection,
    IdempotentRequest { attempt, kept_until }: &IdempotentRequest,
    order_id: i64,
    range: AddedRange,
    at: OffsetDateTime,
) -> Result<(), Failure> {
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let remember = sql_query(REMEMBER)
        .bind::<BigInt, _>(attempt.claim.key.client.0)
        .bind::<Binary, _>(&attempt.claim.key.digest)
        .bind::<Binary, _>(&attempt.claim.token.0)
        .bind::<Binary, _>(&attempt.fingerprint.0)
        .bind::<BigInt, _>(order_id)
        .bind::<Integer, _>(number(range.first_position))
        .bind::<Integer, _>(number(range.count))
        .bind::<Timestamptz, _>(at)
        .bind::<Timestamptz, _>(*kept_until);
    Prepared(remember).execute(connection).await?;
    Ok(())
}
