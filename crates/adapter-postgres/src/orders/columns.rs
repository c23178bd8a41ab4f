//! The columns of an order that reads select.

use diesel::result::Error;
use sql_rows::Unreadable;

use crate::failure::Failure;

/// The columns of an order `o` in a result.
pub(crate) const COLUMNS: &str = "o.id, o.erased_at, o.client_id, o.api_key_id, \
    o.signing_service_id, o.notary_id, o.starts_at, o.ends_at, o.created_at, o.updated_at, \
    o.is_test, o.holds_file_number, o.file_number, o.status, o.details::text AS details";

/// Names the order if the driver cannot read a column.
pub(crate) fn unreadable(failure: Failure, row: &dyn ToString) -> Failure {
    match failure {
        Failure::Database(Error::DeserializationError(reason)) => {
            Unreadable::new("orders", row, &reason).into()
        }
        failure => failure,
    }
}
