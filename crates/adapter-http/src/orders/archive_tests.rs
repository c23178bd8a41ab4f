use std::{
    io::{Cursor, Read as _},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use actix_web::http::Method;
use bytes::Bytes;
use contract_tests::samples::{document, minimal_request, new_order, order, stored};
use domain::{
    document::{ObjectKey, Sha256Digest},
    ports::{BlobStream, MaybeErased, NewOrder, StoreError},
};
use futures_util::stream;
use time::Duration;
use zip::{CompressionMethod, ZipArchive};

use super::*;
use crate::test_support::{NOW, OWNER, Ports, TestAnswer, TestApi};

const PATH: &str = "/api/order/7/documents.zip";

/// Returns the bytes of the document of this name.
fn content(name: &str) -> String {
    let beginning: Vec<_> = name.bytes().take(4).map(|byte| format!("{}", byte % 10)).collect();
    format!("{:.<10}", beginning.concat())
}

/// Returns a document of ten bytes.
fn named(name: &str) -> StoredDocument {
    let content = content(name);
    StoredDocument {
        name: name.to_owned(),
        name_as_sent: name.to_owned(),
        key: Some(ObjectKey::from_stored(name.to_owned())),
        size: 10,
        sha256: Sha256Digest(Sha256::digest(&content).into()),
        crc32: Some(crc32fast::hash(content.as_bytes())),
        ..document()
    }
}

fn withdrawn() -> StoredDocument {
    StoredDocument { key: None, withdrawn_at: Some(NOW), ..named("document.pdf") }
}

fn with_documents(documents: Vec<StoredDocument>) -> StoredOrder {
    let new = NewOrder { order: order(minimal_request()), ..new_order("A/ü 1", NOW) };
    let mut order = StoredOrder { documents, ..stored(OrderId(7), &new) };
    order.order.file_number = domain::order::FileNumber::new("A/ü 1".to_owned()).unwrap();
    order
}

/// Returns ports with the order of these documents.
fn ports(documents: Vec<StoredDocument>) -> Ports {
    let mut ports = Ports::new();
    ports.reader.expect_with_documents().returning(move |owner, id| {
        assert_eq!((owner, id), (OWNER, OrderId(7)));
        Ok(Some(MaybeErased::Whole(with_documents(documents.clone()))))
    });
    ports
}

/// Returns a range of the bytes of the object of a document, in blocks of four.
fn blocks(key: &ObjectKey, range: Range<u64>) -> BlobStream {
    let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
    let bytes = content(key.as_str())[range].to_owned();
    let blocks: Vec<_> =
        bytes.as_bytes().chunks(4).map(|block| Ok(Bytes::copy_from_slice(block))).collect();
    stream::iter(blocks).boxed()
}

/// Returns ports with the order of these documents, and with their objects.
fn with_objects(documents: Vec<StoredDocument>) -> Ports {
    let mut ports = ports(documents);
    ports.blobs.expect_get().returning(|key, range| Ok(Some(blocks(key, range))));
    ports
}

/// Returns the names and the contents of an archive, in its order.
fn unpacked(bytes: &[u8]) -> Vec<(String, String)> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut files = Vec::new();
    for at in 0..archive.len() {
        let mut file = archive.by_index(at).unwrap();
        assert_eq!(file.compression(), CompressionMethod::Stored);
        let name = file.name().unwrap().into_owned();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        files.push((name, content));
    }
    files
}

/// Returns the names of an archive.
fn names(answer: TestAnswer) -> Vec<String> {
    unpacked(&answer.bytes.unwrap()).into_iter().map(|(name, _)| name).collect()
}

#[actix_web::test]
async fn archive_has_every_document_that_is_not_withdrawn() {
    let replaced = StoredDocument { replaced_by: Some(3), ..named("deed.pdf") };
    let documents = vec![replaced, withdrawn(), named("note.pdf"), named("deed.pdf")];

    let answer = with_objects(documents).api().send(TestApi::get(PATH)).await;

    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/zip");
    assert_eq!(answer.header("accept-ranges"), "bytes");
    assert_eq!(
        answer.header("content-disposition"),
        "attachment; filename=\"A___1-documents.zip\""
    );
    let files = ["replaced/deed.pdf", "note.pdf", "deed.pdf"];
    let files = files.map(|name| (name.to_owned(), content(name.trim_start_matches("replaced/"))));
    assert_eq!(unpacked(&answer.bytes.unwrap()), files);
}

#[actix_web::test]
async fn current_archive_is_not_sent_again() {
    let api = with_objects(vec![named("deed.pdf")]).api();
    let tag = api.send(TestApi::get(PATH)).await.header("etag").to_owned();
    let known = TestApi::get(PATH).insert_header(("if-none-match", tag));
    assert_eq!(api.send(known).await.status, 304);
}

#[actix_web::test]
async fn part_has_the_bytes_of_the_whole_archive() {
    let api = with_objects(vec![named("deed.pdf"), named("合同.pdf"), named("note.pdf")]).api();
    let whole = api.send(TestApi::get(PATH)).await;
    let tag = whole.header("etag").to_owned();
    let whole = whole.bytes.unwrap();
    for first in 0..whole.len() {
        for last in [first, first + 1, first + 70, whole.len() - 1] {
            let last = last.min(whole.len() - 1);
            let part = TestApi::get(PATH)
                .insert_header(("range", format!("bytes={first}-{last}")))
                .insert_header(("if-range", tag.clone()));
            let part = api.send(part).await;
            let range = format!("bytes {first}-{last}/{}", whole.len());
            assert_eq!((part.status.as_u16(), part.header("content-range")), (206, &*range));
            assert_eq!(part.bytes.unwrap(), whole[first..=last], "{range}");
        }
    }
}

#[actix_web::test]
async fn another_archive_is_sent_whole() {
    let sent = with_objects(vec![named("deed.pdf")]).api().send(TestApi::get(PATH)).await;
    let tag = sent.header("etag").to_owned();
    let other = vec![named("deed.pdf"), named("note.pdf")];
    let later = StoredDocument { created_at: NOW + Duration::DAY, ..named("deed.pdf") };
    for (documents, range, status) in [
        (vec![named("deed.pdf")], "bytes=9-", 206),
        (vec![named("deed.pdf")], "bytes=1-2,5-6", 200),
        (other, "bytes=9-", 200),
        (vec![later], "bytes=9-", 200),
        (vec![named("Deed.pdf")], "bytes=9-", 200),
    ] {
        let request = TestApi::get(PATH).insert_header(("range", range));
        let request = request.insert_header(("if-range", tag.clone()));
        let answer = with_objects(documents).api().send(request).await;
        assert_eq!(answer.status, status, "{range}");
    }
}

#[actix_web::test]
async fn part_outside_of_the_archive_is_not_satisfiable() {
    let request = TestApi::get(PATH).insert_header(("range", "bytes=5000-"));
    let answer = ports(vec![named("deed.pdf")]).api().send(request).await;
    answer.problem(416, "range_not_satisfiable");
}

#[actix_web::test]
async fn order_without_documents_has_no_archive() {
    for documents in [vec![], vec![withdrawn()]] {
        let api = ports(documents).api();
        api.send(TestApi::get(PATH)).await.problem(404, "not_found");
        api.send(TestApi::get("/api/order/7/signed-documents.zip")).await.problem(404, "not_found");
    }
}

#[actix_web::test]
async fn head_reads_no_object() {
    let answer = ports(vec![named("deed.pdf")]).api();
    let answer = answer.send(TestApi::get(PATH).method(Method::HEAD)).await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers.contains_key("content-disposition"));
}

/// Version 0.1.0 stored it.
#[actix_web::test]
async fn document_without_crc32_is_read_once_for_it() {
    let crc32 = named("note.pdf").crc32.unwrap();
    let old = StoredDocument { crc32: None, ..named("note.pdf") };
    let mut ports = with_objects(vec![named("deed.pdf"), old]);
    let stored = Arc::new(AtomicU32::new(0));
    let store = Arc::clone(&stored);
    ports.orders.expect_store_crc32().once().returning(move |id, crc32| {
        assert_eq!((id.order, id.kind, id.position), (OrderId(7), DocumentKind::ToSign, 1));
        store.store(crc32, Relaxed);
        Ok(())
    });

    let answer = ports.api().send(TestApi::get(PATH)).await;

    assert_eq!(stored.load(Relaxed), crc32);
    assert_eq!(names(answer), ["deed.pdf", "note.pdf"]);
}

#[actix_web::test]
async fn damaged_document_gets_no_crc32() {
    let sha256 = Sha256Digest([7; 32]);
    let damaged = StoredDocument { crc32: None, sha256, ..named("note.pdf") };
    let api = with_objects(vec![named("deed.pdf"), damaged]).api();
    api.send(TestApi::get(PATH)).await.problem(500, "internal");
}

/// Returns ports with documents, of which a request that reads `note.pdf` finds that it was just withdrawn.
fn withdrawn_meanwhile(documents: Vec<StoredDocument>) -> Ports {
    let mut ports = Ports::new();
    let mut looks = 0;
    ports.reader.expect_with_documents().returning_st(move |_, _| {
        looks += 1;
        let left = documents.iter().filter(|it| looks == 1 || it.name != "note.pdf").cloned();
        Ok(Some(MaybeErased::Whole(with_documents(left.collect()))))
    });
    ports
        .blobs
        .expect_get()
        .returning(|key, range| Ok((key.as_str() != "note.pdf").then(|| blocks(key, range))));
    let withdrawn = |_, _| Ok(Some(MaybeErased::Whole(withdrawn())));
    ports.reader.expect_document().once().returning(withdrawn);
    ports
}

#[actix_web::test]
async fn document_that_is_withdrawn_before_the_first_byte_is_left_out() {
    let old = StoredDocument { crc32: None, ..named("note.pdf") };
    for documents in [vec![named("note.pdf"), named("plan.pdf")], vec![named("plan.pdf"), old]] {
        let ports = withdrawn_meanwhile(documents);
        assert_eq!(names(ports.api().send(TestApi::get(PATH)).await), ["plan.pdf"]);
    }
}

#[actix_web::test]
async fn document_that_is_withdrawn_later_cuts_the_archive() {
    let api = withdrawn_meanwhile(vec![named("deed.pdf"), named("note.pdf")]).api();
    let answer = api.send(TestApi::get(PATH)).await;
    assert_eq!((answer.status.as_u16(), answer.bytes), (200, None));
    assert!(api.has_metric("notary_orders_downloads_cut_total 0"));
}

/// The key of the tests is that of a client.
#[actix_web::test]
async fn each_document_that_the_other_side_has_whole_is_a_download() {
    const SIGNED: &str = "/api/order/7/signed-documents.zip";
    let documents = vec![named("deed.pdf"), named("note.pdf")];
    for (path, range, noted) in [
        (PATH, "bytes=0-", 0),
        (SIGNED, "bytes=0-", 2),
        (SIGNED, "bytes=0-60", 1),
        (SIGNED, "bytes=45-", 2),
        (SIGNED, "bytes=80-", 1),
        (SIGNED, "bytes=-10", 0),
    ] {
        let mut ports = Ports::new();
        let order = StoredOrder {
            signed_documents: documents.clone(),
            ..with_documents(documents.clone())
        };
        ports
            .reader
            .expect_with_documents()
            .returning(move |_, _| Ok(Some(MaybeErased::Whole(order.clone()))));
        ports.blobs.expect_get().returning(|key, range| Ok(Some(blocks(key, range))));
        let api = ports.api();
        api.send(TestApi::get(path).insert_header(("range", range))).await;
        assert_eq!(api.downloads.lock().unwrap().len(), noted, "{path} {range}");
    }
}

#[actix_web::test]
async fn store_that_fails_breaks_the_archive() {
    let failing = || {
        let down = StoreError::Unavailable("down".into());
        stream::iter([Ok(Bytes::from_static(b"0123")), Err(down)]).boxed()
    };
    let short = || stream::iter([Ok(Bytes::from_static(b"0123"))]).boxed();
    let long = || stream::iter([Ok(Bytes::from_static(b"0123456789-"))]).boxed();
    for blocks_of_second in [failing as fn() -> BlobStream, short, long] {
        let mut ports = ports(vec![named("deed.pdf"), named("note.pdf")]);
        ports.blobs.expect_get().returning(move |key, range| {
            let is_first = key.as_str() == "deed.pdf";
            Ok(Some(if is_first { blocks(key, range) } else { blocks_of_second() }))
        });
        ports
            .reader
            .expect_document()
            .returning(|_, _| Ok(Some(MaybeErased::Whole(named("note.pdf")))));
        let api = ports.api();

        let answer = api.send(TestApi::get(PATH)).await;

        assert_eq!((answer.status.as_u16(), answer.bytes), (200, None));
        assert!(api.has_metric("notary_orders_downloads_cut_total 1"));
    }
    let mut ports = ports(vec![named("deed.pdf")]);
    ports.blobs.expect_get().returning(move |_, _| Err(StoreError::Unavailable("down".into())));
    ports.api().send(TestApi::get(PATH)).await.problem(503, "unavailable");
}
