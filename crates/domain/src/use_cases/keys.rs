//! API keys: issue, authenticate, rotate, revoke.

pub mod key_cache;
pub mod manage_keys;
pub mod manage_own_keys;
pub mod note_key_uses;
pub mod revoke_key;
