use diesel::{
    pg::Pg,
    prelude::{Insertable, Queryable, Selectable},
};
use domain::{
    api_key::{ApiKey, ApiKeyId, ClientId, KeyChange, KeyEvent, KeyHash, NewApiKey, Rate},
    order::SigningServiceId,
};
use time::OffsetDateTime;

use super::{Column, read_digest};
use crate::{
    failure::Unreadable,
    schema::{api_keys, key_events},
};

#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = api_keys, check_for_backend(Pg))]
pub(crate) struct NewApiKeyRow {
    name: String,
    lookup: String,
    hash: Vec<u8>,
    signing_service_id: Option<i64>,
    issued_at: OffsetDateTime,
    expires_at: Option<OffsetDateTime>,
    is_test: bool,
    rate_per_second: Option<i64>,
    rate_burst: Option<i64>,
    documents_rate_per_second: Option<i64>,
    documents_rate_burst: Option<i64>,
    client_id: Option<i64>,
}

impl NewApiKeyRow {
    pub(crate) fn new(key: &NewApiKey) -> Self {
        Self {
            name: key.name.clone(),
            lookup: key.lookup.clone(),
            hash: key.hash.0.to_vec(),
            signing_service_id: key.signing_service.map(|service| service.0),
            issued_at: key.issued_at,
            expires_at: key.expires_at,
            is_test: key.is_test,
            rate_per_second: key.rate.map(|rate| rate.per_second.into()),
            rate_burst: key.rate.map(|rate| rate.burst.into()),
            documents_rate_per_second: key.documents_rate.map(|rate| rate.per_second.into()),
            documents_rate_burst: key.documents_rate.map(|rate| rate.burst.into()),
            client_id: key.client.map(|client| client.0),
        }
    }

    fn read(self) -> Result<NewApiKey, Column> {
        Ok(NewApiKey {
            name: self.name,
            lookup: self.lookup,
            hash: KeyHash(read_digest(self.hash, "hash")?),
            signing_service: self.signing_service_id.map(SigningServiceId),
            issued_at: self.issued_at,
            expires_at: self.expires_at,
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
#[diesel(table_name = api_keys, check_for_backend(Pg))]
pub(crate) struct ApiKeyRow {
    id: i64,
    #[diesel(embed)]
    key: NewApiKeyRow,
    revoked_at: Option<OffsetDateTime>,
    last_used_at: Option<OffsetDateTime>,
}

impl ApiKeyRow {
    pub(crate) fn into_key(self) -> Result<ApiKey, Unreadable> {
        let key = self.key.read().map_err(|column| column.of("api_keys", self.id))?;
        Ok(ApiKey {
            id: ApiKeyId(self.id),
            key,
            revoked_at: self.revoked_at,
            last_used_at: self.last_used_at,
        })
    }
}

#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = key_events, check_for_backend(Pg))]
pub(crate) struct KeyEventRow {
    api_key_id: i64,
    change: String,
    successor_id: Option<i64>,
    at: OffsetDateTime,
    by: String,
}

impl KeyEventRow {
    pub(crate) fn new(key: ApiKeyId, change: KeyChange, at: OffsetDateTime, by: &str) -> Self {
        let successor_id = change.successor().map(|id| id.0);
        Self {
            api_key_id: key.0,
            change: change.as_str().to_owned(),
            successor_id,
            at,
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
        Ok(KeyEvent { key: ApiKeyId(self.api_key_id), change, at: self.at, by: self.by })
    }
}
