//! The problem responses of the operations, and the headers of every response.

use std::borrow::Cow;

use utoipa::openapi::{
    Components, Content, Ref, RefOr, Response, Responses, example::ExampleBuilder,
};

use super::{
    headers,
    problems::{self, Example, Operation},
    settings::OpenApiSettings,
    successes, units,
};
use crate::json_body;

/// Returns the problem responses that operations share: status, name, description.
fn shared(settings: &OpenApiSettings) -> [(u16, &'static str, Cow<'static, str>); 11] {
    let conflict = format!(
        "The file number was used less than {} ago, or the first request with this \
         `Idempotency-Key` is still in progress.",
        units::duration(settings.duplicate_window.0)
    );
    [
        (
            401,
            "Unauthorized",
            "The credentials are missing or malformed, or the key is unknown, expired or revoked."
                .into(),
        ),
        (
            403,
            "Forbidden",
            "The key lacks the scope of the operation, or is bound to another signing service."
                .into(),
        ),
        (404, "NotFound", "There is no such item, or it belongs to another client.".into()),
        (408, "RequestTimeout", "The body did not arrive in time.".into()),
        (409, "Conflict", conflict.into()),
        (410, "Gone", "The operator has erased the order.".into()),
        (
            415,
            "UnsupportedMediaType",
            "The operation does not accept this content type, or the body has a content coding."
                .into(),
        ),
        (
            422,
            "IdempotencyKeyReused",
            "The `Idempotency-Key` was used with another body. Use a new key.".into(),
        ),
        (
            429,
            "TooManyRequests",
            "Too many requests with this key, or too many failed authentications from this \
             address."
                .into(),
        ),
        (500, "InternalServerError", "The service failed. Report the `request_id`.".into()),
        (
            503,
            "ServiceUnavailable",
            "A dependency of the service does not respond, or the service is at a limit.".into(),
        ),
    ]
}

/// Returns the responses of an operation.
pub(super) fn of(operation: Operation, settings: &OpenApiSettings) -> Responses {
    let shared = shared(settings);
    let mut responses = Responses::new();
    for Example { problem, .. } in examples(settings, Some(operation)) {
        let status = problem.code().status().as_u16();
        let own = own_description(operation, status);
        let name = shared.iter().find(|(shared, ..)| *shared == status).map(|(_, name, _)| *name);
        let response: RefOr<Response> = match (own, name) {
            (None, Some(name)) => Ref::from_response_name(name).into(),
            (own, _) => {
                let description = own.unwrap_or_default();
                self::problem(settings, status, &description, Some(operation)).into()
            }
        };
        responses.responses.insert(status.to_string(), response);
    }
    responses.responses.extend(successes::of(operation, settings));
    responses
}

/// Returns the description of a problem that is special to an operation.
fn own_description(operation: Operation, status: u16) -> Option<Cow<'static, str>> {
    use Operation::{
        AddDocuments, ChangeWebhook, Create, CreateWebhook, CreateWithDocuments, ListDeliveries,
        ListOrders, ReplayDeliveries, TestWebhook,
    };
    let limit = || units::size(json_body::MAX_BODY);
    Some(match (operation, status) {
        (Create | CreateWebhook | ChangeWebhook | ReplayDeliveries, 400) => {
            "The request cannot be read, or fields are missing or invalid.".into()
        }
        (Create | CreateWebhook | ChangeWebhook | ReplayDeliveries, 413) => {
            format!("The body is larger than {}.", limit()).into()
        }
        (CreateWithDocuments, 400) => {
            "The request cannot be read, fields are missing or invalid, or documents are encrypted \
             or not supported."
                .into()
        }
        (AddDocuments, 400) => {
            "The request cannot be read, documents are encrypted or not supported, or the order \
             would have too many."
                .into()
        }
        (CreateWithDocuments, 413) => {
            "A document, a text part or the whole form is too large.".into()
        }
        (AddDocuments, 413) => "A document or the whole form is too large.".into(),
        (AddDocuments, 409) => {
            "The first request with this `Idempotency-Key` is still in progress.".into()
        }
        (TestWebhook, 409) => "The webhook is disabled.".into(),
        (ReplayDeliveries, 409) => "Another replay of the webhook is in progress.".into(),
        (ListOrders | ListDeliveries, 400) => "A parameter is unknown, repeated or invalid.".into(),
        (_, 416) => "The document does not have the range.".into(),
        _ => return None,
    })
}

/// Returns the examples of an operation, or those of the shared responses.
fn examples(
    settings: &OpenApiSettings,
    operation: Option<Operation>,
) -> impl Iterator<Item = Example> {
    let concerns = move |Example { operations, problem, .. }: &Example| {
        let status = problem.code().status().as_u16();
        operation.map_or_else(
            // Operations with a description of their own show their examples themselves.
            || operations.iter().any(|it| own_description(*it, status).is_none()),
            |operation| operations.contains(&operation),
        )
    };
    problems::all(settings.limits).into_iter().filter(concerns)
}

/// Adds the responses and headers that the operations refer to.
pub(super) fn add_shared(components: &mut Components, settings: &OpenApiSettings) {
    for (status, name, description) in shared(settings) {
        let response = problem(settings, status, &description, None);
        components.responses.insert(name.to_owned(), response.into());
    }
    components
        .headers
        .extend(headers::all().map(|(name, header)| (name.to_owned(), header.into())));
}

/// Returns the response of a status with examples of its problems.
fn problem(
    settings: &OpenApiSettings,
    status: u16,
    description: &str,
    operation: Option<Operation>,
) -> Response {
    let mut body = Content::new(Some(Ref::from_schema_name("Problem")));
    for Example { name, problem, .. } in examples(settings, operation) {
        if problem.code().status() == status {
            let value = problems::body_of(&problem);
            let example = ExampleBuilder::new().summary(name).value(Some(value));
            body.examples.insert(name.to_owned(), example.into());
        }
    }
    let own: &[&str] = match status {
        401 | 403 => &["WWW-Authenticate"],
        409 if operation == Some(Operation::TestWebhook) => &[],
        409 | 429 | 503 => &["Retry-After"],
        416 => &["Content-Range"],
        _ => &[],
    };
    let mut response = headers::add(Response::new(description), status, own);
    response.content.insert("application/problem+json".to_owned(), body.into());
    response
}
