//! Sessions of browsers: how they begin, what they are, how they end.

pub(crate) mod invitation;
pub(crate) mod key;
pub(crate) mod login;
pub(crate) mod passkey;
pub(crate) mod path;
mod purpose;
pub(crate) mod record;
pub(crate) mod session;
pub(crate) mod signing_in;
pub(crate) mod ways;
