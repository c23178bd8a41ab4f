//! Sample people and sessions.

use std::sync::atomic::{AtomicU32, Ordering};

use domain::{
    api_key::{ApiKeyId, Party},
    order::EmailAddress,
    person::{
        Ceremony, CeremonyData, ChangeRights, Credential, CredentialId, Doer, Identity,
        NewInvitation, NewPasskey, NewPerson, NewSession, PersonChange, PersonId, PersonName,
        Purpose, Role, TokenHash, UserHandle, Way,
    },
    ports::{NewMethod, PersonRepo, SessionRepo, WhichSessions},
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

/// Returns a person of the sample client, with every field. No other call returns the name.
pub fn new_person(role: Role) -> NewPerson {
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    NewPerson {
        party: Party::Client(CLIENT),
        name: PersonName::from_stored(format!("Zoë 'x\" O’Neil {number}")),
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

/// Makes each call to people and sessions.
pub async fn call_people<S: PersonRepo + SessionRepo>(store: &S) {
    let all = ChangeRights::OPERATOR;
    let admin = new_person(Role::Admin);
    store.invite_first(&admin, &new_invitation()).await.unwrap();
    let id = store.invite(&admin, &new_invitation()).await.unwrap();
    store.invite_again(id, all, &new_invitation()).await.unwrap();
    store.withdraw_invitations(id, all, NOW).await.unwrap();
    let open = new_invitation();
    store.invite_again(id, all, &open).await.unwrap();
    store.invitation(open.token).await.unwrap().unwrap();
    store.accept(open.token, &by_passkey(), NOW).await.unwrap();
    let open = new_invitation();
    store.invite_again(id, all, &open).await.unwrap();
    let identity =
        Identity { issuer: "https://login.example".to_owned(), subject: "ann".to_owned() };
    store.accept(open.token, &NewMethod::Login(identity.clone()), NOW).await.unwrap();
    let passkey = new_passkey();
    let added = store.add_passkey(id, &passkey).await.unwrap();
    PersonRepo::find(store, id).await.unwrap().unwrap();
    PersonRepo::list(store, Some(admin.party)).await.unwrap();
    PersonRepo::list(store, None).await.unwrap();
    store.passkey(&passkey.credential.id).await.unwrap().unwrap();
    assert_eq!(store.passkeys_of(&[id]).await.unwrap().len(), 2);
    assert_eq!(store.identities_of(id).await.unwrap(), std::slice::from_ref(&identity));
    assert!(store.use_passkey(&passkey.credential, &[1], NOW).await.unwrap());
    store.remove_passkey(id, added, all, &[]).await.unwrap();
    store.by_identity(&identity).await.unwrap().unwrap();
    store.names_of(&[Doer::Person(id)]).await.unwrap();
    let change = PersonChange { role: Some(Role::Member), ..PersonChange::default() };
    store.change(id, all, &change, &[], NOW).await.unwrap();

    let session = new_session(id, NOW);
    let stored = SessionRepo::add(store, &session, None).await.unwrap().unwrap();
    SessionRepo::find(store, session.token, NOW).await.unwrap().unwrap();
    let of_key = Doer::Key(ApiKeyId(1));
    let of_key = NewSession { doer: of_key, way: Way::Key, token: token(), ..new_session(id, NOW) };
    SessionRepo::add(store, &of_key, None).await.unwrap();
    assert!(store.tokens(NOW).await.unwrap().contains(&session.token));
    for which in [WhichSessions::One(stored.id), WhichSessions::OfPerson(id), WhichSessions::All] {
        SessionRepo::list(store, which, NOW).await.unwrap();
    }
    SessionRepo::note_uses(store, &[(stored.id, NOW)]).await.unwrap();
    assert_eq!(SessionRepo::end(store, WhichSessions::One(stored.id), None, NOW).await.unwrap(), 1);
    let data = CeremonyData::Passkey { origin: "http://localhost".to_owned(), state: vec![1] };
    let ceremony = Ceremony { token: token(), purpose: Purpose::SignIn, data, expires_at: NOW };
    store.begin(&ceremony).await.unwrap();
    assert!(store.take(ceremony.token, NOW - Duration::SECOND).await.unwrap().is_some());
    SessionRepo::remove_before(store, NOW).await.unwrap();
    assert!(store.erase(id, NOW).await.unwrap());
}
