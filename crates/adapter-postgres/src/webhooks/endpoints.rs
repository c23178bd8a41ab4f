//! Webhook endpoints.

use async_trait::async_trait;
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::{Owner, Party},
    ports::{NewEndpoint, StoreError, WebhookRepo},
    webhook::{
        DisabledBy, Endpoint, EndpointId, EndpointPrecondition, endpoint_request::EndpointChange,
    },
};
use sql_rows::{
    Unreadable, Utc,
    party::{party_of, stored_party},
    row_limit,
    schema::webhook_endpoints,
    webhook_endpoints::{
        EndpointChangeRow, EndpointRow, NewEndpointRow, endpoint_of, endpoints_of, untold_endpoints,
    },
};
use time::OffsetDateTime;

use crate::{failure::Failure, locks, store::PostgresStore};

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
                .returning(EndpointRow::as_select());
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
                .returning(EndpointRow::as_select());
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
        let precondition = precondition.clone();
        let remove = async move |connection: &mut AsyncPgConnection| {
            if permitted(connection, owner, id, &precondition).await?.is_none() {
                return Ok(false);
            }
            Ok(diesel::delete(endpoint_of(owner, id)).execute(connection).await? > 0)
        };
        self.transaction(remove).await
    }

    async fn rotate_secret(
        &self,
        owner: Owner,
        id: EndpointId,
        secret: &[u8],
        precondition: &EndpointPrecondition,
        previous_until: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let (secret, precondition) = (secret.to_vec(), precondition.clone());
        let rotate = async move |connection: &mut AsyncPgConnection| {
            if permitted(connection, owner, id, &precondition).await?.is_none() {
                return Ok(false);
            }
            let rotate = diesel::update(endpoint_of(owner, id)).set((
                webhook_endpoints::previous_secret.eq(webhook_endpoints::secret.nullable()),
                webhook_endpoints::previous_until.eq(Utc(previous_until)),
                webhook_endpoints::secret.eq(secret),
            ));
            Ok(rotate.execute(connection).await? > 0)
        };
        self.transaction(rotate).await
    }

    async fn secrets(&self) -> Result<Vec<(Party, Vec<u8>)>, StoreError> {
        let secrets =
            webhook_endpoints::table.select((webhook_endpoints::party, webhook_endpoints::secret));
        let load = async move |connection: &mut AsyncPgConnection| {
            let rows: Vec<(i64, Vec<u8>)> = secrets.get_results(connection).await?;
            Ok(rows.into_iter().map(|(party, secret)| (party_of(party), secret)).collect())
        };
        self.read(load).await
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
    let own = endpoint_of(owner, id).select(EndpointRow::as_select());
    let found: Option<EndpointRow> = own.get_result(connection).await.optional()?;
    let found = found.map(EndpointRow::into_endpoint);
    Ok(found.filter(|endpoint| endpoint.permits(precondition)))
}

#[expect(clippy::unnecessary_wraps, reason = "the rows of other tables may be unreadable")]
fn endpoint(row: EndpointRow) -> Result<Endpoint, Unreadable> {
    Ok(row.into_endpoint())
}
