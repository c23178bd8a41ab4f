use domain::{delivery::MailSubject, order::FileNumber};
use proptest::prelude::*;
use serde_json::json;
use time::{Date, macros::datetime};

use super::*;
use crate::message::tests::{notification, notification_with};

/// Returns the properties of a file: the name with its parameters, and the value.
fn properties(file: &str) -> Vec<(String, String)> {
    let unfolded = file.replace("\r\n ", "");
    let lines = unfolded.strip_suffix("\r\n").unwrap().split("\r\n");
    lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

/// Returns the only value of a property.
fn value(file: &str, name: &str) -> String {
    let mut found = properties(file).into_iter().filter(|(other, _)| other == name);
    let (Some((_, value)), None) = (found.next(), found.next()) else { panic!("{name} in {file}") };
    value
}

/// Reads a text (section 3.3.11).
fn unescaped(value: &str) -> String {
    let (mut text, mut characters) = (String::new(), value.chars());
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next().unwrap() {
                'n' => text.push('\n'),
                escaped @ ('\\' | ';' | ',') => text.push(escaped),
                other => panic!("\\{other} in {value}"),
            },
            ';' | ',' => panic!("{character} in {value}"),
            _ => text.push(character),
        }
    }
    text
}

#[test]
fn file_has_the_appointment() {
    let expected = "BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//notary-orders//notary-orders//EN
CALSCALE:GREGORIAN
METHOD:PUBLISH
BEGIN:VEVENT
UID:order-170017-1795262407123456@notary-orders
DTSTAMP:20261121T120007Z
SEQUENCE:0
SUMMARY:Signing: Refinance\\, file REFI-2026-001
LOCATION:500 Elm St\\, Fort Worth\\, TX 76102
DESCRIPTION:Order 170017\\nTuesday\\, December 1\\, 2026 at 2:30 PM (America/C
 hicago\\; 2026-12-01 20:30 UTC)
DTSTART:20261201T203000Z
DTEND:20261201T213000Z
END:VEVENT
END:VCALENDAR
";
    let order = notification_with(&json!({ "ronSigning": false })).order;
    assert_eq!(calendar(&order, MailSubject::Created, 0).unwrap(), expected.replace('\n', "\r\n"));
}

#[test]
fn last_day_of_the_calendar_has_an_appointment() {
    let mut order = notification().order;
    order.order.appointment.date = Date::MAX;
    if let AppointmentTime::At(at) = &mut order.order.appointment.time {
        at.utc = datetime!(9999-12-31 23:30 UTC);
    }
    assert_eq!(
        value(&calendar(&order, MailSubject::Created, 0).unwrap(), "DTEND"),
        "99991231T235959Z"
    );
    order.order.appointment.time = AppointmentTime::Anytime;
    assert_eq!(
        value(&calendar(&order, MailSubject::Created, 0).unwrap(), "DTEND;VALUE=DATE"),
        "99991231"
    );
}

#[test]
fn uid_belongs_to_the_order() {
    let (first, mut second) = (notification(), notification());
    second.message_key = "other".to_owned();
    assert_eq!(
        calendar(&first.order, MailSubject::Created, 0).unwrap(),
        calendar(&second.order, MailSubject::Created, 0).unwrap()
    );
    second.order.created_at += Duration::MICROSECOND;
    let uid = |order| value(&calendar(order, MailSubject::Created, 0).unwrap(), "UID");
    assert_ne!(uid(&first.order), uid(&second.order));
}

#[test]
fn names_and_contact_data_are_left_out() {
    let file = calendar(&notification().order, MailSubject::Created, 0).unwrap();
    for private in ["Jane Doe", "John Roe", "555 010 0199", "example.com", "4711"] {
        assert!(!file.contains(private), "{private}");
    }
}

/// Generates texts of ordinary letters, of what the format uses, and of control characters.
fn any_text() -> impl Strategy<Value = String> {
    "[a-zé李\u{1f3e0} ]{0,200}|[\\\\;,:\"nN\r\n\t =^]{0,200}|(?s).{0,120}\
     |\r\n(BEGIN:VALARM|ATTENDEE:mailto:eve@example.com|END:VEVENT)\r\n ?"
}

fn as_read(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let hidden = |c: char| c.is_control() && !"\n\t".contains(c);
    text.replace(|c| hidden(c) || "\u{2028}\u{2029}".contains(c), " ")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Stored orders may have texts that requests may not.
    #[test]
    fn any_text_is_one_value(kind in any_text(), file_number in any_text(), place in any_text()) {
        let mut order = notification().order;
        order.order.signing.signing_type.clone_from(&kind);
        if let Some(location) = &mut order.order.signing.location {
            (location.address, location.city) = (place.clone(), None);
            (location.state, location.zipcode) = (None, None);
        }
        let number = FileNumber::new(file_number.clone());
        order.order.file_number = number.unwrap_or(order.order.file_number);
        let file = calendar(&order, MailSubject::Created, 0).unwrap();
        let names: Vec<_> = properties(&file).into_iter().map(|(name, _)| name).collect();
        let event = ["UID", "DTSTAMP", "SEQUENCE", "SUMMARY", "LOCATION", "DESCRIPTION", "DTSTART"];
        prop_assert_eq!(&names[6..13], event.as_slice());
        prop_assert_eq!(names.len(), 16);
        for line in file.split("\r\n") {
            prop_assert!(line.len() <= 75 && !line.contains(|c: char| c.is_control() && c != '\t'));
        }
        let number = order.order.file_number.as_str();
        let summary = format!("Remote online notarization (RON): {kind}, file {number}");
        prop_assert_eq!(unescaped(&value(&file, "SUMMARY")), as_read(&summary));
        prop_assert_eq!(unescaped(&value(&file, "LOCATION")), as_read(&place));
    }
}
