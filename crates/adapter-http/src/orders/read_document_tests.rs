use std::time::Duration;

use actix_web::{http::Method, test::TestRequest};
use bytes::Bytes;
use contract_tests::samples::document;
use domain::{
    document::{Sha256Digest, StoredDocument},
    order::OrderId,
    ports::{MaybeErased, StoreError},
};
use futures_util::{StreamExt as _, stream};

use crate::test_support::{OWNER, Ports, TestAnswer, TestApi};

const PATH: &str = "/api/order/7/documents/1";
const BYTES: &[u8] = b"0123456789";

fn ten_bytes() -> StoredDocument {
    StoredDocument {
        name: "deed_1.pdf".to_owned(),
        name_as_sent: "deed é1.pdf".to_owned(),
        size: 10,
        sha256: Sha256Digest([0xab; 32]),
        ..document()
    }
}

/// Returns ports with the document of ten bytes, read in blocks of three.
fn ports() -> Ports {
    let mut ports = without_blobs();
    ports.blobs.expect_get().returning(|key, range| {
        assert_eq!(*key, ten_bytes_key());
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        let blocks: Vec<_> = BYTES[range].chunks(3).map(|it| Ok(Bytes::from_static(it))).collect();
        Ok(Some(stream::iter(blocks).boxed()))
    });
    ports
}

fn ten_bytes_key() -> domain::document::ObjectKey {
    domain::document::ObjectKey::from_stored("ab/7".to_owned())
}

fn without_blobs() -> Ports {
    let mut ports = Ports::new();
    ports.reader.expect_document().returning(|owner, id| {
        assert_eq!((owner, id.order, id.position), (OWNER, OrderId(7), 1));
        let document = StoredDocument { key: Some(ten_bytes_key()), ..ten_bytes() };
        Ok(Some(MaybeErased::Whole(document)))
    });
    ports
}

async fn send(ports: Ports, request: TestRequest) -> TestAnswer {
    ports.api().send(request).await
}

fn tag() -> String {
    format!("\"{}\"", "ab".repeat(32))
}

#[actix_web::test]
async fn document_is_sent_with_its_headers() {
    let answer = send(ports(), TestApi::get(PATH)).await;

    assert_eq!((answer.status.as_u16(), answer.bytes.as_deref()), (200, Some(BYTES)));
    let digest = "sha-256=:q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s=:";
    for (name, value) in [
        ("content-type", "application/pdf"),
        (
            "content-disposition",
            "attachment; filename=\"deed_1.pdf\"; filename*=UTF-8''deed%20%C3%A91.pdf",
        ),
        ("etag", &tag()),
        ("repr-digest", digest),
        ("accept-ranges", "bytes"),
        ("cache-control", "private, no-cache"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
}

#[actix_web::test]
async fn current_version_is_not_sent_again() {
    let request = TestApi::get(PATH)
        .insert_header(("if-none-match", tag()))
        .insert_header(("range", "bytes=0-1"));
    let answer = send(without_blobs(), request).await;

    assert_eq!((answer.status.as_u16(), answer.header("etag")), (304, &*tag()));
    assert_eq!(answer.bytes.unwrap().len(), 0);
}

#[actix_web::test]
async fn head_reads_no_object() {
    let request = TestApi::get(PATH)
        .method(actix_web::http::Method::HEAD)
        .insert_header(("range", "bytes=0-1"));
    let answer = send(without_blobs(), request).await;

    assert_eq!(answer.status, 200);
    assert!(answer.headers.contains_key("content-disposition"));
}

#[actix_web::test]
async fn store_that_fails_in_mid_stream_breaks_the_body() {
    let mut ports = without_blobs();
    ports.blobs.expect_get().returning(|_, _| {
        let blocks =
            [Ok(Bytes::from_static(b"01234")), Err(StoreError::Unavailable("down".into()))];
        Ok(Some(stream::iter(blocks).boxed()))
    });
    let api = ports.api();

    let answer = api.send(TestApi::get(PATH)).await;

    assert_eq!((answer.status.as_u16(), answer.bytes), (200, None));
    assert!(api.has_metric("notary_orders_downloads_cut_total 1"));
    assert!(api.has_metric("notary_orders_document_bytes_read_total 5"));
}

/// The object is deleted with its order, before the download looks again.
#[actix_web::test]
async fn object_that_was_erased_in_mid_stream_is_no_failure_of_the_store() {
    let mut ports = Ports::new();
    let mut looks = 0;
    ports.reader.expect_document().returning_st(move |_, _| {
        looks += 1;
        let document = StoredDocument { key: Some(ten_bytes_key()), ..ten_bytes() };
        Ok(Some(if looks == 1 { MaybeErased::Whole(document) } else { MaybeErased::Erased }))
    });
    ports.blobs.expect_get().returning(|_, _| {
        let blocks =
            [Ok(Bytes::from_static(b"01234")), Err(StoreError::Unavailable("gone".into()))];
        Ok(Some(stream::iter(blocks).boxed()))
    });
    let api = ports.api();

    let answer = api.send(TestApi::get(PATH)).await;

    assert_eq!((answer.status.as_u16(), answer.bytes), (200, None));
    assert!(api.has_metric("notary_orders_downloads_cut_total 0"));
}

#[tokio::test(start_paused = true)]
async fn download_ends_when_its_order_is_erased() {
    for is_erased in [false, true] {
        let mut ports = Ports::new();
        let mut looks = 0;
        ports.reader.expect_document().returning_st(move |_, _| {
            looks += 1;
            let document = StoredDocument { key: Some(ten_bytes_key()), ..ten_bytes() };
            let is_kept = looks <= 2 || !is_erased;
            Ok(Some(if is_kept { MaybeErased::Whole(document) } else { MaybeErased::Erased }))
        });
        ports.blobs.expect_get().returning(|_, _| {
            let blocks = stream::iter(BYTES.chunks(1)).then(async |block| {
                tokio::time::sleep(Duration::from_millis(600)).await;
                Ok(Bytes::from_static(block))
            });
            Ok(Some(blocks.boxed()))
        });
        let api = ports.api();

        let answer = api.send(TestApi::get(PATH)).await;

        let sent = if is_erased { 4 } else { 10 };
        assert_eq!(answer.bytes.is_none(), is_erased);
        let metric = format!("notary_orders_document_bytes_read_total {sent}");
        assert!(api.has_metric(&metric), "{is_erased}");
    }
}

#[actix_web::test]
async fn missing_documents_are_the_same_404_as_missing_orders() {
    let mut ports = Ports::new();
    ports.reader.expect_document().returning(|_, _| Ok(None));
    ports.reader.expect_order().returning(|_, _| Ok(None));
    let api = ports.api();
    let order = api.send(TestApi::get("/api/order/7")).await;
    for path in
        ["7/documents/0", "7/documents/x", "7/documents/-1", "7/documents/00", "x/documents/0"]
    {
        let answer = api.send(TestApi::get(&format!("/api/order/{path}"))).await;
        answer.problem(404, "not_found");
        assert_eq!(answer.body["detail"], order.body["detail"], "{path}");
    }
}

#[actix_web::test]
async fn document_of_an_erased_order_is_gone() {
    let mut ports = Ports::new();
    ports.reader.expect_document().returning(|_, _| Ok(Some(MaybeErased::Erased)));

    send(ports, TestApi::get(PATH)).await.problem(410, "erased");
}

#[actix_web::test]
async fn withdrawn_document_is_gone() {
    for method in [Method::GET, Method::HEAD] {
        let mut ports = Ports::new();
        let withdrawn = || StoredDocument { key: None, ..ten_bytes() };
        ports
            .reader
            .expect_document()
            .returning(move |_, _| Ok(Some(MaybeErased::Whole(withdrawn()))));

        let answer = send(ports, TestApi::get(PATH).method(method.clone())).await;

        assert_eq!(answer.status.as_u16(), 410, "{method}");
    }
}

/// The key of the tests is that of a client.
#[actix_web::test]
async fn first_download_is_noted_when_the_other_side_has_the_end() {
    const SIGNED: &str = "/api/order/7/signed-documents/1";
    for (path, method, range, is_resumed, is_noted) in [
        (SIGNED, Method::GET, None, false, true),
        (SIGNED, Method::GET, Some("bytes=0-"), false, true),
        (SIGNED, Method::GET, Some("bytes=4-"), true, true),
        // The bytes before were never asked for.
        (SIGNED, Method::GET, Some("bytes=4-"), false, false),
        (SIGNED, Method::GET, Some("bytes=-1"), false, false),
        (SIGNED, Method::GET, Some("bytes=0-8"), false, false),
        (SIGNED, Method::GET, Some("bytes=4-8"), true, false),
        (SIGNED, Method::HEAD, None, false, false),
        (PATH, Method::GET, None, false, false),
    ] {
        let api = ports().api();
        let request = TestApi::get(path).method(method);
        let range = range.map(|range| ("range", range.to_owned()));
        let fields = range.clone().into_iter().chain(is_resumed.then(|| ("if-range", tag())));
        let request = fields.fold(request, TestRequest::insert_header);

        api.send(request).await;

        let noted = api.downloads.lock().unwrap().len();
        assert_eq!(noted, usize::from(is_noted), "{path} {range:?} {is_resumed}");
    }
}
