//! Ports of people who sign in.

mod identity_provider;
mod passkeys;
mod person_repo;
mod session_repo;

pub use identity_provider::*;
pub use passkeys::*;
pub use person_repo::*;
pub use session_repo::*;
