//! How orders are found: the statuses of a list, the texts that a search looks at, and the words that it looks
//! for.

use unicode_normalization::UnicodeNormalization as _;

use super::{EmailAddress, Notary, Order, OrderStatus, change_request::read_status};
use crate::request::{Fault, Line, Text as _, ViolationCode, phone_parts, rules::text};

/// Minimum length of a searched text in characters.
pub const MIN_SEARCH: usize = 3;
/// Maximum length of a searched text in characters.
pub const MAX_SEARCH: usize = 100;
/// Maximum number of words of a searched text. Each is compared with each order of a walk.
pub const MAX_WORDS: usize = 10;
/// Maximum length of a searched name in characters: that of a name.
pub const MAX_NAME: usize = 200;
/// Maximum number of statuses that a list is asked for.
const MAX_STATUSES: usize = 20;
/// Maximum number of orders that a page looks at if it reads their rows: for a search, or in the order of
/// appointments.
pub const SEARCHED_ORDERS: usize = 50_000;
/// Maximum number of orders that other filters look at for one page. They read an index alone.
pub const FILTERED_ORDERS: usize = 200_000;

// Searched texts name people.
conceal!(SearchedText, SearchedName);

/// The words of a searched text.
#[derive(Clone, PartialEq, Eq)]
pub struct SearchedText(Vec<SearchedWord>);

/// A word to search for.
#[derive(Clone, PartialEq, Eq)]
pub struct SearchedWord {
    /// Its letters and digits, as [`searched_text`] has them.
    pub folded: String,
    /// The word in lower case, as version 0.1.0 stores texts.
    pub lowercase: String,
    /// Whether its parts are joined, as by a dash, a point or an apostrophe. It is then found also in a text without
    /// its blanks: texts may have blanks in their place.
    pub is_joined: bool,
}

impl SearchedText {
    /// Reads a text of 3 to 100 characters and 1 to 10 words.
    ///
    /// # Errors
    /// The fault of the text.
    pub fn parse(sent: String) -> Result<Self, Fault> {
        let line = Line::clean(sent);
        text(MAX_SEARCH)(&line)?;
        if line.chars().count() < MIN_SEARCH {
            let detail = format!("must have at least {MIN_SEARCH} characters");
            return Err((ViolationCode::TooShort, detail.into()));
        }
        let mut words: Vec<SearchedWord> = Vec::new();
        let (text, extension) = match phone_parts(&line) {
            Some((number, Some(extension))) => (number, Some(extension)),
            _ => (&*line, None),
        };
        let sent = text.split(is_between_words).chain(extension);
        for word in sent.filter(|word| !is_country_code(word)) {
            let folded = without_country(folded(word));
            let is_joined = has_parts(word, is_joint);
            let word = SearchedWord { folded, lowercase: lowercase(word), is_joined };
            if !word.folded.is_empty() && !words.contains(&word) {
                words.push(word);
            }
        }
        if words.is_empty() {
            return Err((ViolationCode::TooShort, "must have letters or digits".into()));
        }
        if words.len() > MAX_WORDS {
            let detail = format!("must have at most {MAX_WORDS} words");
            return Err((ViolationCode::OutOfRange, detail.into()));
        }
        Ok(Self(words))
    }

    /// Returns the words. An order is found if it has all of them.
    pub fn words(&self) -> &[SearchedWord] {
        &self.0
    }
}

/// Returns whether a word is the country code of a phone whose number follows: orders may have it or not.
fn is_country_code(word: &str) -> bool {
    word.trim_matches(['(', ')']) == "+1"
}

/// Removes the country code of a phone: orders may have it or not.
fn without_country(mut word: String) -> String {
    if word.len() == 11 && word.starts_with('1') && word.bytes().all(|byte| byte.is_ascii_digit()) {
        word.remove(0);
    }
    word
}

/// A part of a name to search for.
#[derive(Clone, PartialEq, Eq)]
pub struct SearchedName {
    folded: String,
    is_joined: bool,
}

impl SearchedName {
    /// Reads a text of up to 200 characters.
    ///
    /// # Errors
    /// The fault of the text.
    pub fn parse(sent: String) -> Result<Self, Fault> {
        let line = Line::clean(sent);
        text(MAX_NAME)(&line)?;
        let name = folded(&line);
        if name.is_empty() {
            return Err((ViolationCode::Blank, "must have letters or digits".into()));
        }
        let is_joined = has_parts(&line, |c| is_joint(c) || is_between_words(c));
        Ok(Self { folded: name, is_joined })
    }

    /// Returns the text as [`notary_text`] has it; `None` if it has parts: see [`Self::joined`].
    pub fn folded(&self) -> Option<&str> {
        (!self.is_joined).then_some(&*self.folded)
    }

    /// Returns the text without the blanks between its parts, if it has parts. The name may have dashes in their
    /// place, or blanks in place of dashes.
    pub fn joined(&self) -> Option<String> {
        self.is_joined.then(|| self.folded.replace(' ', ""))
    }
}

/// Reads statuses separated by commas. A near spelling of a usual status is that status.
///
/// # Errors
/// The fault of the first one at fault, or of their number.
pub fn read_statuses(sent: &str) -> Result<Vec<OrderStatus>, Fault> {
    let mut statuses = Vec::new();
    for status in sent.split(',') {
        let status = read_status(status)?;
        if !statuses.contains(&status) {
            statuses.push(status);
        }
    }
    if statuses.len() > MAX_STATUSES {
        let detail = format!("must have at most {MAX_STATUSES} statuses");
        return Err((ViolationCode::OutOfRange, detail.into()));
    }
    Ok(statuses)
}

/// The first character of a text that [`searched_text`] returns. The texts of version 0.1.0 begin with a file
/// number, which has no such character.
pub const FOLDED: char = '\n';

/// Returns the texts of an order that a search looks at, one a line, after [`FOLDED`]: the file number, the names of
/// signers and spouses, both addresses, the digits of phones, and e-mail addresses. The lines that version 0.1.0
/// stores come first: an instance of it beside finds the order, too.
pub fn searched_text(order: &Order) -> String {
    let signing = &order.signing;
    let (property, signer, co_signer) = (&signing.property, &signing.signer, &signing.co_signer);
    let number = order.file_number.as_str();
    let of_first_version = [number, &signer.name, &property.address, &property.city];
    let of_first_version = of_first_version.into_iter().chain(co_signer.name.as_deref());
    let mut lines: Vec<String> = of_first_version.clone().map(lowercase).collect();
    let names = [signer.spouse_name.as_deref(), co_signer.spouse_name.as_deref()];
    let place = signing.location.iter().flat_map(|it| {
        [Some(&*it.address), it.city.as_deref(), it.state.as_deref(), it.zipcode.as_deref()]
    });
    let rest = [Some(&*property.state), Some(&*property.zipcode)];
    let contacts = &order.contacts;
    let others = [&contacts.in_house_contact, &contacts.in_house_contact2, &signing.loan_officer];
    let others = || others.into_iter().flatten();
    let emails = [Some(&signer.email), co_signer.email.as_ref(), contacts.observer.as_ref()];
    let emails = emails.into_iter().chain([Some(&contacts.order_contact_email)]);
    let emails = emails.chain([signing.invoice.email.as_ref()]).flatten();
    let emails = emails.chain(others().filter_map(|it| it.email.as_ref()));
    let texts = of_first_version.chain(names.into_iter().chain(place).chain(rest).flatten());
    let texts = texts.chain(emails.map(EmailAddress::as_str)).map(folded);
    let phones = [Some(&signer.phone), co_signer.phone.as_ref(), signing.invoice.phone.as_ref()];
    let phones = phones.into_iter().flatten();
    let phones = phones.chain(others().filter_map(|it| it.phone.as_ref()));
    for line in texts.chain(phones.map(|phone| digits(phone))) {
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    format!("{FOLDED}{}", lines.join("\n"))
}

/// Returns the texts of a notary that a search looks at, one a line: the name, the digits of the phone, and the
/// e-mail address.
pub fn notary_text(Notary { name, phone, email }: &Notary) -> String {
    let phone = phone.as_deref().map(digits).unwrap_or_default();
    let email = email.as_ref().map(|email| folded(email.as_str())).unwrap_or_default();
    // Compatibility forms of single characters are words. The text is in an index, whose entries are short.
    let name: String = folded(name).chars().take(MAX_NAME).collect();
    format!("{name}\n{phone}\n{email}")
}

/// Returns whether a character stands between two words.
fn is_between_words(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | ';')
}

/// Returns whether a character joins two parts of a word: punctuation, or an apostrophe that Unicode calls a letter.
fn is_joint(c: char) -> bool {
    let stands_alone = c.is_alphanumeric() || is_between_words(c) || c == '@';
    !stands_alone || is_apostrophe(c)
}

/// Returns whether letters or digits stand on both sides of a joint.
fn has_parts(text: &str, is_joint: impl Fn(char) -> bool) -> bool {
    text.split(is_joint).filter(|part| part.chars().any(char::is_alphanumeric)).count() > 1
}

/// Returns the letters and digits of a text without accents, in lower case, with one blank between words. An `@`
/// stays, too. So apostrophes, dashes and points of all kinds do not matter, nor do blanks.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut add = |c: char| match c {
        'ø' => folded.push('o'),
        'ł' => folded.push('l'),
        'đ' | 'ð' => folded.push('d'),
        'ħ' => folded.push('h'),
        'æ' => folded.push_str("ae"),
        'œ' => folded.push_str("oe"),
        'þ' => folded.push_str("th"),
        '@' => folded.push(c),
        c if c.is_alphanumeric() => folded.push(c),
        c if is_between_words(c) && !folded.is_empty() && !folded.ends_with(' ') => {
            folded.push(' ');
        }
        _ => {}
    };
    if text.is_ascii() {
        text.chars().for_each(|c| add(c.to_ascii_lowercase()));
    } else {
        let letters = text.chars().filter(|c| !is_apostrophe(*c)).nfkd();
        lowercase(&letters.collect::<String>()).chars().for_each(add);
    }
    if folded.ends_with(' ') {
        folded.pop();
    }
    folded
}

/// Returns whether a character is an apostrophe or an accent that Unicode calls a letter, or decomposes to a blank.
fn is_apostrophe(c: char) -> bool {
    matches!(c, '\u{b4}' | '\u{2b9}'..='\u{2ff}' | '\u{384}')
        || matches!(c, '\u{1fbd}' | '\u{1fbf}' | '\u{1ffd}' | '\u{1ffe}')
}

/// Returns the digits of a phone number.
fn digits(phone: &str) -> String {
    phone.chars().filter(char::is_ascii_digit).collect()
}

/// Removes the difference between letter cases. Upper case alone tells that `ß` and `SS`, or the two small
/// sigmas, are the same letters, and lower case before it that `ẞ` is `ß`. The dot that is left of a Turkish
/// `İ` is no letter.
fn lowercase(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let upper = text.chars().flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).filter(|c| *c != '\u{307}').collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{order::OrderRequest, test_support::minimal_request};

    #[test]
    fn letter_case_and_accents_do_not_matter() {
        for (one, other) in [
            ("REFI-2026", "refi-2026"),
            ("José ÁLVAREZ", "jose alvarez"),
            ("Nu\u{301}n\u{303}ez", "nunez"),
            ("Straße", "STRASSE"),
            ("Straße", "STRAẞE"),
            ("ΟΔΟΣ", "οδος"),
            ("ΟΔΟΣ", "οδοσ"),
            ("İstanbul", "istanbul"),
            ("ПЁТР", "пётр"),
            ("Łukasz Sørensen", "lukasz sorensen"),
            ("ＡＢＣ１", "abc1"),
        ] {
            assert_eq!(folded(one), folded(other));
        }
    }

    #[test]
    fn apostrophes_dashes_and_blanks_are_alike() {
        for text in ["O'Brien", "O’Brien", "OʼBrien", "O´Brien", "O`Brien", "O-Brien", "O–Brien"]
        {
            assert_eq!(folded(text), "obrien", "{text}");
        }
        for text in ["Jane Doe", "Jane\u{a0}Doe", " Jane \u{2009} Doe ", "Jane\u{3000}Doe"] {
            assert_eq!(folded(text), "jane doe", "{text}");
        }
    }

    fn finds(order: &Order, text: &str) -> bool {
        let found = searched_text(order);
        let searched = SearchedText::parse(text.to_owned()).unwrap();
        let is_found = |word: &SearchedWord| {
            let is_joined = || word.is_joined && found.replace(' ', "").contains(&word.folded);
            found.contains(&word.folded) || is_joined()
        };
        searched.words().iter().all(is_found)
    }

    fn order_with(members: &[(&str, &str)]) -> Box<Order> {
        let mut request = minimal_request();
        for (member, value) in members {
            request["signingDetailsFormData"][*member] = json!(value);
        }
        let request: OrderRequest = serde_json::from_value(request).unwrap();
        request.parse().unwrap().order
    }

    #[test]
    fn dashes_slashes_and_blanks_between_parts_are_alike() {
        for (stored, asked) in [
            ("Mary Smith Jones", "smith-jones"),
            ("Mary Smith-Jones", "smith jones"),
            ("Mary Smith-Jones", "smith-jones"),
            ("Mary Smith\u{2013}Jones", "smith/jones"),
            ("Mary Smith-Jones Lee", "smith-jones-lee"),
            ("Mary Smith/Jones", "mary smith\u{2011}jones"),
            ("Ann O Brien", "o’brien, ann"),
            ("Ann O’Brien", "o brien"),
            ("Ann D-Angelo", "d'angelo"),
            ("J. R. Ewing", "j.r. ewing"),
            ("Ann Smith (Jones)", "smith(jones)"),
        ] {
            assert!(finds(&order_with(&[("signerName", stored)]), asked), "{stored}: {asked}");
        }
        for (stored, asked) in [
            ("GF-2026-114", "gf 2026 114"),
            ("GF 2026 114", "GF-2026-114"),
            ("GF 2026-114", "gf/2026/114"),
            ("GF-2026-114", "GF-2026-114"),
            ("GF 2026 114", "GF_2026.114"),
        ] {
            assert!(finds(&order_with(&[("fileNumber", stored)]), asked), "{stored}: {asked}");
        }
        // The parts stand side by side, so numbers stay precise.
        let order = order_with(&[
            ("signerName", "Jones Smith"),
            ("signerPhone", "214-555-0134"),
            ("fileNumber", "114-2026"),
        ]);
        for text in [
            "214-555-0134",
            "(214) 555-0134",
            "+1 (214) 555-0134",
            "(+1) 214 555 0134",
            "1-214-555-0134",
            "12145550134",
            "555-0134",
            "75201",
        ] {
            assert!(finds(&order, text), "{text}");
        }
        let elsewhere = order_with(&[
            ("signerPhone", "(972) 555-0234"),
            ("coSignerName", "Ann Roe"),
            ("coSignerPhone", "972.555.0236 ext. 5"),
            ("fileNumber", "REFI-7"),
            ("propertyAddress", "9 Elm St"),
            ("zipcode", "75023"),
        ]);
        assert!(!searched_text(&elsewhere).contains('1'), "nothing else has the country code");
        for text in
            ["+1 (972) 555-0234", "972.555.0236 ext. 5", "(972) 555-0236 x5", "75023", "#refi-7"]
        {
            assert!(finds(&elsewhere, text), "{text}");
        }
        assert!(!finds(&elsewhere, "(972) 555-0236 x88"));
        for text in ["smith-jones", "555-214-0134", "2026-114", "0134-555"] {
            assert!(!finds(&order, text), "{text}");
        }
    }

    #[test]
    fn words_are_found_in_every_text_that_names_an_order() {
        let mut request = minimal_request();
        let contact = |name: &str, phone: &str| {
            json!({ "contact_name": name, "contact_phone": phone,
                "contact_email": format!("{name}@title.example.com") })
        };
        request["signingContactsFormData"]["observer"] = json!("watch@lender.example.com");
        request["signingContactsFormData"]["inHouseContact"] = contact("anna", "(214) 555-0111");
        request["signingContactsFormData"]["inHouseContact2"] = contact("bert", "214.555.0112");
        let details = &mut request["signingDetailsFormData"];
        for (member, value) in [
            ("signerName", "Harriet Núñez O’Brien"),
            ("spouseName", "Karl Weiß"),
            ("coSignerName", "Mary-Ann Smith"),
            ("coSignerSpouseName", "Tom Smith"),
            ("coSignerPhone", "972 555 0113"),
            ("coSignerEmail", "mary@home.example.com"),
            ("signingAddress", "9 Elm St."),
            ("signingCity", "Plano"),
            ("signingState", "Texas"),
            ("signingZipcode", "75023-1234"),
            ("invoicePhone", "972 555 0115"),
            ("invoiceEmail", "bills@title.example.com"),
        ] {
            details[member] = json!(value);
        }
        details["isPropertyAddressSame"] = json!(false);
        details["loanOfficer"] = contact("carl", "+1 469 555 0114");
        let request: OrderRequest = serde_json::from_value(request).unwrap();
        let order = request.parse().unwrap().order;
        for text in [
            "refi-1",
            "REFI",
            "obrien, harriet",
            "nunez",
            "weiss karl",
            "smith mary-ann tom",
            "main dallas 75201 tx",
            "9 elm st plano 75023",
            "214 555",
            "(214) 555-0111",
            "5550112",
            "972-555-0113",
            "469.555.0114",
            "0115",
            "+1 555 010 0199",
            "+1-214-555-0111",
            "15550100199",
            "jane.doe@example.com",
            "escrow@title.example.com",
            "watch@lender",
            "anna@",
            "bert@title",
            "carl@title",
            "mary@home",
            "bills@",
        ] {
            assert!(finds(&order, text), "{text}");
        }
        for text in ["refi-2", "harriet quimby", "75201 houston", "0116", "first bank"] {
            assert!(!finds(&order, text), "{text}");
        }
    }

    /// It compares whole texts in lower case.
    #[test]
    fn version_before_finds_the_texts_that_it_stored() {
        let mut request = minimal_request();
        request["signingDetailsFormData"]["signerName"] = json!("José O’Brien");
        let request: OrderRequest = serde_json::from_value(request).unwrap();
        let found = searched_text(&request.parse().unwrap().order);
        assert!(
            found.starts_with("\nrefi-1\njosé o’brien\n123 main st, dallas, tx 75201\ndallas\n")
        );
    }

    #[test]
    fn notary_is_found_by_name_phone_and_email() {
        let email = Some(EmailAddress::from_stored("Pat.Q@example.com".to_owned()));
        let phone = Some("(214) 555-0177".to_owned());
        let notary = Notary { name: "Pat O’Quimby".to_owned(), phone, email };
        assert_eq!(notary_text(&notary), "pat oquimby\n2145550177\npatq@examplecom");
        let alone = Notary { phone: None, email: None, ..notary };
        assert_eq!(notary_text(&alone), "pat oquimby\n\n");
    }

    #[test]
    fn searched_text_has_three_to_a_hundred_characters_and_up_to_ten_words() {
        let code = |sent: &str| SearchedText::parse(sent.to_owned()).map_err(|fault| fault.0);
        assert_eq!(code(" ab "), Err(ViolationCode::TooShort));
        assert_eq!(code("&-’,;"), Err(ViolationCode::TooShort));
        assert_eq!(code(" (+1) "), Err(ViolationCode::TooShort));
        assert_eq!(code(&"é".repeat(101)), Err(ViolationCode::TooLong));
        assert_eq!(code("a\nbc"), Err(ViolationCode::InvalidCharacters));
        assert_eq!(code("1 2 3 4 5 6 7 8 9 10 11"), Err(ViolationCode::OutOfRange));
        let words = |sent| {
            let searched = code(sent).unwrap();
            searched.words().iter().map(|word| word.folded.clone()).collect::<Vec<_>>()
        };
        assert_eq!(words(" Éa1, b;É’A1 - "), ["ea1", "b", "ea1"]);
        assert_eq!(words("Ann ann"), ["ann"]);
        assert!(code(&"é".repeat(100)).is_ok());
    }

    #[test]
    fn searched_name_is_folded() {
        let name = |sent: &str| SearchedName::parse(sent.to_owned());
        let forms = |sent| {
            let name = name(sent).unwrap();
            (name.folded().map(str::to_owned), name.joined())
        };
        assert_eq!(forms(" Ób. "), (Some("ob".to_owned()), None));
        for sent in ["Smith-Jo", "smith jo", "smith / jo", "Smith’jo"] {
            assert_eq!(forms(sent), (None, Some("smithjo".to_owned())), "{sent}");
        }
        assert_eq!(name("-").unwrap_err().0, ViolationCode::Blank);
        assert_eq!(name(&"a".repeat(201)).unwrap_err().0, ViolationCode::TooLong);
    }
}
