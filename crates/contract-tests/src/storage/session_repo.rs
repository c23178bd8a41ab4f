//! The contract of `SessionRepo`.

use domain::{
    api_key::{ClientId, NewApiKey, Party},
    order::SigningServiceId,
    person::{
        Ceremony, CeremonyData, ChangeRights, Doer, MAX_SESSIONS, MAX_SESSIONS_OF_KEY, NewPerson,
        NewSession, PendingLogin, PersonChange, PersonId, Purpose, Role, Session, SessionId, Way,
    },
    ports::WhichSessions,
};
use futures_util::FutureExt;
use time::{Duration, OffsetDateTime};

use super::person_repo::active;
use crate::samples::{
    MICROSECOND, NOW, Storage, api_key, at_once, by_passkey, new_invitation, new_person,
    new_session, token,
};

async fn add(storage: &Storage, session: &NewSession) -> Option<Session> {
    storage.sessions.add(session, None).await.unwrap()
}

async fn person(storage: &Storage) -> PersonId {
    active(storage, Role::Member).await.id
}

async fn is_found(storage: &Storage, session: &Session) -> bool {
    storage.sessions.find(session.session.token, NOW).await.unwrap().is_some()
}

/// With its person or its key, as they are then.
pub async fn session_is_found_by_its_token(storage: &Storage) {
    let person = active(storage, Role::Admin).await;
    let new = new_session(person.id, NOW);
    let session = add(storage, &new).await.unwrap();
    assert_eq!((&session.session, session.last_used_at, session.ended_at), (&new, NOW, None));
    let caller = storage.sessions.find(new.token, NOW).await.unwrap().unwrap();
    assert_eq!(caller.session(), Some(&session));
    assert_eq!(caller.person().map(|found| &**found), Some(&person));
    let demoted = PersonChange { role: Some(Role::Member), ..PersonChange::default() };
    storage.people.change(person.id, ChangeRights::OPERATOR, &demoted, &[], NOW).await.unwrap();
    let caller = storage.sessions.find(new.token, NOW).await.unwrap().unwrap();
    assert!(caller.reading_admin().is_err());

    let test_key = NewApiKey { is_test: true, ..api_key(NOW) };
    let key = storage.keys.add(&test_key, "tests").await.unwrap();
    let of_key = NewSession { doer: Doer::Key(key), way: Way::Key, is_test: true, ..new };
    let of_key = NewSession { token: token(), ..of_key };
    add(storage, &of_key).await.unwrap();
    let caller = storage.sessions.find(of_key.token, NOW).await.unwrap().unwrap();
    assert_eq!(caller.key().map(|found| found.id), Some(key));
    assert!(caller.is_test());
    assert_eq!(storage.sessions.find(token(), NOW).await.unwrap(), None);
}

/// Not by those of another client, and no more when one of them is free.
pub async fn person_is_bound_as_the_keys_of_the_client(storage: &Storage) {
    let service = Some(SigningServiceId(7));
    let bound = || NewApiKey { signing_service: service, is_test: false, ..api_key(NOW) };
    let client = ClientId(storage.keys.add(&bound(), "tests").await.unwrap().0);
    let (person, invitation) = (new_person(Role::Member), new_invitation());
    let person = NewPerson { party: Party::Client(client), ..person };
    let id = storage.people.invite(&person, &invitation).await.unwrap();
    storage.people.accept(invitation.token, &by_passkey(), NOW).await.unwrap();
    let session = add(storage, &new_session(id, NOW)).await.unwrap();
    let only_service = async || {
        let found = storage.sessions.find(session.session.token, NOW).await.unwrap();
        found.unwrap().signing_service()
    };
    let free = NewApiKey { signing_service: None, ..bound() };
    storage.keys.add(&free, "tests").await.unwrap();
    assert_eq!(only_service().await, service, "of another client");
    let second = NewApiKey { client: Some(client), ..bound() };
    storage.keys.add(&second, "tests").await.unwrap();
    assert_eq!(only_service().await, service);
    let free = NewApiKey { client: Some(client), signing_service: None, ..bound() };
    let free = storage.keys.add(&free, "tests").await.unwrap();
    assert_eq!(only_service().await, None);
    storage.keys.revoke(free, NOW, "tests").await.unwrap();
    assert_eq!(only_service().await, service);
}

/// Of a person who has not accepted, is disabled or unknown, and of a key that is revoked.
pub async fn session_needs_an_active_person_or_a_valid_key(storage: &Storage) {
    let invited =
        storage.people.invite(&new_person(Role::Member), &new_invitation()).await.unwrap();
    let disabled = person(storage).await;
    let change = PersonChange { is_disabled: Some(true), ..PersonChange::default() };
    storage.people.change(disabled, ChangeRights::OPERATOR, &change, &[], NOW).await.unwrap();
    for id in [invited, disabled, PersonId(999_999)] {
        assert_eq!(add(storage, &new_session(id, NOW)).await, None);
    }
    let key = storage.keys.add(&api_key(NOW), "tests").await.unwrap();
    storage.keys.revoke(key, NOW, "tests").await.unwrap();
    let of_key = NewSession { doer: Doer::Key(key), way: Way::Key, ..new_session(invited, NOW) };
    assert_eq!(add(storage, &of_key).await, None);
}

/// Whichever comes first.
pub async fn no_session_outlives_a_disabling_at_the_same_time(storage: &Storage) {
    for _ in 0..8 {
        let id = person(storage).await;
        let new = new_session(id, NOW);
        let (people, sessions, begun) =
            (storage.people.clone(), storage.sessions.clone(), new.clone());
        let change = PersonChange { is_disabled: Some(true), ..PersonChange::default() };
        let disabling = async move {
            people.change(id, ChangeRights::OPERATOR, &change, &[], NOW).await.unwrap();
        };
        let sign_in = async move { drop(sessions.add(&begun, None).await.unwrap()) };
        at_once([disabling.boxed(), sign_in.boxed()]).await;
        let found = storage.sessions.find(new.token, NOW).await.unwrap();
        assert_eq!(found, None);
    }
}

/// One alone, or all of a person but one.
pub async fn ended_session_is_not_found(storage: &Storage) {
    let (one, other) = (person(storage).await, person(storage).await);
    let mut sessions = Vec::new();
    for id in [one, one, one, other] {
        sessions.push(add(storage, &new_session(id, NOW)).await.unwrap());
    }
    let end = async |which, except| storage.sessions.end(which, except, NOW).await.unwrap();
    let listed = async |which| {
        let listed = storage.sessions.list(which, NOW).await.unwrap();
        listed.into_iter().map(|session| session.id).collect::<Vec<_>>()
    };
    let ids: Vec<_> = sessions.iter().map(|session| session.id).collect();
    assert_eq!(listed(WhichSessions::All).await, [ids[3], ids[2], ids[1], ids[0]]);
    assert_eq!(end(WhichSessions::One(ids[0]), None).await, 1);
    assert_eq!(end(WhichSessions::One(ids[0]), None).await, 0);
    assert_eq!(listed(WhichSessions::OfPerson(one)).await, [ids[2], ids[1]]);
    assert_eq!(end(WhichSessions::OfPerson(one), Some(ids[1])).await, 1);
    let mut found = Vec::new();
    for session in &sessions {
        found.push(is_found(storage, session).await);
    }
    assert_eq!(found, [false, true, false, true]);
    // Those that have ended by themselves are not listed.
    let later = NOW + Duration::hours(12);
    assert_eq!(storage.sessions.list(WhichSessions::All, later).await.unwrap(), []);
}

/// In the same step.
pub async fn session_ends_the_one_that_it_replaces(storage: &Storage) {
    let id = person(storage).await;
    let first = add(storage, &new_session(id, NOW)).await.unwrap();
    let second =
        storage.sessions.add(&new_session(id, NOW), Some(first.id)).await.unwrap().unwrap();
    assert_eq!((is_found(storage, &first).await, is_found(storage, &second).await), (false, true));
}

/// However many begin at once. Those of others stay, and one that is replaced makes room.
pub async fn longest_unused_session_ends_beyond_the_greatest_number(storage: &Storage) {
    let (id, other) = (person(storage).await, person(storage).await);
    let of_other = add(storage, &new_session(other, NOW)).await.unwrap();
    let mut sessions = Vec::new();
    for _ in 0..MAX_SESSIONS {
        sessions.push(add(storage, &new_session(id, NOW)).await.unwrap());
    }
    // The first is in use.
    storage.sessions.note_uses(&[(sessions[0].id, NOW + MICROSECOND)]).await.unwrap();
    let replaced = sessions.pop().unwrap();
    let new = new_session(id, NOW);
    let replacing = storage.sessions.add(&new, Some(replaced.id)).await.unwrap().unwrap();
    for session in &sessions {
        assert!(is_found(storage, session).await);
    }
    add(storage, &new_session(id, NOW)).await.unwrap();
    let found = async |session: &Session| is_found(storage, session).await;
    assert_eq!((found(&sessions[0]).await, found(&sessions[1]).await), (true, false));
    assert!(found(&sessions[2]).await && found(&replacing).await);

    let begin = (0..8).map(|_| {
        let (sessions, new) = (storage.sessions.clone(), new_session(id, NOW));
        async move { sessions.add(&new, None).await.unwrap() }
    });
    for begun in at_once(begin).await {
        assert!(found(&begun.unwrap()).await);
    }
    let open = storage.sessions.list(WhichSessions::OfPerson(id), NOW).await.unwrap();
    assert_eq!(open.len(), MAX_SESSIONS);
    assert!(found(&sessions[0]).await && found(&of_other).await);

    let key = storage.keys.add(&api_key(NOW), "tests").await.unwrap();
    for number in 0..=MAX_SESSIONS_OF_KEY {
        let at = NOW + MICROSECOND * i32::try_from(number).unwrap();
        let of_key = NewSession { doer: Doer::Key(key), way: Way::Key, ..new_session(id, at) };
        sessions.push(add(storage, &of_key).await.unwrap());
    }
    let of_key = &sessions[sessions.len() - MAX_SESSIONS_OF_KEY - 1..];
    assert!(!found(&of_key[0]).await && found(&of_key[1]).await);
}

/// Neither those that were ended nor those that ended by themselves.
pub async fn tokens_are_those_of_open_sessions(storage: &Storage) {
    let id = person(storage).await;
    let ended = add(storage, &new_session(id, NOW)).await.unwrap();
    let open = storage.sessions.add(&new_session(id, NOW), Some(ended.id)).await.unwrap().unwrap();
    let end = open.session.expires_at;
    let tokens = storage.sessions.tokens(end - MICROSECOND).await.unwrap();
    assert!(tokens.contains(&open.session.token) && !tokens.contains(&ended.session.token));
    assert!(!storage.sessions.tokens(end).await.unwrap().contains(&open.session.token));
}

/// A later use stays.
pub async fn use_of_a_session_is_the_last_sight_of_its_person(storage: &Storage) {
    let id = person(storage).await;
    let session = add(storage, &new_session(id, NOW)).await.unwrap();
    let used = async || {
        let caller = storage.sessions.find(session.session.token, NOW).await.unwrap().unwrap();
        caller.session().unwrap().last_used_at
    };
    let seen = async || storage.people.find(id).await.unwrap().unwrap().last_seen_at;
    let (later, unknown) = (NOW + Duration::HOUR, SessionId(999_999));
    for at in [later, NOW + MICROSECOND, later] {
        storage.sessions.note_uses(&[(session.id, at), (unknown, at)]).await.unwrap();
        assert_eq!((used().await, seen().await), (later, Some(later)));
    }
    storage.sessions.note_uses(&[]).await.unwrap();
}

/// Others stay.
pub async fn old_sessions_and_ceremonies_are_removed(storage: &Storage) {
    let id = person(storage).await;
    let session = add(storage, &new_session(id, NOW)).await.unwrap();
    let ceremony = ceremony(Purpose::SignIn, NOW + Duration::MINUTE);
    storage.sessions.begin(&ceremony).await.unwrap();
    storage.sessions.remove_before(NOW + Duration::MINUTE).await.unwrap();
    assert!(is_found(storage, &session).await);
    assert!(storage.sessions.take(ceremony.token, NOW).await.unwrap().is_some());
    storage.sessions.remove_before(session.session.expires_at + MICROSECOND).await.unwrap();
    assert!(!is_found(storage, &session).await);
}

fn ceremony(purpose: Purpose, expires_at: OffsetDateTime) -> Ceremony {
    let origin = "https://orders.example.com".to_owned();
    let data = CeremonyData::Passkey { origin, state: vec![0, 255, 1] };
    Ceremony { token: token(), purpose, data, expires_at }
}

/// Of each purpose and each way.
pub async fn ceremony_is_taken_as_it_began(storage: &Storage) {
    let later = NOW + Duration::minutes(10);
    let pending = PendingLogin {
        provider: "entra".to_owned(),
        redirect_uri: "https://orders.example.com/é".to_owned(),
        state: "s".to_owned(),
        nonce: "n".to_owned(),
        verifier: "v".to_owned(),
        again_since: Some(NOW),
    };
    let return_to = "/console?order=7".to_owned();
    let login = CeremonyData::Login { pending: Box::new(pending), return_to };
    let login = Ceremony { data: login, ..ceremony(Purpose::SignIn, later) };
    let all = [
        ceremony(Purpose::SignIn, later),
        ceremony(Purpose::Accept(token()), later),
        ceremony(Purpose::AddPasskey(PersonId(3)), later),
        ceremony(Purpose::Confirm(PersonId(3), SessionId(7)), later),
        login,
    ];
    for ceremony in all {
        storage.sessions.begin(&ceremony).await.unwrap();
        let taken = storage.sessions.take(ceremony.token, NOW).await.unwrap();
        assert_eq!(taken, Some(ceremony.clone()));
        assert_eq!(storage.sessions.take(ceremony.token, NOW).await.unwrap(), None);
    }
}

/// However many take it at once.
pub async fn ceremony_is_taken_once_before_its_end(storage: &Storage) {
    let ends = NOW + Duration::minutes(10);
    let over = ceremony(Purpose::SignIn, ends);
    storage.sessions.begin(&over).await.unwrap();
    assert_eq!(storage.sessions.take(over.token, ends).await.unwrap(), None);
    let open = ceremony(Purpose::SignIn, ends);
    storage.sessions.begin(&open).await.unwrap();
    let takes = (0..8).map(|_| {
        let (sessions, token) = (storage.sessions.clone(), open.token);
        async move { sessions.take(token, ends - MICROSECOND).await.unwrap() }
    });
    assert_eq!(at_once(takes).await.into_iter().flatten().count(), 1);
    assert_eq!(storage.sessions.take(token(), NOW).await.unwrap(), None);
}
