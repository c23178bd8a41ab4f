//! Use case: mail to the contacts of keys what of their requests was rejected, and forget old counts.

use std::{collections::BTreeSet, sync::Arc, time::Duration as Pause};

use time::{Duration, OffsetDateTime};

use crate::{
    api_key::{ApiKey, ApiKeyId},
    ports::{
        ApiKeyRepo, Clock, MailClaim, Notice, NoticeOutcome, Notifier, NotifyError, RejectedLog,
        StoreError,
    },
    rejected::{GATHERED, KEPT, MAIL_EVERY, Rejected, RejectedNotice},
    use_cases::background::{Step, Worker},
};

/// Pause between two steps.
const PAUSE: Pause = Pause::from_secs(5);

/// Time for which an instance has the mail of a contact to itself: a relay may take 26 minutes. The relay may have accepted
/// a mail whose claim did not end.
const CLAIM: Duration = MAIL_EVERY;

/// Delay before a mail is sent again that was not accepted.
const RETRY: Duration = Duration::MINUTE;

/// Time between two removals of old counts.
const REMOVED_EVERY: Duration = Duration::HOUR;

/// Maximum number of counts that a mail has. Others are in the next.
const COUNTS: usize = 1_000;

/// A mail about rejected requests.
#[derive(Debug, PartialEq, Eq)]
pub struct RejectedMail {
    /// The keys, by identifier.
    pub keys: Vec<ApiKeyId>,
    /// Number of requests.
    pub requests: u64,
    /// What became of the mail.
    pub mail: NoticeOutcome,
}

/// Tells contacts of rejected requests. Any number of processes may do so at the same time: a claim makes them send
/// one mail together.
pub struct TellRejected {
    /// Stores counts.
    pub log: Arc<dyn RejectedLog>,
    /// Has the contacts of keys.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Sends the mails.
    pub notifier: Arc<dyn Notifier>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// When old counts were last removed.
    pub removed_at: Option<OffsetDateTime>,
}

impl TellRejected {
    async fn tell(&mut self) -> Result<Vec<RejectedMail>, StoreError> {
        self.remove_old().await?;
        let mut mails = Vec::new();
        while let Some(now) = self.clock.now_to_lease() {
            let claim = MailClaim {
                now,
                rejected_until: now.saturating_sub(GATHERED),
                until: now.saturating_add(CLAIM),
            };
            let claimed = self.log.claim_mail(claim).await?;
            if claimed.is_empty() {
                break;
            }
            let counts = self.log.untold(&claimed, COUNTS).await?;
            let (mail, is_in_outage) = self.mail(&self.keys.list().await?, &counts, now).await;
            let now = self.clock.now();
            if matches!(mail, NoticeOutcome::Later(_)) {
                self.log.end_claim(&claimed, &[], now.saturating_add(RETRY)).await?;
            } else {
                self.log.end_claim(&claimed, &counts, now.saturating_add(MAIL_EVERY)).await?;
            }
            let requests = counts.iter().map(|count| count.requests).sum();
            let keys: BTreeSet<_> = counts.iter().map(|count| count.key).collect();
            let keys = keys.into_iter().collect();
            mails.push(RejectedMail { keys, requests, mail });
            if is_in_outage {
                // Each other mail would wait for the relay as long.
                break;
            }
        }
        Ok(mails)
    }

    async fn remove_old(&mut self) -> Result<(), StoreError> {
        let Some(now) = self.clock.now_to_erase() else { return Ok(()) };
        if self.removed_at.is_none_or(|at| (now - at).abs() >= REMOVED_EVERY) {
            self.log.remove_before(now.saturating_sub(KEPT)).await?;
            self.removed_at = Some(now);
        }
        Ok(())
    }

    /// Returns also whether the relay is in an outage.
    async fn mail(
        &self,
        keys: &[ApiKey],
        counts: &[Rejected],
        at: OffsetDateTime,
    ) -> (NoticeOutcome, bool) {
        let is_told = |key: &&ApiKey| counts.iter().any(|count| count.key == key.id);
        let told: Vec<_> = keys.iter().filter(is_told).collect();
        let recipient = told.iter().find_map(|key| Some((key.id, key.key.contact.clone()?)));
        let (Some((key, recipient)), Some(first)) = (recipient, counts.first()) else {
            return (NoticeOutcome::NoContact, false);
        };
        let names = told.iter().map(|key| key.key.name.clone()).collect();
        let by_code = RejectedNotice::by_code(counts);
        let notice = RejectedNotice { key, names, since: first.at, at, by_code, recipient };
        let told = self.notifier.tell(&Notice::Rejected(notice)).await;
        let is_in_outage = matches!(told, Err(NotifyError::Unavailable(_)));
        (NoticeOutcome::of(told), is_in_outage)
    }
}

impl Worker for TellRejected {
    type Done = Vec<RejectedMail>;

    /// Sends the mails that are due.
    async fn step(&mut self) -> Step<Vec<RejectedMail>> {
        Step { result: self.tell().await, pause: PAUSE }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use time::macros::datetime;

    use super::*;
    use crate::{
        access::RunId,
        order::EmailAddress,
        ports::{MockApiKeyRepo, MockNotifier, MockRejectedLog},
        test_support::{api_key, clock, doubtful_clock},
    };

    const NOW: OffsetDateTime = datetime!(2026-12-01 02:10 UTC);
    const FIRST: OffsetDateTime = datetime!(2026-12-01 02:00 UTC);

    fn count(key: ApiKeyId, code: &str, request_id: &str) -> Rejected {
        let mut count = Rejected::none(key, FIRST, code, RunId(1));
        count.add(request_id, [("/signerName", "required")]);
        count
    }

    /// The claims that ended: how many counts are told, and the time until the next mail.
    type Ended = Arc<Mutex<Vec<(usize, Duration)>>>;

    /// Returns a log with counts of the keys of these contacts, and the claims that ended.
    fn log_of(contacts: &[&[i64]]) -> (MockRejectedLog, Ended) {
        let ids = |keys: &&[i64]| keys.iter().map(|id| ApiKeyId(*id)).collect::<Vec<_>>();
        let mut claims: Vec<_> = contacts.iter().rev().map(ids).collect();
        let (mut log, ended) = (MockRejectedLog::new(), Ended::default());
        log.expect_remove_before()
            .withf(|before| *before == NOW - Duration::days(5))
            .returning(|_| Ok(()));
        log.expect_claim_mail().returning(move |claim| {
            let MailClaim { now, rejected_until, until } = claim;
            let times = (now, rejected_until, until);
            assert_eq!(times, (NOW, NOW - Duration::seconds(30), NOW + MAIL_EVERY));
            Ok(claims.pop().unwrap_or_default())
        });
        log.expect_untold().returning(|keys, _| {
            let (first, last) = (keys[0], keys[keys.len() - 1]);
            Ok(vec![count(first, "validation_failed", "a"), count(last, "forbidden", "b")])
        });
        let seen = Arc::clone(&ended);
        log.expect_end_claim().returning(move |_, told, next| {
            seen.lock().unwrap().push((told.len(), next - NOW));
            Ok(())
        });
        (log, ended)
    }

    fn telling(log: MockRejectedLog, notifier: MockNotifier) -> TellRejected {
        let mut keys = MockApiKeyRepo::new();
        keys.expect_list().returning(|| {
            let mut told = api_key();
            told.key.contact = EmailAddress::try_from("it@title.example.com".to_owned()).ok();
            let mut second = ApiKey { id: ApiKeyId(2), ..told.clone() };
            second.key.name = "night run".to_owned();
            Ok(vec![told, second, ApiKey { id: ApiKeyId(3), ..api_key() }])
        });
        TellRejected {
            log: Arc::new(log),
            keys: Arc::new(keys),
            notifier: Arc::new(notifier),
            clock: clock(NOW),
            removed_at: None,
        }
    }

    fn notifier(outcome: fn() -> Result<(), NotifyError>) -> MockNotifier {
        let mut notifier = MockNotifier::new();
        notifier.expect_tell().returning(move |_| outcome());
        notifier
    }

    #[tokio::test]
    async fn contact_is_told_of_all_requests_and_then_not_for_an_hour() {
        let (log, ended) = log_of(&[&[1, 2]]);
        let mut notifier = MockNotifier::new();
        notifier
            .expect_tell()
            .once()
            .withf(|notice| {
                let Notice::Rejected(notice) = notice else { return false };
                notice.recipient.as_str() == "it@title.example.com"
                    && notice.names == BTreeSet::from([api_key().key.name, "night run".to_owned()])
                    && (notice.requests(), notice.since, notice.at) == (2, FIRST, NOW)
                    && notice.by_code.keys().eq(["forbidden", "validation_failed"])
            })
            .returning(|_| Ok(()));
        let mails = telling(log, notifier).step().await.result.unwrap();
        let keys = vec![ApiKeyId(1), ApiKeyId(2)];
        assert_eq!(mails, [RejectedMail { keys, requests: 2, mail: NoticeOutcome::Told }]);
        assert_eq!(*ended.lock().unwrap(), [(2, Duration::HOUR)]);
    }

    #[tokio::test]
    async fn mail_that_was_not_accepted_is_sent_again_in_a_minute() {
        let (log, ended) = log_of(&[&[1], &[2]]);
        let down = notifier(|| Err(NotifyError::Unavailable("no relay".into())));
        let mails = telling(log, down).step().await.result.unwrap();
        assert!(matches!(mails[..], [RejectedMail { mail: NoticeOutcome::Later(_), .. }]));
        assert_eq!(*ended.lock().unwrap(), [(0, Duration::MINUTE)], "the other contact waits, too");
    }

    /// It may have arrived.
    #[tokio::test]
    async fn mail_that_failed_for_good_is_not_repeated() {
        for error in [|| NotifyError::Permanent("no".into()), || NotifyError::Unknown("?".into())] {
            let (log, ended) = log_of(&[&[1]]);
            let mut notifier = MockNotifier::new();
            notifier.expect_tell().once().returning(move |_| Err(error()));
            let mails = telling(log, notifier).step().await.result.unwrap();
            assert!(matches!(mails[..], [RejectedMail { mail: NoticeOutcome::Failed(_), .. }]));
            assert_eq!(*ended.lock().unwrap(), [(2, Duration::HOUR)]);
        }
    }

    /// It may have lost it since the claim.
    #[tokio::test]
    async fn key_without_a_contact_has_no_mail() {
        let (log, ended) = log_of(&[&[3], &[9]]);
        let mails = telling(log, MockNotifier::new()).step().await.result.unwrap();
        assert!(mails.iter().all(|mail| mail.mail == NoticeOutcome::NoContact));
        assert_eq!(ended.lock().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn nothing_is_claimed_or_removed_while_the_clock_may_be_wrong() {
        let mut telling = telling(MockRejectedLog::new(), MockNotifier::new());
        telling.clock = doubtful_clock(NOW);
        assert_eq!(telling.step().await.result.unwrap(), []);
    }

    #[tokio::test]
    async fn old_counts_are_removed_once_an_hour() {
        let mut log = MockRejectedLog::new();
        log.expect_remove_before().once().returning(|_| Ok(()));
        log.expect_claim_mail().returning(|_| Ok(Vec::new()));
        let mut telling = telling(log, MockNotifier::new());
        for _ in 0..2 {
            telling.step().await.result.unwrap();
        }
    }
}
