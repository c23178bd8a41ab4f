//! The contract of `Notifier`. The content of mails is tested in the mail adapter.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use domain::{
    access::BusyKeyNotice,
    api_key::ApiKeyId,
    delivery::{Audience, Extent, MailSubject, Notification},
    document::{ObjectKey, StoredDocument},
    order::{EmailAddress, OrderId},
    person::{InvitationNotice, PersonId},
    ports::{NewOrder, Notice, Notifier, NotifyError},
    rejected::{RejectedNotice, RejectedWithCode},
    webhook::{DisabledBy, Endpoint, EndpointId, EndpointNotice, EventType},
};
use futures_util::future::join_all;
use mail_parser::{Address, MessageParser};
use serde_json::Value;
use time::{Duration, macros::datetime};

use crate::{
    fakes::CountingEntropy,
    samples::{self, minimal_request},
};

/// A mail that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMail {
    /// Its `Message-ID`.
    pub message_id: String,
    /// Its recipients.
    pub to: Vec<String>,
    /// The complete mail.
    pub raw: Vec<u8>,
}

impl ReceivedMail {
    /// Reads a mail and takes the recipients from its headers.
    pub fn parse(raw: Vec<u8>) -> Self {
        let mail = MessageParser::default().parse(&raw).unwrap();
        let named =
            [mail.to(), mail.cc(), mail.bcc()].into_iter().flatten().flat_map(Address::iter);
        let to = named.map(|one| one.address().unwrap().to_owned()).collect();
        Self { message_id: mail.message_id().unwrap().to_owned(), to, raw }
    }
}

/// A notifier under test, and access to what it sends.
#[async_trait]
pub trait NotifierFixture: Send + Sync {
    /// Returns the notifier.
    fn notifier(&self) -> Arc<dyn Notifier>;

    /// Returns every mail that was sent, in any order.
    async fn received(&self) -> Vec<ReceivedMail>;

    /// Makes the destination reject every mail.
    async fn break_down(&self);

    /// Makes the destination accept mails again.
    async fn recover(&self);
}

/// Returns a notification of the order of a valid request, with its own message key.
pub fn notification_of(request: Value, recipient: &str, entropy: &CountingEntropy) -> Notification {
    let recipient = EmailAddress::try_from(recipient.to_owned()).unwrap();
    let created_at = datetime!(2026-11-21 12:00:07.123456 UTC);
    let documents = ["Deed_of_Trust.pdf", "Closing_Disclosure.docx"].map(|name| StoredDocument {
        key: Some(ObjectKey::random(entropy)),
        name: name.to_owned(),
        name_as_sent: name.to_owned(),
        ..samples::document()
    });
    let new = NewOrder {
        order: samples::order(request),
        documents: documents.into(),
        ..samples::new_order("F-1", created_at)
    };
    let order = samples::stored(OrderId(170_017), &new);
    Notification {
        message_key: domain::webhook::message_key(entropy),
        recipient,
        subject: MailSubject::Created,
        audience: Audience::Client,
        extent: Extent::Whole,
        order,
        service: None,
        content: None,
        sequence: 0,
    }
}

async fn mail_of(fixture: &dyn NotifierFixture, notification: &Notification) -> ReceivedMail {
    fixture.notifier().notify(notification).await.unwrap();
    let mut received = fixture.received().await;
    assert_eq!(received.len(), 1);
    received.remove(0)
}

/// Other addresses of the order get nothing. A second delivery has the same `Message-ID`, so that
/// recipients can detect it.
pub async fn mail_goes_only_to_its_recipient(fixture: &dyn NotifierFixture) {
    let recipient = "observer@example.com";
    let notification = notification_of(minimal_request(), recipient, &CountingEntropy::default());
    let first = mail_of(fixture, &notification).await;
    assert_eq!(first.to, [recipient]);
    fixture.notifier().notify(&notification).await.unwrap();
    for mail in fixture.received().await {
        assert_eq!(mail.message_id, first.message_id);
    }
}

/// Equal notices have the same `Message-ID`, and others have others.
pub async fn notice_is_a_mail_to_its_recipient(fixture: &dyn NotifierFixture) {
    let recipient = || EmailAddress::try_from("it@title.example.com".to_owned()).unwrap();
    let failing = Endpoint {
        id: EndpointId(3),
        owner: samples::LIVE,
        key: None,
        url: "https://hooks.example/secret-path".to_owned(),
        events: EventType::OF_ORDERS.into(),
        description: None,
        created_at: samples::NOW,
        disabled: None,
        failing_since: Some(samples::NOW),
    };
    let disabled = Some((samples::NOW, DisabledBy::Gone));
    for (endpoint, mails) in [(failing.clone(), 1), (Endpoint { disabled, ..failing }, 2)] {
        let notice = Notice::Endpoint(EndpointNotice::new(endpoint, recipient()));
        for _ in 0..2 {
            fixture.notifier().tell(&notice).await.unwrap();
        }
        let received = fixture.received().await;
        assert!(received.iter().all(|mail| mail.to == ["it@title.example.com"]));
        let ids: BTreeSet<_> = received.iter().map(|mail| &mail.message_id).collect();
        assert_eq!(ids.len(), mails);
    }
    let busy = BusyKeyNotice {
        key: ApiKeyId(3),
        name: "ключ \"7\"".to_owned(),
        orders: 501,
        at: samples::NOW,
        recipient: recipient(),
    };
    let later = BusyKeyNotice { at: samples::NOW + Duration::HOUR, ..busy.clone() };
    let rejected = RejectedNotice {
        key: ApiKeyId(3),
        names: ["ключ \"7\"".to_owned()].into(),
        since: samples::NOW,
        at: samples::NOW,
        by_code: [("validation_failed".to_owned(), RejectedWithCode::default())].into(),
        recipient: recipient(),
    };
    let invitation = InvitationNotice {
        person: PersonId(3),
        side: Some("Ключ \"7\"".to_owned()),
        by: None,
        link: format!("https://orders.example.com/console#invite={}", "é".repeat(1_000)),
        at: samples::NOW,
        expires_at: samples::NOW + Duration::days(7),
        recipient: recipient(),
    };
    let notices = [
        Notice::BusyKey(busy),
        Notice::BusyKey(later),
        Notice::Rejected(rejected),
        Notice::Invitation(invitation),
    ];
    for (notice, mails) in notices.into_iter().zip(3..) {
        for _ in 0..2 {
            fixture.notifier().tell(&notice).await.unwrap();
        }
        let received = fixture.received().await;
        let ids: BTreeSet<_> = received.iter().map(|mail| &mail.message_id).collect();
        assert_eq!(ids.len(), mails);
    }
}

/// Every address that the domain accepts gets mail, and each notification is its own mail, also of
/// one recipient.
pub async fn unusual_addresses_get_their_mail(fixture: &dyn NotifierFixture) {
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
        "a@b".to_owned(),
    ];
    for address in &odd {
        let notification = notification_of(minimal_request(), address, &entropy);
        fixture.notifier().notify(&notification).await.unwrap();
    }
    let received = fixture.received().await;
    let mut reached: Vec<_> = received.iter().map(|mail| mail.to.join(",")).collect();
    let mut expected = odd.to_vec();
    reached.sort_unstable();
    expected.sort_unstable();
    assert_eq!(reached, expected);
    let ids: BTreeSet<_> = received.iter().map(|mail| &mail.message_id).collect();
    assert_eq!(ids.len(), odd.len());
}

/// Covers concurrent checks.
pub async fn check_sends_no_mail(fixture: &dyn NotifierFixture) {
    let notifier = fixture.notifier();
    join_all((0..16).map(|_| notifier.check())).await.into_iter().for_each(Result::unwrap);
    assert_eq!(fixture.received().await, []);
}

/// Covers a new mail, a mail that was sent before, and a check. The outage ends without a restart,
/// and the mail of the outage arrives once.
pub async fn outage_is_unavailable(fixture: &dyn NotifierFixture) {
    let entropy = CountingEntropy::default();
    let [before, meanwhile] = ["before@example.com", "meanwhile@example.com"]
        .map(|recipient| notification_of(minimal_request(), recipient, &entropy));
    fixture.notifier().notify(&before).await.unwrap();
    fixture.break_down().await;
    for notification in [&before, &meanwhile] {
        let result = fixture.notifier().notify(notification).await;
        assert!(matches!(result, Err(NotifyError::Unavailable(_))), "{result:?}");
    }
    let checked = fixture.notifier().check().await;
    assert!(matches!(checked, Err(NotifyError::Unavailable(_))), "{checked:?}");
    let mails = async || {
        let received = fixture.received().await.into_iter();
        received.filter(|mail| mail.to == ["meanwhile@example.com"]).count()
    };
    assert_eq!(mails().await, 0);
    fixture.recover().await;
    fixture.notifier().check().await.unwrap();
    fixture.notifier().notify(&meanwhile).await.unwrap();
    assert_eq!(mails().await, 1);
}
