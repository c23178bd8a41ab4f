//! The paths of webhooks and their deliveries.

use actix_web::HttpRequest;
use domain::webhook::{EndpointId, WebhookDeliveryId};

use crate::respond::{path_number::identifier, problem::Problem};

/// Path of the webhooks of a client, below the base path.
pub(crate) const WEBHOOKS: &str = "/api/webhooks";
/// Path of a webhook.
pub(crate) const WEBHOOK: &str = "/api/webhooks/{webhook_id}";
/// Path that replaces the secret of a webhook.
pub(crate) const ROTATE_SECRET: &str = "/api/webhooks/{webhook_id}/rotate-secret";
/// Path that sends a test event.
pub(crate) const TEST: &str = "/api/webhooks/{webhook_id}/test";
/// Path of the deliveries of a webhook.
pub(crate) const DELIVERIES: &str = "/api/webhooks/{webhook_id}/deliveries";
/// Path that sends a delivery again.
pub(crate) const REPLAY_DELIVERY: &str =
    "/api/webhooks/{webhook_id}/deliveries/{delivery_id}/replay";
/// Path that sends the deliveries of a time again.
pub(crate) const REPLAY: &str = "/api/webhooks/{webhook_id}/replay";

/// Returns the path of a webhook.
pub(super) fn of_webhook(base_path: &str, EndpointId(id): EndpointId) -> String {
    format!("{base_path}{WEBHOOKS}/{id}")
}

/// Returns the webhook that the path of a request names. A text that is no identifier names a
/// webhook that does not exist.
pub(super) fn webhook_id(request: &HttpRequest) -> Result<EndpointId, Problem> {
    identifier(request, "webhook_id").map(EndpointId).ok_or_else(Problem::no_such_webhook)
}

/// Returns the delivery that the path of a request names.
pub(super) fn delivery_id(request: &HttpRequest) -> Result<WebhookDeliveryId, Problem> {
    let id = identifier(request, "delivery_id");
    id.map(WebhookDeliveryId).ok_or_else(Problem::no_such_webhook)
}
