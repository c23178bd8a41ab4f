//! Notarial signing orders: the rules of the business, and the ports through which they reach the
//! world.
//!
//! Nothing here knows a runtime, a protocol, a database, the time of day or a source of randomness.
//! What the rules need from outside they ask of a *port*: a trait in [`ports`] whose documentation
//! is the obligation that an adapter takes on.
//!
//! | concept | place |
//! |---|---|
//! | the order, what a client may ask for, and what is wrong with it | [`order`] |
//! | date, time and time zone of the signing | [`appointment`] |
//! | accepted formats, file names, limits of documents | [`document`] |
//! | the window in which a file number may be used once | [`duplicate_window`] |
//! | API keys | [`api_key`] |
//! | repeats of a request under one `Idempotency-Key` | [`idempotency`] |
//! | mails that follow an order, retry and burial | [`delivery`] |
//! | use cases | [`create_order`], [`run_deliveries`], [`sweep_uploads`], [`manage_keys`] |
//!
//! # Adding a port
//!
//! 1. Write the trait in [`ports`] as few, whole operations; say for each what holds when it
//!    returns, and what each error means to the caller.
//! 2. Add `#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]`, so that use cases can be
//!    unit-tested.
//! 3. Write its obligations as a suite in the `contract-tests` crate with an in-memory fake, and
//!    run the suite in every adapter.

pub mod api_key;
pub mod appointment;
pub mod create_order;
pub mod delivery;
pub mod document;
pub mod duplicate_window;
pub mod idempotency;
pub mod known_keys;
pub mod manage_keys;
pub mod order;
pub mod ports;
pub mod run_deliveries;
pub mod sweep_uploads;

mod hex;

#[cfg(test)]
mod test_support;
