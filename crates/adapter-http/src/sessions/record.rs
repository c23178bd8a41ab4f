//! The record of a session, which `docs/openapi.json` describes.

use domain::{
    api_key::Party,
    order::EmailAddress,
    person::{CONFIRMED_FOR, Caller, Session, SessionTerms},
};
use serde::Serialize;

use crate::respond::instants::timestamp;

/// The record of the session of a request.
#[derive(Serialize)]
pub(crate) struct SessionRecord<'a> {
    id: i64,
    person: Option<OwnPerson<'a>>,
    key: Option<OwnKey<'a>>,
    side: &'static str,
    way: String,
    is_test: bool,
    signed_in_at: String,
    expires_at: String,
    idle_seconds: i64,
    confirmed_until: Option<String>,
}

#[derive(Serialize)]
struct OwnPerson<'a> {
    id: i64,
    name: &'a str,
    email: Option<&'a str>,
    role: &'static str,
}

#[derive(Serialize)]
struct OwnKey<'a> {
    id: i64,
    name: &'a str,
}

/// Returns the name of a side.
pub(crate) fn side(party: Party) -> &'static str {
    match party {
        Party::Client(_) => "client",
        Party::Service(_) => "service",
    }
}

impl<'a> SessionRecord<'a> {
    /// Returns the record of the session of a caller.
    pub(crate) fn of(caller: &'a Caller, stored: &Session, terms: SessionTerms) -> Self {
        let session = &stored.session;
        let confirmed_until = session.signed_in_at.saturating_add(CONFIRMED_FOR);
        Self {
            id: stored.id.0,
            person: caller.person().map(|person| OwnPerson {
                id: person.id.0,
                name: person.person.name.as_str(),
                email: person.person.email.as_ref().map(EmailAddress::as_str),
                role: person.person.role.as_str(),
            }),
            key: caller.key().map(|key| OwnKey { id: key.id.0, name: &key.key.name }),
            side: side(caller.party()),
            way: session.way.stored(),
            is_test: caller.is_test(),
            signed_in_at: timestamp(session.signed_in_at),
            expires_at: timestamp(session.expires_at),
            idle_seconds: terms.idle.whole_seconds(),
            confirmed_until: caller.person().map(|_| timestamp(confirmed_until)),
        }
    }
}
