//! Webhook endpoints and their deliveries.

mod endpoints;
pub(crate) mod lease;
pub(crate) mod queue;
mod settle;

pub(crate) use self::lease::wake;
