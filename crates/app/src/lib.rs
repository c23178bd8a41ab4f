//! The `notary-orders` service: wiring, start and stop, and the drivers of background work. It
//! contains no business rules. Settings and commands are in `operator`, log and traces in
//! `telemetry`.
//!
//! | concept | module |
//! |---|---|
//! | command line | [`cli`] |
//! | use cases on the adapters of the settings | `wiring` |
//! | start and graceful stop | [`serve`] |
//! | background work | `workers` |
//! | erasure of what is kept no longer | `retention` |
//! | log lines about failures of background work | `outages` |
//! | key of the first start | `first_key` |

pub mod cli;
mod first_key;
mod outages;
mod retention;
pub mod serve;
mod wiring;
mod workers;
