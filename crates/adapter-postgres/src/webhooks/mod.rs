//! Webhook endpoints and their deliveries.
//!
//! A transaction locks the endpoints first, and then their deliveries, so that two never deadlock.

mod endpoints;
mod lease;
mod queue;
mod settle;

pub(crate) use self::lease::wake;
