//! Keys, their rejected requests, records of signing services, people and their sessions.

mod keys;
mod people;
mod rejected;
mod services;
mod sessions;
