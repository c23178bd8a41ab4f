use std::io::{Cursor, Read as _};

use actix_web::http::Method;
use bytes::Bytes;
use contract_tests::samples::{document, minimal_request, new_order, order, stored};
use domain::{
    document::ObjectKey,
    order::OrderId,
    ports::{BlobStream, MaybeErased, NewOrder, StoreError},
};
use futures_util::stream;
use zip::ZipArchive;

use super::*;
use crate::test_support::{NOW, OWNER, Ports, TestApi};

const PATH: &str = "/api/order/7/documents.zip";

/// Returns a document of ten bytes.
fn named(name: &str) -> StoredDocument {
    StoredDocument {
        name: name.to_owned(),
        key: Some(ObjectKey::from_stored(name.to_owned())),
        size: 10,
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

/// Returns the bytes of the object of a document, in blocks of four.
fn blocks(key: &ObjectKey) -> BlobStream {
    let bytes = format!("{:.<10}", &key.as_str()[..4]);
    let blocks: Vec<_> =
        bytes.as_bytes().chunks(4).map(|block| Ok(Bytes::copy_from_slice(block))).collect();
    stream::iter(blocks).boxed()
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

#[actix_web::test]
async fn archive_has_every_document_that_is_not_withdrawn() {
    let replaced = StoredDocument { replaced_by: Some(3), ..named("deed.pdf") };
    let mut ports = ports(vec![replaced, withdrawn(), named("note.pdf"), named("deed.pdf")]);
    ports.blobs.expect_get().times(3).returning(|key, range| {
        assert_eq!(range, 0..10);
        Ok(Some(blocks(key)))
    });

    let answer = ports.api().send(TestApi::get(PATH)).await;

    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/zip");
    assert_eq!(
        answer.header("content-disposition"),
        "attachment; filename=\"A___1-documents.zip\""
    );
    let files = [("replaced/deed.pdf", "deed"), ("note.pdf", "note"), ("deed.pdf", "deed")];
    let files = files.map(|(name, content)| (name.to_owned(), format!("{content}......")));
    assert_eq!(unpacked(&answer.bytes.unwrap()), files);
}

#[actix_web::test]
async fn current_archive_is_not_sent_again() {
    let mut ports = ports(vec![named("deed.pdf")]);
    ports.blobs.expect_get().once().returning(|key, _| Ok(Some(blocks(key))));
    let api = ports.api();
    let tag = api.send(TestApi::get(PATH)).await.header("etag").to_owned();
    let known = TestApi::get(PATH).insert_header(("if-none-match", tag));
    assert_eq!(api.send(known).await.status, 304);
}

#[test]
fn names_are_unique_and_safe_on_every_system() {
    let names = ["a.pdf", "A.PDF", "a_2.pdf", "a.pdf", "con.pdf", "LPT1.x.pdf", "comic.pdf"];
    let order = with_documents(names.map(named).into());
    let names: Vec<_> =
        entries(&order, DocumentKind::ToSign).into_iter().map(|entry| entry.name).collect();
    let expected =
        ["a.pdf", "A_2.PDF", "a_2_2.pdf", "a_3.pdf", "_con.pdf", "_LPT1.x.pdf", "comic.pdf"];
    assert_eq!(names, expected);
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

#[actix_web::test]
async fn document_that_is_withdrawn_meanwhile_is_left_out() {
    let mut ports = ports(vec![named("deed.pdf"), named("note.pdf"), named("plan.pdf")]);
    ports
        .blobs
        .expect_get()
        .returning(|key, _| Ok((key.as_str() != "note.pdf").then(|| blocks(key))));
    ports
        .reader
        .expect_document()
        .once()
        .returning(|_, _| Ok(Some(MaybeErased::Whole(withdrawn()))));

    let answer = ports.api().send(TestApi::get(PATH)).await;

    let files = unpacked(&answer.bytes.unwrap());
    assert_eq!(files.iter().map(|file| &*file.0).collect::<Vec<_>>(), ["deed.pdf", "plan.pdf"]);
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
        ports.blobs.expect_get().returning(move |key, _| {
            Ok(Some(if key.as_str() == "deed.pdf" { blocks(key) } else { blocks_of_second() }))
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
