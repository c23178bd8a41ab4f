//! The mails of invitations that admins send from the page.

use std::time::Duration;

use domain::{
    person::Person, ports::error_chain, use_cases::people::mail_invitation::MailInvitation,
};
use time::OffsetDateTime;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::detached_tasks::DetachedTasks;

/// The longest wait for the relay. The mail goes on after it, but the admin is told to pass the link on.
const WAIT: Duration = Duration::from_secs(10);

/// Mails links of invitations.
#[derive(Clone)]
pub struct InvitationMails {
    /// Mails them.
    pub mail: MailInvitation,
    /// Cancelled if mails leave: they do not on a copy of a database.
    pub may_leave: CancellationToken,
}

impl InvitationMails {
    /// Mails a link to a person. Returns whether the relay has it.
    pub(crate) async fn send(
        &self,
        tasks: &DetachedTasks,
        (person, by, link): (Person, String, String),
        at: OffsetDateTime,
    ) -> bool {
        if !self.may_leave.is_cancelled() {
            return false;
        }
        let mail = self.mail.clone();
        let task = tasks.spawn(async move {
            let mailed = mail.mail(&person, Some(by), link, at).await;
            mailed.unwrap_or_else(|error| {
                let (person, error) = (person.id.0, error_chain(&error));
                tracing::warn!(person, error, "the invitation was not mailed");
                false
            })
        });
        matches!(timeout(WAIT, task).await, Ok(Ok(true)))
    }
}
