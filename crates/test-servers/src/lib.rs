//! Real servers for tests: each is started by the test that needs it, listens on loopback, and ends
//! with it. A server that cannot be started fails the test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "everything here is for tests, which fail by panicking"
)]

#[cfg(feature = "browser")]
pub mod browser;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(feature = "s3")]
pub mod s3;
#[cfg(feature = "smtp")]
pub mod smtp;
