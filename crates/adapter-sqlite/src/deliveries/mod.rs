//! Events, the mails and webhooks that follow them, and the endpoints of webhooks.

pub(crate) mod dispatch;
pub(crate) mod mail_lease;
