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
use unicode_normalization::UnicodeNormalization as _;

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
    /// The text is empty, too long, has a control character or an invisible one, or only signs that look like a blank.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let text = text.trim();
        let fits = text.chars().count() <= MAX_NAME && !folded(text).is_empty();
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

/// Checks whether a reader takes two names for one: they differ only in letter case, in the composition of letters
/// or in blanks. Letters of two alphabets that look alike are two.
fn are_alike(one: &str, other: &str) -> bool {
    folded(one) == folded(other)
}

/// Upper case alone tells that `ß` and `SS` are the same letters. Some signs look like a blank, or like nothing.
fn folded(name: &str) -> String {
    let seen = name.nfkc().filter_map(|c| match c {
        '\u{115f}' | '\u{1160}' | '\u{2800}' => Some(' '),
        '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => None,
        // Names of keys may have them.
        c => (!is_invisible(c)).then_some(c),
    });
    let upper = seen.flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    let letters: String = upper.flat_map(char::to_lowercase).nfkc().collect();
    letters.split_whitespace().collect::<Vec<_>>().join(" ")
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
    /// The side would have no admin any more who can sign in.
    #[error("the last admin of a side stays one")]
    LastAdmin,
    /// Another person of the side has the name, a valid key of it, or an erased person.
    #[error("another person or a key of the side has this name")]
    NameInUse,
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
    /// of the side, so that of two admins who leave at once one stays, and of two people who take one name one gets it.
    /// `keys` are the names of the valid keys of the side, and `able_admins` those of the others who are active admins
    /// with a way to sign in.
    ///
    /// # Errors
    /// [`PersonRefusal::LastAdmin`] if no other admin can sign in, and [`PersonRefusal::NameInUse`] for the name of
    /// another or of a key, unless an operator changes them, who can invite another admin and has the numbers of all
    /// people.
    pub fn decide(
        &self,
        person: &Person,
        others: &[Person],
        keys: &[String],
        able_admins: usize,
        is_by_operator: bool,
        at: OffsetDateTime,
    ) -> Result<Person, PersonRefusal> {
        if person.erased_at.is_some() {
            return Err(PersonRefusal::Unknown);
        }
        // The page sends the name along with another address.
        if let Some(name) = self.name.as_ref().filter(|name| **name != person.person.name)
            && !is_by_operator
        {
            check_name(name, others, keys)?;
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
        if leaves && able_admins == 0 && !is_by_operator {
            return Err(PersonRefusal::LastAdmin);
        }
        Ok(changed)
    }
}

/// Checks whether a person can get a name beside the others of the side and its valid keys: histories show it without
/// a number, and do not say whether it is that of a key.
///
/// # Errors
/// [`PersonRefusal::NameInUse`].
pub fn check_name(
    name: &PersonName,
    others: &[Person],
    keys: &[String],
) -> Result<(), PersonRefusal> {
    let name = name.as_str();
    let is_of_key = keys.iter().any(|key| are_alike(name, key));
    if is_of_key || is_of_person(name, others) { Err(PersonRefusal::NameInUse) } else { Ok(()) }
}

/// Returns whether a name is that of one of these people, or of those who were erased. An admin gives it to no key.
pub fn is_of_person(name: &str, people: &[Person]) -> bool {
    let mut names = people.iter().map(|person| person.person.name.as_str());
    are_alike(name, FORMER_USER) || names.any(|other| are_alike(name, other))
}

/// The people that a caller may change, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeRights {
    /// Only people of this side; `None` for operators, who may also leave it without an admin.
    pub party: Option<Party>,
    /// Whether a person may be left without a way to sign in.
    pub may_leave_none: bool,
}

impl ChangeRights {
    /// The rights of operators.
    pub const OPERATOR: Self = Self { party: None, may_leave_none: true };

    /// Returns whether they are those of an operator.
    pub fn is_operator(self) -> bool {
        self.party.is_none()
    }
}

/// Decides whether a passkey of a person is removed. The repository calls it under the lock of
/// [`PersonChange::decide`], so that of two admins who remove each other's last way to sign in one keeps it.
/// `ways_left` are the ways to sign in that the person keeps.
///
/// # Errors
/// [`PersonRefusal::LastMethod`] for the last way, unless the rights permit it; [`PersonRefusal::LastAdmin`] for that of an
/// admin if no other admin can sign in, unless an operator removes it.
pub fn decide_removal(
    person: &Person,
    ways_left: usize,
    able_admins: usize,
    rights: ChangeRights,
) -> Result<(), PersonRefusal> {
    if ways_left > 0 || rights.is_operator() {
        Ok(())
    } else if !rights.may_leave_none {
        Err(PersonRefusal::LastMethod)
    } else if person.is_active_admin() && able_admins == 0 {
        Err(PersonRefusal::LastAdmin)
    } else {
        Ok(())
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
    fn name_has_a_sign_that_is_seen() {
        for text in ["\u{3164}", "\u{115f}\u{1160}", "\u{2800} \u{ffa0}", "\u{fe0f}"] {
            assert_eq!(PersonName::new(text), Err(InvalidName), "{text:?}");
        }
        assert!(PersonName::new("\u{3164}J").is_ok());
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
            for (others, by_operator, expected) in
                [(0, false, false), (1, false, true), (0, true, true)]
            {
                let decided = change.decide(&admin(), &[], &[], others, by_operator, NOW);
                assert_eq!(decided.is_ok(), expected, "{change:?} {others}");
            }
            // A member is no admin who leaves.
            assert!(change.decide(&person(), &[], &[], 0, false, NOW).is_ok());
        }
    }

    #[test]
    fn last_admin_may_be_renamed() {
        let name = Some(PersonName::new("Ann Roe").unwrap());
        let renamed = PersonChange { name, role: Some(Role::Admin), ..PersonChange::default() };
        let renamed = renamed.decide(&admin(), &[], &[], 0, false, NOW).unwrap();
        assert_eq!(renamed.person.name.as_str(), "Ann Roe");
        assert!(renamed.is_active_admin());
    }

    fn named(name: &str) -> PersonChange {
        PersonChange { name: Some(PersonName::new(name).unwrap()), ..PersonChange::default() }
    }

    #[test]
    fn name_of_another_is_taken_by_operators_alone() {
        let mut other = admin();
        other.id = PersonId(4);
        other.person.name = PersonName::new("Zo\u{eb} Strau\u{df}").unwrap();
        let others = [other];
        for name in [
            "Zo\u{eb} Strau\u{df}",
            "zo\u{eb} STRAUSS",
            "Zoe\u{308} Strau\u{df}",
            "Zo\u{eb}  Strau\u{df}",
            "Zo\u{eb}\u{a0}Strau\u{df}",
            "\u{ff3a}o\u{eb} Strau\u{df}",
            "Zo\u{eb}\u{fe0f} Strau\u{df}",
            "Zo\u{eb} Strau\u{df}\u{3164}",
            "Zo\u{eb}\u{2800}Strau\u{df}",
            "Former User",
        ] {
            let by = |operator| named(name).decide(&person(), &others, &[], 1, operator, NOW);
            assert_eq!(by(false), Err(PersonRefusal::NameInUse), "{name}");
            assert_eq!(by(true).unwrap().person.name.as_str(), name);
        }
        for name in ["Zoe Strau\u{df}", "Zo\u{eb} Strau\u{df} (escrow)", "JANE DOE"] {
            assert!(named(name).decide(&person(), &others, &[], 1, false, NOW).is_ok(), "{name}");
        }
    }

    #[test]
    fn name_of_a_key_is_taken_by_operators_alone() {
        let keys = ["desk".to_owned(), "Acme Title".to_owned()];
        for name in ["Acme Title", "ACME  title", "Desk"] {
            let by = |operator| named(name).decide(&person(), &[], &keys, 1, operator, NOW);
            assert_eq!(by(false), Err(PersonRefusal::NameInUse), "{name}");
            assert_eq!(by(true).unwrap().person.name.as_str(), name);
        }
        assert!(named("Acme").decide(&person(), &[], &keys, 1, false, NOW).is_ok());
    }

    #[test]
    fn key_gets_no_name_of_a_person() {
        for name in ["Jane Doe", "jane  DOE", "\u{ff2a}ane Doe", "Jane\u{200d} Doe", "Former user"]
        {
            assert!(is_of_person(name, &[person()]), "{name}");
        }
        for name in ["Jane", "desk of Jane Doe"] {
            assert!(!is_of_person(name, &[person()]), "{name}");
        }
    }

    /// Operators may have given it twice. The page sends it along.
    #[test]
    fn own_name_may_be_sent_again() {
        let others = [Person { id: PersonId(4), ..person() }];
        let keys = ["Jane Doe".to_owned()];
        assert!(named("Jane Doe").decide(&person(), &others, &keys, 1, false, NOW).is_ok());
    }

    #[test]
    fn last_way_to_sign_in_of_a_person_and_of_the_admins_stays() {
        let own = ChangeRights { party: Some(person().person.party), may_leave_none: false };
        let admins = ChangeRights { may_leave_none: true, ..own };
        let operator = ChangeRights::OPERATOR;
        let (last_method, last_admin) = (PersonRefusal::LastMethod, PersonRefusal::LastAdmin);
        for (person, ways_left, able_admins, by, expected) in [
            (person(), 1, 0, own, Ok(())),
            (person(), 0, 1, own, Err(last_method)),
            (person(), 0, 0, admins, Ok(())),
            (admin(), 0, 1, admins, Ok(())),
            (admin(), 0, 0, admins, Err(last_admin)),
            (admin(), 1, 0, admins, Ok(())),
            (admin(), 0, 0, operator, Ok(())),
        ] {
            let decided = decide_removal(&person, ways_left, able_admins, by);
            assert_eq!(decided, expected, "{ways_left} {able_admins} {by:?}");
        }
    }

    #[test]
    fn erased_person_does_not_change() {
        let erased = Person { erased_at: Some(NOW), ..person() };
        let enabled = PersonChange { is_disabled: Some(false), ..PersonChange::default() };
        assert_eq!(enabled.decide(&erased, &[], &[], 1, true, NOW), Err(PersonRefusal::Unknown));
    }

    #[test]
    fn instant_of_the_first_disabling_stays() {
        let disabled = Person { disabled_at: Some(NOW), ..person() };
        let again = PersonChange { is_disabled: Some(true), ..PersonChange::default() };
        let later = NOW + time::Duration::DAY;
        let decided = again.decide(&disabled, &[], &[], 1, false, later).unwrap();
        assert_eq!(decided.disabled_at, Some(NOW));
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
