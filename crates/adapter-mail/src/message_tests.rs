use contract_tests::{
    fakes::CountingEntropy,
    notifier::{ReceivedMail, full_request, notification_of},
};
use domain::order::EmailAddress;
use mail_parser::MessageParser;
use proptest::prelude::*;
use serde_json::json;
use time::macros::datetime;

use super::*;

fn sender() -> Sender {
    "Example Orders <orders@example.com>".parse().unwrap()
}

fn notification() -> Notification {
    notification_of(full_request(), "escrow@title.example.com", &CountingEntropy::default())
}

fn raw(notification: &Notification) -> Vec<u8> {
    render(&sender(), notification).unwrap().formatted()
}

fn text_of(details: &serde_json::Value) -> String {
    let mut request = full_request();
    for (name, value) in details.as_object().unwrap() {
        request["signingDetailsFormData"][name] = value.clone();
    }
    let raw =
        raw(&notification_of(request, "escrow@title.example.com", &CountingEntropy::default()));
    MessageParser::default().parse(&raw).unwrap().body_text(0).unwrap().replace("\r\n", "\n")
}

#[test]
fn the_same_notification_is_the_same_mail() {
    assert_eq!(raw(&notification()), raw(&notification()));
}

#[test]
fn the_message_id_is_of_the_key_and_the_senders_domain() {
    let notification = notification();
    let mail = ReceivedMail::parse(raw(&notification));
    assert_eq!(mail.message_id, format!("{}@example.com", notification.message_key));
}

#[test]
fn the_sender_is_read_as_it_was_written() {
    for name in [
        "Example Orders",
        "Orders, Inc.",
        "Zoë & Söhne",
        "O'Hara (Title) @ Law; : .",
        "=?utf-8?q?gotcha?=",
        &"Long ".repeat(60),
    ] {
        let sender = format!("\"{name}\" <orders@example.com>").parse().unwrap();
        let raw = render(&sender, &notification()).unwrap().formatted();
        let parsed = MessageParser::default().parse(&raw).unwrap();
        let from = parsed.from().unwrap().first().unwrap();
        assert_eq!((from.name(), from.address()), (Some(name.trim()), Some("orders@example.com")));
    }
}

#[test]
fn the_text_reads_well() {
    let text = text_of(&json!({}));
    let expected = "Hello,

Thank you: we have received your signing order. Please check the details
below, and tell your signing service if anything needs to be corrected.

Order: 170017
File number: REFI-2026-001
Signing service: 42
Signing type: Refinance
Appointment: Tuesday, December 1, 2026 at 2:30 PM (America/Chicago; 2026-12-01 20:30 UTC)
Property: 123 Main St, Dallas, TX 75201
Signing location: 500 Elm St, Fort Worth, TX 76102
Signer: Jane Doe
Co-signer: John Roe
Language: es
Remote online notarization: yes
Scanbacks required: yes
Lender: Larkfield Lending
Documents: 2 (Deed_of_Trust.pdf, Closing_Disclosure.docx)
Received: 2026-11-21 12:00 UTC

Special instructions:
    Ring twice.
    The gate code is 4711.

You receive this automatic message because the order names you as a contact.";
    assert_eq!(text.trim_end(), expected);
}

#[test]
fn what_an_order_does_not_have_is_not_told() {
    let text = text_of(
        &json!({ "coSignerName": null, "lender": null, "specialInstructions": null, "scanbacksRequired": false, "isPropertyAddressSame": true }),
    );
    for absent in ["Co-signer", "Lender", "Special instructions"] {
        assert!(!text.contains(absent), "{absent}");
    }
    assert!(
        text.contains("Scanbacks required: no\n")
            && text.contains("Signing location: At the property\n"),
        "{text}"
    );

    let mut notification = notification();
    notification.order.documents.clear();
    assert!(String::from_utf8(raw(&notification)).unwrap().contains("Documents: none"));
}

#[test]
fn an_address_that_is_whole_is_not_told_twice() {
    let text = text_of(&json!({ "propertyAddress": "123 Main St, Dallas, TX 75201" }));
    assert!(text.contains("Property: 123 Main St, Dallas, TX 75201\n"), "{text}");
}

#[test]
fn every_kind_of_appointment_is_told() {
    let between =
        text_of(&json!({ "signingTimeType": "between", "startTime": "09:00", "endTime": "12:15" }));
    let told = "Appointment: Tuesday, December 1, 2026 between 9:00 AM and 12:15 PM (America/Chicago; 2026-12-01 15:00 UTC to 2026-12-01 18:15 UTC)\n";
    assert!(between.contains(told), "{between}");
    let anytime = text_of(&json!({ "signingTimeType": "anytime" }));
    assert!(
        anytime.contains("Appointment: Tuesday, December 1, 2026 at any time (America/Chicago)\n"),
        "{anytime}"
    );
}

#[test]
fn a_message_key_that_is_not_plain_is_refused_for_good() {
    for key in [
        "",
        "../../etc/passwd",
        "a.b",
        "ABC",
        "a\r\nBcc: eve@example.com",
        "a>",
        "é",
        &"a".repeat(65),
    ] {
        let notification = Notification { message_key: key.to_owned(), ..notification() };
        assert!(
            matches!(render(&sender(), &notification), Err(NotifyError::Permanent(_))),
            "{key:?}"
        );
    }
}

#[test]
fn an_order_from_before_1970_is_refused_for_good() {
    let mut notification = notification();
    notification.order.created_at = datetime!(1969-12-31 23:59:59 UTC);
    assert!(matches!(render(&sender(), &notification), Err(NotifyError::Permanent(_))));
    notification.order.created_at = datetime!(9999-12-31 23:59:59 UTC);
    raw(&notification);
}

fn subject_of_file(file_number: &str) -> String {
    let mut request = full_request();
    request["signingDetailsFormData"]["fileNumber"] = file_number.into();
    let raw =
        raw(&notification_of(request, "escrow@title.example.com", &CountingEntropy::default()));
    MessageParser::default().parse(&raw).unwrap().subject().unwrap().to_owned()
}

#[test]
fn the_subject_names_order_and_file() {
    for file_number in [
        "REFI-1",
        "Zoë 李雷  é",
        "two  spaces",
        "=?utf-8?q?gotcha?=",
        &"=?utf-8?q?a?= ".repeat(7),
        &"a b ".repeat(25),
    ] {
        assert_eq!(
            subject_of_file(file_number),
            format!("Signing order 170017 received: file {}", file_number.trim())
        );
    }
}

/// What the domain accepts as an e-mail address, of every form.
fn address() -> impl Strategy<Value = EmailAddress> {
    let label = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
    let domain = format!("{label}(\\.{label}){{0,3}}|[0-9]{{1,3}}(\\.[0-9]{{1,3}}){{3}}");
    let user = "[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}";
    (user, prop::string::string_regex(&domain).unwrap())
        .prop_filter_map("the domain refuses it", |(user, domain)| {
            EmailAddress::try_from(format!("{user}@{domain}")).ok()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_address_that_the_domain_accepts_gets_its_mail(address in address()) {
        let notification = Notification { recipient: address.clone(), ..notification() };
        let message = render(&sender(), &notification).unwrap();
        prop_assert_eq!(message.envelope().to().iter().map(ToString::to_string).collect::<Vec<_>>(), [address.as_str()]);
        let raw = message.formatted();
        let parsed = MessageParser::default().parse(&raw).unwrap();
        prop_assert_eq!(parsed.header_raw("To").unwrap().trim(), address.as_str());
    }

    #[test]
    fn every_file_number_is_read_as_it_was_written(file_number in "[a-zA-Z0-9 =?_-]{1,100}|[é ]{1,100}|([^\\p{C}\\p{Zl}\\p{Zp}]| |[a-z]){1,100}") {
        prop_assume!(!file_number.trim().is_empty());
        prop_assert_eq!(subject_of_file(&file_number), format!("Signing order 170017 received: file {}", file_number.trim()));
    }
}
