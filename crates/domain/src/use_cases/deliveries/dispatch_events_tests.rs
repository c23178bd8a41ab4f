use time::{OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    api_key::{ClientId, Owner},
    document::StoredDocument,
    order::{
        Actor, ChangeKind, OrderChange, OrderId, OrderStatus, SigningServiceId, event::NotaryThen,
        record::OrderColumns,
    },
    ports::{
        EventId, MockDeliveryQueue, MockOutbox, MockServiceRepo, MockWebhookRepo, UnclearRejection,
    },
    test_support::{CountingEntropy, clock, document, endpoint, stored_order},
    webhook::{ChangedOrder, DisabledBy, EndpointId, EventType},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

fn event(number: i64) -> Event {
    let event = EventType::OrderCreated;
    Event {
        id: EventId(number),
        order_id: OrderId(number),
        created_at: NOW,
        event,
        change: None,
        content: None,
    }
}

/// Returns the events of a call.
fn ids(dispatches: &[Dispatch]) -> Vec<EventId> {
    dispatches.iter().map(|dispatch| dispatch.event).collect()
}

/// Returns an outbox with these events.
fn outbox_of(numbers: std::ops::RangeInclusive<i64>) -> MockOutbox {
    let mut outbox = MockOutbox::new();
    outbox.expect_events().returning(move |now, limit| {
        assert_eq!((now, limit), (NOW, BATCH));
        Ok(numbers.clone().map(event).collect())
    });
    outbox
}

/// Returns a queue in which every order is found.
fn whole_orders() -> MockDeliveryQueue {
    let mut queue = MockDeliveryQueue::new();
    queue
        .expect_orders()
        .returning(|ids| Ok(ids.iter().map(|&id| (id, Ok(stored_order(NOW)))).collect()));
    queue
}

/// Returns the endpoints of client 1.
fn endpoints_of(endpoints: Vec<Endpoint>) -> MockWebhookRepo {
    let mut repo = MockWebhookRepo::new();
    repo.expect_of_parties().returning(move |parties| {
        let both = [Party::Client(ClientId(1)), Party::Service(SigningServiceId(42))];
        assert!(parties.is_empty() || parties == both);
        Ok(endpoints.clone())
    });
    repo
}

/// Returns the record of the service of every order. One of its addresses is a contact of the orders.
fn services() -> MockServiceRepo {
    let mut services = MockServiceRepo::new();
    services.expect_find().returning(|ids| {
        let emails = ["Escrow@title.example.com", "dispatch@service.example.com"];
        let emails = emails.map(|email| email.to_owned().try_into().unwrap()).into();
        let service = |id| SigningService {
            id,
            name: "Best Signings".to_owned(),
            emails: Vec::clone(&emails),
        };
        Ok(ids.iter().copied().map(service).collect())
    });
    services
}

fn use_case(outbox: MockOutbox, queue: MockDeliveryQueue) -> DispatchEvents {
    DispatchEvents {
        outbox: Arc::new(outbox),
        queue: Arc::new(queue),
        services: Arc::new(services()),
        endpoints: Arc::new(endpoints_of(Vec::new())),
        clock: clock(NOW),
        entropy: Arc::new(CountingEntropy::default()),
        mails: Mails::Full,
        settling: Settling::of_secs(30),
    }
}

/// From what the event says, and what the order has now.
#[tokio::test]
async fn body_of_a_webhook_is_composed_with_its_delivery() {
    let mut outbox = MockOutbox::new();
    let at = NOW + Duration::HOUR;
    let found = Event { event: EventType::DocumentsAdded, created_at: at, ..event(1) };
    outbox.expect_events().returning(move |_, _| Ok(vec![found.clone()]));
    outbox.expect_dispatch().once().returning(move |dispatches, _| {
        let [webhook] = &dispatches[0].webhooks[..] else { panic!("{dispatches:?}") };
        let body = order_body(EventType::DocumentsAdded, None, at, &stored_order(NOW)).unwrap();
        assert_eq!(webhook.body.as_ref(), Some(&body));
        Ok(ids(dispatches))
    });
    let use_case = DispatchEvents {
        endpoints: Arc::new(endpoints_of(vec![endpoint(EndpointId(1))])),
        ..use_case(outbox, whole_orders())
    };
    use_case.dispatch().await.unwrap();
}

#[tokio::test]
async fn each_recipient_gets_a_mail_of_its_own() {
    let mut queue = MockDeliveryQueue::new();
    queue.expect_orders().once().returning(|ids| {
        assert_eq!(ids, [OrderId(1), OrderId(2), OrderId(3)]);
        let address = |text: &str| text.to_owned().try_into().unwrap();
        let mut whole = stored_order(NOW);
        whole.order.contacts.observer = Some(address("observer@example.com"));
        let mut test = stored_order(NOW);
        test.is_test = true;
        // Order 3 is erased.
        Ok(vec![(OrderId(2), Ok(test)), (OrderId(1), Ok(whole))])
    });
    let mut outbox = outbox_of(1..=3);
    outbox.expect_dispatch().once().returning(|dispatches, _| {
        let recipients: Vec<Vec<&str>> = dispatches
            .iter()
            .map(|dispatch| dispatch.mails.iter().map(|mail| mail.recipient.as_str()).collect())
            .collect();
        // The service has the address of a contact, in other letter case.
        let service = ["Escrow@title.example.com", "dispatch@service.example.com"];
        let all = [&["observer@example.com"][..], &service].concat();
        assert_eq!(recipients, [all, vec![], vec![]]);
        let mails = &dispatches[0].mails;
        assert_ne!(mails[0].message_key, mails[1].message_key);
        assert_eq!(ids(dispatches), [1, 2, 3].map(EventId));
        Ok(ids(dispatches))
    });
    let step = use_case(outbox, queue).step().await;
    assert_eq!((step.result.unwrap().unreadable.len(), step.pause), (0, POLL));
}

#[tokio::test]
async fn essential_mails_leave_the_others_out() {
    let kinds = [EventType::OrderCreated, EventType::DocumentsAdded];
    let found = kinds.map(|kind| Event { event: kind, ..event(1) });
    let mut outbox = MockOutbox::new();
    outbox.expect_events().returning(move |_, _| Ok(found.to_vec()));
    outbox.expect_dispatch().once().returning(|dispatches, _| {
        assert_eq!([&dispatches[0], &dispatches[1]].map(|one| one.mails.len()), [2, 0]);
        Ok(ids(dispatches))
    });
    let dispatch = use_case(outbox, whole_orders());
    DispatchEvents { mails: Mails::Essential, ..dispatch }.step().await.result.unwrap();
}

#[tokio::test]
async fn each_endpoint_that_gets_the_event_has_a_webhook_of_its_own() {
    let test = Owner::client(ClientId(1), true);
    let endpoints = vec![
        endpoint(EndpointId(1)),
        Endpoint { events: [EventType::OrderCreated].into(), ..endpoint(EndpointId(2)) },
        Endpoint { owner: test, ..endpoint(EndpointId(3)) },
        Endpoint { disabled: Some((NOW, DisabledBy::Request)), ..endpoint(EndpointId(4)) },
    ];
    let mut outbox = MockOutbox::new();
    outbox.expect_events().returning(|_, _| {
        Ok(vec![event(1), Event { event: EventType::DocumentsAdded, ..event(2) }])
    });
    outbox.expect_dispatch().once().returning(|dispatches, _| {
        let webhooks = |number: usize| -> Vec<(i64, EventType)> {
            let webhooks = dispatches[number].webhooks.iter();
            webhooks.map(|webhook| (webhook.endpoint.0, webhook.event)).collect()
        };
        let (created, added) = (EventType::OrderCreated, EventType::DocumentsAdded);
        assert_eq!(webhooks(0), [(1, created), (2, created), (4, created)]);
        assert_eq!(webhooks(1), [(1, added), (4, added)]);
        let all = dispatches.iter().flat_map(|dispatch| &dispatch.webhooks);
        let keys: BTreeSet<_> = all.map(|webhook| &webhook.message_key).collect();
        assert_eq!(keys.len(), 5, "each message has an identifier of its own");
        assert_eq!((dispatches[0].mails.len(), dispatches[1].mails.len()), (2, 2));
        Ok(ids(dispatches))
    });
    let dispatch = use_case(outbox, whole_orders());
    let mut dispatch = DispatchEvents { endpoints: Arc::new(endpoints_of(endpoints)), ..dispatch };
    dispatch.step().await.result.unwrap();
}

#[tokio::test]
async fn unreadable_order_is_put_off_and_passed() {
    let mut queue = MockDeliveryQueue::new();
    queue.expect_orders().returning(|_| {
        let unreadable = StoreError::Internal("unknown version".into());
        Ok(vec![(OrderId(1), Err(unreadable)), (OrderId(2), Ok(stored_order(NOW)))])
    });
    let mut outbox = outbox_of(1..=2);
    outbox
        .expect_put_off()
        .once()
        .withf(|events, until| events == [EventId(1)] && *until == NOW + Duration::MINUTE)
        .returning(|_, _| Ok(()));
    outbox
        .expect_dispatch()
        .once()
        .withf(|dispatches, _| dispatches.len() == 1 && dispatches[0].event == EventId(2))
        .returning(|dispatches, _| Ok(ids(dispatches)));
    let dispatched = use_case(outbox, queue).step().await.result.unwrap();
    let Dispatched { events, unreadable, failed } = dispatched;
    assert!(failed.is_empty());
    assert!(matches!(&unreadable[..], [(OrderId(1), StoreError::Internal(_))]), "{unreadable:?}");
    assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), [EventId(2)]);
}

#[tokio::test]
async fn events_that_another_instance_holds_are_read_again_after_a_pause() {
    let mut outbox = outbox_of(1..=64);
    outbox.expect_dispatch().once().returning(|_, _| Ok(Vec::new()));
    assert_eq!(use_case(outbox, whole_orders()).step().await.pause, POLL);
}

#[tokio::test]
async fn outage_of_the_store_keeps_the_events() {
    let mut queue = MockDeliveryQueue::new();
    queue.expect_orders().returning(|_| Err(StoreError::Unavailable("no database".into())));
    let step = use_case(outbox_of(1..=2), queue).step().await;
    assert!(matches!(step.result, Err(StoreError::Unavailable(_))));
    assert_eq!(step.pause, OUTAGE_PAUSE);
}

#[tokio::test]
async fn full_batch_is_followed_after_a_short_pause() {
    for (events, expected) in [(64, PAUSE), (63, POLL)] {
        let mut outbox = outbox_of(1..=events);
        outbox.expect_dispatch().returning(|dispatches, _| Ok(ids(dispatches)));
        let step = use_case(outbox, whole_orders()).step().await;
        assert_eq!((step.result.unwrap().unreadable.len(), step.pause), (0, expected), "{events}");
    }
}

#[tokio::test]
async fn change_of_an_order_reaches_both_parties() {
    let service = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };
    let foreign = Owner { party: Party::Service(SigningServiceId(43)), is_test: false };
    let endpoints = vec![
        endpoint(EndpointId(1)),
        Endpoint { owner: service, ..endpoint(EndpointId(2)) },
        Endpoint { owner: foreign, ..endpoint(EndpointId(3)) },
    ];
    let change = EventChange::Order(ChangedOrder {
        order_status: "CANCELLED".to_owned(),
        previous_status: "NEW".to_owned(),
        notary_id: None,
        actor: Actor::Service,
        notary_changed: None,
    });
    let events = [EventType::OrderUpdated, EventType::OrderCancelled];
    let found = events.map(|kind| Event { event: kind, change: Some(change.clone()), ..event(1) });
    let mut outbox = MockOutbox::new();
    outbox.expect_events().returning(move |_, _| Ok(found.to_vec()));
    outbox.expect_dispatch().once().returning(move |dispatches, _| {
        for dispatch in dispatches {
            let webhooks = dispatch.webhooks.iter();
            let told: Vec<_> = webhooks.map(|one| (one.endpoint.0, one.change.clone())).collect();
            assert_eq!(told, [(1, Some(change.clone())), (2, Some(change.clone()))]);
        }
        let subjects = |number: usize| -> Vec<_> {
            let mails = dispatches[number].mails.iter();
            mails.map(|mail| (mail.subject, mail.audience)).collect()
        };
        assert_eq!(subjects(0), []);
        // The addresses of the service have changed since the order was created.
        assert_eq!(subjects(1), [(MailSubject::Cancelled, Audience::Service)]);
        assert_eq!(dispatches[1].mails[0].recipient.as_str(), "before@service.example.com");
        Ok(ids(dispatches))
    });
    let mut queue = whole_orders();
    queue.expect_told().once().returning(|orders| {
        assert_eq!(orders, [OrderId(1)]);
        let told = |number, address: &str| Recipient {
            order_id: OrderId(number),
            address: address.to_owned().try_into().unwrap(),
            audience: Audience::Service,
            changes_told_at: None,
        };
        Ok(vec![told(1, "before@service.example.com"), told(2, "other@service.example.com")])
    });
    let dispatch = use_case(outbox, queue);
    let mut dispatch = DispatchEvents { endpoints: Arc::new(endpoints_of(endpoints)), ..dispatch };
    dispatch.step().await.result.unwrap();
}

/// An address that was removed from the order gets its cancellation only.
#[tokio::test]
async fn order_that_takes_place_again_is_mailed_to_present_addresses() {
    let change = |order_status: &str, previous_status: &str| ChangedOrder {
        order_status: order_status.to_owned(),
        previous_status: previous_status.to_owned(),
        notary_id: None,
        actor: Actor::Database,
        notary_changed: None,
    };
    let found = [change("CONFIRMED", "CANCELLED"), change("CONFIRMED", "NEW")];
    let found = found.map(|change| Event {
        event: EventType::OrderUpdated,
        change: Some(EventChange::Order(change)),
        ..event(1)
    });
    let mut outbox = MockOutbox::new();
    outbox.expect_events().returning(move |_, _| Ok(found.to_vec()));
    outbox.expect_dispatch().once().returning(move |dispatches, _| {
        let mails = &dispatches[0].mails;
        assert!(mails.iter().all(|mail| mail.subject == MailSubject::Reinstated), "{mails:?}");
        let recipients: Vec<_> = mails.iter().map(|mail| mail.recipient.as_str()).collect();
        assert_eq!(recipients, ["Escrow@title.example.com", "dispatch@service.example.com"]);
        let confirmed = &dispatches[1].mails;
        let confirmed = confirmed.iter().map(|mail| (mail.recipient.as_str(), mail.subject));
        let contact = ("escrow@title.example.com", MailSubject::Confirmed);
        assert_eq!(confirmed.collect::<Vec<_>>(), [contact]);
        Ok(ids(dispatches))
    });
    use_case(outbox, whole_orders()).step().await.result.unwrap();
}

/// A change that takes the notary away has no mail, nor has one whose notary another one has replaced.
#[tokio::test]
async fn mail_about_a_notary_has_the_one_of_its_order() {
    let then = |notary_id| MailContent::Notary(NotaryThen { notary_id, notary: None });
    let change = ChangedOrder {
        order_status: "NEW".to_owned(),
        previous_status: "NEW".to_owned(),
        notary_id: Some(7),
        actor: Actor::Service,
        notary_changed: None,
    };
    let found = [Some(7), Some(8), None].map(|notary| Event {
        event: EventType::OrderUpdated,
        change: Some(EventChange::Order(change.clone())),
        content: Some(then(notary)),
        ..event(1)
    });
    let mut outbox = MockOutbox::new();
    outbox.expect_events().returning(move |_, _| Ok(found.to_vec()));
    outbox.expect_dispatch().once().returning(move |dispatches, _| {
        let mails = dispatches.iter().map(|one| one.mails.iter().map(|mail| mail.content.clone()));
        let contents: Vec<Vec<_>> = mails.map(Iterator::collect).collect();
        assert!(contents == [vec![], vec![Some(then(Some(8)))], vec![]]);
        Ok(ids(dispatches))
    });
    let mut queue = MockDeliveryQueue::new();
    queue.expect_orders().returning(|_| {
        let later = StoredOrder { notary_id: Some(8), ..stored_order(NOW) };
        Ok(vec![(OrderId(1), Ok(later))])
    });
    use_case(outbox, queue).step().await.result.unwrap();
}

/// Returns an error of a store that does not tell whether the data of the call is at fault.
fn unclear() -> StoreError {
    StoreError::Unavailable(UnclearRejection("value too long".into()).into())
}

#[tokio::test]
async fn event_that_fails_is_put_off_alone() {
    const POISONED: EventId = EventId(23);
    let internal: fn() -> StoreError = || StoreError::Internal("too large".into());
    for error in [internal, unclear] {
        let mut outbox = outbox_of(1..=64);
        outbox.expect_dispatch().returning(move |dispatches, _| {
            if dispatches.iter().any(|one| one.event == POISONED) {
                return Err(error());
            }
            Ok(ids(dispatches))
        });
        outbox
            .expect_put_off()
            .once()
            .withf(|events, until| events == [POISONED] && *until == NOW + Duration::MINUTE)
            .returning(|_, _| Ok(()));
        let step = use_case(outbox, whole_orders()).step().await;
        let Dispatched { events, failed, .. } = step.result.unwrap();
        let others: Vec<_> = (1..=64).map(EventId).filter(|id| *id != POISONED).collect();
        assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), others);
        assert!(matches!(&failed[..], [(OrderId(23), _)]), "{failed:?}");
        assert_eq!(step.pause, PAUSE);
    }
}

/// Such as by the end of its connection.
#[tokio::test]
async fn event_that_fails_once_is_not_put_off() {
    let mut outbox = outbox_of(1..=1);
    outbox.expect_dispatch().once().returning(|_, _| Err(unclear()));
    outbox.expect_dispatch().once().returning(|dispatches, _| Ok(ids(dispatches)));
    let step = use_case(outbox, whole_orders()).step().await;
    assert_eq!(step.result.unwrap().events.len(), 1);
}

/// Such as one whose disk is full.
#[tokio::test]
async fn store_that_puts_nothing_off_is_unavailable() {
    let mut outbox = outbox_of(1..=64);
    // Seven halves down to one event, which is tried again.
    outbox.expect_dispatch().times(8).returning(|_, _| Err(unclear()));
    outbox.expect_put_off().once().returning(|_, _| Err(unclear()));
    let step = use_case(outbox, whole_orders()).step().await;
    assert!(matches!(step.result, Err(StoreError::Unavailable(_))));
    assert_eq!(step.pause, OUTAGE_PAUSE);
}

#[tokio::test]
async fn changed_details_reach_webhooks_as_pointers_and_mails_with_the_values_before() {
    let service = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };
    let endpoints =
        vec![endpoint(EndpointId(1)), Endpoint { owner: service, ..endpoint(EndpointId(2)) }];
    let change = EventChange::Fields { changed: vec!["/utcTimeDate".to_owned()] };
    let before = MailContent::Previous(OrderColumns::of(&stored_order(NOW).order).unwrap());
    let found = Event {
        event: EventType::OrderChanged,
        change: Some(change.clone()),
        content: Some(before.clone()),
        ..event(1)
    };
    let mut outbox = MockOutbox::new();
    outbox.expect_events().returning(move |_, _| Ok(vec![found.clone()]));
    outbox.expect_dispatch().once().returning(move |dispatches, _| {
        let mails = dispatches[0].mails.iter();
        let told: Vec<_> = mails.map(|mail| (mail.subject, mail.content.clone())).collect();
        assert_eq!(told, vec![(MailSubject::Changed, Some(before.clone())); 2]);
        let webhooks = dispatches[0].webhooks.iter();
        let told: Vec<_> = webhooks.map(|one| (one.endpoint.0, one.change.clone())).collect();
        assert_eq!(told, [(1, Some(change.clone())), (2, Some(change.clone()))]);
        Ok(ids(dispatches))
    });
    let mut queue = whole_orders();
    queue.expect_told().returning(|_| Ok(Vec::new()));
    let dispatch = use_case(outbox, queue);
    let mut dispatch = DispatchEvents { endpoints: Arc::new(endpoints_of(endpoints)), ..dispatch };
    dispatch.step().await.result.unwrap();
}

/// The order is not there any more, and no mail tells of it.
#[tokio::test]
async fn erasure_reaches_both_parties() {
    let service = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };
    let other = Owner::client(ClientId(2), false);
    let endpoints = vec![
        endpoint(EndpointId(1)),
        Endpoint { owner: service, ..endpoint(EndpointId(2)) },
        Endpoint { owner: Owner { is_test: true, ..service }, ..endpoint(EndpointId(3)) },
        Endpoint { owner: other, ..endpoint(EndpointId(4)) },
        Endpoint { events: [EventType::OrderCreated].into(), ..endpoint(EndpointId(5)) },
    ];
    let erased = ErasedFrom { client_id: 1, signing_service_id: 42, is_test: false };
    let found = Event {
        event: EventType::OrderErased,
        change: Some(EventChange::Erased(erased)),
        ..event(1)
    };
    let mut outbox = MockOutbox::new();
    outbox.expect_events().returning(move |_, _| Ok(vec![found.clone()]));
    outbox.expect_dispatch().once().returning(|dispatches, _| {
        assert_eq!(dispatches[0].mails, []);
        let webhooks = &dispatches[0].webhooks;
        assert_eq!(webhooks.iter().map(|one| one.endpoint.0).collect::<Vec<_>>(), [1, 2]);
        let body = r#"{"type":"order.erased","timestamp":"2026-11-21T12:00:00.000000Z","data":{"order_id":1,"is_test":false}}"#;
        for webhook in webhooks {
            assert_eq!((webhook.body.as_deref(), &webhook.change), (Some(body), &None));
        }
        Ok(ids(dispatches))
    });
    let mut queue = MockDeliveryQueue::new();
    queue.expect_orders().returning(|_| Ok(Vec::new()));
    let dispatch = use_case(outbox, queue);
    let mut dispatch = DispatchEvents { endpoints: Arc::new(endpoints_of(endpoints)), ..dispatch };
    dispatch.step().await.result.unwrap();
}

/// It left between the change and this step, and had the order as the change left it.
#[tokio::test]
async fn change_that_a_mail_has_told_has_no_other() {
    for (told, expected) in [
        (None, 2),
        (Some(NOW - Duration::MICROSECOND), 2),
        (Some(NOW), 1),
        (Some(NOW + Duration::MICROSECOND), 1),
    ] {
        let change = EventChange::Fields { changed: vec!["/utcTimeDate".to_owned()] };
        let found =
            Event { event: EventType::OrderChanged, change: Some(change.clone()), ..event(1) };
        let mut outbox = MockOutbox::new();
        outbox.expect_events().returning(move |_, _| Ok(vec![found.clone()]));
        outbox.expect_dispatch().once().returning(move |dispatches, _| {
            let mails = &dispatches[0].mails;
            assert_eq!(mails.len(), expected, "{told:?}");
            assert!(mails.iter().any(|mail| mail.recipient.as_str().starts_with("dispatch@")));
            assert_eq!(dispatches[0].settling, Settling::of_secs(30));
            Ok(ids(dispatches))
        });
        let mut queue = whole_orders();
        queue.expect_told().once().returning(move |orders| {
            let address = "ESCROW@title.example.com".to_owned().try_into().unwrap();
            let audience = Audience::Client;
            Ok(vec![Recipient { order_id: orders[0], address, audience, changes_told_at: told }])
        });
        use_case(outbox, queue).step().await.result.unwrap();
    }
}

/// "New order" says that the appointment must be confirmed again.
#[tokio::test]
async fn end_of_a_confirmation_that_a_mail_has_told_has_no_other() {
    let change = EventChange::Fields { changed: vec!["/utcTimeDate".to_owned()] };
    let found = Event { event: EventType::OrderChanged, change: Some(change), ..event(1) };
    let mut outbox = MockOutbox::new();
    outbox.expect_events().returning(move |_, _| Ok(vec![found.clone()]));
    outbox.expect_dispatch().once().returning(|dispatches, _| {
        let recipients = dispatches[0].mails.iter().map(|mail| mail.recipient.as_str());
        assert_eq!(recipients.collect::<Vec<_>>(), ["dispatch@service.example.com"]);
        Ok(ids(dispatches))
    });
    let mut queue = MockDeliveryQueue::new();
    queue.expect_orders().returning(|_| {
        let ended = OrderChange {
            kind: ChangeKind::Status,
            status: OrderStatus::ASSIGNED,
            ..OrderChange::created(NOW)
        };
        let (status, changes) = (OrderStatus::ASSIGNED, vec![ended]);
        Ok(vec![(OrderId(1), Ok(StoredOrder { status, changes, ..stored_order(NOW) }))])
    });
    queue.expect_told().returning(|orders| {
        let address = "escrow@title.example.com".to_owned().try_into().unwrap();
        let (order_id, changes_told_at) = (orders[0], Some(NOW));
        Ok(vec![Recipient { order_id, address, audience: Audience::Client, changes_told_at }])
    });
    use_case(outbox, queue).step().await.result.unwrap();
}

/// The other side has a copy that it should not use.
#[tokio::test]
async fn withdrawal_is_told_if_the_other_side_had_fetched_the_document() {
    const SERVICE: &[&str] = &["Escrow@title.example.com", "dispatch@service.example.com"];
    const CLIENT: &[&str] = &["escrow@title.example.com"];
    const NONE: &[&str] = &[];
    for (actor, is_fetched, is_erased, recipients) in [
        (Actor::Client, true, false, SERVICE),
        (Actor::Client, false, false, NONE),
        // The operator keeps it no longer.
        (Actor::Client, true, true, NONE),
        (Actor::Service, true, false, CLIENT),
        (Actor::Service, false, false, NONE),
    ] {
        let change = EventChange::Documents { documents: vec![1], actor };
        let event_type = EventType::DocumentWithdrawn;
        let found = Event { event: event_type, change: Some(change.clone()), ..event(1) };
        let mut outbox = MockOutbox::new();
        outbox.expect_events().returning(move |_, _| Ok(vec![found.clone()]));
        outbox.expect_dispatch().once().returning(move |dispatches, _| {
            let mails = dispatches[0].mails.iter();
            let to: Vec<_> = mails.map(|mail| mail.recipient.as_str()).collect();
            assert_eq!(to, recipients, "{actor:?} {is_fetched} {is_erased}");
            Ok(ids(dispatches))
        });
        let mut queue = MockDeliveryQueue::new();
        queue.expect_orders().returning(move |_| {
            let kept = document("kept", NOW);
            let withdrawn = StoredDocument {
                key: None,
                withdrawn_at: Some(NOW),
                is_erased,
                first_downloaded_at: is_fetched.then_some(NOW),
                ..document("gone", NOW)
            };
            let (documents, others) = (vec![kept.clone(), withdrawn], vec![kept.clone(), kept]);
            let (documents, signed_documents) = match actor {
                Actor::Client => (documents, others),
                _ => (others, documents),
            };
            let order = StoredOrder { documents, signed_documents, ..stored_order(NOW) };
            Ok(vec![(OrderId(1), Ok(order))])
        });
        use_case(outbox, queue).step().await.result.unwrap();
    }
}
