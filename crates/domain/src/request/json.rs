//! JSON as clients write it: half surrogate pairs and exact numbers.

use std::{borrow::Cow, ops::Range};

/// Returns JSON in which each escape of half a surrogate pair is one of U+FFFD, as browsers read it.
/// Clients that cut texts after a number of UTF-16 units send such halves.
pub fn whole_characters(json: &str) -> Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return json.into();
    }
    let mut whole = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        whole.push_str(&rest[..at]);
        let escape = &rest[at..];
        let is_pair = is_escape_of(escape, 0xd800..0xdc00)
            && escape.get(6..).is_some_and(|second| is_escape_of(second, 0xdc00..0xe000));
        let escaped = escape.chars().nth(1).map_or(0, char::len_utf8);
        let end = if is_pair {
            12
        } else if is_escape_of(escape, 0xd800..0xe000) {
            whole.push_str("\\ufffd");
            rest = &escape[6..];
            continue;
        } else {
            1 + escaped
        };
        whole.push_str(&escape[..end]);
        rest = &escape[end..];
    }
    whole.push_str(rest);
    whole.into()
}

fn is_escape_of(text: &str, units: Range<u16>) -> bool {
    let digits = text.strip_prefix("\\u").and_then(|text| text.get(..4));
    let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    unit.is_some_and(|unit| units.contains(&unit))
}

/// Reads a JSON number with a zero fraction.
pub(crate) fn integer(number: &str) -> Option<i64> {
    scaled(number, 0).filter(|(_, is_cut)| !is_cut).map(|(integer, _)| integer)
}

/// Returns a JSON number times ten to the power of `places`, without its fraction, and whether it has
/// one. `None` if it is too large. A float would round it.
pub(crate) fn scaled(number: &str, places: i32) -> Option<(i64, bool)> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let is_zero = |digits: &str| digits.bytes().all(|digit| matches!(digit, b'0' | b'-'));
    if is_zero(&digits) {
        return Some((0, false));
    }
    let shift = i64::from(exponent.parse::<i32>().ok()?) + i64::from(places)
        - i64::try_from(fraction.len()).ok()?;
    let cut = usize::try_from(-shift).unwrap_or(0).min(digits.len());
    let (kept, rest) = digits.split_at(digits.len() - cut);
    let kept: i64 = if is_zero(kept) { 0 } else { kept.parse().ok()? };
    let power = u32::try_from(shift.max(0)).ok()?;
    Some((kept.checked_mul(10_i64.checked_pow(power)?)?, !is_zero(rest)))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn half_a_surrogate_pair_is_the_replacement_character() {
        for (json, text) in [
            (r#""X\ud83d""#, "X\u{fffd}"),
            (r#""\uDE00X""#, "\u{fffd}X"),
            (r#""\ud83d\ud83d\uDE00\ud83d\n""#, "\u{fffd}\u{1f600}\u{fffd}\n"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\\ud83d é \"\ud83dx""#, "\\ud83d é \"\u{fffd}x"),
            (r#""\ud7ff\ue000""#, "\u{d7ff}\u{e000}"),
        ] {
            let read: Value = serde_json::from_str(&whole_characters(json)).unwrap();
            assert_eq!(read, text, "{json}");
        }
        for broken in [r#""\ud83"#, r#""\ud8é""#, "\\", r#""\ud"#] {
            assert_eq!(whole_characters(broken), broken);
        }
    }
}
