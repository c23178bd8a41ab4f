//! Webhook endpoints.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
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

use crate::{failure::Failure, store::SqliteStore};

#[async_trait]
impl WebhookRepo for SqliteStore {
    async fn add(&self, new: &NewEndpoint, max: usize) -> Result<Option<Endpoint>, StoreError> {
        let (row, owner) = (NewEndpointRow::from(new), new.owner);
        let add = move |connection: &mut SqliteConnection| {
            let count: i64 = endpoints_of(owner).count().get_result(connection)?;
            if count >= row_limit(max) {
                return Ok(None);
            }
            let added = diesel::insert_into(webhook_endpoints::table)
                .values(row)
                .returning(EndpointRow::as_select());
            let added: EndpointRow = added.get_result(connection)?;
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
        let change = move |connection: &mut SqliteConnection| {
            let before = permitted(connection, owner, id, &precondition)?;
            let Some(before) = before else { return Ok(None) };
            let row = EndpointChangeRow::new(&before, change, at);
            let changed = diesel::update(webhook_endpoints::table.find(id.0))
                .set(row)
                .returning(EndpointRow::as_select());
            let changed: EndpointRow = changed.get_result(connection)?;
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
        let remove = move |connection: &mut SqliteConnection| {
            if permitted(connection, owner, id, &precondition)?.is_none() {
                return Ok(false);
            }
            Ok(diesel::delete(endpoint_of(owner, id)).execute(connection)? > 0)
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
        let rotate = move |connection: &mut SqliteConnection| {
            if permitted(connection, owner, id, &precondition)?.is_none() {
                return Ok(false);
            }
            let rotate = diesel::update(endpoint_of(owner, id)).set((
                webhook_endpoints::previous_secret.eq(webhook_endpoints::secret.nullable()),
                webhook_endpoints::previous_until.eq(Utc(previous_until)),
                webhook_endpoints::secret.eq(secret),
            ));
            Ok(rotate.execute(connection)? > 0)
        };
        self.transaction(rotate).await
    }

    async fn secrets(&self) -> Result<Vec<(Party, Vec<u8>)>, StoreError> {
        let secrets =
            webhook_endpoints::table.select((webhook_endpoints::party, webhook_endpoints::secret));
        let load = move |connection: &mut SqliteConnection| {
            let rows: Vec<(i64, Vec<u8>)> = secrets.get_results(connection)?;
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
        let disable = move |connection: &mut SqliteConnection| {
            let failing = webhook_endpoints::table
                .filter(webhook_endpoints::disabled_at.is_null())
                .filter(webhook_endpoints::failed_at.le(Utc(failed_before)))
                .filter(webhook_endpoints::warned_at.le(Utc(told_before)));
            let disable = diesel::update(failing)
                .set((
                    webhook_endpoints::disabled_at.eq(Utc(at)),
                    webhook_endpoints::disabled_by.eq(DisabledBy::Failures.as_str()),
                ))
                .returning(webhook_endpoints::id);
            let ids: Vec<i64> = disable.get_results(connection)?;
            Ok(ids.into_iter().map(EndpointId).collect())
        };
        self.transaction(disable).await
    }

    async fn all(&self) -> Result<Vec<Endpoint>, StoreError> {
        let all = webhook_endpoints::table.order(webhook_endpoints::id);
        self.select(all, endpoint).await
    }
}

/// Returns an endpoint of an owner, if it is a version that may be changed.
pub(super) fn permitted(
    connection: &mut SqliteConnection,
    owner: Owner,
    id: EndpointId,
    precondition: &EndpointPrecondition,
) -> Result<Option<Endpoint>, Failure> {
    let own = endpoint_of(owner, id).select(EndpointRow::as_select());
    let found: Option<EndpointRow> = own.get_result(connection).optional()?;
    let found = found.map(EndpointRow::into_endpoint);
    Ok(found.filter(|endpoint| endpoint.permits(precondition)))
}

#[expect(clippy::unnecessary_wraps, reason = "the rows of other tables may be unreadable")]
fn endpoint(row: EndpointRow) -> Result<Endpoint, Unreadable> {
    Ok(row.into_endpoint())
}
