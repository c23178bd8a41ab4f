//! The REST API of notary-orders on actix-web.
//!
//! | concept | module |
//! |---|---|
//! | table of paths and methods | `routes` |
//! | the operations on orders, and their records | `orders` |
//! | the operations on webhooks, and their records | `webhooks` |
//! | what the handlers share | `state` |
//! | authentication and rate limits | `authentication`, `rate_limit`, `peer` |
//! | concurrency limits | `concurrency_limit`, `body_limit` |
//! | from a handler's result to a response | `answer`, `problem` |
//! | validators of answers, conditional requests | `conditional` |
//! | JSON bodies | `body`, `json_body` |
//! | multipart forms; documents: storage while they arrive, format check | `form` |
//! | identifiers in paths, pages of lists, instants | `path_number`, `paging`, `list`, `instants` |
//! | repeats under one `Idempotency-Key` | `idempotency_key`, `fingerprint`, `in_progress` |
//! | request id, log line, metrics, response headers | `observe`, `request_notes`, `metrics`, `gauges` |
//! | traces | `trace` |
//! | the servers; connections: limits, idle ones, their end when the service stops | `server`, `guard`, `closing` |
//! | unread bodies of rejected requests | `kept_body` |
//! | TLS: certificate and key | `tls` |
//! | work that outlives its request | `detached_tasks` |
//! | `/healthz`, `/readyz`, `/metrics` | `ops` |
//! | OpenAPI document and documentation page | `openapi`, `docs_page` |
//!
//! No module uses one that uses it in turn; `tests/modules.rs` checks this.
//!
//! # Adding an endpoint
//!
//! 1. Write the use case and its port method in the domain.
//! 2. Write a handler: `authentication::admit` checks the key and the rate limit, `answer::answer`
//!    turns a problem or a panic into a response. `orders/create_json.rs` writes, and
//!    `orders/read_order.rs` reads.
//! 3. Add one line to `routes`. Other methods of the path are answered with 405.
//! 4. Describe the operation in `docs/openapi.json`.
//! 5. Test the handler on mocks of the ports, as `orders/create_json_tests.rs` does.

mod answer;
mod authentication;
mod body;
mod body_limit;
mod closing;
mod concurrency_limit;
mod conditional;
mod detached_tasks;
mod docs_page;
mod fingerprint;
mod form;
mod gauges;
mod guard;
mod idempotency_key;
mod in_progress;
mod instants;
mod json_body;
mod kept_body;
mod list;
mod metrics;
mod observe;
mod openapi;
mod ops;
mod orders;
mod paging;
mod path_number;
mod peer;
mod problem;
mod rate_limit;
mod request_notes;
mod routes;
mod server;
mod state;
#[cfg(test)]
mod test_support;
mod tls;
mod trace;
mod webhooks;

pub use body_limit::BodyLimit;
pub use closing::Closing;
pub use concurrency_limit::ConcurrencyLimit;
pub use detached_tasks::DetachedTasks;
pub use form::{Spool, check_content};
pub use gauges::register_gauges;
pub use guard::Connections;
pub use in_progress::{InProgress, KeysInProgress};
pub use metrics::ApiMetrics;
pub use openapi::{OpenApiSettings, document as openapi_document};
pub use ops::{Dependencies, Ops};
pub use orders::whole_order;
pub use rate_limit::RateLimits;
pub use server::{Capacity, serve_api, serve_ops};
pub use state::Api;
pub use tls::{Tls, TlsPair, TlsPairError};
pub use trace::{RequestTrace, STEPS, TraceRequests, TracedAnswer};

/// What the fuzz properties test directly. Not part of the API of this crate.
#[doc(hidden)]
pub mod internals {
    pub use crate::{
        authentication::bearer,
        fingerprint::attempt,
        form::{FormSpace, OrderForm, TEXT_PARTS, check_bytes, read as read_form},
        idempotency_key::key_text,
        problem::{Problem, ProblemCode},
    };
}
