//! The use cases that handlers, commands of operators and workers call. Those of orders stand here, others
//! in folders.

pub mod accesses;
pub mod add_documents;
pub mod add_note;
pub mod background;
pub mod change_order;
pub mod create_order;
pub mod deliveries;
pub mod erase_orders;
pub mod installations;
pub mod intake;
pub mod keys;
pub mod notaries;
pub mod note_downloads;
pub mod order_error;
pub mod people;
pub mod put_order;
pub mod read_order;
pub mod rejected;
pub mod scan_documents;
pub mod services;
pub mod store_waiting;
pub mod upkeep;
pub mod webhooks;
pub mod withdraw_document;
