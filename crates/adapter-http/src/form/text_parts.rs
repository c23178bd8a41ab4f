//! The text parts of the form.

use std::collections::HashMap;

use domain::order::{Field, JsonType, OrderRequest};
use serde::de::DeserializeOwned;

use crate::respond::problem::Problem;

/// Names of the text parts, with the media types of their content.
pub const TEXT_PARTS: [(&str, &str); 7] = [
    ("signingContactsFormData", "application/json"),
    ("signingDetailsFormData", "application/json"),
    ("signingServiceId", "text/plain"),
    ("utcTimeDate", "text/plain"),
    ("utcStartTimeDate", "text/plain"),
    ("utcEndTimeDate", "text/plain"),
    ("requestedBy", "application/json"),
];

/// Size limit of a text part in bytes.
const MAX_BYTES: usize = 256 * 1024;
/// Size limit of a part with an instant, which has at most 35 characters.
const MAX_INSTANT_BYTES: usize = 128;

/// Returns the size limit of the text part of this name.
pub(super) fn max_bytes(name: &str) -> usize {
    let is_instant = is_text_part(name) && name.starts_with("utc");
    if is_instant { MAX_INSTANT_BYTES } else { MAX_BYTES }
}

/// Returns whether an order has a text part of this name.
pub(super) fn is_text_part(name: &str) -> bool {
    TEXT_PARTS.iter().any(|(text_part, _)| *text_part == name)
}

/// The text parts that have arrived, by their names.
#[derive(Default)]
pub(super) struct TextParts(HashMap<&'static str, String>);

impl TextParts {
    /// Adds a part. Ignores parts of other names.
    pub(super) fn add(&mut self, name: &str, text: String) -> Result<(), Problem> {
        let Some((name, _)) = TEXT_PARTS.iter().find(|(known, _)| *known == name) else {
            return Ok(());
        };
        match self.0.insert(name, text) {
            None => Ok(()),
            Some(_) => Err(Problem::malformed(format!("The form has two parts {name}."))),
        }
    }

    pub(super) fn into_request(mut self) -> Result<OrderRequest, Problem> {
        let mut part = |name| self.0.remove(name);
        let text = |text: Option<String>| text.map_or(Field::Absent, Field::Value);
        let id = part("signingServiceId").map_or(Field::Absent, |id| Field::from_decimal(&id));
        Ok(OrderRequest {
            signing_service_id: id,
            utc_time_date: text(part("utcTimeDate")),
            utc_start_time_date: text(part("utcStartTimeDate")),
            utc_end_time_date: text(part("utcEndTimeDate")),
            signing_contacts_form_data: json(&mut part, "signingContactsFormData")?,
            signing_details_form_data: json(&mut part, "signingDetailsFormData")?,
            requested_by: json(&mut part, "requestedBy")?,
        })
    }
}

/// Reads a JSON part. A blank part counts as absent.
fn json<T: for<'de> JsonType<'de>>(
    part: impl FnOnce(&'static str) -> Option<String>,
    name: &'static str,
) -> Result<Field<T>, Problem>
where
    Field<T>: DeserializeOwned,
{
    match part(name).as_deref().map(str::trim) {
        None | Some("") => Ok(Field::Absent),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Problem::malformed(format!("The part {name} is not valid JSON: {error}."))
        }),
    }
}
