//! The problem responses of requests about people, their sign-ins and their keys.

use domain::{
    person::{
        InvitationFault, MAX_INVITATIONS_A_DAY, MAX_OPEN_INVITATIONS, MAX_PASSKEYS, NoAdmin,
        PersonRefusal,
    },
    ports::{LoginError, PersonError},
    use_cases::{keys::manage_keys::KeyError, people::sign_in::SignInError},
};

use crate::respond::problem::{Problem, ProblemCode};

/// Retry delay when an identity provider does not answer.
const RETRY_PROVIDER_SECONDS: u64 = 5;

/// Name of the policy of keys that admins issue.
const ISSUED_KEYS: &str = "issued-keys";

/// Reports something that this side does not have.
fn unknown() -> Problem {
    let detail = "There is no such person, passkey or key on this side.";
    Problem::new(ProblemCode::NotFound, detail)
}

impl From<NoAdmin> for Problem {
    fn from(error: NoAdmin) -> Self {
        let (code, detail) = match error {
            NoAdmin::Key => (
                ProblemCode::KeyCannotManage,
                "A key manages no people and no keys, and neither does a session that began with one. Sign in as a \
                 person.",
            ),
            NoAdmin::Member => {
                (ProblemCode::NotAdmin, "Only admins manage the people and keys of a side.")
            }
            NoAdmin::SignInAgain => (
                ProblemCode::SignInAgain,
                "The sign-in was more than five minutes ago. Sign in again, and then repeat the request.",
            ),
        };
        Self::challenge(code, detail, "")
    }
}

impl From<InvitationFault> for Problem {
    fn from(fault: InvitationFault) -> Self {
        let (code, detail) = match fault {
            InvitationFault::Unknown => (
                ProblemCode::InvitationUnknown,
                "No such invitation was ever issued. Look whether the whole link was copied.",
            ),
            InvitationFault::Used => (
                ProblemCode::InvitationUsed,
                "The invitation was accepted before. If that was not you, tell an admin of your side at once.",
            ),
            InvitationFault::Expired => (
                ProblemCode::InvitationExpired,
                "The invitation is more than seven days old. Ask an admin of your side for another.",
            ),
            InvitationFault::Withdrawn => (
                ProblemCode::InvitationWithdrawn,
                "An admin has withdrawn the invitation, or a later one replaces it. Use the newest link.",
            ),
            InvitationFault::Disabled => return PersonRefusal::Disabled.into(),
        };
        Self::new(code, detail)
    }
}

impl From<PersonRefusal> for Problem {
    fn from(refusal: PersonRefusal) -> Self {
        match refusal {
            PersonRefusal::Unknown => unknown(),
            PersonRefusal::Disabled => {
                let detail = "The person is disabled, and may not sign in. An admin of the side can enable them.";
                Self::challenge(ProblemCode::PersonDisabled, detail, "")
            }
            PersonRefusal::LastAdmin => Self::new(
                ProblemCode::LastAdmin,
                "The person is the only admin of the side who can sign in. Make another person an admin first.",
            ),
            PersonRefusal::NameInUse => Self::new(
                ProblemCode::NameInUse,
                "A person or a key of the side has this name, and histories would not tell the two apart. Add something \
                 to it.",
            ),
            PersonRefusal::LastMethod => Self::new(
                ProblemCode::LastMethod,
                "This is the only way in which the person can sign in. Add another first.",
            ),
            PersonRefusal::MethodInUse => Self::new(
                ProblemCode::MethodInUse,
                "The passkey or the login belongs to another person. Use one of your own.",
            ),
            PersonRefusal::TooManyPasskeys => Self::new(
                ProblemCode::TooManyPasskeys,
                format!("A person has up to {MAX_PASSKEYS} passkeys. Remove one first."),
            ),
            PersonRefusal::TooManyInvitations => Self::new(
                ProblemCode::TooManyInvitations,
                format!(
                    "A side has up to {MAX_OPEN_INVITATIONS} open invitations, and an admin issues up to \
                     {MAX_INVITATIONS_A_DAY} within a day. Withdraw one, or try again tomorrow."
                ),
            ),
            PersonRefusal::Invitation(fault) => fault.into(),
        }
    }
}

impl From<PersonError> for Problem {
    fn from(error: PersonError) -> Self {
        match error {
            PersonError::Refused(refusal) => refusal.into(),
            PersonError::Store(error) => error.into(),
        }
    }
}

impl From<SignInError> for Problem {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::NoCeremony => Self::new(
                ProblemCode::NoCeremony,
                "This browser has begun no such sign-in in the last ten minutes, or it is over. Begin anew.",
            ),
            SignInError::Unknown => Self::challenge(
                ProblemCode::UnknownPerson,
                "Nobody here has this passkey or login. Accept an invitation with it first.",
                "",
            ),
            SignInError::Disabled => PersonRefusal::Disabled.into(),
            SignInError::OtherPerson => Self::challenge(
                ProblemCode::OtherPerson,
                "Another person has signed in than the one of the session. Sign out first.",
                "",
            ),
            SignInError::NoProvider => {
                Self::new(ProblemCode::UnknownProvider, "There is no login of this name.")
            }
            SignInError::Refused(refusal) => refusal.into(),
            SignInError::Passkey(_) => {
                let detail =
                    "The passkey was not accepted. Try again, at the address where it was made.";
                Self::challenge(ProblemCode::PasskeyRejected, detail, "")
            }
            SignInError::Login(LoginError::Rejected(_)) => {
                let detail = "The answer of the identity provider was not accepted. Try again.";
                Self::challenge(ProblemCode::LoginRejected, detail, "")
            }
            SignInError::Login(error @ LoginError::Unavailable(_)) => {
                let detail = "The identity provider does not answer. Passkeys and keys go on.";
                Self::new(ProblemCode::ProviderUnavailable, detail)
                    .retry_after(RETRY_PROVIDER_SECONDS)
                    .log(&error)
            }
            SignInError::Store(error) => error.into(),
        }
    }
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Unknown | KeyError::UnknownClient => unknown(),
            KeyError::Invalid => Self::new(
                ProblemCode::KeyNotValid,
                "The key is revoked or expired, and gets no successor. Issue a new key.",
            ),
            KeyError::NameInUse => PersonRefusal::NameInUse.into(),
            KeyError::TooMany { retry_after } => Self::rate_limited(ISSUED_KEYS, retry_after),
            KeyError::Store(error) => error.into(),
        }
    }
}
