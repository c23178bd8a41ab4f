//! `/api/people/me/passkeys`: people add and remove their own passkeys, a short time after they have signed in.

use actix_web::{HttpRequest, HttpResponse, web};
use domain::{
    person::Purpose,
    ports::StoreError,
    request::{Object, rules::closed},
    use_cases::people::sign_in::SignInError,
};

use crate::{
    admission::{
        audit::Audit, authentication::admit_any, preconditions::Preconditions, rate_limit::Policy,
    },
    body::json,
    people::{admin::person, path, record::PasskeyRecord},
    request::notes::note,
    respond::{
        answer::{Answer, created},
        problem::Problem,
    },
    sessions::{
        passkey::{FinishMembers, begun, ceremony},
        signing_in::explained,
    },
    state::State,
};

pub(crate) async fn begin(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let caller = admit_any(&request, &api.admission, Policy::Changes).await?;
    let (person, _) = caller.confirmed(api.clock.now())?;
    preconditions.check_creation()?;
    json::refuse_members(&request, payload, &api.json_bodies, &caller).await?;
    let origin = api.admission.site.passkey_origin(&request)?;
    let purpose = Purpose::AddPasskey(person);
    let begun_passkey = api.sign_in.begin_passkey(purpose, &origin).await;
    let (token, options) = begun_passkey.map_err(|error| explained(&request, &api, error))?;
    Ok(begun(&token, &options))
}

pub(crate) async fn finish(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    let admitted = audit.admit_any(&request, &api.admission, Policy::Changes).await?;
    let caller = admitted.caller();
    let (person, _) = caller.confirmed(api.clock.now())?;
    admitted.access().concerns(person.0);
    preconditions.check_creation()?;
    let body: Object<FinishMembers> =
        json::read_object(&request, payload, &api.json_bodies, caller).await?;
    closed(&body).map_err(Problem::violations)?;
    let (response, name) = body.members.into_parts();
    let token = ceremony(&request).ok_or(SignInError::NoCeremony)?;
    let added = api.sign_in.finish_added_passkey(&token, person, &response, name).await;
    let added = added.map_err(|error| explained(&request, &api, error))?;
    note(&request, |notes| notes.message = Some("passkey added"));
    let own = api.people.people.passkeys_of(&[person]).await?;
    let found = own.iter().find(|passkey| passkey.id == added);
    // Another request may have removed it.
    let found = found.ok_or_else(|| StoreError::Internal("the new passkey is gone".into()))?;
    let location = format!("{}{}/{}", api.base_path, path::OWN_PASSKEYS, added.0);
    Ok(created(location, PasskeyRecord::of(found)))
}

pub(crate) async fn remove(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    api: State,
) -> Answer {
    let admitted = audit.admit_any(&request, &api.admission, Policy::Changes).await?;
    let caller = admitted.caller();
    let own = person(caller)?;
    admitted.access().concerns(own.id.0);
    caller.confirmed(api.clock.now())?;
    let passkey = path::passkey_id(&request)?;
    preconditions.check_without_versions()?;
    api.people.remove_own_passkey(own, passkey).await?;
    note(&request, |notes| notes.message = Some("passkey removed"));
    Ok(HttpResponse::NoContent().finish())
}
