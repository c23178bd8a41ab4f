//! The settings and commands of operators, and what the settings name.
//!
//! | concept | module |
//! |---|---|
//! | flags, environment variables and their defaults | [`settings`] |
//! | choice of adapters by the settings | [`adapters`] |
//! | addresses of sockets | [`address`] |
//! | files of the certificate and key of the API | [`tls_files`] |
//! | what erases orders, and the mails of erased orders | [`retention`] |
//! | key of the secrets of webhooks | [`secrets_key`] |
//! | signals that stop the service | [`signals`] |
//! | clock, randomness and user | `system` |
//! | commands; copy of a database, backup and restore among them | [`commands`] |
//! | checks of settings, dependencies and machine | [`doctor`] |
//! | files that only their owner can read | `private_files` |
//! | progress of commands that take long | `progress` |

pub mod adapters;
pub mod address;
pub mod commands;
pub mod doctor;
pub mod private_files;
mod progress;
pub mod retention;
pub mod secrets_key;
pub mod settings;
pub mod signals;
mod system;
pub mod tls_files;

pub use system::{Machine, OsEntropy, SystemClock, system_user};
