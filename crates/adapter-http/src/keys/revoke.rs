//! `DELETE /api/keys/{key_id}`: an admin revokes a key of the own side.

use actix_web::{HttpRequest, HttpResponse};

use crate::{
    admission::{audit::Audit, preconditions::Preconditions},
    keys::path,
    people::admin::admit_changing,
    request::notes::note,
    respond::answer::Answer,
    state::State,
};

pub(crate) async fn revoke(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    api: State,
) -> Answer {
    let (_, admin) = admit_changing(audit, &request, &api).await?;
    let id = path::key_id(&request)?;
    preconditions.check_without_versions()?;
    api.own_keys.revoke(admin, id).await?;
    note(&request, |notes| notes.message = Some("key revoked"));
    Ok(HttpResponse::NoContent().finish())
}
