//! `POST /api/session/invitation`: what an invitation is for. Looking uses nothing up, however often it is done.

use actix_web::{HttpRequest, HttpResponse, web};
use domain::{
    person::PersonState,
    request::{
        Code, Sent,
        rules::{optional, text},
    },
};
use garde::Validate;
use serde::{Deserialize, Serialize};

use crate::{
    admission::{authentication::failed, preconditions::Preconditions},
    body::json,
    respond::{answer::Answer, instants::timestamp, problem::Problem},
    sessions::{
        purpose::{self, invitation},
        record::side,
    },
    state::State,
};

/// The longest token that is read, in characters. All are shorter.
pub(super) const MAX_TOKEN: usize = 200;

#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
struct Members {
    #[garde(custom(optional(text(MAX_TOKEN))))]
    token: Sent<Code>,
}

pub(crate) async fn look(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    purpose::admit(&request, &api)?;
    preconditions.check_without_versions()?;
    let body: Members = json::read_small_object(&request, payload).await?;
    let token = invitation(&body.token)?;
    let found = api.sign_in.invited(token.hash()).await;
    let (invited, person) =
        found.map_err(|error| failed(&request, &api.admission, Problem::from(error)))?;
    Ok(HttpResponse::Ok().json(InvitationRecord {
        name: person.person.name.as_str(),
        side: side(person.person.party),
        role: person.person.role.as_str(),
        expires_at: timestamp(invited.invitation.expires_at),
        is_active: person.state() == PersonState::Active,
    }))
}

/// The record of an invitation, for the browser that has its token.
#[derive(Serialize)]
struct InvitationRecord<'a> {
    name: &'a str,
    side: &'static str,
    role: &'static str,
    expires_at: String,
    /// Whether the person has a way to sign in already, and gets one more.
    is_active: bool,
}
