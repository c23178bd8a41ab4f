//! `GET` and `DELETE /api/session`: the session of the browser.

use actix_web::{HttpRequest, HttpResponse, http::header};
use domain::ports::WhichSessions;

use crate::{
    admission::{
        audit::Audit,
        authentication::{admit_any, admit_stranger},
        cookie::TokenCookie,
        preconditions::Preconditions,
        rate_limit::Policy,
    },
    request::notes::note,
    respond::{
        answer::Answer,
        problem::{Problem, ProblemCode},
    },
    sessions::record::SessionRecord,
    state::State,
};

pub(crate) async fn read(request: HttpRequest, api: State) -> Answer {
    let sends_none = !request.headers().contains_key(header::AUTHORIZATION)
        && TokenCookie::Session.text(&request).is_none();
    if sends_none {
        // A page that asks whether anyone is signed in guesses nothing: it counts as no failed authentication.
        return Err(Problem::unauthorized("This browser is not signed in."));
    }
    let caller = admit_any(&request, &api.admission, Policy::Reads).await?;
    api.answers.hold(&request, caller.party()).await?;
    let session = caller.session().ok_or_else(no_session)?;
    let record = SessionRecord::of(&caller, session, api.admission.sessions.terms);
    Ok(HttpResponse::Ok().json(record))
}

/// Signs out. A session that has ended already is none that could go on, so the answer is the same.
pub(crate) async fn end(
    audit: Audit,
    preconditions: Preconditions,
    request: HttpRequest,
    api: State,
) -> Answer {
    admit_stranger(&request, &api.admission)?;
    preconditions.check_without_versions()?;
    let signed_out =
        HttpResponse::NoContent().insert_header(TokenCookie::Session.cleared()).finish();
    if TokenCookie::Session.text(&request).is_none() {
        return Ok(signed_out);
    }
    let admitted = match audit.admit_any(&request, &api.admission, Policy::Changes).await {
        Ok(admitted) => admitted,
        Err(problem) if problem.code() == ProblemCode::SessionEnded => return Ok(signed_out),
        Err(problem) => return Err(problem),
    };
    let session = admitted.caller().session().ok_or_else(no_session)?.id;
    api.admission.sessions.end(WhichSessions::One(session), None).await?;
    note(&request, |notes| notes.message = Some("signed out"));
    Ok(signed_out)
}

/// Reports a request with a key.
pub(crate) fn no_session() -> Problem {
    let detail = "The request has an API key. Only the browser of a session has one.";
    Problem::challenge(ProblemCode::NoSession, detail, "")
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
