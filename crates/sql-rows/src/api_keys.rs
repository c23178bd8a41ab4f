//! Rows of API keys.

use std::num::TryFromIntError;

use diesel::{dsl::auto_type, prelude::*};
use domain::{
    api_key::{ApiKey, ApiKeyId, ClientId, KeyHash, NewApiKey, Party, Rate, Scopes},
    order::{EmailAddress, SigningServiceId},
};
use time::OffsetDateTime;

use crate::{Unreadable, Utc, digest, schema::api_keys};

/// An API key to issue.
#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = api_keys)]
pub struct NewApiKeyRow {
    name: String,
    lookup: String,
    hash: Vec<u8>,
    signing_service_id: Option<i64>,
    for_service: Option<i64>,
    scopes: String,
    issued_at: Utc,
    expires_at: Option<Utc>,
    is_test: bool,
    rate_per_second: Option<i64>,
    rate_burst: Option<i64>,
    documents_rate_per_second: Option<i64>,
    documents_rate_burst: Option<i64>,
    client_id: Option<i64>,
    client_name: Option<String>,
    contact: Option<String>,
}

impl From<&NewApiKey> for NewApiKeyRow {
    fn from(key: &NewApiKey) -> Self {
        Self {
            name: key.name.clone(),
            lookup: key.lookup.clone(),
            hash: key.hash.0.to_vec(),
            signing_service_id: key.signing_service.map(|service| service.0),
            for_service: key.for_service.map(|service| service.0),
            scopes: key.scopes.to_string(),
            issued_at: Utc(key.issued_at),
            expires_at: key.expires_at.map(Utc),
            is_test: key.is_test,
            rate_per_second: key.rate.map(|rate| rate.per_second.into()),
            rate_burst: key.rate.map(|rate| rate.burst.into()),
            documents_rate_per_second: key.documents_rate.map(|rate| rate.per_second.into()),
            documents_rate_burst: key.documents_rate.map(|rate| rate.burst.into()),
            client_id: key.client.map(|client| client.0),
            client_name: key.client_name.clone(),
            contact: key.contact.as_ref().map(|contact| contact.as_str().to_owned()),
        }
    }
}

/// An issued API key.
#[derive(Queryable, Selectable)]
#[diesel(table_name = api_keys)]
pub struct ApiKeyRow {
    id: i64,
    #[diesel(embed)]
    key: NewApiKeyRow,
    revoked_at: Option<Utc>,
    last_used_at: Option<Utc>,
}

impl ApiKeyRow {
    /// Returns the key.
    pub fn into_key(self) -> Result<ApiKey, Unreadable> {
        let unreadable = |column: &str| Unreadable::new("api_keys", &self.id, &column);
        let key = self.key;
        Ok(ApiKey {
            id: ApiKeyId(self.id),
            key: NewApiKey {
                name: key.name,
                lookup: key.lookup,
                hash: KeyHash(digest(key.hash, || unreadable("hash"))?),
                signing_service: key.signing_service_id.map(SigningServiceId),
                for_service: key.for_service.map(SigningServiceId),
                scopes: Scopes::from_stored(&key.scopes),
                issued_at: key.issued_at.0,
                expires_at: key.expires_at.map(|at| at.0),
                is_test: key.is_test,
                rate: rate(key.rate_per_second, key.rate_burst)
                    .map_err(|_| unreadable("rate_per_second"))?,
                documents_rate: rate(key.documents_rate_per_second, key.documents_rate_burst)
                    .map_err(|_| unreadable("documents_rate_per_second"))?,
                client: key.client_id.map(ClientId),
                client_name: key.client_name,
                contact: key.contact.map(EmailAddress::from_stored),
            },
            revoked_at: self.revoked_at.map(|at| at.0),
            last_used_at: self.last_used_at.map(|at| at.0),
        })
    }
}

fn rate(per_second: Option<i64>, burst: Option<i64>) -> Result<Option<Rate>, TryFromIntError> {
    let rate = |(per_second, burst): (i64, i64)| {
        Ok(Rate { per_second: per_second.try_into()?, burst: burst.try_into()? })
    };
    per_second.zip(burst).map(rate).transpose()
}

/// Selects a key that is neither revoked nor expired at an instant.
#[auto_type(no_type_alias)]
pub fn valid_key(id: ApiKeyId, at: OffsetDateTime) -> _ {
    let id: i64 = id.0;
    let valid: is_valid = is_valid(at);
    api_keys::table.filter(api_keys::id.eq(id).and(valid))
}

/// The condition of a key that is neither revoked nor expired at an instant.
#[auto_type]
fn is_valid(at: OffsetDateTime) -> _ {
    let at: Utc = Utc(at);
    let counts = api_keys::expires_at.is_null().or(api_keys::expires_at.gt(at));
    api_keys::revoked_at.is_null().and(counts)
}

/// The condition of a key of a client, valid or not.
#[auto_type]
fn is_of_client(client: i64) -> _ {
    let own = api_keys::client_id.eq(client).or(api_keys::id.eq(client));
    api_keys::for_service.is_null().and(own)
}

/// Selects the keys of a client, valid or not.
#[auto_type(no_type_alias)]
pub fn keys_of(client: ClientId) -> _ {
    let id: i64 = client.0;
    let own: is_of_client = is_of_client(id);
    api_keys::table.filter(own)
}

/// Selects the names of the keys of a party that are neither revoked nor expired at an instant.
#[auto_type(no_type_alias)]
pub fn names_of_valid_keys(party: Party, at: OffsetDateTime) -> _ {
    let client: i64 = client_of(party);
    let service: i64 = service_of(party);
    let of_client: is_of_client = is_of_client(client);
    let valid: is_valid = is_valid(at);
    let own = api_keys::for_service.eq(service).or(of_client);
    api_keys::table.filter(own).filter(valid).select(api_keys::name)
}

/// Returns the number of a client, or 0, which no client has.
fn client_of(party: Party) -> i64 {
    if let Party::Client(client) = party { client.0 } else { 0 }
}

/// Returns the number of a signing service, or 0, which no service has.
fn service_of(party: Party) -> i64 {
    if let Party::Service(service) = party { service.0 } else { 0 }
}

/// Selects the first key of a client.
#[auto_type(no_type_alias)]
pub fn first_key_of(client: ClientId) -> _ {
    let id: i64 = client.0;
    let begins_client = api_keys::client_id.is_null().and(api_keys::for_service.is_null());
    api_keys::table.filter(api_keys::id.eq(id).and(begins_client))
}

/// Selects a key that was not used since an instant.
#[auto_type(no_type_alias)]
pub fn key_unused_since(id: ApiKeyId, at: OffsetDateTime) -> _ {
    let id: i64 = id.0;
    let at: Utc = Utc(at);
    let is_earlier = api_keys::last_used_at.is_null().or(api_keys::last_used_at.lt(at));
    api_keys::table.filter(api_keys::id.eq(id).and(is_earlier))
}
