//! Downloads documents, and adds documents to an order.

use contract_tests::documents;
use reqwest::{Method, RequestBuilder, multipart::Form};
use serde_json::json;

use crate::{
    harness::{TestApp, created, deed, file, form, order, problem},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    every_document_is_downloaded_byte_for_byte,
    broken_download_is_continued_by_ranges,
    missing_object_is_internal_and_counted,
    added_documents_follow_the_others,
}

const DOCUMENT: &str = "/api/order/1/documents/0";
const DOCUMENTS: &str = "/api/order/1/documents";

fn get(app: &TestApp, path: &str) -> RequestBuilder {
    app.request(Method::GET, path)
}

async fn every_document_is_downloaded_byte_for_byte(kind: Kind) {
    let app = kind.app().await;
    let files = [
        ("deed-of-trust.pdf", "application/pdf"),
        ("closing-disclosure.doc", "application/msword"),
        (
            "signing-instructions.docx",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ),
        ("driver-license.jpg", "image/jpeg"),
        ("driver-license-scan.jpeg", "image/jpeg"),
        ("signature-page.png", "image/png"),
    ];
    let form = files.iter().fold(form(&order("F-1")), |form, (name, _)| {
        form.part("documents", file(&format!("Ärger {name}"), documents::bytes(name)))
    });
    created(app.create_with(form).await).await;
    assert_eq!((app.rows("uploads"), app.documents().len()), (0, files.len()));
    app.assert_spool_empty();
    let list = app.read(DOCUMENTS).await;
    for (at, (name, media_type)) in files.into_iter().enumerate() {
        let record = &list["data"][at];
        let response = app.get(record["url"].as_str().unwrap()).await;
        let headers = response.headers().clone();
        assert_eq!(response.status(), 200, "{name}");
        assert_eq!(headers["content-type"], media_type);
        let tag = format!("\"{}\"", record["sha256"].as_str().unwrap());
        assert_eq!(headers["etag"], tag.as_str());
        let disposition = headers["content-disposition"].to_str().unwrap();
        let sanitized =
            format!("attachment; filename=\"_rger_{name}\"; filename*=UTF-8''%C3%84rger");
        assert!(disposition.starts_with(&sanitized), "{disposition}");
        assert_eq!(headers["content-security-policy"], "sandbox");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        let bytes = response.bytes().await.unwrap();
        assert_eq!(headers["content-length"], bytes.len().to_string().as_str());
        assert_eq!(record["size"], bytes.len());
        assert!(bytes == documents::bytes(name), "{name}");
    }
}

async fn broken_download_is_continued_by_ranges(kind: Kind) {
    let app = kind.app().await;
    created(app.order_with_deed("F-1").await).await;
    let head = app.request(Method::HEAD, DOCUMENT).send().await.unwrap();
    let (tag, size) = (head.headers()["etag"].clone(), deed().len());
    let mut whole = Vec::new();
    for start in (0..size).step_by(1_000) {
        let range = format!("bytes={start}-{}", start + 999);
        let part = get(&app, DOCUMENT).header("range", &range).header("if-range", &tag);
        let part = part.send().await.unwrap();
        let last = (start + 999).min(size - 1);
        let expected = format!("bytes {start}-{last}/{size}");
        assert_eq!(part.status(), 206);
        assert_eq!(part.headers()["content-range"], expected.as_str());
        whole.extend(part.bytes().await.unwrap());
    }
    assert!(whole == deed());
    let changed = get(&app, DOCUMENT).header("range", "bytes=0-9").header("if-range", "\"other\"");
    assert_eq!(changed.send().await.unwrap().bytes().await.unwrap().len(), size);
    let outside = get(&app, DOCUMENT).header("range", format!("bytes={size}-")).send().await;
    let outside = outside.unwrap();
    assert_eq!(outside.headers()["content-range"], format!("bytes */{size}").as_str());
    problem(outside, 416, "range_not_satisfiable").await;
}

async fn missing_object_is_internal_and_counted(kind: Kind) {
    let app = kind.app().await;
    created(app.order_with_deed("F-1").await).await;
    app.wiring.remove_objects();
    problem(app.get(DOCUMENT).await, 500, "internal").await;
    app.assert_metrics(&["notary_orders_documents_missing_total 1"]).await;
}

async fn added_documents_follow_the_others(kind: Kind) {
    let app = kind.app().await;
    created(app.order_with_deed("F-1").await).await;
    let form = Form::new()
        .part("documents", file("a.pdf", deed()))
        .part("documents", file("b.png", documents::bytes("signature-page.png")));
    let added = created(app.post(DOCUMENTS).multipart(form).send().await.unwrap()).await;
    assert_eq!((&added["order_id"], &added["documents_uploaded"]), (&json!(1), &json!(3)));
    let order = app.read("/api/order/1").await;
    assert_eq!(order["documents_uploaded"], 3);
    assert_eq!(
        order["documents"].as_array().unwrap()[1..],
        added["documents"].as_array().unwrap()[..]
    );
    let png = app.get("/api/order/1/documents/2").await;
    assert!(png.bytes().await.unwrap() == documents::bytes("signature-page.png"));
    assert_eq!((app.rows("uploads"), app.rows("documents")), (0, 3));
}
