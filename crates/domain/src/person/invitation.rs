//! Invitations: links that are shown once, and accepted once.

use time::{Duration, OffsetDateTime};

use super::{Person, PersonId, PersonState, TokenHash};
use crate::people::EmailAddress;

/// How long an invitation can be accepted.
pub const INVITATION_LIFETIME: Duration = Duration::days(7);

/// Maximum number of invitations of a side that can be accepted at once: an admin fills no database, and no mailboxes.
pub const MAX_OPEN_INVITATIONS: usize = 100;

/// Maximum number of invitations that an admin issues within a day, also again for one person: each may be a mail.
pub const MAX_INVITATIONS_A_DAY: usize = 200;

/// Decides whether an admin issues another invitation, who has issued `of_day` within a day, while `open` others of the
/// side can be accepted.
pub fn may_invite(open: u64, of_day: u64) -> bool {
    open < MAX_OPEN_INVITATIONS as u64 && of_day < MAX_INVITATIONS_A_DAY as u64
}

/// An invitation to store. Its link has the token, which is shown once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInvitation {
    /// Hash of its token.
    pub token: TokenHash,
    /// Instant of issue.
    pub created_at: OffsetDateTime,
    /// Instant from which it cannot be accepted.
    pub expires_at: OffsetDateTime,
    /// The admin who issues it; `None` for an operator.
    pub issued_by: Option<PersonId>,
}

impl NewInvitation {
    /// Returns the invitation of a token that an operator issues now.
    pub fn issued(token: TokenHash, now: OffsetDateTime) -> Self {
        let expires_at = now.saturating_add(INVITATION_LIFETIME);
        Self { token, created_at: now, expires_at, issued_by: None }
    }
}

/// An invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// What was stored at its issue.
    pub invitation: NewInvitation,
    /// The invited person.
    pub person: PersonId,
    /// When it was accepted.
    pub used_at: Option<OffsetDateTime>,
    /// When it was withdrawn: by an admin, by another invitation of the same person, or because its
    /// issuer is no active admin any more.
    pub withdrawn_at: Option<OffsetDateTime>,
}

/// The reason why an invitation cannot be accepted. Pages tell it in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvitationFault {
    /// No such link was ever issued, or its person was erased.
    #[error("the invitation is unknown")]
    Unknown,
    /// Somebody has accepted it.
    #[error("the invitation is used")]
    Used,
    /// It is older than [`INVITATION_LIFETIME`].
    #[error("the invitation is expired")]
    Expired,
    /// It was withdrawn.
    #[error("the invitation is withdrawn")]
    Withdrawn,
    /// Its person is disabled.
    #[error("the invited person is disabled")]
    Disabled,
}

impl InvitationFault {
    /// Returns the name, in answers, accesses and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "invitation_unknown",
            Self::Used => "invitation_used",
            Self::Expired => "invitation_expired",
            Self::Withdrawn => "invitation_withdrawn",
            Self::Disabled => "invitation_disabled",
        }
    }
}

/// A mail with the link of an invitation.
#[derive(Clone, PartialEq, Eq)]
pub struct InvitationNotice {
    /// The invited person.
    pub person: PersonId,
    /// The name of the client or the signing service; `None` without a record.
    pub side: Option<String>,
    /// The name of the admin who invites; `None` for an operator.
    pub by: Option<String>,
    /// The link, with its token.
    pub link: String,
    /// Instant of issue.
    pub at: OffsetDateTime,
    /// Instant from which it cannot be accepted.
    pub expires_at: OffsetDateTime,
    /// Address that receives the mail.
    pub recipient: EmailAddress,
}

// The link is a secret.
conceal!(InvitationNotice);

impl InvitationNotice {
    /// Returns the key of the mail, from which its `Message-ID` is derived. It has no part of the token.
    pub fn message_key(&self) -> String {
        format!("invitation{}at{}", self.person.0, self.at.unix_timestamp_nanos())
    }
}

impl Invitation {
    /// Checks whether its person can accept it now.
    ///
    /// # Errors
    /// The first fault that holds.
    pub fn check(&self, person: &Person, now: OffsetDateTime) -> Result<(), InvitationFault> {
        let fault = if self.used_at.is_some() {
            InvitationFault::Used
        } else if person.state() == PersonState::Disabled {
            // Disabling withdraws it, too, and this is the reason that helps.
            InvitationFault::Disabled
        } else if self.withdrawn_at.is_some() {
            InvitationFault::Withdrawn
        } else if now >= self.invitation.expires_at {
            InvitationFault::Expired
        } else {
            return Ok(());
        };
        Err(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::person::tests::{NOW, person};

    fn invitation() -> Invitation {
        Invitation {
            invitation: NewInvitation::issued(TokenHash([1; 32]), NOW),
            person: person().id,
            used_at: None,
            withdrawn_at: None,
        }
    }

    #[test]
    fn invitation_is_valid_for_seven_days() {
        let last = NOW + Duration::days(7) - Duration::MICROSECOND;
        assert_eq!(invitation().check(&person(), last), Ok(()));
        let over = NOW + Duration::days(7);
        assert_eq!(invitation().check(&person(), over), Err(InvitationFault::Expired));
    }

    #[test]
    fn used_withdrawn_or_of_a_disabled_person_is_not_accepted() {
        let used = Invitation { used_at: Some(NOW), ..invitation() };
        assert_eq!(used.check(&person(), NOW), Err(InvitationFault::Used));
        let withdrawn = Invitation { withdrawn_at: Some(NOW), ..invitation() };
        assert_eq!(withdrawn.check(&person(), NOW), Err(InvitationFault::Withdrawn));
        let disabled = Person { disabled_at: Some(NOW), ..person() };
        assert_eq!(invitation().check(&disabled, NOW), Err(InvitationFault::Disabled));
        assert_eq!(withdrawn.check(&disabled, NOW), Err(InvitationFault::Disabled));
    }

    #[test]
    fn side_and_admin_have_as_many_invitations_as_their_bounds() {
        let (open, of_day) = (MAX_OPEN_INVITATIONS as u64, MAX_INVITATIONS_A_DAY as u64);
        assert!(may_invite(open - 1, of_day - 1));
        assert!(!may_invite(open, 0));
        assert!(!may_invite(0, of_day));
    }
}
