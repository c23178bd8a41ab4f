use std::fs;

use actix_web::{FromRequest as _, dev, error::PayloadError, test::TestRequest};
use bytes::Bytes;
use domain::{api_key::ClientId, request::Violation};
use futures_util::{Stream, stream};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::test_support::body_of;

const FORM: &str = "multipart/form-data; boundary=b";
const LIMITS: DocumentLimits = DocumentLimits { max_count: 2, max_bytes: 100 };

fn request(content_types: &[&str]) -> HttpRequest {
    let request = TestRequest::default();
    content_types
        .iter()
        .fold(request, |request, value| request.append_header((header::CONTENT_TYPE, *value)))
        .to_http_request()
}

async fn read_within(
    spool: &Spool,
    body: impl Stream<Item = Result<Bytes, PayloadError>> + 'static,
    limits: DocumentLimits,
) -> Result<OrderForm, Problem> {
    read_as(FORM, spool, body, limits).await
}

async fn read_as(
    content_type: &str,
    spool: &Spool,
    body: impl Stream<Item = Result<Bytes, PayloadError>> + 'static,
    limits: DocumentLimits,
) -> Result<OrderForm, Problem> {
    let request = request(&[content_type]);
    let mut payload: dev::Payload = dev::Payload::Stream { payload: Box::pin(body) };
    let payload = web::Payload::from_request(&request, &mut payload).await.unwrap();
    let space = FormSpace { spool, limits, party: Party::Client(ClientId(1)), texts: Texts::Order };
    read(&request, payload, space).await
}

async fn read_stream(
    spool: &Spool,
    body: impl Stream<Item = Result<Bytes, PayloadError>> + 'static,
) -> Result<OrderForm, Problem> {
    read_within(spool, body, LIMITS).await
}

/// Reads a form, and returns it with the spool of its documents.
async fn form(body: impl Into<Vec<u8>>) -> Result<(OrderForm, (Spool, TempDir)), Problem> {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), u64::MAX).unwrap();
    let form = read_stream(&spool, stream::iter([Ok(Bytes::from(body.into()))])).await?;
    Ok((form, (spool, folder)))
}

/// Returns the problem of a form of these parts.
async fn fault(parts: &str) -> Option<(ProblemCode, String)> {
    form(parts.to_owned() + "--b--\r\n")
        .await
        .err()
        .map(|problem| (problem.code(), format!("{problem:?}")))
}

async fn code(parts: &str) -> Option<ProblemCode> {
    fault(parts).await.map(|(code, _)| code)
}

fn part(disposition: &str, content: &str) -> String {
    format!("--b\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{content}\r\n")
}

fn text(name: &str, content: &str) -> String {
    part(&format!("name=\"{name}\""), content)
}

fn document(name: &str, content: &str) -> String {
    part(&format!("name=\"documents\"; filename=\"{name}\""), content)
}

const TOO_LARGE: Option<ProblemCode> = Some(ProblemCode::PayloadTooLarge);
const MALFORMED: Option<ProblemCode> = Some(ProblemCode::MalformedRequest);

#[test]
fn size_limit_includes_one_document_too_many() {
    assert_eq!(
        max_bytes(DocumentLimits { max_count: 20, max_bytes: 10 * 1024 * 1024 }),
        224_395_264
    );
    assert_eq!(max_bytes(DocumentLimits { max_count: 20, max_bytes: u64::MAX }), u64::MAX);
}

#[test]
fn content_type_is_a_form_with_a_boundary_of_1_to_70_characters() {
    let of_length = |length| format!("multipart/form-data; boundary={}", "b".repeat(length));
    for accepted in [FORM, "Multipart/Form-Data ; charset=utf-8; boundary=\"a b\"", &of_length(70)]
    {
        assert!(super::boundary(&request(&[accepted])).is_ok(), "{accepted}");
    }
    let (other, malformed) = (ProblemCode::UnsupportedMediaType, ProblemCode::MalformedRequest);
    for (content_types, code, detail) in [
        (&[][..], other, "must be multipart/form-data"),
        (&["multipart/mixed; boundary=b"], other, "must be multipart/form-data"),
        (&["nonsense"], other, "must be multipart/form-data"),
        (&[FORM, FORM], malformed, "more than one content type"),
        (&["multipart/form-data; boundary="], malformed, "must have 1 to 70"),
        (&[&of_length(71)], malformed, "must have 1 to 70"),
        (&["multipart/form-data; boundary=a@b"], malformed, "needs quotes"),
        (&["multipart/form-data, boundary=b"], other, "multipart/form-data; boundary="),
    ] {
        let problem = super::boundary(&request(content_types)).unwrap_err();
        let found = format!("{problem:?}");
        assert!(problem.code() == code && found.contains(detail), "{content_types:?} {found}");
    }
}

#[actix_web::test]
async fn forms_of_real_clients_are_read() {
    const DEED: &str = "Content-Disposition: form-data; name=\"documents\"; filename=\"deed.pdf\"\r\n\r\n%PDF-\r\n";
    let folded = DEED.replace("; ", ";\r\n\t ");
    let spaced = DEED.replace("; ", " ; ").replace('=', " = ");
    for (case, content_type, body) in [
        ("blanks behind boundaries", FORM, format!("--b \t\r\n{DEED}--b\t\r\n{DEED}--b-- \r\n")),
        ("blanks at the end", FORM, format!("--b\r\n{DEED}--b\r\n{DEED}--b--\t ")),
        ("folded headers", FORM, format!("--b\r\n{folded}--b\r\n{folded}--b--")),
        (
            "blanks around parameters",
            "multipart/form-data ; boundary=b",
            format!("--b\r\n{spaced}--b\r\n{DEED}--b--"),
        ),
        (
            "encodings that change nothing",
            FORM,
            format!(
                "--b\r\nContent-Transfer-Encoding: Binary\r\n{DEED}--b\r\ncontent-transfer-encoding: 8bit\r\n{DEED}--b--"
            ),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), u64::MAX).unwrap();
        let body = stream::iter([Ok(Bytes::from(body))]);
        let form = read_as(content_type, &spool, body, LIMITS).await;
        let form = form.unwrap_or_else(|problem| panic!("{case}: {problem:?}"));
        let read: Vec<_> =
            form.documents.iter().map(|it| (it.name_as_sent.as_str(), it.file.size)).collect();
        assert_eq!(read, [("deed.pdf", 5); 2], "{case}");
    }
}

#[actix_web::test]
async fn byte_order_mark_before_a_text_is_ignored() {
    let parts =
        text("requestedBy", "\u{feff}{\"userId\":7}") + &text("signingServiceId", "\u{feff}42");
    let (form, _spool) = form(parts + "--b--\r\n").await.unwrap();
    let expected = json!({ "requestedBy": { "userId": 7 }, "signingServiceId": 42 });
    assert_eq!(form.request, serde_json::from_value(expected).unwrap());
}

/// Every part of the body is cut off once, and every byte replaced once.
#[actix_web::test]
async fn broken_forms_get_one_plain_sentence_about_the_form() {
    let whole = document("deed.pdf", "%PDF-") + &text("csrf", "x") + "--b--\r\n";
    let cut = (0..whole.len()).map(|end| whole.as_bytes()[..end].to_vec());
    let replaced = (0..whole.len()).flat_map(|at| {
        [b'\xE9', b'\0', b'\r', b'=', b'"'].map(|byte| {
            let mut form = whole.clone().into_bytes();
            form[at] = byte;
            form
        })
    });
    let long =
        [vec![b'x'; 200 * 1024], format!("--b\r\nX-Long: {}", "x".repeat(20 * 1024)).into_bytes()];
    let nested = part("name=\"a\"\r\nContent-Type: multipart/mixed; boundary=c", "").into_bytes();
    for form in cut.chain(replaced).chain(long).chain([nested]) {
        let Err(problem) = super::tests::form(form.clone()).await else { continue };
        let body = body_of(&problem);
        let (code, detail) = (body["code"].as_str().unwrap(), body["detail"].as_str().unwrap());
        let form = String::from_utf8_lossy(&form);
        assert!(["malformed_request", "payload_too_large"].contains(&code), "{form:?} {detail}");
        assert!(detail.contains(" form ") && detail.ends_with('.'), "{form:?} {detail}");
        assert!(!detail.contains(['(', '{', '[']), "{form:?} {detail}");
    }
}

#[actix_web::test]
async fn part_at_fault_is_named_with_its_fault() {
    let latin1 = [b"--b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"d\xE9ed.pdf\"\r\n\r\nx\r\n--b--".to_vec()].concat();
    let problem = super::tests::form(latin1).await.err().unwrap();
    assert_eq!(
        body_of(&problem)["detail"],
        "Part 1 of the form has a header parameter that is not UTF-8."
    );
    for (fault_part, detail) in [
        (
            part("name=\"documents\"=?x; filename=\"a.pdf\"", "x"),
            "has something behind the value of a parameter",
        ),
        (
            part(
                "name=\"documents\"; filename=\"a.pdf\"\r\nContent-Transfer-Encoding: base64",
                "eA==",
            ),
            "has a Content-Transfer-Encoding: send its bytes as they are",
        ),
        (
            part("name=\"a\"\r\nContent-Disposition: form-data; name=\"a\"", "x"),
            "does not have one Content-Disposition",
        ),
        (
            "--b\r\nContent-Type: text/plain\r\n\r\nx\r\n".to_owned(),
            "does not have one Content-Disposition",
        ),
        (part("name=\"a\"\r\nContent-Type: multipart/mixed; boundary=c", "x"), "has parts itself"),
        (
            document("a.pdf", "x").replace("\r\n\r\n", "\n\r\n\r\n"),
            "cannot be read: a header line ends without a carriage return",
        ),
    ] {
        let (code, found) = fault(&(text("csrf", "x") + &fault_part)).await.unwrap();
        assert_eq!(code, ProblemCode::MalformedRequest, "{fault_part}");
        assert!(found.contains(&format!("Part 2 of the form {detail}.")), "{fault_part} {found}");
    }
}

#[actix_web::test]
async fn form_without_an_end_is_reported_with_its_cause() {
    let whole = text("csrf", "x") + "--b--";
    let no_boundary =
        "The form cannot be read: no line is the boundary of its content type and ends with CR LF.";
    for (form, detail) in [
        (String::new(), no_boundary),
        (whole.replace("--b", "--other"), no_boundary),
        (
            whole.replace("\r\n", "\n"),
            "The form cannot be read: a line feed alone follows a boundary.",
        ),
        (
            whole.trim_end_matches('-').to_owned(),
            "Part 1 of the form cannot be read: the form ends before its last boundary.",
        ),
        (text("csrf", "x"), "The form ends before its last boundary."),
        (whole + "\n", "Part 1 of the form cannot be read: a line feed alone follows a boundary."),
    ] {
        let problem = super::tests::form(form.clone()).await.err().unwrap();
        assert_eq!(body_of(&problem)["detail"], detail, "{form:?}");
    }
}

/// RFC 7578, sections 4.4 to 4.6.
#[actix_web::test]
async fn text_part_is_decoded_by_its_charset() {
    let jose = |content_type: &str, name: &[u8]| {
        let head = part(&format!("name=\"requestedBy\"\r\nContent-Type: {content_type}"), "");
        [head.trim_end().as_bytes(), b"\r\n\r\n{\"userRole\":\"", name, b"\"}\r\n--b--\r\n"]
            .concat()
    };
    for (content_type, name) in [
        ("text/plain; charset=ISO-8859-1", &b"Jos\xE9"[..]),
        ("text/plain; charset=us-ascii", "José".as_bytes()),
        ("application/json; charset=\"UTF-8\"", "José".as_bytes()),
    ] {
        let (form, _spool) = form(jose(content_type, name)).await.unwrap();
        let expected = json!({ "requestedBy": { "userRole": "José" } });
        assert_eq!(form.request, serde_json::from_value(expected).unwrap(), "{content_type}");
    }
    for (content_type, name, detail) in [
        (
            "application/json; charset=utf-7",
            &b"Jos+AOk-"[..],
            "Part 1 of the form has an unknown charset.",
        ),
        ("text/plain; charset=shift_jis", b"\x81", "The part requestedBy is not Shift_JIS."),
        (
            "a/b; charset=utf-8\r\nContent-Type: a/b; charset=latin1",
            b"x",
            "Part 1 of the form has more than one charset.",
        ),
    ] {
        let problem = form(jose(content_type, name)).await.err().unwrap();
        assert_eq!(body_of(&problem)["detail"], detail);
    }
    assert_eq!(code(&text("_charset_", "UTF-8")).await, None);
    let (_, detail) = fault(&text("_charset_", "iso-8859-1")).await.unwrap();
    assert!(detail.contains("Part 1 of the form names another charset than UTF-8."), "{detail}");
}

#[actix_web::test]
async fn text_parts_become_fields() {
    let fields = json!({
        "signingContactsFormData": { "orderContactEmail": "a@b" },
        "signingDetailsFormData": { "fileNumber": "1" },
        "signingServiceId": 42,
        "utcTimeDate": "at",
        "utcStartTimeDate": "start",
        "utcEndTimeDate": "end",
        "requestedBy": { "userId": 7 }
    });
    let mut parts = String::new();
    for (name, value) in fields.as_object().unwrap() {
        let content = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        parts += &text(name, &content);
        assert_eq!(code(&text(name, &content).repeat(2)).await, MALFORMED, "{name} twice");
    }
    let (form, _spool) = form(parts + &text("csrf", "x").repeat(2) + "--b--\r\n").await.unwrap();
    assert_eq!(serde_json::to_value(&form.request).unwrap(), fields);
    assert!(form.documents.is_empty());
}

#[actix_web::test]
async fn blank_parts_are_absent_and_invalid_json_is_malformed() {
    let (form, _spool) =
        form(text("requestedBy", " ") + &text("signingServiceId", "") + "--b--\r\n").await.unwrap();
    assert_eq!(form.request, OrderRequest::default());
    for name in ["signingContactsFormData", "signingDetailsFormData", "requestedBy"] {
        let (code, detail) = fault(&text(name, "{")).await.unwrap();
        assert!(code == ProblemCode::MalformedRequest && detail.contains(name), "{detail}");
    }
    let (_, detail) =
        fault(&(text("signingDetailsFormData", "{") + &text("requestedBy", "{"))).await.unwrap();
    assert!(["requestedBy", "signingDetails"].iter().all(|it| detail.contains(it)), "{detail}");
    let (code, detail) = fault(&text("requestedBy", "é")).await.unwrap();
    assert_eq!(code, ProblemCode::MalformedRequest, "{detail}");
    let not_text = [text("csrf", "").trim_end().as_bytes(), b"\r\n\r\n\xFF\r\n--b--\r\n"].concat();
    let problem = super::tests::form(not_text).await.err().unwrap();
    assert!(format!("{problem:?}").contains("Part 1 of the form is not UTF-8."), "{problem:?}");
    // A value of the wrong type is a violation, not a malformed form.
    let (form, _spool) = super::tests::form(
        text("requestedBy", "[]") + &text("signingServiceId", "42.0") + "--b--\r\n",
    )
    .await
    .unwrap();
    let violations = form.request.parse().unwrap_err();
    assert!(
        ["/requestedBy", "/signingServiceId"]
            .iter()
            .all(|at| violations.iter().any(|Violation { pointer, .. }| pointer == at)),
        "{violations:?}"
    );
}

#[actix_web::test]
async fn text_part_has_size_limit() {
    assert_eq!(code(&text("notes", &"x".repeat(256 * 1024))).await, None);
    let (code, detail) = fault(&text("notes", &"x".repeat(256 * 1024 + 1))).await.unwrap();
    assert!(
        code == ProblemCode::PayloadTooLarge
            && detail.contains("Part 1 of the form is larger than 262144 bytes."),
        "{detail}"
    );
    let (_, detail) = fault(&text("requestedBy", &"x".repeat(256 * 1024 + 1))).await.unwrap();
    assert!(detail.contains("The part requestedBy is larger than 262144 bytes."), "{detail}");
}

#[actix_web::test]
async fn parts_are_limited() {
    assert_eq!(code(&text("a", "").repeat(200)).await, None);
    assert_eq!(code(&text("a", "").repeat(201)).await, MALFORMED);
}

#[actix_web::test]
async fn documents_arrive_byte_for_byte() {
    let parts =
        document("deed.pdf", "%PDF-1.7\r\n") + &document("C:\\x.PNG", "no\0image") + "--b--\r\n";
    let (form, _spool) = form(parts).await.unwrap();
    let seen: Vec<_> = form
        .documents
        .iter()
        .map(|document| {
            (
                document.name_as_sent.as_str(),
                fs::read(&document.file.path).unwrap(),
                document.content,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("deed.pdf", b"%PDF-1.7\r\n".to_vec(), Content::Format(DocumentFormat::Pdf)),
            ("C:\\x.PNG", b"no\0image".to_vec(), Content::Other(None))
        ]
    );
    let paths: Vec<_> = form.documents.iter().map(|document| document.file.path.clone()).collect();
    drop(form);
    assert!(paths.iter().all(|path| !path.exists()));
}

/// Sizes and pieces around a block of the spool and the buffer of actix-multipart.
#[actix_web::test]
async fn documents_of_any_size_arrive_byte_for_byte_in_any_pieces() {
    let limits = DocumentLimits { max_count: 20, max_bytes: 1024 * 1024 };
    let content = |size| (0..=250).cycle().take(size).collect::<Vec<u8>>();
    let sizes: Vec<usize> = [4, 16, 64, 128, 256, 512]
        .into_iter()
        .flat_map(|kib| [kib * 1024 - 1, kib * 1024, kib * 1024 + 1])
        .collect();
    let mut body = Vec::new();
    for size in &sizes {
        body.extend_from_slice(document("a.bin", "").trim_end().as_bytes());
        body.extend([b"\r\n\r\n", &content(*size)[..], b"\r\n"].concat());
    }
    body.extend_from_slice(b"--b--\r\n");
    for piece in [7_919, 4_096, 65_536, 131_072, body.len()] {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), u64::MAX).unwrap();
        let pieces: Vec<_> =
            body.chunks(piece).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let form = read_within(&spool, stream::iter(pieces), limits).await.unwrap();
        assert_eq!(form.documents.len(), sizes.len());
        for (document, size) in form.documents.iter().zip(&sizes) {
            assert_eq!(document.file.size, *size as u64);
            assert!(fs::read(&document.file.path).unwrap() == content(*size), "{size} by {piece}");
        }
    }
}

#[actix_web::test]
async fn documents_are_limited_in_size_and_number() {
    let of_size = |size| document("a.pdf", &"x".repeat(size));
    assert_eq!(code(&of_size(100).repeat(2)).await, None);
    let (too_large, detail) = fault(&of_size(101)).await.unwrap();
    assert!(
        too_large == ProblemCode::DocumentTooLarge
            && detail.contains("“a.pdf” is larger than 100 bytes"),
        "{detail}"
    );
    assert_eq!(code(&of_size(1).repeat(3)).await, Some(ProblemCode::TooManyDocuments));
    let nameless = document("", "x").repeat(3);
    assert_eq!(code(&nameless).await, Some(ProblemCode::TooManyDocuments));
}

#[actix_web::test]
async fn empty_file_inputs_are_ignored() {
    let nothing = document("", "");
    let (form, _spool) =
        form(document("a.pdf", "").repeat(2) + &nothing + "--b--\r\n").await.unwrap();
    assert_eq!(form.documents.len(), 2);
    let (form, _spool) =
        super::tests::form(nothing.repeat(3) + &document("", "x") + "--b--\r\n").await.unwrap();
    assert_eq!(form.documents.iter().map(|document| document.file.size).collect::<Vec<_>>(), [1]);
}

#[actix_web::test]
async fn files_and_documents_parts_must_match() {
    assert_eq!(code(&part("name=\"documents\"", "%PDF-")).await, MALFORMED);
    assert_eq!(code(&part("name=\"deed\"; filename=\"deed.pdf\"", "%PDF-")).await, MALFORMED);
    assert_eq!(code(&part("name=\"csrf\"; filename=\"blob\"", "x")).await, MALFORMED);
    assert_eq!(code(&part("name=\"csrf\"; filename=\"\"", "x")).await, MALFORMED);
}

/// As browsers, `requests` of Python and `curl -F` with `@` send them.
#[actix_web::test]
async fn known_text_may_have_a_file_name() {
    for file_name in ["blob", "", "requestedBy", "x.json"] {
        let disposition = format!("name=\"requestedBy\"; filename=\"{file_name}\"");
        let (form, _spool) =
            form(part(&disposition, "{\"userId\":7}") + "--b--\r\n").await.unwrap();
        let request = serde_json::to_value(&form.request).unwrap();
        assert_eq!(request, serde_json::json!({ "requestedBy": { "userId": 7 } }), "{file_name}");
    }
}

#[actix_web::test]
async fn epilogue_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), u64::MAX).unwrap();
    let whole = document("a.pdf", "%PDF-") + "--b--\r\n";
    let reset = || Err(PayloadError::Io(io::ErrorKind::ConnectionReset.into()));
    let body = |last| {
        stream::iter([Ok(Bytes::from(whole.clone())), Ok(Bytes::from_static(b"It ended.")), last])
    };
    assert!(read_stream(&spool, body(Ok(Bytes::new()))).await.is_ok());
    assert!(read_stream(&spool, body(reset())).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn stalled_form_times_out_after_30_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), u64::MAX).unwrap();
    for start in [
        String::new(),
        text("a", ""),
        document("a.pdf", "%PDF-"),
        text("a", "x").trim_end().to_owned(),
    ] {
        let started = tokio::time::Instant::now();
        let body = stream::iter([Ok(Bytes::from(start))]).chain(stream::pending());
        let problem = read_stream(&spool, body).await.err().unwrap();
        assert_eq!(
            (problem.code(), started.elapsed().as_secs()),
            (ProblemCode::RequestTimeout, 30)
        );
    }
}

#[actix_web::test]
async fn failing_disk_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), u64::MAX).unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    let body = Bytes::from(document("a.pdf", "%PDF-") + "--b--\r\n");
    assert_eq!(
        read_stream(&spool, stream::iter([Ok(body)])).await.err().unwrap().code(),
        ProblemCode::Unavailable
    );
}

#[actix_web::test]
async fn texts_and_names_of_a_form_are_bounded_together() {
    let json = |name: &str, size| text(name, &format!("{{\"userId\":\"{}\"}}", "x".repeat(size)));
    let contacts = json("signingContactsFormData", 128 * 1024);
    assert_eq!(code(&(contacts.clone() + &json("requestedBy", 127 * 1024))).await, None);
    assert_eq!(code(&(contacts + &json("requestedBy", 128 * 1024))).await, TOO_LARGE);
    let own =
        |count, size| (0..count).map(|at| json(&format!("own{at}"), size)).collect::<String>();
    assert_eq!(code(&own(60, 4_000)).await, None);
    assert_eq!(code(&own(70, 4_000)).await, TOO_LARGE);
    // Only the beginning of such a text is held.
    assert_eq!(code(&own(70, 5_000)).await, None);
    let named = |size| text(&"n".repeat(size), "x");
    assert_eq!(code(&named(10_000).repeat(25)).await, None);
    assert_eq!(code(&named(10_000).repeat(27)).await, TOO_LARGE);
}

#[actix_web::test]
async fn instants_have_at_most_128_bytes() {
    for name in ["utcTimeDate", "utcStartTimeDate", "utcEndTimeDate"] {
        assert_eq!(code(&text(name, &"1".repeat(128))).await, None, "{name}");
        assert_eq!(code(&text(name, &"1".repeat(129))).await, TOO_LARGE, "{name}");
    }
}

#[actix_web::test]
async fn service_id_too_long_for_a_number_is_a_violation() {
    for digits in [20, 129, 100_000] {
        let (form, _spool) =
            form(text("signingServiceId", &"1".repeat(digits)) + "--b--\r\n").await.unwrap();
        let violations = form.request.parse().unwrap_err();
        assert!(violations.iter().any(|violation| violation.pointer == "/signingServiceId"));
    }
    assert_eq!(code(&text("signingServiceId", &"1".repeat(300_000))).await, TOO_LARGE);
}

#[actix_web::test]
async fn spool_over_its_disk_space_is_unavailable_and_empty_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 150).unwrap();
    let body = document("a.pdf", &"x".repeat(100)).repeat(2) + "--b--\r\n";
    let problem = read_stream(&spool, stream::iter([Ok(Bytes::from(body))])).await.err().unwrap();
    assert_eq!((problem.code(), spool.used()), (ProblemCode::Unavailable, 0));
}
