//! The common parts of the adapter's statements.

use diesel::{Selectable, SelectableHelper as _, dsl::AsSelect, pg::Pg};
pub(crate) use sql_rows::{IdRow, Prepared};

/// Returns the columns of a row. `R::as_select()` leaves the database open, and the compiler tries both for each
/// column.
pub(crate) fn columns<R: Selectable<Pg>>() -> AsSelect<R, Pg> {
    R::as_select()
}

/// A condition that is true, and makes the commit durable, whatever the settings of the session
/// are. It runs once, not for each row.
pub(crate) const DURABLE: &str = "(SELECT CASE current_setting('synchronous_commit') \
    WHEN 'off' THEN set_config('synchronous_commit', 'on', true) ELSE '' END) IS NOT NULL";

/// Returns a value of each row, for a parameter that is an array.
pub(crate) fn column<'r, R, T>(rows: &'r [R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// The SQLSTATE of the trigger by which a document adopts its upload.
pub(crate) const UPLOAD_SWEPT: &str = "NO001";

/// The SQLSTATE of the trigger that protects an idempotency key in use.
pub(crate) const KEY_IN_USE: &str = "NO002";
