//! `DELETE /api/people/{person_id}/passkeys/{passkey_id}`: an admin removes a passkey of a person.

use actix_web::{HttpRequest, HttpResponse};

use crate::{
    admission::{audit::Audit, preconditions::Preconditions},
    people::{
        admin::{admit_changing, manager},
        path,
    },
    request::notes::note,
    respond::answer::Answer,
    state::State,
};

pub(crate) async fn remove(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    api: State,
) -> Answer {
    let (_, admin) = admit_changing(audit, &request, &api).await?;
    let (id, passkey) = (path::person_id(&request)?, path::passkey_id(&request)?);
    preconditions.check_without_versions()?;
    api.people.remove_passkey(manager(admin), id, passkey).await?;
    note(&request, |notes| notes.message = Some("passkey removed"));
    Ok(HttpResponse::NoContent().finish())
}
