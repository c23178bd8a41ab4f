//! What the adapter's statements have in common.

pub(crate) use sql_rows::{IdRow, Prepared};

/// A condition that is true, and makes the commit durable, whatever the settings of the session
/// are. It runs once, not for each row.
pub(crate) const DURABLE: &str = "(SELECT CASE current_setting('synchronous_commit') \
    WHEN 'off' THEN set_config('synchronous_commit', 'on', true) ELSE '' END) IS NOT NULL";

/// Returns a value of each row, for a parameter that is an array.
pub(crate) fn column<'r, R, T>(rows: &'r [R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// The trigger by which a document adopts its upload.
pub(crate) const ADOPTION: &str = "documents_adopt_uploads";

/// The trigger that protects an idempotency key in use.
pub(crate) const KEY_IN_USE: &str = "idempotency_keys_in_use";
