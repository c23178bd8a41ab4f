//! Signs people in at OpenID providers: the code flow of OpenID Connect Core 1.0, with PKCE (RFC 7636).
//!
//! | topic | module |
//! |---|---|
//! | what an operator sets: the issuer, the client | `settings` |
//! | requests: their limits, no redirects | `http` |
//! | the discovery document | `document` |
//! | the keys of the issuer | `keys` |
//! | ID tokens: signature and claims | `id_token` |
//! | a login, and what is kept of a provider | `provider` |
//!
//! # Why `biscuit`, and not `openid` on it
//!
//! `biscuit` checks signatures with ring. `openid` 0.25 takes the clock of the machine without tolerance, reads an
//! answer of any length before it compares its length, and knows no ECDSA.
//!
//! # What `biscuit` must not see
//!
//! It panics if a key does not fit the algorithm, and for instants out of range. So `keys` chooses keys of the
//! algorithm, and `id_token` has claims of its own.

mod document;
mod http;
mod id_token;
mod keys;
mod provider;
mod settings;

pub use http::{Http, NoClient};
pub use provider::Provider;
pub use settings::{InvalidIssuer, Issuer, ProviderSettings};

#[cfg(test)]
mod test_provider;
