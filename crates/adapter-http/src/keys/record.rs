//! The record of a key, which `docs/openapi.json` describes.

use domain::api_key::{ApiKey, PresentedKey, Scope};
use serde::Serialize;

use crate::respond::instants::timestamp;

/// The record of a key, for the admins of its side.
#[derive(Serialize)]
pub(super) struct ListedKey {
    id: i64,
    name: String,
    /// Its beginning, up to the secret.
    start: String,
    scopes: Vec<&'static str>,
    is_test: bool,
    created_at: String,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    revoked_at: Option<String>,
    signing_service_id: Option<i64>,
}

impl ListedKey {
    pub(super) fn of(stored: &ApiKey) -> Self {
        let key = &stored.key;
        Self {
            id: stored.id.0,
            name: key.name.clone(),
            start: stored.public_part(),
            scopes: Scope::ALL
                .into_iter()
                .filter(|it| stored.may(*it))
                .map(Scope::as_str)
                .collect(),
            is_test: key.is_test,
            created_at: timestamp(key.issued_at),
            expires_at: key.expires_at.map(timestamp),
            last_used_at: stored.last_used_at.map(timestamp),
            revoked_at: stored.revoked_at.map(timestamp),
            signing_service_id: key.signing_service.map(|service| service.0),
        }
    }
}

/// The record of a key that was issued. No other answer has the key itself.
#[derive(Serialize)]
pub(super) struct IssuedKey<'a> {
    #[serde(flatten)]
    record: ListedKey,
    key: &'a str,
    /// Until when the key before it stays valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_valid_until: Option<String>,
}

impl<'a> IssuedKey<'a> {
    pub(super) fn new(
        stored: &ApiKey,
        key: &'a PresentedKey,
        old_valid_until: Option<String>,
    ) -> Self {
        Self { record: ListedKey::of(stored), key: key.expose(), old_valid_until }
    }
}
