//! Use case: find the session of a request, note its use, end it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use time::{Duration, OffsetDateTime};

use crate::{
    person::{Caller, Session, SessionId, SessionTerms, Token, TokenHash},
    ports::{Clock, SessionRepo, StoreError, WhichSessions},
    use_cases::store_waiting::{Instants, WaitingFacts, lock, put_back_earlier, take},
};

/// Time for which a cached session is valid. A sign-out takes effect within 10 s on every instance; this is half
/// of it.
const MAX_AGE: Duration = Duration::seconds(5);

/// Maximum number of cached sessions. Beyond it those that are too old to count go.
const MAX_CACHED: usize = 10_000;

/// Last uses of sessions that are not stored yet.
pub type SessionUses = Instants<SessionId>;

/// A session as it was read, and when.
struct Cached {
    caller: Arc<Caller>,
    since: Option<OffsetDateTime>,
}

/// The hashes of the tokens of all sessions, and when they were read.
#[derive(Default)]
struct Listed {
    since: Option<OffsetDateTime>,
    tokens: HashSet<TokenHash>,
}

/// Cached sessions, by the hashes of their tokens. A guess is not cached.
#[derive(Default)]
pub struct SessionCache {
    known: Mutex<HashMap<TokenHash, Cached>>,
    listed: futures_util::lock::Mutex<Listed>,
}

impl SessionCache {
    fn known(&self) -> MutexGuard<'_, HashMap<TokenHash, Cached>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there is a session of a token. However many requests ask, the store is read once in five
    /// seconds.
    async fn is_listed(
        &self,
        token: TokenHash,
        now: OffsetDateTime,
        sessions: &dyn SessionRepo,
    ) -> Result<bool, StoreError> {
        let mut listed = self.listed.lock().await;
        if !listed.since.is_some_and(|since| is_fresh(since, now)) {
            // A store that fails is not asked again by every request, either.
            *listed = Listed { since: Some(now), tokens: HashSet::new() };
            listed.tokens = sessions.tokens(now).await?;
        }
        Ok(listed.tokens.contains(&token))
    }

    /// Returns a session that was read not too long ago, and whether it was ever read.
    fn get(&self, token: TokenHash, now: OffsetDateTime) -> (Option<Arc<Caller>>, bool) {
        let known = self.known();
        let Some(Cached { caller, since }) = known.get(&token) else { return (None, false) };
        let is_fresh = since.is_some_and(|since| is_fresh(since, now));
        (is_fresh.then(|| Arc::clone(caller)), true)
    }

    fn put(&self, token: TokenHash, cached: Option<Cached>, now: OffsetDateTime) {
        let mut known = self.known();
        let Some(cached) = cached else {
            known.remove(&token);
            return;
        };
        if known.len() >= MAX_CACHED {
            known.retain(|_, cached| cached.since.is_some_and(|at| now - at < MAX_AGE));
        }
        known.insert(token, cached);
    }

    /// Has every session read anew, because some were ended here.
    fn expire(&self) {
        self.known().values_mut().for_each(|cached| cached.since = None);
    }
}

/// Returns whether something that was read is young enough. It is not if the clock was set back.
fn is_fresh(since: OffsetDateTime, now: OffsetDateTime) -> bool {
    (Duration::ZERO..MAX_AGE).contains(&(now - since))
}

/// Finds, lists and ends sessions.
#[derive(Clone)]
pub struct Sessions {
    /// Stores them.
    pub sessions: Arc<dyn SessionRepo>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// How long they last.
    pub terms: SessionTerms,
    /// Uses that are not stored yet.
    pub uses: Arc<SessionUses>,
    /// Cached sessions.
    pub cache: Arc<SessionCache>,
}

impl Sessions {
    /// Returns the caller of a session that is valid now, and notes its use. A change on another instance takes
    /// effect within five seconds.
    ///
    /// `may_look_up` is called before the store is asked for a session that this instance has never seen. If it
    /// returns false, the hashes of all sessions are read instead, at most once in five seconds. So guesses do not
    /// load the store, and sessions of the same address go on.
    pub async fn authenticate(
        &self,
        token: &Token,
        may_look_up: impl FnOnce() -> bool,
    ) -> Result<Option<Arc<Caller>>, StoreError> {
        let (hash, began) = (token.hash(), self.clock.now());
        let (mut caller, is_known) = self.cache.get(hash, began);
        let mut may_find = caller.is_none() && (is_known || may_look_up());
        if caller.is_none() && !may_find {
            may_find = self.cache.is_listed(hash, began, &*self.sessions).await?;
        }
        if may_find {
            caller = self.sessions.find(hash, began).await?.map(Arc::new);
            let cached = caller.clone().map(|caller| Cached { caller, since: Some(began) });
            self.cache.put(hash, cached, began);
        }
        let now = self.clock.now();
        let caller = caller.filter(|caller| caller.is_valid(self.terms.idle, now));
        if let Some(session) = caller.as_ref().and_then(|caller| caller.session()) {
            lock(&self.uses).insert(session.id, now);
        }
        Ok(caller)
    }

    /// Returns the sessions that go on, the newest first.
    pub async fn list(&self, which: WhichSessions) -> Result<Vec<Session>, StoreError> {
        let now = self.clock.now();
        let mut sessions = self.sessions.list(which, now).await?;
        sessions.retain(|session| session.is_valid(self.terms.idle, now));
        Ok(sessions)
    }

    /// Ends sessions, but for one. Returns how many.
    pub async fn end(
        &self,
        which: WhichSessions,
        except: Option<SessionId>,
    ) -> Result<usize, StoreError> {
        let ended = self.sessions.end(which, except, self.clock.now()).await;
        self.cache.expire();
        ended
    }

    /// Notes a session that has begun here. Its first request finds it, whatever its address did and however lately all
    /// sessions were read. Has every session read anew, because the new one may have replaced another.
    pub fn begun(&self, token: &Token, caller: Arc<Caller>) {
        self.cache.expire();
        self.cache.put(token.hash(), Some(Cached { caller, since: None }), self.clock.now());
    }

    /// Has every session read anew at its next request, because people or sessions were changed here.
    pub fn read_anew(&self) {
        self.cache.expire();
    }
}

/// The last uses of sessions that wait, and the store of sessions.
pub struct NoteSessionUses {
    /// Stores them.
    pub sessions: Arc<dyn SessionRepo>,
    /// Uses that are not stored yet.
    pub uses: Arc<SessionUses>,
}

impl WaitingFacts for NoteSessionUses {
    type Fact = (SessionId, OffsetDateTime);

    const BATCH: usize = 500;
    const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

    fn take(&self, limit: usize) -> (Vec<Self::Fact>, bool) {
        take(&self.uses, limit)
    }

    fn put_back(&self, facts: Vec<Self::Fact>) {
        put_back_earlier(&self.uses, facts);
    }

    async fn store(&self, facts: &[Self::Fact]) -> Result<(), StoreError> {
        self.sessions.note_uses(facts).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        person::{
            Doer, Holder, NewSession, PersonId, Way,
            tests::{NOW, person},
        },
        ports::{MockClock, MockSessionRepo},
        test_support::{CountingEntropy, clock},
    };

    fn token() -> Token {
        Token::random(&CountingEntropy::default())
    }

    fn caller() -> Caller {
        let session = NewSession {
            token: token().hash(),
            doer: Doer::Person(PersonId(3)),
            way: Way::Passkey,
            is_test: false,
            signed_in_at: NOW,
            expires_at: NOW + Duration::hours(12),
        };
        let session = Session { id: SessionId(9), session, last_used_at: NOW, ended_at: None };
        Caller::of_session(session, Holder::Person(Arc::new(person())))
    }

    fn using(sessions: MockSessionRepo, clock: Arc<MockClock>) -> Sessions {
        Sessions {
            sessions: Arc::new(sessions),
            clock,
            terms: SessionTerms::default(),
            uses: Arc::default(),
            cache: Arc::default(),
        }
    }

    #[tokio::test]
    async fn session_is_read_once_in_five_seconds_and_its_use_is_noted() {
        let mut repo = MockSessionRepo::new();
        repo.expect_find().once().returning(|_, _| Ok(Some(caller())));
        let sessions = using(repo, clock(NOW));
        for _ in 0..3 {
            let found = sessions.authenticate(&token(), || true).await.unwrap().unwrap();
            assert_eq!(found.owner(), caller().owner());
        }
        assert_eq!(lock(&sessions.uses).get(&SessionId(9)), Some(&NOW));
    }

    #[tokio::test]
    async fn idle_session_is_not_listed() {
        let mut repo = MockSessionRepo::new();
        repo.expect_list().once().returning(|_, _| {
            let used = caller().session().unwrap().clone();
            let idle = Session { last_used_at: NOW - Duration::HOUR, ..used.clone() };
            Ok(vec![used, idle])
        });
        let listed = using(repo, clock(NOW)).list(WhichSessions::All).await.unwrap();
        assert_eq!(listed, [caller().session().unwrap().clone()]);
    }

    #[tokio::test]
    async fn ended_session_is_read_anew_on_its_own_instance_at_once() {
        let mut repo = MockSessionRepo::new();
        let mut found = vec![None, Some(caller())];
        repo.expect_find().times(2).returning(move |_, _| Ok(found.pop().unwrap()));
        repo.expect_end().once().returning(|_, _, _| Ok(1));
        let sessions = using(repo, clock(NOW));
        assert!(sessions.authenticate(&token(), || true).await.unwrap().is_some());
        sessions.end(WhichSessions::One(SessionId(9)), None).await.unwrap();
        assert!(sessions.authenticate(&token(), || false).await.unwrap().is_none());
    }

    /// Of another instance: half of the ten seconds that are promised.
    #[tokio::test]
    async fn ended_session_is_noticed_after_five_seconds_whatever_the_address_did() {
        let now = Arc::new(Mutex::new(NOW));
        let shown = Arc::clone(&now);
        let mut clock = MockClock::new();
        clock.expect_now().returning(move || *shown.lock().unwrap());
        let mut repo = MockSessionRepo::new();
        let mut found = vec![None, Some(caller())];
        repo.expect_find().times(2).returning(move |_, _| Ok(found.pop().unwrap()));
        let sessions = using(repo, Arc::new(clock));
        let last = NOW + MAX_AGE - Duration::MICROSECOND;
        for (at, is_found) in [(NOW, true), (last, true), (NOW + MAX_AGE, false)] {
            *now.lock().unwrap() = at;
            // Only the first look-up depends on the address.
            let found = sessions.authenticate(&token(), || at == NOW).await.unwrap();
            assert_eq!(found.is_some(), is_found, "{at}");
        }
    }

    #[tokio::test]
    async fn throttled_address_finds_the_sessions_that_there_are_and_no_other() {
        let mut repo = MockSessionRepo::new();
        repo.expect_tokens().once().returning(|_| Ok([token().hash()].into()));
        repo.expect_find().once().returning(|_, _| Ok(Some(caller())));
        let sessions = using(repo, clock(NOW));
        for _ in 0..3 {
            let guess = Token::random(&CountingEntropy::starting_at(100));
            assert!(sessions.authenticate(&guess, || false).await.unwrap().is_none());
        }
        assert!(sessions.authenticate(&token(), || false).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn throttled_address_finds_a_session_that_begins_after_all_were_read() {
        let mut repo = MockSessionRepo::new();
        repo.expect_tokens().once().returning(|_| Ok(HashSet::new()));
        repo.expect_find().once().returning(|_, _| Ok(Some(caller())));
        let sessions = using(repo, clock(NOW));
        assert!(sessions.authenticate(&token(), || false).await.unwrap().is_none());
        sessions.begun(&token(), Arc::new(caller()));
        assert!(sessions.authenticate(&token(), || false).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn idle_session_is_none_and_its_use_is_not_noted() {
        let mut repo = MockSessionRepo::new();
        repo.expect_find().returning(|_, _| Ok(Some(caller())));
        let sessions = using(repo, clock(NOW + Duration::HOUR));
        assert!(sessions.authenticate(&token(), || true).await.unwrap().is_none());
        assert!(lock(&sessions.uses).is_empty());
    }
}
