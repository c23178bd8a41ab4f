//! `GET` and `PATCH /api/people/me`: what the service has of the person of the session.

use actix_web::{HttpRequest, HttpResponse, web};
use domain::person::{Person, PersonChange, person_request::OwnChangeBody};
use serde::Serialize;

use crate::{
    admission::{
        audit::Audit, authentication::admit_any, preconditions::Preconditions, rate_limit::Policy,
    },
    body::json,
    people::{admin::person, record::PersonRecord},
    request::notes::note,
    respond::{answer::Answer, problem::Problem},
    state::{Api, State},
};

pub(crate) async fn read(request: HttpRequest, api: State) -> Answer {
    let caller = admit_any(&request, &api.admission, Policy::Reads).await?;
    api.answers.hold(&request, caller.party()).await?;
    answer(&api, person(&caller)?).await
}

pub(crate) async fn change(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let admitted = audit.admit_any(&request, &api.admission, Policy::Changes).await?;
    let caller = admitted.caller();
    let own = person(caller)?;
    admitted.access().concerns(own.id.0);
    preconditions.check_without_versions()?;
    let body: OwnChangeBody =
        json::read_object(&request, payload, &api.json_bodies, caller).await?;
    let PersonChange { name, email, .. } =
        PersonChange::parse_own(body).map_err(Problem::violations)?;
    if email.as_ref().is_some_and(|email| own.person.email.as_ref() != Some(email)) {
        // The next link of the person is mailed there, and whoever reads it signs in as them.
        caller.confirmed(api.clock.now())?;
    }
    let changed = api.people.change_own(own, name, email).await?;
    note(&request, |notes| notes.message = Some("person changed"));
    answer(&api, &changed).await
}

async fn answer(api: &Api, person: &Person) -> Answer {
    let logins = api.people.people.identities_of(person.id).await?;
    let logins = logins.into_iter().map(|identity| LoginRecord { issuer: identity.issuer });
    let person = PersonRecord::read(api, person).await?;
    Ok(HttpResponse::Ok().json(OwnRecord { person, logins: logins.collect() }))
}

/// The record of the person of the session.
#[derive(Serialize)]
struct OwnRecord {
    #[serde(flatten)]
    person: PersonRecord,
    logins: Vec<LoginRecord>,
}

/// A company's login of a person. The subject there is of no use to anybody.
#[derive(Serialize)]
struct LoginRecord {
    issuer: String,
}
