//! The obligations of every port of the domain, as tests over the port alone, and in-memory fakes
//! that keep them.
//!
//! Each module is one port's contract; its functions are its obligations and read as the port's
//! documentation. An adapter runs all of them by one macro call, so that it cannot leave one out:
//!
//! ```text
//! contract_tests::order_repo_contract!(Fixture::new().await);
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "everything here is for tests, which fail by panicking"
)]

/// Makes a test of each obligation in a list, on a fixture that an expression makes anew.
#[macro_export]
macro_rules! obligations {
    ($module:ident, $fixture:expr; $($obligation:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $obligation() {
            $crate::$module::$obligation(&$fixture).await;
        }
    )+};
}

/// Like [`obligations`], for ports without `async`.
#[macro_export]
macro_rules! sync_obligations {
    ($module:ident, $fixture:expr; $($obligation:ident),+ $(,)?) => {$(
        #[test]
        fn $obligation() {
            $crate::$module::$obligation(&$fixture);
        }
    )+};
}

pub mod api_key_repo;
pub mod blob_store;
pub mod clock;
pub mod delivery_queue;
pub mod documents;
pub mod entropy;
pub mod fakes;
pub mod idempotency_ledger;
pub mod modules;
pub mod notifier;
pub mod order_details;
pub mod order_repo;
pub mod samples;
pub mod upload_ledger;
