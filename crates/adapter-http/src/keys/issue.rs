//! `POST /api/keys`: an admin issues a key of the own side.

use actix_web::{HttpRequest, web};
use domain::api_key::key_request::{KeyRequest, NewKeyBody};

use crate::{
    admission::{audit::Audit, preconditions::Preconditions},
    body::json,
    keys::{path, record::IssuedKey},
    people::admin::admit_changing,
    request::notes::note,
    respond::{
        answer::{Answer, created},
        problem::Problem,
    },
    state::State,
};

pub(crate) async fn issue(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let (admitted, admin) = admit_changing(audit, &request, &api).await?;
    let caller = admitted.caller();
    preconditions.check_creation()?;
    let body: NewKeyBody = json::read_object(&request, payload, &api.json_bodies, caller).await?;
    let terms = KeyRequest::parse(body, admin.party()).map_err(Problem::violations)?;
    let (id, key) = api.own_keys.issue(admin, terms).await?;
    admitted.access().concerns(id.0);
    note(&request, |notes| notes.message = Some("key issued"));
    let stored = api.own_keys.find(admin, id).await?;
    let location = path::of_key(&api.base_path, id);
    let record = IssuedKey::new(&stored, &key, None);
    Ok(created(location, record))
}
