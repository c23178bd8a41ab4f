//! `GET` and `DELETE /api/people/{person_id}/sessions`: where a person is signed in. People see and end their own
//! sessions, and admins those of the people of their side.

use actix_web::{HttpRequest, HttpResponse};
use domain::{
    person::{Caller, PersonId},
    ports::WhichSessions,
};
use serde_json::json;

use crate::{
    admission::{
        audit::Audit, authentication::admit_any, preconditions::Preconditions, rate_limit::Policy,
    },
    people::{
        admin::{changing, manager, person},
        path,
        record::ListedSession,
    },
    request::notes::note,
    respond::{answer::Answer, problem::Problem},
    state::State,
};

pub(crate) async fn list(request: HttpRequest, api: State) -> Answer {
    let caller = admit_any(&request, &api.admission, Policy::Reads).await?;
    api.answers.hold(&request, caller.party()).await?;
    let id = path::person_id(&request)?;
    if !is_own(&caller, id)? {
        api.people.find(manager(caller.reading_admin()?), id).await?;
    }
    let listed = api.people.sessions.list(WhichSessions::OfPerson(id)).await?;
    let current = caller.session().map(|session| session.id);
    let records =
        listed.iter().map(|session| ListedSession::of(session, current)).collect::<Vec<_>>();
    Ok(HttpResponse::Ok().json(json!({ "sessions": records })))
}

/// Ends them all, but for that of the request.
pub(crate) async fn end(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    api: State,
) -> Answer {
    let admitted = audit.admit_any(&request, &api.admission, Policy::Changes).await?;
    let caller = admitted.caller();
    let id = path::person_id(&request)?;
    preconditions.check_without_versions()?;
    if is_own(caller, id)? {
        let current = caller.session().map(|session| session.id);
        api.people.sessions.end(WhichSessions::OfPerson(id), current).await?;
    } else {
        let admin = changing(caller, &api)?;
        api.people.end_sessions(manager(admin), id, None).await?;
    }
    note(&request, |notes| notes.message = Some("sessions ended"));
    Ok(HttpResponse::NoContent().finish())
}

fn is_own(caller: &Caller, id: PersonId) -> Result<bool, Problem> {
    Ok(person(caller)?.id == id)
}
