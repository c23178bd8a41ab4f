//! The operations. A new endpoint is described here.

use domain::document::MAX_DOCUMENTS_PER_ORDER;
use serde_json::json;
use utoipa::openapi::{
    Content, HttpMethod, Paths, Ref, encoding::Encoding, example::ExampleBuilder,
    path::OperationBuilder, security::SecurityRequirement,
};

use super::{
    description::{Description, body},
    examples, parameters,
    problems::Operation::{
        AddDocuments, Create, CreateWithDocuments, ListDocuments, ListOrders, ReadDocument,
        ReadOrder,
    },
    responses,
    settings::OpenApiSettings,
    webhook_operations,
};
use crate::{
    form::TEXT_PARTS,
    orders::{create_form, create_json, path},
};

/// Name of the security scheme.
pub(super) const API_KEY: &str = "api_key";

/// Media types of documents.
const DOCUMENT_TYPES: &str = "application/pdf, application/msword, \
    application/vnd.openxmlformats-officedocument.wordprocessingml.document, image/jpeg, image/png";

/// Adds every operation.
pub(super) fn add(paths: &mut Paths, settings: &OpenApiSettings) {
    for described in creations(settings).into_iter().chain(reads()).chain(webhook_operations::all())
    {
        let Description { operation, path, method, summary, text, parameters, body } = described;
        let built = OperationBuilder::new()
            .operation_id(Some(operation.id()))
            .summary(Some(summary))
            .description(Some(text))
            .tag(operation.tag())
            .parameters((!parameters.is_empty()).then_some(parameters))
            .request_body(body)
            .responses(responses::of(operation, settings))
            .security(SecurityRequirement::new(API_KEY, [""; 0]))
            .build();
        paths.add_path_operation(path, vec![method], built);
    }
}

fn creations(settings: &OpenApiSettings) -> [Description; 3] {
    let max = settings.limits.max_count;
    [
        Description {
            operation: Create,
            path: create_json::PATH,
            method: HttpMethod::Post,
            summary: "Create an order without documents",
            text: "Creates an order from JSON.".to_owned(),
            parameters: vec![parameters::idempotency_key(settings)],
            body: Some(body("The order.", "application/json", json_body())),
        },
        Description {
            operation: CreateWithDocuments,
            path: create_form::PATH,
            method: HttpMethod::Post,
            summary: "Create an order with documents",
            text: format!(
                "Creates an order from a form with 1 to {max} files in parts named `documents`."
            ),
            parameters: vec![parameters::idempotency_key(settings)],
            body: Some(body("The order and its documents.", "multipart/form-data", form_body())),
        },
        Description {
            operation: AddDocuments,
            path: path::DOCUMENTS,
            method: HttpMethod::Post,
            summary: "Add documents to an order",
            text: format!(
                "Adds 1 to {max} files in parts named `documents` to an order. An order has at \
                 most {MAX_DOCUMENTS_PER_ORDER}."
            ),
            parameters: vec![parameters::order_id(), parameters::idempotency_key(settings)],
            body: Some(body("The documents.", "multipart/form-data", documents_body())),
        },
    ]
}

fn reads() -> [Description; 4] {
    let [if_none_match, range, if_range] = parameters::conditions();
    let order_id = parameters::order_id;
    let listed = parameters::of_list().chain([if_none_match.clone()]).collect();
    [
        Description::read(
            ListOrders,
            path::ORDERS,
            "List orders",
            "Returns a page of the client's orders, newest first.",
            listed,
        ),
        Description::read(
            ReadOrder,
            path::ORDER,
            "Read an order",
            "Returns an order of the client with its details and documents.",
            vec![order_id(), if_none_match.clone()],
        ),
        Description::read(
            ListDocuments,
            path::DOCUMENTS,
            "List the documents of an order",
            "Returns all documents of an order, in their order.",
            vec![order_id(), if_none_match.clone()],
        ),
        Description::read(
            ReadDocument,
            path::DOCUMENT,
            "Download a document",
            "Returns the bytes of a document.",
            vec![order_id(), parameters::position(), if_none_match, range, if_range],
        ),
    ]
}

fn json_body() -> Content {
    let mut body = Content::new(Some(Ref::from_schema_name("OrderRequest")));
    for (name, summary, order) in [
        ("at", "A signing at 14:30, with the required fields only", examples::minimal()),
        ("between", "A signing between 01:30 and 11:45, with every field", examples::full()),
    ] {
        let example = ExampleBuilder::new().summary(summary).value(Some(order));
        body.examples.insert(name.to_owned(), example.into());
    }
    body
}

/// Returns the body of a form. In its example a document stands for its file.
fn form_body() -> Content {
    let mut example = examples::minimal();
    example["signingDetailsFormData"]["fileNumber"] = "REFI-2".into();
    example["documents"] = json!(["deed-of-trust.pdf"]);
    let mut body = Content::new(Some(Ref::from_schema_name("OrderForm")));
    body.example = Some(example);
    for (name, media_type) in TEXT_PARTS.into_iter().chain([("documents", DOCUMENT_TYPES)]) {
        let encoding = Encoding::builder().content_type(Some(media_type)).build();
        body.encoding.insert(name.to_owned(), encoding);
    }
    body
}

/// Returns the body of a form with documents only.
fn documents_body() -> Content {
    let mut body = Content::new(Some(Ref::from_schema_name("DocumentsForm")));
    body.example = Some(json!({ "documents": ["deed-of-trust.pdf"] }));
    let encoding = Encoding::builder().content_type(Some(DOCUMENT_TYPES)).build();
    body.encoding.insert("documents".to_owned(), encoding);
    body
}
