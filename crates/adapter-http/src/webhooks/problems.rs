//! The problem responses of requests about webhooks.

use domain::use_cases::webhooks::manage_webhooks::WebhooksError;

use crate::respond::problem::{Problem, ProblemCode};

impl From<WebhooksError> for Problem {
    fn from(error: WebhooksError) -> Self {
        match error {
            WebhooksError::Invalid(violations) => Self::violations(violations),
            // A list of deliveries names the parameter of its cursor instead.
            WebhooksError::NotFound | WebhooksError::UnknownCursor => Self::no_such_webhook(),
            WebhooksError::Changed => Self::new(
                ProblemCode::PreconditionFailed,
                "A precondition is false, so nothing was changed. Read the webhook again, and send its ETag in \
                 If-Match.",
            ),
            WebhooksError::Disabled => Self::new(
                ProblemCode::WebhookDisabled,
                "The webhook is disabled, so no test is sent. Enable it first.",
            ),
            WebhooksError::NotConfigured => Self::new(
                ProblemCode::WebhooksNotConfigured,
                "The operator of this service has not set up webhooks. Do not repeat the request.",
            )
            .log(&error),
            WebhooksError::Store(error) => error.into(),
        }
    }
}

/// Reports that the deliveries of a webhook are being replayed.
pub(crate) fn replay_in_progress() -> Problem {
    let detail = "A replay of this webhook is in progress. Repeat your request when it has ended.";
    Problem::new(ProblemCode::ReplayInProgress, detail).retry_after(1)
}
