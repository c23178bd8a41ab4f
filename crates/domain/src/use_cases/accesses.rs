//! The log of accesses to orders: record, store, and watch.

pub mod keep_accesses;
pub mod record_command;
pub mod recorder;
pub mod watch_accesses;
