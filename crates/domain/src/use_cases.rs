//! Use cases of orders: create, add and withdraw documents, read, change, cancel, erase, and clean up after them.

pub mod add_documents;
pub mod add_note;
pub mod change_order;
pub mod create_order;
pub mod erase_orders;
pub mod intake;
pub mod note_downloads;
pub mod order_error;
pub mod read_order;
pub mod scan_documents;
pub mod upkeep;
pub mod withdraw_document;
