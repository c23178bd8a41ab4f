//! In-memory fakes that keep the contracts, for tests of everything that stands on the ports.

mod blob_store;
mod clock;
mod entropy;
mod notifier;
mod store;

pub use blob_store::*;
pub use clock::*;
pub use entropy::*;
pub use notifier::*;
pub use store::*;
