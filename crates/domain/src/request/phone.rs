//! Phone numbers as people write them.

/// Returns the number and the extension of a text such as `(555) 123-4567 ext. 9`, or `None` if it is no
/// phone number. The number has 7 to 15 digits with the usual punctuation; the extension has 1 to 8 digits and
/// nothing else.
pub fn phone_parts(text: &str) -> Option<(&str, Option<&str>)> {
    let (number, extension) = match text.find(['x', 'X', 'e', 'E', '#']) {
        Some(at) => (&text[..at], Some(extension(&text[at..])?)),
        None => (text, None),
    };
    let number = number.trim_end_matches([' ', ',', ';']);
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let punctuated = number.bytes().all(|byte| byte.is_ascii_digit() || b"+ -.()/".contains(&byte));
    let plus_leads =
        number.rfind('+').is_none_or(|at| number[..at].bytes().all(|byte| b" (".contains(&byte)));
    ((7..=15).contains(&digits) && punctuated && plus_leads).then_some((number, extension))
}

/// Returns the digits of a named extension.
fn extension(text: &str) -> Option<&str> {
    let after = |marker: &str| {
        let (start, after) = text.split_at_checked(marker.len())?;
        start.eq_ignore_ascii_case(marker).then_some(after)
    };
    let named = ["extension", "ext", "x", "#"].into_iter().find_map(after)?;
    let digits = named.trim_start_matches(['.', ':', ' ']);
    let is_short = (1..=8).contains(&digits.len());
    (is_short && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phones_have_seven_to_fifteen_digits() {
        for valid in "5551234|(555) 123-4567|+1 555.123.4567|555/123-4567|+1-555-123-4567|\
             (+1) 555-123-4567|123456789012345"
            .split('|')
        {
            assert_eq!(phone_parts(valid), Some((valid, None)));
        }
        for invalid in "|555123|1234567890123456|call me|555-1234-abc|5551234567x|555-123-4567 ext|\
             555+1234567|٥٥٥١٢٣٤|555-123-4567 x123456789|555-123-4567 e5"
            .split('|')
        {
            assert_eq!(phone_parts(invalid), None);
        }
    }

    #[test]
    fn extension_stands_behind_its_name() {
        for (text, extension) in [
            ("555-123-4567 x12", "12"),
            ("555-123-4567 ext. 9", "9"),
            ("555-123-4567#44", "44"),
            ("555-123-4567 EXT 12345678", "12345678"),
            ("555-123-4567 extension 7", "7"),
            ("555-123-4567, ext 5", "5"),
            ("555-123-4567 Ext: 5", "5"),
        ] {
            assert_eq!(phone_parts(text), Some(("555-123-4567", Some(extension))), "{text}");
        }
    }
}
