//! The text parts of the form.

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
/// Size limit of a part with an instant, which has at most 35 characters, or a position.
const MAX_INSTANT_BYTES: usize = 128;

/// Returns the size limit of the text part of this name.
pub(super) fn max_bytes(name: &str) -> usize {
    let is_short = text_part(name).is_some() && name.starts_with("utc") || name == "replaces";
    if is_short { MAX_INSTANT_BYTES } else { MAX_BYTES }
}

/// Finds the text part of this name.
pub(super) fn text_part(name: &str) -> Option<&'static str> {
    TEXT_PARTS.into_iter().map(|(known, _)| known).find(|known| *known == name)
}
