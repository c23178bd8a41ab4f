//! The records of people, which `docs/openapi.json` describes.

use std::collections::BTreeMap;

use domain::{
    people::EmailAddress,
    person::{Passkey, Person, PersonId, Session, SessionId},
    ports::StoreError,
};
use serde::Serialize;
use time::OffsetDateTime;

use crate::{respond::instants::timestamp, state::Api};

/// The record of a person, for themselves and the admins of their side.
#[derive(Serialize)]
pub(super) struct PersonRecord {
    id: i64,
    name: String,
    email: Option<String>,
    role: &'static str,
    state: &'static str,
    invited_at: String,
    invitation_expires_at: Option<String>,
    last_seen_at: Option<String>,
    passkeys: Vec<PasskeyRecord>,
}

impl PersonRecord {
    /// Returns the record of a person with their passkeys, and until when they can accept an invitation.
    pub(super) fn of(
        person: &Person,
        passkeys: &[Passkey],
        invitations: &BTreeMap<PersonId, OffsetDateTime>,
    ) -> Self {
        let stored = &person.person;
        Self {
            id: person.id.0,
            name: stored.name.as_str().to_owned(),
            email: stored.email.as_ref().map(EmailAddress::as_str).map(str::to_owned),
            role: stored.role.as_str(),
            state: person.state().as_str(),
            invited_at: timestamp(stored.invited_at),
            invitation_expires_at: invitations.get(&person.id).copied().map(timestamp),
            last_seen_at: person.last_seen_at.map(timestamp),
            passkeys: passkeys.iter().map(PasskeyRecord::of).collect(),
        }
    }

    /// Reads what else there is of a person.
    pub(super) async fn read(api: &Api, person: &Person) -> Result<Self, StoreError> {
        let passkeys = api.people.people.passkeys_of(&[person.id]).await?;
        let invitations = api.people.invitation_ends(&[person.id]).await?;
        Ok(Self::of(person, &passkeys, &invitations))
    }
}

/// The record of a passkey.
#[derive(Serialize)]
pub(super) struct PasskeyRecord {
    id: i64,
    name: String,
    created_at: String,
    last_used_at: Option<String>,
}

impl PasskeyRecord {
    pub(super) fn of(passkey: &Passkey) -> Self {
        Self {
            id: passkey.id.0,
            name: passkey.passkey.name.as_str().to_owned(),
            created_at: timestamp(passkey.passkey.created_at),
            last_used_at: passkey.last_used_at.map(timestamp),
        }
    }
}

/// The record of a session of a person.
#[derive(Serialize)]
pub(super) struct ListedSession {
    id: i64,
    way: String,
    signed_in_at: String,
    last_used_at: String,
    expires_at: String,
    /// Whether it is that of the request.
    is_current: bool,
}

impl ListedSession {
    pub(super) fn of(stored: &Session, current: Option<SessionId>) -> Self {
        let session = &stored.session;
        Self {
            id: stored.id.0,
            way: session.way.stored(),
            signed_in_at: timestamp(session.signed_in_at),
            last_used_at: timestamp(stored.last_used_at),
            expires_at: timestamp(session.expires_at),
            is_current: current == Some(stored.id),
        }
    }
}
