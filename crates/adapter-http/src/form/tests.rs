use std::fs;

use actix_web::{FromRequest as _, dev, error::PayloadError, test::TestRequest};
use bytes::Bytes;
use domain::order::Violation;
use futures_util::{Stream, stream};
use serde_json::json;
use tempfile::TempDir;

use super::*;

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
    let request = request(&[FORM]);
    let mut payload: dev::Payload = dev::Payload::Stream { payload: Box::pin(body) };
    let payload = web::Payload::from_request(&request, &mut payload).await.unwrap();
    let space = FormSpace { spool, limits, client: ClientId(1), has_texts: true };
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
fn boundary_has_1_to_70_characters() {
    let boundary = |content_types: &[&str]| {
        boundary(&request(content_types)).map_err(|problem| problem.code())
    };
    let of_length = |length| format!("multipart/form-data; boundary={}", "b".repeat(length));
    assert_eq!(boundary(&[FORM]), Ok("b".to_owned()));
    assert_eq!(
        boundary(&["Multipart/Form-Data; charset=utf-8; boundary=\"a b\""]),
        Ok("a b".to_owned())
    );
    assert_eq!(boundary(&[&of_length(70)]), Ok("b".repeat(70)));
    for unsupported in
        [&[][..], &["multipart/mixed; boundary=b"], &["application/json"], &["nonsense"]]
    {
        assert_eq!(
            boundary(unsupported),
            Err(ProblemCode::UnsupportedMediaType),
            "{unsupported:?}"
        );
    }
    for (malformed, detail) in [
        (&[FORM, FORM][..], "more than one content type"),
        (&["multipart/form-data"], "no boundary"),
        (&["multipart/form-data; boundary="], "must have 1 to 70"),
        (&[&of_length(71)], "must have 1 to 70"),
        (&["multipart/form-data; boundary=a; boundary=b"], "more than one"),
    ] {
        let problem = super::boundary(&request(malformed)).unwrap_err();
        assert!(
            problem.code() == ProblemCode::MalformedRequest
                && format!("{problem:?}").contains(detail),
            "{problem:?}"
        );
    }
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
    assert_eq!(form.request, serde_json::from_value(fields).unwrap());
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
    let (code, detail) = fault(&text("requestedBy", "é")).await.unwrap();
    assert_eq!(code, ProblemCode::MalformedRequest, "{detail}");
    let not_text = [text("csrf", "").trim_end().as_bytes(), b"\r\n\r\n\xFF\r\n--b--\r\n"].concat();
    let problem = super::tests::form(not_text).await.err().unwrap();
    assert!(format!("{problem:?}").contains("Part 1 of the form is not UTF-8."), "{problem:?}");
    // A value of the wrong type is a violation, not a malformed form.
    let (form, _spool) = super::tests::form(
        text("requestedBy", "[]") + &text("signingServiceId", "x") + "--b--\r\n",
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
        document("deed.pdf", "%PDF-1.7\r\n") + &document("C:\\x.PNG", "no image") + "--b--\r\n";
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
            ("C:\\x.PNG", b"no image".to_vec(), Content::Other)
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
    assert_eq!(code(&part("name=\"requestedBy\"; filename=\"a.json\"", "{}")).await, MALFORMED);
    assert_eq!(code(&part("name=\"csrf\"; filename=\"blob\"", "x")).await, MALFORMED);
    let (form, _spool) =
        form(part("name=\"requestedBy\"; filename=\"blob\"", "{\"userId\":7}") + "--b--\r\n")
            .await
            .unwrap();
    let request = serde_json::to_value(&form.request).unwrap();
    assert_eq!(request, serde_json::json!({ "requestedBy": { "userId": 7 } }));
}

#[actix_web::test]
async fn part_has_one_name_and_one_file_name() {
    for disposition in [
        "name=\"a\"; name=\"b\"",
        "filename=\"a.pdf\"",
        "name=\"documents\"; filename=\"a.pdf\"; filename=\"b.pdf\"",
        "name=\"documents\"; filename*=UTF-8''a.pdf; filename*=UTF-8''b.pdf",
        "name=\"documents\"; filename*=UTF-8''a%00.pdf",
        "name=\"documents\"; filename*=UTF-8''a%FF.pdf",
        "name=\"a\"\r\nContent-Disposition: form-data; name=\"a\"",
    ] {
        assert_eq!(code(&part(disposition, "x")).await, MALFORMED, "{disposition}");
    }
    assert_eq!(code("--b\r\nContent-Type: text/plain\r\n\r\nx\r\n").await, MALFORMED);
}

#[actix_web::test]
async fn file_names_are_read_as_browsers_write_them() {
    for (written, name) in [
        ("filename=\"a.pdf\"", "a.pdf"),
        ("FileName=\"a.pdf\"", "a.pdf"),
        ("filename=a.pdf", "a.pdf"),
        ("filename=\"C:\\new\\deed.pdf\"", "C:\\new\\deed.pdf"),
        (r#"filename="a \"quoted\" \\ name.pdf""#, r#"a "quoted" \ name.pdf"#),
        ("x=\"filename=\\\"no.pdf\\\"; filename=\\\"no.pdf\"; filename=\"yes.pdf\"", "yes.pdf"),
        ("x=\"a\\\\\";filename=\"yes.pdf\"", "yes.pdf"),
        ("x=\"\\a filename=\"; filename=\"yes.pdf\"", "yes.pdf"),
        ("x=\"a; filename=\"; \tfilename=\"yes.pdf\"", "yes.pdf"),
        ("x-filename=\"no.pdf\"; filename=\"yes.pdf\"", "yes.pdf"),
        ("x=y filename=\"no.pdf\"; filename=\"yes.pdf\"", "yes.pdf"),
        ("filename=\"plain.pdf\"; filename*=UTF-8''d%C3%A9ed.pdf", "plain.pdf"),
        ("filename*=UTF-8''d%C3%A9ed.pdf", "déed.pdf"),
        ("filename=\"é.pdf\"", "é.pdf"),
    ] {
        let (form, _spool) =
            form(part(&format!("name=\"documents\"; {written}"), "x") + "--b--\r\n").await.unwrap();
        assert_eq!(form.documents[0].name_as_sent, name, "{written}");
    }
}

#[actix_web::test]
async fn truncated_form_is_malformed_and_epilogue_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), u64::MAX).unwrap();
    let whole = document("a.pdf", "%PDF-") + "--b--\r\n";
    for end in [0, 3, 40, whole.len() - 8] {
        assert!(form(&whole[..end]).await.is_err(), "{end}");
    }
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
