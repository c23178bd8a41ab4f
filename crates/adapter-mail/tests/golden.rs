//! Every mail about an order, as its reader gets it: the files in `golden/` have its header and each
//! part without its encoding.
//!
//! After an intended change, `UPDATE_EXPECT=1 cargo test -p notary-orders-adapter-mail golden`
//! renews the files. Read the differences before you commit them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use adapter_mail::{MailDrop, Sender};
use contract_tests::{fakes::CountingEntropy, notifier::notification_of, samples};
use domain::{
    delivery::{Audience, Extent, MailContent, MailSubject, Notification},
    document::StoredDocument,
    order::{
        Actor, ChangeKind, EmailAddress, Notary, OrderChange, OrderStatus, SigningServiceId,
        event::{NotaryThen, NoteThen},
        record::OrderColumns,
    },
    ports::Notifier as _,
    signing_service::SigningService,
};
use expect_test::expect_file;
use mail_parser::MessageParser;
use serde_json::{Value, json};
use tempfile::TempDir;
use time::macros::datetime;

/// Returns a request with every field that a mail may show.
fn request() -> Value {
    json!({
        "signingContactsFormData": {
            "orderContactEmail": "escrow@title.example.com",
            "inHouseContact": {
                "contact_name": "Ida Inhouse", "contact_phone": "(214) 555-0107",
                "contact_email": "ida@title.example.com"
            },
            "inHouseContact2": { "contact_name": "Sam Second", "contact_phone": "214.555.0109" }
        },
        "signingDetailsFormData": {
            "fileNumber": "REFI-2026-001",
            "signingDate": "2026-12-02",
            "signingTimeType": "at",
            "specificTime": "14:30",
            "timeZoneId": "America/Chicago",
            "propertyAddress": "123 Main St",
            "city": "Dallas",
            "state": "TX",
            "zipcode": "75201",
            "isPropertyAddressSame": false,
            "signingAddress": "500 Elm St, Suite #4",
            "signingCity": "Fort Worth",
            "signingState": "TX",
            "signingZipcode": "76102",
            "signingType": "Refinance",
            "signerName": "Jane Doe",
            "signerPhone": "+1 555 010 0199",
            "signerEmail": "jane.doe@example.com",
            "spouseName": "Jim Doe",
            "coSignerName": "Joan O'Hara",
            "coSignerPhone": "(555) 010-0111 ext. 4",
            "coSignerEmail": "joan.ohara@example.com",
            "coSignerSpouseName": "Oscar O'Hara",
            "language": "es",
            "esigningPlatform": "DocuSign",
            "scanbacksRequired": true,
            "ronSigning": false,
            "documentDelivery": "Courier",
            "lender": "First Example Bank",
            "loanOfficer": {
                "contact_name": "Lee Loan", "contact_phone": "+1 555 010 0122",
                "contact_email": "lee@bank.example.com"
            },
            "specialInstructions": "Ring twice.\r\nThe gate code is 4711.",
            "invoiceFee": 150.5,
            "notaryPay": 95
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001 }
    })
}

fn email(address: &str) -> EmailAddress {
    EmailAddress::try_from(address.to_owned()).unwrap()
}

fn change(kind: ChangeKind, status: OrderStatus, actor: Actor) -> OrderChange {
    let at = datetime!(2026-11-30 15:04:05 UTC);
    OrderChange { kind, status, notary_id: Some(7001), actor, ..OrderChange::created(at) }
}

/// Returns a mail about the order of a request.
fn mail(request: Value, subject: MailSubject, audience: Audience) -> Notification {
    let recipient = match audience {
        Audience::Client => "escrow@title.example.com",
        Audience::Service => "dispatch@service.example.com",
    };
    let service = SigningService {
        id: SigningServiceId(42),
        name: "Fast Signings".to_owned(),
        emails: vec![email("dispatch@service.example.com")],
    };
    let message_key = "0123456789abcdef0123456789abcdef".to_owned();
    let mail = notification_of(request, recipient, &CountingEntropy::default());
    let mut mail = Notification { message_key, ..mail };
    mail.order.names.client = Some("Acme Title".to_owned());
    mail.order.names.service = Some(service.name.clone());
    mail.service = Some(service);
    mail.subject = subject;
    mail.audience = audience;
    if subject != MailSubject::Created {
        mail.order.updated_at = datetime!(2026-11-30 15:04:05 UTC);
        mail.sequence = 2;
    }
    mail
}

/// Returns a document that its side withdrew after the other side had fetched it.
fn withdrawn() -> StoredDocument {
    let at = Some(datetime!(2026-11-30 15:04:05 UTC));
    StoredDocument { key: None, withdrawn_at: at, first_downloaded_at: at, ..samples::document() }
}

/// Returns the mail with a news that one side gets.
fn news(subject: MailSubject, audience: Audience) -> Notification {
    let mut mail = mail(request(), subject, audience);
    let order = &mut mail.order;
    let notary = Notary {
        name: "Pat Garcia".to_owned(),
        phone: Some("+1 555 010 0142".to_owned()),
        email: Some(email("pat@notary.example.com")),
    };
    let (status, notary) = match subject {
        MailSubject::Created | MailSubject::DocumentsAdded => (OrderStatus::NEW, None),
        MailSubject::Cancelled => (OrderStatus::CANCELLED, Some(notary)),
        MailSubject::Confirmed => (OrderStatus::CONFIRMED, Some(notary)),
        MailSubject::Signed | MailSubject::SignedDocumentsAdded => {
            (OrderStatus::SIGNED, Some(notary))
        }
        MailSubject::NotSigned => (OrderStatus::DID_NOT_SIGN, Some(notary)),
        _ => (OrderStatus::ASSIGNED, Some(notary)),
    };
    order.status = status;
    order.notary_id = notary.as_ref().map(|_| 7001);
    order.notary = notary;
    match subject {
        MailSubject::Cancelled => order.changes.push(OrderChange {
            reason: Some("The borrower is ill.".to_owned()),
            ..change(ChangeKind::Status, OrderStatus::CANCELLED, Actor::Client)
        }),
        MailSubject::Changed => {
            let mut before = request();
            let details = &mut before["signingDetailsFormData"];
            details["signingDate"] = "2026-12-01".into();
            details["specificTime"] = "09:00".into();
            details["signerPhone"] = "+1 555 010 0177".into();
            details["lender"] = Value::Null;
            details["specialInstructions"] = "Ring once.\nMind the dog.".into();
            let record = OrderColumns::of(&samples::order(before)).unwrap();
            mail.content = Some(MailContent::Previous(record));
        }
        MailSubject::DocumentsAdded => mail.content = Some(MailContent::Documents(vec![0, 1])),
        MailSubject::DocumentWithdrawn => {
            order.documents.push(withdrawn());
            mail.content = Some(MailContent::Documents(vec![2]));
        }
        MailSubject::SignedDocumentWithdrawn => {
            order.signed_documents = vec![withdrawn(), withdrawn()];
            mail.content = Some(MailContent::Documents(vec![0, 1]));
        }
        MailSubject::NotaryAssigned => {
            let then = NotaryThen { notary_id: order.notary_id, notary: order.notary.clone() };
            mail.content = Some(MailContent::Notary(then));
        }
        MailSubject::SignedDocumentsAdded => {
            let scan = StoredDocument { name: "scan.pdf".to_owned(), ..samples::document() };
            order.signed_documents = vec![scan.clone(), scan.clone(), scan];
            mail.content = Some(MailContent::Documents(vec![0, 1, 2]));
        }
        MailSubject::DocumentReplaced => {
            let new = StoredDocument { name: "Redraw.pdf".to_owned(), ..samples::document() };
            order.documents[1].replaced_by = Some(2);
            order.documents.push(new);
            mail.content = Some(MailContent::Documents(vec![2]));
        }
        MailSubject::NoteAdded => {
            let (author, text) = match audience {
                Audience::Client => {
                    (Actor::Service, "The notary is at the gate.\nWho has the key?")
                }
                Audience::Service => (Actor::Client, "May it be 4 PM?\n\nThe borrower is late."),
            };
            mail.content = Some(MailContent::Note { author, text: text.to_owned() });
        }
        _ => {}
    }
    mail
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Returns the header of a mail as it was delivered, and its parts.
async fn delivered(notification: &Notification) -> String {
    let folder = TempDir::new().unwrap();
    let sender: Sender = "Example Orders <orders@example.com>".parse().unwrap();
    let sender = sender.linking_to(Some("https://orders.example.com".parse().unwrap()));
    MailDrop::in_folder(folder.path(), sender).notify(notification).await.unwrap();
    let file = folder.path().join(format!("{}.eml", notification.message_key));
    let raw = fs::read_to_string(file).unwrap();
    let (head, _) = raw.split_once("\r\n\r\n").unwrap();
    let mail = MessageParser::default().parse(&raw).unwrap();
    let mut shown = vec![head.to_owned()];
    for part in &mail.parts {
        let Some(text) = part.text_contents() else { continue };
        let fields = part.headers.iter().map(|field| {
            let value = &raw[field.offset_start() as usize..field.offset_end() as usize];
            format!("{}: {}", field.name(), value.trim())
        });
        shown.push(format!("----\n{}\n\n{text}", fields.collect::<Vec<_>>().join("\n")));
    }
    shown.join("\n\n").replace("\r\n", "\n")
}

/// Returns the mails by the names of their files.
fn mails() -> Vec<(String, Notification)> {
    let sides = [(Audience::Client, "client"), (Audience::Service, "service")];
    let pairs = MailSubject::ALL.into_iter().flat_map(|subject| sides.map(|side| (subject, side)));
    let sent = pairs.filter(|(subject, (audience, _))| {
        // A cancellation goes to the addresses that know the order, of both sides.
        *subject == MailSubject::Cancelled || subject.is_for(*audience, None)
    });
    let mut mails: Vec<_> = sent
        .map(|(subject, (audience, side))| {
            (format!("{}-to-{side}", subject.as_str()), news(subject, audience))
        })
        .collect();

    let removed = news(MailSubject::Cancelled, Audience::Client);
    let removed = Notification { extent: Extent::EndOnly, ..removed };
    mails.push(("cancelled-to-removed".to_owned(), removed));

    let mut notes = news(MailSubject::NoteAdded, Audience::Service);
    let note = |author, text: &str| NoteThen { author, text: text.to_owned() };
    let several = vec![
        note(Actor::Client, "May it be 4 PM?\n\nThe borrower is late."),
        note(Actor::Operator, "The client called us, too."),
    ];
    notes.content = Some(MailContent::Notes(several));
    mails.push(("notes_added-to-service".to_owned(), notes));

    let mut observed = news(MailSubject::Created, Audience::Client);
    observed.recipient = email("observer@example.com");
    observed.order.order.contacts.observer = Some(observed.recipient.clone());
    mails.push(("created-to-observer".to_owned(), observed));

    let mut between = request();
    let details = &mut between["signingDetailsFormData"];
    details["signingTimeType"] = "between".into();
    details["startTime"] = "09:00".into();
    details["endTime"] = "12:15".into();
    details["ronSigning"] = true.into();
    details["isPropertyAddressSame"] = true.into();
    let between = mail(between, MailSubject::Created, Audience::Client);
    mails.push(("between_two_times".to_owned(), between));

    let mut anytime = samples::minimal_request();
    let details = &mut anytime["signingDetailsFormData"];
    details["signingTimeType"] = "anytime".into();
    details["fileNumber"] = "REFI-2026-002".into();
    let mut anytime = mail(anytime, MailSubject::Created, Audience::Service);
    anytime.order.documents.clear();
    mails.push(("anytime_and_nothing_optional".to_owned(), anytime));
    mails
}

#[tokio::test]
async fn each_mail_equals_its_golden_file() {
    let mut names = BTreeSet::new();
    for (name, notification) in mails() {
        let file = format!("{name}.txt");
        expect_file![golden().join(&file)].assert_eq(&delivered(&notification).await);
        names.insert(file);
    }
    let files = fs::read_dir(golden()).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(files.collect::<BTreeSet<_>>(), names, "no file is left of a mail that is gone");
}
