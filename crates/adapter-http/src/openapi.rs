//! The OpenAPI document, made of the types that the code reads and writes.

use utoipa::{
    IntoResponses, Modify, OpenApi, ToSchema,
    openapi::{
        self, Server,
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};

use crate::{
    order_record::OrderRecord,
    problem::{FieldProblem, ProblemBody},
};
use domain::order::{ContactRequest, InvoiceRecipientRequest, OrderRequest, RequestedByRequest, SigningContactsRequest, SigningDetailsRequest};

/// The OpenAPI document of a service under this base path.
pub fn document(base_path: &str) -> openapi::OpenApi {
    let mut document = Document::openapi();
    document.servers = Some(vec![Server::new(if base_path.is_empty() { "/" } else { base_path })]);
    document
}

#[derive(OpenApi)]
#[openapi(
    info(title = "notary-orders", description = "Creates notarial signing orders, with or without documents."),
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
    modifiers(&BearerScheme)
)]
struct Document;

struct BearerScheme;

impl Modify for BearerScheme {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let components = document.components.get_or_insert_with(Default::default);
        components.add_security_scheme("api_key", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

/// The form of an order with documents. Parts that are JSON are texts with the structure of the same field of
/// `OrderRequest`.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "describes the form; the form itself is read part by part")]
struct OrderForm {
    /// JSON of `SigningContactsRequest`.
    signing_contacts_form_data: String,
    /// JSON of `SigningDetailsRequest`.
    signing_details_form_data: String,
    /// Identifier of the signing service, in decimal digits.
    #[schema(pattern = "^[0-9]+$", example = "42")]
    signing_service_id: String,
    /// As in `OrderRequest`.
    #[schema(format = DateTime)]
    utc_time_date: Option<String>,
    /// As in `OrderRequest`.
    #[schema(format = DateTime)]
    utc_start_time_date: Option<String>,
    /// As in `OrderRequest`.
    #[schema(format = DateTime)]
    utc_end_time_date: Option<String>,
    /// JSON of `RequestedByRequest`.
    requested_by: String,
    /// 1 to 20 files, each a PDF, DOC, DOCX, JPG, JPEG or PNG of at most 10 MiB.
    #[schema(value_type = Vec<String>, format = Binary, min_items = 1, max_items = 20)]
    documents: Vec<u8>,
}

/// The problems that both operations answer alike.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "carries the description of the responses")]
enum CommonProblems {
    #[response(status = 401, description = "unauthorized", content_type = "application/problem+json")]
    Unauthorized(ProblemBody<'static>),
    #[response(status = 403, description = "forbidden", content_type = "application/problem+json")]
    Forbidden(ProblemBody<'static>),
    #[response(status = 409, description = "duplicate_order; Retry-After says what is left of the window", content_type = "application/problem+json")]
    Duplicate(ProblemBody<'static>),
    #[response(status = 415, description = "unsupported_media_type", content_type = "application/problem+json")]
    UnsupportedMediaType(ProblemBody<'static>),
    #[response(status = 429, description = "rate_limited, with Retry-After", content_type = "application/problem+json")]
    RateLimited(ProblemBody<'static>),
    #[response(status = 500, description = "internal", content_type = "application/problem+json")]
    Internal(ProblemBody<'static>),
    #[response(status = 503, description = "unavailable, with Retry-After", content_type = "application/problem+json")]
    Unavailable(ProblemBody<'static>),
}

/// Creates an order without documents.
#[utoipa::path(
    post,
    path = "/api/order/create",
    operation_id = "createOrder",
    request_body(content = OrderRequest, content_type = "application/json"),
    responses(
        (status = 201, description = "The order was created.", body = OrderRecord<'static>),
        (status = 400, description = "malformed_request or validation_failed", body = ProblemBody<'static>, content_type = "application/problem+json"),
        (status = 413, description = "payload_too_large", body = ProblemBody<'static>, content_type = "application/problem+json"),
        CommonProblems
    ),
    security(("api_key" = []))
)]
#[expect(dead_code, reason = "carries the description of the operation")]
fn create() {}

/// Creates an order with documents.
#[utoipa::path(
    post,
    path = "/api/order/create-with-documents",
    operation_id = "createOrderWithDocuments",
    request_body(content = OrderForm, content_type = "multipart/form-data"),
    responses(
        (status = 201, description = "The order was created and its documents are stored.", body = OrderRecord<'static>),
        (
            status = 400,
            description = "malformed_request, validation_failed, unsupported_document, too_many_documents or no_documents",
            body = ProblemBody<'static>,
            content_type = "application/problem+json"
        ),
        (status = 413, description = "document_too_large or payload_too_large", body = ProblemBody<'static>, content_type = "application/problem+json"),
        CommonProblems
    ),
    security(("api_key" = []))
)]
#[expect(dead_code, reason = "carries the description of the operation")]
fn create_with_documents() {}
