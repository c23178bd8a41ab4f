//! Log lines and metrics of scans for malware.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use async_trait::async_trait;
use domain::{
    document::SpooledFile,
    ports::{DocumentScanner, ScanError, Verdict, error_chain},
};
use prometheus::{
    Histogram, IntCounterVec, Registry, register_histogram_with_registry,
    register_int_counter_vec_with_registry,
};

/// Buckets of the duration of a scan, in seconds.
const DURATIONS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 20.0];

/// A scanner whose scans are counted and logged.
pub struct ObservedScanner<S> {
    scanner: S,
    scans: IntCounterVec,
    durations: Histogram,
    /// Whether the last scan found the scanner unavailable.
    is_down: AtomicBool,
}

impl<S> ObservedScanner<S> {
    /// Registers the metrics.
    pub fn register(scanner: S, registry: &Registry) -> Result<Self, prometheus::Error> {
        let scans = register_int_counter_vec_with_registry!(
            "notary_orders_document_scans_total",
            "Scans of documents for malware, by outcome.",
            &["outcome"],
            registry
        )?;
        for outcome in ["clean", "infected", "too_large", "unavailable"] {
            scans.with_label_values(&[outcome]);
        }
        let durations = register_histogram_with_registry!(
            "notary_orders_document_scan_duration_seconds",
            "Time of a scan, with the wait for a free connection to the malware scanner.",
            DURATIONS.to_vec(),
            registry
        )?;
        Ok(Self { scanner, scans, durations, is_down: AtomicBool::new(false) })
    }
}

#[async_trait]
impl<S: DocumentScanner> DocumentScanner for ObservedScanner<S> {
    async fn scan(&self, file: &SpooledFile) -> Result<Verdict, ScanError> {
        let started = Instant::now();
        let scanned = self.scanner.scan(file).await;
        self.durations.observe(started.elapsed().as_secs_f64());
        let outcome = match &scanned {
            Ok(Verdict::Clean) => "clean",
            Ok(Verdict::Infected { signature }) => {
                tracing::warn!(signature, "malware found in a document");
                "infected"
            }
            Err(ScanError::TooLarge) => {
                tracing::warn!(
                    bytes = file.size,
                    "a document is too large for the malware scanner"
                );
                "too_large"
            }
            Err(error @ ScanError::Unavailable(_)) => {
                // Once for an outage: a line for each document would flood the log.
                if !self.is_down.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        error = error_chain(error),
                        "the malware scanner is unavailable"
                    );
                }
                "unavailable"
            }
        };
        if outcome != "unavailable" && self.is_down.swap(false, Ordering::Relaxed) {
            tracing::info!("the malware scanner answers again");
        }
        self.scans.with_label_values(&[outcome]).inc();
        scanned
    }

    async fn check(&self) -> Result<(), ScanError> {
        self.scanner.check().await
    }
}
