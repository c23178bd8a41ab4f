use actix_web::test::TestRequest;

use super::*;

const TAG: &str = "a1";

/// Returns the range of 1,000 bytes that a request with these headers gets.
fn range(headers: &[(&str, &str)]) -> Result<Option<(u64, u64)>, Problem> {
    let request = headers
        .iter()
        .fold(TestRequest::get(), |request, (name, value)| request.append_header((*name, *value)));
    let tag = EntityTag::new_strong(TAG.to_owned());
    Ok(requested(&request.to_http_request(), &tag, 1_000)?.requested)
}

#[test]
fn one_range_is_granted() {
    for (header, expected) in [
        ("bytes=0-0", (0, 0)),
        ("bytes=10-19", (10, 19)),
        ("bytes=990-", (990, 999)),
        ("bytes=990-5000", (990, 999)),
        ("bytes=-10", (990, 999)),
        ("bytes=-5000", (0, 999)),
        ("bytes= 1-2 ", (1, 2)),
        ("Bytes=1-2", (1, 2)),
    ] {
        assert_eq!(range(&[("range", header)]).unwrap(), Some(expected), "{header}");
    }
}

#[test]
fn other_ranges_are_ignored() {
    for header in [
        "bytes=2-1",
        "bytes=-",
        "bytes=",
        "bytes",
        "bytes=a-b",
        "bytes=+1-2",
        "bytes=1-2,4-5",
        "bytes=1-2,x",
        "bytes=1-99999999999999999999",
        "pages=1-2",
        "",
    ] {
        assert_eq!(range(&[("range", header)]).unwrap(), None, "{header}");
    }
    assert_eq!(range(&[("range", "bytes=1-2"), ("range", "bytes=1-2")]).unwrap(), None);
    let head = TestRequest::with_uri("/")
        .method(Method::HEAD)
        .insert_header(("range", "bytes=5000-"))
        .to_http_request();
    let whole = requested(&head, &EntityTag::new_strong(TAG.to_owned()), 9).unwrap();
    assert_eq!((whole.requested, whole.bytes(), whole.length()), (None, 0..9, 9));
}

#[test]
fn range_outside_is_not_satisfiable() {
    for header in ["bytes=1000-", "bytes=1000-2000", "bytes=-0"] {
        let problem = range(&[("range", header)]).unwrap_err();
        assert_eq!(problem.code().as_str(), "range_not_satisfiable", "{header}");
        let response = problem.response(&"id".into());
        assert_eq!(response.headers().get("content-range").unwrap(), "bytes */1000");
    }
}

#[test]
fn part_needs_an_unchanged_file() {
    for (header, expected) in [
        ("\"a1\"", Some((0, 9))),
        ("W/\"a1\"", None),
        ("\"b2\"", None),
        ("Sat, 29 Oct 1994 19:43:31 GMT", None),
        ("a1", None),
    ] {
        let found = range(&[("range", "bytes=0-9"), ("if-range", header)]).unwrap();
        assert_eq!(found, expected, "{header}");
    }
    assert_eq!(range(&[("range", "bytes=1000-"), ("if-range", "\"b2\"")]).unwrap(), None);
}
