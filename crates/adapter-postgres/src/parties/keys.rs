//! API keys.

use async_trait::async_trait;
use diesel::{
    dsl::{exists, select},
    prelude::*,
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::{ApiKey, ApiKeyId, ClientId, KeyChange, KeyEvent, NewApiKey, Party},
    person::is_of_person,
    ports::{ApiKeyRepo, StoreError},
};
use sql_rows::{
    Utc,
    api_keys::{ApiKeyRow, NewApiKeyRow, first_key_of, key_unused_since, valid_key},
    key_events::KeyEventRow,
    schema::{api_keys, key_events, webhook_endpoints},
    webhook_endpoints::endpoints_made_by,
};
use time::OffsetDateTime;

use crate::{
    failure::Failure,
    locks,
    parties::people::{lock_people, side},
    statement::columns,
    store::PostgresStore,
};

#[async_trait]
impl ApiKeyRepo for PostgresStore {
    async fn add(&self, key: &NewApiKey, by: &str) -> Result<ApiKeyId, StoreError> {
        let (key, by) = (key.clone(), by.to_owned());
        self.transaction(async move |connection| add(connection, &key, &by).await).await
    }

    async fn add_by_admin(
        &self,
        key: &NewApiKey,
        party: Party,
        by: &str,
    ) -> Result<Option<ApiKeyId>, StoreError> {
        let (key, by) = (key.clone(), by.to_owned());
        let add_by_admin = async move |connection: &mut AsyncPgConnection| {
            lock_people(connection).await?;
            if is_of_person(&key.name, &side(connection, party).await?) {
                return Ok(None);
            }
            add(connection, &key, &by).await.map(Some)
        };
        self.transaction(add_by_admin).await
    }

    /// The lock makes concurrent calls wait, so that only one of them finds no key.
    async fn add_first(&self, key: &NewApiKey, by: &str) -> Result<Option<ApiKeyId>, StoreError> {
        let (key, by) = (key.clone(), by.to_owned());
        let add_first = async move |connection: &mut AsyncPgConnection| {
            locks::lock_name(connection, "keys").await?;
            let any = select(exists(api_keys::table.select(api_keys::id)));
            if any.get_result(connection).await? {
                return Ok(None);
            }
            add(connection, &key, &by).await.map(Some)
        };
        self.transaction(add_first).await
    }

    async fn rotate(
        &self,
        id: ApiKeyId,
        successor: &NewApiKey,
        until: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKeyId>, StoreError> {
        let (successor, by) = (successor.clone(), by.to_owned());
        let rotate = async move |connection: &mut AsyncPgConnection| {
            let at = successor.issued_at;
            locks::lock(connection, "api_keys", &[id.0]).await?;
            let expiry =
                valid_key(id, at).select(api_keys::expires_at).get_result(connection).await;
            let expires_at: Option<Option<Utc>> = expiry.optional()?;
            let Some(expires_at) = expires_at else { return Ok(None) };
            let earlier = expires_at.map_or(Utc(until), |end| end.min(Utc(until)));
            diesel::update(api_keys::table.find(id.0))
                .set(api_keys::expires_at.eq(earlier))
                .execute(connection)
                .await?;
            let successor = add(connection, &successor, &by).await?;
            let made = endpoints_made_by(id).select(webhook_endpoints::id);
            let made: Vec<i64> = made.get_results(connection).await?;
            locks::lock(connection, "webhook_endpoints", &made).await?;
            diesel::update(endpoints_made_by(id))
                .set(webhook_endpoints::api_key_id.eq(successor.0))
                .execute(connection)
                .await?;
            let change = KeyChange::Rotated { successor };
            record(connection, KeyEventRow::new(id, change, at, &by)).await?;
            Ok(Some(successor))
        };
        self.transaction(rotate).await
    }

    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        let key = api_keys::table.filter(api_keys::lookup.eq(lookup.to_owned()));
        Ok(self.select(key, ApiKeyRow::into_key).await?.pop())
    }

    async fn first_of(&self, client: ClientId) -> Result<Option<ApiKey>, StoreError> {
        Ok(self.select(first_key_of(client), ApiKeyRow::into_key).await?.pop())
    }

    async fn list(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.select(api_keys::table.order(api_keys::id), ApiKeyRow::into_key).await
    }

    async fn revoke(
        &self,
        id: ApiKeyId,
        at: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKey>, StoreError> {
        let by = by.to_owned();
        let revoke = async move |connection: &mut AsyncPgConnection| {
            let key = api_keys::table.find(id.0);
            let valid = diesel::update(key.filter(api_keys::revoked_at.is_null()));
            if valid.set(api_keys::revoked_at.eq(Utc(at))).execute(connection).await? > 0 {
                record(connection, KeyEventRow::new(id, KeyChange::Revoked, at, &by)).await?;
            }
            let row = key.select(columns::<ApiKeyRow>()).get_result(connection).await.optional()?;
            Ok(row.map(ApiKeyRow::into_key).transpose()?)
        };
        self.transaction(revoke).await
    }

    async fn rename_client(&self, client: ClientId, name: &str) -> Result<bool, StoreError> {
        let renamed = diesel::update(first_key_of(client));
        let renamed = renamed.set(api_keys::client_name.eq(name.to_owned()));
        Ok(self.execute(renamed).await? > 0)
    }

    async fn note_uses(&self, uses: &[(ApiKeyId, OffsetDateTime)]) -> Result<(), StoreError> {
        let uses = uses.to_vec();
        let note = async move |connection: &mut AsyncPgConnection| {
            let ids: Vec<i64> = uses.iter().map(|(id, _)| id.0).collect();
            locks::lock(connection, "api_keys", &ids).await?;
            for (id, at) in uses {
                diesel::update(key_unused_since(id, at))
                    .set(api_keys::last_used_at.eq(Utc(at)))
                    .execute(connection)
                    .await?;
            }
            Ok(())
        };
        self.transaction(note).await
    }

    async fn trail(&self) -> Result<Vec<KeyEvent>, StoreError> {
        let trail = key_events::table.order(key_events::id);
        let readable = |row: KeyEventRow| Ok(row.into_event().ok());
        Ok(self.select(trail, readable).await?.into_iter().flatten().collect())
    }
}

async fn add(
    connection: &mut AsyncPgConnection,
    key: &NewApiKey,
    by: &str,
) -> Result<ApiKeyId, Failure> {
    let added = diesel::insert_into(api_keys::table)
        .values(NewApiKeyRow::from(key))
        .returning(api_keys::id);
    let id = ApiKeyId(added.get_result(connection).await?);
    record(connection, KeyEventRow::new(id, KeyChange::Issued, key.issued_at, by)).await?;
    Ok(id)
}

async fn record(connection: &mut AsyncPgConnection, event: KeyEventRow) -> Result<(), Failure> {
    diesel::insert_into(key_events::table).values(event).execute(connection).await?;
    Ok(())
}
