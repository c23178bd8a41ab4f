//! Rules of text fields: length, characters and format.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::violation::ViolationCode;

/// Maximum length of a status in characters.
pub const MAX_STATUS: usize = 50;
/// Maximum length of the reason of a cancellation in characters.
pub const MAX_REASON: usize = 500;

/// An e-mail address: printable ASCII, one `@`, no white space, no address literal, at most 254
/// characters (RFC 5321 section 4.5.3.1.3).
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EmailAddress(String);

/// The error of a text that is no [`EmailAddress`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not an e-mail address")]
pub struct InvalidEmail;

impl EmailAddress {
    /// Returns an address that was read from storage. It followed the rules of its day: a stricter
    /// rule must not make stored orders unreadable.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// Returns the address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for EmailAddress {
    type Error = InvalidEmail;

    fn try_from(text: String) -> Result<Self, InvalidEmail> {
        // Address literals of SMTP are no mailboxes in practice, and programs parse them
        // differently.
        let literal = text.contains(['[', ']']);
        let dots_in_place = text.split_once('@').is_some_and(|(user, _)| {
            !user.starts_with('.') && !user.ends_with('.') && !user.contains("..")
        });
        if text.len() <= 254
            && !literal
            && dots_in_place
            && garde::rules::email::parse_email(&text).is_ok()
        {
            Ok(Self(text))
        } else {
            Err(InvalidEmail)
        }
    }
}

/// The client's file or loan number: one line of 1 to 100 characters without surrounding white
/// space. The comparison is case-sensitive.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FileNumber(String);

impl FileNumber {
    /// Returns a file number; `None` if it is blank or has white space around it. Only a request is
    /// checked against the rest of the rule: a stricter rule must not make stored orders unreadable.
    pub fn new(text: String) -> Option<Self> {
        (!text.is_empty() && text.trim() == text).then_some(Self(text))
    }

    /// Returns the file number as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The rule of a text field. Lengths are in characters (Unicode scalar values) after trimming.
pub struct TextRule {
    /// The maximum length in characters.
    pub max_length: usize,
    has_lines: bool,
    /// Replaces characters that programs of clients put into a text, by what is meant.
    replace: fn(char) -> Option<char>,
    has_format: fn(&str) -> bool,
    /// What the client should correct if the text does not have the format.
    format_detail: &'static str,
}

/// The detail of a text with a control character.
pub(super) const ONE_LINE: &str = "must be one line without control characters";

/// The code and the detail of a violation.
pub type Fault = (ViolationCode, Cow<'static, str>);

/// The type of a field, and the rule of a text.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text(&'static TextRule),
    Bool,
    /// Every integer of a request is an identifier.
    Integer,
    Amount,
    /// An object with this schema in the API.
    Object(&'static str),
}

/// Returns the kind of a field, by the name of its object's schema in the API and its own. `None`
/// for a field that the API does not know.
pub(super) fn kind(schema: &str, field: &str) -> Option<Kind> {
    Some(match (schema, field) {
        ("OrderRequest", "signingContactsFormData") => Kind::Object("SigningContactsRequest"),
        ("OrderRequest", "signingDetailsFormData") => Kind::Object("SigningDetailsRequest"),
        ("OrderRequest", "requestedBy") => Kind::Object("RequestedByRequest"),
        ("SigningContactsRequest", "inHouseContact" | "inHouseContact2")
        | ("SigningDetailsRequest", "loanOfficer") => Kind::Object("ContactRequest"),
        ("SigningDetailsRequest", "invoiceOrderTo") => Kind::Object("InvoiceRecipientRequest"),
        ("OrderRequest" | "RequestedByRequest", "signingServiceId")
        | ("SigningContactsRequest", "clientCompanyId")
        | ("RequestedByRequest", "userId") => Kind::Integer,
        ("SigningDetailsRequest", "isPropertyAddressSame" | "scanbacksRequired" | "ronSigning") => {
            Kind::Bool
        }
        ("SigningDetailsRequest", "invoiceFee" | "notaryPay") => Kind::Amount,
        _ => Kind::Text(known_text_rule(schema, field)?),
    })
}

fn known_text_rule(schema: &str, field: &str) -> Option<&'static TextRule> {
    Some(match (schema, field) {
        ("SigningContactsRequest", "orderContactEmail" | "observer")
        | ("ContactRequest", "contact_email")
        | ("SigningDetailsRequest", "signerEmail" | "coSignerEmail" | "invoiceEmail") => {
            &TextRule::EMAIL
        }
        ("ContactRequest", "contact_phone")
        | ("SigningDetailsRequest", "signerPhone" | "coSignerPhone" | "invoicePhone") => {
            &TextRule::PHONE
        }
        ("ContactRequest", "contact_name")
        | ("InvoiceRecipientRequest", "company_name")
        | (
            "SigningDetailsRequest",
            "signerName" | "spouseName" | "coSignerName" | "coSignerSpouseName" | "invoiceName"
            | "lender",
        ) => &TextRule::NAME,
        ("SigningDetailsRequest", "propertyAddress" | "signingAddress")
        | ("InvoiceRecipientRequest", "invoice_address") => &TextRule::ADDRESS,
        ("SigningDetailsRequest", "state") => &TextRule::STATE,
        ("SigningDetailsRequest", "zipcode") => &TextRule::ZIPCODE,
        // The spec limits only those of the property.
        ("SigningDetailsRequest", "signingState") => &TextRule::LOCATION_STATE,
        ("SigningDetailsRequest", "signingZipcode") => &TextRule::LOCATION_ZIPCODE,
        ("SigningDetailsRequest", "specialInstructions") => &TextRule::INSTRUCTIONS,
        ("OrderRequest", "utcTimeDate" | "utcStartTimeDate" | "utcEndTimeDate")
        | (
            "SigningDetailsRequest",
            "signingDate" | "signingTimeType" | "specificTime" | "startTime" | "endTime"
            | "timeZoneId",
        ) => &TextRule::CODE,
        (
            "SigningDetailsRequest",
            "fileNumber" | "signingType" | "city" | "language" | "signingCity" | "esigningPlatform"
            | "documentDelivery",
        )
        | ("InvoiceRecipientRequest", "city" | "state" | "zipcode")
        | ("RequestedByRequest", "userRole") => &TextRule::SHORT,
        _ => return None,
    })
}

/// Returns the rule of a text field, by the name of its object's schema in the API and its own.
pub fn text_rule(schema: &str, field: &str) -> &'static TextRule {
    known_text_rule(schema, field).unwrap_or(&TextRule::SHORT)
}

impl TextRule {
    const SHORT: Self = Self {
        max_length: 100,
        has_lines: false,
        replace: of_line,
        has_format: |_| true,
        format_detail: "",
    };
    const NAME: Self = Self { max_length: 200, ..Self::SHORT };
    const ADDRESS: Self = Self { max_length: 500, ..Self::SHORT };
    /// A text of ASCII characters.
    pub(super) const CODE: Self = Self { replace: of_code, ..Self::SHORT };
    const EMAIL: Self = Self { max_length: 254, ..Self::CODE };
    const PHONE: Self = Self {
        max_length: 50,
        has_format: is_phone,
        format_detail: "must be a phone number of 7 to 15 digits, with the usual punctuation and \
                        an optional extension",
        ..Self::CODE
    };
    const STATE: Self = Self {
        has_format: |text| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic()),
        format_detail: "must be a state code of two letters",
        ..Self::CODE
    };
    const ZIPCODE: Self = Self {
        has_format: |text| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit()),
        format_detail: "must be a ZIP code of five digits",
        ..Self::CODE
    };
    const LOCATION_STATE: Self = Self { max_length: 50, ..Self::SHORT };
    const LOCATION_ZIPCODE: Self = Self { max_length: 20, ..Self::SHORT };
    pub(super) const STATUS: Self = Self { max_length: MAX_STATUS, ..Self::SHORT };
    pub(super) const REASON: Self = Self { max_length: MAX_REASON, ..Self::SHORT };
    const INSTRUCTIONS: Self =
        Self { max_length: 5_000, has_lines: true, replace: of_lines, ..Self::SHORT };

    /// Returns a text without the white space around it, and with other characters where programs of
    /// clients have put unusual ones. A text without any visible character is empty.
    pub fn clean(&self, text: String) -> String {
        let text =
            if is_plain(&text) { text } else { text.chars().filter_map(self.replace).collect() };
        let is_blank = text.chars().all(|c| c.is_whitespace() || is_invisible(c));
        let trimmed = if is_blank { "" } else { text.trim() };
        if trimmed.len() == text.len() { text } else { trimmed.to_owned() }
    }

    /// Checks a clean text against the rule. The error says what the client should correct.
    pub fn check(&self, text: &str) -> Result<(), Fault> {
        if let Some(detail) = self.forbidden_character(text) {
            return Err((ViolationCode::InvalidCharacters, detail.into()));
        }
        // A text has no more characters than bytes, and only characters must be counted.
        if text.len() > self.max_length && text.chars().count() > self.max_length {
            return Err((
                ViolationCode::TooLong,
                format!("must have at most {} characters", self.max_length).into(),
            ));
        }
        if !(self.has_format)(text) {
            return Err((ViolationCode::InvalidFormat, self.format_detail.into()));
        }
        Ok(())
    }

    fn forbidden_character(&self, text: &str) -> Option<&'static str> {
        if is_plain(text) {
            return None;
        }
        // The two separators end a line wherever text is shown, though Unicode does not call them
        // control characters.
        let control = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        if self.has_lines {
            let line_end = |c| matches!(c, '\n' | '\r' | '\t');
            text.contains(|c| control(c) && !line_end(c))
                .then_some("must not contain control characters other than line ends and tabs")
        } else {
            text.contains(control).then_some(ONE_LINE)
        }
    }
}

/// Returns whether a text is printable ASCII. Most are, which is faster to see than to look at each
/// character.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns whether a character is invisible, or changes the direction of the text after it: two
/// names could look the same, or a name could look like another.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fffc}'
        | '\u{e0000}'..='\u{e007f}')
}

/// Drops invisible formatting. U+200C and U+200D stay: names in Persian and in Indic scripts need
/// them.
fn of_line(character: char) -> Option<char> {
    match character {
        '\t' => Some(' '),
        '\u{200c}' | '\u{200d}' => Some(character),
        c => (!is_invisible(c)).then_some(c),
    }
}

/// Drops invisible formatting, and replaces dashes, blanks and full-width characters by ASCII.
fn of_code(character: char) -> Option<char> {
    match character {
        c if is_invisible(c) => None,
        '\u{2010}'..='\u{2015}'
        | '\u{2043}'
        | '\u{2212}'
        | '\u{fe31}'
        | '\u{fe32}'
        | '\u{fe58}'
        | '\u{fe63}' => Some('-'),
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(character) - 0xfee0),
        c if c == '\t' || c.is_whitespace() && !c.is_control() => Some(' '),
        c => Some(c),
    }
}

/// Replaces the line ends of other programs.
#[expect(clippy::unnecessary_wraps, reason = "the signature of `TextRule::replace`")]
fn of_lines(character: char) -> Option<char> {
    let is_line_end = matches!(character, '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    Some(if is_line_end { '\n' } else { character })
}

fn is_phone(text: &str) -> bool {
    let (number, extension) = text
        .find(['x', 'X', 'e', 'E', '#'])
        .map_or((text, None), |at| (&text[..at], Some(&text[at..])));
    let number = number.trim_end_matches([' ', ',', ';']);
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let punctuated = number.bytes().all(|byte| byte.is_ascii_digit() || b"+ -.()/".contains(&byte));
    let plus_leads =
        number.rfind('+').is_none_or(|at| number[..at].bytes().all(|byte| b" (".contains(&byte)));
    let extended = extension.is_none_or(|extension| {
        let after = |marker: &str| {
            let (start, after) = extension.split_at_checked(marker.len())?;
            start.eq_ignore_ascii_case(marker).then_some(after)
        };
        let extension = ["extension", "ext", "x", "#"].into_iter().find_map(after);
        let extension = extension.unwrap_or_default().trim_start_matches(['.', ':', ' ']);
        (1..=8).contains(&extension.len()) && extension.bytes().all(|byte| byte.is_ascii_digit())
    });
    (7..=15).contains(&digits) && punctuated && plus_leads && extended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phones_have_seven_to_fifteen_digits() {
        for valid in "5551234|(555) 123-4567|+1 555.123.4567|555/123-4567|+1-555-123-4567 x12|\
             555-123-4567 ext. 9|5551234567#44|555-123-4567 EXT 12345678|\
             555-123-4567 extension 7|(+1) 555-123-4567|555-123-4567, ext 5|555-123-4567 Ext: 5|\
             123456789012345"
            .split('|')
        {
            assert!(is_phone(valid), "{valid}");
        }
        for invalid in "|555123|1234567890123456|call me|555-1234-abc|5551234567x|555-123-4567 ext|\
             555+1234567|٥٥٥١٢٣٤|555-123-4567 x123456789|555-123-4567 e5"
            .split('|')
        {
            assert!(!is_phone(invalid), "{invalid}");
        }
    }

    #[test]
    fn addresses_that_break_mail_headers_are_rejected() {
        for valid in [
            "a@b",
            "jane.doe+tag@title.example.com",
            "o'hara@example.com",
            "x_y-z@sub-domain.example.org",
        ] {
            assert!(EmailAddress::try_from(valid.to_owned()).is_ok(), "{valid}");
        }
        let long = format!("{}@example.com", "a".repeat(65));
        for invalid in [
            "",
            "a",
            "@b",
            "a@",
            "a@@b",
            "a b@c",
            "a@b c",
            "a@b\r\nBcc: c@d",
            "a\n@b",
            "\"a\"@b",
            "a@-b",
            "a@b.",
            "é@b",
            "a@é",
            "a,b@c",
            "<a@b>",
            ".a@b",
            "a.@b",
            "a..b@c",
            &long,
        ] {
            assert!(EmailAddress::try_from(invalid.to_owned()).is_err(), "{invalid}");
        }
    }

    #[test]
    fn one_line_fields_take_no_line_ends() {
        for character in ['\0', '\r', '\n', '\u{7f}', '\u{85}', '\u{2028}', '\u{2029}'] {
            assert!(TextRule::NAME.check(&format!("a{character}b")).is_err(), "{character:?}");
        }
        assert!(TextRule::INSTRUCTIONS.check("ring\r\n\ttwice").is_ok());
        assert!(TextRule::INSTRUCTIONS.check("ring\0twice").is_err());
    }

    #[test]
    fn one_line_fields_lose_hidden_characters() {
        for hidden in
            "\u{ad}\u{34f}\u{200b}\u{200e}\u{202a}\u{202e}\u{2060}\u{2064}\u{2066}\u{2069}\
                       \u{feff}\u{fffc}\u{e0000}\u{e0041}\u{e007f}"
                .chars()
        {
            let text = format!("{hidden} Jane{hidden} Doe {hidden}");
            assert_eq!(TextRule::NAME.clean(text.clone()), "Jane Doe", "{hidden:?}");
            assert_eq!(TextRule::INSTRUCTIONS.clean(text.clone()), text, "{hidden:?}");
            assert_eq!(TextRule::INSTRUCTIONS.clean(hidden.into()), "", "{hidden:?}");
        }
        assert_eq!(TextRule::NAME.clean("Jane\tDoe\t\u{200d}".into()), "Jane Doe \u{200d}");
        // A Persian and a Sinhala name, a family of emoji, and text from right to left.
        for text in ["علی\u{200c}رضا", "ශ්\u{200d}රී", "👨\u{200d}👩\u{200d}👧", "יעל"]
        {
            assert_eq!(TextRule::NAME.clean(text.into()), text);
        }
    }
}
