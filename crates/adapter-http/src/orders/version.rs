//! The version of an order: its validator, and the versions that a request names (RFC 9110, sections
//! 8.8.3 and 13.1).

use actix_web::{
    HttpRequest,
    http::header::{EntityTag, IF_NONE_MATCH},
};
use domain::{
    document::Sha256Digest,
    order::{StoredOrder, attention::Attention},
    precondition::{DocumentPrecondition, OrderPrecondition},
};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::admission::preconditions::{Preconditions, bare, named};

/// The format of the answer. Another number makes every answer that clients have a stale one. `If-Match` takes the
/// tags of earlier formats too: they name the version.
const FORMAT: u8 = 4;

/// The content of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag {
    /// The version: the instant of the last change of the order by people.
    version: OffsetDateTime,
    /// The format of the answer.
    format: u8,
    /// A checksum of what the answer shows beside the version: the names of both sides, what happened without a change
    /// by people, and what is late.
    beside: u32,
}

impl Tag {
    fn of(order: &StoredOrder, attention: &[Attention]) -> Self {
        let mut hash = Sha256::new();
        for name in [&order.names.client, &order.names.service] {
            let name = name.as_deref().unwrap_or_default();
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name);
        }
        if let Some(at) = order.touched_at {
            hash.update(at.unix_timestamp_nanos().to_be_bytes());
        }
        for code in attention {
            hash.update(code.as_str());
        }
        let [first, second, third, fourth, ..] = <[u8; 32]>::from(hash.finalize());
        let beside = u32::from_be_bytes([first, second, third, fourth]);
        Self { version: order.updated_at, format: FORMAT, beside }
    }

    /// Returns the text of the tag: the microsecond, the format of the answer and the checksum.
    fn text(self) -> String {
        let Self { version, format, beside } = self;
        let micros = version.unix_timestamp() * 1_000_000 + i64::from(version.microsecond());
        format!("{:016x}{format:02x}{beside:08x}", micros.cast_unsigned())
    }

    /// Reads a tag in a form that proxies and clients make of it; `None` if it has another form.
    fn read(tag: &str) -> Option<Self> {
        let tag = bare(tag);
        let (micros, rest) = tag.split_at_checked(16)?;
        let (format, beside) = rest.split_at_checked(2)?;
        let format = u8::from_str_radix(format, 16).ok().filter(|format| *format <= FORMAT)?;
        let nanos = i128::from(u64::from_str_radix(micros, 16).ok()?.cast_signed()) * 1_000;
        let version = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
        let read = Self { version, format, beside: u32::from_str_radix(beside, 16).ok()? };
        (read.text() == tag).then_some(read)
    }
}

/// Returns the validator of an order.
pub(crate) fn tag(order: &StoredOrder, attention: &[Attention]) -> EntityTag {
    EntityTag::new_strong(Tag::of(order, attention).text())
}

/// Returns the preconditions of the change of an order. What stands beside the version does not count: a renamed
/// client and a download are no reasons to reject a change.
///
/// A tag names a version of the order, not bytes. So it matches in the forms that proxies and clients make
/// of it: weak, without quotes, and with the suffix of a compression. RFC 9110, section 13.1.1 asks for
/// a strong comparison (ADR 41).
pub(crate) fn of_order(preconditions: &Preconditions) -> OrderPrecondition {
    preconditions.of_versions(|tag| Some(Tag::read(tag)?.version))
}

/// Returns the preconditions of the withdrawal of a document. Its tag is its SHA-256, and is compared strongly
/// with `If-Match`.
pub(crate) fn of_document(preconditions: &Preconditions) -> DocumentPrecondition {
    let strong = preconditions.of_versions(sha256);
    let weak = preconditions.of_versions(|tag| sha256(tag.strip_prefix("W/").unwrap_or(tag)));
    DocumentPrecondition { excluded: weak.excluded, ..strong }
}

fn sha256(tag: &str) -> Option<Sha256Digest> {
    let text = tag.strip_prefix('"')?.strip_suffix('"')?;
    let mut digest = Sha256Digest([0; 32]);
    hex::decode_to_slice(text, &mut digest.0).ok()?;
    (digest.to_string() == text).then_some(digest)
}

/// Returns whether a request names versions that the client has.
pub(crate) fn names_known(request: &HttpRequest) -> bool {
    request.headers().contains_key(IF_NONE_MATCH)
}

/// Returns whether `If-None-Match` names this version, including what the answer shows beside it. Needs no more of
/// the order than a list has.
pub(crate) fn is_known(
    request: &HttpRequest,
    order: &StoredOrder,
    attention: &[Attention],
) -> bool {
    let own = Some(Tag::of(order, attention));
    names_known(request)
        && named(request, &IF_NONE_MATCH)
            .is_none_or(|tags| tags.into_iter().any(|tag| Tag::read(tag) == own))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use contract_tests::samples::{new_order, stored};
    use domain::{
        order::{Names, OrderId},
        precondition::Versions,
    };
    use time::{Duration, macros::datetime};

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-12-01 12:00:00.123456 UTC);

    fn text(version: OffsetDateTime) -> String {
        Tag { version, format: FORMAT, beside: 0x0102_0304 }.text()
    }

    fn expected(request: TestRequest) -> Versions<OffsetDateTime> {
        of_order(&Preconditions::of(&request.to_http_request())).expected
    }

    fn if_match(header: &str) -> Versions<OffsetDateTime> {
        expected(TestRequest::get().insert_header(("if-match", header)))
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
                assert_eq!(if_match(&form), Versions::These(vec![at]), "{form}");
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
            &format!("{}05{}", &tag[..16], &tag[18..]),
            &tag[..18],
            &tag[..16],
        ] {
            assert_eq!(if_match(form), Versions::These(Vec::new()), "{form}");
        }
        assert_ne!(if_match(&later), Versions::These(vec![NOW]));
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
            let tag = tag(order, &[]).to_string();
            assert_eq!(if_match(&tag), Versions::These(vec![NOW]));
            for form in [tag.clone(), format!("W/{tag}"), format!("{tag}-gzip")] {
                let request = TestRequest::get().insert_header(("if-none-match", form));
                let request = request.to_http_request();
                let known = orders.iter().map(|order| is_known(&request, order, &[]));
                let expected: Vec<_> = (0..orders.len()).map(|other| other == number).collect();
                assert_eq!(known.collect::<Vec<_>>(), expected);
            }
        }
    }

    /// A download, the erasure of documents by the retention, or something that is late.
    #[test]
    fn event_without_a_change_makes_another_tag_of_the_same_version() {
        let order = stored(OrderId(7), &new_order("F-1", NOW));
        let first = tag(&order, &[]).to_string();
        let touched = StoredOrder { touched_at: Some(NOW), ..order.clone() };
        let late = [Attention::NoResult];
        for (order, attention) in [(&touched, &[][..]), (&order, &late)] {
            assert_eq!(if_match(&first), if_match(&tag(order, attention).to_string()));
            let request = TestRequest::get().insert_header(("if-none-match", &*first));
            assert!(!is_known(&request.to_http_request(), order, attention));
        }
    }

    #[test]
    fn tag_of_the_version_before_still_names_its_version() {
        let earlier = Tag { version: NOW, format: 2, beside: 1 }.text();
        assert_eq!(if_match(&earlier), Versions::These(vec![NOW]));
    }

    #[test]
    fn tags_of_documents_are_compared_strongly() {
        let digest = Sha256Digest([0xab; 32]);
        let of = |name, header: String| {
            let request = TestRequest::delete().insert_header((name, header)).to_http_request();
            of_document(&Preconditions::of(&request))
        };
        for (form, is_strong, is_known) in [
            (format!("\"{digest}\""), true, true),
            (format!("W/\"{digest}\""), false, true),
            (digest.to_string(), false, false),
            (format!("\"{digest}-gzip\""), false, false),
            (format!("\"{}\"", digest.to_string().to_uppercase()), false, false),
        ] {
            let expected = of("if-match", form.clone());
            assert_eq!(expected.is_true_of(&digest, NOW), is_strong, "{form}");
            let excluded = of("if-none-match", form.clone());
            assert_eq!(!excluded.is_true_of(&digest, NOW), is_known, "{form}");
        }
    }

    #[test]
    fn any_version_is_permitted_without_a_tag() {
        assert_eq!(if_match("*"), Versions::Any);
        assert_eq!(expected(TestRequest::get()), Versions::Any);
    }

    #[test]
    fn several_lines_name_several_versions() {
        let request = TestRequest::get()
            .append_header(("if-match", "\"b2\""))
            .append_header(("if-match", format!("W/\"{}\"", text(NOW))));
        assert_eq!(expected(request), Versions::These(vec![NOW]));
    }
}
