//! Webhook endpoints.

use async_trait::async_trait;
use diesel::{dsl::exists, prelude::*, select, sqlite::SqliteConnection};
use domain::{
    api_key::ClientId,
    endpoint_request::EndpointChange,
    ports::{NewEndpoint, StoreError, WebhookRepo},
    webhook::{DisabledBy, Endpoint, EndpointId, EndpointOwner},
};
use sql_rows::{
    EndpointRow, NewEndpointRow, Utc, endpoint_of, endpoints_of, row_limit,
    schema::webhook_endpoints, stored_events, untold_endpoints,
};
use time::OffsetDateTime;

use crate::{failure::Failure, store::SqliteStore};

#[async_trait]
impl WebhookRepo for SqliteStore {
    async fn add(&self, new: &NewEndpoint, max: usize) -> Result<Option<EndpointId>, StoreError> {
        let (row, owner) = (NewEndpointRow::from(new), new.owner);
        let add = move |connection: &mut SqliteConnection| {
            let count: i64 = endpoints_of(owner).count().get_result(connection)?;
            if count >= row_limit(max) {
                return Ok(None);
            }
            let id = diesel::insert_into(webhook_endpoints::table)
                .values(row)
                .returning(webhook_endpoints::id)
                .get_result(connection)?;
            Ok(Some(EndpointId(id)))
        };
        self.write(add).await
    }

    async fn of_owner(&self, owner: EndpointOwner) -> Result<Vec<Endpoint>, StoreError> {
        let read = move |connection: &mut SqliteConnection| {
            let own = endpoints_of(owner).order(webhook_endpoints::id);
            all_of(own.select(EndpointRow::as_select()).load(connection)?)
        };
        self.read(read).await
    }

    async fn endpoint(
        &self,
        owner: EndpointOwner,
        id: EndpointId,
    ) -> Result<Option<Endpoint>, StoreError> {
        self.read(move |connection| endpoint(connection, owner, id)).await
    }

    async fn change(
        &self,
        owner: EndpointOwner,
        id: EndpointId,
        change: &EndpointChange,
        at: OffsetDateTime,
    ) -> Result<Option<Endpoint>, StoreError> {
        let change = change.clone();
        self.write(move |connection| self::change(connection, owner, id, change, at)).await
    }

    async fn remove(&self, owner: EndpointOwner, id: EndpointId) -> Result<bool, StoreError> {
        let remove = move |connection: &mut SqliteConnection| {
            Ok(diesel::delete(endpoint_of(owner, id)).execute(connection)? > 0)
        };
        self.write(remove).await
    }

    async fn rotate_secret(
        &self,
        owner: EndpointOwner,
        id: EndpointId,
        secret: &[u8],
        previous_until: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let secret = secret.to_vec();
        let rotate = move |connection: &mut SqliteConnection| {
            let rotated = diesel::update(endpoint_of(owner, id))
                .set((
                    webhook_endpoints::previous_secret.eq(webhook_endpoints::secret.nullable()),
                    webhook_endpoints::previous_until.eq(Utc(previous_until)),
                    webhook_endpoints::secret.eq(secret),
                ))
                .execute(connection)?;
            Ok(rotated > 0)
        };
        self.write(rotate).await
    }

    async fn of_clients(&self, clients: &[ClientId]) -> Result<Vec<Endpoint>, StoreError> {
        let clients = clients.to_vec();
        let read = move |connection: &mut SqliteConnection| {
            let mut endpoints = Vec::new();
            for client in clients {
                let of_client = webhook_endpoints::table
                    .filter(webhook_endpoints::client_id.eq(client.0))
                    .select(EndpointRow::as_select());
                endpoints.extend(all_of(of_client.load(connection)?)?);
            }
            Ok(endpoints)
        };
        self.read(read).await
    }

    async fn untold(&self, failed_before: OffsetDateTime) -> Result<Vec<Endpoint>, StoreError> {
        let read = move |connection: &mut SqliteConnection| {
            let untold = untold_endpoints(failed_before);
            all_of(untold.select(EndpointRow::as_select()).load(connection)?)
        };
        self.read(read).await
    }

    async fn told(
        &self,
        id: EndpointId,
        is_disabled: bool,
        at: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let tell = move |connection: &mut SqliteConnection| {
            let row = diesel::update(webhook_endpoints::table.find(id.0));
            if is_disabled {
                row.set(webhook_endpoints::told_at.eq(Utc(at))).execute(connection)?;
            } else {
                row.set(webhook_endpoints::warned_at.eq(Utc(at))).execute(connection)?;
            }
            Ok(())
        };
        self.write(tell).await
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
            let ids: Vec<i64> = diesel::update(failing)
                .set((
                    webhook_endpoints::disabled_at.eq(Utc(at)),
                    webhook_endpoints::disabled_by.eq(DisabledBy::Failures.as_str()),
                ))
                .returning(webhook_endpoints::id)
                .get_results(connection)?;
            Ok(ids.into_iter().map(EndpointId).collect())
        };
        self.write(disable).await
    }

    async fn all(&self) -> Result<Vec<Endpoint>, StoreError> {
        let read = |connection: &mut SqliteConnection| {
            let all = webhook_endpoints::table.select(EndpointRow::as_select());
            all_of(all.order(webhook_endpoints::id).load(connection)?)
        };
        self.read(read).await
    }
}

fn all_of(rows: Vec<EndpointRow>) -> Result<Vec<Endpoint>, Failure> {
    Ok(rows.into_iter().map(EndpointRow::into_endpoint).collect::<Result<_, _>>()?)
}

/// Checks whether the owner has the endpoint.
pub(crate) fn is_own(
    connection: &mut SqliteConnection,
    owner: EndpointOwner,
    id: EndpointId,
) -> Result<bool, Failure> {
    Ok(select(exists(endpoint_of(owner, id))).get_result(connection)?)
}

fn endpoint(
    connection: &mut SqliteConnection,
    owner: EndpointOwner,
    id: EndpointId,
) -> Result<Option<Endpoint>, Failure> {
    let row: Option<EndpointRow> =
        endpoint_of(owner, id).select(EndpointRow::as_select()).first(connection).optional()?;
    Ok(row.map(EndpointRow::into_endpoint).transpose()?)
}

/// The columns to change; those that are `None` stay.
#[derive(AsChangeset, Default)]
#[diesel(table_name = webhook_endpoints)]
#[expect(clippy::option_option, reason = "diesel sets a column to NULL for `Some(None)`")]
struct Change {
    url: Option<String>,
    events: Option<String>,
    description: Option<Option<String>>,
    succeeded_at: Option<Option<Utc>>,
    failed_at: Option<Option<Utc>>,
    warned_at: Option<Option<Utc>>,
    disabled_at: Option<Option<Utc>>,
    disabled_by: Option<Option<String>>,
    told_at: Option<Option<Utc>>,
}

fn change(
    connection: &mut SqliteConnection,
    owner: EndpointOwner,
    id: EndpointId,
    change: EndpointChange,
    at: OffsetDateTime,
) -> Result<Option<Endpoint>, Failure> {
    let Some(before) = endpoint(connection, owner, id)? else { return Ok(None) };
    let has_new_url = change.url.as_ref().is_some_and(|url| *url != before.url);
    let mut row = Change {
        url: change.url,
        events: change.events.as_ref().map(stored_events),
        description: change.description,
        ..Change::default()
    };
    match (change.is_enabled, before.disabled) {
        (Some(true), Some(_)) => (row.disabled_at, row.disabled_by) = (Some(None), Some(None)),
        (Some(false), None) => {
            row.disabled_at = Some(Some(Utc(at)));
            row.disabled_by = Some(Some(DisabledBy::Request.as_str().to_owned()));
        }
        _ => {}
    }
    if has_new_url || row.disabled_at == Some(None) {
        // Untried.
        (row.succeeded_at, row.failed_at) = (Some(None), Some(None));
        (row.warned_at, row.told_at) = (Some(None), Some(None));
    }
    let updated = diesel::update(webhook_endpoints::table.find(id.0)).set(row);
    updated.execute(connection).optional_empty_changeset()?;
    endpoint(connection, owner, id)
}
