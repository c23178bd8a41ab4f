//! Events, the mails and webhooks that follow them, and the endpoints of webhooks.

mod dispatch;
#[path = "../../../sql-rows/ports/endpoints.rs"]
mod endpoints;
mod mail_lease;
#[path = "../../../sql-rows/ports/mails.rs"]
mod mails;
#[path = "../../../sql-rows/ports/outbox.rs"]
mod outbox;
mod webhook_lease;
#[path = "../../../sql-rows/ports/webhook_settle.rs"]
mod webhook_settle;
#[path = "../../../sql-rows/ports/webhooks.rs"]
mod webhooks;
