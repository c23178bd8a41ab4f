//! Use case: mail the link of an invitation.

use std::sync::Arc;

use time::OffsetDateTime;

use crate::{
    api_key::Party,
    person::{INVITATION_LIFETIME, InvitationNotice, Person},
    ports::{ApiKeyRepo, Notice, Notifier, NotifyError, ServiceRepo, StoreError},
};

/// Mails links of invitations.
#[derive(Clone)]
pub struct MailInvitation {
    /// Knows the names of clients.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Knows the names of signing services.
    pub services: Arc<dyn ServiceRepo>,
    /// Hands the mail over.
    pub notifier: Arc<dyn Notifier>,
}

/// The reason why a link was not mailed. The causes have no address and no token.
#[derive(Debug, thiserror::Error)]
pub enum MailInvitationError {
    /// The relay has not accepted the mail.
    #[error(transparent)]
    Notify(#[from] NotifyError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl MailInvitation {
    /// Mails a link that was issued at an instant to the person of it. `by` names the admin; `None` is an operator.
    /// Returns `false` for a person without an address.
    pub async fn mail(
        &self,
        person: &Person,
        by: Option<String>,
        link: String,
        at: OffsetDateTime,
    ) -> Result<bool, MailInvitationError> {
        let Some(recipient) = person.person.email.clone() else { return Ok(false) };
        let side = match person.person.party {
            Party::Client(client) => {
                let first = self.keys.first_of(client).await?;
                first.map(|first| first.client_name().to_owned())
            }
            Party::Service(service) => {
                self.services.find(&[service]).await?.pop().map(|service| service.name)
            }
        };
        let expires_at = at.saturating_add(INVITATION_LIFETIME);
        let person = person.id;
        let notice = InvitationNotice { person, side, by, link, at, expires_at, recipient };
        self.notifier.tell(&Notice::Invitation(notice)).await?;
        Ok(true)
    }
}
