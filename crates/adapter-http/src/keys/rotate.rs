//! `POST /api/keys/{key_id}/rotate`: an admin issues the successor of a key.

use actix_web::{HttpRequest, web};
use domain::api_key::key_request::{RotationBody, rotation_grace};

use crate::{
    admission::{audit::Audit, preconditions::Preconditions},
    body::json,
    keys::{path, record::IssuedKey},
    people::admin::admit_changing,
    request::notes::note,
    respond::{
        answer::{Answer, created},
        instants::timestamp,
        problem::Problem,
    },
    state::State,
};

pub(crate) async fn rotate(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let (admitted, admin) = admit_changing(audit, &request, &api).await?;
    let caller = admitted.caller();
    let id = path::key_id(&request)?;
    preconditions.check_without_versions()?;
    let body: RotationBody =
        json::read_optional_object(&request, payload, &api.json_bodies, caller).await?;
    let grace = rotation_grace(body).map_err(Problem::violations)?;
    let (successor, key, old_until) = api.own_keys.rotate(admin, id, grace).await?;
    note(&request, |notes| notes.message = Some("key rotated"));
    let stored = api.own_keys.find(admin, successor).await?;
    let record = IssuedKey::new(&stored, &key, Some(timestamp(old_until)));
    let location = path::of_key(&api.base_path, successor);
    Ok(created(location, record))
}
