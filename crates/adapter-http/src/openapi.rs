//! The OpenAPI document, made of the types that the code reads and writes.

mod examples;
mod problems;
mod responses;
mod texts;

#[cfg(test)]
mod tests;

use domain::order::{
    ContactRequest, InvoiceRecipientRequest, OrderRequest, RequestedByRequest,
    SigningContactsRequest, SigningDetailsRequest,
};
use utoipa::{
    Modify, OpenApi, ToSchema,
    openapi::{
        self, Object, RefOr, Schema, Server, Type,
        content::Content,
        encoding::Encoding,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn},
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use self::texts::TextRules;
use crate::{
    form::TEXT_PARTS,
    order_record::OrderRecord,
    problem::{FieldProblem, ProblemBody},
};

/// The OpenAPI document of a service under this base path.
pub fn document(base_path: &str) -> openapi::OpenApi {
    let mut document = Document::openapi();
    document.servers = Some(vec![Server::new(if base_path.is_empty() { "/" } else { base_path })]);
    document
}

/// What a person who integrates reads first.
const DESCRIPTION: &str = "\
Creates notarial signing orders, as JSON or as a form with documents. A 201 means that the order and every document are durably kept.

**Keys.** Every request carries `Authorization: Bearer <API key>`. The operator of the service issues keys \
(`notary-orders keys issue --name NAME`); ask for one that begins with `nok_test_` to try the API: its orders are validated and answered like \
any other, and nobody is mailed.

**Retries.** Send an `Idempotency-Key` with each order and repeat the request unchanged after a timeout: the order is created once. \
Retry 409 `idempotency_in_flight`, 429 and 503 no earlier than `Retry-After` says.

**Problems.** Every error is `application/problem+json` (RFC 9457). Act on `status` and `code`, which are stable; more codes may be added.";

#[derive(OpenApi)]
#[openapi(
    info(title = "notary-orders", description = DESCRIPTION),
    tags((name = "orders", description = "Create notarial signing orders.")),
    paths(create, create_with_documents),
    components(schemas(
        OrderRequest,
        SigningContactsRequest,
        ContactRequest,
        SigningDetailsRequest,
        InvoiceRecipientRequest,
        RequestedByRequest,
        OrderForm,
        OrderRecord<'static>,
        ProblemBody<'static>,
        FieldProblem
    )),
    modifiers(&BearerScheme, &TextRules, &Operations)
)]
struct Document;

struct BearerScheme;

impl Modify for BearerScheme {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let description = "An API key, which the operator of the service issues. Keys begin with `nok_`, those for tests with `nok_test_`.";
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("nok_…")
            .description(Some(description))
            .build();
        let components = document.components.get_or_insert_with(Default::default);
        components.add_security_scheme("api_key", SecurityScheme::Http(bearer));
    }
}

/// The form of an order with documents. Parts that are JSON have the structure of the same field of
/// `OrderRequest`.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "describes the form; the form itself is read part by part")]
struct OrderForm {
    /// Who is told about the order: JSON.
    #[schema(value_type = SigningContactsRequest)]
    signing_contacts_form_data: String,
    /// What is to be signed, by whom, where and when: JSON.
    #[schema(value_type = SigningDetailsRequest)]
    signing_details_form_data: String,
    /// Identifier of the signing service that the order belongs to, in decimal digits.
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_i64, example = 42)]
    signing_service_id: i64,
    /// UTC instant of an appointment at a specific time; see `OrderRequest`.
    #[schema(nullable = false, format = DateTime, max_length = 100, example = "2026-12-01T20:30:00Z")]
    utc_time_date: Option<String>,
    /// UTC start of a time range; see `OrderRequest`.
    #[schema(nullable = false, format = DateTime, max_length = 100, example = "2026-12-01T15:00:00Z")]
    utc_start_time_date: Option<String>,
    /// UTC end of a time range; see `OrderRequest`.
    #[schema(nullable = false, format = DateTime, max_length = 100, example = "2026-12-01T17:30:00Z")]
    utc_end_time_date: Option<String>,
    /// Who creates the order: JSON.
    #[schema(value_type = RequestedByRequest)]
    requested_by: String,
    /// The files to be signed: 1 to 20, each a PDF, DOC, DOCX, JPG, JPEG or PNG file of at most 10
    /// MiB that is not empty and is named so. Repeat the part for each file.
    #[schema(value_type = Vec<String>, format = Binary, min_items = 1, max_items = 20)]
    documents: Vec<u8>,
}

/// Create an order without documents
///
/// Takes an order as JSON.
#[utoipa::path(
    post,
    path = "/api/order/create",
    tag = "orders",
    operation_id = "createOrder",
    request_body(content = OrderRequest, content_type = "application/json", description = "The order."),
    security(("api_key" = []))
)]
#[expect(dead_code, reason = "carries the description of the operation")]
fn create() {}

/// Create an order with documents
///
/// Takes an order as a form, with 1 to 20 files in parts named `documents`.
#[utoipa::path(
    post,
    path = "/api/order/create-with-documents",
    tag = "orders",
    operation_id = "createOrderWithDocuments",
    request_body(content = OrderForm, content_type = "multipart/form-data", description = "The order and its documents."),
    security(("api_key" = []))
)]
#[expect(dead_code, reason = "carries the description of the operation")]
fn create_with_documents() {}

/// What the attributes of the operations have no words for.
struct Operations;

impl Modify for Operations {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let paths = &mut document.paths.paths;
        if let Some(create) = paths.get_mut("/api/order/create").and_then(|path| path.post.as_mut())
        {
            create.parameters = Some(vec![idempotency_key().into()]);
            create.responses = responses::of_orders();
            if let Some(body) = body(create, "application/json") {
                body.examples = examples::orders();
            }
        }
        if let Some(create) =
            paths.get_mut("/api/order/create-with-documents").and_then(|path| path.post.as_mut())
        {
            create.parameters = Some(vec![idempotency_key().into()]);
            create.responses = responses::of_orders_with_documents();
            if let Some(body) = body(create, "multipart/form-data") {
                body.example = Some(examples::form());
                for (name, content_type) in
                    TEXT_PARTS.into_iter().chain([("documents", DOCUMENT_TYPES)])
                {
                    body.encoding.insert(
                        name.to_owned(),
                        Encoding::builder().content_type(Some(content_type)).build(),
                    );
                }
            }
        }
        responses::add_shared(document.components.get_or_insert_with(Default::default));
    }
}

const DOCUMENT_TYPES: &str = "application/pdf, application/msword, \
     application/vnd.openxmlformats-officedocument.wordprocessingml.document, image/jpeg, image/png";

fn body<'a>(operation: &'a mut Operation, media_type: &str) -> Option<&'a mut Content> {
    match operation.request_body.as_mut()? {
        RefOr::T(body) => match body.content.get_mut(media_type)? {
            RefOr::T(content) => Some(content),
            RefOr::Ref(_) => None,
        },
        RefOr::Ref(_) => None,
    }
}

fn idempotency_key() -> Parameter {
    let mut key = Object::with_type(Type::String);
    key.min_length = Some(1);
    key.pattern =
        Some(r#"^(?:[!#-+\--:<-\[\]-~]{1,255}|"(?:[!#-\[\]-~]|\\["\\]){1,255}")$"#.to_owned());
    key.examples = vec!["\"8e03978e-40d5-43dd-bc93-6894a57f9324\"".into()];
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .description(Some(
            "Names this order among those of the API key, for 24 hours unless the operator set another time: 1 to 255 visible ASCII characters, best a new \
             UUID, in quotes or bare. A repeat with the same body is answered with the first answer and `Idempotency-Replayed: true`.",
        ))
        .schema(Some(Schema::Object(key)))
        .build()
}
