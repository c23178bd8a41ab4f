//! The text parts of the form.

use std::collections::HashMap;

use domain::order::OrderRequest;

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

    /// A blank part counts as absent.
    pub(super) fn into_request(mut self) -> Result<OrderRequest, Problem> {
        let mut request = OrderRequest::default();
        for (name, _) in TEXT_PARTS {
            let Some(text) = self.0.remove(name) else { continue };
            request.add_part(name, text).map_err(|error| {
                Problem::malformed(format!("The part {name} is not valid JSON: {error}."))
            })?;
        }
        Ok(request)
    }
}
