//! The paths of sessions.

/// Path of the session of a request, below the base path.
pub(crate) const SESSION: &str = "/api/session";
/// Path of the ways to sign in.
pub(crate) const WAYS: &str = "/api/session/ways";
/// Path that begins a session with a key.
pub(crate) const KEY: &str = "/api/session/key";
/// Path that looks at an invitation.
pub(crate) const INVITATION: &str = "/api/session/invitation";
/// Path that begins a ceremony with a passkey.
pub(crate) const PASSKEY: &str = "/api/session/passkey";
/// Path that finishes it.
pub(crate) const PASSKEY_FINISH: &str = "/api/session/passkey/finish";
/// Path that begins a company's login.
pub(crate) const LOGIN: &str = "/api/session/login";
/// Path that finishes it.
pub(crate) const LOGIN_FINISH: &str = "/api/session/login/finish";
