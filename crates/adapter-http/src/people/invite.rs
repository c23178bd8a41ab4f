//! `POST /api/people`, `POST` and `DELETE /api/people/{person_id}/invitation`: admins invite people.

use actix_web::{HttpRequest, HttpResponse, web};
use domain::{
    person::{
        Caller, INVITATION_LIFETIME, Person, Token,
        person_request::{NewPersonBody, PersonRequest},
    },
    use_cases::people::manage_people::InvitationTerms,
};
use serde::Serialize;

use crate::{
    admission::{audit::Audit, preconditions::Preconditions},
    body::json,
    people::{
        admin::{admit_changing, manager},
        path,
        record::PersonRecord,
    },
    request::notes::note,
    respond::{
        answer::{Answer, created},
        instants::timestamp,
        problem::Problem,
    },
    state::{Api, State},
};

pub(crate) async fn create(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let (admitted, admin) = admit_changing(audit, &request, &api).await?;
    let caller = admitted.caller();
    preconditions.check_creation()?;
    let body: NewPersonBody =
        json::read_object(&request, payload, &api.json_bodies, caller).await?;
    let PersonRequest { name, email, role } =
        PersonRequest::parse(body).map_err(Problem::violations)?;
    let terms = InvitationTerms { party: admin.party(), name, email, role };
    let (id, token) = api.people.invite(manager(admin), terms).await?;
    admitted.access().concerns(id.0);
    let person = api.people.find(manager(admin), id).await?;
    let record = hand_over(&request, &api, caller, &person, &token).await?;
    Ok(created(path::of_person(&api.base_path, id), record))
}

/// Invites a person once more, who has lost the link or every way to sign in.
pub(crate) async fn repeat(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let (admitted, admin) = admit_changing(audit, &request, &api).await?;
    let caller = admitted.caller();
    let id = path::person_id(&request)?;
    preconditions.check_without_versions()?;
    json::refuse_members(&request, payload, &api.json_bodies, caller).await?;
    let (person, token) = api.people.invite_again(manager(admin), id).await?;
    let record = hand_over(&request, &api, caller, &person, &token).await?;
    Ok(created(format!("{}/invitation", path::of_person(&api.base_path, id)), record))
}

pub(crate) async fn withdraw(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    api: State,
) -> Answer {
    let (_, admin) = admit_changing(audit, &request, &api).await?;
    let id = path::person_id(&request)?;
    preconditions.check_without_versions()?;
    api.people.withdraw_invitation(manager(admin), id).await?;
    note(&request, |notes| notes.message = Some("invitation withdrawn"));
    Ok(HttpResponse::NoContent().finish())
}

/// Returns the link, this once, and mails it if there is a relay, and users know the address of the service.
async fn hand_over(
    request: &HttpRequest,
    api: &Api,
    by: &Caller,
    person: &Person,
    token: &Token,
) -> Result<InvitedRecord, Problem> {
    note(request, |notes| notes.message = Some("person invited"));
    let now = api.clock.now();
    let link = api.admission.site.link(request, "invite", token);
    let mailed = match &api.invitation_mails {
        Some(mails) => {
            let mail = (person.clone(), by.name().to_owned(), link.clone());
            mails.send(&api.detached, mail, now).await
        }
        None => false,
    };
    let expires_at = timestamp(now.saturating_add(INVITATION_LIFETIME));
    let person = PersonRecord::read(api, person).await?;
    Ok(InvitedRecord { person, link, mailed, expires_at })
}

/// The record of an invitation that was issued. No other answer has its link.
#[derive(Serialize)]
struct InvitedRecord {
    person: PersonRecord,
    link: String,
    mailed: bool,
    expires_at: String,
}

#[cfg(test)]
#[path = "people_tests.rs"]
mod tests;
