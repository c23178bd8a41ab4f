//! Work in the background that no request waits for.

pub mod forget_keys;
pub mod sweep_uploads;
