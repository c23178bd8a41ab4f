//! The OpenAPI document describes what the service does.

use jsonschema::Validator;
use reqwest::{Response, header::CONTENT_TYPE};
use serde_json::{Value, json};

use crate::harness::{CREATE, CREATE_WITH_DOCUMENTS, TestApp, deed, file, form, order};

/// Returns the validator of response bodies with this status and media type.
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
    let violations: Vec<_> = validator.iter_errors(&body).map(|error| error.to_string()).collect();
    assert!(violations.is_empty(), "{path} {status}: {violations:?} in {body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_examples_create_orders() {
    let app = TestApp::start().await;
    let document = app.read("/openapi.json").await;
    let examples = document["paths"][CREATE]["post"]["requestBody"]["content"]["application/json"]
        ["examples"]
        .as_object()
        .unwrap();
    assert_eq!(examples.len(), 2);
    for example in examples.values() {
        assert_described(&document, CREATE, 201, app.create(&example["value"]).await).await;
    }
    let content = &document["paths"][CREATE_WITH_DOCUMENTS]["post"]["requestBody"]["content"];
    let mut parts = content["multipart/form-data"]["example"].clone();
    let names = parts.as_object_mut().unwrap().remove("documents").unwrap();
    let with_documents = names.as_array().unwrap().iter().fold(form(&parts), |form, name| {
        form.part("documents", file(name.as_str().unwrap(), deed()))
    });
    assert_described(&document, CREATE_WITH_DOCUMENTS, 201, app.create_with(with_documents).await)
        .await;
    assert_eq!(app.rows("orders"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_match_their_schemas() {
    let app = TestApp::start().await;
    let document = app.read("/openapi.json").await;
    let without_documents = form(&order("F-1"));
    for (path, status, request) in [
        (CREATE, 400, app.post(CREATE).json(&json!({}))),
        (CREATE, 400, app.post(CREATE).header(CONTENT_TYPE, "application/json").body("{")),
        (CREATE_WITH_DOCUMENTS, 400, app.post(CREATE_WITH_DOCUMENTS).multipart(without_documents)),
        (CREATE, 401, app.as_key("").post(CREATE)),
        (CREATE, 415, app.post(CREATE).header(CONTENT_TYPE, "text/plain").body("{}")),
    ] {
        assert_described(&document, path, status, request.send().await.unwrap()).await;
    }
}
