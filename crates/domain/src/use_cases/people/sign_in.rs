//! Use case: accept an invitation, sign in, sign in again, add a passkey.

use std::sync::Arc;

use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;

use crate::{
    api_key::ApiKey,
    person::{
        CEREMONY_LIFETIME, Ceremony, CeremonyData, Credential, Doer, Invitation, InvitationFault,
        LoginAnswer, NewPasskey, NewSession, Origin, PasskeyId, PendingLogin, Person, PersonId,
        PersonName, PersonRefusal, PersonState, Purpose, Session, SessionId, SessionTerms, Token,
        TokenHash, Way, local_path,
    },
    ports::{
        BegunPasskey, Clock, Entropy, IdentityProvider, LoginError, NewMethod, PasskeyFault,
        Passkeys, PersonError, PersonRepo, SessionRepo, StoreError,
    },
};

/// The name of a passkey that its person has not named.
const UNNAMED: &str = "Passkey";

/// Lets people sign in.
#[derive(Clone)]
pub struct SignIn {
    /// Stores people.
    pub people: Arc<dyn PersonRepo>,
    /// Stores sessions and ceremonies.
    pub sessions: Arc<dyn SessionRepo>,
    /// Checks passkeys.
    pub passkeys: Arc<dyn Passkeys>,
    /// The logins that the operator has set.
    pub providers: Vec<Arc<dyn IdentityProvider>>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides randomness for tokens.
    pub entropy: Arc<dyn Entropy>,
    /// How long sessions last.
    pub terms: SessionTerms,
}

/// A new session. Its token goes into a cookie.
#[derive(Debug)]
pub struct SignedIn {
    /// The token.
    pub token: Token,
    /// The session.
    pub session: Session,
    /// The person; `None` for a session of a key.
    pub person: Option<Person>,
}

/// The reason why nobody was signed in.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The ceremony is of another browser, used or expired; or `state` is missing or another.
    #[error("there is no such ceremony, or it is over")]
    NoCeremony,
    /// Nobody has this passkey or this login.
    #[error("nobody has this passkey or this login")]
    Unknown,
    /// The person is disabled, or the key is not valid.
    #[error("the person may not sign in")]
    Disabled,
    /// Another person has signed in than the one of the session.
    #[error("another person has signed in")]
    OtherPerson,
    /// There is no login of this name.
    #[error("there is no login of this name")]
    NoProvider,
    /// A rule forbids it.
    #[error(transparent)]
    Refused(PersonRefusal),
    /// The passkey was not accepted.
    #[error(transparent)]
    Passkey(#[from] PasskeyFault),
    /// The login failed.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<PersonError> for SignInError {
    fn from(error: PersonError) -> Self {
        match error {
            PersonError::Refused(PersonRefusal::Disabled) => Self::Disabled,
            PersonError::Refused(refusal) => Self::Refused(refusal),
            PersonError::Store(error) => Self::Store(error),
        }
    }
}

impl SignInError {
    /// Returns the name of the outcome, in accesses and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NoCeremony => "no_ceremony",
            Self::Unknown => "unknown",
            Self::Disabled => "disabled",
            Self::OtherPerson => "other_person",
            Self::NoProvider => "no_provider",
            Self::Refused(PersonRefusal::Invitation(fault)) => fault.as_str(),
            Self::Refused(_) => "refused",
            Self::Passkey(_) => "passkey_rejected",
            Self::Login(LoginError::Rejected(_)) => "login_rejected",
            Self::Login(LoginError::Unavailable(_)) => "provider_unavailable",
            Self::Store(_) => "unavailable",
        }
    }
}

fn new_passkey(
    name: Option<PersonName>,
    credential: Credential,
    created_at: OffsetDateTime,
) -> NewPasskey {
    let name = name.unwrap_or_else(|| PersonName::from_stored(UNNAMED.to_owned()));
    NewPasskey { name, credential, created_at }
}

fn invitation(fault: InvitationFault) -> SignInError {
    SignInError::Refused(fault.into())
}

impl SignIn {
    /// Returns the person of an invitation that can be accepted now. Uses nothing up.
    ///
    /// # Errors
    /// [`SignInError::Refused`] with the [`InvitationFault`].
    pub async fn invited(&self, token: TokenHash) -> Result<(Invitation, Person), SignInError> {
        let found = self.people.invitation(token).await?;
        let (invited, person) = found.ok_or_else(|| invitation(InvitationFault::Unknown))?;
        invited.check(&person, self.clock.now()).map_err(invitation)?;
        Ok((invited, person))
    }

    /// Begins a ceremony with a passkey. Returns its token for a cookie, and the options for the page.
    ///
    /// # Errors
    /// [`SignInError::Refused`]: the invitation cannot be accepted.
    pub async fn begin_passkey(
        &self,
        purpose: Purpose,
        origin: &Origin,
    ) -> Result<(Token, String), SignInError> {
        let begun = match purpose {
            Purpose::SignIn | Purpose::Confirm(..) => self.passkeys.begin_sign_in(origin)?,
            Purpose::Accept(token) => {
                let (_, person) = self.invited(token).await?;
                self.begin_registration(origin, &person).await?
            }
            Purpose::AddPasskey(id) => {
                let person = self.person(id).await?;
                self.begin_registration(origin, &person).await?
            }
        };
        let BegunPasskey { options, state } = begun;
        let data = CeremonyData::Passkey { origin: origin.as_str().to_owned(), state };
        Ok((self.begin(purpose, data).await?, options))
    }

    async fn begin_registration(
        &self,
        origin: &Origin,
        person: &Person,
    ) -> Result<BegunPasskey, SignInError> {
        let existing = self.people.passkeys_of(&[person.id]).await?;
        let existing: Vec<_> =
            existing.into_iter().map(|passkey| passkey.passkey.credential.id).collect();
        Ok(self.passkeys.begin_registration(origin, person, &existing)?)
    }

    async fn person(&self, id: PersonId) -> Result<Person, SignInError> {
        let person = self.people.find(id).await?.ok_or(SignInError::Unknown)?;
        let is_active = person.state() == PersonState::Active;
        if is_active { Ok(person) } else { Err(SignInError::Disabled) }
    }

    async fn begin(&self, purpose: Purpose, data: CeremonyData) -> Result<Token, StoreError> {
        let token = Token::random(&*self.entropy);
        let expires_at = self.clock.now().saturating_add(CEREMONY_LIFETIME);
        self.sessions.begin(&Ceremony { token: token.hash(), purpose, data, expires_at }).await?;
        Ok(token)
    }

    async fn take(&self, token: &Token, now: OffsetDateTime) -> Result<Ceremony, SignInError> {
        self.sessions.take(token.hash(), now).await?.ok_or(SignInError::NoCeremony)
    }

    /// Takes a ceremony of a passkey: what it is for, where it began, and the state of the library.
    async fn take_passkey(
        &self,
        token: &Token,
        now: OffsetDateTime,
    ) -> Result<(Purpose, Origin, Vec<u8>), SignInError> {
        let Ceremony { purpose, data, .. } = self.take(token, now).await?;
        let CeremonyData::Passkey { origin, state } = data else {
            return Err(SignInError::NoCeremony);
        };
        let origin = Origin::parse(&origin).ok_or(SignInError::NoCeremony)?;
        Ok((purpose, origin, state))
    }

    /// Signs in by a ceremony with a passkey: `response` is the JSON of the browser's answer. A ceremony that fails is
    /// over, too. The passkey of an invitation gets the name. The new session replaces that of `before`, the token which
    /// the browser had: nobody could end it there any more.
    pub async fn finish_passkey(
        &self,
        token: &Token,
        response: &str,
        name: Option<PersonName>,
        before: Option<TokenHash>,
    ) -> Result<SignedIn, SignInError> {
        let now = self.clock.now();
        let (purpose, origin, state) = self.take_passkey(token, now).await?;
        let person = match purpose {
            Purpose::Accept(token) => {
                let (_, person) = self.invited(token).await?;
                let credential =
                    self.passkeys.finish_registration(&origin, &person, &state, response)?;
                let method = NewMethod::Passkey(new_passkey(name, credential, now));
                self.people.accept(token, &method, now).await?
            }
            Purpose::AddPasskey(_) => return Err(SignInError::NoCeremony),
            Purpose::SignIn | Purpose::Confirm(..) => {
                let named = self.passkeys.named_credential(response)?;
                let found = self.people.passkey(&named).await?;
                let (passkey, person) = found.ok_or(SignInError::Unknown)?;
                let before = passkey.passkey.credential;
                let used =
                    self.passkeys.finish_sign_in(&origin, &person, &before, &state, response)?;
                if !self.people.use_passkey(&before, &used, now).await? {
                    return Err(SignInError::Unknown);
                }
                person
            }
        };
        self.start(person, Way::Passkey, purpose, before).await
    }

    /// Gives the person who has begun the ceremony one more passkey.
    pub async fn finish_added_passkey(
        &self,
        token: &Token,
        id: PersonId,
        response: &str,
        name: Option<PersonName>,
    ) -> Result<PasskeyId, SignInError> {
        let now = self.clock.now();
        let (purpose, origin, state) = self.take_passkey(token, now).await?;
        if purpose != Purpose::AddPasskey(id) {
            return Err(SignInError::NoCeremony);
        }
        let person = self.person(id).await?;
        let credential = self.passkeys.finish_registration(&origin, &person, &state, response)?;
        Ok(self.people.add_passkey(id, &new_passkey(name, credential, now)).await?)
    }

    /// Returns the person whose passkey a refused response names: for its access, and for the count of guesses.
    pub async fn named_person(&self, response: &str) -> Result<Option<PersonId>, StoreError> {
        let Ok(named) = self.passkeys.named_credential(response) else { return Ok(None) };
        Ok(self.people.passkey(&named).await?.map(|(passkey, _)| passkey.person))
    }

    /// Begins a login at a provider. Returns the token of the ceremony for a cookie, and where the browser goes.
    /// Afterwards the page goes on at `return_to`, a path of this service.
    ///
    /// # Errors
    /// [`SignInError::NoProvider`], [`SignInError::Login`].
    pub async fn begin_login(
        &self,
        purpose: Purpose,
        provider: &str,
        redirect_uri: &str,
        return_to: &str,
    ) -> Result<(Token, String), SignInError> {
        let provider = self.provider(provider)?;
        if let Purpose::Accept(token) = purpose {
            self.invited(token).await?;
        }
        let is_again = matches!(purpose, Purpose::Confirm(..));
        let (name, again_since) = (provider.name(), is_again.then(|| self.clock.now()));
        let pending = PendingLogin::random(&name, redirect_uri, again_since, &*self.entropy);
        let url = provider.begin(&pending).await?;
        let return_to = local_path(return_to).to_owned();
        let data = CeremonyData::Login { pending: Box::new(pending), return_to };
        Ok((self.begin(purpose, data).await?, url))
    }

    fn provider(&self, name: &str) -> Result<&dyn IdentityProvider, SignInError> {
        let found = self.providers.iter().find(|provider| provider.name() == name);
        found.map(|provider| &**provider).ok_or(SignInError::NoProvider)
    }

    /// Finishes a login with what the provider has sent along. Returns also the path where the page goes on. A
    /// ceremony that fails is over, too. The new session replaces that of `before`, as in [`Self::finish_passkey`].
    ///
    /// # Errors
    /// [`SignInError::NoCeremony`] also for another `state`.
    pub async fn finish_login(
        &self,
        token: &Token,
        answer: &LoginAnswer,
        before: Option<TokenHash>,
    ) -> Result<(SignedIn, String), SignInError> {
        let now = self.clock.now();
        let Ceremony { purpose, data, .. } = self.take(token, now).await?;
        let CeremonyData::Login { pending, return_to } = data else {
            return Err(SignInError::NoCeremony);
        };
        if !bool::from(pending.state.as_bytes().ct_eq(answer.state.as_bytes())) {
            return Err(SignInError::NoCeremony);
        }
        let provider = self.provider(&pending.provider)?;
        let identity = provider.finish(&pending, answer, now).await?;
        let person = match purpose {
            Purpose::Accept(token) => {
                self.people.accept(token, &NewMethod::Login(identity), now).await?
            }
            Purpose::SignIn | Purpose::Confirm(..) => {
                self.people.by_identity(&identity).await?.ok_or(SignInError::Unknown)?
            }
            Purpose::AddPasskey(_) => return Err(SignInError::NoCeremony),
        };
        let way = Way::Login(pending.provider.clone());
        Ok((self.start(person, way, purpose, before).await?, return_to))
    }

    /// Starts the session of a person. A sign-in again must be of the same person, and replaces the session. If
    /// the browser has another one by now, that is the one to replace: it has replaced the first.
    async fn start(
        &self,
        person: Person,
        way: Way,
        purpose: Purpose,
        before: Option<TokenHash>,
    ) -> Result<SignedIn, SignInError> {
        let confirmed = match purpose {
            Purpose::Confirm(other, _) if other != person.id => {
                return Err(SignInError::OtherPerson);
            }
            Purpose::Confirm(_, session) => Some(session),
            _ => None,
        };
        if person.state() != PersonState::Active {
            return Err(SignInError::Disabled);
        }
        let doer = Doer::Person(person.id);
        let (token, session) = self.store(doer, way, false, (before, confirmed)).await?;
        Ok(SignedIn { token, session, person: Some(person) })
    }

    /// Starts a session of a key that was authenticated a moment ago. It replaces that of `before`, as in
    /// [`Self::finish_passkey`].
    pub async fn with_key(
        &self,
        key: &ApiKey,
        before: Option<TokenHash>,
    ) -> Result<SignedIn, SignInError> {
        let doer = Doer::Key(key.id);
        let (token, session) = self.store(doer, Way::Key, key.key.is_test, (before, None)).await?;
        Ok(SignedIn { token, session, person: None })
    }

    /// The token is new, whatever the browser has sent: nobody can fix one beforehand. Of the session of the
    /// browser before and of the one that is confirmed, the first that exists is replaced.
    async fn store(
        &self,
        doer: Doer,
        way: Way,
        is_test: bool,
        (before, confirmed): (Option<TokenHash>, Option<SessionId>),
    ) -> Result<(Token, Session), SignInError> {
        let of_browser = match before {
            Some(before) => self.sessions.find(before, self.clock.now()).await?,
            None => None,
        };
        let of_browser = of_browser.and_then(|caller| caller.session().map(|it| it.id));
        let replaces = of_browser.or(confirmed);
        let (token, now) = (Token::random(&*self.entropy), self.clock.now());
        let session = NewSession {
            token: token.hash(),
            doer,
            way,
            is_test,
            signed_in_at: now,
            expires_at: now.saturating_add(self.terms.lifetime),
        };
        let stored = self.sessions.add(&session, replaces).await?;
        Ok((token, stored.ok_or(SignInError::Disabled)?))
    }
}

#[cfg(test)]
#[path = "sign_in_tests.rs"]
mod tests;
