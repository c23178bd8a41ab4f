//! What is special to an operation.

use utoipa::openapi::{
    Content, HttpMethod, Required,
    path::Parameter,
    request_body::{RequestBody, RequestBodyBuilder},
};

use super::problems::Operation;

/// The description of an operation, without what every operation has.
pub(super) struct Description {
    pub(super) operation: Operation,
    pub(super) path: &'static str,
    pub(super) method: HttpMethod,
    pub(super) summary: &'static str,
    pub(super) text: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<RequestBody>,
}

impl Description {
    /// Describes a read. Every path that has `GET` has `HEAD`.
    pub(super) fn read(
        operation: Operation,
        path: &'static str,
        summary: &'static str,
        text: &str,
        parameters: Vec<Parameter>,
    ) -> Self {
        Self {
            operation,
            path,
            method: HttpMethod::Get,
            summary,
            text: format!("{text} `HEAD` answers alike, without a body."),
            parameters,
            body: None,
        }
    }
}

/// Returns a required body.
pub(super) fn body(description: &str, media_type: &str, content: Content) -> RequestBody {
    RequestBodyBuilder::new()
        .description(Some(description))
        .content(media_type, content)
        .required(Some(Required::True))
        .build()
}
