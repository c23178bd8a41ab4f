//! API keys.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    api_key::{ApiKey, ApiKeyId, KeyChange, KeyEvent, NewApiKey},
    ports::{ApiKeyRepo, StoreError},
};
use sql_rows::{
    ApiKeyRow, KeyEventRow, NewApiKeyRow, Utc,
    schema::{api_keys, key_events},
};
use time::OffsetDateTime;

use crate::{failure::Failure, store::SqliteStore};

#[async_trait]
impl ApiKeyRepo for SqliteStore {
    async fn add(&self, key: &NewApiKey, by: &str) -> Result<ApiKeyId, StoreError> {
        let (key, by) = (key.clone(), by.to_owned());
        self.write(move |connection| add(connection, &key, &by)).await
    }

    async fn add_first(&self, key: &NewApiKey, by: &str) -> Result<Option<ApiKeyId>, StoreError> {
        let (key, by) = (key.clone(), by.to_owned());
        let add_first = move |connection: &mut SqliteConnection| {
            let some: Option<i64> =
                api_keys::table.select(api_keys::id).first(connection).optional()?;
            if some.is_some() { Ok(None) } else { add(connection, &key, &by).map(Some) }
        };
        self.write(add_first).await
    }

    async fn rotate(
        &self,
        id: ApiKeyId,
        successor: &NewApiKey,
        until: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKeyId>, StoreError> {
        let (successor, by) = (successor.clone(), by.to_owned());
        self.write(move |connection| rotate(connection, id, &successor, Utc(until), &by)).await
    }

    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        let lookup = lookup.to_owned();
        let find = move |connection: &mut SqliteConnection| {
            let row: Option<ApiKeyRow> = api_keys::table
                .filter(api_keys::lookup.eq(lookup))
                .select(ApiKeyRow::as_select())
                .first(connection)
                .optional()?;
            Ok(row.map(ApiKeyRow::into_key).transpose()?)
        };
        self.read(find).await
    }

    async fn list(&self) -> Result<Vec<ApiKey>, StoreError> {
        let list = |connection: &mut SqliteConnection| {
            let all = api_keys::table.order(api_keys::id).select(ApiKeyRow::as_select());
            let rows: Vec<ApiKeyRow> = all.load(connection)?;
            Ok(rows.into_iter().map(ApiKeyRow::into_key).collect::<Result<_, _>>()?)
        };
        self.read(list).await
    }

    async fn revoke(
        &self,
        id: ApiKeyId,
        at: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKey>, StoreError> {
        let by = by.to_owned();
        let revoke = move |connection: &mut SqliteConnection| {
            let live = api_keys::table.find(id.0).filter(api_keys::revoked_at.is_null());
            if diesel::update(live).set(api_keys::revoked_at.eq(Utc(at))).execute(connection)? > 0 {
                record(connection, KeyEventRow::new(id, KeyChange::Revoked, at, &by))?;
            }
            let key = api_keys::table.find(id.0).select(ApiKeyRow::as_select());
            let row: Option<ApiKeyRow> = key.first(connection).optional()?;
            Ok(row.map(ApiKeyRow::into_key).transpose()?)
        };
        self.write(revoke).await
    }

    async fn note_uses(&self, uses: &[(ApiKeyId, OffsetDateTime)]) -> Result<(), StoreError> {
        let uses = uses.to_vec();
        let note = move |connection: &mut SqliteConnection| {
            for (id, at) in uses {
                let at = Utc(at);
                let earlier = api_keys::last_used_at.is_null().or(api_keys::last_used_at.lt(at));
                diesel::update(api_keys::table.find(id.0).filter(earlier))
                    .set(api_keys::last_used_at.eq(at))
                    .execute(connection)?;
            }
            Ok(())
        };
        self.write(note).await
    }

    async fn trail(&self) -> Result<Vec<KeyEvent>, StoreError> {
        let trail = |connection: &mut SqliteConnection| {
            let all = key_events::table.order(key_events::id).select(KeyEventRow::as_select());
            let rows: Vec<KeyEventRow> = all.load(connection)?;
            Ok(rows.into_iter().map(KeyEventRow::into_event).collect::<Result<_, _>>()?)
        };
        self.read(trail).await
    }
}

fn record(connection: &mut SqliteConnection, event: KeyEventRow) -> Result<(), Failure> {
    diesel::insert_into(key_events::table).values(event).execute(connection)?;
    Ok(())
}

fn add(connection: &mut SqliteConnection, key: &NewApiKey, by: &str) -> Result<ApiKeyId, Failure> {
    let id = diesel::insert_into(api_keys::table)
        .values(NewApiKeyRow::from(key))
        .returning(api_keys::id)
        .get_result(connection)?;
    let id = ApiKeyId(id);
    record(connection, KeyEventRow::new(id, KeyChange::Issued, key.issued_at, by))?;
    Ok(id)
}

fn rotate(
    connection: &mut SqliteConnection,
    id: ApiKeyId,
    successor: &NewApiKey,
    until: Utc,
    by: &str,
) -> Result<Option<ApiKeyId>, Failure> {
    let now = Utc(successor.issued_at);
    let live = api_keys::revoked_at
        .is_null()
        .and(api_keys::expires_at.is_null().or(api_keys::expires_at.gt(now)));
    let live = api_keys::table.find(id.0).filter(live).select(api_keys::expires_at);
    let expires_at: Option<Option<Utc>> = live.first(connection).optional()?;
    let Some(expires_at) = expires_at else { return Ok(None) };
    let earlier = expires_at.map_or(until, |end| end.min(until));
    diesel::update(api_keys::table.find(id.0))
        .set(api_keys::expires_at.eq(earlier))
        .execute(connection)?;
    let successor_id = add(connection, successor, by)?;
    let change = KeyChange::Rotated { successor: successor_id };
    record(connection, KeyEventRow::new(id, change, successor.issued_at, by))?;
    Ok(Some(successor_id))
}
