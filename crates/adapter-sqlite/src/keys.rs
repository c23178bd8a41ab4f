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
        Ok(self.writer.run(move |connection| add(connection, &key, &by)).await?)
    }

    async fn add_first(&self, key: &NewApiKey, by: &str) -> Result<Option<ApiKeyId>, StoreError> {
        let (key, by) = (key.clone(), by.to_owned());
        Ok(self.writer.run(move |connection| add_first(connection, &key, &by)).await?)
    }

    async fn rotate(
        &self,
        id: ApiKeyId,
        successor: &NewApiKey,
        until: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKeyId>, StoreError> {
        let (successor, by) = (successor.clone(), by.to_owned());
        Ok(self
            .writer
            .run(move |connection| rotate(connection, id, &successor, until, &by))
            .await?)
    }

    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        let lookup = lookup.to_owned();
        Ok(self.reader.run(move |connection| find(connection, &lookup)).await?)
    }

    async fn list(&self) -> Result<Vec<ApiKey>, StoreError> {
        Ok(self.reader.run(list).await?)
    }

    async fn revoke(
        &self,
        id: ApiKeyId,
        at: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKey>, StoreError> {
        let by = by.to_owned();
        Ok(self.writer.run(move |connection| revoke(connection, id, at, &by)).await?)
    }

    async fn note_uses(&self, uses: &[(ApiKeyId, OffsetDateTime)]) -> Result<(), StoreError> {
        let uses = uses.to_vec();
        Ok(self.writer.run(move |connection| note_uses(connection, &uses)).await?)
    }

    async fn trail(&self) -> Result<Vec<KeyEvent>, StoreError> {
        Ok(self.reader.run(trail).await?)
    }
}

fn insert(connection: &mut SqliteConnection, key: &NewApiKey) -> Result<ApiKeyId, Failure> {
    let id = diesel::insert_into(api_keys::table)
        .values(NewApiKeyRow::from(key))
        .returning(api_keys::id)
        .get_result(connection)?;
    Ok(ApiKeyId(id))
}

fn record(connection: &mut SqliteConnection, event: KeyEventRow) -> Result<(), Failure> {
    diesel::insert_into(key_events::table).values(event).execute(connection)?;
    Ok(())
}

fn add(connection: &mut SqliteConnection, key: &NewApiKey, by: &str) -> Result<ApiKeyId, Failure> {
    let id = insert(connection, key)?;
    record(connection, KeyEventRow::new(id, KeyChange::Issued, key.issued_at, by))?;
    Ok(id)
}

fn add_first(
    connection: &mut SqliteConnection,
    key: &NewApiKey,
    by: &str,
) -> Result<Option<ApiKeyId>, Failure> {
    let some = api_keys::table.select(api_keys::id).first::<i64>(connection).optional()?.is_some();
    if some { Ok(None) } else { add(connection, key, by).map(Some) }
}

fn rotate(
    connection: &mut SqliteConnection,
    id: ApiKeyId,
    successor: &NewApiKey,
    until: OffsetDateTime,
    by: &str,
) -> Result<Option<ApiKeyId>, Failure> {
    let (now, until) = (Utc(successor.issued_at), Utc(until));
    let live = api_keys::revoked_at
        .is_null()
        .and(api_keys::expires_at.is_null().or(api_keys::expires_at.gt(now)));
    let expires_at: Option<Option<Utc>> = api_keys::table
        .find(id.0)
        .filter(live)
        .select(api_keys::expires_at)
        .first(connection)
        .optional()?;
    let Some(expires_at) = expires_at else { return Ok(None) };
    let earlier = expires_at.map_or(until, |end| end.min(until));
    diesel::update(api_keys::table.find(id.0))
        .set(api_keys::expires_at.eq(earlier))
        .execute(connection)?;
    let successor_id = add(connection, successor, by)?;
    record(
        connection,
        KeyEventRow::new(
            id,
            KeyChange::Rotated { successor: successor_id },
            successor.issued_at,
            by,
        ),
    )?;
    Ok(Some(successor_id))
}

fn find(connection: &mut SqliteConnection, lookup: &str) -> Result<Option<ApiKey>, Failure> {
    let row: Option<ApiKeyRow> = api_keys::table
        .filter(api_keys::lookup.eq(lookup))
        .select(ApiKeyRow::as_select())
        .first(connection)
        .optional()?;
    Ok(row.map(ApiKeyRow::into_key).transpose()?)
}

fn list(connection: &mut SqliteConnection) -> Result<Vec<ApiKey>, Failure> {
    let rows: Vec<ApiKeyRow> =
        api_keys::table.order(api_keys::id).select(ApiKeyRow::as_select()).load(connection)?;
    Ok(rows.into_iter().map(ApiKeyRow::into_key).collect::<Result<_, _>>()?)
}

fn revoke(
    connection: &mut SqliteConnection,
    id: ApiKeyId,
    at: OffsetDateTime,
    by: &str,
) -> Result<Option<ApiKey>, Failure> {
    let live = api_keys::table.find(id.0).filter(api_keys::revoked_at.is_null());
    if diesel::update(live).set(api_keys::revoked_at.eq(Utc(at))).execute(connection)? > 0 {
        record(connection, KeyEventRow::new(id, KeyChange::Revoked, at, by))?;
    }
    let row: Option<ApiKeyRow> =
        api_keys::table.find(id.0).select(ApiKeyRow::as_select()).first(connection).optional()?;
    Ok(row.map(ApiKeyRow::into_key).transpose()?)
}

fn note_uses(
    connection: &mut SqliteConnection,
    uses: &[(ApiKeyId, OffsetDateTime)],
) -> Result<(), Failure> {
    for (id, at) in uses {
        let at = Utc(*at);
        let earlier = api_keys::last_used_at.is_null().or(api_keys::last_used_at.lt(at));
        diesel::update(api_keys::table.find(id.0).filter(earlier))
            .set(api_keys::last_used_at.eq(at))
            .execute(connection)?;
    }
    Ok(())
}

fn trail(connection: &mut SqliteConnection) -> Result<Vec<KeyEvent>, Failure> {
    let rows: Vec<KeyEventRow> = key_events::table
        .order(key_events::id)
        .select(KeyEventRow::as_select())
        .load(connection)?;
    Ok(rows.into_iter().map(KeyEventRow::into_event).collect::<Result<_, _>>()?)
}
