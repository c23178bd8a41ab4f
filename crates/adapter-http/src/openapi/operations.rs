//! The operations. A new endpoint is described here.

use utoipa::openapi::{
    Content, HttpMethod, Object, Paths, Ref, Required, Schema, Type,
    encoding::Encoding,
    path::{Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
    request_body::{RequestBody, RequestBodyBuilder},
    security::SecurityRequirement,
};

use super::{examples::Examples, responses, settings::OpenApiSettings, units};
use crate::{
    form::TEXT_PARTS,
    orders::{create_form, create_json},
};

/// Name of the security scheme.
pub(super) const API_KEY: &str = "api_key";

/// Media types of documents.
const DOCUMENT_TYPES: &str = "application/pdf, application/msword, \
    application/vnd.openxmlformats-officedocument.wordprocessingml.document, image/jpeg, image/png";

/// Adds every operation.
pub(super) fn add(paths: &mut Paths, settings: &OpenApiSettings, examples: &Examples) {
    let post = vec![HttpMethod::Post];
    paths.add_path_operation(create_json::PATH, post.clone(), create_order(settings, examples));
    paths.add_path_operation(
        create_form::PATH,
        post,
        create_order_with_documents(settings, examples),
    );
}

fn create_order(settings: &OpenApiSettings, examples: &Examples) -> Operation {
    let mut body = Content::new(Some(Ref::from_schema_name("OrderRequest")));
    body.examples = examples.orders();
    OperationBuilder::new()
        .operation_id(Some("createOrder"))
        .summary(Some("Create an order without documents"))
        .description(Some("Creates an order from JSON."))
        .tag("orders")
        .parameter(idempotency_key(settings))
        .request_body(Some(request_body("The order.", "application/json", body)))
        .responses(responses::of_json_orders(settings))
        .security(api_key())
        .build()
}

fn create_order_with_documents(settings: &OpenApiSettings, examples: &Examples) -> Operation {
    let mut body = Content::new(Some(Ref::from_schema_name("OrderForm")));
    body.example = Some(examples.form());
    for (name, media_type) in TEXT_PARTS.into_iter().chain([("documents", DOCUMENT_TYPES)]) {
        let encoding = Encoding::builder().content_type(Some(media_type)).build();
        body.encoding.insert(name.to_owned(), encoding);
    }
    let description = format!(
        "Creates an order from a form with 1 to {} files in parts named `documents`.",
        settings.limits.max_count
    );
    OperationBuilder::new()
        .operation_id(Some("createOrderWithDocuments"))
        .summary(Some("Create an order with documents"))
        .description(Some(description))
        .tag("orders")
        .parameter(idempotency_key(settings))
        .request_body(Some(request_body(
            "The order and its documents.",
            "multipart/form-data",
            body,
        )))
        .responses(responses::of_form_orders(settings))
        .security(api_key())
        .build()
}

fn request_body(description: &str, media_type: &str, content: Content) -> RequestBody {
    RequestBodyBuilder::new()
        .description(Some(description))
        .content(media_type, content)
        .required(Some(Required::True))
        .build()
}

fn api_key() -> SecurityRequirement {
    SecurityRequirement::new(API_KEY, [""; 0])
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
