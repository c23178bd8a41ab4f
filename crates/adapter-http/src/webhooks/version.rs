//! The version of a webhook in its validator (RFC 9110, section 8.8.3).

use domain::webhook::{Endpoint, EndpointPrecondition, EndpointVersion};

use crate::admission::preconditions::{Preconditions, bare};

/// Returns the text of the version, which begins the tag.
pub(super) fn text(endpoint: &Endpoint) -> String {
    format!("{:016x}", endpoint.version().0)
}

/// Returns the preconditions of the change of a webhook. The checksum of the answer does not count: a failed attempt
/// is no reason to reject a change.
pub(super) fn of_webhook(preconditions: &Preconditions) -> EndpointPrecondition {
    preconditions.of_versions(|tag| {
        let (version, _) = bare(tag).split_at_checked(16)?;
        u64::from_str_radix(version, 16).ok().map(EndpointVersion)
    })
}
