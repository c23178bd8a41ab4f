use domain::{
    delivery::MailSubject,
    order::{EmailAddress, FileNumber},
};
use proptest::prelude::*;
use serde_json::json;
use time::{Date, macros::datetime};

use super::*;
use crate::order::tests::{notification, notification_with};

fn sender() -> Sender {
    let sender: Sender = "Example Orders <orders@example.com>".parse().unwrap();
    sender.linking_to(Some("https://orders.example.com".parse().unwrap()))
}

/// Returns the file of a new order.
fn file_of(notification: &Notification) -> String {
    calendar(notification, &sender()).unwrap()
}

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
ORGANIZER;CN=\"Example Orders\":mailto:orders@example.com
SUMMARY:Signing: Refinance\\, file REFI-2026-001
LOCATION:500 Elm St\\, Fort Worth\\, TX 76102
DESCRIPTION:Signer: Jane Doe\\, +1 555 010 0199\\nTuesday\\, December 1\\, 2026
 \\, 2:30 PM CST\\nOrder 170017\\nhttps://orders.example.com/console#/order/17
 0017
DTSTART:20261201T203000Z
DTEND:20261201T213000Z
END:VEVENT
END:VCALENDAR
";
    let created = notification_with(&json!({ "ronSigning": false }));
    assert_eq!(file_of(&created), expected.replace('\n', "\r\n"));
}

#[test]
fn last_day_of_the_calendar_has_an_appointment() {
    let mut notification = notification();
    let appointment = &mut notification.order.order.appointment;
    appointment.date = Date::MAX;
    if let AppointmentTime::At(at) = &mut appointment.time {
        at.utc = datetime!(9999-12-31 23:30 UTC);
    }
    assert_eq!(value(&file_of(&notification), "DTEND"), "99991231T235959Z");
    notification.order.order.appointment.time = AppointmentTime::Anytime;
    assert_eq!(value(&file_of(&notification), "DTEND;VALUE=DATE"), "99991231");
}

#[test]
fn uid_belongs_to_the_order() {
    let (first, mut second) = (notification(), notification());
    second.message_key = "other".to_owned();
    assert_eq!(file_of(&first), file_of(&second));
    let uid = |notification: &Notification| value(&file_of(notification), "UID");
    for subject in [MailSubject::Changed, MailSubject::Cancelled] {
        let later = Notification { subject, sequence: 1, ..notification() };
        assert_eq!(uid(&first), uid(&later));
    }
    second.order.created_at += Duration::MICROSECOND;
    assert_ne!(uid(&first), uid(&second));
}

/// That of a late "New order", too: it has the values of then.
#[test]
fn stamp_is_the_last_change_of_the_order() {
    for subject in [MailSubject::Created, MailSubject::Changed, MailSubject::Cancelled] {
        let mut mail = Notification { subject, ..notification() };
        mail.order.updated_at += Duration::HOUR;
        assert_eq!(value(&file_of(&mail), "DTSTAMP"), "20261121T130007Z", "{subject:?}");
    }
}

/// People share calendars.
#[test]
fn file_has_the_signer_and_no_further_contact_data() {
    let mut mail = notification();
    let file = file_of(&mail);
    for private in ["John Roe", "jane.doe@example.com", "title.example.com", "4711"] {
        assert!(!file.contains(private), "{private}");
    }
    mail.order.order.contacts.observer = Some(mail.recipient.clone());
    mail.order.order.contacts.order_contact_email =
        EmailAddress::try_from("other@example.com".to_owned()).unwrap();
    let description = value(&file_of(&mail), "DESCRIPTION");
    let expected = "Signer: Jane Doe\nTuesday, December 1, 2026, 2:30 PM CST\nOrder 170017";
    assert_eq!(unescaped(&description), expected, "an observer cannot sign in");
}

#[test]
fn name_of_the_organizer_stays_one_parameter() {
    for (name, line) in [
        (None, "ORGANIZER:mailto:o@x.example"),
        (Some("Orders, Inc."), "ORGANIZER;CN=\"Orders, Inc.\":mailto:o@x.example"),
        (Some("The \"best\": ; x"), "ORGANIZER;CN=\"The ^'best^': ; x\":mailto:o@x.example"),
        (Some("Sign^now ^^"), "ORGANIZER;CN=\"Sign^^now ^^^^\":mailto:o@x.example"),
    ] {
        let organizer = Mailbox::new(name.map(str::to_owned), "o@x.example".parse().unwrap());
        let sender = Sender { mailbox: organizer, ..sender() };
        let file = calendar(&notification(), &sender).unwrap();
        assert!(file.lines().any(|found| found == line), "{line}: {file}");
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
        let mut created = notification();
        let order = &mut created.order;
        order.order.signing.signing_type.clone_from(&kind);
        if let Some(location) = &mut order.order.signing.location {
            (location.address, location.city) = (place.clone(), None);
            (location.state, location.zipcode) = (None, None);
        }
        let number = FileNumber::new(file_number.clone());
        if let Some(number) = number {
            order.order.file_number = number;
        }
        let file = file_of(&created);
        let order = &created.order;
        let names: Vec<_> = properties(&file).into_iter().map(|(name, _)| name).collect();
        let event = ["SUMMARY", "LOCATION", "DESCRIPTION", "DTSTART"];
        prop_assert_eq!(&names[10..14], event.as_slice());
        prop_assert_eq!(names.len(), 17);
        for line in file.split("\r\n") {
            prop_assert!(line.len() <= 75 && !line.contains(|c: char| c.is_control() && c != '\t'));
        }
        let number = order.order.file_number.as_str();
        let summary = format!("Remote online notarization (RON): {kind}, file {number}");
        prop_assert_eq!(unescaped(&value(&file, "SUMMARY")), as_read(&summary));
        prop_assert_eq!(unescaped(&value(&file, "LOCATION")), as_read(&place));
    }
}
