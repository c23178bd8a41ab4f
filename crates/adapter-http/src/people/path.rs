//! The paths of people.

use actix_web::HttpRequest;
use domain::person::{PasskeyId, PersonId, PersonRefusal};

use crate::respond::{path_number::identifier, problem::Problem};

/// Path of the people of a side, below the base path.
pub(crate) const PEOPLE: &str = "/api/people";
/// Path of the person of the session.
pub(crate) const ME: &str = "/api/people/me";
/// Path of their passkeys.
pub(crate) const OWN_PASSKEYS: &str = "/api/people/me/passkeys";
/// Path that adds the passkey which an authenticator has made.
pub(crate) const OWN_PASSKEYS_FINISH: &str = "/api/people/me/passkeys/finish";
/// Path of one of their passkeys.
pub(crate) const OWN_PASSKEY: &str = "/api/people/me/passkeys/{passkey_id}";
/// Path of a person.
pub(crate) const PERSON: &str = "/api/people/{person_id}";
/// Path of the open invitation of a person.
pub(crate) const INVITATION: &str = "/api/people/{person_id}/invitation";
/// Path of the sessions of a person.
pub(crate) const SESSIONS: &str = "/api/people/{person_id}/sessions";
/// Path of a passkey of a person.
pub(crate) const PASSKEY: &str = "/api/people/{person_id}/passkeys/{passkey_id}";

/// Returns the path of a person.
pub(super) fn of_person(base_path: &str, PersonId(id): PersonId) -> String {
    format!("{base_path}{PEOPLE}/{id}")
}

/// Returns the person whom the path of a request names. A text that is no identifier names nobody.
pub(super) fn person_id(request: &HttpRequest) -> Result<PersonId, Problem> {
    identifier(request, "person_id").map(PersonId).ok_or_else(unknown)
}

/// Returns the passkey that the path of a request names.
pub(super) fn passkey_id(request: &HttpRequest) -> Result<PasskeyId, Problem> {
    identifier(request, "passkey_id").map(PasskeyId).ok_or_else(unknown)
}

fn unknown() -> Problem {
    PersonRefusal::Unknown.into()
}
