//! The log: on standard error, so that what a command prints stays alone on standard output.

use std::io::{self, BufWriter, IsTerminal as _};

use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, registry,
    util::SubscriberInitExt as _,
};

use crate::settings::{LogFormat, Settings};

/// Lines that wait to be written at the most; then whoever logs waits too, so that no line is lost.
const WAITING: usize = 4_096;

/// Starts the log of this process, and has panics go there too. Lines are written by a thread of
/// their own, as many at once as there are; what waits is written when the answer is dropped.
pub fn start(settings: &Settings) -> WorkerGuard {
    let terminal = io::stderr().is_terminal();
    let format =
        settings.log_format.unwrap_or(if terminal { LogFormat::Pretty } else { LogFormat::Json });
    // What is no HTTP is answered and forgotten: whoever can reach the port could fill the log with
    // errors. Each attempt of a request to the document store; what became of the request is told
    // by whoever made it.
    let quieter = settings.log_level.min(LevelFilter::WARN);
    let wanted = Targets::new()
        .with_default(settings.log_level)
        .with_target("actix_http::h1", LevelFilter::OFF)
        .with_target("object_store", quieter);
    let (writer, written) = NonBlockingBuilder::default()
        .lossy(false)
        .buffered_lines_limit(WAITING)
        .finish(BufWriter::new(io::stderr()));
    let lines = fmt::layer().with_writer(writer).with_ansi(terminal);
    match format {
        LogFormat::Pretty => registry().with(lines.with_filter(wanted)).init(),
        LogFormat::Json => registry()
            .with(lines.json().flatten_event(true).with_span_list(false).with_filter(wanted))
            .init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        // Not what the panic says: that may quote data of a client.
        let create = panic.location().map(ToString::to_string);
        tracing::error!(create, "panic");
    }));
    written
}
