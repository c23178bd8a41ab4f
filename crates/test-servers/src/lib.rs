//! Real servers for tests. A test starts the server that it needs; the server listens on loopback
//! and ends with the test. A server that cannot start fails the test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "only tests use this crate, and tests fail by panicking"
)]

#[cfg(feature = "authenticator")]
pub mod authenticator;
#[cfg(feature = "browser")]
pub mod browser;
#[cfg(feature = "certificates")]
pub mod certificates;
#[cfg(feature = "clamd")]
pub mod clamd;
#[cfg(feature = "collector")]
pub mod collector;
#[cfg(any(
    feature = "browser",
    feature = "clamd",
    feature = "collector",
    feature = "oidc",
    feature = "postgres"
))]
pub mod janitor;
#[cfg(feature = "oidc")]
pub mod oidc;
pub mod ports;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(any(feature = "s3", feature = "smtp"))]
mod restartable;
#[cfg(feature = "s3")]
pub mod s3;
#[cfg(feature = "smtp")]
pub mod smtp;
pub mod tools;
