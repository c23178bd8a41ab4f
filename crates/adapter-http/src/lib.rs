//! The REST API of notary-orders on actix-web.
//!
//! | concept | place |
//! |---|---|
//! | the two operations | `api` |
//! | reading bodies, with an end to bytes and patience | `body` |
//! | reading the multipart form as a stream | `form`, `part_lengths`, files in `spool` by `blocks`, their content in `content` |
//! | credentials, rate limit and overload | `auth`, `rate_limit`, `peer`, `room` |
//! | repeats under one `Idempotency-Key` | `idempotency` |
//! | connections, and their end at a stop | `connections` |
//! | problem responses | `problem` |
//! | the creation response | `order_record` |
//! | request ids, log, metrics | `observe`, `metrics` |
//! | `/healthz`, `/readyz`, `/metrics` | `ops` |
//! | OpenAPI, and the page that shows it | `openapi`, `docs_page` |
//! | what must hold of any bytes that a stranger sends | `fuzzing`, for tests alone |

mod api;
mod auth;
mod blocks;
mod body;
mod connections;
mod content;
mod docs_page;
mod form;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod idempotency;
mod metrics;
mod observe;
mod openapi;
mod ops;
mod order_record;
mod part_lengths;
mod peer;
mod problem;
mod rate_limit;
mod room;
mod server;
mod spool;

pub use api::Api;
pub use connections::{Connections, take_no_more};
pub use content::is as content_is;
pub use idempotency::Underway;
pub use metrics::ApiMetrics;
pub use openapi::document as openapi_document;
pub use ops::Ops;
pub use rate_limit::RateLimits;
pub use room::Room;
pub use server::{Crowd, serve_api, serve_ops};
pub use spool::Spool;
