//! The contract of a blob store, and the properties of each kind of store beyond it.

mod contract;
mod folder;
mod s3;
