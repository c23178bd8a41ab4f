//! Requests about orders that were rejected for what they say, and what the contact of their key is told.
//!
//! A program that sends a renamed field gets 400 all night, and nobody reads its log. So the contact of its key
//! gets a mail, at most one in [`MAIL_EVERY`] about all keys of that contact.

use std::collections::{BTreeMap, BTreeSet};

use time::{Duration, OffsetDateTime};

use crate::{access::RunId, api_key::ApiKeyId, people::EmailAddress};

/// Time between two mails to a contact.
pub const MAIL_EVERY: Duration = Duration::HOUR;

/// Time for which rejected requests are gathered before their mail leaves.
pub const GATHERED: Duration = Duration::seconds(30);

/// Time for which counts are kept: as long as a mail is tried.
pub const KEPT: Duration = crate::delivery::MAX_AGE;

/// The time of the counts that a key reads.
pub const COUNTED: Duration = Duration::DAY;

/// Maximum number of fields, and of requests, that a count names.
pub const MAX_NAMED: usize = 20;

/// Maximum length of a JSON Pointer in a count. A client may send members of any name.
const MAX_POINTER: usize = 200;

/// How many requests of a key were rejected with one code in about a minute, by one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The key.
    pub key: ApiKeyId,
    /// When the first of them was rejected.
    pub at: OffsetDateTime,
    /// The `code` of their problems.
    pub code: String,
    /// The start of the instance.
    pub run: RunId,
    /// Their number.
    pub requests: u64,
    /// The fields at fault as JSON Pointers, each with the code of its fault. Up to [`MAX_NAMED`].
    pub faults: BTreeMap<String, String>,
    /// The first of the requests, up to [`MAX_NAMED`].
    pub request_ids: Vec<String>,
}

impl Rejected {
    /// Returns a count of nothing.
    pub(crate) fn none(key: ApiKeyId, at: OffsetDateTime, code: &str, run: RunId) -> Self {
        let (faults, request_ids) = (BTreeMap::new(), Vec::new());
        Self { key, at, code: code.to_owned(), run, requests: 0, faults, request_ids }
    }

    /// Counts a request.
    pub(crate) fn add<'a>(
        &mut self,
        request_id: &str,
        faults: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        self.requests += 1;
        if self.request_ids.len() < MAX_NAMED {
            self.request_ids.push(request_id.to_owned());
        }
        for (pointer, code) in faults.into_iter().filter(|(pointer, _)| is_path(pointer)) {
            if self.faults.len() < MAX_NAMED {
                self.faults.entry(pointer.to_owned()).or_insert_with(|| code.to_owned());
            }
        }
    }
}

/// Returns whether a pointer looks like a path of members. A client may send a text of a person where a name of a
/// member belongs.
fn is_path(pointer: &str) -> bool {
    let is_name = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-~".contains(&byte))
            && (name.len() < 4 || !name.starts_with(|first: char| first.is_ascii_digit()))
    };
    pointer.len() <= MAX_POINTER && pointer.split('/').skip(1).all(is_name)
}

/// A mail about rejected requests of the keys of a contact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedNotice {
    /// One of the keys.
    pub key: ApiKeyId,
    /// The names of all of them.
    pub names: BTreeSet<String>,
    /// When the first of the requests was rejected.
    pub since: OffsetDateTime,
    /// The instant of the mail.
    pub at: OffsetDateTime,
    /// The requests by the `code` of their problems.
    pub by_code: BTreeMap<String, RejectedWithCode>,
    /// Address that receives the mail.
    pub recipient: EmailAddress,
}

/// The rejected requests with one code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RejectedWithCode {
    /// Their number.
    pub requests: u64,
    /// The fields at fault as JSON Pointers, each with the code of its fault. Up to [`MAX_NAMED`].
    pub faults: BTreeSet<(String, String)>,
    /// The first of the requests, up to [`MAX_NAMED`].
    pub request_ids: Vec<String>,
}

impl RejectedNotice {
    /// Returns the key of the mail, from which its `Message-ID` is derived.
    pub fn message_key(&self) -> String {
        format!("rejected{}at{}", self.key.0, self.at.unix_timestamp())
    }

    /// Returns the number of all requests.
    pub fn requests(&self) -> u64 {
        self.by_code.values().map(|with_code| with_code.requests).sum()
    }

    /// Gathers counts by their codes.
    pub(crate) fn by_code(counts: &[Rejected]) -> BTreeMap<String, RejectedWithCode> {
        let mut by_code = BTreeMap::<_, RejectedWithCode>::new();
        for count in counts {
            let with_code = by_code.entry(count.code.clone()).or_default();
            with_code.requests += count.requests;
            for (pointer, code) in &count.faults {
                if with_code.faults.len() < MAX_NAMED {
                    with_code.faults.insert((pointer.clone(), code.clone()));
                }
            }
            let free = MAX_NAMED.saturating_sub(with_code.request_ids.len());
            with_code.request_ids.extend(count.request_ids.iter().take(free).cloned());
        }
        by_code
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const AT: OffsetDateTime = datetime!(2026-12-01 02:00 UTC);

    fn count(code: &str) -> Rejected {
        Rejected::none(ApiKeyId(1), AT, code, RunId(1))
    }

    #[test]
    fn count_names_some_requests_and_fields_and_counts_all() {
        let mut many = count("validation_failed");
        for number in 0..200 {
            let pointer = format!("/member{number}");
            many.add(&number.to_string(), [("/signerName", "required"), (&*pointer, "unknown")]);
        }
        assert_eq!(many.requests, 200);
        assert_eq!((many.faults.len(), many.request_ids.len()), (MAX_NAMED, MAX_NAMED));
        assert_eq!(many.faults["/signerName"], "required");
        assert_eq!(many.request_ids[..2], ["0", "1"]);
    }

    /// A client may have sent a value in its place.
    #[test]
    fn text_that_is_no_path_of_members_is_not_named() {
        let mut one = count("validation_failed");
        let long = format!("/{}", "x".repeat(MAX_POINTER));
        let names = [
            "/Jane Doe",
            "/José",
            "/a\nb",
            &*long,
            "/a@example.com",
            "/+15550100",
            "/5550100",
            "/a~1b/0",
        ];
        one.add("1", names.map(|pointer| (pointer, "unknown_member")));
        assert_eq!(one.faults.into_keys().collect::<Vec<_>>(), ["/a~1b/0"]);
    }

    #[test]
    fn mail_has_counts_by_code() {
        let mut counts = vec![count("validation_failed"), count("validation_failed"), count("b")];
        for (number, count) in counts.iter_mut().enumerate() {
            count.add(&number.to_string(), [("/a", "required")]);
            count.add("again", [("/a", if number == 0 { "blank" } else { "required" })]);
        }
        let by_code = RejectedNotice::by_code(&counts);
        assert_eq!(by_code.keys().collect::<Vec<_>>(), ["b", "validation_failed"]);
        let failed = &by_code["validation_failed"];
        assert_eq!(failed.requests, 4);
        assert_eq!(failed.request_ids, ["0", "again", "1", "again"]);
        let fault = ("/a".to_owned(), "required".to_owned());
        assert_eq!(failed.faults, BTreeSet::from([fault]));
    }
}
