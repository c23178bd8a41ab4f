//! The version of an order: its validator, and the versions that a request names (RFC 9110, sections
//! 8.8.3 and 13.1).

use actix_web::{
    HttpRequest,
    http::header::{EntityTag, HeaderName, IF_MATCH, IF_NONE_MATCH},
};
use domain::order::StoredOrder;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

/// The format of the answer. Another number makes every tag that clients have a stale one.
const FORMAT: u8 = 2;

/// The codings whose names proxies append to a tag when they compress an answer, after one `-` or two.
const CODINGS: [&str; 5] = ["gzip", "br", "zstd", "deflate", "bzip2"];

/// The content of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag {
    /// The version: the instant of the last change of the order. Everything that the answer shows of the
    /// order itself changes it.
    version: OffsetDateTime,
    /// A checksum of what the answer shows beside the order: the names of both sides.
    beside: u32,
}

impl Tag {
    fn of(order: &StoredOrder) -> Self {
        let mut hash = Sha256::new();
        for name in [&order.names.client, &order.names.service] {
            let name = name.as_deref().unwrap_or_default();
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name);
        }
        let [first, second, third, fourth, ..] = <[u8; 32]>::from(hash.finalize());
        let beside = u32::from_be_bytes([first, second, third, fourth]);
        Self { version: order.updated_at, beside }
    }

    /// Returns the text of the tag: the microsecond, the format of the answer and the checksum.
    fn text(self) -> String {
        let Self { version, beside } = self;
        let micros = version.unix_timestamp() * 1_000_000 + i64::from(version.microsecond());
        format!("{:016x}{FORMAT:02x}{beside:08x}", micros.cast_unsigned())
    }

    /// Reads a tag in a form that proxies and clients make of it; `None` if it has another form.
    fn read(mut tag: &str) -> Option<Self> {
        while let Some(inner) = unwrapped(tag) {
            tag = inner;
        }
        let (micros, rest) = tag.split_at_checked(16)?;
        let (_, beside) = rest.split_at_checked(2)?;
        let nanos = i128::from(u64::from_str_radix(micros, 16).ok()?.cast_signed()) * 1_000;
        let version = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
        let read = Self { version, beside: u32::from_str_radix(beside, 16).ok()? };
        (read.text() == tag).then_some(read)
    }
}

/// Returns the validator of an order.
pub(crate) fn tag(order: &StoredOrder) -> EntityTag {
    EntityTag::new_strong(Tag::of(order).text())
}

/// Returns the versions that `If-Match` permits to change, by the instant of the last change; `None`
/// permits any. A tag of another form matches nothing. What stands beside the order does not count: a
/// renamed client is no reason to reject a change.
///
/// A tag names a version of the order, not bytes. So it matches in the forms that proxies and clients make
/// of it: weak, without quotes, and with the suffix of a compression. RFC 9110, section 13.1.1 asks for
/// a strong comparison (ADR 41).
pub(crate) fn expected(request: &HttpRequest) -> Option<Vec<OffsetDateTime>> {
    let tags = request.headers().contains_key(IF_MATCH).then(|| named(request, &IF_MATCH))?;
    tags.map(|tags| tags.into_iter().map(|tag| tag.version).collect())
}

/// Returns whether a request names versions that the client has.
pub(crate) fn names_known(request: &HttpRequest) -> bool {
    request.headers().contains_key(IF_NONE_MATCH)
}

/// Returns whether `If-None-Match` names this version, including the names that the answer shows. Needs no
/// more of the order than a list has.
pub(crate) fn is_known(request: &HttpRequest, order: &StoredOrder) -> bool {
    names_known(request)
        && named(request, &IF_NONE_MATCH).is_none_or(|tags| tags.contains(&Tag::of(order)))
}

/// Returns the tags of a header; `None` for `*`.
fn named(request: &HttpRequest, header: &HeaderName) -> Option<Vec<Tag>> {
    let lines = request.headers().get_all(header).filter_map(|line| line.to_str().ok());
    let tags = lines.flat_map(|line| line.split(',')).map(str::trim);
    tags.filter(|tag| !tag.is_empty())
        .map(|tag| if tag == "*" { None } else { Some(Tag::read(tag)) })
        .collect::<Option<Vec<_>>>()
        .map(|tags| tags.into_iter().flatten().collect())
}

/// Removes what a proxy or a client has put around a tag. Clients also quote what has quotes already.
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
    use contract_tests::samples::{new_order, stored};
    use domain::order::{Names, OrderId};
    use time::{Duration, macros::datetime};

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-12-01 12:00:00.123456 UTC);

    fn text(version: OffsetDateTime) -> String {
        Tag { version, beside: 0x0102_0304 }.text()
    }

    fn if_match(header: &str) -> Option<Vec<OffsetDateTime>> {
        expected(&TestRequest::get().insert_header(("if-match", header)).to_http_request())
    }

    #[test]
    fn tag_matches_in_the_forms_of_proxies() {
        for at in [NOW, datetime!(1969-12-31 23:59 UTC), datetime!(9999-12-31 23:59 UTC)] {
            let tag = text(at);
            for form in [
                format!("\"{tag}\""),
                format!("W/\"{tag}\""),
                tag.clone(),
                format!("W/{tag}"),
                format!("\"{tag}-gzip\""),
                format!("\"{tag}\"-gzip"),
                format!("W/\"{tag}--gzip\""),
                format!("{tag}-br"),
                format!("\"{tag}-deflate\""),
                format!("\"\"{tag}\"\""),
                format!("\"W/\"{tag}-gzip\"\""),
                format!("\"b2\" , \"{tag}\""),
            ] {
                assert_eq!(if_match(&form), Some(vec![at]), "{form}");
            }
        }
    }

    #[test]
    fn other_tag_matches_no_version() {
        let tag = text(NOW);
        let later = text(NOW + Duration::MICROSECOND);
        for form in [
            "",
            "\"b2\"",
            "b2",
            &format!("\"{tag}"),
            &format!("\"{tag}-gz\""),
            &format!("\"+{tag}\""),
            &format!("\"{}\"", tag.to_uppercase()),
            &format!("{}03{}", &tag[..16], &tag[18..]),
            &tag[..18],
            &tag[..16],
        ] {
            assert_eq!(if_match(form), Some(Vec::new()), "{form}");
        }
        assert_ne!(if_match(&later), Some(vec![NOW]));
    }

    #[test]
    fn names_beside_the_order_make_another_tag_of_the_same_version() {
        let named = |client: Option<&str>, service: Option<&str>| {
            let names =
                Names { client: client.map(str::to_owned), service: service.map(str::to_owned) };
            StoredOrder { names, ..stored(OrderId(7), &new_order("F-1", NOW)) }
        };
        let orders = [
            named(None, None),
            named(Some("ab"), Some("c")),
            named(Some("a"), Some("bc")),
            named(Some("c"), Some("ab")),
            named(None, Some("ab")),
        ];
        for (number, order) in orders.iter().enumerate() {
            let tag = tag(order).to_string();
            assert_eq!(if_match(&tag), Some(vec![NOW]));
            for form in [tag.clone(), format!("W/{tag}"), format!("{tag}-gzip")] {
                let request = TestRequest::get().insert_header(("if-none-match", form));
                let request = request.to_http_request();
                let known = orders.iter().map(|order| is_known(&request, order));
                let expected: Vec<_> = (0..orders.len()).map(|other| other == number).collect();
                assert_eq!(known.collect::<Vec<_>>(), expected);
            }
        }
    }

    #[test]
    fn any_version_is_permitted_without_a_tag() {
        assert_eq!(if_match("*"), None);
        assert_eq!(expected(&TestRequest::get().to_http_request()), None);
    }

    #[test]
    fn several_lines_name_several_versions() {
        let request = TestRequest::get()
            .append_header(("if-match", "\"b2\""))
            .append_header(("if-match", format!("W/\"{}\"", text(NOW))));
        assert_eq!(expected(&request.to_http_request()), Some(vec![NOW]));
    }
}
