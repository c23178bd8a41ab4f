//! `POST /api/session/key`: a page takes a key, and gets a session in its place. The browser keeps no key.

use actix_web::{HttpRequest, web};

use crate::{
    admission::{
        authentication::{admit_any, admit_beginning},
        preconditions::Preconditions,
        rate_limit::Policy,
    },
    body::json,
    respond::{
        answer::Answer,
        problem::{Problem, ProblemCode},
    },
    sessions::signing_in::{self, SigningIn},
    state::State,
};

pub(crate) async fn begin(
    preconditions: Preconditions,
    request: HttpRequest,
    payload: web::Payload,
    api: State,
) -> Answer {
    admit_beginning(&request, &api.admission)?;
    if !api.admission.console_keys {
        return Err(keys_disabled());
    }
    let signing_in = SigningIn::new(&request, &api, "key")?;
    let caller = match admit_any(&request, &api.admission, Policy::Changes).await {
        Ok(caller) => caller,
        Err(problem) => {
            signing_in.rejected(problem.code());
            return Err(problem);
        }
    };
    preconditions.check_creation()?;
    json::refuse_members(&request, payload, &api.json_bodies, &caller).await?;
    let (Some(key), None) = (caller.key().cloned(), caller.session()) else {
        let detail = "Send the header Authorization: Bearer <API key>.";
        return Err(Problem::unauthorized(detail));
    };
    let (sign_in, before) = (api.sign_in.clone(), signing_in::before(&request));
    let work = async move {
        let signed_in = sign_in.with_key(&key, before).await;
        signing_in.ended(signed_in, Some(key), None)
    };
    let begun = api.detached.run_to_end(work, drop).await;
    signing_in::answer(&request, &api, begun, None)
}

/// Reports that no page may take a key.
pub(crate) fn keys_disabled() -> Problem {
    let detail = "The operator of this service lets no page take a key. Sign in as a person.";
    Problem::challenge(ProblemCode::KeysDisabled, detail, "")
}
