//! Makes and checks the messages of WebAuthn, by which people sign in with passkeys, with the crate `webauthn_rp`.
//!
//! | topic | module |
//! |---|---|
//! | the ceremonies: what a page passes to the browser, and whether its answer counts | `web_authn` |
//! | which members of a browser's answer count | `answer` |
//!
//! # Which members of an answer count
//!
//! The client data, the data and the signature of the authenticator, and the identifiers that they are compared with.
//! The other members are hints, which a later version of WebAuthn may extend: none of them can fail a sign-in.
//!
//! # What is stored
//!
//! `state` of a ceremony, and `fixed` and `changing` of a credential, are the encodings of `webauthn_rp`. A golden file
//! guards those of a credential, because another encoding would lock everybody out.

mod answer;
mod web_authn;

pub use web_authn::{RELYING_PARTY, WebAuthn};

#[cfg(test)]
mod tests;
