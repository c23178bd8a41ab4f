//! Keys, and records of signing services.

mod keys;
mod services;
