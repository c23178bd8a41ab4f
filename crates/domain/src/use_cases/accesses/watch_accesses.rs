//! Use case: remove old accesses, and alert when a key or a person reads more orders than usual. Tells that its run is
//! alive.

use std::{collections::BTreeMap, sync::Arc, time::Duration as Pause};

use time::{Duration, OffsetDateTime};

use crate::{
    access::{BusyKeyNotice, RunId},
    api_key::ApiKey,
    person::Doer,
    ports::{
        AccessLog, ApiKeyRepo, BusyReader, ChangeFeed, Clock, MAX_SILENCE, Notice, NoticeOutcome,
        Notifier, NotifyError, StoreError,
    },
    use_cases::{
        accesses::recorder::AccessRecorder,
        background::{Step, Worker},
    },
};

/// Pause between two steps.
const PAUSE: Pause = Pause::from_secs(60);

/// Pause between two batches of accesses that are removed. It leaves most of the database's time to orders.
const BATCH_PAUSE: Pause = Pause::from_millis(50);

/// Maximum number of accesses that a step removes.
const BATCH: usize = 1_000;

/// The time in which the orders of a key or a person are counted, and in which they have one alert.
const WINDOW: Duration = Duration::HOUR;

/// Time between two signs of life of a run: far less than [`MAX_SILENCE`].
const SIGN_EVERY: Duration = Duration::HOUR;

const _: () = assert!(SIGN_EVERY.whole_hours() * 2 <= MAX_SILENCE.whole_hours());

/// How far accesses of now may lie in the future.
const CLOCK_ERROR: Duration = Duration::MINUTE;

/// The outcome of a step.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AccessStep {
    /// Number of accesses that were removed.
    pub removed: usize,
    /// Number of erasures that left the feed of changes.
    pub erasures: usize,
    /// The keys and the people that have read more orders than the operator expects.
    pub alerts: Vec<AccessAlert>,
}

/// An alert about a key or a person.
#[derive(Debug, PartialEq, Eq)]
pub struct AccessAlert {
    /// The key or the person, and the number of different orders that they have read.
    pub reader: BusyReader,
    /// Whether it is the first alert of an hour, not a mail that is sent again.
    pub is_new: bool,
    /// The outcome of the mail to the contact of the key. A person has none.
    pub mail: NoticeOutcome,
}

/// The limits that the operator has set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessLimits {
    /// Time for which accesses are kept; `None` keeps all.
    pub kept: Option<Duration>,
    /// Number of different orders beyond which a key or a person has an alert; `None` turns alerts off.
    pub alert: Option<u64>,
}

/// Watches accesses. Each process alerts by itself.
pub struct WatchAccesses {
    /// Stores accesses.
    pub log: Arc<dyn AccessLog>,
    /// Has the erasures of orders, which are kept as long as accesses.
    pub feed: Arc<dyn ChangeFeed>,
    /// Has the contacts of keys.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Sends mails to them.
    pub notifier: Arc<dyn Notifier>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Has the run of this process.
    pub recorder: Arc<AccessRecorder>,
    /// The limits.
    pub limits: AccessLimits,
    /// The memory of its steps.
    pub memory: Memory,
}

/// The memory of the steps of a process.
#[derive(Debug, Default)]
pub struct Memory {
    /// The last sign of life, and its run.
    signed: Option<(RunId, OffsetDateTime)>,
    looked_at: Option<OffsetDateTime>,
    /// The instant of the last alert of each key and person, and whether its mail is settled.
    alerted: BTreeMap<Doer, (OffsetDateTime, bool)>,
}

impl WatchAccesses {
    async fn watch(&mut self) -> Result<AccessStep, StoreError> {
        let now = self.clock.now();
        let run = self.recorder.run();
        let is_recent =
            |(of, at): (RunId, OffsetDateTime)| of == run && (now - at).abs() < SIGN_EVERY;
        if !self.memory.signed.is_some_and(is_recent) {
            self.log.note_alive(run, now).await?;
            self.memory.signed = Some((run, now));
        }
        let (mut removed, mut erasures) = (0, 0);
        if let Some(kept) = self.limits.kept
            && let Some(now) = self.clock.now_to_erase()
        {
            let before = now.saturating_sub(kept);
            removed = self.log.remove_before(before, BATCH).await?;
            erasures = self.feed.forget_erasures(before, BATCH).await?;
        }
        // Last, so that no failure hides an alert that was mailed.
        let limit = self.limits.alert;
        let alerts = match limit {
            Some(orders) if self.must_look(now) => self.alerts(orders, now).await?,
            _ => Vec::new(),
        };
        Ok(AccessStep { removed, erasures, alerts })
    }

    /// Returns whether a minute is over since the last look: steps that remove accesses are frequent.
    fn must_look(&mut self, now: OffsetDateTime) -> bool {
        let is_over = self.memory.looked_at.is_none_or(|at| (now - at).unsigned_abs() >= PAUSE);
        if is_over {
            self.memory.looked_at = Some(now);
        }
        is_over
    }

    async fn alerts(
        &mut self,
        orders: u64,
        now: OffsetDateTime,
    ) -> Result<Vec<AccessAlert>, StoreError> {
        let since = now.saturating_sub(WINDOW);
        // The instants of a run increase even while its clock goes back a little, or stands.
        let until = now.saturating_add(CLOCK_ERROR);
        let busy = self.log.busy_readers((since, until), orders).await?;
        self.memory.alerted.retain(|_, (at, _)| *at > since && *at <= now);
        let mut alerts = Vec::new();
        let keys = if busy.is_empty() { Vec::new() } else { self.keys.list().await? };
        let mut outage = None;
        for reader in busy {
            let before = self.memory.alerted.get(&reader.doer).copied();
            if before.is_some_and(|(_, is_settled)| is_settled) {
                continue;
            }
            let at = before.map_or(now, |(at, _)| at);
            let mail = self.tell(&keys, &reader, at, &mut outage).await;
            let is_settled = !matches!(mail, NoticeOutcome::Later(_));
            self.memory.alerted.insert(reader.doer, (at, is_settled));
            alerts.push(AccessAlert { reader, is_new: before.is_none(), mail });
        }
        Ok(alerts)
    }

    /// Mails an alert, unless a mail before has met an outage: each other would wait for the relay as long.
    async fn tell(
        &self,
        keys: &[ApiKey],
        busy: &BusyReader,
        at: OffsetDateTime,
        outage: &mut Option<NoticeOutcome>,
    ) -> NoticeOutcome {
        let found = keys.iter().find(|key| busy.doer == Doer::Key(key.id));
        let told = found.and_then(|key| Some((key, key.key.contact.clone()?)));
        let Some((key, recipient)) = told else {
            return NoticeOutcome::NoContact;
        };
        if let Some(outage) = outage {
            return outage.clone();
        }
        let (name, orders) = (key.key.name.clone(), busy.orders);
        let notice = BusyKeyNotice { key: key.id, name, orders, at, recipient };
        let told = self.notifier.tell(&Notice::BusyKey(notice)).await;
        let is_in_outage = matches!(told, Err(NotifyError::Unavailable(_)));
        let outcome = NoticeOutcome::of(told);
        *outage = is_in_outage.then(|| outcome.clone());
        outcome
    }
}

impl Worker for WatchAccesses {
    type Done = AccessStep;

    /// Looks once a minute for keys and people that read too many orders, and removes a batch of old accesses.
    async fn step(&mut self) -> Step<AccessStep> {
        let result = self.watch().await;
        let is_full =
            result.as_ref().is_ok_and(|step| [step.removed, step.erasures].contains(&BATCH));
        Step { result, pause: if is_full { BATCH_PAUSE } else { PAUSE } }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use time::macros::datetime;

    use super::*;
    use crate::{
        api_key::ApiKeyId,
        order::EmailAddress,
        person::PersonId,
        ports::{MockAccessLog, MockApiKeyRepo, MockChangeFeed, MockClock, MockNotifier},
        test_support::{api_key, clock, doubtful_clock, down},
    };

    const NOW: OffsetDateTime = datetime!(2026-11-28 12:00 UTC);
    const RUN: RunId = RunId(7);
    const BUSY: BusyReader = key(1, 11);

    const fn key(id: i64, orders: u64) -> BusyReader {
        BusyReader { doer: Doer::Key(ApiKeyId(id)), orders }
    }

    fn watch(mut log: MockAccessLog, notifier: MockNotifier, alert: Option<u64>) -> WatchAccesses {
        log.expect_note_alive().returning(|_, _| Ok(()));
        let mut keys = MockApiKeyRepo::new();
        keys.expect_list().returning(|| {
            let mut told = api_key();
            told.key.contact = EmailAddress::try_from("it@title.example.com".to_owned()).ok();
            Ok(vec![told, ApiKey { id: ApiKeyId(2), ..api_key() }])
        });
        WatchAccesses {
            log: Arc::new(log),
            feed: Arc::new(MockChangeFeed::new()),
            keys: Arc::new(keys),
            notifier: Arc::new(notifier),
            clock: clock(NOW),
            recorder: Arc::new(AccessRecorder::new(RUN, clock(NOW))),
            limits: AccessLimits { kept: None, alert },
            memory: Memory::default(),
        }
    }

    /// Lets the clock show these minutes after [`NOW`], one each step.
    fn at_minutes(watch: &mut WatchAccesses, minutes: &'static [i64]) {
        let (mut clock, left) = (MockClock::new(), Mutex::new(minutes.iter()));
        clock.expect_now().times(minutes.len()).returning(move || {
            let minutes = left.lock().unwrap().next().copied().unwrap_or_default();
            NOW + Duration::minutes(minutes)
        });
        watch.clock = Arc::new(clock);
    }

    fn busy(readers: &'static [BusyReader]) -> MockAccessLog {
        let mut log = MockAccessLog::new();
        log.expect_busy_readers()
            .withf(|(since, until), orders| {
                (*until - *since, *orders) == (WINDOW + CLOCK_ERROR, 10)
            })
            .returning(|_, _| Ok(readers.to_vec()));
        log
    }

    #[tokio::test]
    async fn old_accesses_and_erasures_are_removed_in_batches() {
        for (removed, erasures, pause) in
            [(3, 4, PAUSE), (BATCH, 4, BATCH_PAUSE), (3, BATCH, BATCH_PAUSE)]
        {
            let (mut log, mut feed) = (MockAccessLog::new(), MockChangeFeed::new());
            feed.expect_forget_erasures()
                .withf(|before, limit| (*before, *limit) == (NOW - Duration::days(730), BATCH))
                .returning(move |_, _| Ok(erasures));
            log.expect_remove_before()
                .withf(|before, limit| (*before, *limit) == (NOW - Duration::days(730), BATCH))
                .returning(move |_, _| Ok(removed));
            let mut watch = watch(log, MockNotifier::new(), None);
            watch.limits.kept = Some(Duration::days(730));
            watch.feed = Arc::new(feed);
            let step = watch.step().await;
            let expected = AccessStep { removed, erasures, alerts: vec![] };
            assert_eq!((step.result.unwrap(), step.pause), (expected, pause));
        }
    }

    /// It looks for busy keys and people all the same.
    #[tokio::test]
    async fn no_access_is_removed_while_the_clock_may_be_wrong() {
        let mut watch = watch(busy(&[]), MockNotifier::new(), Some(10));
        watch.limits.kept = Some(Duration::days(730));
        watch.clock = doubtful_clock(NOW);
        assert_eq!(watch.step().await.result.unwrap(), AccessStep::default());
    }

    #[tokio::test]
    async fn run_tells_each_hour_that_it_is_alive() {
        let (mut log, mut outcomes) = (MockAccessLog::new(), vec![Ok(()), Ok(()), Err(down())]);
        log.expect_note_alive()
            .times(3)
            .withf(|run, _| *run == RUN)
            .returning(move |_, _| outcomes.pop().unwrap());
        let mut watch = watch(log, MockNotifier::new(), None);
        at_minutes(&mut watch, &[0, 1, 60, 61]);
        let mut failed = Vec::new();
        for _ in 0..4 {
            failed.push(watch.step().await.result.is_err());
        }
        assert_eq!(failed, [true, false, false, false]);
    }

    #[tokio::test]
    async fn nothing_is_removed_or_looked_for_without_limits() {
        let mut watch = watch(MockAccessLog::new(), MockNotifier::new(), None);
        assert_eq!(watch.step().await.result.unwrap(), AccessStep::default());
    }

    #[tokio::test]
    async fn key_has_one_alert_an_hour_and_its_contact_one_mail() {
        let mut notifier = MockNotifier::new();
        notifier
            .expect_tell()
            .times(2)
            .withf(|notice| {
                let Notice::BusyKey(notice) = notice else { return false };
                (Doer::Key(notice.key), notice.orders) == (BUSY.doer, BUSY.orders)
                    && notice.recipient.as_str() == "it@title.example.com"
            })
            .returning(|_| Ok(()));
        let mut watch = watch(busy(&[BUSY]), notifier, Some(10));
        at_minutes(&mut watch, &[0, 1, 59, 60]);
        for alerts in [1, 0, 0, 1] {
            let step = watch.step().await.result.unwrap();
            let expected = AccessAlert { reader: BUSY, is_new: true, mail: NoticeOutcome::Told };
            assert_eq!(step.alerts.len(), alerts);
            assert!(step.alerts.iter().all(|alert| *alert == expected));
        }
    }

    #[tokio::test]
    async fn key_without_a_contact_and_person_have_alerts_too() {
        // The person has the number of a key with a contact.
        static READERS: [BusyReader; 3] =
            [key(2, 12), key(9, 13), BusyReader { doer: Doer::Person(PersonId(1)), orders: 14 }];
        let mut watch = watch(busy(&READERS), MockNotifier::new(), Some(10));
        let alerts = watch.step().await.result.unwrap().alerts;
        assert_eq!(alerts.iter().map(|alert| alert.reader.clone()).collect::<Vec<_>>(), READERS);
        assert!(alerts.iter().all(|alert| alert.mail == NoticeOutcome::NoContact));
    }

    #[tokio::test]
    async fn mail_that_may_succeed_later_is_sent_again_as_the_same_mail() {
        let (mut notifier, sent) = (MockNotifier::new(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&sent);
        notifier.expect_tell().times(2).returning(move |notice| {
            let mut sent = seen.lock().unwrap();
            sent.push(notice.message_key());
            let is_first = sent.len() == 1;
            if is_first { Err(NotifyError::Unavailable("no relay".into())) } else { Ok(()) }
        });
        let mut watch = watch(busy(&[BUSY]), notifier, Some(10));
        at_minutes(&mut watch, &[0, 1, 2]);
        let mut news = Vec::new();
        for _ in 0..3 {
            let alerts = watch.step().await.result.unwrap().alerts;
            news.extend(alerts.into_iter().map(|alert| alert.is_new));
        }
        assert_eq!(news, [true, false]);
        let sent = sent.lock().unwrap();
        assert_eq!(sent[0], sent[1]);
    }

    #[tokio::test]
    async fn frequent_steps_look_once_a_minute() {
        let mut log = MockAccessLog::new();
        log.expect_remove_before().returning(|_, limit| Ok(limit));
        log.expect_busy_readers().once().returning(|_, _| Ok(Vec::new()));
        let mut watch = watch(log, MockNotifier::new(), Some(10));
        let mut feed = MockChangeFeed::new();
        feed.expect_forget_erasures().returning(|_, _| Ok(0));
        watch.feed = Arc::new(feed);
        watch.limits.kept = Some(Duration::DAY);
        for _ in 0..2 {
            assert_eq!(watch.step().await.pause, BATCH_PAUSE);
        }
    }
}
