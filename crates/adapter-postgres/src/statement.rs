//! What the adapter's statements have in common.

pub(crate) use sql_rows::{IdRow, Prepared};

/// A condition that is true, and makes the commit durable, whatever the settings of the session
/// are. It runs once, not for each row. `CASE` leaves a durable setting as it is: setting it again
/// takes 3 % of the time of a lone order.
pub(crate) const DURABLE: &str = "(SELECT CASE current_setting('synchronous_commit') \
    WHEN 'off' THEN set_config('synchronous_commit', 'on', true) ELSE '' END) IS NOT NULL";
