//! Webhook endpoints.

use async_trait::async_trait;
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::{Owner, Party},
    ports::{EndpointSecrets, NewEndpoint, SealedSecrets, StoreError, WebhookRepo},
    webhook::{
        DisabledBy, Endpoint, EndpointId, EndpointPrecondition, endpoint_request::EndpointChange,
    },
};
use sql_rows::{
    Unreadable, Utc,
    party::stored_party,
    row_limit,
    schema::{webhook_deliveries, webhook_endpoints},
    webhook_deliveries::deliveries_of,
    webhook_endpoints::{
        EndpointChangeRow, EndpointRow, EndpointSecretsRow, NewEndpointRow, SecretsRow,
        endpoint_of, endpoints_of, untold_endpoints,
    },
};
use time::OffsetDateTime;

use crate::{failure::Failure, locks, statement::columns, store::PostgresStore};

/// Deliveries of a removed endpoint that a statement removes.
const REMOVED: i64 = 1_000;

#[async_trait]
impl WebhookRepo for PostgresStore {
    async fn add(&self, new: &NewEndpoint, max: usize) -> Result<Option<Endpoint>, StoreError> {
        let (row, owner) = (NewEndpointRow::from(new), new.owner);
        let add = async move |connection: &mut AsyncPgConnection| {
            locks::lock_name(connection, &format!("endpoints of {}", owner.party)).await?;
            let count: i64 = endpoints_of(owner).count().get_result(connection).await?;
            if count >= row_limit(max) {
                return Ok(None);
            }
            let added = diesel::insert_into(webhook_endpoints::table)
                .values(row)
                .returning(columns::<EndpointRow>());
            let added: EndpointRow = added.get_result(connection).await?;
            Ok(Some(added.into_endpoint()))
        };
        self.transaction(add).await
    }

    async fn of_owner(&self, owner: Owner) -> Result<Vec<Endpoint>, StoreError> {
        let own = endpoints_of(owner).order(webhook_endpoints::id);
        self.select(own, endpoint).await
    }

    async fn endpoint(&self, owner: Owner, id: EndpointId) -> Result<Option<Endpoint>, StoreError> {
        Ok(self.select(endpoint_of(owner, id), endpoint).await?.pop())
    }

    async fn change(
        &self,
        owner: Owner,
        id: EndpointId,
        change: &EndpointChange,
        precondition: &EndpointPrecondition,
        at: OffsetDateTime,
    ) -> Result<Option<Endpoint>, StoreError> {
        let (change, precondition) = (change.clone(), precondition.clone());
        let change = async move |connection: &mut AsyncPgConnection| {
            let before = permitted(connection, owner, id, &precondition).await?;
            let Some(before) = before else { return Ok(None) };
            let row = EndpointChangeRow::new(&before, change, at);
            let changed = diesel::update(webhook_endpoints::table.find(id.0))
                .set(row)
                .returning(columns::<EndpointRow>());
            let changed: EndpointRow = changed.get_result(connection).await?;
            Ok(Some(changed.into_endpoint()))
        };
        self.transaction(change).await
    }

    async fn remove(
        &self,
        owner: Owner,
        id: EndpointId,
        precondition: &EndpointPrecondition,
    ) -> Result<bool, StoreError> {
        // One statement would take longer with each delivery, and end at its time limit.
        let remove = async |precondition: EndpointPrecondition| {
            let remove = async move |connection: &mut AsyncPgConnection| {
                if permitted(connection, owner, id, &precondition).await?.is_none() {
                    return Ok(None);
                }
                let some = deliveries_of(owner, id).select(webhook_deliveries::id).limit(REMOVED);
                let some: Vec<i64> = some.get_results(connection).await?;
                let some = webhook_deliveries::table.filter(webhook_deliveries::id.eq_any(some));
                if row_limit(diesel::delete(some).execute(connection).await?) == REMOVED {
                    return Ok(Some(false));
                }
                diesel::delete(endpoint_of(owner, id)).execute(connection).await?;
                Ok(Some(true))
            };
            self.transaction::<_, StoreError>(remove).await
        };
        let mut is_removed = remove(precondition.clone()).await?;
        // A removal that has begun goes on, whatever becomes of the endpoint.
        while is_removed == Some(false) {
            is_removed = remove(EndpointPrecondition::NONE).await?.or(Some(true));
        }
        Ok(is_removed.is_some())
    }

    async fn rotate_secret(
        &self,
        owner: Owner,
        id: EndpointId,
        secret: &[u8],
        precondition: &EndpointPrecondition,
        at: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let (secret, precondition) = (secret.to_vec(), precondition.clone());
        let rotate = async move |connection: &mut AsyncPgConnection| {
            if permitted(connection, owner, id, &precondition).await?.is_none() {
                return Ok(false);
            }
            let own = webhook_endpoints::table.find(id.0);
            let before: SecretsRow =
                own.select(columns::<SecretsRow>()).get_result(connection).await?;
            let after = SecretsRow::from(before.into_sealed().rotated(secret, at));
            diesel::update(own).set(after).execute(connection).await?;
            Ok(true)
        };
        self.transaction(rotate).await
    }

    async fn secrets(&self) -> Result<Vec<EndpointSecrets>, StoreError> {
        self.select(webhook_endpoints::table, secrets).await
    }

    async fn replace_secrets(
        &self,
        before: &EndpointSecrets,
        after: &SealedSecrets,
    ) -> Result<bool, StoreError> {
        let (before, after) = (before.clone(), after.clone());
        let replace = async move |connection: &mut AsyncPgConnection| {
            locks::lock(connection, "webhook_endpoints", &[before.id.0]).await?;
            let row = webhook_endpoints::table.find(before.id.0);
            let stored = row.select(columns::<SecretsRow>()).get_result(connection);
            let stored: Option<SecretsRow> = stored.await.optional()?;
            if stored.map(SecretsRow::into_sealed) != Some(before.secrets) {
                return Ok(false);
            }
            diesel::update(row).set(SecretsRow::from(after)).execute(connection).await?;
            Ok(true)
        };
        self.transaction(replace).await
    }

    async fn of_parties(&self, parties: &[Party]) -> Result<Vec<Endpoint>, StoreError> {
        let parties: Vec<i64> = parties.iter().copied().map(stored_party).collect();
        let theirs = webhook_endpoints::table.filter(webhook_endpoints::party.eq_any(parties));
        self.select(theirs, endpoint).await
    }

    async fn untold(&self, failed_before: OffsetDateTime) -> Result<Vec<Endpoint>, StoreError> {
        self.select(untold_endpoints(failed_before), endpoint).await
    }

    async fn told(
        &self,
        id: EndpointId,
        is_disabled: bool,
        at: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let row = diesel::update(webhook_endpoints::table.find(id.0));
        if is_disabled {
            self.execute(row.set(webhook_endpoints::told_at.eq(Utc(at)))).await.map(drop)
        } else {
            self.execute(row.set(webhook_endpoints::warned_at.eq(Utc(at)))).await.map(drop)
        }
    }

    async fn disable_failing(
        &self,
        failed_before: OffsetDateTime,
        told_before: OffsetDateTime,
        at: OffsetDateTime,
    ) -> Result<Vec<EndpointId>, StoreError> {
        let disable = async move |connection: &mut AsyncPgConnection| {
            let failing = || {
                webhook_endpoints::table
                    .filter(webhook_endpoints::disabled_at.is_null())
                    .filter(webhook_endpoints::failed_at.le(Utc(failed_before)))
                    .filter(webhook_endpoints::warned_at.le(Utc(told_before)))
            };
            let ids: Vec<i64> =
                failing().select(webhook_endpoints::id).get_results(connection).await?;
            locks::lock(connection, "webhook_endpoints", &ids).await?;
            // An endpoint may have been changed before it was locked.
            let disable = diesel::update(failing().filter(webhook_endpoints::id.eq_any(ids)))
                .set((
                    webhook_endpoints::disabled_at.eq(Utc(at)),
                    webhook_endpoints::disabled_by.eq(DisabledBy::Failures.as_str()),
                ))
                .returning(webhook_endpoints::id);
            let ids = disable.get_results(connection).await?;
            Ok(ids.into_iter().map(EndpointId).collect())
        };
        self.transaction(disable).await
    }

    async fn all(&self) -> Result<Vec<Endpoint>, StoreError> {
        let all = webhook_endpoints::table.order(webhook_endpoints::id);
        self.select(all, endpoint).await
    }
}

/// Locks an endpoint of an owner, and returns it if it is a version that may be changed.
pub(super) async fn permitted(
    connection: &mut AsyncPgConnection,
    owner: Owner,
    id: EndpointId,
    precondition: &EndpointPrecondition,
) -> Result<Option<Endpoint>, Failure> {
    locks::lock(connection, "webhook_endpoints", &[id.0]).await?;
    let own = endpoint_of(owner, id).select(columns::<EndpointRow>());
    let found: Option<EndpointRow> = own.get_result(connection).await.optional()?;
    let found = found.map(EndpointRow::into_endpoint);
    Ok(found.filter(|endpoint| endpoint.permits(precondition)))
}

#[expect(clippy::unnecessary_wraps, reason = "the rows of other tables may be unreadable")]
fn endpoint(row: EndpointRow) -> Result<Endpoint, Unreadable> {
    Ok(row.into_endpoint())
}

#[expect(clippy::unnecessary_wraps, reason = "the rows of other tables may be unreadable")]
fn secrets(row: EndpointSecretsRow) -> Result<EndpointSecrets, Unreadable> {
    Ok(row.into_secrets())
}
