//! Use case: tell clients of webhook endpoints that fail, disable those, and forget old deliveries.

use std::{collections::BTreeSet, mem, sync::Arc, time::Duration};

use crate::{
    order::{EmailAddress, OrderId},
    ports::{
        ApiKeyRepo, Clock, Notice, NoticeOutcome, Notifier, NotifyError, StoreError, UnreadableRow,
        WebhookQueue, WebhookRepo,
    },
    use_cases::background::{Step, Worker},
    webhook::{Endpoint, EndpointId, EndpointNotice, FAILING_LIMIT, RETENTION, WARNING_AHEAD},
};

/// Pause between two steps.
const PAUSE: Duration = Duration::from_secs(60);

/// Pause between two batches of deliveries that are forgotten. It leaves most of the database's time
/// to orders.
const BATCH_PAUSE: Duration = Duration::from_millis(50);

/// Deliveries that a step looks at to forget them.
const BATCH: usize = 100;

/// Unreadable rows of other tables than that of orders that a step looks for.
const UNREADABLE: usize = 100;

/// Number of unreadable rows with which a round ends: so many are remembered at most, and those of a step.
const REMEMBERED: usize = 1_000;

/// The outcome of a step.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WatchStep {
    /// Endpoints that were disabled because no attempt succeeded for [`FAILING_LIMIT`].
    pub disabled: Vec<EndpointId>,
    /// Endpoints that fail or are disabled, and what became of the mail to their clients.
    pub notices: Vec<(EndpointId, NoticeOutcome)>,
    /// Rows that cannot be read, and that neither this round through the orders nor the one before has found.
    pub unreadable: Vec<UnreadableRow>,
    /// Number of deliveries that were removed.
    pub forgotten: usize,
}

/// Watches endpoints. Any number of processes may do so at the same time: the same notice is the
/// same mail.
pub struct WatchWebhooks {
    /// Stores endpoints.
    pub endpoints: Arc<dyn WebhookRepo>,
    /// Stores deliveries.
    pub deliveries: Arc<dyn WebhookQueue>,
    /// Has the contacts of clients.
    pub keys: Arc<dyn ApiKeyRepo>,
    /// Sends mails to them.
    pub notifier: Arc<dyn Notifier>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Where it looks for rows that cannot be read.
    pub look: UnreadableLook,
}

/// A round through all orders, some in each step: an instance has little memory and leaves the database to requests.
#[derive(Debug, Default)]
pub struct UnreadableLook {
    /// The last order of the step before; `None` if a round begins.
    last: Option<OrderId>,
    /// The rows of this round.
    found: BTreeSet<UnreadableRow>,
    /// The rows of the round before.
    known: BTreeSet<UnreadableRow>,
}

impl WatchWebhooks {
    async fn watch(&mut self) -> Result<WatchStep, StoreError> {
        let (now, sure_now) = (self.clock.now(), self.clock.now_to_erase());
        let disabled = match sure_now {
            Some(now) => {
                let failed_before = now.saturating_sub(FAILING_LIMIT);
                let told_before = now.saturating_sub(WARNING_AHEAD);
                self.endpoints.disable_failing(failed_before, told_before, now).await?
            }
            None => Vec::new(),
        };
        let warned_before = now.saturating_sub(FAILING_LIMIT - WARNING_AHEAD);
        let mut notices = Vec::new();
        for endpoint in self.endpoints.untold(warned_before).await? {
            let (id, is_disabled) = (endpoint.id, endpoint.disabled.is_some());
            let mut is_in_outage = false;
            let outcome = match self.contact(&endpoint).await? {
                Some(contact) => {
                    let notice = Notice::Endpoint(EndpointNotice::new(endpoint, contact));
                    let told = self.notifier.tell(&notice).await;
                    is_in_outage = matches!(told, Err(NotifyError::Unavailable(_)));
                    NoticeOutcome::of(told)
                }
                None => NoticeOutcome::NoContact,
            };
            if !matches!(outcome, NoticeOutcome::Later(_)) {
                self.endpoints.told(id, is_disabled, now).await?;
            }
            notices.push((id, outcome));
            if is_in_outage {
                // Each other notice would wait for the relay as long, and the rest of the step behind them.
                break;
            }
        }
        let forgotten = match sure_now {
            Some(now) => self.deliveries.forget(now.saturating_sub(RETENTION), BATCH).await?,
            None => 0,
        };
        // While there are more to forget, steps are frequent.
        let unreadable = if forgotten < BATCH { self.unreadable().await? } else { Vec::new() };
        Ok(WatchStep { disabled, notices, unreadable, forgotten })
    }

    async fn unreadable(&mut self) -> Result<Vec<UnreadableRow>, StoreError> {
        let UnreadableLook { last, found, known } = &mut self.look;
        let look = self.deliveries.unreadable(last.unwrap_or(OrderId(0)), UNREADABLE).await?;
        let is_new = |row: &UnreadableRow| found.insert(row.clone()) && !known.contains(row);
        let new = look.rows.into_iter().filter(is_new).collect();
        *last = look.looked_at.filter(|_| found.len() < REMEMBERED);
        if last.is_none() {
            *known = mem::take(found);
        }
        Ok(new)
    }

    /// Returns the contact of the newest valid key of the party that has one.
    async fn contact(&self, endpoint: &Endpoint) -> Result<Option<EmailAddress>, StoreError> {
        let now = self.clock.now();
        let keys = self.keys.list().await?.into_iter().rev();
        let mut own = keys.filter(|key| key.party() == endpoint.owner.party && key.is_valid(now));
        Ok(own.find_map(|key| key.key.contact))
    }
}

impl Worker for WatchWebhooks {
    type Done = WatchStep;

    /// Disables the endpoints that have failed for too long, tells the clients of those that are
    /// disabled or will be, forgets a batch of deliveries, and looks for rows that cannot be read.
    async fn step(&mut self) -> Step<WatchStep> {
        let result = self.watch().await;
        let is_full = result.as_ref().is_ok_and(|step| step.forgotten == BATCH);
        Step { result, pause: if is_full { BATCH_PAUSE } else { PAUSE } }
    }
}

#[cfg(test)]
mod tests {
    use time::{OffsetDateTime, macros::datetime};

    use super::*;
    use crate::{
        api_key::{ApiKey, ApiKeyId, ClientId, NewApiKey},
        ports::{FoundUnreadable, MockApiKeyRepo, MockNotifier, MockWebhookQueue, MockWebhookRepo},
        test_support::{api_key, clock, doubtful_clock, endpoint},
        webhook::DisabledBy,
    };

    const NOW: OffsetDateTime = datetime!(2026-12-31 12:00 UTC);
    const ID: EndpointId = EndpointId(2);

    fn row(fault: &str) -> UnreadableRow {
        UnreadableRow { is_of_webhooks: true, fault: fault.to_owned() }
    }

    fn address(text: &str) -> EmailAddress {
        EmailAddress::try_from(text.to_owned()).unwrap()
    }

    /// Returns a key of a client, with a contact.
    fn key(id: i64, client: i64, contact: &str) -> ApiKey {
        let client = Some(ClientId(client));
        let key = NewApiKey { client, contact: Some(address(contact)), ..api_key().key };
        ApiKey { id: ApiKeyId(id), key, ..api_key() }
    }

    fn watch(
        mut endpoints: MockWebhookRepo,
        keys: Vec<ApiKey>,
        notifier: MockNotifier,
        forgotten: usize,
    ) -> WatchWebhooks {
        endpoints
            .expect_disable_failing()
            .withf(|failed, told, at| {
                let days = (datetime!(2026-12-26 12:00 UTC), datetime!(2026-12-30 12:00 UTC));
                (*failed, *told, *at) == (days.0, days.1, NOW)
            })
            .returning(|_, _, _| Ok(vec![ID]));
        let mut deliveries = MockWebhookQueue::new();
        deliveries
            .expect_forget()
            .withf(|before, limit| (*before, *limit) == (datetime!(2026-12-01 12:00 UTC), BATCH))
            .returning(move |_, _| Ok(forgotten));
        let mut faults = vec![vec!["b"], vec!["a", "b"], vec!["a"]];
        deliveries.expect_unreadable().returning(move |_, _| {
            let faults = faults.pop().unwrap_or_default();
            Ok(FoundUnreadable { rows: faults.into_iter().map(row).collect(), looked_at: None })
        });
        let mut repo = MockApiKeyRepo::new();
        repo.expect_list().returning(move || Ok(keys.clone()));
        WatchWebhooks {
            endpoints: Arc::new(endpoints),
            deliveries: Arc::new(deliveries),
            keys: Arc::new(repo),
            notifier: Arc::new(notifier),
            clock: clock(NOW),
            look: UnreadableLook::default(),
        }
    }

    #[tokio::test]
    async fn row_that_cannot_be_read_is_reported_once() {
        let mut endpoints = MockWebhookRepo::new();
        endpoints.expect_untold().returning(|_| Ok(Vec::new()));
        let mut watch = watch(endpoints, vec![], MockNotifier::new(), 0);
        for expected in [&["a"][..], &["b"], &[]] {
            let expected: Vec<_> = expected.iter().map(|fault| row(fault)).collect();
            assert_eq!(watch.step().await.result.unwrap().unreadable, expected);
        }
    }

    /// Returns a worker whose looks find these rows, and the orders at which they begin and end.
    fn looking(looks: Vec<(i64, Vec<String>, Option<i64>)>) -> WatchWebhooks {
        let mut endpoints = MockWebhookRepo::new();
        endpoints.expect_untold().returning(|_| Ok(Vec::new()));
        let mut deliveries = MockWebhookQueue::new();
        deliveries.expect_forget().returning(|_, _| Ok(0));
        let mut looks = looks.into_iter();
        deliveries.expect_unreadable().returning(move |after, _| {
            let (begins, faults, ends) = looks.next().unwrap();
            assert_eq!(after, OrderId(begins));
            let rows = faults.iter().map(|fault| row(fault)).collect();
            Ok(FoundUnreadable { rows, looked_at: ends.map(OrderId) })
        });
        let deliveries = Arc::new(deliveries);
        WatchWebhooks { deliveries, ..watch(endpoints, vec![], MockNotifier::new(), 0) }
    }

    #[tokio::test]
    async fn step_goes_on_where_the_one_before_stopped() {
        let faults = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut watch = looking(vec![
            (0, faults(&["a"]), Some(1_000)),
            (1_000, faults(&["b"]), None),
            (0, faults(&["a", "c"]), Some(1_000)),
            (1_000, faults(&["b"]), None),
        ]);
        for expected in [&["a"][..], &["b"], &["c"], &[]] {
            let expected: Vec<_> = expected.iter().map(|fault| row(fault)).collect();
            assert_eq!(watch.step().await.result.unwrap().unreadable, expected);
        }
    }

    #[tokio::test]
    async fn round_ends_when_enough_rows_are_remembered() {
        let many = |from: usize| (from..from + 600).map(|number| number.to_string()).collect();
        let looks = vec![
            (0, many(0), Some(1_000)),
            (1_000, many(600), Some(2_000)),
            (0, many(0), Some(1_000)),
        ];
        let mut watch = looking(looks);
        for expected in [600, 600, 0] {
            assert_eq!(watch.step().await.result.unwrap().unreadable.len(), expected);
        }
    }

    fn untold(endpoint: &Endpoint) -> MockWebhookRepo {
        let mut endpoints = MockWebhookRepo::new();
        let endpoint = endpoint.clone();
        endpoints
            .expect_untold()
            .withf(|before| *before == datetime!(2026-12-27 12:00 UTC))
            .returning(move |_| Ok(vec![endpoint.clone()]));
        endpoints
    }

    #[tokio::test]
    async fn endpoint_is_disabled_after_five_days_and_deliveries_go_after_thirty() {
        for (forgotten, pause) in [(3, PAUSE), (BATCH, BATCH_PAUSE)] {
            let mut endpoints = MockWebhookRepo::new();
            endpoints.expect_untold().returning(|_| Ok(Vec::new()));
            let step = watch(endpoints, vec![], MockNotifier::new(), forgotten).step().await;
            let unreadable = if forgotten == BATCH { vec![] } else { vec![row("a")] };
            let expected = WatchStep { disabled: vec![ID], notices: vec![], unreadable, forgotten };
            assert_eq!((step.result.unwrap(), step.pause), (expected, pause));
        }
    }

    #[tokio::test]
    async fn nothing_is_disabled_or_forgotten_while_the_clock_may_be_wrong() {
        let mut endpoints = MockWebhookRepo::new();
        endpoints.expect_untold().returning(|_| Ok(Vec::new()));
        let mut watch = watch(endpoints, vec![], MockNotifier::new(), 3);
        watch.clock = doubtful_clock(NOW);
        let step = watch.step().await.result.unwrap();
        assert_eq!((step.disabled, step.forgotten), (vec![], 0));
    }

    #[tokio::test]
    async fn newest_valid_contact_of_the_client_is_told_once() {
        let failing = Endpoint { failing_since: Some(NOW), ..endpoint(ID) };
        let disabled = Endpoint { disabled: Some((NOW, DisabledBy::Gone)), ..failing.clone() };
        let revoked = ApiKey { revoked_at: Some(NOW), ..key(4, 1, "revoked@example.com") };
        let keys = vec![
            key(1, 1, "old@example.com"),
            key(2, 1, "it@example.com"),
            key(3, 7, "other@example.com"),
            revoked,
        ];
        for endpoint in [failing, disabled] {
            let is_disabled = endpoint.disabled.is_some();
            let mut endpoints = untold(&endpoint);
            endpoints
                .expect_told()
                .once()
                .withf(move |id, disabled, at| (*id, *disabled, *at) == (ID, is_disabled, NOW))
                .returning(|_, _, _| Ok(()));
            let mut notifier = MockNotifier::new();
            notifier
                .expect_tell()
                .once()
                .withf(move |notice| {
                    let Notice::Endpoint(notice) = notice else { return false };
                    notice.recipient == address("it@example.com") && notice.endpoint == endpoint
                })
                .returning(|_| Ok(()));
            let step = watch(endpoints, keys.clone(), notifier, 0).step().await.result.unwrap();
            assert_eq!(step.notices, [(ID, NoticeOutcome::Told)]);
        }
    }

    #[tokio::test]
    async fn client_without_a_contact_counts_as_told() {
        let mut endpoints = untold(&endpoint(ID));
        endpoints.expect_told().once().returning(|_, _, _| Ok(()));
        let keys = vec![api_key()];
        let step = watch(endpoints, keys, MockNotifier::new(), 0).step().await.result.unwrap();
        assert_eq!(step.notices, [(ID, NoticeOutcome::NoContact)]);
    }

    #[tokio::test]
    async fn one_notice_of_a_step_waits_for_a_silent_relay() {
        let mut endpoints = MockWebhookRepo::new();
        let untold = || Ok(vec![endpoint(ID), endpoint(EndpointId(3))]);
        endpoints.expect_untold().returning(move |_| untold());
        let mut notifier = MockNotifier::new();
        let unavailable = || Err(NotifyError::Unavailable("no greeting".into()));
        notifier.expect_tell().once().returning(move |_| unavailable());
        let keys = vec![key(1, 1, "it@example.com")];
        let step = watch(endpoints, keys, notifier, 3).step().await.result.unwrap();
        assert_eq!((step.notices.len(), step.forgotten), (1, 3));
    }

    #[tokio::test]
    async fn mail_that_may_succeed_later_is_sent_again() {
        let unavailable: fn() -> NotifyError = || NotifyError::Unavailable("no relay".into());
        let permanent: fn() -> NotifyError = || NotifyError::Permanent("no mailbox".into());
        let unknown: fn() -> NotifyError = || NotifyError::Unknown("no reply".into());
        for (error, is_told) in [(unavailable, 0), (permanent, 1), (unknown, 1)] {
            let mut endpoints = untold(&endpoint(ID));
            endpoints.expect_told().times(is_told).returning(|_, _, _| Ok(()));
            let mut notifier = MockNotifier::new();
            notifier.expect_tell().returning(move |_| Err(error()));
            let keys = vec![key(1, 1, "it@example.com")];
            let step = watch(endpoints, keys, notifier, 0).step().await.result.unwrap();
            let is_later = matches!(step.notices[0].1, NoticeOutcome::Later(_));
            assert_eq!(is_later, is_told == 0);
        }
    }
}
