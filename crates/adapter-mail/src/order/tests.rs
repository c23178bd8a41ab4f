//! The content of mails, tested on the renderer: every destination gets the same bytes.

use contract_tests::{
    fakes::CountingEntropy,
    notifier::{ReceivedMail, notification_of},
};
use domain::{
    delivery::{Audience, MailContent, MailSubject},
    document::StoredDocument,
    order::{
        Actor, ChangeKind, Contact, EmailAddress, OrderChange, OrderStatus, SigningServiceId,
        event::{NotaryThen, NoteThen},
        record::OrderColumns,
    },
    signing_service::SigningService,
};
use mail_parser::{MessageParser, MimeHeaders as _, PartType};
use proptest::prelude::*;
use serde_json::{Value, json};
use time::macros::datetime;

use super::{language::language_name, *};

/// Returns a request with every field that the mail shows to all recipients.
pub(crate) fn full_request() -> Value {
    json!({
        "signingContactsFormData": {
            "orderContactEmail": "escrow@title.example.com",
            "inHouseContact": { "contact_name": "Ida Inhouse" }
        },
        "signingDetailsFormData": {
            "fileNumber": "REFI-2026-001",
            "signingDate": "2026-12-01",
            "signingTimeType": "at",
            "specificTime": "14:30",
            "timeZoneId": "America/Chicago",
            "propertyAddress": "123 Main St",
            "city": "Dallas",
            "state": "TX",
            "zipcode": "75201",
            "isPropertyAddressSame": false,
            "signingAddress": "500 Elm St",
            "signingCity": "Fort Worth",
            "signingState": "TX",
            "signingZipcode": "76102",
            "signingType": "Refinance",
            "signerName": "Jane Doe",
            "signerPhone": "+1 555 010 0199",
            "signerEmail": "jane.doe@example.com",
            "coSignerName": "John Roe",
            "language": "es",
            "scanbacksRequired": true,
            "ronSigning": true,
            "specialInstructions": "Ring twice.\r\nThe gate code is 4711."
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001 }
    })
}

fn sender() -> Sender {
    "Example Orders <orders@example.com>".parse().unwrap()
}

/// Returns the notification of the full request with these signing details changed.
pub(crate) fn notification_with(details: &Value) -> Notification {
    let mut request = full_request();
    for (name, value) in details.as_object().unwrap() {
        request["signingDetailsFormData"][name] = value.clone();
    }
    notification_for(request)
}

fn notification_for(request: Value) -> Notification {
    notification_of(request, "escrow@title.example.com", &CountingEntropy::default())
}

pub(crate) fn notification() -> Notification {
    notification_for(full_request())
}

fn raw(notification: &Notification) -> Vec<u8> {
    render(&sender(), notification).unwrap().formatted()
}

fn parsed(raw: &[u8]) -> mail_parser::Message<'_> {
    MessageParser::default().parse(raw).unwrap()
}

/// Returns the text and the HTML of a mail.
fn bodies(raw: &[u8]) -> (String, String) {
    let (mut texts, mut htmls) = (Vec::new(), Vec::new());
    for part in parsed(raw).parts.iter().filter(|part| part.attachment_name().is_none()) {
        if part.content_type().is_some_and(|kind| kind.subtype() == Some("calendar")) {
            continue;
        }
        match &part.body {
            PartType::Text(text) => texts.push(text.replace("\r\n", "\n")),
            PartType::Html(html) => htmls.push(html.replace("\r\n", "\n")),
            PartType::Multipart(_) => {}
            other => panic!("a part that is neither text nor HTML: {other:?}"),
        }
    }
    assert_eq!((texts.len(), htmls.len()), (1, 1));
    (texts.remove(0), htmls.remove(0))
}

/// Returns the text of the mail for the full request with these signing details changed.
fn text_with(details: &Value) -> String {
    bodies(&raw(&notification_with(details))).0
}

#[test]
fn message_id_is_key_and_sender_domain() {
    let notification = notification();
    let mail = ReceivedMail::parse(raw(&notification));
    assert_eq!(mail.message_id, format!("{}@example.com", notification.message_key));
}

#[test]
fn sender_name_survives_encoding() {
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
        let parsed = parsed(&raw);
        let from = parsed.from().unwrap().first().unwrap();
        assert_eq!((from.name(), from.address()), (Some(name.trim()), Some("orders@example.com")));
    }
}

#[test]
fn text_shows_the_order() {
    let (text, _) = bodies(&raw(&notification()));
    let expected = "New order REFI-2026-001: Tuesday, December 1, 2026, 2:30 PM CST, \
500 Elm St, Fort Worth, TX 76102

Thank you for your order. Please check the details below. Change the order, or tell your signing \
service, if anything needs to be corrected.

Order: 170017
File number: REFI-2026-001
Signing service: 42
Time zone: America/Chicago (2026-12-01 20:30 UTC)
Property: 123 Main St, Dallas, TX 75201
Signing type: Refinance
Signer: Jane Doe
Co-signer: John Roe
Language: Spanish
Remote online notarization (RON): yes
Scanbacks: required
Documents: 2 (Deed_of_Trust.pdf, Closing_Disclosure.docx)
Received: Nov 21, 2026, 6:00 AM CST

Special instructions:
    Ring twice.
    The gate code is 4711.

You receive this automatic message because the order names you as a contact.";
    assert_eq!(text.trim_end(), expected);
}

#[test]
fn service_gets_what_dispatch_needs() {
    let details = json!({
        "isPropertyAddressSame": true,
        "coSignerPhone": "+1 555 010 0111",
        "invoiceFee": 150.5,
        "notaryPay": 95,
        "loanOfficer": {
            "contact_name": "Lee Loan",
            "contact_phone": "+1 555 010 0122",
            "contact_email": "lee@lender.example"
        },
    });
    let client = notification_with(&details);
    let service = Notification { audience: Audience::Service, ..client.clone() };
    let lines = [
        "A client has created this order for your signing service. Please assign a notary.",
        "Signer: Jane Doe, +1 555 010 0199, jane.doe@example.com",
        "Co-signer: John Roe, +1 555 010 0111",
        "Loan officer: Lee Loan, +1 555 010 0122, lee@lender.example",
        "Order contact: escrow@title.example.com",
        "In-house contact: Ida Inhouse",
        "Invoice fee: 150.50 USD",
        "Notary pay: 95.00 USD",
    ];
    let (to_client, to_service) = (bodies(&raw(&client)).0, bodies(&raw(&service)).0);
    for line in lines {
        assert!(to_service.contains(&format!("{line}\n")), "{line}: {to_service}");
        assert!(!to_client.contains(line), "{line}");
    }
}

#[test]
fn cancellation_names_the_reason_and_removes_the_appointment() {
    let created = notification();
    let mut cancelled =
        Notification { subject: MailSubject::Cancelled, sequence: 3, ..created.clone() };
    let at = created.order.created_at + time::Duration::HOUR;
    cancelled.order.updated_at = at;
    cancelled.order.status = OrderStatus::CANCELLED;
    cancelled.order.changes.push(OrderChange {
        at,
        kind: ChangeKind::Status,
        status: OrderStatus::CANCELLED,
        notary_id: None,
        actor: Actor::Client,
        reason: Some("The borrower is ill.".to_owned()),
        by: None,
        before: None,
    });
    let raw = raw(&cancelled);
    assert!(bodies(&raw).0.contains("\nReason: The borrower is ill.\n"));
    let mail = parsed(&raw);
    let subject = "Order cancelled REFI-2026-001: Dec 1, 2:30 PM, Fort Worth TX";
    assert_eq!(mail.subject(), Some(subject));
    let calendar = mail.attachments().next().unwrap();
    assert_eq!(calendar.content_type().unwrap().attribute("method"), Some("CANCEL"));
    let before = super::calendar(&created, &sender()).unwrap();
    let uid = before.lines().find(|line| line.starts_with("UID:")).unwrap();
    let after = calendar.text_contents().unwrap();
    for line in ["METHOD:CANCEL", "SEQUENCE:3", "STATUS:CANCELLED", uid] {
        assert!(after.lines().any(|found| found == line), "{line}: {after}");
    }
}

#[test]
fn mail_about_a_signing_without_signatures_has_the_reason() {
    let mut mail = Notification { subject: MailSubject::NotSigned, ..notification() };
    mail.order.status = OrderStatus::DID_NOT_SIGN;
    let reason = |reason: Option<&str>| OrderChange {
        kind: ChangeKind::Status,
        status: OrderStatus::DID_NOT_SIGN,
        actor: Actor::Service,
        reason: reason.map(str::to_owned),
        ..OrderChange::created(mail.order.created_at)
    };
    let changes = [vec![reason(Some("The borrower was ill."))], vec![reason(None)]];
    let texts = changes.map(|changes| {
        mail.order.changes = changes;
        bodies(&raw(&mail)).0
    });
    assert!(texts[0].contains("\nReason: The borrower was ill.\n"), "{}", texts[0]);
    assert!(!texts[1].contains("Reason:"), "{}", texts[1]);
}

/// Only of an appointment that the service had confirmed, and until it confirms again.
#[test]
fn mail_with_all_fields_says_that_the_appointment_must_be_confirmed_again() {
    let mut mail = notification();
    let status = |status: OrderStatus, actor| OrderChange {
        kind: ChangeKind::Status,
        status,
        actor,
        ..OrderChange::created(mail.order.created_at)
    };
    let confirmed = status(OrderStatus::CONFIRMED, Actor::Service);
    let ended = status(OrderStatus::ASSIGNED, Actor::Client);
    let assigned = status(OrderStatus::ASSIGNED, Actor::Service);
    for (changes, expected) in [
        (vec![assigned], false),
        (vec![confirmed.clone(), ended.clone()], true),
        (vec![confirmed.clone(), ended, confirmed], false),
    ] {
        mail.order.status = changes[changes.len() - 1].status.clone();
        mail.order.changes = changes;
        for subject in MailSubject::WHOLE {
            for (audience, sentence) in [
                (Audience::Service, "The appointment must be confirmed again."),
                (Audience::Client, "has not confirmed the appointment again yet."),
            ] {
                (mail.subject, mail.audience) = (subject, audience);
                let text = unwrapped(&bodies(&raw(&mail)).0);
                assert_eq!(text.contains(sentence), expected, "{text}");
            }
        }
    }
}

#[test]
fn order_that_takes_place_again_returns_to_the_calendar() {
    let again = Notification { subject: MailSubject::Reinstated, sequence: 4, ..notification() };
    let raw = raw(&again);
    let mail = parsed(&raw);
    let subject = "Order reinstated REFI-2026-001: Dec 1, 2:30 PM, Fort Worth TX";
    assert_eq!(mail.subject(), Some(subject));
    let calendar = mail.attachments().next().unwrap().text_contents().unwrap().to_owned();
    for line in ["METHOD:PUBLISH", "SEQUENCE:4"] {
        assert!(calendar.lines().any(|found| found == line), "{line}: {calendar}");
    }
}

#[test]
fn added_documents_have_a_mail_of_their_own() {
    let added = Notification {
        subject: MailSubject::DocumentsAdded,
        audience: Audience::Service,
        ..notification()
    };
    let raw = raw(&added);
    let subject = "Documents added REFI-2026-001: Dec 1, 2:30 PM, Fort Worth TX";
    assert_eq!(parsed(&raw).subject(), Some(subject));
    assert_eq!(parsed(&raw).attachment_count(), 0, "nothing of the appointment is new");
    assert!(bodies(&raw).0.contains("The client has added documents to this order."));
}

#[test]
fn html_shows_what_the_text_shows_and_no_contact_data_of_the_signer() {
    let (text, html) = bodies(&raw(&notification()));
    for private in ["555 010 0199", "jane.doe@example.com"] {
        assert!(!text.contains(private) && !html.contains(private), "{private}");
    }
    let lines = text.lines().skip_while(|line| !line.starts_with("Order: "));
    for line in lines.filter(|line| !line.is_empty()) {
        let (label, value) =
            line.split_once(": ").unwrap_or(("", line.trim().trim_end_matches(':')));
        assert!(html.contains(label) && html.contains(value), "{line} is not in the HTML:\n{html}");
    }
}

fn service() -> SigningService {
    let emails = ["dispatch@service.example", "second@service.example"];
    let emails = emails.map(|email| EmailAddress::try_from(email.to_owned()).unwrap()).to_vec();
    SigningService { id: SigningServiceId(42), name: "Fast Signings".to_owned(), emails }
}

#[test]
fn answers_go_to_the_other_side() {
    let client = Notification { service: Some(service()), ..notification() };
    let to_service = Notification { audience: Audience::Service, ..client.clone() };
    let without_record = notification();
    for (notification, address) in [
        (client, Some("dispatch@service.example")),
        (to_service, Some("escrow@title.example.com")),
        (without_record, None),
    ] {
        let raw = raw(&notification);
        let mail = parsed(&raw);
        let reply_to = mail.reply_to().map(|to| to.first().unwrap().address().unwrap());
        assert_eq!(reply_to, address);
    }
}

/// When and where stand in the first line, UTC beside the zone.
#[test]
fn time_and_place_are_told_once() {
    for audience in [Audience::Client, Audience::Service] {
        for at_property in [true, false] {
            let same = json!({ "isPropertyAddressSame": at_property });
            let mail = Notification { audience, ..notification_with(&same) };
            let (text, html) = bodies(&raw(&mail));
            let place = if at_property { "123 Main St" } else { "500 Elm St" };
            let first = text.lines().next().unwrap();
            for shown in ["New order REFI-2026-001: ", "December 1, 2026, 2:30 PM CST", place] {
                assert!(first.contains(shown), "{first}");
            }
            for body in [&text, &html] {
                assert_eq!(body.matches("UTC").count(), 1, "{body}");
                assert_eq!(body.matches("2:30 PM").count(), 1, "{body}");
                assert_eq!(body.matches(place).count(), 1, "{body}");
                assert!(body.contains("123 Main St"), "{body}");
            }
        }
    }
}

#[test]
fn service_is_not_told_its_own_name() {
    let client = Notification { service: Some(service()), ..notification() };
    let to_service = Notification { audience: Audience::Service, ..client.clone() };
    assert!(bodies(&raw(&client)).0.contains("Fast Signings"));
    assert!(!bodies(&raw(&to_service)).0.contains("Fast Signings"));
}

/// An observer cannot sign in.
#[test]
fn observer_gets_no_link() {
    let sender = sender().linking_to(Some("https://orders.example.com".parse().unwrap()));
    let address = |text: &str| EmailAddress::try_from(text.to_owned()).unwrap();
    let mut mail = notification();
    mail.order.order.contacts.observer = Some(address("Observer@example.com"));
    for (recipient, is_linked) in
        [("observer@example.com", false), ("escrow@title.example.com", true)]
    {
        let mail = Notification { recipient: address(recipient), ..mail.clone() };
        let raw = String::from_utf8(render(&sender, &mail).unwrap().formatted()).unwrap();
        assert_eq!(raw.contains("orders.example.com/console"), is_linked, "{raw}");
    }
    mail.recipient = address("observer@example.com");
    mail.order.order.contacts.order_contact_email = address("OBSERVER@example.com");
    assert!(link(&sender, &mail).is_some(), "the observer is a contact, too");
}

#[test]
fn service_with_a_record_has_a_name() {
    let (text, _) = bodies(&raw(&Notification { service: Some(service()), ..notification() }));
    assert!(text.contains("\nSigning service: Fast Signings (42)\n"), "{text}");
}

#[test]
fn mail_links_to_the_order_in_the_console() {
    for url in ["https://orders.example.com/base", "https://orders.example.com/base/"] {
        let sender = sender().linking_to(Some(url.parse().unwrap()));
        let raw = render(&sender, &notification()).unwrap().formatted();
        let (text, html) = bodies(&raw);
        let link = "https://orders.example.com/base/console#/order/170017";
        assert!(text.contains(&format!("\nOpen the order: {link}\n")), "{text}");
        assert!(html.contains(&format!("<a href=\"{link}\"")), "{html}");
    }
    let (text, html) = bodies(&raw(&notification()));
    assert!(!text.contains("Open the order") && !html.contains("Open the order"));
}

#[test]
fn phones_addresses_and_places_are_links() {
    let mut notification = Notification { audience: Audience::Service, ..notification() };
    let email = EmailAddress::try_from("o'hara+x@title.example".to_owned()).unwrap();
    notification.order.order.contacts.in_house_contact = Some(Contact {
        name: Some("Ida".to_owned()),
        phone: Some("(555) 010-0133 ext. 4".to_owned()),
        email: Some(email),
    });
    notification.order.order.signing.co_signer.phone = Some("ask".to_owned());
    let html = unescaped(&bodies(&raw(&notification)).1);
    for link in [
        "href=\"tel:+15550100199\"",
        "href=\"tel:5550100133;ext=4\"",
        "href=\"mailto:o%27hara%2Bx@title.example\"",
        "/maps/search/?api=1&query=123%20Main%20St%2C%20Dallas%2C%20TX%2075201\"",
    ] {
        assert!(html.contains(link), "{link}: {html}");
    }
    assert!(html.contains(">John Roe, ask<"), "{html}");
}

#[test]
fn change_shows_old_and_new_values() {
    let before = notification();
    let mut request = full_request();
    let details = &mut request["signingDetailsFormData"];
    details["specificTime"] = "15:45".into();
    details["signerPhone"] = "+1 555 010 0177".into();
    details["coSignerName"] = Value::Null;
    let changed = Notification {
        subject: MailSubject::Changed,
        sequence: 2,
        content: Some(MailContent::Previous(OrderColumns::of(&before.order.order).unwrap())),
        ..notification_for(request)
    };
    let to_service = Notification { audience: Audience::Service, ..changed.clone() };
    let (to_client, _) = bodies(&raw(&changed));
    let (to_service, html) = bodies(&raw(&to_service));
    let appointment = "Appointment: Tuesday, December 1, 2026, 3:45 PM CST
        before: Tuesday, December 1, 2026, 2:30 PM CST\n";
    assert!(to_client.contains(appointment), "{to_client}");
    assert!(to_client.contains("Co-signer: none\n        before: John Roe\n"), "{to_client}");
    let signer = "Signer: Jane Doe, +1 555 010 0177, jane.doe@example.com
        before: Jane Doe, +1 555 010 0199, jane.doe@example.com\n";
    for text in [&to_client, &to_service] {
        assert!(text.contains(signer), "{text}");
    }
    assert!(html.contains("before: Jane Doe, +1 555 010 0199"), "{html}");
    let raw = raw(&changed);
    let file = parsed(&raw).attachments().next().unwrap().text_contents().unwrap().to_owned();
    for line in ["SEQUENCE:2", "DTSTART:20261201T214500Z"] {
        assert!(file.lines().any(|found| found == line), "{line}: {file}");
    }
}

#[test]
fn each_changed_field_is_named_to_both_sides() {
    let before = notification();
    let previous = OrderColumns::of(&before.order.order).unwrap();
    for (form, field, value) in [
        ("signingContactsFormData", "orderContactEmail", json!("another@title.example.com")),
        ("signingContactsFormData", "observer", json!("observer@title.example.com")),
        ("signingContactsFormData", "clientCompanyId", json!(9)),
        ("signingContactsFormData", "inHouseContact", json!({ "contact_phone": "5550100188" })),
        ("signingDetailsFormData", "signerPhone", json!("5550100188")),
        ("signingDetailsFormData", "coSignerPhone", json!("5550100188")),
        ("signingDetailsFormData", "loanOfficer", json!({ "contact_name": "Lou" })),
        ("signingDetailsFormData", "esigningPlatform", json!("Stavvy")),
        ("signingDetailsFormData", "documentDelivery", json!("courier")),
        ("signingDetailsFormData", "invoiceFee", json!(999)),
        ("signingDetailsFormData", "notaryPay", json!(99)),
        ("signingDetailsFormData", "invoiceName", json!("Ina")),
        ("signingDetailsFormData", "invoiceOrderTo", json!({ "zipcode": "75202" })),
        ("requestedBy", "userId", json!(1002)),
        ("requestedBy", "userRole", json!("escrow officer")),
    ] {
        let mut request = full_request();
        request[form][field] = value;
        for audience in [Audience::Client, Audience::Service] {
            let changed = Notification {
                audience,
                subject: MailSubject::Changed,
                content: Some(MailContent::Previous(previous.clone())),
                ..notification_for(request.clone())
            };
            let (text, _) = bodies(&raw(&changed));
            assert!(text.contains("\n        before: "), "{field} for {audience:?}: {text}");
        }
    }
}

#[test]
fn phone_link_has_the_extension() {
    for (phone, link) in [
        ("+1 555 010 0199 ext. 44", "tel:+15550100199;ext=44"),
        ("555-010-0199 x9", "tel:5550100199;ext=9"),
        ("555 010 0199 EXTENSION 12", "tel:5550100199;ext=12"),
        ("(555) 010-0199 #12", "tel:5550100199;ext=12"),
        ("555 010 0199, ext. 12", "tel:5550100199;ext=12"),
        ("(+1) 555 010 0199", "tel:+15550100199"),
    ] {
        let notification = notification_with(&json!({ "signerPhone": phone }));
        let to_service = Notification { audience: Audience::Service, ..notification };
        let html = unescaped(&bodies(&raw(&to_service)).1);
        assert!(html.contains(&format!("href=\"{link}\"")), "{phone}: {html}");
    }
}

#[test]
fn note_is_in_its_mail() {
    let text = "The borrower asks:\r\nmay it be 4 PM?".to_owned();
    let note = Some(MailContent::Note { author: Actor::Client, text });
    let added = Notification { subject: MailSubject::NoteAdded, content: note, ..notification() };
    let (text, html) = bodies(&raw(&added));
    assert!(text.contains("\n    The borrower asks:\n    may it be 4 PM?\n"), "{text}");
    assert!(html.contains("The borrower asks:<br>may it be 4 PM?"), "{html}");
}

#[test]
fn several_notes_are_in_one_mail() {
    let note = |author, text: &str| NoteThen { author, text: text.to_owned() };
    let client = [note(Actor::Client, "One."), note(Actor::Client, "Two.\nThree.")];
    let both = [&client[..], &[note(Actor::Operator, "Four.")]].concat();
    for (notes, introduction, shown) in [
        (
            client.to_vec(),
            "The client has written 2 notes on this order.",
            "\n    One.\n    \n    Two.\n    Three.\n",
        ),
        (
            both,
            "This order has 3 new notes.",
            "\n    The client:\n    Two.\n    Three.\n    \n    The operator of the order system:\n    Four.\n",
        ),
    ] {
        let content = Some(MailContent::Notes(notes));
        let mail = Notification { subject: MailSubject::NoteAdded, content, ..notification() };
        let text = bodies(&raw(&mail)).0;
        assert!(text.contains(introduction) && text.contains(shown), "{text}");
    }
}

/// Names of withdrawn documents are gone, and those that nobody fetched are no news.
#[test]
fn documents_of_a_mail_are_those_of_now() {
    let added = |positions: Vec<u32>, mail: &Notification, subject| {
        let content = Some(MailContent::Documents(positions));
        let mail = Notification { subject, content, ..mail.clone() };
        unwrapped(&bodies(&raw(&mail)).0)
    };
    let mut mail = Notification { audience: Audience::Service, ..notification() };
    let text = added(vec![0, 1], &mail, MailSubject::DocumentsAdded);
    let expected = "The client has added 2 documents: Deed_of_Trust.pdf, Closing_Disclosure.docx.";
    assert!(text.contains(expected), "{text}");

    for new in ["Redraw.pdf", "Second.pdf"] {
        let name = new.to_owned();
        mail.order.documents.push(StoredDocument { name, ..mail.order.documents[0].clone() });
    }
    mail.order.documents[0].replaced_by = Some(2);
    mail.order.documents[1].replaced_by = Some(3);
    let text = added(vec![2], &mail, MailSubject::DocumentReplaced);
    let expected =
        "The client has replaced Deed_of_Trust.pdf. Please print the new one, Redraw.pdf.";
    assert!(text.contains(expected), "{text}");
    let text = added(vec![2, 3], &mail, MailSubject::DocumentReplaced);
    let expected = "The client has replaced 2 documents: Deed_of_Trust.pdf, \
        Closing_Disclosure.docx. Please print the new ones: Redraw.pdf, Second.pdf.";
    assert!(text.contains(expected), "{text}");
    // Of two redraws of one document, the last is to be printed.
    mail.order.documents[2].replaced_by = Some(3);
    mail.order.documents[1].replaced_by = None;
    let text = added(vec![2, 3], &mail, MailSubject::DocumentReplaced);
    let expected =
        "The client has replaced Deed_of_Trust.pdf. Please print the new one, Second.pdf.";
    assert!(text.contains(expected), "{text}");
    // Of one whose last redraw is withdrawn, nothing is to be printed.
    let name = "Third.pdf".to_owned();
    let third = StoredDocument { name, replaced_by: None, ..mail.order.documents[0].clone() };
    mail.order.documents.push(third);
    mail.order.documents[1].replaced_by = Some(4);
    mail.order.documents[3].key = None;
    mail.order.documents[3].withdrawn_at = Some(mail.order.created_at);
    let text = added(vec![2, 3, 4], &mail, MailSubject::DocumentReplaced);
    let expected =
        "The client has replaced Closing_Disclosure.docx. Please print the new one, Third.pdf.";
    assert!(text.contains(expected), "{text}");

    for (position, is_fetched) in [(0, true), (1, false)] {
        let document = &mut mail.order.documents[position];
        let at = mail.order.created_at;
        (document.key, document.withdrawn_at) = (None, Some(at));
        document.first_downloaded_at = is_fetched.then_some(at);
    }
    let text = added(vec![0, 1], &mail, MailSubject::DocumentWithdrawn);
    let expected = "The client has withdrawn 1 document that you had fetched. Please do not use it";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn late_mail_says_that_its_order_is_cancelled() {
    let note = Some(MailContent::Note { author: Actor::Client, text: "Thank you.".to_owned() });
    for (subject, content) in [
        (MailSubject::NoteAdded, note),
        (MailSubject::SignedDocumentsAdded, Some(MailContent::Documents(vec![0]))),
    ] {
        let mut late = Notification { subject, content, ..notification() };
        let end = "The order is cancelled: the signing does not take place.";
        assert!(!unwrapped(&bodies(&raw(&late)).0).contains(end), "{subject:?}");
        late.order.status = OrderStatus::CANCELLED;
        assert!(unwrapped(&bodies(&raw(&late)).0).contains(end), "{subject:?}");
    }
}

#[test]
fn calendar_is_attached_and_an_alternative() {
    let raw = raw(&notification());
    let mail = parsed(&raw);
    let calendars: Vec<_> = mail
        .parts
        .iter()
        .filter(|part| part.content_type().is_some_and(|kind| kind.subtype() == Some("calendar")))
        .collect();
    let [shown, attached] = &calendars[..] else { panic!("{} calendars", calendars.len()) };
    assert_eq!(shown.content_type().unwrap().attribute("method"), Some("PUBLISH"));
    assert_eq!(attached.attachment_name(), Some("appointment.ics"));
    assert_eq!(shown.text_contents(), attached.text_contents());
}

#[test]
fn absent_fields_are_left_out() {
    let text = text_with(&json!({
        "coSignerName": null,
        "specialInstructions": null,
        "scanbacksRequired": false,
        "isPropertyAddressSame": true
    }));
    for absent in ["Co-signer", "Special instructions"] {
        assert!(!text.contains(absent), "{absent}");
    }
    assert!(text.contains("Scanbacks: not required\n"), "{text}");

    let mut notification = notification();
    notification.order.documents.clear();
    assert!(bodies(&raw(&notification)).0.contains("Documents: none\n"));
}

#[test]
fn full_address_is_always_shown_and_a_complete_one_once() {
    for (address, shown) in [
        ("123 Main St, Dallas, TX 75201", "123 Main St, Dallas, TX 75201"),
        ("123 Main St  DALLAS  tx, 75201.", "123 Main St  DALLAS  tx, 75201."),
        ("75201 County Road 12", "75201 County Road 12, Dallas, TX 75201"),
        ("County Road 75201", "County Road 75201, Dallas, TX 75201"),
        ("Suite TX 75201", "Suite TX 75201, Dallas, TX 75201"),
        ("1 Dallas TX 75201-9 Rd", "1 Dallas TX 75201-9 Rd, Dallas, TX 75201"),
        ("9 NewDallas, TX 75201", "9 NewDallas, TX 75201, Dallas, TX 75201"),
    ] {
        let text = text_with(&json!({ "propertyAddress": address }));
        assert!(text.contains(&format!("Property: {shown}\n")), "{text}");
    }
}

#[test]
fn street_that_ends_like_a_part_of_the_location_keeps_the_part() {
    for (address, city, state, zipcode, shown) in [
        ("7 Via Roma", "Roma", "", "", "7 Via Roma, Roma"),
        ("12 Elm St New York", "York", "", "", "12 Elm St New York, York"),
        ("100 Avenue CA", "", "CA", "", "100 Avenue CA, CA"),
        ("PO Box 75024", "", "", "75024", "PO Box 75024, 75024"),
        ("9 Troy NY", "Troy", "NY", "", "9 Troy NY, Troy, NY"),
        ("9 Elm St, Troy, NY 12180", "Troy", "NY", "12180", "9 Elm St, Troy, NY 12180"),
    ] {
        let text = text_with(&json!({
            "isPropertyAddressSame": false, "signingAddress": address, "signingCity": city,
            "signingState": state, "signingZipcode": zipcode
        }));
        assert!(text.contains(&format!(" CST, {shown}\n")), "{text}");
    }
}

#[test]
fn every_kind_of_appointment_is_shown() {
    let between = text_with(
        &json!({ "signingTimeType": "between", "startTime": "09:00", "endTime": "12:15" }),
    );
    for expected in [
        "REFI-2026-001: Tuesday, December 1, 2026, between 9:00 AM CST and 12:15 PM CST, 500 Elm St",
        "\nTime zone: America/Chicago (2026-12-01 15:00 to 2026-12-01 18:15 UTC)\n",
    ] {
        assert!(between.contains(expected), "{between}");
    }
    let anytime = text_with(&json!({ "signingTimeType": "anytime" }));
    for expected in [
        "REFI-2026-001: Tuesday, December 1, 2026, at any time, 500 Elm St",
        "\nTime zone: America/Chicago\n",
    ] {
        assert!(anytime.contains(expected), "{anytime}");
    }
}

#[test]
fn date_is_within_the_years_of_a_mail() {
    let mut notification = notification();
    for (created_at, date) in [
        (datetime!(1969-12-31 23:59:59 UTC), datetime!(1970-01-01 0:00 UTC)),
        (datetime!(9999-12-31 23:59:59 UTC), datetime!(9999-12-31 23:59:59 UTC)),
    ] {
        notification.order.created_at = created_at;
        let sent = parsed(&raw(&notification)).date().unwrap().to_timestamp();
        assert_eq!(sent, date.unix_timestamp());
    }
}

fn subject_with(file_number: &str) -> String {
    let mut request = full_request();
    request["signingDetailsFormData"]["fileNumber"] = file_number.into();
    let raw = raw(&notification_for(request));
    parsed(&raw).subject().unwrap().to_owned()
}

/// `Auto-Submitted` keeps automatic responders from answering (RFC 3834), and
/// `X-Auto-Response-Suppress` those of Exchange.
#[test]
fn headers_are_complete_and_unique() {
    let raw = raw(&notification());
    let message = parsed(&raw);
    assert_eq!(
        message.date().unwrap().to_timestamp(),
        datetime!(2026-11-21 12:00:07 UTC).unix_timestamp()
    );
    assert_eq!(message.header_raw("Auto-Submitted").unwrap().trim(), "auto-generated");
    assert_eq!(message.header_raw("X-Auto-Response-Suppress").unwrap().trim(), "All");
    let names = header_names(&raw);
    let mut unique = names.clone();
    unique.dedup();
    assert_eq!(names, unique);
}

/// A late one may have a notary already.
#[test]
fn new_order_asks_for_no_notary_that_it_has() {
    let mut mail = Notification { audience: Audience::Service, ..notification() };
    let asks =
        |mail: &Notification| unwrapped(&bodies(&raw(mail)).0).contains("Please assign a notary.");
    assert!(asks(&mail));
    mail.order.notary_id = Some(7);
    assert!(!asks(&mail));
}

#[test]
fn news_of_a_status_names_no_later_notary() {
    let then = NotaryThen { notary_id: Some(7), notary: None };
    let mut mail = Notification {
        subject: MailSubject::Confirmed,
        content: Some(MailContent::Notary(then)),
        ..notification()
    };
    let names = |mail: &Notification| unwrapped(&bodies(&raw(mail)).0).contains("Notary");
    mail.order.notary_id = Some(7);
    assert!(names(&mail));
    mail.order.notary_id = Some(8);
    assert!(!names(&mail));
}

#[test]
fn mails_of_one_order_have_the_same_references() {
    let references = |notification: &Notification| {
        let raw = raw(notification);
        let message = parsed(&raw);
        message.header_raw("References").unwrap().trim().to_owned()
    };
    let created = notification();
    let reference = "<order-170017-1795262407123456@example.com>";
    assert_eq!(references(&created), reference);
    for subject in [MailSubject::Changed, MailSubject::NoteAdded, MailSubject::Cancelled] {
        let mut later = Notification { subject, ..notification() };
        later.message_key = "other".to_owned();
        later.order.updated_at += time::Duration::HOUR;
        assert_eq!(references(&later), reference, "{subject:?}");
    }
    let mut other = notification();
    other.order.id = OrderId(170_018);
    assert_ne!(references(&other), reference);
}

fn header_names(raw: &[u8]) -> Vec<String> {
    let message = parsed(raw);
    let mut names: Vec<_> = message.headers_raw().map(|(name, _)| name.to_lowercase()).collect();
    names.sort_unstable();
    names
}

/// Returns one-line texts that try to become markup, headers, encoded words or boundaries.
fn hostile_lines() -> Vec<String> {
    let lines = [
        "<script>alert(\"gotcha\")</script>",
        "\"><img src=x onerror='alert(1)'>&amp;",
        "</td></table></body></html>",
        "&#60;script&#62;",
        "Bcc: eve@example.com",
        "=?utf-8?q?Bcc=3A_eve=40example=2Ecom?=",
        "{{ order }} {% raw %} ${HOME} %s %n",
        "Zoë Ñandú 李雷 \u{1f3e0} \u{5d9}\u{5e2}\u{5dc} \u{200d}text",
        "--boundary--",
        "=3D=20= soft=",
        "\\r\\n\\0 \\\" \\",
    ];
    let long = [("a", 5_000), ("é", 5_000), ("<&>\"'", 1_000), ("a b ", 1_250)];
    lines
        .iter()
        .map(ToString::to_string)
        .chain(long.map(|(text, count)| text.repeat(count)))
        .collect()
}

const HOSTILE_PARAGRAPH: &str = "<b>first</b>\r\n.\r\n..\n\
    From eve@example.com Sat Nov 21 12:00:00 2026\r\nQUIT\r\n\r\n--\r\n\
    Content-Type: text/html\r\n\r\n\tBcc: eve@example.com\n\n\nlone\rreturn\r\n>From last \u{202e}txet";

/// Returns a request with a text in every free-text field of the mail, cut to the field's limit.
fn hostile_request(line: &str) -> Value {
    let mut request = full_request();
    let details = &mut request["signingDetailsFormData"];
    let fields = [
        ("fileNumber", 100),
        ("propertyAddress", 500),
        ("city", 100),
        ("signingAddress", 500),
        ("signingCity", 100),
        ("signingType", 100),
        ("signerName", 200),
        ("coSignerName", 200),
        ("language", 100),
        ("specialInstructions", 5_000),
    ];
    for (name, max) in fields {
        details[name] = line.chars().take(max).collect::<String>().into();
    }
    request
}

/// Returns the notifications and mails of an ordinary request and of every hostile one.
fn hostile_mails() -> Vec<(Notification, Vec<u8>)> {
    let mut paragraph = full_request();
    paragraph["signingDetailsFormData"]["specialInstructions"] = HOSTILE_PARAGRAPH.into();
    [full_request(), paragraph]
        .into_iter()
        .chain(hostile_lines().into_iter().map(|line| hostile_request(&line)))
        .map(|request| {
            let notification = notification_for(request);
            let raw = raw(&notification);
            (notification, raw)
        })
        .collect()
}

/// Relays may change a mail that does not follow RFC 5322 section 2.1.1.
#[test]
fn lines_are_short_ascii_with_crlf() {
    for (_, raw) in hostile_mails() {
        let raw = String::from_utf8(raw).unwrap();
        assert!(raw.is_ascii() && !raw.contains('\0') && raw.ends_with("\r\n"));
        for line in raw.split("\r\n") {
            assert!(line.len() <= 998 && !line.contains(['\r', '\n']), "{line:?}");
        }
    }
}

#[test]
fn hostile_text_stays_text() {
    for (notification, raw) in hostile_mails() {
        let (text, html) = bodies(&raw);
        assert!(!text.contains('\r') && !html.contains('\r'), "a lone carriage return");
        for markup in ["<script", "<img", "<b>"] {
            assert!(!html.contains(markup), "{markup}");
        }
        assert_eq!(html.matches("</html>").count(), 1);
        let shown = unescaped(&html);
        let order = &notification.order.order;
        let signing = &order.signing;
        let instructions = signing.special_instructions.as_deref().unwrap_or_default();
        let one_line = [
            order.file_number.as_str(),
            &signing.signer.name,
            &signing.property.address,
            &signing.signing_type,
            &language_name(&signing.language),
        ];
        for written in one_line.into_iter().chain(instructions.split(['\r', '\n'])) {
            assert!(text.contains(written), "{written:?} is not in the text:\n{text}");
            assert!(shown.contains(written), "{written:?} is not in the HTML:\n{html}");
        }
    }
}

fn unescaped(html: &str) -> String {
    let entities = [
        ("<", "&lt;", "&#60;"),
        (">", "&gt;", "&#62;"),
        ("\"", "&quot;", "&#34;"),
        ("'", "&apos;", "&#39;"),
        ("&", "&amp;", "&#38;"),
    ];
    entities.iter().fold(html.to_owned(), |html, (character, named, numbered)| {
        html.replace(named, character).replace(numbered, character)
    })
}

#[test]
fn hostile_text_changes_no_header() {
    let headers = |raw: &[u8]| {
        let message = parsed(raw);
        ["From", "To", "Date", "Auto-Submitted", "MIME-Version"]
            .map(|name| message.header_raw(name).unwrap().to_owned())
    };
    let mails = hostile_mails();
    let ordinary = &mails[0].1;
    for (_, raw) in &mails {
        assert_eq!(header_names(raw), header_names(ordinary));
        assert_eq!(headers(raw), headers(ordinary));
        assert_eq!(order_of_header(&String::from_utf8_lossy(raw)), Some(OrderId(170_017)));
    }
}

/// Generates e-mail addresses of every form that the domain accepts.
fn address() -> impl Strategy<Value = EmailAddress> {
    let label = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
    let domain = format!("{label}(\\.{label}){{0,3}}|[0-9]{{1,3}}(\\.[0-9]{{1,3}}){{3}}");
    let user = "[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}";
    (user, prop::string::string_regex(&domain).unwrap())
        .prop_filter_map("the domain rejects it", |(user, domain)| {
            EmailAddress::try_from(format!("{user}@{domain}")).ok()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_valid_address_is_rendered(address in address()) {
        let notification = Notification { recipient: address.clone(), ..notification() };
        let message = render(&sender(), &notification).unwrap();
        let recipients: Vec<_> = message.envelope().to().iter().map(ToString::to_string).collect();
        prop_assert_eq!(recipients, [address.as_str()]);
        let raw = message.formatted();
        let parsed = parsed(&raw);
        prop_assert_eq!(parsed.header_raw("To").unwrap().trim(), address.as_str());
    }

    #[test]
    fn every_file_number_survives_encoding(
        file_number in "[a-zA-Z0-9 =?_-]{1,100}|[é ]{1,100}|(=\\?utf-8\\?q\\?[a-z]{1,9}\\?= ?){1,4}\
                        |([^\\p{C}\\p{Zl}\\p{Zp}\u{34f}\u{fffc}]| |[a-z]){1,100}"
    ) {
        prop_assume!(!file_number.trim().is_empty());
        let number = file_number.trim();
        let expected = format!("New order {number}: Dec 1, 2:30 PM, Fort Worth TX");
        prop_assert_eq!(subject_with(&file_number), expected);
    }
}

/// Returns a text without its line ends.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
