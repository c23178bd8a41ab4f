//! Sample people and sessions.

use std::sync::atomic::{AtomicU32, Ordering};

use domain::{
    api_key::Party,
    order::EmailAddress,
    person::{
        Credential, CredentialId, Doer, NewInvitation, NewPasskey, NewPerson, NewSession, PersonId,
        PersonName, Role, TokenHash, UserHandle, Way,
    },
    ports::NewMethod,
};
use time::{Duration, OffsetDateTime};

use super::{CLIENT, NOW};

static LAST: AtomicU32 = AtomicU32::new(0);

/// Returns bytes that no other call returns.
fn unique<const N: usize>() -> [u8; N] {
    let mut bytes = [0xa5; N];
    let number = LAST.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    bytes[..4].copy_from_slice(&number);
    bytes
}

/// Returns the hash of another token at each call.
pub fn token() -> TokenHash {
    TokenHash(unique())
}

/// Returns a member of the sample client, with every field.
pub fn new_person(role: Role) -> NewPerson {
    NewPerson {
        party: Party::Client(CLIENT),
        name: PersonName::from_stored("Zoë 'x\" O’Neil".to_owned()),
        email: Some(EmailAddress::from_stored("zoe@title.example.com".to_owned())),
        role,
        handle: UserHandle(unique()),
        invited_at: NOW,
    }
}

/// Returns an invitation that is issued at [`NOW`].
pub fn new_invitation() -> NewInvitation {
    NewInvitation::issued(token(), NOW)
}

/// Returns a passkey that no other call returns.
pub fn new_passkey() -> NewPasskey {
    NewPasskey {
        name: PersonName::from_stored("Laptop".to_owned()),
        credential: Credential {
            id: CredentialId(unique::<32>().to_vec()),
            fixed: vec![1, 0, 255],
            changing: vec![0],
        },
        created_at: NOW,
    }
}

/// Returns a passkey as a way to sign in.
pub fn by_passkey() -> NewMethod {
    NewMethod::Passkey(new_passkey())
}

/// Returns a session of a person that begins at an instant and lasts 12 hours.
pub fn new_session(person: PersonId, at: OffsetDateTime) -> NewSession {
    NewSession {
        token: token(),
        doer: Doer::Person(person),
        way: Way::Login("entra".to_owned()),
        is_test: false,
        signed_in_at: at,
        expires_at: at + Duration::hours(12),
    }
}
