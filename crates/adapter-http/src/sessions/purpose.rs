//! The purpose of a sign-in, as a page says it.

use actix_web::HttpRequest;
use domain::{
    person::{InvitationFault, NoAdmin, PersonRefusal, Purpose, Token},
    request::{
        Code, Sent, Violation, ViolationCode,
        rules::{Checked, fault},
    },
};

use crate::{
    admission::{
        authentication::{admit_any, admit_beginning},
        rate_limit::Policy,
    },
    respond::problem::Problem,
    state::Api,
};

const SIGN_IN: &str = "sign_in";
const ACCEPT: &str = "accept";
const CONFIRM: &str = "confirm";

/// The rule of the member `purpose`.
pub(super) fn rule(purpose: &Code) -> Checked {
    if [SIGN_IN, ACCEPT, CONFIRM].contains(&&**purpose) {
        return Ok(());
    }
    let detail = format!("must be {SIGN_IN}, {ACCEPT} or {CONFIRM}");
    fault(ViolationCode::NotAllowed, detail)
}

/// Admits a request that begins a sign-in, before its body is read.
pub(super) fn admit(request: &HttpRequest, api: &Api) -> Result<(), Problem> {
    admit_beginning(request, &api.admission)
}

/// Returns the purpose of a sign-in that begins. Only the person of a session confirms it, and the token of an
/// invitation comes in the body alone.
pub(super) async fn read(
    request: &HttpRequest,
    api: &Api,
    purpose: &Sent<Code>,
    token: &Sent<Code>,
) -> Result<Purpose, Problem> {
    match purpose.value().map(|purpose| &**purpose) {
        Some(ACCEPT) => Ok(Purpose::Accept(invitation(token)?.hash())),
        Some(CONFIRM) => {
            let caller = admit_any(request, &api.admission, Policy::Changes).await?;
            match (caller.person(), caller.session()) {
                (Some(person), Some(session)) => Ok(Purpose::Confirm(person.id, session.id)),
                _ => Err(NoAdmin::Key.into()),
            }
        }
        _ => Ok(Purpose::SignIn),
    }
}

/// Returns the token of an invitation.
pub(super) fn invitation(token: &Sent<Code>) -> Result<Token, Problem> {
    let Some(token) = token.value() else {
        let (code, detail) = (ViolationCode::Required, "is required".into());
        return Err(Problem::violations(vec![Violation {
            pointer: "/token".into(),
            code,
            detail,
        }]));
    };
    let unknown = || Problem::from(PersonRefusal::from(InvitationFault::Unknown));
    Token::parse(token).ok_or_else(unknown)
}
