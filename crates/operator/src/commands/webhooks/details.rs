//! The options that describe a webhook endpoint.

use clap::Args;
use domain::webhook::EventType;
use serde::de::DeserializeOwned;
use serde_json::json;

#[derive(Debug, Args)]
pub struct Details {
    #[arg(long = "event", value_name = "EVENT", help = events_help())]
    pub(super) events: Vec<String>,
    /// Note about the endpoint
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
}

fn events_help() -> String {
    let events = EventType::OF_ORDERS.map(EventType::as_str).join(", ");
    format!(
        "An event that the endpoint gets: {events}. Repeat it for several. A new endpoint gets all of \
         them by default"
    )
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
