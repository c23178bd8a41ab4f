//! The ports to the machine and to other servers.

pub mod blob_store;
pub mod clock;
pub mod document_scanner;
pub mod entropy;
pub mod notifier;
pub mod secret_box;
pub mod webhook_sender;
