//! `DELETE /api/people/{person_id}/passkeys/{passkey_id}`: an admin removes a passkey of a person.

use actix_web::{HttpRequest, HttpResponse};

use crate::{
    admission::{audit::Audit, preconditions::Preconditions, rate_limit::Policy},
    people::{
        admin::{changing, manager},
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
    let admitted = audit.admit_any(&request, &api.admission, Policy::Changes).await?;
    let admin = changing(admitted.caller(), &api)?;
    let (id, passkey) = (path::person_id(&request)?, path::passkey_id(&request)?);
    preconditions.check_without_versions()?;
    api.people.remove_passkey(manager(admin), id, passkey).await?;
    note(&request, |notes| notes.message = Some("passkey removed"));
    Ok(HttpResponse::NoContent().finish())
}
