//! Sessions of browsers: in the place of keys.

use std::sync::Arc;

use time::{Duration, OffsetDateTime};

use super::{Person, PersonId, PersonState, TokenHash};
use crate::{
    api_key::{ApiKey, ApiKeyId, Owner, Party, Rate, Scope},
    people::SigningServiceId,
};

/// The time after a sign-in in which an admin manages people and keys without signing in again.
pub const CONFIRMED_FOR: Duration = Duration::minutes(5);

/// Maximum number of sessions of a person at once. A person has some devices, not more.
pub const MAX_SESSIONS: usize = 20;

/// Maximum number of sessions that began with one key: all people of an office may share it.
pub const MAX_SESSIONS_OF_KEY: usize = 200;

/// How long sessions last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTerms {
    /// Time without a request after which a session ends.
    pub idle: Duration,
    /// Time after the sign-in at which it ends in any case.
    pub lifetime: Duration,
}

impl Default for SessionTerms {
    /// Returns 60 minutes and 12 hours.
    fn default() -> Self {
        Self { idle: Duration::HOUR, lifetime: Duration::hours(12) }
    }
}

/// Identifier of a session, assigned by the repository; positive. It is not secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub i64);

/// The one that a session is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doer {
    /// A key. No person is known.
    Key(ApiKeyId),
    /// A person.
    Person(PersonId),
}

impl Doer {
    /// Returns the maximum number of sessions at once.
    pub fn max_sessions(self) -> usize {
        match self {
            Self::Key(_) => MAX_SESSIONS_OF_KEY,
            Self::Person(_) => MAX_SESSIONS,
        }
    }

    /// Returns the sessions that a new one ends: those that were not used for the longest time beyond the maximum.
    /// `others` are the open ones, the last used first.
    pub fn surplus<Id>(self, others: Vec<Id>) -> impl Iterator<Item = Id> {
        others.into_iter().skip(self.max_sessions() - 1)
    }
}

/// How a session began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// By a key, pasted into the page.
    Key,
    /// By a passkey.
    Passkey,
    /// By the login of a company, at the provider of this name.
    Login(String),
}

impl Way {
    /// Returns the text in storage and answers: `key`, `passkey`, or `login:` and the provider.
    pub fn stored(&self) -> String {
        match self {
            Self::Key => "key".to_owned(),
            Self::Passkey => "passkey".to_owned(),
            Self::Login(provider) => format!("login:{provider}"),
        }
    }

    /// Reads what [`Self::stored`] writes.
    pub fn from_stored(text: &str) -> Option<Self> {
        match text {
            "key" => Some(Self::Key),
            "passkey" => Some(Self::Passkey),
            _ => text.strip_prefix("login:").map(|provider| Self::Login(provider.to_owned())),
        }
    }
}

/// A session to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Hash of its token.
    pub token: TokenHash,
    /// Whose it is.
    pub doer: Doer,
    /// How it began.
    pub way: Way,
    /// Whether it works with test orders. A session of a key is as its key.
    pub is_test: bool,
    /// The instant of the sign-in.
    pub signed_in_at: OffsetDateTime,
    /// The instant at which it ends in any case.
    pub expires_at: OffsetDateTime,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its identifier.
    pub id: SessionId,
    /// What was stored at the sign-in.
    pub session: NewSession,
    /// The instant of its last request, accurate to some seconds. At first, that of the sign-in.
    pub last_used_at: OffsetDateTime,
    /// When it was ended: by a sign-out, an admin, an operator, or a sign-in in its place.
    pub ended_at: Option<OffsetDateTime>,
}

impl Session {
    /// Checks whether it goes on: not ended, not idle for too long, not too old.
    pub fn is_valid(&self, idle: Duration, now: OffsetDateTime) -> bool {
        // A clock that was set back ends no session; the end of its lifetime bounds it.
        self.ended_at.is_none() && now < self.session.expires_at && now - self.last_used_at < idle
    }
}

/// What a session or a key gives: the side and its rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A key.
    Key(Arc<ApiKey>),
    /// A person.
    Person(Arc<Person>),
}

/// The sender of an admitted request: a key, or whoever a session is of. Handlers find the same in both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    holder: Holder,
    session: Option<Session>,
    /// The only signing service for which a person may create orders.
    binding: Option<SigningServiceId>,
}

impl From<Arc<ApiKey>> for Caller {
    fn from(key: Arc<ApiKey>) -> Self {
        Self { holder: Holder::Key(key), session: None, binding: None }
    }
}

impl From<ApiKey> for Caller {
    fn from(key: ApiKey) -> Self {
        Arc::new(key).into()
    }
}

impl Caller {
    /// Returns the caller of a session.
    pub fn of_session(session: Session, holder: Holder) -> Self {
        Self { holder, session: Some(session), binding: None }
    }

    /// Limits a person to the only signing service of a binding: people get no more of their side than its keys.
    #[must_use]
    pub fn bound_to(self, binding: Option<SigningServiceId>) -> Self {
        Self { binding, ..self }
    }

    /// Checks whether the caller may act now: the session goes on, its key is valid, its person active.
    pub fn is_valid(&self, idle: Duration, now: OffsetDateTime) -> bool {
        let goes_on = self.session.as_ref().is_none_or(|session| session.is_valid(idle, now));
        goes_on
            && match &self.holder {
                Holder::Key(key) => key.is_valid(now),
                Holder::Person(person) => person.state() == PersonState::Active,
            }
    }

    /// Returns the session; `None` for a request with a key.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Returns the key of the request, or of its session.
    pub fn key(&self) -> Option<&Arc<ApiKey>> {
        match &self.holder {
            Holder::Key(key) => Some(key),
            Holder::Person(_) => None,
        }
    }

    /// Returns the person.
    pub fn person(&self) -> Option<&Arc<Person>> {
        match &self.holder {
            Holder::Person(person) => Some(person),
            Holder::Key(_) => None,
        }
    }

    /// Returns who acts.
    pub fn doer(&self) -> Doer {
        match &self.holder {
            Holder::Key(key) => Doer::Key(key.id),
            Holder::Person(person) => Doer::Person(person.id),
        }
    }

    /// Returns the name of who acts, which their own side sees.
    pub fn name(&self) -> &str {
        match &self.holder {
            Holder::Key(key) => &key.key.name,
            Holder::Person(person) => person.person.name.as_str(),
        }
    }

    /// Returns the party.
    pub fn party(&self) -> Party {
        self.owner().party
    }

    /// Returns the owner of what the caller creates and reads.
    pub fn owner(&self) -> Owner {
        match &self.holder {
            Holder::Key(key) => key.owner(),
            Holder::Person(person) => person.owner(self.is_test()),
        }
    }

    /// Returns whether the caller works with test orders.
    pub fn is_test(&self) -> bool {
        match (&self.holder, &self.session) {
            (Holder::Key(key), _) => key.key.is_test,
            (Holder::Person(_), session) => {
                session.as_ref().is_some_and(|session| session.session.is_test)
            }
        }
    }

    /// Returns the key that an order of this caller names as its creator. For a person it is the first key of the
    /// client, whose number is the client's.
    pub fn creating_key(&self) -> Option<ApiKeyId> {
        match (&self.holder, self.party()) {
            (Holder::Key(key), _) => Some(key.id),
            (Holder::Person(_), Party::Client(client)) => Some(ApiKeyId(client.0)),
            (Holder::Person(_), Party::Service(_)) => None,
        }
    }

    /// Checks whether the caller has a scope.
    pub fn may(&self, scope: Scope) -> bool {
        match &self.holder {
            Holder::Key(key) => key.may(scope),
            Holder::Person(person) => person.scopes().contains(scope),
        }
    }

    /// Returns the only signing service for which the caller may create orders; `None` means any.
    pub fn signing_service(&self) -> Option<SigningServiceId> {
        match &self.holder {
            Holder::Key(key) => key.key.signing_service,
            Holder::Person(_) => self.binding,
        }
    }

    /// Checks whether the caller may create an order for this signing service.
    pub fn may_order_for(&self, service: SigningServiceId) -> bool {
        self.signing_service().is_none_or(|bound| bound == service)
    }

    /// Returns the rates of a key for orders without and with documents; `None` means the default of the service.
    pub fn rates(&self) -> [Option<Rate>; 2] {
        self.key().map_or([None; 2], |key| [key.key.rate, key.key.documents_rate])
    }

    /// Returns the right to manage the people and the keys of the own side.
    ///
    /// # Errors
    /// [`NoAdmin`] says why there is none.
    pub fn admin(&self, now: OffsetDateTime) -> Result<Admin, NoAdmin> {
        let admin = self.reading_admin()?;
        self.confirmed(now).map(|_| admin)
    }

    /// Returns the right to see the people and the keys of the own side, however long ago the sign-in was.
    ///
    /// # Errors
    /// [`NoAdmin::Key`], [`NoAdmin::Member`].
    pub fn reading_admin(&self) -> Result<Admin, NoAdmin> {
        // A leaked key makes no key, whether it stands in a header or in a session.
        let person = self.person().ok_or(NoAdmin::Key)?;
        if person.is_active_admin() {
            Ok(Admin { person: person.id, party: person.person.party })
        } else {
            Err(NoAdmin::Member)
        }
    }

    /// Returns the person and the session of somebody who signed in a short time ago, for a change of their own ways
    /// to sign in.
    ///
    /// # Errors
    /// [`NoAdmin::Key`], [`NoAdmin::SignInAgain`].
    pub fn confirmed(&self, now: OffsetDateTime) -> Result<(PersonId, SessionId), NoAdmin> {
        let (Some(person), Some(session)) = (self.person(), &self.session) else {
            return Err(NoAdmin::Key);
        };
        let age = now - session.session.signed_in_at;
        if age < CONFIRMED_FOR { Ok((person.id, session.id)) } else { Err(NoAdmin::SignInAgain) }
    }
}

/// The right of a person to manage the people and the keys of their own side. Only [`Caller`] gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admin {
    person: PersonId,
    party: Party,
}

impl Admin {
    /// Returns the person.
    pub fn person(self) -> PersonId {
        self.person
    }

    /// Returns their side.
    pub fn party(self) -> Party {
        self.party
    }
}

/// The reason why a caller may not manage people and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAdmin {
    /// The caller is a key, or a session of one.
    #[error("a key manages no people and no keys")]
    Key,
    /// The person is no admin.
    #[error("the person is no admin")]
    Member,
    /// The sign-in was more than [`CONFIRMED_FOR`] ago.
    #[error("the sign-in is too long ago")]
    SignInAgain,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        person::{
            Role,
            tests::{NOW, person},
        },
        test_support::api_key,
    };

    const HOUR: Duration = Duration::HOUR;

    fn session() -> Session {
        let terms = SessionTerms::default();
        Session {
            id: SessionId(9),
            session: NewSession {
                token: TokenHash([1; 32]),
                doer: Doer::Person(PersonId(3)),
                way: Way::Passkey,
                is_test: false,
                signed_in_at: NOW,
                expires_at: NOW + terms.lifetime,
            },
            last_used_at: NOW,
            ended_at: None,
        }
    }

    fn caller(change: impl FnOnce(&mut Person)) -> Caller {
        let mut person = person();
        change(&mut person);
        Caller::of_session(session(), Holder::Person(Arc::new(person)))
    }

    fn admin() -> Caller {
        caller(|person| person.person.role = Role::Admin)
    }

    #[test]
    fn session_ends_when_idle_at_its_age_and_when_ended() {
        let last = NOW + HOUR - Duration::MICROSECOND;
        assert!(session().is_valid(HOUR, last));
        assert!(!session().is_valid(HOUR, NOW + HOUR));
        let used = Session { last_used_at: NOW + Duration::hours(12), ..session() };
        assert!(!used.is_valid(HOUR, NOW + Duration::hours(12)));
        assert!(used.is_valid(HOUR, NOW + Duration::hours(12) - Duration::MICROSECOND));
        assert!(!Session { ended_at: Some(NOW), ..session() }.is_valid(HOUR, NOW));
    }

    #[test]
    fn disabled_person_and_revoked_key_have_no_session() {
        assert!(caller(|_| {}).is_valid(HOUR, NOW));
        assert!(!caller(|person| person.disabled_at = Some(NOW)).is_valid(HOUR, NOW));
        let key = ApiKey { revoked_at: Some(NOW), ..api_key() };
        let caller = Caller::of_session(session(), Holder::Key(Arc::new(key)));
        assert!(!caller.is_valid(HOUR, NOW));
    }

    #[test]
    fn person_has_owner_and_scopes_of_their_side() {
        let caller = caller(|_| {});
        assert_eq!(caller.owner(), person().owner(false));
        assert!(caller.may(Scope::OrdersCreate) && !caller.may(Scope::OrdersUpdate));
        assert!(caller.may_order_for(SigningServiceId(42)));
        assert_eq!(caller.creating_key(), Some(ApiKeyId(1)));
    }

    #[test]
    fn person_of_a_bound_side_orders_for_its_only_service() {
        let bound = caller(|_| {}).bound_to(Some(SigningServiceId(7)));
        assert!(bound.may_order_for(SigningServiceId(7)));
        assert!(!bound.may_order_for(SigningServiceId(42)));
    }

    #[test]
    fn key_never_manages() {
        let by_key = Caller::from(api_key());
        let in_session = Caller::of_session(session(), Holder::Key(Arc::new(api_key())));
        for caller in [by_key, in_session] {
            assert_eq!(caller.admin(NOW), Err(NoAdmin::Key));
            assert_eq!(caller.reading_admin(), Err(NoAdmin::Key));
            assert_eq!(caller.confirmed(NOW), Err(NoAdmin::Key));
        }
    }

    #[test]
    fn member_manages_nothing() {
        assert_eq!(caller(|_| {}).admin(NOW), Err(NoAdmin::Member));
        assert_eq!(caller(|_| {}).reading_admin(), Err(NoAdmin::Member));
    }

    #[test]
    fn admin_changes_within_five_minutes_of_the_sign_in_and_reads_later() {
        let last = NOW + Duration::minutes(5) - Duration::MICROSECOND;
        assert!(admin().admin(last).is_ok());
        let later = NOW + Duration::minutes(5);
        assert_eq!(admin().admin(later), Err(NoAdmin::SignInAgain));
        assert_eq!(admin().reading_admin().unwrap().party(), person().person.party);
    }

    #[test]
    fn way_is_read_as_it_was_stored() {
        for way in [Way::Key, Way::Passkey, Way::Login("entra".to_owned())] {
            assert_eq!(Way::from_stored(&way.stored()), Some(way));
        }
        assert_eq!(Way::from_stored("password"), None);
    }

    #[test]
    fn new_session_ends_the_longest_unused_beyond_the_maximum() {
        let person = Doer::Person(person().id);
        let others = |count: usize| (0..count).collect::<Vec<_>>();
        assert_eq!(person.surplus(others(MAX_SESSIONS - 1)).count(), 0);
        let surplus: Vec<_> = person.surplus(others(MAX_SESSIONS + 1)).collect();
        assert_eq!(surplus, [MAX_SESSIONS - 1, MAX_SESSIONS]);
        assert_eq!(Doer::Key(api_key().id).surplus(others(MAX_SESSIONS + 1)).count(), 0);
    }
}
