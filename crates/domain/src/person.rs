//! People who sign in as themselves: a person of a side, and how the service knows them again.

mod ceremony;
mod identity;
mod invitation;
mod passkey;
pub mod person_request;
mod session;
mod token;

pub use ceremony::*;
pub use identity::*;
pub use invitation::*;
pub use passkey::*;
pub use session::*;
pub use token::*;

use time::OffsetDateTime;

use crate::{
    api_key::{Owner, Party, Scope, Scopes},
    people::EmailAddress,
    request::is_invisible,
};

/// Maximum number of characters in the name of a person, or of one of their passkeys.
pub const MAX_NAME: usize = 100;

/// The name of a person after the erasure.
pub const FORMER_USER: &str = "former user";

/// Identifier of a person, assigned by the repository; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PersonId(pub i64);

/// The rights of a person on their own side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Manages the people, the keys and the webhooks of the side.
    Admin,
    /// Works with its orders.
    Member,
}

impl Role {
    /// Returns the name, in answers, commands and storage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Member => "member",
        }
    }

    /// Returns the role of a name; `None` if it is none.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Admin, Self::Member].into_iter().find(|role| role.as_str() == name)
    }
}

/// The name of a person or a passkey: one line of 1 to [`MAX_NAME`] characters, trimmed.
#[derive(Clone, PartialEq, Eq)]
pub struct PersonName(String);

/// The error of a text that is no [`PersonName`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one line of 1 to {MAX_NAME} characters")]
pub struct InvalidName;

impl PersonName {
    /// Returns the name of a text.
    ///
    /// # Errors
    /// The text is empty, too long, or has a control character or an invisible one.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let text = text.trim();
        let fits = (1..=MAX_NAME).contains(&text.chars().count());
        let is_line = !text.contains(|c: char| c.is_control() || is_invisible(c));
        if fits && is_line { Ok(Self(text.to_owned())) } else { Err(InvalidName) }
    }

    /// Returns a name that was checked when it was stored.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// Personal data.
conceal!(PersonName);

/// A person to invite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPerson {
    /// Their side, for good.
    pub party: Party,
    /// Their name.
    pub name: PersonName,
    /// Where they read mails; nobody signs in by it. `None` for the first admin, whom nobody has named yet.
    pub email: Option<EmailAddress>,
    /// Their rights.
    pub role: Role,
    /// The random identifier that their authenticators keep. It tells nothing of them (WebAuthn, 14.6.1).
    pub handle: UserHandle,
    /// The instant of the first invitation.
    pub invited_at: OffsetDateTime,
}

/// A person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Their identifier.
    pub id: PersonId,
    /// What was said when they were invited, or later by an admin.
    pub person: NewPerson,
    /// When they first accepted an invitation.
    pub accepted_at: Option<OffsetDateTime>,
    /// When an admin or an operator disabled them.
    pub disabled_at: Option<OffsetDateTime>,
    /// When an operator erased them: their name is [`FORMER_USER`].
    pub erased_at: Option<OffsetDateTime>,
    /// When one of their sessions was last used, accurate to some seconds.
    pub last_seen_at: Option<OffsetDateTime>,
}

/// Whether a person may sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonState {
    /// They have not accepted an invitation yet.
    Invited,
    /// They may sign in.
    Active,
    /// They may not. Their record stays: the history names them.
    Disabled,
}

impl PersonState {
    /// Returns the name, in answers and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invited => "invited",
            Self::Active => "active",
            Self::Disabled => "disabled",
        }
    }
}

impl Person {
    /// Returns whether they may sign in.
    pub fn state(&self) -> PersonState {
        if self.disabled_at.is_some() || self.erased_at.is_some() {
            PersonState::Disabled
        } else if self.accepted_at.is_some() {
            PersonState::Active
        } else {
            PersonState::Invited
        }
    }

    /// Returns whether they may sign in and manage their side.
    pub fn is_active_admin(&self) -> bool {
        self.state() == PersonState::Active && self.person.role == Role::Admin
    }

    /// Returns the owner of what they create and read: their side.
    pub fn owner(&self, is_test: bool) -> Owner {
        Owner { party: self.person.party, is_test }
    }

    /// Returns what they may do: all that a key of their side can. Only admins manage webhooks: an endpoint goes on to
    /// send orders elsewhere when the person who made it has left.
    pub fn scopes(&self) -> Scopes {
        let of_side = match self.person.party {
            Party::Client(_) => Scope::OF_CLIENTS,
            Party::Service(_) => Scope::OF_SERVICES,
        };
        let may = |scope: &Scope| {
            self.person.role == Role::Admin || !matches!(scope, Scope::WebhooksManage)
        };
        of_side.into_iter().filter(may).collect()
    }
}

/// A change of a person. `None` leaves a property as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersonChange {
    /// Another name.
    pub name: Option<PersonName>,
    /// Another address.
    pub email: Option<EmailAddress>,
    /// Another role.
    pub role: Option<Role>,
    /// Whether they are disabled. Their sessions end with it, and their open invitation.
    pub is_disabled: Option<bool>,
}

/// The reason why people, or their ways to sign in, are not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PersonRefusal {
    /// There is no such person on this side, or no such passkey of the person.
    #[error("there is no such person")]
    Unknown,
    /// The side would have no admin any more.
    #[error("the last admin of a side stays one")]
    LastAdmin,
    /// The person is disabled.
    #[error("the person is disabled")]
    Disabled,
    /// The person would have no way to sign in any more.
    #[error("the last way to sign in stays")]
    LastMethod,
    /// The passkey or the login belongs to another person.
    #[error("the passkey or the login belongs to another person")]
    MethodInUse,
    /// The person has [`MAX_PASSKEYS`] passkeys.
    #[error("a person has up to {MAX_PASSKEYS} passkeys")]
    TooManyPasskeys,
    /// The side has [`MAX_OPEN_INVITATIONS`] open invitations, or the admin has issued [`MAX_INVITATIONS_A_DAY`].
    #[error(
        "a side has up to {MAX_OPEN_INVITATIONS} open invitations, {MAX_INVITATIONS_A_DAY} of an admin a day"
    )]
    TooManyInvitations,
    /// The invitation cannot be accepted.
    #[error(transparent)]
    Invitation(#[from] InvitationFault),
}

impl PersonChange {
    /// Decides whether a person is changed at once with the others of the side. The repository calls it under a lock
    /// of the side's admins, so that of two admins who leave at once one stays.
    ///
    /// # Errors
    /// [`PersonRefusal::LastAdmin`] if they are the only active admin, unless `may_leave_none`: operators may, because
    /// they can invite another.
    pub fn decide(
        &self,
        person: &Person,
        active_admins: usize,
        may_leave_none: bool,
        at: OffsetDateTime,
    ) -> Result<Person, PersonRefusal> {
        if person.erased_at.is_some() {
            return Err(PersonRefusal::Unknown);
        }
        let mut changed = person.clone();
        changed.person.name = self.name.clone().unwrap_or(changed.person.name);
        changed.person.email = self.email.clone().or(changed.person.email);
        changed.person.role = self.role.unwrap_or(changed.person.role);
        match self.is_disabled {
            Some(true) => changed.disabled_at = changed.disabled_at.or(Some(at)),
            Some(false) => changed.disabled_at = None,
            None => {}
        }
        let leaves = person.is_active_admin() && !changed.is_active_admin();
        if leaves && active_admins <= 1 && !may_leave_none {
            return Err(PersonRefusal::LastAdmin);
        }
        Ok(changed)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::api_key::ClientId;

    pub(crate) const NOW: OffsetDateTime = datetime!(2026-11-29 12:00 UTC);

    /// Returns person 3, an active member of client 1.
    pub(crate) fn person() -> Person {
        Person {
            id: PersonId(3),
            person: NewPerson {
                party: Party::Client(ClientId(1)),
                name: PersonName::new("Jane Doe").unwrap(),
                email: Some(EmailAddress::from_stored("jane@title.example.com".to_owned())),
                role: Role::Member,
                handle: UserHandle([3; 64]),
                invited_at: NOW,
            },
            accepted_at: Some(NOW),
            disabled_at: None,
            erased_at: None,
            last_seen_at: None,
        }
    }

    fn admin() -> Person {
        let mut admin = person();
        admin.person.role = Role::Admin;
        admin
    }

    #[test]
    fn name_is_one_trimmed_line() {
        assert_eq!(PersonName::new(" Jane Doe ").unwrap().as_str(), "Jane Doe");
        assert!(PersonName::new(&"é".repeat(MAX_NAME)).is_ok());
        for text in ["", "  ", "Jane\nDoe", "Jane\0", &"é".repeat(MAX_NAME + 1)] {
            assert_eq!(PersonName::new(text), Err(InvalidName), "{text:?}");
        }
    }

    #[test]
    fn disabled_or_erased_person_is_disabled_whether_they_had_accepted() {
        for accepted_at in [None, Some(NOW)] {
            let state = |disabled_at, erased_at| {
                Person { accepted_at, disabled_at, erased_at, ..person() }.state()
            };
            assert_eq!(state(Some(NOW), None), PersonState::Disabled);
            assert_eq!(state(None, Some(NOW)), PersonState::Disabled);
            let open =
                if accepted_at.is_some() { PersonState::Active } else { PersonState::Invited };
            assert_eq!(state(None, None), open);
        }
    }

    #[test]
    fn last_admin_cannot_leave() {
        let demoted = PersonChange { role: Some(Role::Member), ..PersonChange::default() };
        let disabled = PersonChange { is_disabled: Some(true), ..PersonChange::default() };
        for change in [demoted, disabled] {
            for (admins, by_operator, expected) in
                [(1, false, false), (2, false, true), (1, true, true)]
            {
                let decided = change.decide(&admin(), admins, by_operator, NOW);
                assert_eq!(decided.is_ok(), expected, "{change:?} {admins}");
            }
            // A member is no admin who leaves.
            assert!(change.decide(&person(), 1, false, NOW).is_ok());
        }
    }

    #[test]
    fn last_admin_may_be_renamed() {
        let name = Some(PersonName::new("Ann Roe").unwrap());
        let renamed = PersonChange { name, role: Some(Role::Admin), ..PersonChange::default() };
        let renamed = renamed.decide(&admin(), 1, false, NOW).unwrap();
        assert_eq!(renamed.person.name.as_str(), "Ann Roe");
        assert!(renamed.is_active_admin());
    }

    #[test]
    fn erased_person_does_not_change() {
        let erased = Person { erased_at: Some(NOW), ..person() };
        let enabled = PersonChange { is_disabled: Some(false), ..PersonChange::default() };
        assert_eq!(enabled.decide(&erased, 1, true, NOW), Err(PersonRefusal::Unknown));
    }

    #[test]
    fn instant_of_the_first_disabling_stays() {
        let disabled = Person { disabled_at: Some(NOW), ..person() };
        let again = PersonChange { is_disabled: Some(true), ..PersonChange::default() };
        let later = NOW + time::Duration::DAY;
        assert_eq!(again.decide(&disabled, 1, false, later).unwrap().disabled_at, Some(NOW));
    }

    #[test]
    fn person_has_the_scopes_of_their_side() {
        assert_eq!(admin().scopes(), Scope::OF_CLIENTS.into_iter().collect());
        let mut of_service = admin();
        of_service.person.party = Party::Service(crate::people::SigningServiceId(7));
        assert_eq!(of_service.scopes(), Scope::OF_SERVICES.into_iter().collect());
    }

    #[test]
    fn member_manages_no_webhooks() {
        let orders = [Scope::OrdersCreate, Scope::OrdersRead];
        assert_eq!(person().scopes(), orders.into_iter().collect());
        let mut of_service = person();
        of_service.person.party = Party::Service(crate::people::SigningServiceId(7));
        let orders = [Scope::OrdersRead, Scope::OrdersUpdate];
        assert_eq!(of_service.scopes(), orders.into_iter().collect());
    }
}
