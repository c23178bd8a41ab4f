use diesel::{
    prelude::{Insertable, Queryable, Selectable},
    sqlite::Sqlite,
};
use domain::{
    api_key::{ApiKey, ApiKeyId, ClientId, KeyChange, KeyEvent, KeyHash, NewApiKey, Rate},
    order::SigningServiceId,
};
use time::OffsetDateTime;

use super::{Column, micros, read_digest, read_instant};
use crate::{
    failure::Unreadable,
    schema::{api_keys, key_events},
};

#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = api_keys, check_for_backend(Sqlite))]
pub(crate) struct NewApiKeyRow {
    client_id: Option<i64>,
    name: String,
    lookup: String,
    hash: Vec<u8>,
    signing_service_id: Option<i64>,
    issued_at_us: i64,
    expires_at_us: Option<i64>,
    is_test: bool,
    rate_per_second: Option<i64>,
    rate_burst: Option<i64>,
    documents_rate_per_second: Option<i64>,
    documents_rate_burst: Option<i64>,
}

impl NewApiKeyRow {
    pub(crate) fn new(key: &NewApiKey) -> Self {
        Self {
            client_id: key.client.map(|client| client.0),
            name: key.name.clone(),
            lookup: key.lookup.clone(),
            hash: key.hash.0.to_vec(),
            signing_service_id: key.signing_service.map(|service| service.0),
            issued_at_us: micros(key.issued_at),
            expires_at_us: key.expires_at.map(micros),
            is_test: key.is_test,
            rate_per_second: key.rate.map(|rate| rate.per_second.into()),
            rate_burst: key.rate.map(|rate| rate.burst.into()),
            documents_rate_per_second: key.documents_rate.map(|rate| rate.per_second.into()),
            documents_rate_burst: key.documents_rate.map(|rate| rate.burst.into()),
        }
    }

    fn read(self) -> Result<NewApiKey, Column> {
        Ok(NewApiKey {
            name: self.name,
            lookup: self.lookup,
            hash: KeyHash(read_digest(self.hash, "hash")?),
            signing_service: self.signing_service_id.map(SigningServiceId),
            issued_at: read_instant(self.issued_at_us, "issued_at_us")?,
            expires_at: self
                .expires_at_us
                .map(|at| read_instant(at, "expires_at_us"))
                .transpose()?,
            is_test: self.is_test,
            rate: read_rate(self.rate_per_second, self.rate_burst, "rate_per_second")?,
            documents_rate: read_rate(
                self.documents_rate_per_second,
                self.documents_rate_burst,
                "documents_rate_per_second",
            )?,
            client: self.client_id.map(ClientId),
        })
    }
}

fn read_rate(
    per_second: Option<i64>,
    burst: Option<i64>,
    column: &'static str,
) -> Result<Option<Rate>, Column> {
    let number = |number: i64| u32::try_from(number).map_err(|_| Column(column));
    match (per_second, burst) {
        (None, None) => Ok(None),
        (Some(per_second), Some(burst)) => {
            Ok(Some(Rate { per_second: number(per_second)?, burst: number(burst)? }))
        }
        _ => Err(Column(column)),
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = api_keys, check_for_backend(Sqlite))]
pub(crate) struct ApiKeyRow {
    id: i64,
    #[diesel(embed)]
    key: NewApiKeyRow,
    revoked_at_us: Option<i64>,
    last_used_at_us: Option<i64>,
}

impl ApiKeyRow {
    pub(crate) fn into_key(self) -> Result<ApiKey, Unreadable> {
        let id = self.id;
        self.read().map_err(|column| column.of("api_keys", id))
    }

    fn read(self) -> Result<ApiKey, Column> {
        Ok(ApiKey {
            id: ApiKeyId(self.id),
            key: self.key.read()?,
            revoked_at: self
                .revoked_at_us
                .map(|at| read_instant(at, "revoked_at_us"))
                .transpose()?,
            last_used_at: self
                .last_used_at_us
                .map(|at| read_instant(at, "last_used_at_us"))
                .transpose()?,
        })
    }
}

#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = key_events, check_for_backend(Sqlite))]
pub(crate) struct KeyEventRow {
    api_key_id: i64,
    change: String,
    successor_id: Option<i64>,
    at_us: i64,
    by: String,
}

impl KeyEventRow {
    pub(crate) fn new(key: ApiKeyId, change: KeyChange, at: OffsetDateTime, by: &str) -> Self {
        let successor_id = change.successor().map(|id| id.0);
        Self {
            api_key_id: key.0,
            change: change.as_str().to_owned(),
            successor_id,
            at_us: micros(at),
            by: by.to_owned(),
        }
    }

    pub(crate) fn into_event(self) -> Result<KeyEvent, Unreadable> {
        let key = self.api_key_id;
        self.read().map_err(|column| column.of("key_events of key", key))
    }

    fn read(self) -> Result<KeyEvent, Column> {
        let change = KeyChange::from_stored(&self.change, self.successor_id.map(ApiKeyId))
            .ok_or(Column("change"))?;
        Ok(KeyEvent {
            key: ApiKeyId(self.api_key_id),
            change,
            at: read_instant(self.at_us, "at_us")?,
            by: self.by,
        })
    }
}
