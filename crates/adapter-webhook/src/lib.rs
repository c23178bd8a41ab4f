//! Sends webhooks (Standard Webhooks 1.0.0), and encrypts the secrets that sign them.
//!
//! | topic | module |
//! |---|---|
//! | which addresses are public | `address` |
//! | which URLs and addresses the service may call | `guard` |
//! | names: resolved for each connection, and every address checked | `resolver` |
//! | one attempt: its limits, and connections that are used again | `sender` |
//! | which error an attempt has | `failure` |
//! | signatures | `signature` |
//! | secrets at rest | `secrets` |
//!
//! # Why a name cannot lead elsewhere than its check said
//!
//! `reqwest` gets addresses only from `resolver`, which checks them and returns nothing if one of
//! them is refused. So a connection is open only to a checked address, and an attempt that uses it
//! again goes to that address. `reqwest` resolves no address that stands in a URL; `guard` checks
//! those before each attempt. Redirects are not followed.

mod address;
mod failure;
mod guard;
mod resolver;
mod secrets;
mod sender;
mod signature;

pub use secrets::{InvalidKey, SealedSecrets, SecretsKey};
pub use sender::{InvalidProxy, Sender};
pub use signature::{NotGenuine, Received, verify};

#[cfg(test)]
mod test_receiver;
