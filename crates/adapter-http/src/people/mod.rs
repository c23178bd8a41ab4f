//! People: their admins manage them, and they manage their own ways to sign in. Keys do neither.

pub(crate) mod admin;
pub(crate) mod change;
pub(crate) mod invite;
pub(crate) mod list;
pub(crate) mod own;
pub(crate) mod own_passkeys;
pub(crate) mod passkeys;
pub(crate) mod path;
mod problems;
mod record;
pub(crate) mod sessions;
