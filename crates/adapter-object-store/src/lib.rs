//! Stores documents in a folder on local disk, one file per object, or in a remote store that a URL
//! names:
//!
//! - `s3://bucket/prefix`: Amazon S3, or a store with the same protocol. Parameters: `endpoint`,
//!   `region` (default `us-east-1`), `path_style` (default `true`), `checksum` (default `sha256`),
//!   `sse` and `sse_kms_key` (encryption by the store). Variables: `AWS_…`.
//! - `gs://bucket/prefix`: Google Cloud Storage. Parameter: `endpoint`. Variables: `GOOGLE_…`.
//! - `az://container/prefix`: Azure Blob Storage. Parameter: `endpoint`. Variables: `AZURE_…`.
//!
//! Variables are those of `object_store`'s builders, such as `AWS_ACCESS_KEY_ID`,
//! `AWS_SECRET_ACCESS_KEY` and `AWS_REGION`. A parameter takes precedence over a variable. An
//! endpoint may begin with `http://`. Without credentials, the machine's metadata service provides
//! them. `path_style=false` puts the bucket into the host name. `checksum=none` is for stores that
//! do not support the header `x-amz-checksum-sha256`.
//!
//! # Integrity
//!
//! If the folder is on the file system of the spool, the object is a hard link to the received
//! file. Otherwise the file is hashed while it is read, and an upload of other bytes than were
//! received is not completed. On S3 the SHA-256 of each body is part of its signature. It is also
//! in a checksum header that the store verifies and keeps, unless a setting turns that off. Google
//! and Azure get no checksum: TLS detects a modified body, and the content length a truncated one.
//! After each put to a remote store a `HEAD` reads the size of the object: a proxy may report a
//! success without the store.
//!
//! # Limits of a remote store
//!
//! - Memory: parts of at most 5 MiB, and at most 30 MiB in the whole process.
//! - A file of up to 5 MiB is one request. A larger one is an upload in parts of 5 MiB, one at a
//!   time.
//! - A request is tried up to five times while the store refuses connections or answers 5xx, 429 or
//!   408. If the store is stopped, this takes 1.1 seconds, and uploads that wait for a permit fail
//!   at the same time.
//! - A request with its retries may take 2.5 seconds, plus one second for each 200 KiB of its body.
//!   A store that accepts connections and never answers fails a small document after 2.5 seconds
//!   and one of just under 5 MiB after 27.
//! - A reader waits up to 10 seconds for the next bytes. If a body breaks off, `object_store` requests
//!   the rest, up to four times.
//! - A check takes at most 1.5 seconds.

mod bucket;
mod bucket_url;
mod disk;
mod failure;
mod limits;
mod open;
mod open_error;
mod remote;
mod spool;
mod store;
mod stream;

pub use failure::is_refusal;
pub use limits::TimeLimits;
pub use open::{identity, in_folder, open};
pub use open_error::OpenError;
pub use store::DocumentStore;
