//! The output of commands.

use std::{
    array,
    io::{self, ErrorKind, Write as _},
};

use anyhow::Result;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Prints to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns a table. Each column is as wide as its widest cell.
pub(super) fn table<const COLUMNS: usize>(
    head: [&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
) -> String {
    let rows: Vec<_> = [head.map(str::to_owned)].into_iter().chain(rows).collect();
    let widths: [usize; COLUMNS] = array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    });
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Formats an instant in RFC 3339 with whole seconds.
pub(super) fn second(instant: OffsetDateTime) -> String {
    instant.truncate_to_second().format(&Rfc3339).unwrap_or_else(|_| instant.to_string())
}

/// Removes user, password and query from every URL in a message. The message may quote a mistyped
/// command.
pub fn without_credentials(message: &str) -> String {
    let redact = |word: &str| match (word.find("://"), word.rfind('@')) {
        (Some(scheme), _) if word.contains('?') => format!("{}… ", &word[..scheme + 3]),
        (Some(scheme), Some(host)) if scheme < host => {
            format!("{}…{}", &word[..scheme + 3], &word[host..])
        }
        _ => word.to_owned(),
    };
    message.split_inclusive(char::is_whitespace).map(redact).collect()
}
