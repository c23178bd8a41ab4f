//! Notarial signing orders: the rules of the business, and the ports to the outside world.
//!
//! This crate uses no runtime, protocol, database, clock or source of randomness. What the rules
//! need from outside they get through a *port*: a trait in [`ports`] that lists what an adapter
//! must guarantee.
//!
//! | concept | module |
//! |---|---|
//! | the order, its request, its violations, its stored form | [`order`] |
//! | date, time and time zone of the signing | [`appointment`] |
//! | accepted formats, file names and limits of documents | [`document`] |
//! | the duplicate window of a file number | [`duplicate_window`] |
//! | API keys | [`api_key`], cached by [`key_cache`] |
//! | repeats of a request with one `Idempotency-Key` | [`idempotency`] |
//! | mails about an order and their retry schedule | [`delivery`] |
//! | webhooks: endpoints, events, retry schedule, payloads | [`webhook`] |
//! | the body that creates or changes an endpoint; its secret | [`endpoint_request`], [`webhook_secret`] |
//! | use cases of requests | [`create_order`] and [`add_documents`] over [`intake`], [`read_order`] |
//! | the scan of documents for malware, before they are stored | [`scan_documents`] |
//! | use cases of webhook endpoints | [`manage_webhooks`] |
//! | use cases of commands | [`manage_keys`], [`erase_orders`] |
//! | steps of background work | [`background`] |
//! | use case in the background: turn events into deliveries | [`dispatch_events`] |
//! | use case in the background: deliver mails and webhooks | [`delivery_worker`], [`run_deliveries`], [`run_webhooks`] |
//! | the slots that mails and webhooks share | [`delivery_slots`] |
//! | use case in the background: disable endpoints that fail | [`watch_webhooks`] |
//! | other use cases in the background | [`sweep_uploads`], [`forget_keys`], [`note_key_uses`] |
//!
//! # Adding a port
//!
//! 1. Write the trait in [`ports`] with few, whole operations. List what an implementation must
//!    guarantee, and what each error means to the caller.
//! 2. Add `#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]` for unit tests.
//! 3. Write the guarantees as a suite in the `contract-tests` crate, and run it on every adapter.

/// Implements `Debug` for types with personal or secret data: it shows none of their values.
macro_rules! conceal {
    ($($name:ident),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(concat!(stringify!($name), "(…)"))
            }
        }
    )*};
}

pub mod add_documents;
pub mod api_key;
pub mod appointment;
pub mod background;
pub mod create_order;
pub mod delivery;
pub mod delivery_slots;
pub mod delivery_worker;
pub mod dispatch_events;
pub mod document;
pub mod duplicate_window;
pub mod endpoint_request;
pub mod erase_orders;
pub mod forget_keys;
pub mod idempotency;
pub mod intake;
pub mod key_cache;
pub mod manage_keys;
pub mod manage_webhooks;
pub mod note_key_uses;
pub mod order;
pub mod ports;
pub mod read_order;
pub mod run_deliveries;
pub mod run_webhooks;
pub mod scan_documents;
pub mod sweep_uploads;
pub mod trace_context;
pub mod watch_webhooks;
pub mod webhook;
pub mod webhook_secret;

mod hex;

#[cfg(test)]
mod test_support;
