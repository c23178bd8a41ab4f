//! The text parts of the form.

use domain::order::{Field, JsonType, OrderRequest};
use serde::de::DeserializeOwned;

use crate::problem::Problem;

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

/// The text parts that have arrived.
#[derive(Default)]
pub(super) struct TextParts {
    contacts: Option<String>,
    details: Option<String>,
    signing_service_id: Option<String>,
    utc_time: Option<String>,
    utc_start: Option<String>,
    utc_end: Option<String>,
    requested_by: Option<String>,
}

impl TextParts {
    /// Adds a part. Ignores parts of other names.
    pub(super) fn add(&mut self, name: &str, text: String) -> Result<(), Problem> {
        let part = match name {
            "signingContactsFormData" => &mut self.contacts,
            "signingDetailsFormData" => &mut self.details,
            "signingServiceId" => &mut self.signing_service_id,
            "utcTimeDate" => &mut self.utc_time,
            "utcStartTimeDate" => &mut self.utc_start,
            "utcEndTimeDate" => &mut self.utc_end,
            "requestedBy" => &mut self.requested_by,
            _ => return Ok(()),
        };
        match part.replace(text) {
            None => Ok(()),
            Some(_) => Err(Problem::malformed(format!("The form has two parts {name}."))),
        }
    }

    pub(super) fn into_request(self) -> Result<OrderRequest, Problem> {
        let text = |text: Option<String>| text.map_or(Field::Absent, Field::Value);
        Ok(OrderRequest {
            signing_contacts_form_data: json("signingContactsFormData", self.contacts.as_deref())?,
            signing_details_form_data: json("signingDetailsFormData", self.details.as_deref())?,
            signing_service_id: self
                .signing_service_id
                .map_or(Field::Absent, |id| Field::from_decimal(&id)),
            utc_time_date: text(self.utc_time),
            utc_start_time_date: text(self.utc_start),
            utc_end_time_date: text(self.utc_end),
            requested_by: json("requestedBy", self.requested_by.as_deref())?,
        })
    }
}

/// Reads a JSON part. A blank part counts as absent.
fn json<T: for<'de> JsonType<'de>>(name: &str, text: Option<&str>) -> Result<Field<T>, Problem>
where
    Field<T>: DeserializeOwned,
{
    match text.map(str::trim) {
        None | Some("") => Ok(Field::Absent),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Problem::malformed(format!("The part {name} is not valid JSON: {error}."))
        }),
    }
}
