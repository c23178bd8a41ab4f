//! The paths of keys.

use actix_web::HttpRequest;
use domain::{api_key::ApiKeyId, use_cases::keys::manage_keys::KeyError};

use crate::respond::{path_number::identifier, problem::Problem};

/// Path of the keys of a side, below the base path.
pub(crate) const KEYS: &str = "/api/keys";
/// Path of a key.
pub(crate) const KEY: &str = "/api/keys/{key_id}";
/// Path that issues the successor of a key.
pub(crate) const ROTATE: &str = "/api/keys/{key_id}/rotate";

/// Returns the path of a key.
pub(super) fn of_key(base_path: &str, ApiKeyId(id): ApiKeyId) -> String {
    format!("{base_path}{KEYS}/{id}")
}

/// Returns the key that the path of a request names. A text that is no identifier names none.
pub(super) fn key_id(request: &HttpRequest) -> Result<ApiKeyId, Problem> {
    identifier(request, "key_id").map(ApiKeyId).ok_or_else(|| KeyError::Unknown.into())
}
