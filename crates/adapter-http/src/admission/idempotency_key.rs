//! The header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header).

use actix_web::{HttpRequest, http::header::HeaderName};
use domain::{
    idempotency::{Claim, IdempotencyKey, MAX_KEY_CHARS},
    person::Caller,
    ports::Entropy,
};
use sfv::{BareItem, Item, Parser};

use crate::respond::problem::Problem;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Marks an answer that repeats the answer to an earlier request.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Returns the claim of a request to its key, if it has one.
pub(crate) fn claim(
    request: &HttpRequest,
    caller: &Caller,
    entropy: &dyn Entropy,
) -> Result<Option<Claim>, Problem> {
    let mut values = request.headers().get_all(IDEMPOTENCY_KEY);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::malformed("The request has more than one Idempotency-Key."));
    }
    let key = key_text(value.as_bytes());
    let key = key.and_then(|text| IdempotencyKey::new(caller.owner(), &text));
    // The detail does not repeat the value, which may be anything.
    let malformed = || {
        Problem::malformed(format!(
            "The header Idempotency-Key must be 1 to {MAX_KEY_CHARS} visible ASCII characters: \
             quoted, or bare without spaces, commas, semicolons, quotes and backslashes."
        ))
    };
    Ok(Some(Claim::new(key.ok_or_else(malformed)?, entropy)))
}

/// Returns the key of a header value: a String of RFC 9651, section 3.3.3, or bare characters,
/// which many clients send.
pub fn key_text(value: &[u8]) -> Option<String> {
    let value = value.trim_ascii();
    if value.first() == Some(&b'"') {
        match Parser::new(value).parse::<Item>().ok()?.bare_item {
            BareItem::String(text) => Some(text.into()),
            _ => None,
        }
    } else {
        let bare = |byte: &u8| byte.is_ascii_graphic() && !b"\",;\\".contains(byte);
        let text = value.iter().all(bare).then(|| value.to_vec())?;
        String::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_may_be_quoted_or_bare() {
        for (header, key) in [
            ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
            ("\"8e03978e-40d5-43dd-bc93-6894a57f9324\"", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
            (" padded ", "padded"),
            ("\"two words, and; more\"", "two words, and; more"),
            (r#""a \"quote\" and a \\""#, r#"a "quote" and a \"#),
            ("\"with\";parameter=1", "with"),
            ("a/b+c=.:_~!{}", "a/b+c=.:_~!{}"),
        ] {
            assert_eq!(key_text(header.as_bytes()).as_deref(), Some(key), "{header}");
        }
        // `IdempotencyKey::new` rejects it as too short.
        assert_eq!(key_text(b"\"\"").as_deref(), Some(""));
    }

    #[test]
    fn other_values_are_no_key() {
        for header in [
            "two words",
            "a,b",
            "a;b",
            "\"open",
            "open\"",
            "a\"b",
            "a\\b",
            "\"a\" b",
            "\"a\", \"b\"",
            "\"tab\t\"",
            "\"é\"",
            "é",
            "\"a\\b\"",
            "a\u{7f}",
        ] {
            assert_eq!(key_text(header.as_bytes()), None, "{header}");
        }
    }
}
