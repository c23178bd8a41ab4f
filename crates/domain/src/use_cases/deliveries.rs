//! Mails about orders, and the loop that delivers mails and webhooks.

pub mod bring_forward;
pub mod dispatch_events;
pub mod run_deliveries;
pub mod worker;
