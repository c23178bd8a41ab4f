//! The `notary-orders` service: settings, adapters behind the ports, commands, start and stop. It
//! contains no business rules.
//!
//! | concept | module |
//! |---|---|
//! | flags, environment variables and their defaults | [`settings`] |
//! | commands | [`cli`] |
//! | checks of settings, dependencies and machine | [`doctor`] |
//! | choice of adapters | [`adapters`] |
//! | use cases on these adapters | `wiring` |
//! | start and graceful stop | [`serve`] |
//! | signals that stop the service | `signals` |
//! | background work: loops, log lines, metrics | `workers`, `worker_metrics` |
//! | metrics of database and disk | `database_metrics`, `disk_metrics` |
//! | scans for malware: log lines, metrics | `scan_metrics` |
//! | listening sockets and the limit of connections | `listen` |
//! | certificate and key of the API, read again when they change | `tls_files` |
//! | clock and randomness | `system` |
//! | log | [`logging`] |
//! | traces | [`traces`] |
//! | key of the first start | `first_key` |
//! | copy of a database | `copy` |
//! | backup and restore of the embedded service | `backup` |
//! | files that only their owner can read | `private_files` |

pub mod adapters;
mod backup;
pub mod cli;
mod copy;
mod database_metrics;
mod disk_metrics;
pub mod doctor;
mod first_key;
mod json_line;
mod listen;
pub mod logging;
mod private_files;
mod scan_metrics;
mod secrets_key;
pub mod serve;
pub mod settings;
mod signals;
mod system;
mod tls_files;
pub mod traces;
mod wiring;
mod worker_metrics;
mod workers;

pub use system::{Machine, OsEntropy, SystemClock};
