//! Keeps documents in an object store, which a URL names.
//!
//! | URL | where objects are | parameters of the URL | variables |
//! |---|---|---|---|
//! | `file:///absolute/folder` | a folder on local disk, each object one file | | |
//! | `s3://bucket/prefix` | Amazon S3, or a store that speaks its protocol | `endpoint`, `region` (default `us-east-1`), `path_style` (default `true`), `checksum` (default `sha256`) | `AWS_…` |
//! | `gs://bucket/prefix` | Google Cloud Storage | `endpoint` | `GOOGLE_…` |
//! | `az://container/prefix` | Azure Blob Storage | `endpoint` | `AZURE_…` |
//!
//! Variables are those of `object_store`'s builders, such as `AWS_ACCESS_KEY_ID`,
//! `AWS_SECRET_ACCESS_KEY` and `AWS_REGION`; a parameter wins over a variable. An endpoint may
//! begin with `http://`. Where no credentials are set, the machine's metadata service is asked for
//! some. `path_style=false` puts the bucket into the host name; `checksum=none` is for stores that
//! do not know the header `x-amz-checksum-sha256`.
//!
//! # What proves that an object has arrived
//!
//! In a folder on the file system of the spool, the object is the received file itself, under one
//! more name. Everywhere else the file is hashed while it is read, and an upload of bytes that are
//! not those received is not completed. On S3 the SHA-256 of each body is part of its signature,
//! and, unless that is turned off, in a checksum header that the store verifies and keeps. Google
//! and Azure are sent no checksum: there it is TLS that notices a change on the way, and the stated
//! length a body that was cut off. A remote store is asked for the size of each object afterwards:
//! whatever stands between may say that a put succeeded.
//!
//! # Limits of a remote store
//!
//! - Memory: parts of at most 5 MiB, together at most 30 MiB in a process, whatever the number of
//!   requests.
//! - A file of up to 5 MiB is put by one request, a larger one an upload in parts of 5 MiB, of
//!   which one is under way at a time.
//! - A request is tried up to five times in a row while the store refuses connections or answers
//!   5xx, 429 or 408. A store that is stopped has failed it after 1.1 seconds, and whoever waits
//!   for a turn meanwhile fails with it.
//! - A request and its retries may take 2.5 seconds, and one more for each 200 KiB of its body. A
//!   store that accepts connections and never answers fails a small document after 2.5 seconds and
//!   one of just under 5 MiB after 27.
//! - A check answers within 1.5 seconds.
//!
//! Anything else that implements [`object_store::ObjectStore`] serves through
//! [`ObjectBlobStore::over`].

mod blocks;
mod disk;
mod failure;
mod open;
mod place;
mod remote;
mod spool;
mod store;
mod turns;

pub use open::OpenError;
pub use store::ObjectBlobStore;
