//! Requests that were rejected for what they say: count, store, tell the contacts of their keys.

pub mod count_rejected;
pub mod tell_rejected;
