//! `GET /api/session/ways`: how people may sign in here.

use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use crate::{respond::answer::Answer, state::State};

/// Needs nobody to be signed in, and reads nothing.
pub(crate) async fn read(request: HttpRequest, api: State) -> Answer {
    let logins = api.sign_in.providers.iter().map(|provider| provider.name()).collect();
    let passkeys = api.admission.site.allows_passkeys(&request);
    let keys = api.admission.console_keys;
    Ok(HttpResponse::Ok().json(Ways { passkeys, logins, keys }))
}

/// The ways to sign in.
#[derive(Serialize)]
struct Ways {
    passkeys: bool,
    /// The names of the companies' logins, as the operator has set them.
    logins: Vec<String>,
    keys: bool,
}
