//! What the adapter's statements have in common.

pub(crate) use sql_rows::Prepared;

/// A condition that is true, and makes the commit durable, whatever the settings of the session
/// are. It runs once, not for each row.
pub(crate) const DURABLE: &str = "(SELECT set_config('synchronous_commit', \
    coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)) IS NOT NULL";
