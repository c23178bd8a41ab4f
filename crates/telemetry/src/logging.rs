//! The log. It goes to standard error, so that standard output has only the output of commands.
//!
//! A thread writes the lines. When nobody reads standard error, that thread waits, and the service
//! does not: lines beyond a limit are dropped and counted.

use std::{
    io::{self, BufWriter, IsTerminal as _},
    sync::OnceLock,
};

use domain::trace_context::STEPS;
use prometheus::{
    IntCounter, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, registry,
    util::SubscriberInitExt as _,
};

use crate::traces::Traces;

/// Maximum number of lines that wait to be written.
const MAX_WAITING_LINES: usize = 4_096;

/// The number of dropped lines, once the log of this process has started.
static DROPPED_LINES: OnceLock<ErrorCounter> = OnceLock::new();

/// Starts the log of this process, logs panics, and gives spans to the traces, if there are any.
/// Dropping the guard writes the remaining lines, within about a second.
pub fn start(is_json: bool, level: LevelFilter, traces: Option<&Traces>) -> WorkerGuard {
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(MAX_WAITING_LINES)
        .thread_name("log")
        // Lines that wait are written together.
        .finish(BufWriter::new(io::stderr()));
    let _ = DROPPED_LINES.set(writer.error_counter());
    let lines = fmt::layer().with_writer(writer).with_ansi(io::stderr().is_terminal());
    let lines = if is_json {
        lines.json().flatten_event(true).with_span_list(false).boxed()
    } else {
        lines.boxed()
    };
    let lines = lines.with_filter(filter(level));
    registry().with(lines).with(traces.map(Traces::layer)).init();
    std::panic::set_hook(Box::new(|panic| {
        // Without the message, which may quote data of a client.
        let location = panic.location().map(ToString::to_string);
        tracing::error!(location, "panic");
    }));
    guard
}

/// Returns which lines are written at a level.
fn filter(level: LevelFilter) -> Targets {
    // `object_store` logs each attempt of a request. Its callers log the outcome.
    let quieter = level.min(LevelFilter::WARN);
    let detailed = Some(level).filter(|level| *level > LevelFilter::INFO);
    Targets::new()
        .with_default(level)
        // Logs bytes that are no HTTP as errors. Any client could fill the log.
        .with_target("actix_http::h1", LevelFilter::OFF)
        // Logs its threads as information. A start that fails has one line.
        .with_target("actix_server", detailed.unwrap_or(quieter))
        .with_target("object_store", quieter)
        // Only traces have the steps of requests, so that the span of a line is its request.
        .with_target(STEPS, LevelFilter::OFF)
}

/// Registers the counter of dropped lines, if the log of this process has started.
pub fn register(registry: &Registry) -> Result<(), prometheus::Error> {
    let Some(lines) = DROPPED_LINES.get() else { return Ok(()) };
    registry.register(Box::new(DroppedLines { lines: lines.clone(), counter: counter()? }))
}

fn counter() -> Result<IntCounter, prometheus::Error> {
    IntCounter::new(
        "notary_orders_log_lines_dropped_total",
        "Log lines that were dropped because standard error was not read in time.",
    )
}

struct DroppedLines {
    lines: ErrorCounter,
    /// Describes the metric.
    counter: IntCounter,
}

impl Collector for DroppedLines {
    fn desc(&self) -> Vec<&Desc> {
        self.counter.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Ok(counter) = counter() else { return Vec::new() };
        counter.inc_by(self.lines.dropped_lines() as u64);
        counter.collect()
    }
}
