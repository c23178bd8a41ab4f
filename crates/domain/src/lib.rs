//! Notarial signing orders: the rules of the business, and the ports to the outside world.
//!
//! This crate uses no runtime, protocol, database, clock or source of randomness. What the rules
//! need from outside they get through a *port*: a trait in [`ports`] that lists what an adapter
//! must guarantee.
//!
//! | model | module |
//! |---|---|
//! | the order, its request, its stored form | [`order`] |
//! | members of requests, the rules at them, violations | [`request`] |
//! | date, time and time zone of the signing | [`appointment`] |
//! | accepted formats, file names and limits of documents | [`document`] |
//! | the duplicate window of a file number | [`duplicate_window`] |
//! | repeats of a request with one `Idempotency-Key` | [`idempotency`] |
//! | addresses and numbers of people and companies | [`people`] |
//! | preconditions of changes | [`precondition`] |
//! | API keys and their owners | [`api_key`] |
//! | people who sign in: invitations, passkeys, logins, sessions | [`person`] |
//! | records of signing services | [`signing_service`] |
//! | the notaries that a signing service knows | [`notary`] |
//! | the installation of a database, and its copies | [`installation`] |
//! | who has read or changed what | [`access`] |
//! | requests that were rejected, and the mails about them | [`rejected`] |
//! | mails about an order, and when they are retried | [`delivery`] |
//! | which time holds, and when it is too doubtful to erase by it | [`clock_watch`] |
//! | webhooks: endpoints, events, retry schedule, payloads, secrets | [`webhook`] |
//!
//! A model uses no port but [`entropy`]. A port uses models. [`use_cases`] use both: what a handler, a command
//! or a worker calls.
//!
//! | use cases | module |
//! |---|---|
//! | orders: create, add documents and notes, scan, read, change, cancel, erase | [`use_cases`] |
//! | the accesses to orders: record, store, watch | [`use_cases::accesses`] |
//! | rejected requests: count, store, tell | [`use_cases::rejected`] |
//! | API keys: issue, rotate, revoke, cache, last use | [`use_cases::keys`] |
//! | people: invite, sign in, sign out, manage | [`use_cases::people`] |
//! | which signing services orders may name | [`use_cases::services`] |
//! | the notaries of a signing service | [`use_cases::notaries`] |
//! | mails: dispatch of events, attempts; the loop that delivers mails and webhooks | [`use_cases::deliveries`] |
//! | webhooks: manage, attempt, watch | [`use_cases::webhooks`] |
//! | copies of a database: tell, adopt | [`use_cases::installations`] |
//! | clean up after orders | [`use_cases::upkeep`] |
//! | workers, and what they store of facts that wait in memory | [`use_cases::background`], [`use_cases::store_waiting`] |
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

pub mod access;
pub mod api_key;
pub mod appointment;
pub mod clock_watch;
pub mod delivery;
pub mod document;
pub mod duplicate_window;
pub mod entropy;
pub mod idempotency;
pub mod installation;
pub mod notary;
pub mod order;
pub mod people;
pub mod person;
pub mod ports;
pub mod precondition;
pub mod rejected;
pub mod request;
pub mod signing_service;
pub mod trace_context;
pub mod use_cases;
pub mod webhook;

#[cfg(test)]
mod test_support;
