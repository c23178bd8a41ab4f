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
        mod order_repo {
            $crate::order_repo_contract!(super::$storage().await);
        }
        mod upload_ledger {
            $crate::upload_ledger_contract!(super::$storage().await);
        }
        mod idempotency_ledger {
            $crate::idempotency_ledger_contract!(super::$storage().await);
        }
        mod api_key_repo {
            $crate::api_key_repo_contract!(super::$storage().await);
        }
        mod outbox {
            $crate::outbox_contract!(super::$storage().await);
        }
        mod delivery_queue {
            $crate::delivery_queue_contract!(super::$storage().await);
        }
        mod webhook_repo {
            $crate::webhook_repo_contract!(super::$storage().await);
        }
        mod webhook_queue {
            $crate::webhook_queue_contract!(super::$storage().await);
        }
        mod order_reader {
            $crate::order_reader_contract!(super::$storage().await);
        }
        mod order_admin {
            $crate::order_admin_contract!(super::$storage().await);
        }
    };
}

pub mod api_key_repo;
pub mod blob_store;
pub mod clock;
pub mod delivery_queue;
pub mod document_scanner;
pub mod documents;
pub mod entropy;
pub mod fakes;
pub mod idempotency_ledger;
pub mod modules;
pub mod notifier;
pub mod order_admin;
pub mod order_details;
pub mod order_reader;
pub mod order_repo;
pub mod outbox;
pub mod samples;
pub mod secret_box;
pub mod upload_ledger;
pub mod webhook_queue;
pub mod webhook_repo;
pub mod webhook_sender;
