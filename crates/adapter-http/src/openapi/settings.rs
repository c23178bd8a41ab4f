use domain::{
    document::DocumentLimits, duplicate_window::DuplicateWindow, idempotency::DEFAULT_RETENTION,
};
use time::Duration;

/// The settings that the document states.
#[derive(Debug, Clone)]
pub struct OpenApiSettings {
    /// Prefix of every path: empty, or a path with a leading and without a trailing slash.
    pub base_path: String,
    /// Limits for the documents of one request.
    pub limits: DocumentLimits,
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
            limits: DocumentLimits::default(),
            duplicate_window: DuplicateWindow::default(),
            idempotency_retention: DEFAULT_RETENTION,
        }
    }
}
