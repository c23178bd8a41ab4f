//! Deliveries: the mails that follow an order, and when they are retried.
//!
//! Retry schedule: [`FIRST_DELAY`], [`MAX_DELAY`] and [`OUTAGE_DELAY`]. Age limit: [`MAX_AGE`].

use time::{Duration, OffsetDateTime};

use crate::{
    document::StoredDocument,
    entropy::Entropy,
    order::{Actor, EmailAddress, Order, OrderId, OrderStatus, StoredOrder},
    signing_service::SigningService,
    webhook::{ChangedOrder, EventChange, EventType},
};

pub use crate::order::event::MailContent;

/// Delay after the first failed attempt. Every further failure doubles the delay.
pub const FIRST_DELAY: Duration = Duration::seconds(5);

/// Longest delay between two attempts.
pub const MAX_DELAY: Duration = Duration::HOUR;

/// Delay while no mail can be delivered. It does not grow, so that mails go out soon after the
/// relay is back.
pub const OUTAGE_DELAY: Duration = Duration::seconds(4);

/// Delays before a mail is repeated whose outcome is unknown: the relay had all of it, and did not say
/// whether it accepted it. The recipient may get each repetition as a copy, so they are few and rare.
pub const UNKNOWN_DELAYS: [Duration; 3] =
    [Duration::hours(1), Duration::hours(4), Duration::hours(12)];

/// Age at which a delivery that still fails, fails for good. RFC 5321, section 4.5.4.1, recommends
/// four to five days.
pub const MAX_AGE: Duration = Duration::days(5);

/// Number of attempts before a delivery fails for good by its age: they take some ten hours.
pub const FEWEST_ATTEMPTS: u32 = 20;

/// Duration of a lease. After a crash of its process, a delivery waits so long on a database with several instances.
/// A webhook takes half of it, and a mail that takes longer renews its lease.
pub const LEASE: Duration = Duration::seconds(30);

/// Time after which no lease and no claim to an idempotency key ends: leases of version 0.1.0 take two
/// minutes, and the time of instances differs by less than that. One that ends later was taken while a
/// clock was wrong, so it is free.
pub const FARTHEST_LEASE: Duration = Duration::minutes(4);

/// Time after which no attempt is in progress that began before: a relay has 20 minutes for a mail (RFC
/// 5321, section 4.5.3.2), and clocks of instances differ by less than the rest.
pub const LONGEST_ATTEMPT: Duration = Duration::minutes(24);

/// Time after which no delivery that waits is due: no delay of a mail or a webhook is longer. One that is due later was
/// put off while a clock was ahead.
pub const FARTHEST_DUE: Duration = Duration::hours(30);

/// Returns the beginning of the hour of the clock in which mails to a recipient are counted.
pub fn counted_hour(now: OffsetDateTime) -> OffsetDateTime {
    let into_hour = now.unix_timestamp_nanos().rem_euclid(Duration::HOUR.whole_nanoseconds());
    now.saturating_sub(Duration::nanoseconds_i128(into_hour))
}

/// Returns when the mail of that number in an hour is due, if the recipient gets `limit` mails an hour.
/// Mails above the limit spread over the next hours, so that none is looked at each hour in vain. The
/// recipient of a cancellation must not keep an appointment, so it comes first in the next hour.
pub fn due_within_limit(
    now: OffsetDateTime,
    number: u64,
    limit: u64,
    subject: MailSubject,
) -> OffsetDateTime {
    /// Erased and cancelled orders may make room earlier.
    const FARTHEST: u64 = 24;
    let next = counted_hour(now).saturating_add(Duration::HOUR);
    if subject == MailSubject::Cancelled {
        return next.saturating_sub(Duration::MICROSECOND);
    }
    let hours = (number.saturating_sub(1) / limit.max(1)).clamp(1, FARTHEST) - 1;
    next.saturating_add(Duration::HOUR * i32::try_from(hours).unwrap_or_default())
}

/// How long a mail waits for more news of its kind ([`MailSubject::gathers`]): until none has come for a while,
/// and no longer than [`Self::LONGEST`] after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settling(Duration);

impl Settling {
    /// Each news has a mail that leaves at once.
    pub const NONE: Self = Self(Duration::ZERO);

    /// Default time without news, in seconds.
    pub const DEFAULT_SECS: u32 = 30;

    /// Longest time between the first news and the mail.
    pub const LONGEST: Duration = Duration::minutes(2);

    /// Returns the wait for so many seconds without news.
    pub fn of_secs(secs: u32) -> Self {
        Self(Duration::seconds(secs.into()).min(Self::LONGEST))
    }

    /// Returns when a mail is due whose first news happened at `first`, and whose last at `last`.
    pub fn due_at(self, first: OffsetDateTime, last: OffsetDateTime) -> OffsetDateTime {
        last.saturating_add(self.0).min(first.saturating_add(Self::LONGEST))
    }
}

/// Identifier of a delivery, assigned by the queue; positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(pub i64);

/// The news of a mail about an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MailSubject {
    /// The order was created.
    Created,
    /// Documents were added to it.
    DocumentsAdded,
    /// It was cancelled.
    Cancelled,
    /// It was cancelled, and is not any more.
    Reinstated,
    /// The client has changed it.
    Changed,
    /// It has a notary, or another one.
    NotaryAssigned,
    /// It is assigned again, with the notary of before: its confirmation or outcome does not hold any more.
    AssignedAgain,
    /// The appointment is confirmed.
    Confirmed,
    /// The documents are signed.
    Signed,
    /// The signing has taken place without signatures, or not at all.
    NotSigned,
    /// The signing service has returned signed documents.
    SignedDocumentsAdded,
    /// The client has replaced a document.
    DocumentReplaced,
    /// The client has withdrawn a document that the signing service had fetched.
    DocumentWithdrawn,
    /// The signing service has withdrawn a signed document that the client had fetched.
    SignedDocumentWithdrawn,
    /// One side has written a note to the other.
    NoteAdded,
}

impl MailSubject {
    /// The mails that tell all fields of an order, and whether its appointment must be confirmed again: their
    /// recipients know the changes before.
    pub const WHOLE: [Self; 3] = [Self::Changed, Self::Created, Self::Reinstated];

    /// Returns the subject of the mails that follow an event; `None` if no mail follows it.
    pub fn of(event: EventType, change: Option<&EventChange>) -> Option<Self> {
        match event {
            EventType::OrderCreated => Some(Self::Created),
            EventType::DocumentsAdded => Some(Self::DocumentsAdded),
            EventType::OrderCancelled => Some(Self::Cancelled),
            EventType::OrderUpdated => Self::of_update(change.and_then(EventChange::order)?),
            EventType::OrderChanged => match change {
                Some(EventChange::Fields { changed }) if !are_news(changed) => None,
                _ => Some(Self::Changed),
            },
            EventType::NoteAdded => Some(Self::NoteAdded),
            EventType::SignedDocumentsAdded => Some(Self::SignedDocumentsAdded),
            EventType::DocumentsReplaced => Some(Self::DocumentReplaced),
            EventType::DocumentWithdrawn => match change? {
                EventChange::Documents { actor: Actor::Service, .. } => {
                    Some(Self::SignedDocumentWithdrawn)
                }
                _ => Some(Self::DocumentWithdrawn),
            },
            EventType::OrderErased | EventType::Test => None,
        }
    }

    /// Returns the subject of the mails that follow a change of status or notary. A change of both has
    /// one, which names the notary.
    fn of_update(change: &ChangedOrder) -> Option<Self> {
        if change.reinstates() {
            return Some(Self::Reinstated);
        }
        // The client has moved a confirmed appointment. The mail about its change says so.
        if change.actor == Actor::Client {
            return None;
        }
        let now = Self::of_status(&change.order_status);
        // The mail of documents that are not signed has another reason or notary, too.
        if change.order_status == change.previous_status && now != Some(Self::NotSigned) {
            return Some(Self::NotaryAssigned);
        }
        if now.is_some() {
            return now;
        }
        let is_assigned = change.order_status == OrderStatus::ASSIGNED.as_str();
        // A completed order was signed.
        let was_told = change.previous_status == OrderStatus::COMPLETED.as_str()
            || Self::of_status(&change.previous_status).is_some();
        match change.notary_changed {
            Some(true) => Some(Self::NotaryAssigned),
            Some(false) => (is_assigned && was_told).then_some(Self::AssignedAgain),
            None => is_assigned.then_some(Self::NotaryAssigned),
        }
    }

    /// Returns the mail that a status causes, whatever the notary is.
    fn of_status(status: &str) -> Option<Self> {
        let told = [
            (OrderStatus::CONFIRMED, Self::Confirmed),
            (OrderStatus::SIGNED, Self::Signed),
            (OrderStatus::DID_NOT_SIGN, Self::NotSigned),
        ];
        told.into_iter().find(|(known, _)| known.as_str() == status).map(|(_, subject)| subject)
    }

    /// Returns whether one side of an order gets the mails. Those of a cancellation go to the addresses
    /// that know the order, and those of a note to the other side.
    pub fn is_for(self, audience: Audience, change: Option<&EventChange>) -> bool {
        match self {
            Self::Created | Self::Reinstated | Self::Changed => true,
            Self::NoteAdded => match change {
                Some(EventChange::Note { author: Actor::Client }) => audience == Audience::Service,
                Some(EventChange::Note { author: Actor::Service }) => audience == Audience::Client,
                _ => true,
            },
            Self::DocumentsAdded | Self::DocumentReplaced | Self::DocumentWithdrawn => {
                audience == Audience::Service
            }
            Self::NotaryAssigned
            | Self::AssignedAgain
            | Self::Confirmed
            | Self::Signed
            | Self::NotSigned
            | Self::SignedDocumentsAdded
            | Self::SignedDocumentWithdrawn => audience == Audience::Client,
            Self::Cancelled => false,
        }
    }

    /// Returns whether news of this kind gather: a mail waits for more of it, and tells of all.
    pub fn gathers(self) -> bool {
        matches!(
            self,
            Self::Changed
                | Self::DocumentsAdded
                | Self::DocumentReplaced
                | Self::DocumentWithdrawn
                | Self::SignedDocumentsAdded
                | Self::SignedDocumentWithdrawn
                | Self::NoteAdded
        )
    }

    /// Returns whether a mail of this kind that waits takes later news of its kind: it tells the order as it is when
    /// it leaves. An order is created once.
    pub fn joins(self) -> bool {
        self != Self::Created
    }

    /// Returns whether the news since an instant, with its content, is still true of an order. A late mail must not
    /// put a cancelled appointment back into a calendar, remove one that takes place, ask for documents that
    /// are withdrawn, name a notary that another one has replaced, or tell of changes that are undone.
    pub fn is_true_of(
        self,
        content: Option<&MailContent>,
        since: OffsetDateTime,
        order: &StoredOrder,
    ) -> bool {
        let is_cancelled = order.status == OrderStatus::CANCELLED;
        let is_over = is_cancelled || order.status == OrderStatus::DID_NOT_SIGN;
        let any_of = |documents: &[StoredDocument], holds: fn(&StoredDocument) -> bool| {
            let mut found = (0..).zip(documents).filter(|(_, one)| holds(one));
            found.any(|(position, _)| match content {
                Some(MailContent::Documents(positions)) => positions.contains(&position),
                _ => true,
            })
        };
        let is_there = |documents: &[StoredDocument]| {
            !matches!(content, Some(MailContent::Documents(_)))
                || any_of(documents, |one| one.withdrawn_at.is_none())
        };
        match self {
            Self::Cancelled => is_cancelled,
            Self::NotaryAssigned => {
                let is_of_now = match content {
                    Some(MailContent::Notary(then)) => then.is_of(order),
                    _ => true,
                };
                is_of_now && !is_over && (order.notary_id.is_some() || order.notary.is_some())
            }
            Self::AssignedAgain => order.status == OrderStatus::ASSIGNED,
            Self::Confirmed => order.status == OrderStatus::CONFIRMED,
            Self::Signed => [OrderStatus::SIGNED, OrderStatus::COMPLETED].contains(&order.status),
            Self::NotSigned => order.status == OrderStatus::DID_NOT_SIGN,
            // Each side may still explain.
            Self::NoteAdded => true,
            // The papers are there, whatever became of the order.
            Self::SignedDocumentsAdded => is_there(&order.signed_documents),
            Self::DocumentsAdded | Self::DocumentReplaced => {
                !is_cancelled && any_of(&order.documents, StoredDocument::is_current)
            }
            // Whoever has a copy should not use it, whatever became of the order.
            Self::DocumentWithdrawn => any_of(&order.documents, StoredDocument::is_recalled),
            Self::SignedDocumentWithdrawn => {
                any_of(&order.signed_documents, StoredDocument::is_recalled)
            }
            Self::Changed => {
                !is_cancelled
                    && (is_changed(content, &order.order)
                        || order.must_be_confirmed_again_since().is_some_and(|at| at >= since))
            }
            Self::Created | Self::Reinstated => !is_cancelled,
        }
    }

    /// Returns the name in storage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::DocumentsAdded => "documents_added",
            Self::Cancelled => "cancelled",
            Self::Reinstated => "reinstated",
            Self::Changed => "changed",
            Self::NotaryAssigned => "notary_assigned",
            Self::AssignedAgain => "assigned_again",
            Self::Confirmed => "confirmed",
            Self::Signed => "signed",
            Self::NotSigned => "not_signed",
            Self::SignedDocumentsAdded => "signed_documents_added",
            Self::DocumentReplaced => "document_replaced",
            Self::DocumentWithdrawn => "document_withdrawn",
            Self::SignedDocumentWithdrawn => "signed_document_withdrawn",
            Self::NoteAdded => "note_added",
        }
    }

    /// All subjects.
    pub const ALL: [Self; 15] = [
        Self::Created,
        Self::DocumentsAdded,
        Self::Cancelled,
        Self::Reinstated,
        Self::Changed,
        Self::NotaryAssigned,
        Self::AssignedAgain,
        Self::Confirmed,
        Self::Signed,
        Self::NotSigned,
        Self::SignedDocumentsAdded,
        Self::DocumentReplaced,
        Self::DocumentWithdrawn,
        Self::SignedDocumentWithdrawn,
        Self::NoteAdded,
    ];

    /// Returns the subject of a name; `None` if it is none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subject| subject.as_str() == name)
    }
}

/// Returns whether somebody acts on changed fields. Nobody does on who has sent a request.
fn are_news(changed: &[String]) -> bool {
    changed.iter().any(|field| !field.starts_with("/requestedBy/"))
}

/// Returns whether an order differs from the one before a change. Without readable values, it may.
fn is_changed(content: Option<&MailContent>, order: &Order) -> bool {
    let Some(MailContent::Previous(before)) = content else { return true };
    let Ok(before) = before.clone().into_order() else { return true };
    are_news(&before.fields_changed_by(order))
}

/// The mails that the service sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mails {
    /// All.
    #[default]
    Full,
    /// Those about appointments and signed documents.
    Essential,
}

impl Mails {
    /// Returns whether a mail is sent.
    pub fn include(self, subject: MailSubject) -> bool {
        use MailSubject::{Cancelled, Changed, Created, Reinstated, SignedDocumentsAdded};
        self == Self::Full
            || matches!(subject, Created | Changed | Cancelled | Reinstated | SignedDocumentsAdded)
    }
}

/// The reader of a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Audience {
    /// A contact of the order.
    Client,
    /// The signing service, which needs everything to dispatch a notary.
    Service,
}

/// A mail that follows an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// Random key of the mail. The `Message-ID` is derived from it, so recipients can detect a
    /// second delivery.
    pub message_key: String,
    /// Address that receives the mail.
    pub recipient: EmailAddress,
    /// The news of the mail.
    pub subject: MailSubject,
    /// Its reader.
    pub audience: Audience,
    /// The content that it has besides the order.
    pub content: Option<MailContent>,
}

/// How much of an order a mail may tell its recipient when it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The news, with the order as it is.
    Whole,
    /// That the order is cancelled, without its values: the recipient knew the order, and is no party of it
    /// any more.
    EndOnly,
}

impl NewDelivery {
    /// Joins later news of the same order to this mail, which has not left. Returns `false` and changes nothing
    /// if they are of another kind or for another recipient, or if one mail cannot tell of both. The mail
    /// becomes another one with another key: a relay may have taken the former without saying so.
    pub fn join(&mut self, later: &Self) -> bool {
        let is_same = self.subject == later.subject && self.is_for_reader_of(later);
        if !is_same || !self.subject.joins() {
            return false;
        }
        let content = match (&self.content, &later.content) {
            (Some(first), Some(later)) => match first.joined(later) {
                None => return false,
                joined => joined,
            },
            (None, None) => None,
            _ => return false,
        };
        self.content = content;
        self.message_key.clone_from(&later.message_key);
        true
    }

    /// Returns whether this mail tells also what a later one about changed fields of the same order tells: it has not
    /// left, and tells all of the order as it is then.
    pub fn tells(&self, later: &Self) -> bool {
        MailSubject::WHOLE.contains(&self.subject)
            && later.subject == MailSubject::Changed
            && self.is_for_reader_of(later)
    }

    fn is_for_reader_of(&self, other: &Self) -> bool {
        self.audience == other.audience && self.recipient.is_same_as(&other.recipient)
    }

    /// Returns how much of its order the mail may tell now; `None` if it must not leave. A mail may wait for
    /// hours, and its side may have another address since: a wrong address must not get later values.
    pub fn extent(&self, order: &StoredOrder, service: Option<&SigningService>) -> Option<Extent> {
        let is_recipient = |address: &EmailAddress| address.is_same_as(&self.recipient);
        let is_party = match self.audience {
            Audience::Client => order.order.contacts.recipients().iter().any(is_recipient),
            Audience::Service => service.is_some_and(|service| {
                service.id == order.order.signing_service_id
                    && service.emails.iter().any(is_recipient)
            }),
        };
        match self.subject {
            _ if is_party => Some(Extent::Whole),
            MailSubject::Cancelled => Some(Extent::EndOnly),
            _ => None,
        }
    }
}

/// An address that was told of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// The order.
    pub order_id: OrderId,
    /// The address.
    pub address: EmailAddress,
    /// Its reader.
    pub audience: Audience,
    /// The version of the order that its last mail with all fields had ([`MailSubject::WHOLE`]). Changes up to it
    /// are told.
    pub changes_told_at: Option<OffsetDateTime>,
}

/// A delivery in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its identifier.
    pub id: DeliveryId,
    /// The order that the mail is about.
    pub order_id: OrderId,
    /// The mail.
    pub task: NewDelivery,
    /// Number of failed attempts.
    pub attempts: u32,
    /// Number of those whose outcome is unknown.
    pub unknown_outcomes: u32,
    /// Instant of the event that it follows.
    pub created_at: OffsetDateTime,
    /// Instant of the next attempt.
    pub due_at: OffsetDateTime,
    /// Instant at which it failed for good. It waits for an operator since then.
    pub failed_at: Option<OffsetDateTime>,
    /// Error of the last failed attempt.
    pub last_error: Option<String>,
}

impl Delivery {
    /// Returns when to retry after an attempt that failed at `now`, in an outage or not. Returns
    /// `None` if the delivery fails for good. `self.attempts` does not include this attempt.
    ///
    /// The delay has a random part, at most half of it, so that deliveries that failed together are
    /// not retried together.
    pub fn next_attempt(
        &self,
        now: OffsetDateTime,
        is_outage: bool,
        entropy: &dyn Entropy,
    ) -> Option<OffsetDateTime> {
        // A mail may have waited for the limit of its recipient or for its operator. It gets its retries nevertheless.
        if now - self.created_at >= MAX_AGE && self.attempts >= FEWEST_ATTEMPTS {
            return None;
        }
        // 2^20 times the first delay exceeds the longest delay.
        let growing = FIRST_DELAY * (1_i32 << self.attempts.min(20));
        let delay = if is_outage { OUTAGE_DELAY } else { growing.min(MAX_DELAY) };
        Some(now + delay * (0.5 + entropy.fraction() / 2.0))
    }

    /// Returns when to repeat after an attempt at `now` whose outcome is unknown; `None` if the delivery
    /// fails for good.
    pub fn next_after_unknown(&self, now: OffsetDateTime) -> Option<OffsetDateTime> {
        let before = usize::try_from(self.unknown_outcomes).unwrap_or(usize::MAX);
        let delay = UNKNOWN_DELAYS.get(before)?;
        Some(now.saturating_add(*delay))
    }
}

/// The content of a mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Random key of the mail, equal for every attempt.
    pub message_key: String,
    /// Address that receives the mail.
    pub recipient: EmailAddress,
    /// The news of the mail.
    pub subject: MailSubject,
    /// Its reader.
    pub audience: Audience,
    /// How much of the order it tells.
    pub extent: Extent,
    /// The order that the mail is about. One with a status of
    /// [`OrderStatus::TOLD_WITH_HISTORY`] has its changes.
    pub order: StoredOrder,
    /// The record of its signing service, if there is one.
    pub service: Option<SigningService>,
    /// The content that it has besides the order.
    pub content: Option<MailContent>,
    /// Number of changes of the order, which counts up. Calendars keep the appointment with the
    /// greatest.
    pub sequence: u32,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::*;
    use crate::{
        order::{
            ChangeKind, Notary, OrderChange, SigningServiceId,
            event::{MAX_NOTES_OF_A_MAIL, NotaryThen, NoteThen},
            record::OrderColumns,
        },
        ports::MockEntropy,
        test_support::{CountingEntropy, delivery, document, stored_order},
    };

    const START: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    #[test]
    fn mail_tells_its_recipient_what_its_side_may_know_now() {
        let address = |text: &str| EmailAddress::try_from(text.to_owned()).unwrap();
        let mut order = stored_order(START);
        order.order.contacts.observer = Some(address("observer@example.com"));
        let service = SigningService {
            id: order.order.signing_service_id,
            name: "Best Signings".to_owned(),
            emails: vec![address("Dispatch@service.example.com")],
        };
        let foreign = SigningService { id: SigningServiceId(43), ..service.clone() };
        let (client, dispatch) = (Audience::Client, Audience::Service);
        for (recipient, audience, service, is_party) in [
            ("OBSERVER@example.com", client, None, true),
            ("dispatch@service.example.com", dispatch, Some(&service), true),
            ("wrong@example.com", client, Some(&service), false),
            // Each side has mails of its own.
            ("observer@example.com", dispatch, Some(&service), false),
            ("dispatch@service.example.com", client, Some(&service), false),
            ("dispatch@service.example.com", dispatch, None, false),
            ("dispatch@service.example.com", dispatch, Some(&foreign), false),
        ] {
            for subject in MailSubject::ALL {
                let recipient = address(recipient);
                let mail = NewDelivery { recipient, subject, audience, ..delivery(START).task };
                let expected = match subject {
                    _ if is_party => Some(Extent::Whole),
                    MailSubject::Cancelled => Some(Extent::EndOnly),
                    _ => None,
                };
                assert_eq!(mail.extent(&order, service), expected, "{mail:?}");
            }
        }
    }

    #[test]
    fn news_settle_after_half_a_minute_and_within_two() {
        let second = |second: i64| START + Duration::seconds(second);
        let settling = Settling::of_secs(Settling::DEFAULT_SECS);
        for (last, due) in [(0, 30), (29, 59), (89, 119), (90, 120), (91, 120), (119, 120)] {
            assert_eq!(settling.due_at(START, second(last)), second(due), "{last}");
        }
        assert_eq!(Settling::NONE.due_at(START, second(7)), second(7));
        assert_eq!(Settling::of_secs(0), Settling::NONE);
        assert_eq!(Settling::of_secs(u32::MAX).due_at(START, START), second(120));
    }

    fn mail(subject: MailSubject, content: Option<MailContent>) -> NewDelivery {
        NewDelivery { subject, content, ..delivery(START).task }
    }

    fn note(author: Actor, text: &str) -> MailContent {
        MailContent::Note { author, text: text.to_owned() }
    }

    fn notary(notary_id: i64) -> MailContent {
        MailContent::Notary(NotaryThen { notary_id: Some(notary_id), notary: None })
    }

    #[test]
    fn mail_with_all_of_an_order_tells_its_later_changes() {
        let later = mail(MailSubject::Changed, None);
        let other = EmailAddress::from_stored("other@example.com".to_owned());
        for subject in MailSubject::ALL {
            let first = NewDelivery {
                recipient: EmailAddress::from_stored(later.recipient.as_str().to_uppercase()),
                ..mail(subject, None)
            };
            let is_whole = MailSubject::WHOLE.contains(&subject);
            assert_eq!(first.tells(&later), is_whole, "{subject:?}");
            assert!(!first.tells(&NewDelivery { recipient: other.clone(), ..later.clone() }));
            assert!(!first.tells(&NewDelivery { audience: Audience::Service, ..later.clone() }));
            assert!(!first.tells(&mail(MailSubject::NoteAdded, None)));
        }
    }

    /// The values before the first change are those that the recipient knows.
    #[test]
    fn joined_mail_has_the_first_values_all_documents_and_all_notes() {
        use MailContent::{Documents, Notes, Previous};
        let [old, new] = [START, START + Duration::DAY].map(|at| {
            let mut order = stored_order(START).order;
            order.appointment.date = at.date();
            OrderColumns::of(&order).unwrap()
        });
        let then = |author, text: &str| NoteThen { author, text: text.to_owned() };
        let (client, operator) = (Actor::Client, Actor::Operator);
        let two = Notes(vec![then(client, "a"), then(operator, "b")]);
        let three = vec![then(client, "a"), then(operator, "b"), then(client, "c")];
        let (changed, added, noted) =
            (MailSubject::Changed, MailSubject::DocumentsAdded, MailSubject::NoteAdded);
        for (subject, first, later, joined) in [
            (changed, Previous(old.clone()), Previous(new), Previous(old)),
            (added, Documents(vec![2, 3]), Documents(vec![3, 1]), Documents(vec![1, 2, 3])),
            (MailSubject::Confirmed, notary(7), notary(8), notary(8)),
            (MailSubject::NotaryAssigned, notary(7), notary(8), notary(8)),
            (noted, note(client, "a"), note(operator, "b"), two.clone()),
            (noted, two, note(client, "c"), Notes(three)),
        ] {
            let mut one = mail(subject, Some(first));
            let other = NewDelivery {
                message_key: "other".to_owned(),
                recipient: EmailAddress::from_stored(one.recipient.as_str().to_uppercase()),
                ..mail(subject, Some(later))
            };
            let expected = NewDelivery {
                message_key: "other".to_owned(),
                content: Some(joined),
                ..one.clone()
            };
            assert!(one.join(&other));
            assert!(one == expected, "{subject:?}");
        }
    }

    #[test]
    fn mails_that_are_not_of_one_kind_and_recipient_do_not_join() {
        use MailSubject::{
            AssignedAgain, Cancelled, Confirmed, Created, NotSigned, NotaryAssigned, Reinstated,
            Signed,
        };

        let first = mail(MailSubject::NoteAdded, Some(note(Actor::Client, "a")));
        let long = note(Actor::Client, &"x".repeat(MAX_NOTES_OF_A_MAIL));
        let other = EmailAddress::from_stored("other@example.com".to_owned());
        for later in [
            mail(MailSubject::Changed, None),
            mail(MailSubject::NoteAdded, Some(long)),
            // What this version cannot read.
            mail(MailSubject::NoteAdded, None),
            mail(MailSubject::NoteAdded, Some(MailContent::Documents(vec![1]))),
            NewDelivery { recipient: other, ..first.clone() },
            NewDelivery { audience: Audience::Service, ..first.clone() },
        ] {
            let mut joined = first.clone();
            assert!(!joined.join(&later) && joined == first, "{:?}", later.subject);
        }
        for subject in MailSubject::ALL {
            let joins = mail(subject, None).join(&mail(subject, None));
            assert_eq!(joins, subject != Created, "{subject:?}");
        }
        let leave_at_once = MailSubject::ALL.into_iter().filter(|subject| !subject.gathers());
        assert_eq!(
            leave_at_once.collect::<Vec<_>>(),
            [
                Created,
                Cancelled,
                Reinstated,
                NotaryAssigned,
                AssignedAgain,
                Confirmed,
                Signed,
                NotSigned
            ]
        );
    }

    /// Nobody acts on who has sent a request. A mail without readable values is better than none.
    #[test]
    fn changes_that_are_undone_are_no_news() {
        let before = stored_order(START);
        let record = OrderColumns::of(&before.order).unwrap();
        let previous = MailContent::Previous(record.clone());
        let is_news = |content: &MailContent, order: &StoredOrder| {
            MailSubject::Changed.is_true_of(Some(content), START, order)
        };
        assert!(!is_news(&previous, &before));
        let mut by_another = before.clone();
        by_another.order.requested_by.user_id += 1;
        assert!(!is_news(&previous, &by_another));
        let mut changed = before.clone();
        changed.order.signing.lender = Some("A bank".to_owned());
        assert!(is_news(&previous, &changed));
        changed.status = OrderStatus::CANCELLED;
        assert!(!is_news(&previous, &changed));
        let unreadable = OrderColumns { details: String::new(), ..record };
        assert!(is_news(&MailContent::Previous(unreadable), &before));
    }

    /// A recipient would call the wrong notary, or the wrong number.
    #[test]
    fn notary_that_another_one_has_replaced_is_no_news() {
        let named = |phone: &str| Notary {
            name: "Nora".to_owned(),
            phone: Some(phone.to_owned()),
            email: None,
        };
        let order = |notary_id, notary| StoredOrder { notary_id, notary, ..stored_order(START) };
        let [old, new] = ["214 555 0177", "214 555 0178"].map(|phone| Some(named(phone)));
        for (now, expected) in [
            (order(Some(7), old.clone()), true),
            (order(Some(8), old.clone()), false),
            (order(Some(7), new), false),
            (order(Some(7), None), false),
            (order(None, None), false),
        ] {
            let content =
                MailContent::Notary(NotaryThen { notary_id: Some(7), notary: old.clone() });
            let found = MailSubject::NotaryAssigned.is_true_of(Some(&content), START, &now);
            assert_eq!(found, expected, "{:?}", now.notary_id);
        }
        let nobody = MailContent::Notary(NotaryThen { notary_id: None, notary: None });
        let found =
            MailSubject::NotaryAssigned.is_true_of(Some(&nobody), START, &order(None, None));
        assert!(!found, "an order without a notary");
    }

    /// A mail before the later change has told it.
    #[test]
    fn appointment_that_had_to_be_confirmed_again_before_is_no_news() {
        let change = |status: OrderStatus, actor, at| OrderChange {
            kind: ChangeKind::Status,
            status,
            actor,
            ..OrderChange::created(at)
        };
        let ended = START + Duration::MICROSECOND;
        let changes = vec![
            change(OrderStatus::CONFIRMED, Actor::Service, START - Duration::HOUR),
            change(OrderStatus::ASSIGNED, Actor::Client, ended),
        ];
        let order = StoredOrder { status: OrderStatus::ASSIGNED, changes, ..stored_order(START) };
        let equal = MailContent::Previous(OrderColumns::of(&order.order).unwrap());
        for (since, expected) in [(START, true), (ended, true), (START + Duration::SECOND, false)] {
            let found = MailSubject::Changed.is_true_of(Some(&equal), since, &order);
            assert_eq!(found, expected, "{since}");
        }
    }

    #[test]
    fn delivery_fails_for_good_after_five_days() {
        let entropy = CountingEntropy::default();
        let end = START + Duration::days(5);
        for attempts in [FEWEST_ATTEMPTS, 98] {
            let delivery = Delivery { attempts, ..delivery(START) };
            let last = end - Duration::SECOND;
            for is_outage in [false, true] {
                assert!(delivery.next_attempt(last, is_outage, &entropy).is_some());
                assert_eq!(delivery.next_attempt(end, is_outage, &entropy), None);
            }
        }
        let waited = Delivery { attempts: FEWEST_ATTEMPTS - 1, ..delivery(START) };
        assert!(waited.next_attempt(end, false, &entropy).is_some(), "it waited for the limit");
    }

    #[test]
    fn no_mail_waits_longer_than_the_farthest_due() {
        let entropy = entropy_of([u8::MAX; 4]);
        let attempts = (0..30).map(|attempts| Delivery { attempts, ..delivery(START) });
        let retries = attempts.filter_map(|mail| mail.next_attempt(START, false, &entropy));
        let unknown =
            (0..3).map(|unknown_outcomes| Delivery { unknown_outcomes, ..delivery(START) });
        let repeats = unknown.filter_map(|mail| mail.next_after_unknown(START));
        let over_limit = due_within_limit(START, u64::MAX, 1, MailSubject::Created);
        let latest = retries.chain(repeats).chain([over_limit]).max().unwrap();
        assert!(latest - START <= FARTHEST_DUE, "{latest}");
    }

    fn change(previous_status: &str, order_status: &str, notary_id: Option<i64>) -> ChangedOrder {
        ChangedOrder {
            order_status: order_status.to_owned(),
            previous_status: previous_status.to_owned(),
            notary_id,
            actor: Actor::Service,
            notary_changed: None,
        }
    }

    #[test]
    fn change_of_status_or_notary_has_the_mail_of_its_news() {
        for (change, subject) in [
            (change("NEW", "ASSIGNED", Some(7)), Some(MailSubject::NotaryAssigned)),
            (change("NEW", "NEW", Some(7)), Some(MailSubject::NotaryAssigned)),
            (change("ASSIGNED", "CONFIRMED", Some(7)), Some(MailSubject::Confirmed)),
            (change("CONFIRMED", "SIGNED", Some(7)), Some(MailSubject::Signed)),
            (change("CONFIRMED", "DID_NOT_SIGN", Some(7)), Some(MailSubject::NotSigned)),
            (change("CANCELLED", "CONFIRMED", Some(7)), Some(MailSubject::Reinstated)),
            (change("SIGNED", "COMPLETED", Some(7)), None),
            (change("NEW", "Waiting for the lender", Some(7)), None),
        ] {
            let change = EventChange::Order(change);
            let found = MailSubject::of(EventType::OrderUpdated, Some(&change));
            assert_eq!(found, subject, "{change:?}");
        }
    }

    /// An event that waited for the upgrade does not say whether the notary is another one.
    #[test]
    fn notary_is_named_only_if_it_is_another_one() {
        for (before, after, is_new, subject) in [
            ("NEW", "ASSIGNED", true, Some(MailSubject::NotaryAssigned)),
            ("CONFIRMED", "ASSIGNED", true, Some(MailSubject::NotaryAssigned)),
            ("NEW", "Waiting for the lender", true, Some(MailSubject::NotaryAssigned)),
            ("NEW", "Waiting for the lender", false, None),
            ("CONFIRMED", "ASSIGNED", false, Some(MailSubject::AssignedAgain)),
            ("DID_NOT_SIGN", "ASSIGNED", false, Some(MailSubject::AssignedAgain)),
            ("NEW", "ASSIGNED", false, None),
            ("DID_NOT_SIGN", "DID_NOT_SIGN", true, Some(MailSubject::NotSigned)),
            // Another reason.
            ("DID_NOT_SIGN", "DID_NOT_SIGN", false, Some(MailSubject::NotSigned)),
            ("SIGNED", "COMPLETED", false, None),
        ] {
            let notary_changed = Some(is_new);
            let change = ChangedOrder { notary_changed, ..change(before, after, Some(7)) };
            let change = EventChange::Order(change);
            let found = MailSubject::of(EventType::OrderUpdated, Some(&change));
            assert_eq!(found, subject, "{change:?}");
        }
    }

    /// The mail about the change says it.
    #[test]
    fn end_of_a_confirmation_has_no_mail_of_its_own() {
        let ended = change("CONFIRMED", "ASSIGNED", Some(7));
        let ended = EventChange::Order(ChangedOrder { actor: Actor::Client, ..ended });
        assert_eq!(MailSubject::of(EventType::OrderUpdated, Some(&ended)), None);
    }

    #[test]
    fn change_of_who_has_asked_has_no_mail() {
        let subject = |fields: &[&str]| {
            let changed = fields.iter().map(|field| (*field).to_owned()).collect();
            MailSubject::of(EventType::OrderChanged, Some(&EventChange::Fields { changed }))
        };
        assert_eq!(subject(&["/requestedBy/userId", "/requestedBy/userRole"]), None);
        let lender = "/signingDetailsFormData/lender";
        for fields in [&[lender][..], &["/requestedBy/userId", lender]] {
            assert_eq!(subject(fields), Some(MailSubject::Changed));
        }
    }

    #[test]
    fn news_that_is_not_true_any_more_does_not_leave() {
        use MailSubject::{
            AssignedAgain, Cancelled, Changed, Confirmed, Created, DocumentReplaced,
            DocumentsAdded, NotSigned, NotaryAssigned, NoteAdded, Reinstated, Signed,
            SignedDocumentsAdded,
        };
        let order = |status: &OrderStatus, notary_id| StoredOrder {
            status: status.clone(),
            notary_id,
            documents: vec![document("a", START)],
            ..stored_order(START)
        };
        let always = [NoteAdded, SignedDocumentsAdded];
        let notary = Some(Notary { name: "Nora".to_owned(), phone: None, email: None });
        let alive = [Created, DocumentsAdded, Reinstated, Changed, DocumentReplaced];
        for (order, others) in [
            (order(&OrderStatus::NEW, None), vec![]),
            (StoredOrder { notary, ..order(&OrderStatus::NEW, None) }, vec![NotaryAssigned]),
            (order(&OrderStatus::ASSIGNED, Some(7)), vec![NotaryAssigned, AssignedAgain]),
            (order(&OrderStatus::CONFIRMED, Some(7)), vec![NotaryAssigned, Confirmed]),
            (order(&OrderStatus::SIGNED, Some(7)), vec![NotaryAssigned, Signed]),
            (order(&OrderStatus::COMPLETED, None), vec![Signed]),
            (order(&OrderStatus::DID_NOT_SIGN, Some(7)), vec![NotSigned]),
            (order(&OrderStatus::CANCELLED, Some(7)), vec![Cancelled]),
        ] {
            for subject in MailSubject::ALL {
                let is_cancelled = order.status == OrderStatus::CANCELLED;
                let expected = always.contains(&subject)
                    || others.contains(&subject)
                    || !is_cancelled && alive.contains(&subject);
                let found = subject.is_true_of(None, START, &order);
                assert_eq!(found, expected, "{subject:?} {:?}", order.status);
            }
        }
    }

    #[test]
    fn news_of_withdrawn_documents_does_not_leave() {
        use MailSubject::{DocumentReplaced, DocumentsAdded, SignedDocumentsAdded};
        let withdrawn =
            || StoredDocument { key: None, withdrawn_at: Some(START), ..document("a", START) };
        let documents = vec![withdrawn(), document("b", START)];
        let order = StoredOrder {
            documents: documents.clone(),
            signed_documents: documents,
            ..stored_order(START)
        };
        for (new, expected) in [(vec![0], false), (vec![0, 1], true), (vec![1], true)] {
            let content = MailContent::Documents(new);
            for subject in [DocumentReplaced, SignedDocumentsAdded] {
                let found = subject.is_true_of(Some(&content), START, &order);
                assert_eq!(found, expected, "{content:?}");
            }
        }
        assert!(DocumentsAdded.is_true_of(None, START, &order));
        let none = StoredOrder { documents: vec![withdrawn()], ..order };
        assert!(!DocumentsAdded.is_true_of(None, START, &none));
    }

    /// The recipient would look for a document that is not there.
    #[test]
    fn replacement_without_a_new_document_does_not_leave() {
        let replaced = |by| StoredDocument { replaced_by: Some(by), ..document("a", START) };
        let withdrawn =
            StoredDocument { key: None, withdrawn_at: Some(START), ..document("c", START) };
        let both = MailContent::Documents(vec![1, 2]);
        for (last, expected) in [(document("c", START), true), (withdrawn, false)] {
            let documents = vec![replaced(1), replaced(2), last];
            let order = StoredOrder { documents, ..stored_order(START) };
            for content in [both.clone(), MailContent::Documents(vec![2])] {
                let found = MailSubject::DocumentReplaced.is_true_of(Some(&content), START, &order);
                assert_eq!(found, expected, "{content:?}");
            }
            let first = MailContent::Documents(vec![1]);
            assert!(!MailSubject::DocumentReplaced.is_true_of(Some(&first), START, &order));
            assert!(!MailSubject::DocumentsAdded.is_true_of(Some(&first), START, &order));
            let cancelled = StoredOrder { status: OrderStatus::CANCELLED, ..order };
            for subject in [MailSubject::DocumentReplaced, MailSubject::DocumentsAdded] {
                assert!(!subject.is_true_of(Some(&both), START, &cancelled));
            }
        }
    }

    #[test]
    fn mails_above_the_limit_are_due_in_the_next_hours() {
        let now = datetime!(2026-11-21 12:34:56 UTC);
        for (number, subject, due) in [
            (3, MailSubject::Created, datetime!(2026-11-21 13:00 UTC)),
            (4, MailSubject::DocumentsAdded, datetime!(2026-11-21 13:00 UTC)),
            (5, MailSubject::Created, datetime!(2026-11-21 14:00 UTC)),
            (5, MailSubject::Cancelled, datetime!(2026-11-21 12:59:59.999999 UTC)),
            (u64::MAX, MailSubject::Created, datetime!(2026-11-22 12:00 UTC)),
        ] {
            assert_eq!(due_within_limit(now, number, 2, subject), due, "{number}");
        }
    }

    fn entropy_of(random: [u8; 4]) -> impl Entropy {
        let mut entropy = MockEntropy::new();
        entropy.expect_fill().returning(move |bytes| bytes.copy_from_slice(&random));
        entropy
    }

    #[test]
    fn unknown_outcome_is_repeated_three_times_hours_apart() {
        let next = |unknown_outcomes, now| {
            Delivery { unknown_outcomes, ..delivery(START) }.next_after_unknown(now)
        };
        let delays = [0, 1, 2, 3].map(|before| next(before, START).map(|at| at - START));
        assert_eq!(
            delays,
            [Some(Duration::HOUR), Some(4 * Duration::HOUR), Some(12 * Duration::HOUR), None]
        );
        assert!(next(0, START + Duration::days(5)).is_some(), "a mail that an operator retries");
    }

    proptest! {
        #[test]
        fn outage_delay_is_two_to_four_seconds(age in 0_i64..432_000, random: [u8; 4]) {
            let now = START + Duration::seconds(age);
            let retry = delivery(START).next_attempt(now, true, &entropy_of(random)).unwrap();
            let delay = retry - now;
            prop_assert!(delay >= Duration::seconds(2), "{delay}");
            prop_assert!(delay <= Duration::seconds(4), "{delay}");
        }

        #[test]
        fn delay_doubles_up_to_an_hour(attempts in 0_u32..1000, random: [u8; 4]) {
            let delivery = Delivery { attempts, ..delivery(START) };
            let delay = delivery.next_attempt(START, false, &entropy_of(random)).unwrap() - START;
            let longest = (5.0 * 2_f64.powi(attempts.cast_signed())).min(3_600.0);
            let longest = Duration::seconds_f64(longest);
            prop_assert!(delay >= longest / 2 && delay <= longest, "{delay} after {attempts}");
        }
    }
}
