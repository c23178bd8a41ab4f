//! The obligations of the ports of the domain, as tests that use only the port.
//!
//! Each module is the contract of one port; its functions are the obligations. An adapter runs all
//! of them with one macro call:
//!
//! ```text
//! contract_tests::blob_store_contract!(fixture());
//! ```
//!
//! A database runs the contracts of all its ports with `storage_contracts!`.
//!
//! A test fails when the list in the macro lacks an obligation.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "everything here is for tests, which fail by panicking"
)]

/// Makes each obligation of a list a test. The expression makes a new fixture for each test.
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

/// Runs the contract of every port that a database implements, each in a module of its name. The
/// asynchronous function makes the `Storage` of each test.
#[macro_export]
macro_rules! storage_contracts {
    ($storage:ident) => {
        $crate::storage_contracts!($storage;
            order_repo order_repo_contract, upload_ledger upload_ledger_contract,
            idempotency_ledger idempotency_ledger_contract, api_key_repo api_key_repo_contract,
            outbox outbox_contract, delivery_queue delivery_queue_contract,
            webhook_repo webhook_repo_contract, webhook_queue webhook_queue_contract,
            order_reader order_reader_contract, order_admin order_admin_contract,
        );
    };
    ($storage:ident; $($module:ident $contract:ident),+ $(,)?) => {$(
        mod $module {
            $crate::$contract!(super::$storage().await);
        }
    )+};
}

pub mod documents;
pub mod fakes;
pub mod modules;
pub mod order_details;
pub mod samples;
mod services;
mod storage;

pub use services::*;
pub use storage::*;
