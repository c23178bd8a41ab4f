//! The log: on standard error, so that what a command prints stays alone on standard output.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::fmt;

use crate::settings::{LogFormat, Settings};

/// Starts the log of this process, and has panics go there too.
pub(crate) fn start(settings: &Settings) {
    let terminal = io::stderr().is_terminal();
    let format = settings.log_format.unwrap_or(if terminal { LogFormat::Pretty } else { LogFormat::Json });
    let log = fmt().with_max_level(settings.log_level).with_writer(io::stderr).with_ansi(terminal);
    match format {
        LogFormat::Pretty => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        // Not what the panic says: that may quote data of a client.
        let place = panic.location().map(ToString::to_string);
        tracing::error!(place, "panic");
    }));
}
