//! The `notary-orders` service: wiring, start and stop, and the drivers of background work. It
//! contains no business rules. Settings and commands are in `operator`, log and traces in
//! `telemetry`.
//!
//! | concept | module |
//! |---|---|
//! | command line | [`cli`] |
//! | use cases on the adapters of the settings | `wiring` |
//! | relay and scanner of a service that starts | `dependencies` |
//! | listening sockets and the limit of connections | `listen` |
//! | copies of a database, which send nothing | `messages` |
//! | certificate and key of the API, replaced when their files change | `certificate_watch` |
//! | start and graceful stop | [`serve`] |
//! | background work | `workers` |
//! | log lines about failures of background work | `outages` |
//! | key of the first start | `first_key` |

mod certificate_watch;
pub mod cli;
mod dependencies;
mod first_key;
mod listen;
mod messages;
mod outages;
pub mod serve;
mod wiring;
mod workers;
