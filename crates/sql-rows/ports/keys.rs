//! API keys.

use async_trait::async_trait;
use diesel::{
    dsl::{exists, select},
    prelude::*,
};
use domain::{
    api_key::{ApiKey, ApiKeyId, KeyChange, KeyEvent, NewApiKey},
    ports::{ApiKeyRepo, StoreError},
};
use sql_rows::{
    ApiKeyRow, KeyEventRow, NewApiKeyRow, Utc,
    schema::{api_keys, key_events},
};
use time::OffsetDateTime;

use crate::{
    dialect::{self, Connection, RunQueryDsl, Store},
    failure::Failure,
};

#[async_trait]
impl ApiKeyRepo for Store {
    async fn add(&self, key: &NewApiKey, by: &str) -> Result<ApiKeyId, StoreError> {
        let (key, by) = (key.clone(), by.to_owned());
        self.transaction_ported(async move |connection| add(connection, &key, &by).await).await
    }

    /// The lock makes concurrent calls wait, so that only one of them finds no key.
    async fn add_first(&self, key: &NewApiKey, by: &str) -> Result<Option<ApiKeyId>, StoreError> {
        let (key, by) = (key.clone(), by.to_owned());
        let add_first = async move |connection: &mut Connection| {
            dialect::lock_name(connection, "keys").await?;
            let any = select(exists(api_keys::table.select(api_keys::id)));
            if any.get_result(connection).await? {
                return Ok(None);
            }
            add(connection, &key, &by).await.map(Some)
        };
        self.transaction_ported(add_first).await
    }

    async fn rotate(
        &self,
        id: ApiKeyId,
        successor: &NewApiKey,
        until: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKeyId>, StoreError> {
        let (successor, by) = (successor.clone(), by.to_owned());
        let rotate = async move |connection: &mut Connection| {
            let (at, until) = (successor.issued_at, Utc(until));
            dialect::lock(connection, "api_keys", &[id.0]).await?;
            let valid = api_keys::expires_at.is_null().or(api_keys::expires_at.gt(Utc(at)));
            let valid = api_keys::table
                .find(id.0)
                .filter(api_keys::revoked_at.is_null().and(valid))
                .select(api_keys::expires_at);
            let expires_at: Option<Option<Utc>> = valid.get_result(connection).await.optional()?;
            let Some(expires_at) = expires_at else { return Ok(None) };
            let earlier = expires_at.map_or(until, |end| end.min(until));
            diesel::update(api_keys::table.find(id.0))
                .set(api_keys::expires_at.eq(earlier))
                .execute(connection)
                .await?;
            let successor = add(connection, &successor, &by).await?;
            let change = KeyChange::Rotated { successor };
            record(connection, KeyEventRow::new(id, change, at, &by)).await?;
            Ok(Some(successor))
        };
        self.transaction_ported(rotate).await
    }

    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        let key = api_keys::table.filter(api_keys::lookup.eq(lookup.to_owned()));
        Ok(self.select(key, ApiKeyRow::into_key).await?.pop())
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
        let revoke = async move |connection: &mut Connection| {
            let key = api_keys::table.find(id.0);
            let valid = diesel::update(key.filter(api_keys::revoked_at.is_null()));
            if valid.set(api_keys::revoked_at.eq(Utc(at))).execute(connection).await? > 0 {
                record(connection, KeyEventRow::new(id, KeyChange::Revoked, at, &by)).await?;
            }
            let row = key.select(ApiKeyRow::as_select()).get_result(connection).await.optional()?;
            Ok(row.map(ApiKeyRow::into_key).transpose()?)
        };
        self.transaction_ported(revoke).await
    }

    async fn note_uses(&self, uses: &[(ApiKeyId, OffsetDateTime)]) -> Result<(), StoreError> {
        let uses = uses.to_vec();
        let note = async move |connection: &mut Connection| {
            let ids: Vec<i64> = uses.iter().map(|(id, _)| id.0).collect();
            dialect::lock(connection, "api_keys", &ids).await?;
            for (id, at) in uses {
                let at = Utc(at);
                let earlier = api_keys::last_used_at.is_null().or(api_keys::last_used_at.lt(at));
                diesel::update(api_keys::table.find(id.0).filter(earlier))
                    .set(api_keys::last_used_at.eq(at))
                    .execute(connection)
                    .await?;
            }
            Ok(())
        };
        self.transaction_ported(note).await
    }

    async fn trail(&self) -> Result<Vec<KeyEvent>, StoreError> {
        self.select(key_events::table.order(key_events::id), KeyEventRow::into_event).await
    }
}

async fn add(connection: &mut Connection, key: &NewApiKey, by: &str) -> Result<ApiKeyId, Failure> {
    let added = diesel::insert_into(api_keys::table)
        .values(NewApiKeyRow::from(key))
        .returning(api_keys::id);
    let id = ApiKeyId(added.get_result(connection).await?);
    record(connection, KeyEventRow::new(id, KeyChange::Issued, key.issued_at, by)).await?;
    Ok(id)
}

async fn record(connection: &mut Connection, event: KeyEventRow) -> Result<(), Failure> {
    diesel::insert_into(key_events::table).values(event).execute(connection).await?;
    Ok(())
}
