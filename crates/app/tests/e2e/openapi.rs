//! The OpenAPI document is true of the service that hands it out.

use jsonschema::Validator;
use reqwest::{Response, header::CONTENT_TYPE};
use serde_json::{Value, json};

use crate::harness::{CREATE, CREATE_WITH_DOCUMENTS, TestApp, deed, file, form, order};

async fn document(app: &TestApp) -> Value {
    app.client.get(app.url("/openapi.json")).send().await.unwrap().json().await.unwrap()
}

/// What checks the body of an answer with this status and media type.
fn body_schema(document: &Value, path: &str, status: &str, media_type: &str) -> Validator {
    let response = &document["paths"][path]["post"]["responses"][status];
    let response = response["$ref"]
        .as_str()
        .map_or(response, |name| document.pointer(name.trim_start_matches('#')).unwrap());
    let mut schema = response["content"][media_type]["schema"].clone();
    assert!(schema.is_object(), "{path} {status} {media_type}");
    schema["components"] = document["components"].clone();
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

async fn assert_described(document: &Value, path: &str, status: u16, response: Response) {
    let media_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
    assert_eq!(response.status(), status, "{path}");
    let validator = body_schema(document, path, &status.to_string(), &media_type);
    let body: Value = response.json().await.unwrap();
    let faults: Vec<_> = validator.iter_errors(&body).map(|error| error.to_string()).collect();
    assert!(faults.is_empty(), "{path} {status}: {faults:?} in {body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_a_request_creates_an_order() {
    let app = TestApp::start().await;
    let document = document(&app).await;
    let examples = document["paths"][CREATE]["post"]["requestBody"]["content"]["application/json"]
        ["examples"]
        .as_object()
        .unwrap();
    assert_eq!(examples.len(), 2);
    for example in examples.values() {
        assert_described(&document, CREATE, 201, app.create(&example["value"]).await).await;
    }
    let mut parts = document["paths"][CREATE_WITH_DOCUMENTS]["post"]["requestBody"]["content"]["multipart/form-data"]["example"].clone();
    let names = parts.as_object_mut().unwrap().remove("documents").unwrap();
    let with_documents = names.as_array().unwrap().iter().fold(form(&parts), |form, name| {
        form.part("documents", file(name.as_str().unwrap(), deed()))
    });
    assert_described(&document, CREATE_WITH_DOCUMENTS, 201, app.create_with(with_documents).await)
        .await;
    assert_eq!(app.rows("orders"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_are_as_the_document_says() {
    let app = TestApp::start().await;
    let document = document(&app).await;
    assert_described(&document, CREATE, 400, app.create(&json!({})).await).await;
    assert_described(
        &document,
        CREATE,
        400,
        app.post(CREATE).body("{").header(CONTENT_TYPE, "application/json").send().await.unwrap(),
    )
    .await;
    assert_described(
        &document,
        CREATE_WITH_DOCUMENTS,
        400,
        app.create_with(form(&order("F-1"))).await,
    )
    .await;
    assert_described(
        &document,
        CREATE,
        401,
        app.client.post(app.url(CREATE)).json(&order("F-1")).send().await.unwrap(),
    )
    .await;
    assert_described(
        &document,
        CREATE,
        415,
        app.post(CREATE).body("{}").header(CONTENT_TYPE, "text/plain").send().await.unwrap(),
    )
    .await;
}
