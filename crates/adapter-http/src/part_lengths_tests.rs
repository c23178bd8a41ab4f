use futures_util::{FutureExt as _, TryStreamExt as _, stream};
use proptest::prelude::*;

use super::*;

fn try_pass(form: &[u8], chunk: usize) -> Result<Vec<u8>, PayloadError> {
    let chunks: Vec<_> =
        form.chunks(chunk).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    let passed = WithoutPartLengths::new(stream::iter(chunks), "b").try_collect::<Vec<Bytes>>();
    Ok(passed.now_or_never().unwrap()?.concat())
}

fn pass(form: &[u8], chunk: usize) -> Vec<u8> {
    try_pass(form, chunk).unwrap()
}

#[test]
fn only_content_lengths_are_removed() {
    let form = b"--b\r\nA: 1\r\nContent-Length: 5\r\nB: 2\r\n\r\nContent-Length: 7\r\n\r\n\r\n\
        --b\r\ncontent-length : 1\r\n\r\n\r\n--b\r\nC: 3\r\nCONTENT-LENGTH:9\r\n\r\n\r\n\
        --b--\r\nContent-Length: 8\r\n\r\n";
    let passed = b"\r\n--b\r\nA: 1\r\nB: 2\r\n\r\nContent-Length: 7\r\n\r\n\r\n--b\r\n\r\n\r\n\
        --b\r\nC: 3\r\n\r\n\r\n--b--\r\nContent-Length: 8\r\n\r\n";
    for chunk in 1..=form.len() {
        assert_eq!(
            String::from_utf8(pass(form, chunk)).unwrap(),
            String::from_utf8(passed.to_vec()).unwrap(),
            "{chunk}"
        );
    }
}

#[test]
fn first_boundary_may_follow_line_feed() {
    let part = "--b\r\nContent-Length: 9\r\nA: 1\r\n\r\nlonger than nine";
    for before in
        ["preamble\n", "\n", "--bfoo\r\n\r\n", "--bfoo\n", "x--b\r\n\r\n", "--b--x\r\n", "--b--\n"]
    {
        for chunk in 1..80 {
            let passed =
                String::from_utf8(pass(format!("{before}{part}\r\n--b--").as_bytes(), chunk))
                    .unwrap();
            assert_eq!(
                passed,
                format!("\r\n{before}--b\r\nA: 1\r\n\r\nlonger than nine\r\n--b--"),
                "{before:?}"
            );
        }
    }
}

#[test]
fn large_chunks_are_examined() {
    let content = "x".repeat(200_000);
    let form = format!(
        "--b\r\nContent-Length: 5\r\n\r\n{content}\r\n\
         --b\r\nContent-Length: 5\r\n\r\n{content}\r\n--b--\r\n"
    );
    let passed = String::from_utf8(pass(form.as_bytes(), form.len())).unwrap();
    assert!(
        !passed.contains("Content-Length")
            && passed.len() == form.len() + 2 - 2 * "\r\nContent-Length: 5".len()
    );
}

fn passes(form: &[u8], chunk: usize) -> bool {
    try_pass(form, chunk).is_ok()
}

#[test]
fn header_line_without_carriage_return_is_rejected() {
    for headers in ["A: 1\n\r\nContent-Length: 2", "A: 1\nB: 2", "\nA: 1", "A: 1\r\nB: 2\n\r\nC: 3"]
    {
        let form = format!("--b\r\n{headers}\r\n\r\na\nb\r\n--b--\r\n");
        for chunk in 1..form.len() {
            assert!(!passes(form.as_bytes(), chunk), "{headers:?} {chunk}");
        }
    }
    assert!(passes(b"--b\r\nA: 1\r\n\r\na\nb\r\n--b--\r\n", 7));
}

#[test]
fn boundary_after_lone_carriage_return_is_rejected() {
    for chunk in 1..60 {
        assert!(
            !passes(
                b"--b\r\nA: 1\r\n\r\nthe deed\r--b of trust, and more of it\r\n--b--\r\n",
                chunk
            ),
            "{chunk}"
        );
        assert!(
            passes(b"\r--b\r\n--b\r\nA: \r--b\r\n\r\n--b\n--b\r-b\r -b\r\r\n--b--\r--b", chunk),
            "{chunk}"
        );
    }
}

#[test]
fn content_length_in_long_headers_is_removed() {
    for (padding, loses) in [(100, true), (2_000, true), (15 * 1024, true), (24 * 1024, false)] {
        let headers = format!("A: {}\r\nContent-Length: 5\r\n", "x".repeat(padding));
        let form = format!("--b\r\n{headers}\r\nlonger than five\r\n--b--\r\n");
        for chunk in [1_000, form.len()] {
            let passed = String::from_utf8(pass(form.as_bytes(), chunk)).unwrap();
            assert_eq!(passed.contains("Content-Length"), !loses, "{padding}");
        }
    }
}

#[test]
fn content_length_is_removed_from_headers_of_the_greatest_size() {
    let end = "\r\nContent-Length: 5\r\n\r\n";
    let padding = MAX_HEADERS - "\r\nA: ".len() - end.len();
    let form = format!("--b\r\nA: {}{end}longer than five\r\n--b--\r\n", "x".repeat(padding));
    let passed = String::from_utf8(pass(form.as_bytes(), 1)).unwrap();
    assert!(!passed.contains("Content-Length"));
}

#[test]
fn boundary_after_a_lone_line_feed_is_content() {
    let form = b"--b\r\n\r\n--b of trust\n--b\r\nContent-Length: 5\r\n\r\nrest\r\n--b--";
    for chunk in 1..=form.len() {
        assert_eq!(pass(form, chunk)[2..], form[..], "{chunk}");
    }
}

#[test]
fn content_passes_without_copy() {
    let form = Bytes::from(format!("--b\r\nA: 1\r\n\r\n{}\r\n--b--\r\n", "x".repeat(100_000)));
    let passed: Vec<Bytes> = WithoutPartLengths::new(stream::iter([Ok(form.clone())]), "b")
        .try_collect()
        .now_or_never()
        .unwrap()
        .unwrap();
    let own = |bytes: &&Bytes| form.as_ptr_range().contains(&bytes.as_ptr());
    let uncopied: usize = passed.iter().filter(own).map(Bytes::len).sum();
    assert!(uncopied > 85_000, "{uncopied}");
    assert!(passed.iter().all(|bytes| !bytes.is_empty()));
}

#[test]
fn only_possible_boundary_start_is_held_back() {
    for content in [4, 9, 10, 11, 1_000, 8_192, 20_000] {
        let headers = "--b\r\nA: 1\r\n\r\n";
        for chunks in [
            vec![headers.to_owned() + &"x".repeat(content)],
            vec![headers.to_owned(), "x".repeat(content)],
        ] {
            let chunks: Vec<_> = chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk))).collect();
            let mut form =
                WithoutPartLengths::new(stream::iter(chunks).chain(stream::pending()), "b");
            let passed: usize = std::iter::from_fn(|| form.next().now_or_never())
                .map(|bytes| bytes.unwrap().unwrap().len())
                .sum();
            assert_eq!(passed, 2 + headers.len() + content - "\r\n--".len(), "{content}");
        }
    }
}

proptest! {
    #[test]
    fn forms_without_content_length_pass_unchanged_or_are_rejected(
        pieces in prop::collection::vec(
            prop::sample::select(vec!["\r\n", "--b", "--", "\r", "\n", "A: 1", "b", "x"]),
            0..60,
        ),
        chunk in 1_usize..60,
    ) {
        let form = pieces.concat().replace("\r--b", "\r-b").into_bytes();
        match try_pass(&form, chunk) {
            Ok(passed) => prop_assert_eq!(passed, [b"\r\n", &form[..]].concat()),
            Err(_) => prop_assert!(form.split_inclusive(|byte| *byte == b'\n').any(is_bare_line)),
        }
    }
}
