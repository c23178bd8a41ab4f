//! `GET /api/people`: the people of a side, for its admins.

use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use crate::{
    people::{
        admin::{admit_reading, manager},
        record::PersonRecord,
    },
    respond::answer::Answer,
    state::State,
};

pub(crate) async fn list(request: HttpRequest, api: State) -> Answer {
    let (_, admin) = admit_reading(&request, &api).await?;
    let people = api.people.list(manager(admin)).await?;
    let ids: Vec<_> = people.iter().map(|(person, _)| person.id).collect();
    let invitations = api.people.invitation_ends(&ids).await?;
    let records = people
        .iter()
        .map(|(person, passkeys)| PersonRecord::of(person, passkeys, &invitations))
        .collect::<Vec<_>>();
    Ok(HttpResponse::Ok().json(json!({ "people": records })))
}
