//! The operations. A new endpoint is described here.

use serde_json::json;
use utoipa::openapi::{
    Content, HttpMethod, Object, Paths, Ref, Required, Schema, Type,
    encoding::Encoding,
    example::ExampleBuilder,
    path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
    request_body::RequestBodyBuilder,
    security::SecurityRequirement,
};

use super::{examples, responses, settings::OpenApiSettings, units};
use crate::{
    form::TEXT_PARTS,
    orders::{create_form, create_json},
};

/// Name of the security scheme.
pub(super) const API_KEY: &str = "api_key";

/// Media types of documents.
const DOCUMENT_TYPES: &str = "application/pdf, application/msword, \
    application/vnd.openxmlformats-officedocument.wordprocessingml.document, image/jpeg, image/png";

/// An operation that creates an order.
struct CreateOrder {
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    description: String,
    media_type: &'static str,
    body_description: &'static str,
    body: Content,
    with_documents: bool,
}

/// Adds every operation.
pub(super) fn add(paths: &mut Paths, settings: &OpenApiSettings) {
    let json = CreateOrder {
        path: create_json::PATH,
        id: "createOrder",
        summary: "Create an order without documents",
        description: "Creates an order from JSON.".to_owned(),
        media_type: "application/json",
        body_description: "The order.",
        body: json_body(),
        with_documents: false,
    };
    let form = CreateOrder {
        path: create_form::PATH,
        id: "createOrderWithDocuments",
        summary: "Create an order with documents",
        description: format!(
            "Creates an order from a form with 1 to {} files in parts named `documents`.",
            settings.limits.max_count
        ),
        media_type: "multipart/form-data",
        body_description: "The order and its documents.",
        body: form_body(),
        with_documents: true,
    };
    for create in [json, form] {
        let body = RequestBodyBuilder::new()
            .description(Some(create.body_description))
            .content(create.media_type, create.body)
            .required(Some(Required::True))
            .build();
        let operation = OperationBuilder::new()
            .operation_id(Some(create.id))
            .summary(Some(create.summary))
            .description(Some(create.description))
            .tag("orders")
            .parameter(idempotency_key(settings))
            .request_body(Some(body))
            .responses(responses::of_orders(settings, create.with_documents))
            .security(SecurityRequirement::new(API_KEY, [""; 0]))
            .build();
        paths.add_path_operation(create.path, vec![HttpMethod::Post], operation);
    }
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

fn idempotency_key(settings: &OpenApiSettings) -> Parameter {
    let max = domain::idempotency::MAX_KEY_CHARS;
    let mut key = Object::with_type(Type::String);
    key.min_length = Some(1);
    key.pattern = Some(format!(
        r#"^(?:[!#-+\--:<-\[\]-~]{{1,{max}}}|"(?:[!#-\[\]-~]|\\["\\]){{1,{max}}}")$"#
    ));
    key.examples = vec!["\"8e03978e-40d5-43dd-bc93-6894a57f9324\"".into()];
    let description = format!(
        "Identifies this order among the orders of the API key for {}: 1 to {max} visible ASCII \
         characters, quoted or bare, preferably a new UUID. A repeat with the same body gets the \
         first answer again, with `Idempotency-Replayed: true`.",
        units::duration(settings.idempotency_retention)
    );
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .description(Some(description))
        .schema(Some(Schema::Object(key)))
        .build()
}
