//! The OpenAPI document: `docs/openapi.json`, with the settings of this service in place of the
//! defaults. The tests compare it with the routes, types, rules and problems of the code.

mod units;

#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod code_tests;
#[cfg(test)]
pub(crate) mod tests;

use actix_web::{HttpResponse, http::header::ContentType};
use domain::{
    document::DocumentLimits, duplicate_window::DuplicateWindow, idempotency::DEFAULT_RETENTION,
};
use time::Duration;

use crate::state::State;

/// Path of the document, below the base path.
pub(crate) const PATH: &str = "/openapi.json";

/// The document of a service with default settings.
const DEFAULT: &str = include_str!("../../../../docs/openapi.json");

/// The settings that the document states.
#[derive(Debug, Clone)]
pub struct OpenApiSettings {
    /// Prefix of every path: empty, or a path with a leading and without a trailing slash.
    pub base_path: String,
    /// Maximum size of a document in bytes.
    pub max_document_bytes: u64,
    /// How long a file number cannot be used again.
    pub duplicate_window: DuplicateWindow,
    /// How long a request is remembered under its idempotency key.
    pub idempotency_retention: Duration,
}

impl Default for OpenApiSettings {
    /// Returns the defaults of the service.
    fn default() -> Self {
        Self {
            base_path: String::new(),
            max_document_bytes: DocumentLimits::default().max_bytes,
            duplicate_window: DuplicateWindow::default(),
            idempotency_retention: DEFAULT_RETENTION,
        }
    }
}

/// Answers with the document of this service.
pub(crate) async fn serve(api: State) -> HttpResponse {
    let of_settings = || {
        let settings = OpenApiSettings {
            base_path: api.base_path.clone(),
            max_document_bytes: api.limits.max_bytes,
            duplicate_window: api.create_order.window,
            idempotency_retention: api.create_order.intake.idempotency_retention,
        };
        document(&settings).into()
    };
    // One for all clients: a slow reader without a key must not hold half a megabyte.
    let document = api.openapi.get_or_init(of_settings).clone();
    HttpResponse::Ok().content_type(ContentType::json()).body(document)
}

/// Returns the OpenAPI document of a service with these settings.
pub fn document(settings: &OpenApiSettings) -> String {
    let defaults = statements(&OpenApiSettings::default());
    defaults
        .iter()
        .zip(statements(settings))
        .fold(DEFAULT.to_owned(), |document, (default, own)| document.replace(default, &own))
}

/// Returns everything that the document says of the settings, as it is written there. No base path
/// needs an escape in JSON.
fn statements(settings: &OpenApiSettings) -> [String; 7] {
    let OpenApiSettings { base_path, max_document_bytes, duplicate_window, idempotency_retention } =
        settings;
    let server = if base_path.is_empty() { "/" } else { base_path };
    [
        // Before the server, whose URL may begin alike.
        format!(r#""url": "{base_path}/api/"#),
        format!(r#""example": "{base_path}/api/order/1/documents/0""#),
        format!(r#""url": "{server}""#),
        format!("is larger than {max_document_bytes} bytes"),
        format!("files of at most {} each", units::size(*max_document_bytes)),
        format!("was used less than {} ago", units::duration(duplicate_window.0)),
        format!("of the client for {}:", units::duration(*idempotency_retention)),
    ]
}
