//! Storage of orders and their documents.

mod blob_store;
mod change_feed;
mod document_scanner;
mod idempotency_ledger;
mod order_admin;
mod order_reader;
mod order_repo;
mod upload_ledger;

pub use blob_store::*;
pub use change_feed::*;
pub use document_scanner::*;
pub use idempotency_ledger::*;
pub use order_admin::*;
pub use order_reader::*;
pub use order_repo::*;
pub use upload_ledger::*;
