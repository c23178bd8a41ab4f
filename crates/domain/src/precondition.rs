//! The preconditions of a request that changes something (RFC 9110, section 13.1).

use time::{OffsetDateTime, Time};

use crate::document::Sha256Digest;

/// The versions that a header names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Versions<V> {
    /// Any version (`*`).
    Any,
    /// These versions.
    These(Vec<V>),
}

impl<V: PartialEq> Versions<V> {
    fn contain(&self, version: &V) -> bool {
        match self {
            Self::Any => true,
            Self::These(versions) => versions.contains(version),
        }
    }
}

/// The preconditions of a request, by the versions of the resource that they name. The transaction that changes
/// the resource compares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Precondition<V> {
    /// The versions that may be changed (`If-Match`).
    pub expected: Versions<V>,
    /// The versions that must not be changed (`If-None-Match`).
    pub excluded: Versions<V>,
    /// The latest change, to the second, of what may be changed (`If-Unmodified-Since`).
    pub unmodified_since: Option<OffsetDateTime>,
}

/// The preconditions of the change of an order, by the instant of its last change.
pub type OrderPrecondition = Precondition<OffsetDateTime>;

/// The preconditions of the withdrawal of a document.
pub type DocumentPrecondition = Precondition<Sha256Digest>;

impl<V> Precondition<V> {
    /// Permits any version.
    pub const NONE: Self = Self {
        expected: Versions::Any,
        excluded: Versions::These(Vec::new()),
        unmodified_since: None,
    };
}

impl<V> Default for Precondition<V> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<V: PartialEq> Precondition<V> {
    /// Returns the precondition that expects one of these versions.
    pub fn expecting(versions: Vec<V>) -> Self {
        Self { expected: Versions::These(versions), ..Self::default() }
    }

    /// Returns whether the precondition is true of a version that was made at `modified_at`.
    pub fn is_true_of(&self, version: &V, modified_at: OffsetDateTime) -> bool {
        self.expected.contain(version)
            && self.is_true_of_repeat(version)
            && self.unmodified_since.is_none_or(|since| to_second(modified_at) <= since)
    }

    /// Returns whether the precondition permits a repeat that changes nothing. `If-Match` and
    /// `If-Unmodified-Since` may name the version before the first request (RFC 9110, sections 13.1.1 and 13.1.4).
    pub fn is_true_of_repeat(&self, version: &V) -> bool {
        !self.excluded.contain(version)
    }

    /// Returns whether the versions that may be changed say everything.
    pub(crate) fn only_expects(&self) -> bool {
        matches!(&self.excluded, Versions::These(none) if none.is_empty())
            && self.unmodified_since.is_none()
    }
}

/// Returns an instant as an HTTP date has it.
fn to_second(instant: OffsetDateTime) -> OffsetDateTime {
    let time = instant.time();
    let second = Time::from_hms(time.hour(), time.minute(), time.second());
    second.map_or(instant, |second| instant.replace_time(second))
}

#[cfg(test)]
mod tests {
    use time::{Duration, macros::datetime};

    use super::*;

    const AT: OffsetDateTime = datetime!(2026-12-01 12:00:00.5 UTC);

    fn excluding(excluded: Versions<u8>) -> Precondition<u8> {
        Precondition { excluded, ..Precondition::default() }
    }

    #[test]
    fn each_header_must_permit_the_version() {
        let since =
            |since| Precondition { unmodified_since: Some(since), ..Precondition::<u8>::default() };
        for (precondition, is_true) in [
            (Precondition::default(), true),
            (Precondition::expecting(vec![]), false),
            (Precondition::expecting(vec![2]), false),
            (Precondition::expecting(vec![2, 1]), true),
            (excluding(Versions::Any), false),
            (excluding(Versions::These(vec![1])), false),
            (excluding(Versions::These(vec![2])), true),
            (since(datetime!(2026-12-01 12:00 UTC)), true),
            (since(datetime!(2026-12-01 11:59:59 UTC)), false),
            (Precondition { excluded: Versions::Any, ..Precondition::expecting(vec![1]) }, false),
        ] {
            assert_eq!(precondition.is_true_of(&1, AT), is_true, "{precondition:?}");
        }
        assert!(!since(datetime!(2026-12-01 12:00 UTC)).is_true_of(&1, AT + Duration::SECOND));
    }

    #[test]
    fn repeat_may_expect_the_version_before() {
        assert!(Precondition::expecting(vec![2]).is_true_of_repeat(&1));
        assert!(!excluding(Versions::Any).is_true_of_repeat(&1));
    }

    #[test]
    fn expected_versions_say_everything_without_other_headers() {
        assert!(Precondition::expecting(vec![1]).only_expects());
        assert!(Precondition::<u8>::default().only_expects());
        assert!(!excluding(Versions::Any).only_expects());
    }
}
