use std::sync::Mutex;

use time::Duration;

use super::*;
use crate::{
    api_key::ClientId,
    person::{
        Caller, Credential, CredentialId, Holder, Identity, LoginAnswer, NewInvitation, Passkey,
        tests::{NOW, person},
    },
    ports::{MockIdentityProvider, MockPasskeys, MockPersonRepo, MockSessionRepo},
    test_support::{CountingEntropy, clock},
};

fn answer(state: &str) -> LoginAnswer {
    LoginAnswer { state: state.to_owned(), code: "code".to_owned(), issuer: None }
}

#[derive(Default)]
struct Mocks {
    people: MockPersonRepo,
    sessions: MockSessionRepo,
    passkeys: MockPasskeys,
    providers: Vec<MockIdentityProvider>,
}

impl Mocks {
    fn sign_in(self) -> SignIn {
        let providers = self.providers.into_iter();
        SignIn {
            people: Arc::new(self.people),
            sessions: Arc::new(self.sessions),
            passkeys: Arc::new(self.passkeys),
            providers: providers.map(|it| Arc::new(it) as Arc<dyn IdentityProvider>).collect(),
            clock: clock(NOW),
            entropy: Arc::new(CountingEntropy::default()),
            terms: SessionTerms::default(),
        }
    }

    /// Keeps the ceremony that begins, and gives it out once.
    fn with_ceremonies() -> Self {
        let mut mocks = Self::default();
        let kept = Arc::new(Mutex::new(None));
        let taken = Arc::clone(&kept);
        mocks.sessions.expect_begin().returning(move |ceremony| {
            *kept.lock().unwrap() = Some(ceremony.clone());
            Ok(())
        });
        mocks.sessions.expect_take().returning(move |token, _| {
            Ok(taken.lock().unwrap().take_if(|ceremony: &mut Ceremony| ceremony.token == token))
        });
        mocks
    }

    fn adding_sessions(mut self) -> Self {
        self.sessions.expect_add().returning(|session, _| {
            let session = session.clone();
            Ok(Some(Session { id: SessionId(9), session, last_used_at: NOW, ended_at: None }))
        });
        self
    }

    /// Has a provider that signs in a subject.
    fn with_login(mut self, subject: &'static str) -> Self {
        let mut provider = MockIdentityProvider::new();
        provider.expect_name().return_const("entra".to_owned());
        provider.expect_begin().returning(|pending| Ok(pending.state.clone()));
        provider.expect_finish().returning(|_, _, _| Ok(identity(subject)));
        self.providers.push(provider);
        self
    }
}

fn identity(subject: &str) -> Identity {
    let issuer = "https://login.example".to_owned();
    Identity { issuer, subject: subject.to_owned() }
}

fn origin() -> Origin {
    Origin::parse("https://orders.example.com").unwrap()
}

fn credential() -> Credential {
    Credential { id: CredentialId(vec![7]), fixed: vec![1], changing: vec![0] }
}

fn passkey() -> Passkey {
    let name = PersonName::new("Laptop").unwrap();
    let passkey = NewPasskey { name, credential: credential(), created_at: NOW };
    Passkey { id: PasskeyId(5), person: person().id, passkey, last_used_at: None }
}

fn begun() -> BegunPasskey {
    BegunPasskey { options: "{}".to_owned(), state: vec![42] }
}

/// Returns mocks with a passkey of a person, whose sign-ins count.
fn with_passkey(change: fn(&mut Person)) -> Mocks {
    let mut mocks = Mocks::with_ceremonies().adding_sessions();
    mocks.passkeys.expect_begin_sign_in().returning(|_| Ok(begun()));
    mocks.passkeys.expect_named_credential().returning(|_| Ok(credential().id));
    mocks.passkeys.expect_finish_sign_in().returning(|_, _, _, state, _| {
        assert_eq!(state, [42]);
        Ok(vec![1])
    });
    mocks.people.expect_passkey().returning(move |_| {
        let mut person = person();
        change(&mut person);
        Ok(Some((passkey(), person)))
    });
    mocks
}

async fn finished(sign_in: &SignIn, purpose: Purpose) -> Result<SignedIn, SignInError> {
    let (token, _) = sign_in.begin_passkey(purpose, &origin()).await.unwrap();
    sign_in.finish_passkey(&token, "{}", None, None).await
}

#[tokio::test]
async fn passkey_signs_its_person_in() {
    let mut mocks = with_passkey(|_| {});
    mocks.people.expect_use_passkey().once().returning(|before, used, _| {
        assert!(*before == credential() && used == [1]);
        Ok(true)
    });
    let signed_in = finished(&mocks.sign_in(), Purpose::SignIn).await.unwrap();
    let session = signed_in.session.session;
    assert_eq!(session.doer, Doer::Person(person().id));
    assert!(session.token == signed_in.token.hash());
    assert_eq!(session.expires_at, NOW + Duration::hours(12));
}

#[tokio::test]
async fn ceremony_is_used_once_and_by_its_browser_only() {
    let mut mocks = with_passkey(|_| {});
    mocks.people.expect_use_passkey().returning(|_, _, _| Ok(true));
    let sign_in = mocks.sign_in();
    let (token, _) = sign_in.begin_passkey(Purpose::SignIn, &origin()).await.unwrap();
    let other = Token::random(&CountingEntropy::starting_at(100));
    let of_other = sign_in.finish_passkey(&other, "{}", None, None).await;
    assert!(matches!(of_other, Err(SignInError::NoCeremony)));
    sign_in.finish_passkey(&token, "{}", None, None).await.unwrap();
    let again = sign_in.finish_passkey(&token, "{}", None, None).await;
    assert!(matches!(again, Err(SignInError::NoCeremony)));
}

#[tokio::test]
async fn assertion_that_another_sign_in_has_overtaken_does_not_count() {
    let mut mocks = with_passkey(|_| {});
    mocks.people.expect_use_passkey().once().returning(|_, _, _| Ok(false));
    let refused = finished(&mocks.sign_in(), Purpose::SignIn).await;
    assert!(matches!(refused, Err(SignInError::Unknown)));
}

#[tokio::test]
async fn disabled_person_is_not_signed_in() {
    let mut mocks = with_passkey(|person| person.disabled_at = Some(NOW));
    mocks.people.expect_use_passkey().returning(|_, _, _| Ok(true));
    let refused = finished(&mocks.sign_in(), Purpose::SignIn).await;
    assert!(matches!(refused, Err(SignInError::Disabled)));
}

#[tokio::test]
async fn another_person_does_not_confirm_a_session() {
    for (id, is_same) in [(person().id, true), (PersonId(77), false)] {
        let mut mocks = with_passkey(|_| {});
        mocks.people.expect_use_passkey().returning(|_, _, _| Ok(true));
        let confirmed = finished(&mocks.sign_in(), Purpose::Confirm(id, SessionId(1))).await;
        assert_eq!(matches!(confirmed, Err(SignInError::OtherPerson)), !is_same);
    }
}

#[tokio::test]
async fn invitation_is_accepted_at_the_end_of_the_ceremony_only() {
    let invitation = TokenHash([8; 32]);
    let mut mocks = Mocks::with_ceremonies().adding_sessions();
    mocks.people.expect_invitation().returning(|token| {
        let (used_at, withdrawn_at) = (None, None);
        let invitation = NewInvitation::issued(token, NOW);
        let invitation = Invitation { invitation, person: person().id, used_at, withdrawn_at };
        Ok(Some((invitation, Person { accepted_at: None, ..person() })))
    });
    mocks.people.expect_passkeys_of().returning(|_| Ok(vec![]));
    mocks.passkeys.expect_begin_registration().returning(|_, _, _| Ok(begun()));
    mocks.passkeys.expect_finish_registration().returning(|_, _, _, _| Ok(credential()));
    mocks.people.expect_accept().once().returning(move |token, method, _| {
        assert!(token == invitation);
        assert!(matches!(method, NewMethod::Passkey(made) if made.credential == credential()));
        Ok(person())
    });
    finished(&mocks.sign_in(), Purpose::Accept(invitation)).await.unwrap();
}

/// A ceremony for one more passkey signs nobody in, and the reverse.
#[tokio::test]
async fn passkey_is_added_by_its_person_in_its_ceremony_only() {
    let add = Purpose::AddPasskey(person().id);
    for (purpose, by, is_added) in [
        (add, person().id, true),
        (add, PersonId(77), false),
        (Purpose::SignIn, person().id, false),
    ] {
        let mut mocks = Mocks::with_ceremonies();
        mocks.people.expect_find().returning(|_| Ok(Some(person())));
        mocks.people.expect_passkeys_of().returning(|_| Ok(vec![]));
        mocks.passkeys.expect_begin_sign_in().returning(|_| Ok(begun()));
        mocks.passkeys.expect_begin_registration().returning(|_, _, _| Ok(begun()));
        mocks.passkeys.expect_finish_registration().returning(|_, _, _, _| Ok(credential()));
        mocks.people.expect_add_passkey().times(usize::from(is_added)).returning(|id, passkey| {
            assert_eq!((id, passkey.name.as_str()), (person().id, "Passkey"));
            Ok(PasskeyId(6))
        });
        let sign_in = mocks.sign_in();
        let (token, _) = sign_in.begin_passkey(purpose, &origin()).await.unwrap();
        let added = sign_in.finish_added_passkey(&token, by, "{}", None).await;
        assert_eq!(added.is_ok(), is_added);
    }
    let refused = {
        let mut mocks = Mocks::with_ceremonies();
        mocks.people.expect_find().returning(|_| Ok(Some(person())));
        mocks.people.expect_passkeys_of().returning(|_| Ok(vec![]));
        mocks.passkeys.expect_begin_registration().returning(|_, _, _| Ok(begun()));
        finished(&mocks.sign_in(), add).await
    };
    assert!(matches!(refused, Err(SignInError::NoCeremony)));
}

#[tokio::test]
async fn refused_response_names_the_person_of_its_passkey() {
    let mut mocks = with_passkey(|_| {});
    mocks.passkeys.checkpoint();
    mocks.passkeys.expect_named_credential().returning(|response| match response {
        "{}" => Ok(credential().id),
        _ => Err(PasskeyFault("no JSON".into())),
    });
    let sign_in = mocks.sign_in();
    assert_eq!(sign_in.named_person("{}").await.unwrap(), Some(person().id));
    assert_eq!(sign_in.named_person("").await.unwrap(), None);
}

#[tokio::test]
async fn used_invitation_begins_no_ceremony() {
    let mut mocks = Mocks::default();
    mocks.people.expect_invitation().returning(|token| {
        let (used_at, withdrawn_at) = (Some(NOW), None);
        let invitation = NewInvitation::issued(token, NOW);
        let invitation = Invitation { invitation, person: person().id, used_at, withdrawn_at };
        Ok(Some((invitation, person())))
    });
    let accept = Purpose::Accept(TokenHash([8; 32]));
    let error = mocks.sign_in().begin_passkey(accept, &origin()).await.unwrap_err();
    assert_eq!(error.as_str(), "invitation_used");
}

#[tokio::test]
async fn login_signs_the_person_of_its_identity_in() {
    for (subject, is_known) in [("jane", true), ("other", false)] {
        let mut mocks = Mocks::with_ceremonies().adding_sessions().with_login(subject);
        mocks
            .people
            .expect_by_identity()
            .returning(|found| Ok((*found == identity("jane")).then(person)));
        let sign_in = mocks.sign_in();
        let begun =
            sign_in.begin_login(Purpose::SignIn, "entra", "https://a.example/cb", "/console");
        let (token, state) = begun.await.unwrap();
        let finished = sign_in.finish_login(&token, &answer(&state), None).await;
        match finished {
            Ok((signed_in, path)) => {
                assert!(is_known);
                assert_eq!(path, "/console");
                assert_eq!(signed_in.session.session.way, Way::Login("entra".to_owned()));
            }
            Err(error) => assert!(!is_known && matches!(error, SignInError::Unknown)),
        }
    }
}

/// A session at the provider would answer for whoever sits at the browser.
#[tokio::test]
async fn only_a_login_that_confirms_a_session_is_done_again() {
    for (purpose, again_since) in
        [(Purpose::SignIn, None), (Purpose::Confirm(person().id, SessionId(1)), Some(NOW))]
    {
        let mut provider = MockIdentityProvider::new();
        provider.expect_name().return_const("entra".to_owned());
        provider.expect_begin().once().returning(move |pending| {
            assert_eq!(pending.again_since, again_since);
            Ok(String::new())
        });
        let mocks = Mocks { providers: vec![provider], ..Mocks::with_ceremonies() };
        let sign_in = mocks.sign_in();
        sign_in.begin_login(purpose, "entra", "https://a.example/cb", "/").await.unwrap();
    }
}

#[tokio::test]
async fn login_with_another_state_ends_its_ceremony() {
    let mocks = Mocks::with_ceremonies().with_login("jane");
    let sign_in = mocks.sign_in();
    let begun = sign_in.begin_login(Purpose::SignIn, "entra", "https://a.example/cb", "//evil");
    let (token, state) = begun.await.unwrap();
    for sent in ["", &state] {
        let refused = sign_in.finish_login(&token, &answer(sent), None).await;
        assert!(matches!(refused, Err(SignInError::NoCeremony)));
    }
}

#[tokio::test]
async fn unknown_provider_begins_no_login() {
    let begun = Mocks::default().with_login("jane").sign_in();
    let begun = begun.begin_login(Purpose::SignIn, "other", "https://a.example/cb", "/").await;
    assert!(matches!(begun, Err(SignInError::NoProvider)));
}

#[tokio::test]
async fn key_becomes_a_session_as_its_key_is() {
    let mut mocks = Mocks::default();
    mocks.sessions.expect_add().once().returning(|session, replaces| {
        assert_eq!((session.is_test, replaces), (true, None));
        let session = session.clone();
        Ok(Some(Session { id: SessionId(9), session, last_used_at: NOW, ended_at: None }))
    });
    let mut key = crate::test_support::api_key();
    key.key.is_test = true;
    key.key.client = Some(ClientId(1));
    let signed_in = mocks.sign_in().with_key(&key, None).await.unwrap();
    assert_eq!(signed_in.session.session.doer, Doer::Key(key.id));
    assert_eq!(signed_in.person, None);
}

/// Signed in by a person or by a key before; a token that nobody has replaces none.
#[tokio::test]
async fn new_session_replaces_the_one_of_its_browser() {
    let before = TokenHash([6; 32]);
    for (sent, is_known, expected) in [
        (Some(before), true, Some(SessionId(4))),
        (Some(before), false, Some(SessionId(1))),
        (None, true, Some(SessionId(1))),
    ] {
        let mut mocks = Mocks::with_ceremonies().with_login("jane");
        mocks.people.expect_by_identity().returning(|_| Ok(Some(person())));
        mocks.sessions.expect_find().returning(move |token, _| {
            assert!(token == before);
            let session = NewSession {
                token,
                doer: Doer::Person(person().id),
                way: Way::Passkey,
                is_test: false,
                signed_in_at: NOW,
                expires_at: NOW,
            };
            let session = Session { id: SessionId(4), session, last_used_at: NOW, ended_at: None };
            let caller = Caller::of_session(session, Holder::Person(Arc::new(person())));
            Ok(is_known.then_some(caller))
        });
        mocks.sessions.expect_add().once().returning(move |session, replaces| {
            assert_eq!(replaces, expected);
            let session = session.clone();
            Ok(Some(Session { id: SessionId(9), session, last_used_at: NOW, ended_at: None }))
        });
        let sign_in = mocks.sign_in();
        let confirm = Purpose::Confirm(person().id, SessionId(1));
        let begun = sign_in.begin_login(confirm, "entra", "https://a.example/cb", "/console");
        let (token, state) = begun.await.unwrap();
        sign_in.finish_login(&token, &answer(&state), sent).await.unwrap();
    }
}
