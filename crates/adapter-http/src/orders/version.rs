//! The version of an order: its validator, and the versions that a request names (RFC 9110, sections
//! 8.8.3 and 13.1).

use actix_web::{
    HttpRequest,
    http::header::{EntityTag, HeaderName, IF_MATCH, IF_NONE_MATCH},
};
use domain::order::StoredOrder;
use time::OffsetDateTime;

/// The format of the answer. Another number makes every tag that clients have a stale one.
const FORMAT: u8 = 1;

/// The codings whose names proxies append to a tag when they compress an answer, after one `-` or two.
const CODINGS: [&str; 5] = ["gzip", "br", "zstd", "deflate", "bzip2"];

/// Returns the validator of an order: the microsecond of its last change, and the format of the answer.
/// Everything that the answer shows changes that instant.
pub(crate) fn tag(order: &StoredOrder) -> EntityTag {
    EntityTag::new_strong(text(order.updated_at))
}

fn text(updated_at: OffsetDateTime) -> String {
    let micros = updated_at.unix_timestamp() * 1_000_000 + i64::from(updated_at.microsecond());
    format!("{:016x}{FORMAT:02x}", micros.cast_unsigned())
}

/// Returns the versions that `If-Match` permits to change, by the instant of the last change; `None`
/// permits any. A tag of another form matches nothing.
///
/// A tag names a version of the order, not bytes. So it matches in the forms that proxies and clients make
/// of it: weak, without quotes, and with the suffix of a compression. RFC 9110, section 13.1.1 asks for
/// a strong comparison (ADR 41).
pub(crate) fn expected(request: &HttpRequest) -> Option<Vec<OffsetDateTime>> {
    request.headers().contains_key(IF_MATCH).then(|| named(request, &IF_MATCH)).flatten()
}

/// Returns whether the client has this version.
pub(crate) fn is_known(request: &HttpRequest, order: &StoredOrder) -> bool {
    request.headers().contains_key(IF_NONE_MATCH)
        && named(request, &IF_NONE_MATCH)
            .is_none_or(|versions| versions.contains(&order.updated_at))
}

/// Returns the versions that a header names; `None` for `*`.
fn named(request: &HttpRequest, header: &HeaderName) -> Option<Vec<OffsetDateTime>> {
    let lines = request.headers().get_all(header).filter_map(|line| line.to_str().ok());
    let tags = lines.flat_map(|line| line.split(',')).map(str::trim);
    tags.filter(|tag| !tag.is_empty())
        .map(|tag| if tag == "*" { None } else { Some(version(tag)) })
        .collect::<Option<Vec<_>>>()
        .map(|versions| versions.into_iter().flatten().collect())
}

/// Returns the version that a tag names; `None` if it has another form.
fn version(mut tag: &str) -> Option<OffsetDateTime> {
    while let Some(inner) = unwrapped(tag) {
        tag = inner;
    }
    let (micros, _) = tag.split_at_checked(16)?;
    let nanos = i128::from(u64::from_str_radix(micros, 16).ok()?.cast_signed()) * 1_000;
    let version = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
    (text(version) == tag).then_some(version)
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
    use time::{Duration, macros::datetime};

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-12-01 12:00:00.123456 UTC);

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
            &format!("{}02", &tag[..16]),
            &tag[..16],
        ] {
            assert_eq!(if_match(form), Some(Vec::new()), "{form}");
        }
        assert_ne!(if_match(&later), Some(vec![NOW]));
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
