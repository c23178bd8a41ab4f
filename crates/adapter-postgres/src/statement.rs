//! What the adapter's statements have in common.

use diesel::{QueryableByName, sql_types::BigInt};

pub(crate) use sql_rows::Prepared;

/// The identifier of a row.
#[derive(QueryableByName)]
pub(crate) struct IdRow {
    #[diesel(sql_type = BigInt)]
    pub(crate) id: i64,
}

/// A condition that is true, and makes the commit durable, whatever the settings of the session
/// are. It runs once, not for each row.
pub(crate) const DURABLE: &str = "(SELECT set_config('synchronous_commit', \
    coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)) IS NOT NULL";
