//! Webhook endpoints.

use async_trait::async_trait;
use diesel::{
    prelude::*,
    sql_query,
    sql_types::{BigInt, Bool, Nullable, Text, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::ClientId,
    endpoint_request::EndpointChange,
    ports::{NewEndpoint, StoreError, WebhookRepo},
    webhook::{DisabledBy, Endpoint, EndpointId, EndpointOwner},
};
use futures_util::FutureExt as _;
use sql_rows::{
    EndpointRow, NewEndpointRow, Utc, endpoint_of, endpoints_of, row_limit,
    schema::webhook_endpoints, stored_events, untold_endpoints,
};
use time::OffsetDateTime;

use crate::{
    PostgresStore,
    failure::Failure,
    statement::{IdRow, Prepared},
};

#[async_trait]
impl WebhookRepo for PostgresStore {
    async fn add(&self, new: &NewEndpoint, max: usize) -> Result<Option<EndpointId>, StoreError> {
        let (row, owner) = (NewEndpointRow::from(new), new.owner);
        let added = self.pool.transaction(move |connection| {
            async move { add(connection, owner, row, max).await }.boxed()
        });
        Ok(added.await?)
    }

    async fn of_owner(&self, owner: EndpointOwner) -> Result<Vec<Endpoint>, StoreError> {
        let read = self.pool.run(move |connection| {
            async move {
                let own = endpoints_of(owner)
                    .order(webhook_endpoints::id)
                    .select(EndpointRow::as_select());
                all_of(own.load(connection).await?)
            }
            .boxed()
        });
        Ok(read.await?)
    }

    async fn endpoint(
        &self,
        owner: EndpointOwner,
        id: EndpointId,
    ) -> Result<Option<Endpoint>, StoreError> {
        let read = self.pool.run(move |connection| {
            async move {
                let own = endpoint_of(owner, id).select(EndpointRow::as_select());
                let row: Option<EndpointRow> = own.first(connection).await.optional()?;
                Ok::<_, Failure>(row.map(EndpointRow::into_endpoint).transpose()?)
            }
            .boxed()
        });
        Ok(read.await?)
    }

    async fn change(
        &self,
        owner: EndpointOwner,
        id: EndpointId,
        change: &EndpointChange,
        at: OffsetDateTime,
    ) -> Result<Option<Endpoint>, StoreError> {
        let change = change.clone();
        let changed = self.pool.run(move |connection| {
            async move { self::change(connection, owner, id, change, at).await }.boxed()
        });
        Ok(changed.await?)
    }

    async fn remove(&self, owner: EndpointOwner, id: EndpointId) -> Result<bool, StoreError> {
        let removed = self.pool.run(move |connection| {
            async move {
                Ok::<_, Failure>(
                    diesel::delete(endpoint_of(owner, id)).execute(connection).await? > 0,
                )
            }
            .boxed()
        });
        Ok(removed.await?)
    }

    async fn rotate_secret(
        &self,
        owner: EndpointOwner,
        id: EndpointId,
        secret: &[u8],
        previous_until: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let secret = secret.to_vec();
        let rotated = self.pool.run(move |connection| {
            async move {
                let set = diesel::update(endpoint_of(owner, id)).set((
                    webhook_endpoints::previous_secret.eq(webhook_endpoints::secret.nullable()),
                    webhook_endpoints::previous_until.eq(Utc(previous_until)),
                    webhook_endpoints::secret.eq(secret),
                ));
                Ok::<_, Failure>(set.execute(connection).await? > 0)
            }
            .boxed()
        });
        Ok(rotated.await?)
    }

    async fn of_clients(&self, clients: &[ClientId]) -> Result<Vec<Endpoint>, StoreError> {
        let clients: Vec<i64> = clients.iter().map(|client| client.0).collect();
        let read = self.pool.run(move |connection| {
            async move {
                let of_clients = webhook_endpoints::table
                    .filter(webhook_endpoints::client_id.eq_any(clients))
                    .select(EndpointRow::as_select());
                all_of(of_clients.load(connection).await?)
            }
            .boxed()
        });
        Ok(read.await?)
    }

    async fn untold(&self, failed_before: OffsetDateTime) -> Result<Vec<Endpoint>, StoreError> {
        let read = self.pool.run(move |connection| {
            async move {
                let untold = untold_endpoints(failed_before);
                all_of(untold.select(EndpointRow::as_select()).load(connection).await?)
            }
            .boxed()
        });
        Ok(read.await?)
    }

    async fn told(
        &self,
        id: EndpointId,
        is_disabled: bool,
        at: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let told = self.pool.run(move |connection| {
            async move {
                let row = diesel::update(webhook_endpoints::table.find(id.0));
                if is_disabled {
                    row.set(webhook_endpoints::told_at.eq(Utc(at))).execute(connection).await?;
                } else {
                    row.set(webhook_endpoints::warned_at.eq(Utc(at))).execute(connection).await?;
                }
                Ok::<_, Failure>(())
            }
            .boxed()
        });
        Ok(told.await?)
    }

    async fn disable_failing(
        &self,
        failed_before: OffsetDateTime,
        told_before: OffsetDateTime,
        at: OffsetDateTime,
    ) -> Result<Vec<EndpointId>, StoreError> {
        let disabled = self.pool.run(move |connection| {
            async move {
                let disable = sql_query(DISABLE_FAILING)
                    .bind::<Timestamptz, _>(failed_before)
                    .bind::<Timestamptz, _>(told_before)
                    .bind::<Timestamptz, _>(at)
                    .bind::<Text, _>(DisabledBy::Failures.as_str());
                let rows: Vec<IdRow> = Prepared(disable).get_results(connection).await?;
                Ok::<_, Failure>(rows.into_iter().map(|row| EndpointId(row.id)).collect())
            }
            .boxed()
        });
        Ok(disabled.await?)
    }

    async fn all(&self) -> Result<Vec<Endpoint>, StoreError> {
        let read = self.pool.run(|connection| {
            async move {
                let all = webhook_endpoints::table
                    .order(webhook_endpoints::id)
                    .select(EndpointRow::as_select());
                all_of(all.load(connection).await?)
            }
            .boxed()
        });
        Ok(read.await?)
    }
}

/// Locks endpoints by identifier, so that two calls never deadlock.
const DISABLE_FAILING: &str = "WITH held AS (\
        SELECT id FROM webhook_endpoints \
        WHERE disabled_at IS NULL AND failed_at <= $1 AND warned_at <= $2 ORDER BY id FOR UPDATE\
    ) UPDATE webhook_endpoints SET disabled_at = $3, disabled_by = $4 \
    WHERE id = ANY (ARRAY(SELECT id FROM held)) RETURNING id";

fn all_of(rows: Vec<EndpointRow>) -> Result<Vec<Endpoint>, Failure> {
    Ok(rows.into_iter().map(EndpointRow::into_endpoint).collect::<Result<_, _>>()?)
}

/// Makes the additions of a client wait for each other. The number is `hook` in ASCII.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1752133483, hashint8($1))";

async fn add(
    connection: &mut AsyncPgConnection,
    owner: EndpointOwner,
    row: NewEndpointRow,
    max: usize,
) -> Result<Option<EndpointId>, Failure> {
    let lock = sql_query(LOCK).bind::<BigInt, _>(owner.client.0);
    Prepared(lock).execute(connection).await?;
    let count: i64 = endpoints_of(owner).count().get_result(connection).await?;
    if count >= row_limit(max) {
        return Ok(None);
    }
    let id = diesel::insert_into(webhook_endpoints::table)
        .values(row)
        .returning(webhook_endpoints::id)
        .get_result(connection)
        .await?;
    Ok(Some(EndpointId(id)))
}

/// `$4`: the URL; `$5`: the events; `$6` and `$7`: whether there is a description, and which; `$8`:
/// whether it is enabled. NULL leaves a column as it is.
const CHANGE: &str = "UPDATE webhook_endpoints SET \
        url = coalesce($4, url), events = coalesce($5, events), \
        description = CASE WHEN $6 THEN $7 ELSE description END, \
        succeeded_at = CASE WHEN url = coalesce($4, url) \
            AND (disabled_at IS NULL OR $8 IS NOT TRUE) THEN succeeded_at END, \
        failed_at = CASE WHEN url = coalesce($4, url) \
            AND (disabled_at IS NULL OR $8 IS NOT TRUE) THEN failed_at END, \
        warned_at = CASE WHEN url = coalesce($4, url) \
            AND (disabled_at IS NULL OR $8 IS NOT TRUE) THEN warned_at END, \
        told_at = CASE WHEN url = coalesce($4, url) \
            AND (disabled_at IS NULL OR $8 IS NOT TRUE) THEN told_at END, \
        disabled_at = CASE WHEN $8 IS NULL THEN disabled_at \
            WHEN NOT $8 THEN coalesce(disabled_at, $9) END, \
        disabled_by = CASE WHEN $8 IS NULL THEN disabled_by \
            WHEN NOT $8 THEN coalesce(disabled_by, $10) END \
    WHERE id = $1 AND client_id = $2 AND is_test = $3 RETURNING *";

async fn change(
    connection: &mut AsyncPgConnection,
    owner: EndpointOwner,
    id: EndpointId,
    change: EndpointChange,
    at: OffsetDateTime,
) -> Result<Option<Endpoint>, Failure> {
    let statement = sql_query(CHANGE)
        .bind::<BigInt, _>(id.0)
        .bind::<BigInt, _>(owner.client.0)
        .bind::<Bool, _>(owner.is_test)
        .bind::<Nullable<Text>, _>(change.url)
        .bind::<Nullable<Text>, _>(change.events.as_ref().map(stored_events))
        .bind::<Bool, _>(change.description.is_some())
        .bind::<Nullable<Text>, _>(change.description.flatten())
        .bind::<Nullable<Bool>, _>(change.is_enabled)
        .bind::<Timestamptz, _>(at)
        .bind::<Text, _>(DisabledBy::Request.as_str());
    let row: Option<EndpointRow> = Prepared(statement).get_result(connection).await.optional()?;
    Ok(row.map(EndpointRow::into_endpoint).transpose()?)
}
