//! The output of commands.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use anyhow::Result;
use clap::Args;
use domain::{
    appointment::parse_instant,
    order::{EmailAddress, InvalidEmail},
    signing_service::MAX_NAME,
};
use serde_json::{Value, json};
use time::{
    OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339, macros::format_description,
};

/// Prints to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> Result<()> {
    match write(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints like [`print()`]. Returns whether more can be printed: the pipe is not closed.
pub(super) fn has_printed(text: &str) -> Result<bool> {
    match write(text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => Ok(written.map(|()| true)?),
    }
}

/// Writes to standard output at once.
pub(super) fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// How a list is printed.
#[derive(Debug, Clone, Copy, Args)]
pub struct Format {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// A column of a list: its name, the text of an absent value, and the value of a row.
pub(super) type Column<'a, Row> = (&'static str, &'static str, &'a dyn Fn(&Row) -> Value);

/// The columns that a terminal shows shortened, and their widths: names and URLs, never a code or an
/// identifier. A pipe gets them whole.
pub(super) type Shortened = [(&'static str, usize)];

impl Format {
    /// The format for people.
    pub(super) const TABLE: Self = Self { json: false };

    /// Returns how many rows are listed: a table has a maximum, and programs read all.
    pub(super) fn limit(self, max: usize) -> usize {
        if self.json { usize::MAX } else { max }
    }

    /// Prints a list.
    pub(super) fn print<Row>(self, columns: &[Column<'_, Row>], rows: &[Row]) -> Result<()> {
        self.print_both(columns, &[], columns, rows)
    }

    /// Prints a list whose table has other columns than its JSON, or shortened ones.
    pub(super) fn print_both<Row>(
        self,
        of_table: &[Column<'_, Row>],
        shortened: &Shortened,
        columns: &[Column<'_, Row>],
        rows: &[Row],
    ) -> Result<()> {
        let table = || table(of_table, on_terminal(shortened), rows);
        print(&if self.json { json_lines(columns, rows) } else { table() })
    }

    pub(super) fn is_json(self) -> bool {
        self.json
    }
}

/// Returns the name of a column in JSON and CSV.
fn key(name: &str) -> String {
    name.to_lowercase().replace(' ', "_")
}

/// Returns one JSON object per row.
pub(super) fn json_lines<Row>(columns: &[Column<'_, Row>], rows: &[Row]) -> String {
    let object = |row| columns.iter().map(move |(name, _, value)| (key(name), value(row)));
    let line = |row| Value::Object(object(row).collect()).to_string() + "\n";
    rows.iter().map(line).collect()
}

/// Returns CSV (RFC 4180), with the names of the columns in front on request.
pub(super) fn csv<Row>(columns: &[Column<'_, Row>], rows: &[Row], with_names: bool) -> String {
    let line = |cells: Vec<String>| cells.join(",") + "\r\n";
    let names = with_names.then(|| line(columns.iter().map(|(name, ..)| key(name)).collect()));
    let cells = |row| columns.iter().map(|(_, _, value)| csv_cell(&value(row))).collect();
    names.into_iter().chain(rows.iter().map(|row| line(cells(row)))).collect()
}

/// The beginnings of a formula, also in their full-width forms, which spreadsheets of East Asia take for
/// them.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
/// The characters that end a cell: some spreadsheets split at a semicolon or a tab. The same
/// rule is in `csv.js` of the console.
const ENDS_OF_CELLS: [char; 6] = [',', ';', '\t', '\r', '\n', '"'];

/// Returns a value for a spreadsheet. A text that would be a formula begins with an apostrophe, and so does
/// each part of a text that is a cell of its own to a program which splits quoted texts, too.
fn csv_cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => defused(text),
        value => value.to_string(),
    };
    if text.contains(ENDS_OF_CELLS) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn defused(text: &str) -> String {
    let mut defused = String::new();
    if text.starts_with(['\t', '\r']) {
        defused.push('\'');
    }
    let mut begins = true;
    for character in text.chars() {
        if begins && FORMULA.contains(&character) {
            defused.push('\'');
        }
        defused.push(character);
        // Programs ignore blanks before a formula.
        begins = ENDS_OF_CELLS.contains(&character) || (begins && character == ' ');
    }
    defused
}

/// Returns the columns to shorten in a table that is printed: none in a pipe or a file.
pub(super) fn on_terminal(shortened: &Shortened) -> &Shortened {
    if io::stdout().is_terminal() { shortened } else { &[] }
}

/// Returns a table. Each column is as wide as its widest cell.
pub(super) fn table<Row>(
    columns: &[Column<'_, Row>],
    shortened: &Shortened,
    rows: &[Row],
) -> String {
    let fitted = |name: &str, text: String| {
        let width = shortened.iter().find(|(column, _)| *column == name);
        width.map_or_else(|| text.clone(), |(_, width)| short(&text, *width))
    };
    let cells = |row| {
        columns.iter().map(move |(name, absent, value)| fitted(name, cell(&value(row), absent)))
    };
    let head = columns.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let lines: Vec<Vec<String>> =
        [head].into_iter().chain(rows.iter().map(|row| cells(row).collect())).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<_> = (0..columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |line: &Vec<String>| {
        let padded = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
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
        // A rate limit.
        Value::Object(rate) => format!("{}/s, {}", rate["per_second"], rate["burst"]),
        value => value.to_string(),
    }
}

/// Formats an instant in RFC 3339 with whole seconds.
pub(super) fn second(instant: OffsetDateTime) -> String {
    instant.truncate_to_second().format(&Rfc3339).unwrap_or_else(|_| instant.to_string())
}

/// Formats an instant in RFC 3339 with microseconds, always of the same length: as text, instants sort by time.
pub(super) fn microsecond(instant: OffsetDateTime) -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    let instant = instant.to_utc();
    instant.format(format).unwrap_or_else(|_| instant.to_string())
}

/// Returns the value of an instant in a table.
pub(super) fn at(instant: impl Into<Option<OffsetDateTime>>) -> Value {
    json!(instant.into().map(second))
}

/// Returns a text for a narrow column.
fn short(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    text.chars().take(max_chars.saturating_sub(1)).chain(['…']).collect()
}

/// Formats a number of bytes as MiB.
pub(super) fn mib(bytes: i64) -> String {
    let tenths = bytes.saturating_mul(10) / (1024 * 1024);
    if bytes > 0 && tenths == 0 {
        return "under 0.1 MiB".to_owned();
    }
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

/// Returns the mode of what is for tests or for live orders.
pub(super) fn mode(is_test: bool) -> Value {
    json!(if is_test { "test" } else { "live" })
}

/// Reads an instant of an argument (RFC 3339).
pub(super) fn instant(text: &str) -> Result<OffsetDateTime, &'static str> {
    parse_instant(text)
        .and_then(|instant| instant.checked_to_offset(UtcOffset::UTC))
        .ok_or("must be an instant, such as 2026-12-01T08:00:00Z")
}

/// Reads an e-mail address of an argument.
pub(super) fn address(text: &str) -> Result<EmailAddress, InvalidEmail> {
    EmailAddress::try_from(text.trim().to_owned())
}

/// Checks that a table shows the text as it is: no control, invisible or direction-changing
/// characters.
pub(super) fn is_plain(text: &str, max_chars: usize) -> bool {
    !text.trim().is_empty() && text.chars().count() <= max_chars && !text.chars().any(is_hidden)
}

/// Reads the name of a client or a signing service of an argument.
pub(super) fn party_name(text: &str) -> Result<String, String> {
    let rule = || format!("must be one line of at most {MAX_NAME} visible characters");
    is_plain(text, MAX_NAME).then(|| text.trim().to_owned()).ok_or_else(rule)
}

/// Returns whether a terminal does not show a character, or obeys it.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
        )
}

/// Returns a line of JSON whose hidden characters are escaped, as JSON permits in its strings.
pub(super) fn without_hidden(line: &str) -> String {
    let escaped = |character: char| {
        if is_hidden(character) {
            format!("\\u{:04x}", u32::from(character))
        } else {
            character.to_string()
        }
    };
    line.chars().map(escaped).collect()
}

/// Removes user, password and query from every URL in a message, but not from the examples in our own
/// texts. The message may quote a mistyped command.
pub fn without_credentials(message: &str) -> String {
    const EXAMPLE: &str = "://user:password";
    let redact = |word: &str| match (word.find("://"), word.rfind('@')) {
        (Some(scheme), _) if word.contains('?') => format!("{}… ", &word[..scheme + 3]),
        (Some(scheme), Some(host)) if word[scheme..host].eq_ignore_ascii_case(EXAMPLE) => {
            word.to_owned()
        }
        (Some(scheme), Some(host)) if scheme < host => {
            format!("{}…{}", &word[..scheme + 3], &word[host..])
        }
        _ => word.to_owned(),
    };
    message.split_inclusive(char::is_whitespace).map(redact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_is_quoted_and_no_cell_is_a_formula() {
        let columns: [Column<'_, Value>; 1] = [("THE CELL", "", &|value| value.clone())];
        for (value, cell) in [
            (json!("=cmd|'/C calc'!A0"), "'=cmd|'/C calc'!A0"),
            (json!("+1"), "'+1"),
            (json!(-1), "-1"),
            (json!("a \"b\", c"), "\"a \"\"b\"\", c\""),
            (json!("two\nlines"), "\"two\nlines\""),
            (json!("x;=1+1;y"), "\"x;'=1+1;y\""),
            (json!("x\t@SUM(1)"), "\"x\t'@SUM(1)\""),
            (json!("x,-1"), "\"x,'-1\""),
            (json!("two\n=1"), "\"two\n'=1\""),
            (json!("x\";=1"), "\"x\"\";'=1\""),
            (json!(" =1; +2"), "\" '=1; '+2\""),
            (json!("\t=1"), "\"'\t'=1\""),
            (json!("＝1+1"), "'＝1+1"),
            (json!("a；＋1"), "a；＋1"),
            (json!("Smith-Jones"), "Smith-Jones"),
            (Value::Null, ""),
        ] {
            assert_eq!(csv(&columns, &[value], true), format!("the_cell\r\n{cell}\r\n"));
        }
        assert_eq!(csv(&columns, &[], false), "");
    }

    #[test]
    fn table_shortens_the_named_columns_only() {
        let columns: [Column<'_, Value>; 2] =
            [("NAME", "", &|row| row[0].clone()), ("CODE", "-", &|row| row[1].clone())];
        let rows = [json!(["a long name", "order_on_hold"]), json!(["b", null])];
        assert_eq!(
            table(&columns, &[("NAME", 7)], &rows),
            "NAME     CODE\na long…  order_on_hold\nb        -\n"
        );
        assert_eq!(
            table(&columns, &[], &rows),
            "NAME         CODE\na long name  order_on_hold\nb            -\n"
        );
    }

    #[test]
    fn instants_have_one_length() {
        let at = OffsetDateTime::UNIX_EPOCH + time::Duration::milliseconds(1_500);
        assert_eq!(microsecond(at), "1970-01-01T00:00:01.500000Z");
    }

    #[test]
    fn instant_has_a_time_and_an_offset() {
        let read = instant("2026-12-01T08:00:00-06:00").unwrap();
        assert_eq!(second(read), "2026-12-01T14:00:00Z");
        for none in ["2026-12-01", "2026-12-01T08:00:00", "yesterday", "9999-12-31T23:59:59-01:00"]
        {
            assert!(instant(none).unwrap_err().contains("such as 2026-12-01T08:00:00Z"), "{none}");
        }
    }
}
