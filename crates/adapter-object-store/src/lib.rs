//! Keeps documents in an object store.
//!
//! | scheme of the URL | where objects are |
//! |---|---|
//! | `file:///absolute/folder` | a folder on local disk, each object one file |
//!
//! Anything else that implements [`object_store::ObjectStore`] serves through [`ObjectBlobStore::over`].

mod disk;
mod open;
mod spool;
mod store;

pub use open::OpenError;
pub use store::ObjectBlobStore;
