//! The contract of `Notifier`, and what a mail has to say to be one.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    delivery::{NewDelivery, Notification},
    document::{ObjectKey, Sha256Digest, StoredDocument},
    order::{EmailAddress, OrderId, OrderStatus, StoredOrder},
    ports::{Notifier, NotifyError},
};
use futures_util::future::join_all;
use mail_parser::{Address, Message, MessageParser, PartType};
use serde_json::{Value, json};
use time::macros::datetime;

use crate::{fakes::CountingEntropy, samples};

/// A mail as it was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMail {
    /// Its `Message-ID`.
    pub message_id: String,
    /// Everybody it goes to.
    pub to: Vec<String>,
    /// The whole mail; empty if the notifier makes none.
    pub raw: Vec<u8>,
}

impl ReceivedMail {
    /// Reads a mail whose recipients are those that its headers name.
    pub fn parse(raw: Vec<u8>) -> Self {
        let mail = parsed(&raw);
        let named =
            [mail.to(), mail.cc(), mail.bcc()].into_iter().flatten().flat_map(Address::iter);
        let to = named.map(|one| one.address().unwrap().to_owned()).collect();
        Self { message_id: mail.message_id().unwrap().to_owned(), to, raw }
    }
}

/// A notifier under test, and a look at what it hands over.
#[async_trait]
pub trait NotifierFixture: Send + Sync {
    /// The notifier.
    fn notifier(&self) -> Arc<dyn Notifier>;

    /// Every mail handed over so far, in any order.
    async fn received(&self) -> Vec<ReceivedMail>;

    /// From now on nobody's mail is taken.
    async fn break_down(&self);

    /// Mails are taken again.
    async fn recover(&self);
}

/// Runs the contract of [`Notifier`] on the fixture that an expression makes, anew for each test.
#[macro_export]
macro_rules! notifier_contract {
    ($fixture:expr) => {
        $crate::obligations!(notifier, $fixture;
            a_mail_goes_to_its_recipient_and_nobody_else,
            every_notification_is_a_mail_of_its_own,
            the_same_notification_bears_the_same_message_id,
            the_oddest_addresses_get_their_mail,
            a_check_hands_nothing_over,
            an_outage_is_told_from_every_other_failure,
            an_outage_ends_by_itself,
        );
    };
}

/// Runs what a mail has to say on the fixture that an expression makes, anew for each test. For
/// notifiers that make mails.
#[macro_export]
macro_rules! mail_content_contract {
    ($fixture:expr) => {
        $crate::obligations!(notifier, $fixture;
            text_and_html_tell_what_was_ordered,
            the_headers_say_what_the_mail_is,
            a_mail_passes_through_every_relay,
            hostile_text_stays_text,
            hostile_text_changes_no_header,
        );
    };
}

/// A request that fills in whatever a mail may tell.
pub fn full_request() -> Value {
    json!({
        "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com", "inHouseContact": { "contact_name": "Ida Inhouse" } },
        "signingDetailsFormData": {
            "fileNumber": "REFI-2026-001", "signingDate": "2026-12-01", "signingTimeType": "at", "specificTime": "14:30",
            "timeZoneId": "America/Chicago", "propertyAddress": "123 Main St", "signingType": "Refinance",
            "signerName": "Jane Doe", "signerPhone": "+1 555 010 0199", "signerEmail": "jane.doe@example.com",
            "city": "Dallas", "state": "TX", "zipcode": "75201", "language": "es", "spouseName": "Sam Spouse",
            "coSignerName": "John Roe", "coSignerSpouseName": "Robin Roe",
            "isPropertyAddressSame": false, "signingAddress": "500 Elm St", "signingCity": "Fort Worth", "signingState": "TX", "signingZipcode": "76102",
            "esigningPlatform": "Pavaso", "scanbacksRequired": true, "ronSigning": true, "documentDelivery": "courier", "lender": "Larkfield Lending",
            "specialInstructions": "Ring twice.\r\nThe gate code is 4711."
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001 }
    })
}

/// A notification of the order that a valid request asks for, under a message key of its own.
pub fn notification_of(request: Value, recipient: &str, entropy: &CountingEntropy) -> Notification {
    let recipient = EmailAddress::try_from(recipient.to_owned()).unwrap();
    let created_at = datetime!(2026-11-21 12:00:07.123456 UTC);
    let documents = ["Deed_of_Trust.pdf", "Closing_Disclosure.docx"].map(|name| StoredDocument {
        key: ObjectKey::random(entropy),
        name: name.to_owned(),
        name_as_sent: name.to_owned(),
        media_type: "application/octet-stream".to_owned(),
        size: 1,
        sha256: Sha256Digest([0; 32]),
    });
    let order = StoredOrder {
        id: OrderId(170_017),
        order: samples::order(request),
        status: OrderStatus::NEW,
        client: samples::CLIENT,
        api_key: samples::API_KEY,
        notary_id: None,
        documents: documents.into(),
        is_test: false,
        created_at: created_at,
        updated_at: created_at,
    };
    Notification {
        message_key: NewDelivery::mail(recipient.clone(), entropy).message_key,
        recipient,
        order,
    }
}

fn parsed(raw: &[u8]) -> Message<'_> {
    MessageParser::default().parse(raw).unwrap()
}

/// The text and the HTML of a mail.
fn bodies(mail: &ReceivedMail) -> (String, String) {
    let message = parsed(&mail.raw);
    let (mut texts, mut htmls) = (Vec::new(), Vec::new());
    for part in &message.parts {
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

async fn mail_of(fixture: &dyn NotifierFixture, notification: &Notification) -> ReceivedMail {
    fixture.notifier().notify(notification).await.unwrap();
    let mut received = fixture.received().await;
    assert_eq!(received.len(), 1);
    received.remove(0)
}

/// Whoever else the order names.
pub async fn a_mail_goes_to_its_recipient_and_nobody_else(fixture: &dyn NotifierFixture) {
    let mail = mail_of(
        fixture,
        &notification_of(full_request(), "observer@example.com", &CountingEntropy::default()),
    )
    .await;
    assert_eq!(mail.to, ["observer@example.com"]);
}

/// Also those of one order.
pub async fn every_notification_is_a_mail_of_its_own(fixture: &dyn NotifierFixture) {
    let entropy = CountingEntropy::default();
    let first = notification_of(full_request(), "first@example.com", &entropy);
    let other_recipient = notification_of(full_request(), "second@example.com", &entropy);
    let same_recipient = notification_of(full_request(), "first@example.com", &entropy);
    for notification in [&first, &other_recipient, &same_recipient] {
        fixture.notifier().notify(notification).await.unwrap();
    }
    let received = fixture.received().await;
    let mut recipients: Vec<_> = received.iter().map(|mail| mail.to.join(",")).collect();
    recipients.sort_unstable();
    assert_eq!(recipients, ["first@example.com", "first@example.com", "second@example.com"]);
    let mut ids: Vec<_> = received.iter().map(|mail| &mail.message_id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

/// So that one who gets it twice can tell.
pub async fn the_same_notification_bears_the_same_message_id(fixture: &dyn NotifierFixture) {
    let notification =
        notification_of(full_request(), "escrow@title.example.com", &CountingEntropy::default());
    let first = mail_of(fixture, &notification).await;
    fixture.notifier().notify(&notification).await.unwrap();
    for mail in fixture.received().await {
        assert_eq!(mail.message_id, first.message_id);
    }
}

/// Every address that the domain accepts can be written to.
pub async fn the_oddest_addresses_get_their_mail(fixture: &dyn NotifierFixture) {
    let entropy = CountingEntropy::default();
    let long_domain = ["d".repeat(63), "e".repeat(63), "f".repeat(61)].join(".");
    let odd = [
        "o'hara+x!#$%&*/=?^_`{|}~-@example.com".to_owned(),
        format!("{}@example.com", "a".repeat(64)),
        format!("{}@{long_domain}", "a".repeat(64)),
        "a@b".to_owned(),
        "1@2.3".to_owned(),
        "UPPER.Case@EXAMPLE.com".to_owned(),
        "a@xn--bcher-kva.example".to_owned(),
    ];
    for address in &odd {
        fixture
            .notifier()
            .notify(&notification_of(full_request(), address, &entropy))
            .await
            .unwrap();
    }
    let mut reached: Vec<_> =
        fixture.received().await.iter().map(|mail| mail.to.join(",")).collect();
    let mut expected = odd.to_vec();
    reached.sort_unstable();
    expected.sort_unstable();
    assert_eq!(reached, expected);
}

/// However many check at a time.
pub async fn a_check_hands_nothing_over(fixture: &dyn NotifierFixture) {
    let notifier = fixture.notifier();
    join_all((0..16).map(|_| notifier.check())).await.into_iter().for_each(Result::unwrap);
    assert_eq!(fixture.received().await, []);
}

/// By a mail, by one that was handed over before, and by a check.
pub async fn an_outage_is_told_from_every_other_failure(fixture: &dyn NotifierFixture) {
    let entropy = CountingEntropy::default();
    let [before, meanwhile] = ["before@example.com", "meanwhile@example.com"]
        .map(|recipient| notification_of(full_request(), recipient, &entropy));
    fixture.notifier().notify(&before).await.unwrap();
    fixture.break_down().await;
    for notification in [&before, &meanwhile] {
        let refused = fixture.notifier().notify(notification).await;
        assert!(matches!(refused, Err(NotifyError::Unavailable(_))), "{refused:?}");
    }
    let checked = fixture.notifier().check().await;
    assert!(matches!(checked, Err(NotifyError::Unavailable(_))), "{checked:?}");
    let reached = fixture.received().await;
    assert!(reached.iter().all(|mail| mail.to != ["meanwhile@example.com"]), "{reached:?}");
}

/// Without anything said to the notifier, and the mail that waited arrives once.
pub async fn an_outage_ends_by_itself(fixture: &dyn NotifierFixture) {
    let notification =
        notification_of(full_request(), "escrow@title.example.com", &CountingEntropy::default());
    fixture.break_down().await;
    fixture.notifier().notify(&notification).await.unwrap_err();
    fixture.recover().await;
    fixture.notifier().check().await.unwrap();
    let mail = mail_of(fixture, &notification).await;
    assert_eq!(mail.to, ["escrow@title.example.com"]);
}

/// Everything that somebody at a title company checks at a glance.
pub async fn text_and_html_tell_what_was_ordered(fixture: &dyn NotifierFixture) {
    let mail = mail_of(
        fixture,
        &notification_of(full_request(), "escrow@title.example.com", &CountingEntropy::default()),
    )
    .await;
    let (text, html) = bodies(&mail);
    let told = [
        "170017",
        "REFI-2026-001",
        "Refinance",
        "December 1, 2026",
        "2:30 PM",
        "America/Chicago",
        "2026-12-01 20:30 UTC",
        "123 Main St",
        "Dallas, TX 75201",
        "500 Elm St",
        "Fort Worth, TX 76102",
        "Jane Doe",
        "John Roe",
        "Larkfield Lending",
        "Ring twice.",
        "The gate code is 4711.",
        "Deed_of_Trust.pdf",
        "Closing_Disclosure.docx",
        "42",
    ];
    for fact in told {
        assert!(text.contains(fact), "{fact} is not in the text:\n{text}");
        assert!(html.contains(fact), "{fact} is not in the HTML:\n{html}");
    }
    for private in ["555 010 0199", "jane.doe@example.com"] {
        assert!(!text.contains(private) && !html.contains(private), "{private}");
    }
}

/// Of whom, when, about what, and that no answering machine should answer (RFC 3834).
pub async fn the_headers_say_what_the_mail_is(fixture: &dyn NotifierFixture) {
    let mail = mail_of(
        fixture,
        &notification_of(full_request(), "escrow@title.example.com", &CountingEntropy::default()),
    )
    .await;
    let message = parsed(&mail.raw);
    let subject = message.subject().unwrap();
    assert!(subject.contains("170017") && subject.contains("REFI-2026-001"), "{subject}");
    assert_eq!(
        message.date().unwrap().to_timestamp(),
        datetime!(2026-11-21 12:00:07 UTC).unix_timestamp()
    );
    assert_eq!(message.header_raw("Auto-Submitted").unwrap().trim(), "auto-generated");
    let names = header_names(&mail);
    let mut once = names.clone();
    once.dedup();
    assert_eq!(names, once);
}

fn header_names(mail: &ReceivedMail) -> Vec<String> {
    let mut names: Vec<_> =
        parsed(&mail.raw).headers_raw().map(|(name, _)| name.to_lowercase()).collect();
    names.sort_unstable();
    names
}

/// Texts that try to be more than text, each of one line.
fn hostile_lines() -> Vec<String> {
    let lines = [
        "<script>alert(\"gotcha\")</script>",
        "\"><img src=x onerror='alert(1)'>&amp;",
        "</td></table></body></html>",
        "&#60;script&#62;",
        "Bcc: eve@example.com",
        "=?utf-8?q?Bcc=3A_eve=40example=2Ecom?=",
        "{{ order }} {% raw %} ${HOME} %s %n",
        "Zoë Ñandú 李雷 \u{1f3e0} \u{202e}txet",
        "--boundary--",
        "=3D=20= soft=",
        "\\r\\n\\0 \\\" \\",
    ];
    let long = ["a".repeat(5_000), "é".repeat(5_000), "<&>\"'".repeat(1_000), "a b ".repeat(1_250)];
    lines.iter().map(ToString::to_string).chain(long).collect()
}

const HOSTILE_PARAGRAPH: &str = "<b>first</b>\r\n.\r\n..\nFrom eve@example.com Sat Nov 21 12:00:00 2026\r\nQUIT\r\n\r\n--\r\n\
                                 Content-Type: text/html\r\n\r\n\tBcc: eve@example.com\n\n\nlone\rreturn\r\n>From last";

/// A request with a text in every field that a mail may tell, cut to what the field takes.
fn hostile_request(line: &str) -> Value {
    let mut request = full_request();
    let details = &mut request["signingDetailsFormData"];
    let fields = [
        ("fileNumber", 100),
        ("propertyAddress", 500),
        ("signingType", 100),
        ("signerName", 200),
        ("spouseName", 200),
        ("city", 100),
        ("signingAddress", 500),
        ("signingCity", 100),
        ("coSignerName", 200),
        ("language", 100),
        ("lender", 100),
        ("esigningPlatform", 100),
        ("documentDelivery", 100),
        ("specialInstructions", 5_000),
    ];
    for (name, max) in fields {
        details[name] = line.chars().take(max).collect::<String>().into();
    }
    request
}

/// The mails of an ordinary request and of every hostile one, in this order.
async fn mails_of_hostile_requests(
    fixture: &dyn NotifierFixture,
) -> Vec<(Notification, ReceivedMail)> {
    let mut paragraph = full_request();
    paragraph["signingDetailsFormData"]["specialInstructions"] = HOSTILE_PARAGRAPH.into();
    let requests = [full_request(), paragraph]
        .into_iter()
        .chain(hostile_lines().into_iter().map(|line| hostile_request(&line)));

    let entropy = CountingEntropy::default();
    let mut mails: Vec<(Notification, ReceivedMail)> = Vec::new();
    for request in requests {
        let notification = notification_of(request, "escrow@title.example.com", &entropy);
        fixture.notifier().notify(&notification).await.unwrap();
        let received = fixture.received().await;
        let new: Vec<_> = received
            .into_iter()
            .filter(|mail| mails.iter().all(|(_, seen)| seen.message_id != mail.message_id))
            .collect();
        assert_eq!(new.len(), 1);
        mails.push((notification, new[0].clone()));
    }
    mails
}

/// Seven-bit lines of at most 998 characters that end in CRLF (RFC 5322 section 2.1.1), without
/// anything a relay mends.
pub async fn a_mail_passes_through_every_relay(fixture: &dyn NotifierFixture) {
    for (_, mail) in mails_of_hostile_requests(fixture).await {
        let raw = String::from_utf8(mail.raw).unwrap();
        assert!(raw.is_ascii() && !raw.contains('\0') && raw.ends_with("\r\n"));
        for line in raw.split("\r\n") {
            assert!(line.len() <= 998 && !line.contains(['\r', '\n']), "{line:?}");
        }
    }
}

/// What was written is what is read, in the text as in the HTML, and none of it is markup.
pub async fn hostile_text_stays_text(fixture: &dyn NotifierFixture) {
    for (notification, mail) in mails_of_hostile_requests(fixture).await {
        let (text, html) = bodies(&mail);
        assert!(
            !text.contains('\r') && !html.contains('\r'),
            "a carriage return alone ends no line"
        );
        for markup in ["<script", "<img", "<b>"] {
            assert!(!html.contains(markup), "{markup}");
        }
        assert_eq!(html.matches("</html>").count(), 1);
        let shown = unescaped(&html);
        let order = &notification.order.order;
        let instructions = order.signing.special_instructions.as_deref().unwrap_or_default();
        let one_line = [
            order.file_number.as_str(),
            &order.signing.signer.name,
            &order.signing.property.address,
            &order.signing.signing_type,
            order.signing.lender.as_deref().unwrap_or_default(),
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

/// No header more, none less, and none but the subject and what differs from mail to mail says
/// anything else.
pub async fn hostile_text_changes_no_header(fixture: &dyn NotifierFixture) {
    let headers = |mail: &ReceivedMail| {
        let message = parsed(&mail.raw);
        ["From", "To", "Date", "Auto-Submitted", "MIME-Version"]
            .map(|name| message.header_raw(name).unwrap().to_owned())
    };
    let mails = mails_of_hostile_requests(fixture).await;
    let ordinary = &mails[0].1;
    for (_, mail) in &mails {
        assert_eq!(header_names(mail), header_names(ordinary));
        assert_eq!(headers(mail), headers(ordinary));
        assert_eq!(mail.to, ordinary.to);
        assert!(parsed(&mail.raw).subject().unwrap().contains("170017"));
    }
}
