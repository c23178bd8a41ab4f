//! The REST API of notary-orders on actix-web.
//!
//! | concept | module |
//! |---|---|
//! | table of paths and methods | `routes` |
//! | the operations on orders, and their records | `orders` |
//! | the operations on webhooks, and their records | `webhooks` |
//! | sign-ins and sessions of browsers | `sessions` |
//! | people and keys of a side, for its admins; the mails of invitations | `people`, `keys`, `invitation_mails` |
//! | `GET /api/key`, `GET /api/services`, `GET /api/notaries` | `read_key`, `list_services`, `list_notaries` |
//! | use cases, limits and settings for the handlers | `state` |
//! | authentication by keys and cookies, requests of other sites, scopes, rate limits, address of the client, repeats under one `Idempotency-Key` | `admission` |
//! | JSON bodies: limits of size, time and number; unread bodies of rejected requests | `body` |
//! | multipart forms; documents: storage while they arrive, format check | `form` |
//! | from a handler's result to a response: problems, validators, pages, links | `respond` |
//! | what all handlers share of a request: id, notes, spans, counters | `request` |
//! | the outermost middleware: log line, headers of every answer, counts of rejected requests | `observe` |
//! | `/healthz`, `/readyz`, `/metrics` | `ops` |
//! | the servers, TLS | `server` |
//! | connections: limits for each address, idle ones, what actix reads ahead | `guard`, `gate`, `server/gated.rs` |
//! | what goes on without a client; replays in progress; the stop of the service | `detached_tasks`, `replays`, `closing` |
//! | OpenAPI document | `openapi` |
//! | the pages at `/` and `/docs` | `home_page`, `docs_page` |
//! | the page at `/console` | `console` |
//!
//! No file and no folder uses one that uses it in turn; `crates/app/tests/architecture/` checks this.
//!
//! # Adding an endpoint
//!
//! 1. Write the use case and its port method in the domain.
//! 2. Write a handler: `admission::authentication::admit` checks the key and the rate limit,
//!    `respond::answer::answer` turns a problem or a panic into a response.
//!    `orders/create_json.rs` writes, and `orders/read_order.rs` reads.
//! 3. Add one line to `routes`. Other methods of the path are answered with 405.
//! 4. Describe the operation in `docs/openapi.json`.
//! 5. Test the handler on mocks of the ports, as `orders/create_json_tests.rs` does.

mod admission;
mod body;
mod closing;
mod console;
mod detached_tasks;
mod docs_page;
mod form;
mod gate;
mod guard;
mod home_page;
mod invitation_mails;
mod keys;
mod list_notaries;
mod list_services;
mod observe;
mod openapi;
mod ops;
mod orders;
mod people;
mod read_key;
mod replays;
mod request;
mod respond;
mod routes;
mod server;
mod sessions;
mod state;
#[cfg(test)]
mod test_support;
mod webhooks;

pub use admission::audit::Audited;
pub use admission::authentication::Admission;
pub use admission::limits::{ANSWERS, DOWNLOADS, JSON_BODIES, Shares};
pub use admission::peer::Proxies;
pub use admission::rate_limit::RateLimits;
pub use admission::site::Site;
pub use closing::Closing;
pub use detached_tasks::DetachedTasks;
pub use form::{Spool, check_content};
pub use guard::Connections;
pub use invitation_mails::InvitationMails;
pub use observe::gauges::register_gauges;
pub use openapi::{OpenApiSettings, document as openapi_document};
pub use ops::{Dependencies, Ops, TimeLimits};
pub use orders::record::WholeOrder;
pub use replays::Replays;
pub use request::metrics::ApiMetrics;
pub use request::trace::{RequestTrace, TraceRequests, TracedAnswer};
pub use server::tls::{Tls, TlsPair, TlsPairError};
pub use server::{Capacity, serve_api, serve_ops};
pub use state::Api;

/// Items that the fuzz properties test directly. Not part of the API of this crate.
#[doc(hidden)]
pub mod internals {
    pub use crate::{
        admission::{authentication::bearer, fingerprint::attempt, idempotency_key::key_text},
        form::{FormSpace, OrderForm, TEXT_PARTS, Texts, check_bytes, read as read_form},
        respond::problem::{Problem, ProblemCode},
    };
}
