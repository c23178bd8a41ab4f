//! Forms read by actix-multipart behind [`StrictForm`].

use actix_multipart::{Multipart, MultipartError};
use actix_web::http::header::{self, HeaderMap, HeaderValue};
use futures_util::{FutureExt as _, TryStreamExt as _, stream};
use proptest::prelude::*;

use super::*;

/// Names and contents of parts.
type Contents = Vec<(String, Vec<u8>)>;

fn arriving(
    form: &[u8],
    piece: usize,
) -> StrictForm<impl Stream<Item = Result<Bytes, PayloadError>> + Unpin + use<>> {
    let pieces: Vec<_> =
        form.chunks(piece.max(1)).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    StrictForm::new(stream::iter(pieces), "b")
}

async fn read_parts(
    form: impl Stream<Item = Result<Bytes, PayloadError>> + 'static,
) -> Result<Contents, MultipartError> {
    let mut headers = HeaderMap::new();
    let content_type = HeaderValue::from_static("multipart/form-data; boundary=b");
    headers.insert(header::CONTENT_TYPE, content_type);
    let mut form = Multipart::new(&headers, form);
    let mut contents = Vec::new();
    while let Some(mut part) = form.try_next().await? {
        let name = part.name().unwrap_or_default().to_owned();
        let mut content = Vec::new();
        while let Some(bytes) = part.try_next().await? {
            content.extend_from_slice(&bytes);
        }
        contents.push((name, content));
    }
    Ok(contents)
}

fn try_read(form: &[u8], piece: usize) -> Result<Contents, MultipartError> {
    read_parts(arriving(form, piece)).now_or_never().unwrap()
}

/// Reads a form in pieces of every size.
fn read(form: &str) -> Option<Contents> {
    let whole = try_read(form.as_bytes(), form.len()).ok();
    for piece in 1..form.len() {
        assert_eq!(try_read(form.as_bytes(), piece).ok(), whole, "{form:?} in pieces of {piece}");
    }
    whole
}

fn head(name: &str) -> String {
    format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n")
}

fn contents<const N: usize>(contents: [(&str, &str); N]) -> Contents {
    let owned = |(name, content): (&str, &str)| (name.to_owned(), content.as_bytes().to_vec());
    contents.map(owned).into()
}

#[test]
fn parts_end_at_their_boundary_whatever_length_they_have() {
    let length = |length| {
        format!("--b\r\nContent-Length: {length}\r\nContent-Disposition: form-data; name=a\r\n\r\n")
    };
    let form =
        length("1") + "longer\r\n" + &length("99") + "\r\n" + &length("x") + "x\r\n--b--\r\n";
    assert_eq!(read(&form), Some(contents([("a", "longer"), ("a", ""), ("a", "x")])));
}

#[test]
fn blanks_may_follow_a_boundary() {
    for blanks in [" ", "\t", "  \t"] {
        let part = |name| head(name).replacen("\r\n", &format!("{blanks}\r\n"), 1);
        let form = part("a") + "1\r\n" + &part("b") + "2\r\n--b--" + blanks;
        let read_contents = Some(contents([("a", "1"), ("b", "2")]));
        assert_eq!(read(&form), read_contents, "{blanks:?}");
        assert_eq!(read(&(form + "\r\nanything")), read_contents, "{blanks:?}");
    }
    let many = head("a").replacen("\r\n", &(" ".repeat(20 * 1024) + "\r\n"), 1) + "1\r\n--b--";
    assert!(try_read(many.as_bytes(), 1_000).is_err());
}

#[test]
fn folded_headers_are_one_line() {
    let head = "--b\r\nContent-Length:\r\n 1\r\nContent-Disposition: form-data;\r\n\tname=\"a\r\n b\"\r\n \r\n\r\n";
    assert_eq!(read(&(head.to_owned() + "longer\r\n--b--")), Some(contents([("a b", "longer")])));
}

#[test]
fn first_boundary_may_follow_line_feed() {
    for before in
        ["", "preamble\n", "\n", "--bfoo\r\n\r\n", "--bfoo\n", "x--b\r\n\r\n", "--b--x\r\n"]
    {
        let form = before.to_owned() + &head("a") + "deed\r\n--b--";
        assert_eq!(read(&form), Some(contents([("a", "deed")])), "{before:?}");
    }
}

#[test]
fn epilogue_is_not_read() {
    let form = head("a") + "deed\r\n--b--\r\nanything\r\n--b\r\n";
    assert_eq!(read(&form), Some(contents([("a", "deed")])));
    assert_eq!(read("--b--\r\n"), Some(contents([])));
}

#[test]
fn form_without_its_last_boundary_is_rejected() {
    let form = head("a") + "deed\r\n--b--";
    for end in 0..form.len() {
        assert_eq!(read(&form[..end]), None, "{end}");
    }
    for end in ["--\n", "--\rx", "-- \n", "--x"] {
        assert_eq!(read(&(head("a") + "deed\r\n--b" + end)), None, "{end:?}");
    }
}

#[test]
fn header_line_without_carriage_return_is_rejected() {
    let disposition = "Content-Disposition: form-data; name=a";
    for headers in ["A: 1\n\r\nB: 2\r\n{}", "A: 1\n{}", "\n{}", "{}\r\nB: 2\n\r\nC: 3", "{}\n"] {
        let headers = headers.replace("{}", disposition);
        assert_eq!(
            read(&format!("--b\r\n{headers}\r\n\r\na\nb\r\n--b--\r\n")),
            None,
            "{headers:?}"
        );
    }
    assert_eq!(read(&(head("a") + "a\nb\r\n--b--\r\n")), Some(contents([("a", "a\nb")])));
}

#[test]
fn boundary_after_lone_carriage_return_is_rejected() {
    assert_eq!(read(&(head("a") + "the deed\r--b of trust, and more of it\r\n--b--\r\n")), None);
    assert_eq!(
        read(&("\r--b\r\n".to_owned() + &head("a") + "x--b\n--b\r-b\r -b\r\r\n--b--\r\n--b")),
        Some(contents([("a", "x--b\n--b\r-b\r -b\r")]))
    );
}

#[test]
fn line_that_only_starts_like_a_boundary_is_rejected() {
    for line in ["--b of trust", "--bb", "--b-", "--b \r\n"] {
        assert_eq!(read(&(head("a") + "deed\r\n" + line + "\r\n--b--\r\n")), None, "{line:?}");
    }
}

/// The empty line after the headers may end an empty part (RFC 2046, section 5.1.1). Taken for
/// content, the boundary would hide the next part in this one.
#[test]
fn boundary_after_the_headers_ends_an_empty_part() {
    assert_eq!(
        read(&(head("a") + &head("c") + "deed\r\n--b--\r\n")),
        Some(contents([("a", ""), ("c", "deed")]))
    );
    assert_eq!(read(&(head("a") + "--b--")), Some(contents([("a", "")])));
    assert_eq!(read(&(head("a") + "--b of trust\r\ndeed\r\n--b--\r\n")), None);
    for content in ["-", "--", "--c", "\n--b", "-\r", "\r"] {
        let form = head("a") + content + "\r\n--b--\r\n";
        assert_eq!(read(&form), Some(contents([("a", content)])), "{content:?}");
    }
}

#[test]
fn boundary_after_a_lone_line_feed_is_content() {
    let content = "\n--b of trust\n--b\r\nrest";
    assert_eq!(read(&(head("a") + content + "\r\n--b--")), Some(contents([("a", content)])));
}

#[test]
fn headers_of_a_part_are_limited() {
    let rest = "\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--b--";
    let padding = MAX_HEADERS - "A: \r\nContent-Disposition: form-data; name=a".len();
    for (padding, fits) in [(padding, true), (padding + 1, false), (64 * 1024, false)] {
        let form = format!("--b\r\nA: {}{rest}", "x".repeat(padding));
        for chunk in [1, 1_000, form.len()] {
            assert_eq!(try_read(form.as_bytes(), chunk).is_ok(), fits, "{padding} {chunk}");
        }
    }
}

#[test]
fn only_possible_boundary_is_held_back() {
    for content in [4, 9, 10, 11, 1_000, 8_192, 20_000] {
        let pieces = [head("a"), "x".repeat(content)].map(|piece| Ok(Bytes::from(piece)));
        let mut form = StrictForm::new(stream::iter(pieces).chain(stream::pending()), "b");
        let passed: usize = std::iter::from_fn(|| form.next().now_or_never())
            .map(|bytes| bytes.unwrap().unwrap().len())
            .sum();
        assert_eq!(passed, head("a").len() + content.saturating_sub("\r\n--b".len()));
    }
}

proptest! {
    #[test]
    fn pieces_do_not_change_a_form(
        pieces in prop::collection::vec(
            prop::sample::select(vec!["\r\n", "--b", "--", "\r", "\n", "b", "x", "\r\n--b\r\n"]),
            0..40,
        ),
        chunk in 1_usize..60,
    ) {
        let form = head("a") + &pieces.concat() + "\r\n" + &head("c") + "x\r\n--b--\r\n";
        let whole = try_read(form.as_bytes(), form.len()).ok();
        prop_assert_eq!(try_read(form.as_bytes(), chunk).ok(), whole);
    }
}
