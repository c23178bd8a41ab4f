//! The output of commands.

use std::io::{self, ErrorKind, Write as _};

use anyhow::Result;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Prints to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// A column of a table: its name, the text of an absent value, and the value of a row.
pub(super) type Column<'a, Row> = (&'static str, &'static str, &'a dyn Fn(&Row) -> Value);

/// Prints a table. Each column is as wide as its widest cell.
pub(super) fn print_table<Row>(columns: &[Column<'_, Row>], rows: &[Row]) -> Result<()> {
    let cells = |row| columns.iter().map(move |(_, absent, value)| cell(&value(row), absent));
    let head = columns.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let lines: Vec<Vec<String>> =
        [head].into_iter().chain(rows.iter().map(|row| cells(row).collect())).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<_> = (0..columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |line: &Vec<String>| {
        let padded = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    print(&lines.iter().map(line).collect::<String>())
}

/// Returns the text of a value on a terminal. A text of a client cannot control it.
fn cell(value: &Value, absent: &str) -> String {
    match value {
        Value::Null => absent.to_owned(),
        Value::String(text) => {
            let safe = |character: char| match character {
                '\'' | '"' | '\\' => character.to_string(),
                _ => character.escape_debug().to_string(),
            };
            text.chars().map(safe).collect()
        }
        Value::Array(values) => {
            values.iter().map(|value| cell(value, absent)).collect::<Vec<_>>().join(",")
        }
        value => value.to_string(),
    }
}

/// Formats an instant in RFC 3339 with whole seconds.
pub(super) fn second(instant: OffsetDateTime) -> String {
    instant.truncate_to_second().format(&Rfc3339).unwrap_or_else(|_| instant.to_string())
}

/// Returns the value of an instant in a table.
pub(super) fn at(instant: impl Into<Option<OffsetDateTime>>) -> Value {
    json!(instant.into().map(second))
}

/// Returns the value of what is for tests or for real orders.
pub(super) fn kind(is_test: bool) -> Value {
    json!(if is_test { "test" } else { "production" })
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
