//! Use case: invite and change people, by an admin of their side or by an operator.

use std::{collections::BTreeMap, sync::Arc};

use time::OffsetDateTime;

use crate::{
    api_key::Party,
    people::EmailAddress,
    person::{
        Admin, ChangeRights, NewInvitation, NewPerson, Passkey, PasskeyId, Person, PersonChange,
        PersonId, PersonName, PersonRefusal, Role, SessionId, Token, UserHandle,
    },
    ports::{Clock, Entropy, PersonError, PersonRepo, StoreError, WhichSessions},
    use_cases::people::sessions::Sessions,
};

/// Manages people.
#[derive(Clone)]
pub struct ManagePeople {
    /// Stores them.
    pub people: Arc<dyn PersonRepo>,
    /// Their sessions.
    pub sessions: Sessions,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides randomness for invitations.
    pub entropy: Arc<dyn Entropy>,
    /// The issuers of the logins that the operator has set. Others sign nobody in.
    pub issuers: Arc<[String]>,
}

/// The one who manages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// An operator, by a command: people of every side.
    Operator,
    /// An admin: people of the own side.
    Admin(Admin),
}

impl Manager {
    fn rights(self) -> ChangeRights {
        match self {
            Self::Operator => ChangeRights::OPERATOR,
            Self::Admin(admin) => {
                ChangeRights { party: Some(admin.party()), may_leave_none: false }
            }
        }
    }

    fn issuer(self) -> Option<PersonId> {
        match self {
            Self::Operator => None,
            Self::Admin(admin) => Some(admin.person()),
        }
    }

    fn may_manage(self, party: Party) -> bool {
        self.rights().party.is_none_or(|own| own == party)
    }
}

/// A person to invite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvitationTerms {
    /// Their side. An admin invites to the own one.
    pub party: Party,
    /// Their name.
    pub name: PersonName,
    /// Where they read mails.
    pub email: Option<EmailAddress>,
    /// Their rights.
    pub role: Role,
}

impl ManagePeople {
    /// Invites a person. The token of the link is not available later.
    ///
    /// # Errors
    /// [`PersonRefusal::Unknown`]: an admin invites to another side.
    pub async fn invite(
        &self,
        by: Manager,
        terms: InvitationTerms,
    ) -> Result<(PersonId, Token), PersonError> {
        if !by.may_manage(terms.party) {
            return Err(PersonRefusal::Unknown.into());
        }
        let (person, token, invitation) = self.invited(by, terms);
        Ok((self.people.invite(&person, &invitation).await?, token))
    }

    /// Invites the first admin, if nobody was ever invited.
    pub async fn invite_first(
        &self,
        terms: InvitationTerms,
    ) -> Result<Option<(PersonId, Token)>, StoreError> {
        let (person, token, invitation) = self.invited(Manager::Operator, terms);
        Ok(self.people.invite_first(&person, &invitation).await?.map(|id| (id, token)))
    }

    fn invited(&self, by: Manager, terms: InvitationTerms) -> (NewPerson, Token, NewInvitation) {
        let (token, invitation) = self.issued(by);
        let now = invitation.created_at;
        let InvitationTerms { party, name, email, role } = terms;
        let handle = UserHandle(self.entropy.bytes());
        (NewPerson { party, name, email, role, handle, invited_at: now }, token, invitation)
    }

    fn issued(&self, by: Manager) -> (Token, NewInvitation) {
        let (token, now) = (Token::random(&*self.entropy), self.clock.now());
        let invitation = NewInvitation::issued(token.hash(), now);
        (token, NewInvitation { issued_by: by.issuer(), ..invitation })
    }

    /// Invites a person again: the link before was lost, or the person has lost every way to sign in.
    pub async fn invite_again(
        &self,
        by: Manager,
        id: PersonId,
    ) -> Result<(Person, Token), PersonError> {
        let (token, invitation) = self.issued(by);
        Ok((self.people.invite_again(id, by.rights(), &invitation).await?, token))
    }

    /// Withdraws the open invitation of a person.
    pub async fn withdraw_invitation(
        &self,
        by: Manager,
        id: PersonId,
    ) -> Result<Person, PersonError> {
        self.people.withdraw_invitations(id, by.rights(), self.clock.now()).await
    }

    /// Returns the people whom one manages, with their passkeys.
    pub async fn list(&self, by: Manager) -> Result<Vec<(Person, Vec<Passkey>)>, StoreError> {
        let people = self.people.list(by.rights().party).await?;
        let ids: Vec<_> = people.iter().map(|person| person.id).collect();
        let mut passkeys = self.people.passkeys_of(&ids).await?;
        let with_passkeys = people.into_iter().map(|person| {
            let own = passkeys.extract_if(.., |passkey| passkey.person == person.id).collect();
            (person, own)
        });
        Ok(with_passkeys.collect())
    }

    /// Returns a person whom one manages.
    ///
    /// # Errors
    /// [`PersonRefusal::Unknown`].
    pub async fn find(&self, by: Manager, id: PersonId) -> Result<Person, PersonError> {
        let person = self.people.find(id).await?;
        let person = person.filter(|person| by.may_manage(person.person.party));
        person.ok_or_else(|| PersonRefusal::Unknown.into())
    }

    /// Returns until when people can accept the invitation that is open.
    pub async fn invitation_ends(
        &self,
        people: &[PersonId],
    ) -> Result<BTreeMap<PersonId, OffsetDateTime>, StoreError> {
        let open = self.people.open_invitations(people, self.clock.now()).await?;
        Ok(open.into_iter().map(|it| (it.person, it.invitation.expires_at)).collect())
    }

    /// Changes a person: name, address, role, disabled or not. Counts at once on this instance, and within ten
    /// seconds on every other.
    pub async fn change(
        &self,
        by: Manager,
        id: PersonId,
        change: &PersonChange,
    ) -> Result<Person, PersonError> {
        self.store(id, by.rights(), change).await
    }

    async fn store(
        &self,
        id: PersonId,
        rights: ChangeRights,
        change: &PersonChange,
    ) -> Result<Person, PersonError> {
        let now = self.clock.now();
        let changed = self.people.change(id, rights, change, &self.issuers, now).await;
        self.sessions.read_anew();
        changed
    }

    /// Changes the name or the address of the person who asks.
    pub async fn change_own(
        &self,
        person: &Person,
        name: Option<PersonName>,
        email: Option<EmailAddress>,
    ) -> Result<Person, PersonError> {
        let own = ChangeRights { party: Some(person.person.party), may_leave_none: false };
        let change = PersonChange { name, email, ..PersonChange::default() };
        self.store(person.id, own, &change).await
    }

    /// Ends the sessions of a person, but for one. Returns how many.
    ///
    /// # Errors
    /// [`PersonRefusal::Unknown`].
    pub async fn end_sessions(
        &self,
        by: Manager,
        id: PersonId,
        except: Option<SessionId>,
    ) -> Result<usize, PersonError> {
        self.find(by, id).await?;
        Ok(self.sessions.end(WhichSessions::OfPerson(id), except).await?)
    }

    /// Removes a passkey of a person. An admin may take the last one of another person, who then needs another
    /// invitation, but not the own last way to sign in, nor that of the last admin who can sign in.
    pub async fn remove_passkey(
        &self,
        by: Manager,
        id: PersonId,
        passkey: PasskeyId,
    ) -> Result<(), PersonError> {
        let is_own = matches!(by, Manager::Admin(admin) if admin.person() == id);
        let rights = ChangeRights { may_leave_none: !is_own, ..by.rights() };
        self.people.remove_passkey(id, passkey, rights, &self.issuers).await
    }

    /// Removes a passkey of the person who asks, unless it is the last way to sign in.
    pub async fn remove_own_passkey(
        &self,
        person: &Person,
        passkey: PasskeyId,
    ) -> Result<(), PersonError> {
        let own = ChangeRights { party: Some(person.person.party), may_leave_none: false };
        self.people.remove_passkey(person.id, passkey, own, &self.issuers).await
    }

    /// Erases a person for good. Returns `false` if there is none.
    pub async fn erase(&self, id: PersonId) -> Result<bool, StoreError> {
        let erased = self.people.erase(id, self.clock.now()).await;
        self.sessions.read_anew();
        erased
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api_key::ClientId,
        person::{
            SessionTerms, TokenHash,
            tests::{NOW, person},
        },
        ports::{MockPersonRepo, MockSessionRepo},
        test_support::{CountingEntropy, clock},
    };

    const ISSUER: &str = "https://login.example.com";

    fn managing(people: MockPersonRepo, sessions: MockSessionRepo) -> ManagePeople {
        let sessions = Sessions {
            sessions: Arc::new(sessions),
            clock: clock(NOW),
            terms: SessionTerms::default(),
            uses: Arc::default(),
            cache: Arc::default(),
        };
        ManagePeople {
            people: Arc::new(people),
            sessions,
            clock: clock(NOW),
            entropy: Arc::new(CountingEntropy::default()),
            issuers: [ISSUER.to_owned()].into(),
        }
    }

    /// Returns an admin of client 1, whose person is 3.
    fn admin() -> Manager {
        use crate::person::{Caller, Doer, Holder, NewSession, Session, Way};
        let mut admin = person();
        admin.person.role = Role::Admin;
        let session = NewSession {
            token: TokenHash([1; 32]),
            doer: Doer::Person(admin.id),
            way: Way::Passkey,
            is_test: false,
            signed_in_at: NOW,
            expires_at: NOW,
        };
        let session = Session { id: SessionId(9), session, last_used_at: NOW, ended_at: None };
        let caller = Caller::of_session(session, Holder::Person(Arc::new(admin)));
        Manager::Admin(caller.admin(NOW).unwrap())
    }

    fn terms(client: i64) -> InvitationTerms {
        InvitationTerms {
            party: Party::Client(ClientId(client)),
            name: PersonName::new("Ann Roe").unwrap(),
            email: None,
            role: Role::Member,
        }
    }

    #[tokio::test]
    async fn only_the_hash_of_an_invitation_is_stored() {
        let mut people = MockPersonRepo::new();
        let stored = Arc::new(std::sync::Mutex::new(None));
        let seen = Arc::clone(&stored);
        people.expect_invite().once().returning(move |_, invitation| {
            assert_eq!(invitation.issued_by, Some(PersonId(3)));
            *seen.lock().unwrap() = Some(invitation.token);
            Ok(PersonId(4))
        });
        let managing = managing(people, MockSessionRepo::new());
        let (id, token) = managing.invite(admin(), terms(1)).await.unwrap();
        assert_eq!(id, PersonId(4));
        assert!(*stored.lock().unwrap() == Some(token.hash()));
    }

    #[tokio::test]
    async fn admin_of_one_side_neither_invites_to_another_nor_ends_its_sessions() {
        let mut people = MockPersonRepo::new();
        people.expect_find().returning(|_| {
            let mut other = person();
            other.person.party = Party::Client(ClientId(2));
            Ok(Some(other))
        });
        let managing = managing(people, MockSessionRepo::new());
        let refused = |error| matches!(error, PersonError::Refused(PersonRefusal::Unknown));
        assert!(refused(managing.invite(admin(), terms(2)).await.unwrap_err()));
        assert!(refused(managing.end_sessions(admin(), PersonId(5), None).await.unwrap_err()));
    }

    #[tokio::test]
    async fn admin_keeps_the_own_last_passkey() {
        let mut people = MockPersonRepo::new();
        people.expect_remove_passkey().times(2).returning(|id, _, rights, issuers| {
            assert_eq!(rights.may_leave_none, id != PersonId(3));
            assert_eq!(issuers, [ISSUER]);
            Ok(())
        });
        let managing = managing(people, MockSessionRepo::new());
        for id in [3, 4] {
            managing.remove_passkey(admin(), PersonId(id), PasskeyId(1)).await.unwrap();
        }
    }
}
