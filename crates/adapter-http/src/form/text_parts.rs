//! The text parts of the form.

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

/// The text parts that have arrived, in the order of [`TEXT_PARTS`].
#[derive(Default)]
pub(super) struct TextParts([Option<String>; TEXT_PARTS.len()]);

impl TextParts {
    /// Adds a part. Ignores parts of other names.
    pub(super) fn add(&mut self, name: &str, text: String) -> Result<(), Problem> {
        let position = TEXT_PARTS.iter().position(|(text_part, _)| *text_part == name);
        match position.and_then(|position| self.0[position].replace(text)) {
            None => Ok(()),
            Some(_) => Err(Problem::malformed(format!("The form has two parts {name}."))),
        }
    }

    /// A blank part counts as absent.
    pub(super) fn into_request(self) -> Result<OrderRequest, Problem> {
        let mut request = OrderRequest::default();
        let sent = TEXT_PARTS.into_iter().zip(self.0);
        for (name, text) in sent.filter_map(|((name, _), text)| Some((name, text?))) {
            request.add_part(name, text).map_err(|error| {
                Problem::malformed(format!("The part {name} is not valid JSON: {error}."))
            })?;
        }
        Ok(request)
    }
}
