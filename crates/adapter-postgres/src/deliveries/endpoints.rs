//! Webhook endpoints.

use async_trait::async_trait;
use diesel::{
    prelude::*,
    sql_query,
    sql_types::{BigInt, Bool, Nullable, Text, Timestamptz},
};
use diesel_async::RunQueryDsl;
use domain::{
    api_key::ClientId,
    ports::{NewEndpoint, StoreError, WebhookRepo},
    webhook::{DisabledBy, Endpoint, EndpointId, EndpointOwner, endpoint_request::EndpointChange},
};
use sql_rows::{
    EndpointRow, NewEndpointRow, Utc, endpoint_of, endpoints_of, row_limit,
    schema::webhook_endpoints, stored_events, untold_endpoints,
};
use time::OffsetDateTime;

use crate::{
    PostgresStore,
    statement::{IdRow, Prepared},
};

/// Makes the additions of a client wait for each other. The number is `hook` in ASCII.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1752133483, hashint8($1))";

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

/// Locks endpoints by identifier, so that two calls never deadlock.
const DISABLE_FAILING: &str = "WITH held AS (\
        SELECT id FROM webhook_endpoints \
        WHERE disabled_at IS NULL AND failed_at <= $1 AND warned_at <= $2 ORDER BY id FOR UPDATE\
    ) UPDATE webhook_endpoints SET disabled_at = $3, disabled_by = $4 \
    WHERE id = ANY (ARRAY(SELECT id FROM held)) RETURNING id";

#[async_trait]
impl WebhookRepo for PostgresStore {
    async fn add(&self, new: &NewEndpoint, max: usize) -> Result<Option<EndpointId>, StoreError> {
        let added = self.pool.transaction(async |connection| {
            let lock = sql_query(LOCK).bind::<BigInt, _>(new.owner.client.0);
            Prepared(lock).execute(connection).await?;
            let count: i64 = endpoints_of(new.owner).count().get_result(connection).await?;
            if count >= row_limit(max) {
                return Ok(None);
            }
            let id = diesel::insert_into(webhook_endpoints::table)
                .values(NewEndpointRow::from(new))
                .returning(webhook_endpoints::id)
                .get_result(connection)
                .await?;
            Ok(Some(EndpointId(id)))
        });
        Ok(added.await?)
    }

    async fn of_owner(&self, owner: EndpointOwner) -> Result<Vec<Endpoint>, StoreError> {
        let own = endpoints_of(owner).order(webhook_endpoints::id).select(EndpointRow::as_select());
        Ok(self.pool.all(own, EndpointRow::into_endpoint).await?)
    }

    async fn endpoint(
        &self,
        owner: EndpointOwner,
        id: EndpointId,
    ) -> Result<Option<Endpoint>, StoreError> {
        let own = endpoint_of(owner, id).select(EndpointRow::as_select());
        Ok(self.pool.all(own, EndpointRow::into_endpoint).await?.pop())
    }

    async fn change(
        &self,
        owner: EndpointOwner,
        id: EndpointId,
        change: &EndpointChange,
        at: OffsetDateTime,
    ) -> Result<Option<Endpoint>, StoreError> {
        let statement = sql_query(CHANGE)
            .bind::<BigInt, _>(id.0)
            .bind::<BigInt, _>(owner.client.0)
            .bind::<Bool, _>(owner.is_test)
            .bind::<Nullable<Text>, _>(change.url.as_deref())
            .bind::<Nullable<Text>, _>(change.events.as_ref().map(stored_events))
            .bind::<Bool, _>(change.description.is_some())
            .bind::<Nullable<Text>, _>(change.description.clone().flatten())
            .bind::<Nullable<Bool>, _>(change.is_enabled)
            .bind::<Timestamptz, _>(at)
            .bind::<Text, _>(DisabledBy::Request.as_str());
        Ok(self.pool.all(statement, EndpointRow::into_endpoint).await?.pop())
    }

    async fn remove(&self, owner: EndpointOwner, id: EndpointId) -> Result<bool, StoreError> {
        Ok(self.pool.write(diesel::delete(endpoint_of(owner, id))).await? > 0)
    }

    async fn rotate_secret(
        &self,
        owner: EndpointOwner,
        id: EndpointId,
        secret: &[u8],
        previous_until: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let rotate = diesel::update(endpoint_of(owner, id)).set((
            webhook_endpoints::previous_secret.eq(webhook_endpoints::secret.nullable()),
            webhook_endpoints::previous_until.eq(Utc(previous_until)),
            webhook_endpoints::secret.eq(secret),
        ));
        Ok(self.pool.write(rotate).await? > 0)
    }

    async fn of_clients(&self, clients: &[ClientId]) -> Result<Vec<Endpoint>, StoreError> {
        let of_clients = webhook_endpoints::table
            .filter(webhook_endpoints::client_id.eq_any(clients.iter().map(|client| client.0)))
            .select(EndpointRow::as_select());
        Ok(self.pool.all(of_clients, EndpointRow::into_endpoint).await?)
    }

    async fn untold(&self, failed_before: OffsetDateTime) -> Result<Vec<Endpoint>, StoreError> {
        let untold = untold_endpoints(failed_before).select(EndpointRow::as_select());
        Ok(self.pool.all(untold, EndpointRow::into_endpoint).await?)
    }

    async fn told(
        &self,
        id: EndpointId,
        is_disabled: bool,
        at: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let row = diesel::update(webhook_endpoints::table.find(id.0));
        if is_disabled {
            self.pool.write(row.set(webhook_endpoints::told_at.eq(Utc(at)))).await?;
        } else {
            self.pool.write(row.set(webhook_endpoints::warned_at.eq(Utc(at)))).await?;
        }
        Ok(())
    }

    async fn disable_failing(
        &self,
        failed_before: OffsetDateTime,
        told_before: OffsetDateTime,
        at: OffsetDateTime,
    ) -> Result<Vec<EndpointId>, StoreError> {
        let disable = sql_query(DISABLE_FAILING)
            .bind::<Timestamptz, _>(failed_before)
            .bind::<Timestamptz, _>(told_before)
            .bind::<Timestamptz, _>(at)
            .bind::<Text, _>(DisabledBy::Failures.as_str());
        Ok(self.pool.all(disable, |IdRow { id }| Ok(EndpointId(id))).await?)
    }

    async fn all(&self) -> Result<Vec<Endpoint>, StoreError> {
        let all =
            webhook_endpoints::table.order(webhook_endpoints::id).select(EndpointRow::as_select());
        Ok(self.pool.all(all, EndpointRow::into_endpoint).await?)
    }
}
