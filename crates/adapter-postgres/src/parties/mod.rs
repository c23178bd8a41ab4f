//! Keys, their rejected requests, and records of signing services.

mod keys;
mod rejected;
mod services;
