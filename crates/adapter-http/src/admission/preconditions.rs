//! The preconditions of a request that changes something (RFC 9110, section 13). Their type leads from the table of
//! routes to the use cases, so that a change without them does not compile.

use std::time::SystemTime;

use actix_web::{
    HttpRequest,
    http::header::{Header as _, HeaderName, IF_MATCH, IF_NONE_MATCH, IfUnmodifiedSince},
};
use domain::precondition::{Precondition, Versions};
use time::OffsetDateTime;

use crate::respond::problem::{Problem, ProblemCode};

/// The codings whose names proxies append to a tag when they compress an answer, after one `-` or two.
const CODINGS: [&str; 5] = ["gzip", "br", "zstd", "deflate", "bzip2"];

/// The preconditions of a request. The handler of each operation that changes something takes them.
pub(crate) struct Preconditions(HttpRequest);

impl Preconditions {
    pub(crate) fn of(request: &HttpRequest) -> Self {
        Self(request.clone())
    }

    /// Returns the preconditions of the change of a resource. `read` reads the version that a tag names; a tag
    /// without one matches nothing.
    pub(crate) fn of_versions<V>(&self, read: impl Fn(&str) -> Option<V>) -> Precondition<V> {
        let versions = |header: &HeaderName| {
            let versions = |tags: Vec<&str>| tags.into_iter().filter_map(&read).collect();
            named(&self.0, header).map_or(Versions::Any, |tags| Versions::These(versions(tags)))
        };
        let has = |header: &HeaderName| self.0.headers().contains_key(header);
        let none = Precondition::NONE;
        Precondition {
            expected: if has(&IF_MATCH) { versions(&IF_MATCH) } else { none.expected },
            excluded: if has(&IF_NONE_MATCH) { versions(&IF_NONE_MATCH) } else { none.excluded },
            unmodified_since: self.unmodified_since(),
        }
    }

    /// Checks the preconditions of a change of a thing that is there, but has no versions: `*` names it, and no tag
    /// does. A date compares with none, so it is ignored (section 13.1.4).
    pub(crate) fn check_without_versions(&self) -> Result<(), Problem> {
        let Precondition { expected, excluded, .. } = self.of_versions(|_| None::<()>);
        let is_expected = expected == Versions::Any;
        let is_excluded = excluded == Versions::Any;
        if is_expected && !is_excluded { Ok(()) } else { Err(without_versions()) }
    }

    /// Returns the instant of `If-Unmodified-Since`. `If-Match` replaces it, and an invalid one is ignored (section
    /// 13.1.4).
    fn unmodified_since(&self) -> Option<OffsetDateTime> {
        if self.0.headers().contains_key(IF_MATCH) {
            return None;
        }
        let IfUnmodifiedSince(date) = IfUnmodifiedSince::parse(&self.0).ok()?;
        Some(SystemTime::from(date).into())
    }

    /// Checks the preconditions of a creation. Before it there is nothing that `If-Match` could name, and nothing for
    /// the other headers to exclude.
    pub(crate) fn check_creation(&self) -> Result<(), Problem> {
        if self.0.headers().contains_key(IF_MATCH) { Err(nothing_to_match()) } else { Ok(()) }
    }
}

/// Reports a creation that is to change a version.
pub(crate) fn nothing_to_match() -> Problem {
    let detail = "A precondition is false, so nothing was created: If-Match names a version, and a new thing \
                  has none. Send the request without it.";
    Problem::new(ProblemCode::PreconditionFailed, detail)
}

/// Reports a change of a version, where there are none, or of a thing that must not be there.
pub(crate) fn without_versions() -> Problem {
    let detail = "A precondition is false, so nothing was done: If-Match names a version, and there are none here, \
                  or If-None-Match excludes what is there. Send the request without it.";
    Problem::new(ProblemCode::PreconditionFailed, detail)
}

/// Returns the tags of a header, as they were sent; `None` for `*`.
pub(crate) fn named<'a>(request: &'a HttpRequest, header: &HeaderName) -> Option<Vec<&'a str>> {
    let lines = request.headers().get_all(header).filter_map(|line| line.to_str().ok());
    let tags = lines.flat_map(|line| line.split(',')).map(str::trim);
    tags.filter(|tag| !tag.is_empty()).map(|tag| (tag != "*").then_some(tag)).collect()
}

/// Removes what proxies and clients put around a tag: a weak mark, quotes, and the suffix of a compression. Clients
/// also quote what has quotes already.
pub(crate) fn bare(mut tag: &str) -> &str {
    while let Some(inner) = unwrapped(tag) {
        tag = inner;
    }
    tag
}

fn unwrapped(tag: &str) -> Option<&str> {
    let without = |coding: &&str| {
        let tag = tag.strip_suffix(coding)?.strip_suffix('-')?;
        Some(tag.strip_suffix('-').unwrap_or(tag))
    };
    tag.strip_prefix("W/")
        .or_else(|| tag.strip_prefix('"')?.strip_suffix('"'))
        .or_else(|| CODINGS.iter().find_map(without))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use time::macros::datetime;

    use super::*;

    fn of(headers: &[(&'static str, &'static str)]) -> Precondition<u8> {
        let request = TestRequest::post();
        let request =
            headers.iter().fold(request, |request, header| request.append_header(*header));
        let preconditions = Preconditions::of(&request.to_http_request());
        preconditions.of_versions(|tag| bare(tag).parse().ok())
    }

    #[test]
    fn headers_name_versions_and_an_instant() {
        let any = || Precondition::<u8>::NONE;
        let date = "Tue, 01 Dec 2026 12:00:00 GMT";
        let since = Some(datetime!(2026-12-01 12:00 UTC));
        for (headers, expected) in [
            (&[][..], any()),
            (&[("if-match", "*")], any()),
            (&[("if-match", "")], Precondition::expecting(vec![])),
            (
                &[("if-match", "\"1\", W/\"2\", x"), ("if-match", "3")],
                Precondition::expecting(vec![1, 2, 3]),
            ),
            (&[("if-none-match", "*")], Precondition { excluded: Versions::Any, ..any() }),
            (
                &[("if-none-match", "\"1\"")],
                Precondition { excluded: Versions::These(vec![1]), ..any() },
            ),
            (&[("if-unmodified-since", date)], Precondition { unmodified_since: since, ..any() }),
            (&[("if-unmodified-since", "yesterday")], any()),
            (&[("if-unmodified-since", date), ("if-match", "1")], Precondition::expecting(vec![1])),
        ] {
            assert_eq!(of(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn star_names_what_has_no_versions() {
        for (header, is_true) in [
            (("if-match", "*"), true),
            (("if-match", "\"a\""), false),
            (("if-match", ""), false),
            (("if-none-match", "*"), false),
            (("if-none-match", "\"a\""), true),
            (("if-unmodified-since", "Tue, 01 Dec 2026 12:00:00 GMT"), true),
        ] {
            let request = TestRequest::patch().insert_header(header).to_http_request();
            let checked = Preconditions::of(&request).check_without_versions();
            assert_eq!(checked.is_ok(), is_true, "{header:?}");
        }
    }

    #[test]
    fn creation_matches_no_version() {
        for (header, is_true) in [
            (("if-match", "*"), false),
            (("if-match", "\"a\""), false),
            (("if-none-match", "*"), true),
            (("if-unmodified-since", "Tue, 01 Dec 2026 12:00:00 GMT"), true),
        ] {
            let request = TestRequest::post().insert_header(header).to_http_request();
            assert_eq!(Preconditions::of(&request).check_creation().is_ok(), is_true, "{header:?}");
        }
    }
}
