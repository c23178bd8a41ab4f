//! The signing service returns signed documents; either side replaces, withdraws and downloads.

use std::process::Command;

use domain::{api_key::Scope, order::SigningServiceId, use_cases::keys::manage_keys::KeyTerms};
use reqwest::{Method, Response, multipart::Form};
use serde_json::{Value, json};
use tempfile::tempdir;
use test_servers::tools::python;

use crate::{
    harness::{
        Api, TestApp, created, deed, errors, eventually_async, file, problem,
        service_process::{output, run},
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    signed_documents_reach_the_client,
    document_is_replaced_by_one_document,
    withdrawn_bytes_are_gone_at_once,
    first_whole_download_by_the_other_side_is_recorded,
    documents_of_each_side_are_downloaded_as_one_archive,
    stop_stores_the_last_downloads,
}

const ORDER: &str = "/api/order/1";
const DOCUMENTS: &str = "/api/order/1/documents";
const SIGNED: &str = "/api/order/1/signed-documents";

/// Starts a service with an order of one document. Returns a key of its signing service, too.
async fn start(kind: Kind, flags: &[&str]) -> (TestApp, Api) {
    let app = kind.app_with(flags).await;
    created(app.order_with_deed("F-1").await).await;
    let scopes = Scope::OF_SERVICES.into_iter().collect();
    let for_service = Some(SigningServiceId(42));
    let key = app.issue_key_on(KeyTerms { scopes, for_service, ..KeyTerms::default() }).await;
    let service = app.as_key(&key);
    (app, service)
}

fn files(names: &[&str]) -> Form {
    names.iter().fold(Form::new(), |form, name| form.part("documents", file(name, deed())))
}

async fn post(api: &Api, path: &str, form: Form) -> Response {
    api.post(path).multipart(form).send().await.unwrap()
}

async fn delete(api: &Api, path: &str) -> Response {
    api.request(Method::DELETE, path).send().await.unwrap()
}

fn newest_entry(order: &Value) -> &Value {
    order["history"].as_array().unwrap().last().unwrap()
}

async fn signed_documents_reach_the_client(kind: Kind) {
    let (app, service) = start(kind, &[]).await;
    problem(post(&app, SIGNED, files(&["a.pdf"])).await, 403, "forbidden").await;
    let mut answers = Vec::new();
    for _ in 0..2 {
        let request = service.post(SIGNED).header("idempotency-key", "k");
        let answer = request.multipart(files(&["Signed Deed.pdf", "b.pdf"])).send().await.unwrap();
        answers.push(created(answer).await);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0]["signed_documents_uploaded"], 2);
    let order = app.read(ORDER).await;
    let own = &answers[0]["documents"];
    // The other side does not see the name of the service's key.
    let mut seen = own.clone();
    for document in seen.as_array_mut().unwrap() {
        assert_eq!(document.as_object_mut().unwrap().remove("by"), Some(json!("test")));
    }
    assert_eq!(order["signed_documents"], seen);
    assert_eq!(
        (&order["documents_uploaded"], &order["signed_documents_uploaded"]),
        (&json!(1), &json!(2))
    );
    let entry = newest_entry(&order);
    let expected = (&json!("signed_documents_added"), &json!("service"), &json!([0, 1]));
    assert_eq!((&entry["kind"], &entry["actor"], &entry["documents"]), expected);
    for (side, documents) in [(&*app, &seen), (&service, own)] {
        let list = side.read(SIGNED).await;
        assert_eq!(list["data"], *documents);
        let record = &list["data"][1];
        assert_eq!((&record["position"], &record["uploaded_by"]), (&json!(1), &json!("service")));
        let url = record["url"].as_str().unwrap();
        assert_eq!(url, "/api/order/1/signed-documents/1");
        assert!(side.get(url).await.bytes().await.unwrap() == deed());
    }
    let listed = app.read("/api/order").await;
    assert_eq!(listed["data"][0]["signed_documents_uploaded"], 2);

    let folder = tempdir().unwrap();
    let to = folder.path().join("export");
    let text = run(&app.wiring, &["orders", "export", "1", "--to", to.to_str().unwrap()]);
    assert_eq!(text, "order 1 and 3 documents are exported\n");
    assert!(std::fs::read(to.join("signed-00-Signed_Deed.pdf")).unwrap() == deed());
    let erased = output(&app.wiring, &["orders", "erase", "1", "--yes"]);
    assert!(erased.status.success());
    assert_eq!((app.rows("documents"), app.documents().len()), (0, 0));
    problem(app.get(SIGNED).await, 410, "erased").await;
    problem(delete(&service, "/api/order/1/signed-documents/0").await, 410, "erased").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_documents_have_a_limit_of_their_own() {
    let (app, service) = start(Kind::Embedded, &["--signed-document-mib=1"]).await;
    let mut large = deed();
    large.resize(1024 * 1024 + 1, b' ');
    let form = || Form::new().part("documents", file("a.pdf", large.clone()));
    problem(post(&service, SIGNED, form()).await, 413, "document_too_large").await;
    created(post(&app, DOCUMENTS, form()).await).await;
    let text = Form::new().text("replaces", "0").part("documents", file("a.pdf", deed()));
    problem(post(&service, SIGNED, text).await, 400, "malformed_request").await;
}

async fn document_is_replaced_by_one_document(kind: Kind) {
    let (app, _service) = start(kind, &[]).await;
    // The part may come before the file or after it.
    let first = Form::new().text("replaces", "0").part("documents", file("new.pdf", deed()));
    let answer = created(post(&app, DOCUMENTS, first).await).await;
    let record = &answer["documents"][0];
    assert_eq!((&record["position"], &record["replaces"]), (&json!(1), &json!(0)));
    assert_eq!(answer["documents_uploaded"], 2);
    let second = || files(&["newer.pdf"]).text("replaces", " 1 ");
    let keyed = |form| app.post(DOCUMENTS).header("idempotency-key", "k").multipart(form).send();
    let answer = created(keyed(second()).await.unwrap()).await;
    assert_eq!(created(keyed(second()).await.unwrap()).await, answer);
    let other = keyed(files(&["newer.pdf"])).await.unwrap();
    problem(other, 422, "idempotency_key_reused").await;
    let order = app.read(ORDER).await;
    let links = order["documents"].as_array().unwrap().iter();
    let links: Vec<_> = links.map(|it| [&it["replaces"], &it["replaced_by"]]).collect();
    let null = json!(null);
    assert_eq!(links, [[&null, &json!(1)], [&json!(0), &json!(2)], [&json!(1), &null]]);
    let entry = newest_entry(&order);
    assert_eq!((&entry["kind"], &entry["documents"]), (&json!("documents_replaced"), &json!([2])));
    assert!(app.get("/api/order/1/documents/0").await.bytes().await.unwrap() == deed());
    for bad in ["0", "3", "-1", "x", "1.0", "99999999999"] {
        let answer = post(&app, DOCUMENTS, files(&["a.pdf"]).text("replaces", bad)).await;
        let body = problem(answer, 400, "validation_failed").await;
        assert_eq!(errors(&body)[0].0, "/replaces", "{bad}");
    }
    let several = files(&["a.pdf", "b.pdf"]).text("replaces", "2");
    let body = problem(post(&app, DOCUMENTS, several).await, 400, "validation_failed").await;
    assert_eq!(errors(&body)[0].0, "/replaces");
    assert_eq!(delete(&app, "/api/order/1/documents/2").await.status(), 204);
    let answer = post(&app, DOCUMENTS, files(&["a.pdf"]).text("replaces", "2")).await;
    let body = problem(answer, 400, "validation_failed").await;
    assert_eq!(errors(&body)[0].0, "/replaces");
    assert_eq!(app.rows("documents"), 3);
}

async fn withdrawn_bytes_are_gone_at_once(kind: Kind) {
    let (app, service) = start(kind, &[]).await;
    created(post(&service, SIGNED, files(&["Jane Doe.pdf", "b.pdf"])).await).await;
    let before = app.get(ORDER).await.headers()["etag"].clone();
    let own = "/api/order/1/documents/0";
    let signed = "/api/order/1/signed-documents/0";
    problem(delete(&service, own).await, 403, "forbidden").await;
    problem(delete(&app, signed).await, 403, "forbidden").await;
    problem(delete(&app, "/api/order/1/documents/7").await, 404, "not_found").await;
    // A privacy incident does not wait for an order to be changed.
    let cancel = app.post("/api/order/1/cancel").json(&json!({ "reason": "ill" }));
    assert_eq!(cancel.send().await.unwrap().status(), 200);
    problem(post(&service, SIGNED, files(&["c.pdf"])).await, 409, "order_cancelled").await;
    for (api, path, left, actor) in [(&service, signed, 2, "service"), (&*app, own, 1, "client")] {
        for _ in 0..2 {
            assert_eq!(delete(api, path).await.status(), 204);
            assert_eq!((app.documents().len(), app.rows("uploads")), (left, 0));
        }
        for side in [&*app, &service] {
            problem(side.get(path).await, 410, "withdrawn").await;
            let head = side.request(Method::HEAD, path).send().await.unwrap();
            assert_eq!(head.status(), 410);
        }
        let order = app.read(ORDER).await;
        let entry = newest_entry(&order);
        let expected = (&json!("withdrawn"), &json!(actor), &json!([0]));
        assert_eq!((&entry["kind"], &entry["actor"], &entry["documents"]), expected);
        let list = if actor == "service" { "signed_documents" } else { "documents" };
        let record = &order[list][0];
        assert_eq!(record["withdrawn_at"], order["updated_at"]);
        assert_eq!((&record["withdrawn_by"], &record["name_as_sent"]), (&json!(actor), &json!("")));
        assert_eq!(record["name"], "document.pdf");
    }
    let order = app.read(ORDER).await;
    assert_eq!(
        (&order["documents_uploaded"], &order["signed_documents_uploaded"]),
        (&json!(0), &json!(1))
    );
    assert!(!order.to_string().contains("Jane_Doe"));
    assert_ne!(app.get(ORDER).await.headers()["etag"], before);
    let replacing = files(&["a.pdf"]).text("replaces", "0");
    problem(post(&app, DOCUMENTS, replacing).await, 409, "order_cancelled").await;
}

async fn first_whole_download_by_the_other_side_is_recorded(kind: Kind) {
    let (app, service) = start(kind, &[]).await;
    let url = "/api/order/1/documents/0";
    let downloaded = async || app.read(ORDER).await["documents"][0]["first_downloaded_at"].clone();
    app.get(url).await.bytes().await.unwrap();
    service.request(Method::HEAD, url).send().await.unwrap();
    let part = service.request(Method::GET, url).header("range", "bytes=0-9").send().await;
    part.unwrap().bytes().await.unwrap();
    // A document that is downloaded later is recorded: then the others would have been, too.
    created(post(&service, SIGNED, files(&["a.pdf"])).await).await;
    app.get("/api/order/1/signed-documents/0").await.bytes().await.unwrap();
    let signed = async || app.read(ORDER).await["signed_documents"][0].clone();
    eventually_async(async || signed().await["first_downloaded_at"].is_string()).await;
    assert_eq!(downloaded().await, json!(null));
    let before = app.read(ORDER).await["updated_at"].clone();
    service.get(url).await.bytes().await.unwrap();
    eventually_async(async || downloaded().await.is_string()).await;
    let first = downloaded().await;
    assert_eq!(app.read(ORDER).await["updated_at"], before);
    service.get(url).await.bytes().await.unwrap();
    assert_eq!(downloaded().await, first);
}

/// Prints the names of an archive, and whether each file is a deed. Ends with an error if it has a fault.
const UNPACK: &str = r#"
import sys, zipfile

archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
deed = open(sys.argv[2], "rb").read()
print([(name, archive.read(name) == deed) for name in archive.namelist()])
"#;

async fn documents_of_each_side_are_downloaded_as_one_archive(kind: Kind) {
    let (app, service) = start(kind, &[]).await;
    created(post(&app, DOCUMENTS, files(&["new.pdf"]).text("replaces", "0")).await).await;
    created(post(&app, DOCUMENTS, files(&["New.pdf", "c.pdf"])).await).await;
    problem(app.get(&format!("{SIGNED}.zip")).await, 404, "not_found").await;
    created(post(&service, SIGNED, files(&["Jane Doe.pdf", "b.pdf"])).await).await;
    let withdrawn = delete(&app, "/api/order/1/documents/3").await;
    assert_eq!(withdrawn.status(), 204);
    let folder = tempdir().unwrap();
    let (deed_file, archive_file) = (folder.path().join("deed.pdf"), folder.path().join("a.zip"));
    std::fs::write(&deed_file, deed()).unwrap();
    for (api, path, names) in [
        (&*app, DOCUMENTS, &["replaced/deed.pdf", "new.pdf", "New_2.pdf"][..]),
        (&service, DOCUMENTS, &["replaced/deed.pdf", "new.pdf", "New_2.pdf"]),
        (&*app, SIGNED, &["Jane Doe.pdf", "b.pdf"]),
    ] {
        let answer = api.get(&format!("{path}.zip")).await;
        assert_eq!(answer.status(), 200);
        std::fs::write(&archive_file, answer.bytes().await.unwrap()).unwrap();
        let files = [&archive_file, &deed_file];
        let unpacked = Command::new(python()).args(["-c", UNPACK]).args(files).output().unwrap();
        let names: Vec<_> = names.iter().map(|name| format!("('{name}', True)")).collect();
        let printed = String::from_utf8_lossy(&unpacked.stdout);
        assert_eq!(printed.trim(), format!("[{}]", names.join(", ")), "{unpacked:?}");
    }
    let downloaded = async |kind: &str| {
        let order = app.read(ORDER).await;
        let documents = order[kind].as_array().unwrap().iter();
        let stored = documents.filter(|document| document["withdrawn_at"].is_null());
        stored.map(|document| document["first_downloaded_at"].is_string()).collect::<Vec<_>>()
    };
    eventually_async(async || downloaded("documents").await == [true; 3]).await;
    eventually_async(async || downloaded("signed_documents").await == [true; 2]).await;
}

async fn stop_stores_the_last_downloads(kind: Kind) {
    let (app, service) = start(kind, &[]).await;
    service.get("/api/order/1/documents/0").await.bytes().await.unwrap();
    let wiring = app.stop().await;
    let noted = "SELECT count(*) FROM documents WHERE first_downloaded_at IS NOT NULL";
    assert_eq!(wiring.lines(noted), ["1"]);
}
