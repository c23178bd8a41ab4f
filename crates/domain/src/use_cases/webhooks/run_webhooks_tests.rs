use std::sync::Mutex;

use time::macros::datetime;

use super::*;
use crate::{
    api_key::{ClientId, Party},
    order::{OrderStatus, StoredOrder},
    ports::{
        MockClock, MockDeliveryQueue, MockSecretBox, MockWebhookQueue, MockWebhookSender,
        PartyAttempts, SealedSecrets, Unreadable, UrlRefused,
    },
    test_support::{CountingEntropy, clock, down, stored_order, webhook_delivery},
    trace_context::TraceContext,
    webhook::secret::WebhookSecret,
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
const CREATED: OffsetDateTime = datetime!(2026-11-21 11:00 UTC);

fn lease() -> WebhookLease {
    WebhookLease {
        delivery: webhook_delivery(CREATED),
        body: None,
        token: 3,
        party: Party::Client(ClientId(1)),
        url: "https://a.example/hook".to_owned(),
        secrets: SealedSecrets { current: vec![1], older: Vec::new() },
        is_proven: true,
    }
}

fn use_case(lease: WebhookLease, sender: MockWebhookSender) -> RunWebhooks {
    use_case_on(stored_order(CREATED), lease, sender)
}

fn use_case_on(order: StoredOrder, lease: WebhookLease, sender: MockWebhookSender) -> RunWebhooks {
    let mut queue = MockWebhookQueue::new();
    queue.expect_lease().return_once(|_, _, _| Ok(vec![lease]));
    let mut orders = MockDeliveryQueue::new();
    orders.expect_orders().returning(move |ids| {
        assert_eq!(ids, [OrderId(1)]);
        Ok(vec![(OrderId(1), Ok(order.clone()))])
    });
    let mut secrets = MockSecretBox::new();
    secrets.expect_open().returning(|sealed, context| {
        assert_eq!(context, "webhook endpoints of client 1");
        if sealed == [0] { Err(Unreadable) } else { Ok(WebhookSecret::from([sealed[0]; 32])) }
    });
    RunWebhooks {
        queue: Arc::new(queue),
        orders: Arc::new(orders),
        sender: Arc::new(sender),
        secrets: Some(Arc::new(secrets)),
        clock: clock(NOW),
        entropy: Arc::new(CountingEntropy::default()),
    }
}

fn answering(answer: Result<WebhookAnswer, WebhookError>) -> MockWebhookSender {
    let mut sender = MockWebhookSender::new();
    sender.expect_send().once().return_once(|_| answer);
    sender
}

#[expect(clippy::unnecessary_wraps, reason = "it is an answer of the sender")]
fn status(status: u16) -> Result<WebhookAnswer, WebhookError> {
    Ok(WebhookAnswer { status, retry_after: None })
}

async fn attempted(run: &RunWebhooks) -> WebhookAttempted {
    let mut ready = run.lease(&WebhookSlots::default()).await.unwrap();
    assert_eq!(ready.len(), 1);
    run.attempt(ready.remove(0)).await.attempted
}

/// Another request added the documents, and its trace is not stored.
#[tokio::test]
async fn trace_of_an_order_continues_in_its_creation_only() {
    let trace = TraceContext { traceparent: "00-1-2-01".to_owned(), tracestate: None };
    let mut order = stored_order(CREATED);
    order.order.trace = Some(trace.clone());
    for (event, expected) in
        [(EventType::OrderCreated, Some(trace)), (EventType::DocumentsAdded, None)]
    {
        let mut lease = lease();
        lease.delivery.event = event;
        let mut sender = MockWebhookSender::new();
        let sent = sender.expect_send().once().withf(move |request| request.trace == expected);
        sent.return_once(|_| status(200));
        attempted(&use_case_on(order.clone(), lease, sender)).await;
    }
}

#[tokio::test]
async fn request_has_a_stable_identifier_and_all_secrets_that_sign() {
    for (until, secrets) in [(NOW + Duration::SECOND, vec![1, 2, 3]), (NOW, vec![1, 3])] {
        let mut rotated = lease();
        rotated.secrets.older = vec![(vec![2], until), (vec![3], NOW + Duration::SECOND)];
        let mut sender = MockWebhookSender::new();
        sender
            .expect_send()
            .once()
            .withf(move |request| {
                let signing: Vec<u8> =
                    request.secrets.iter().map(|secret| secret.expose()[0]).collect();
                let body =
                    order_body(EventType::OrderCreated, None, CREATED, &stored_order(CREATED))
                        .unwrap();
                signing == secrets
                    && (&*request.url, &*request.id, request.timestamp, &request.body)
                        == ("https://a.example/hook", "msg_k", NOW, &body)
            })
            .return_once(|_| status(200));
        attempted(&use_case(rotated, sender)).await;
    }
}

/// Whatever has become of the order since.
#[tokio::test]
async fn stored_body_is_sent_as_it_is() {
    let mut stored = lease();
    stored.body = Some("{\"stored\":true}".to_owned());
    let mut sender = MockWebhookSender::new();
    sender
        .expect_send()
        .once()
        .withf(|request| request.body == "{\"stored\":true}")
        .return_once(|_| status(200));
    let order = StoredOrder { status: OrderStatus::ASSIGNED, ..stored_order(CREATED) };
    attempted(&use_case_on(order, stored, sender)).await;
}

#[tokio::test]
async fn answer_decides_the_outcome() {
    let retried = |error: &str| Settlement::RetryAt { due_at: NOW, error: error.to_owned() };
    for (answer, settlement, effect) in [
        (status(200), Settlement::Done, EndpointEffect::Succeeded),
        (status(204), Settlement::Done, EndpointEffect::Succeeded),
        (status(301), retried("status 301"), EndpointEffect::Failed),
        (status(400), retried("status 400"), EndpointEffect::Failed),
        (status(503), retried("status 503"), EndpointEffect::Failed),
        (
            status(410),
            Settlement::Fail { at: NOW, error: "status 410".to_owned() },
            EndpointEffect::Gone,
        ),
        (Err(WebhookError::TimedOut), retried("timed_out"), EndpointEffect::Failed),
        (
            Err(WebhookError::Refused(UrlRefused("secret".to_owned()))),
            retried("url_refused"),
            EndpointEffect::Failed,
        ),
    ] {
        let outcome = match &answer {
            Ok(answer) => AttemptOutcome::Status(answer.status),
            Err(error) => AttemptOutcome::Error(error.to_string()),
        };
        let mut done = attempted(&use_case(lease(), answering(answer))).await;
        if let Settlement::RetryAt { due_at, .. } = &mut done.settlement {
            assert!(*due_at >= NOW + Duration::seconds(4), "{due_at}");
            *due_at = NOW;
        }
        assert_eq!((done.settlement, done.effect), (settlement, effect));
        assert_eq!(done.attempts, [AttemptRecord { at: NOW, outcome }]);
        assert_eq!((done.token, &*done.url), (3, "https://a.example/hook"));
    }
}

#[tokio::test]
async fn tenth_failure_is_the_last() {
    let mut last = lease();
    last.delivery.failures = 9;
    let done = attempted(&use_case(last, answering(status(500)))).await;
    assert_eq!(done.settlement, Settlement::Fail { at: NOW, error: "status 500".to_owned() });
}

#[tokio::test]
async fn last_attempts_are_kept() {
    let mut replayed = lease();
    let record = AttemptRecord { at: CREATED, outcome: AttemptOutcome::Status(500) };
    replayed.delivery.attempts = vec![record; KEPT_ATTEMPTS];
    let done = attempted(&use_case(replayed, answering(status(200)))).await;
    assert_eq!(done.attempts.len(), KEPT_ATTEMPTS);
    assert_eq!(done.attempts.last().unwrap().outcome, AttemptOutcome::Status(200));
}

#[tokio::test]
async fn delivery_of_an_erased_order_fails_and_sends_nothing() {
    let mut orders = MockDeliveryQueue::new();
    orders.expect_orders().returning(|_| Ok(Vec::new()));
    let run = use_case(lease(), MockWebhookSender::new());
    let done = attempted(&RunWebhooks { orders: Arc::new(orders), ..run }).await;
    assert_eq!(done.settlement, Settlement::Fail { at: NOW, error: ORDER_ERASED.to_owned() });
    assert_eq!(done.effect, EndpointEffect::None);
}

#[tokio::test]
async fn fault_of_the_service_does_not_count_against_the_endpoint() {
    let mut outage = MockDeliveryQueue::new();
    outage.expect_orders().returning(|_| Err(StoreError::Unavailable("no database".into())));
    let mut unreadable = MockDeliveryQueue::new();
    unreadable
        .expect_orders()
        .returning(|_| Ok(vec![(OrderId(1), Err(StoreError::Internal("unknown version".into())))]));
    let run = |lease| use_case(lease, MockWebhookSender::new());
    for run in [
        RunWebhooks { orders: Arc::new(outage), ..run(lease()) },
        RunWebhooks { orders: Arc::new(unreadable), ..run(lease()) },
    ] {
        let done = attempted(&run).await;
        assert!(matches!(done.settlement, Settlement::Postpone { .. }), "{:?}", done.settlement);
        assert_eq!((done.effect, done.attempts), (EndpointEffect::None, vec![]));
    }
}

/// An operator sees why it waits, and the attempts before stay.
#[tokio::test]
async fn secret_of_another_key_is_noted_once() {
    let outcome = AttemptOutcome::Error("secret_unreadable".to_owned());
    let mut sealed = lease();
    sealed.secrets.current = vec![0];
    for attempts in [vec![], vec![AttemptRecord { at: NOW, outcome: outcome.clone() }]] {
        sealed.delivery.attempts = attempts;
        let run = || use_case(sealed.clone(), MockWebhookSender::new());
        for run in [RunWebhooks { secrets: None, ..run() }, run()] {
            let done = attempted(&run).await;
            assert!(matches!(done.settlement, Settlement::Postpone { .. }));
            let expected = [AttemptRecord { at: NOW, outcome: outcome.clone() }];
            assert_eq!((done.effect, &*done.attempts), (EndpointEffect::None, &expected[..]));
        }
    }
}

/// The remedy for a lost key is a rotation.
#[tokio::test]
async fn older_secret_of_a_lost_key_holds_up_no_webhook() {
    let mut rotated = lease();
    rotated.secrets.older = vec![(vec![0], NOW + Duration::DAY)];
    let mut sender = MockWebhookSender::new();
    let sent = sender.expect_send().once().withf(|request| request.secrets.len() == 1);
    sent.return_once(|_| status(200));
    assert_eq!(attempted(&use_case(rotated, sender)).await.settlement, Settlement::Done);
}

#[tokio::test]
async fn test_event_reads_no_order() {
    let mut test = lease();
    test.delivery.event = EventType::Test;
    test.delivery.order_id = None;
    let run = use_case(test, answering(status(200)));
    let run = RunWebhooks { orders: Arc::new(MockDeliveryQueue::new()), ..run };
    assert_eq!(attempted(&run).await.settlement, Settlement::Done);
}

#[tokio::test]
async fn erasure_needs_no_order() {
    for orders in [Ok(Vec::new()), Err(down())] {
        let mut erased = lease();
        erased.delivery.event = EventType::OrderErased;
        erased.body = Some("{}".to_owned());
        let mut found = MockDeliveryQueue::new();
        found.expect_orders().return_once(|_| orders);
        let run = use_case(erased, answering(status(200)));
        let run = RunWebhooks { orders: Arc::new(found), ..run };
        assert_eq!(attempted(&run).await.settlement, Settlement::Done);
    }
}

#[tokio::test]
async fn panic_of_the_sender_fails_one_attempt() {
    let mut sender = MockWebhookSender::new();
    sender.expect_send().once().returning(|_| panic!("no"));
    let done = attempted(&use_case(lease(), sender)).await;
    assert_eq!(done.effect, EndpointEffect::Failed);
}

/// An attempt at one that works counts among the others once it takes long.
#[tokio::test]
async fn attempt_that_hangs_takes_no_slot_of_endpoints_that_work() {
    let now = Arc::new(Mutex::new(Duration::ZERO));
    let mut clock = MockClock::new();
    let told = Arc::clone(&now);
    clock.expect_monotonic().returning(move || *told.lock().unwrap());
    clock.expect_now().return_const(NOW);
    let run = use_case(lease(), MockWebhookSender::new());
    let run = RunWebhooks { clock: Arc::new(clock), ..run };
    let mut webhooks = WebhookDeliveries::new(run, 8);
    let ready = |id, is_proven| {
        let delivery = WebhookDelivery { id: WebhookDeliveryId(id), ..webhook_delivery(NOW) };
        let postponed = Settlement::Postpone { due_at: NOW, error: String::new() };
        ReadyWebhook {
            lease: WebhookLease { delivery, is_proven, ..lease() },
            request: Err(Unready(postponed, None)),
        }
    };
    let attempts = [webhooks.attempt(ready(1, true)), webhooks.attempt(ready(2, false))];
    let party = lease().party;
    for (passed, proven, unproven) in
        [(Duration::ZERO, 1, 1), (SLOW, 1, 1), (SLOW + Duration::MICROSECOND, 0, 2)]
    {
        *now.lock().unwrap() = passed;
        let slots = webhooks.free_slots(6);
        let expected = PartyAttempts { proven, unproven };
        assert_eq!((slots.limit, slots.unproven), (6, 6 - unproven));
        assert_eq!(slots.busy, BTreeMap::from([(party, expected)]));
        let full = WebhookSlots { per_party: 1, ..slots };
        assert_eq!(full.has_room(party, true), proven == 0);
        assert!(!full.has_room(party, false));
    }
    for attempt in attempts {
        webhooks.attempted(&attempt.await);
    }
    assert_eq!(webhooks.free_slots(8).busy, BTreeMap::new());
}
