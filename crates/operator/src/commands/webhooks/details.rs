//! The options that describe a webhook endpoint.

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::json;

#[derive(Debug, Args)]
pub struct Details {
    /// An event that the endpoint gets: order.created, order.documents_added, order.updated,
    /// order.cancelled, order.changed, order.note_added, order.signed_documents_added,
    /// order.documents_replaced or order.document_withdrawn. Repeat it for several. A new endpoint gets
    /// all of them by default
    #[arg(long = "event", value_name = "EVENT")]
    pub(super) events: Vec<String>,
    /// Note about the endpoint
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
}

impl Details {
    /// Returns the request to create or change an endpoint.
    pub(super) fn body<T: DeserializeOwned>(&self, url: Option<&str>) -> serde_json::Result<T> {
        let mut body = json!({ "url": url });
        if !self.events.is_empty() {
            body["events"] = json!(self.events);
        }
        // `null` would remove the description.
        if let Some(description) = &self.description {
            body["description"] = json!(description);
        }
        serde_json::from_value(body)
    }
}
