//! What the adapter's statements have in common.

pub(crate) use sql_rows::{IdRow, Prepared};

/// A condition that is true, and makes the commit durable, whatever the settings of the session
/// are. It runs once, not for each row. `CASE`, because a setting that is durable must stay as it is,
/// and setting it again would cost a lone order 3 % of PostgreSQL's time.
pub(crate) const DURABLE: &str = "(SELECT CASE current_setting('synchronous_commit') \
    WHEN 'off' THEN set_config('synchronous_commit', 'on', true) ELSE '' END) IS NOT NULL";
