//! Events, and the mails and webhooks that they become.

mod delivery_queue;
mod notifier;
mod outbox;
mod webhook_queue;
mod webhook_repo;
mod webhook_sender;

pub use delivery_queue::*;
pub use notifier::*;
pub use outbox::*;
pub use webhook_queue::*;
pub use webhook_repo::*;
pub use webhook_sender::*;
