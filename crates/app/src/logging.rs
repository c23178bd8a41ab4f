//! The log. It goes to standard error, so that standard output has only the output of commands.

use std::io::{self, BufWriter, IsTerminal as _};

use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, registry,
    util::SubscriberInitExt as _,
};

use crate::settings::{LogFormat, Settings};

/// Maximum number of buffered lines. When the buffer is full, threads that log wait, so that no
/// line is lost.
const MAX_BUFFERED_LINES: usize = 4_096;

/// Starts the log of this process, and logs panics. A separate thread writes the lines in batches.
/// Dropping the returned guard writes the remaining lines.
pub fn start(settings: &Settings) -> WorkerGuard {
    let terminal = io::stderr().is_terminal();
    let format =
        settings.log_format.unwrap_or(if terminal { LogFormat::Pretty } else { LogFormat::Json });
    // `object_store` logs each attempt of a request. Its callers log the outcome.
    let quieter = settings.log_level.min(LevelFilter::WARN);
    let filter = Targets::new()
        .with_default(settings.log_level)
        // Logs bytes that are no HTTP as errors. Any client could fill the log.
        .with_target("actix_http::h1", LevelFilter::OFF)
        .with_target("object_store", quieter);
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(false)
        .buffered_lines_limit(MAX_BUFFERED_LINES)
        .finish(BufWriter::new(io::stderr()));
    let lines = fmt::layer().with_writer(writer).with_ansi(terminal);
    match format {
        LogFormat::Pretty => registry().with(lines.with_filter(filter)).init(),
        LogFormat::Json => registry()
            .with(lines.json().flatten_event(true).with_span_list(false).with_filter(filter))
            .init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        // Without the message, which may quote data of a client.
        let location = panic.location().map(ToString::to_string);
        tracing::error!(location, "panic");
    }));
    guard
}
