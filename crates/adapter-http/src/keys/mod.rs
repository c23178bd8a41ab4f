//! The keys of a side, which its admins issue, rotate and revoke.

pub(crate) mod issue;
pub(crate) mod list;
pub(crate) mod path;
mod record;
pub(crate) mod revoke;
pub(crate) mod rotate;
