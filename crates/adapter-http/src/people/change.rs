//! `PATCH /api/people/{person_id}`: an admin changes a person.

use actix_web::{HttpRequest, HttpResponse, web};
use domain::person::{PersonChange, person_request::PersonChangeBody};

use crate::{
    admission::{audit::Audit, preconditions::Preconditions},
    body::json,
    people::{
        admin::{admit_changing, manager},
        path,
        record::PersonRecord,
    },
    request::notes::note,
    respond::{answer::Answer, problem::Problem},
    state::State,
};

pub(crate) async fn change(
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
    let body: PersonChangeBody =
        json::read_object(&request, payload, &api.json_bodies, caller).await?;
    let change = PersonChange::parse(body).map_err(Problem::violations)?;
    let person = api.people.change(manager(admin), id, &change).await?;
    note(&request, |notes| notes.message = Some("person changed"));
    Ok(HttpResponse::Ok().json(PersonRecord::read(&api, &person).await?))
}
