//! The log. It goes to standard error, so that standard output has only the output of commands.
//!
//! A thread writes the lines. When nobody reads standard error, that thread waits, and the service
//! does not: lines beyond a limit are dropped and counted.

use std::{
    io::{self, BufWriter, IsTerminal as _, Write},
    sync::{
        OnceLock,
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread,
    time::Duration,
};

use prometheus::IntCounter;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt as _, registry,
    util::SubscriberInitExt as _,
};

use crate::{
    json_line::JsonLine,
    settings::{LogFormat, Settings},
    traces::{self, Traces},
};

/// Maximum number of lines that wait to be written.
const MAX_WAITING_LINES: usize = 4_096;

/// Time in which lines gather before they are written together. Waking the thread for each line
/// cost an eighth of the CPU time under load.
const BATCH_DELAY: Duration = Duration::from_millis(5);

/// Time limit for the remaining lines at the end of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The counter of dropped lines, once the log of this process has started.
static DROPPED_LINES: OnceLock<IntCounter> = OnceLock::new();

/// Returns the counter of dropped lines if the log has started.
pub(crate) fn dropped_lines() -> Option<&'static IntCounter> {
    DROPPED_LINES.get()
}

/// The log of this process. Dropping it writes the remaining lines.
pub struct Log(Lines);

enum Message {
    Line(Vec<u8>),
    /// Asks for an answer when all lines before this message are written.
    Flush(Sender<()>),
}

/// Hands lines over to the thread that writes them.
#[derive(Clone)]
struct Lines {
    messages: SyncSender<Message>,
    dropped: IntCounter,
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.messages.try_send(Message::Line(line.to_vec())).is_err() {
            self.dropped.inc();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the log of this process, logs panics, and gives spans to the traces, if there are any.
pub fn start(settings: &Settings, traces: Option<&Traces>) -> Result<Log, prometheus::Error> {
    let terminal = io::stderr().is_terminal();
    let format =
        settings.log_format.unwrap_or(if terminal { LogFormat::Pretty } else { LogFormat::Json });
    // `object_store` logs each attempt of a request. Its callers log the outcome.
    let quieter = settings.log_level.min(LevelFilter::WARN);
    let detailed = Some(settings.log_level).filter(|level| *level > LevelFilter::INFO);
    let filter = Targets::new()
        .with_default(settings.log_level)
        // Logs bytes that are no HTTP as errors. Any client could fill the log.
        .with_target("actix_http::h1", LevelFilter::OFF)
        // Logs its threads as information. A start that fails has one line.
        .with_target("actix_server", detailed.unwrap_or(quieter))
        .with_target("object_store", quieter)
        // Only traces have these spans. No line has their targets.
        .with_targets(traces::TARGETS.map(|target| {
            (target, if traces.is_some() { LevelFilter::INFO } else { LevelFilter::OFF })
        }));
    let dropped = IntCounter::new(
        "notary_orders_log_lines_dropped_total",
        "Log lines that were dropped because standard error was not read in time.",
    )?;
    let dropped = DROPPED_LINES.get_or_init(|| dropped);
    let (messages, received) = sync_channel(MAX_WAITING_LINES);
    thread::spawn(move || write(&received, dropped, BufWriter::new(io::stderr())));
    let log = Lines { messages, dropped: dropped.clone() };
    let writer = log.clone();
    let lines = fmt::layer().with_writer(move || writer.clone()).with_ansi(terminal);
    match format {
        LogFormat::Pretty => install(lines, filter, traces),
        LogFormat::Json => install(lines.json().event_format(JsonLine), filter, traces),
    }
    std::panic::set_hook(Box::new(|panic| {
        // Without the message, which may quote data of a client.
        let location = panic.location().map(ToString::to_string);
        tracing::error!(location, "panic");
    }));
    Ok(Log(log))
}

/// The filter is for all layers: a filter of the lines alone costs time at each span and line.
fn install(lines: impl Layer<Registry> + Send + Sync, filter: Targets, traces: Option<&Traces>) {
    let lines = registry().with(lines);
    match traces {
        Some(traces) => {
            let steps = traces::steps_of_traced_requests();
            lines.with(traces.layer()).with(steps).with(filter).init();
        }
        None => lines.with(filter).init(),
    }
}

/// Writes lines in batches. Logs how many were dropped as soon as lines can be written again.
fn write(messages: &Receiver<Message>, dropped: &IntCounter, mut log: impl Write) {
    let mut reported = 0;
    while let Ok(first) = messages.recv() {
        thread::sleep(BATCH_DELAY);
        let mut flushed = None;
        for message in [first].into_iter().chain(messages.try_iter()) {
            match message {
                Message::Line(line) => {
                    if log.write_all(&line).is_err() {
                        dropped.inc();
                    }
                }
                Message::Flush(done) => {
                    flushed = Some(done);
                    break;
                }
            }
        }
        if log.flush().is_ok() && dropped.get() > reported {
            let lines = dropped.get() - reported;
            reported += lines;
            tracing::warn!(lines, "log lines were dropped: standard error was not read in time");
        }
        if let Some(done) = flushed {
            let _ = done.send(());
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let messages = self.0.messages.clone();
        within(FLUSH_TIMEOUT, move || {
            let (done, flushed) = channel();
            if messages.send(Message::Flush(done)).is_ok() {
                let _ = flushed.recv();
            }
        });
    }
}

/// Runs work that may block for ever, such as printing to a pipe that nobody reads. Waits for its
/// end, but no longer than a time limit. Returns whether it ended.
pub(crate) fn within(limit: Duration, work: impl FnOnce() + Send + 'static) -> bool {
    let (done, ended) = channel();
    thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    ended.recv_timeout(limit).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_beyond_the_limit_is_dropped_and_counted() {
        let (messages, received) = sync_channel(2);
        let dropped = IntCounter::new("dropped", "Dropped.").unwrap();
        let mut lines = Lines { messages, dropped: dropped.clone() };
        for line in ["1\n", "2\n", "3\n"] {
            lines.write_all(line.as_bytes()).unwrap();
        }
        drop(lines);
        let mut written = Vec::new();
        write(&received, &dropped, &mut written);
        assert_eq!((written.as_slice(), dropped.get()), (b"1\n2\n".as_slice(), 1));
    }

    #[test]
    fn blocked_work_is_not_waited_for() {
        let (_sender, never) = channel::<()>();
        assert!(!within(Duration::from_millis(10), move || {
            let _ = never.recv();
        }));
        assert!(within(Duration::from_secs(10), || ()));
    }
}
