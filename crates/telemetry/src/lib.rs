//! The view of operators on the running service: its log, its traces, and metrics of background work,
//! the database, the disk and the malware scanner.
//!
//! | concept | module |
//! |---|---|
//! | log | [`logging`] |
//! | traces | [`traces`] |
//! | steps of traces that are calls of ports | [`traced_ports`] |
//! | log lines and metrics of deliveries and uploads | [`WorkerMetrics`] |
//! | log lines and metrics of scans for malware | [`ObservedScanner`] |
//! | metrics of database and disk | [`gauges`] |

pub mod gauges;
pub mod logging;
mod scan_metrics;
mod trace_context;
pub mod traced_ports;
pub mod traces;
mod worker_metrics;

pub use scan_metrics::ObservedScanner;
pub use worker_metrics::WorkerMetrics;
