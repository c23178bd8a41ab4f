//! Changes by the client of what it has said of an order.

use std::collections::BTreeSet;

use domain::{
    api_key::{ClientId, Owner, Party},
    delivery::{Audience, NewDelivery},
    order::{
        Actor, ChangeKind, FileNumber, MAX_TOLD, OldValues, Order, OrderChange, OrderCommand,
        OrderId, OrderStatus, Refusal, SigningServiceId, change::Amendment,
    },
    ports::{
        Changed, Cursor, HistoryQuery, ListedOrder, MaybeErased, NewOrder, OrderCommandRequest,
        OrderUpdate, WriteError,
    },
    precondition::OrderPrecondition,
    trace_context::TraceContext,
    webhook::{EventChange, EventType},
};
use time::{Duration, OffsetDateTime};

use super::{adding, changing, found};
use crate::samples::{
    self, LIVE, MICROSECOND, NOW, Storage, at_once, create_with_uploads, delivery, document,
    maximal_order, minimal_order, new_order, record_uploads, various_orders,
};

/// The instant of the changes.
const LATER: OffsetDateTime = NOW.saturating_add(Duration::HOUR);

/// Returns the change that gives an order of [`new_order`] another lender.
pub(super) fn amendment(id: OrderId, number: &str, lender: &str) -> OrderCommandRequest {
    let mut order = new_order(number, NOW).order;
    order.signing.lender = Some(lender.to_owned());
    samples::amend(id, order, LATER)
}

/// Returns the amendment of some versions alone.
pub(super) fn of_versions(
    request: OrderCommandRequest,
    versions: Vec<OffsetDateTime>,
) -> OrderCommandRequest {
    let OrderCommand::Amend(amendment) = request.command else { panic!("{request:?}") };
    let command = OrderCommand::Amend(Amendment {
        precondition: OrderPrecondition::expecting(versions),
        ..amendment
    });
    OrderCommandRequest { command, ..request }
}

fn lender() -> Vec<String> {
    vec!["/signingDetailsFormData/lender".to_owned()]
}

async fn amend(
    storage: &Storage,
    amendment: &OrderCommandRequest,
) -> Result<ListedOrder, WriteError> {
    match storage.orders.change(amendment).await? {
        Changed::Amended(order) => Ok(*order),
        other => panic!("{other:?}"),
    }
}

/// Returns the changed fields of each event of a change by the client, in their order.
async fn events(storage: &Storage) -> Vec<Vec<String>> {
    let events = storage.outbox.events(NOW + 400 * Duration::DAY, 10_000).await.unwrap();
    let of_client = events.into_iter().filter(|event| event.event == EventType::OrderChanged);
    let changed = |change| match change {
        Some(EventChange::Fields { changed }) => changed,
        change => panic!("{change:?}"),
    };
    of_client.map(|event| changed(event.change)).collect()
}

/// From and to orders of every kind. Documents, status, notary, file number, service and trace stay.
pub async fn amended_order_is_found_as_stored(storage: &Storage) {
    let various = various_orders().into_iter().chain([*maximal_order(), *minimal_order()]);
    let trace = TraceContext { traceparent: "00-1".to_owned(), tracestate: Some("a=1".to_owned()) };
    let mut before = new_order("F-1", NOW);
    before.documents = vec![document()];
    before.order.trace = Some(trace.clone());
    let id = create_with_uploads(storage, &before).await;
    let update = changing::update(id, NOW, "ASSIGNED");
    storage.orders.update(&update).await.unwrap().unwrap();
    let mut order = found(storage, LIVE, id).await.unwrap();
    let (mut at, mut told) = (LATER, Vec::new());
    for amended in various {
        at += MICROSECOND;
        let (signing_service_id, file_number) =
            (SigningServiceId(42), FileNumber::new("F-1".to_owned()).unwrap());
        let amended = Order { signing_service_id, file_number, trace: None, ..amended };
        let changed = order.order.fields_changed_by(&amended);
        let stored = Order { trace: Some(trace.clone()), ..amended.clone() };
        if !changed.is_empty() {
            order.changes.push(OrderChange {
                at,
                kind: ChangeKind::Changed(changed.clone()),
                status: order.status.clone(),
                notary_id: Some(7),
                actor: Actor::Client,
                reason: None,
                by: None,
                before: Some(order.order.old_values(&changed)),
            });
            order.updated_at = at;
            told.push(changed);
        }
        *order.order = stored;
        let new = samples::amend(id, Box::new(amended), at);
        assert_eq!(amend(storage, &new).await.unwrap(), order.clone().into());
        assert_eq!(found(storage, LIVE, id).await.unwrap(), order);
    }
    assert!(told.len() > 10);
    assert_eq!(events(storage).await, told);
}

/// Whatever the clock of the instance: instants of an order increase.
pub async fn amendment_is_later_than_every_change_before(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let early = OrderCommandRequest { at: NOW - Duration::HOUR, ..amendment(id, "F-1", "A") };
    let amended = amend(storage, &early).await.unwrap();
    assert_eq!(amended.stored.updated_at, NOW + MICROSECOND);
    let update = changing::update(id, amended.stored.updated_at, "ASSIGNED");
    storage.orders.update(&update).await.unwrap().unwrap();
    adding::add(storage, &adding::addition(id, 1)).await.unwrap();
    let again = OrderCommandRequest { at: NOW, ..amendment(id, "F-1", "B") };
    let amended = amend(storage, &again).await.unwrap();
    let order = found(storage, LIVE, id).await.unwrap();
    assert!(amended.stored.updated_at > LATER);
    assert_eq!(amended, order.clone().into());
    let kinds: Vec<_> = order.changes.iter().map(|change| change.kind.clone()).collect();
    let changed = || ChangeKind::Changed(lender());
    assert_eq!(kinds, [changed(), ChangeKind::Status, changed()]);
}

/// Each read of the history has them. The rest of an entry is read without them, too.
pub async fn old_values_stay_until_the_erasure(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let mut expected = vec![None];
    for bank in ["A bank", "B bank", "C bank"] {
        let before = found(storage, LIVE, id).await.unwrap().order;
        amend(storage, &amendment(id, "F-1", bank)).await.unwrap();
        expected.push(Some(before.old_values(&lender())));
    }
    let of_read = async || {
        let order = found(storage, LIVE, id).await.unwrap();
        order.history().map(|change| change.before).collect::<Vec<_>>()
    };
    let in_pages = async || {
        let (mut values, mut cursor) = (Vec::new(), Cursor::Newest);
        loop {
            let query = HistoryQuery { limit: 2, cursor };
            let page = storage.reader.history(LIVE, id, &query).await.unwrap();
            let page = page.and_then(MaybeErased::whole).flatten().unwrap();
            cursor = Cursor::OlderThan(page.items.last().unwrap().id);
            values.extend(page.items.into_iter().map(|entry| entry.change.before));
            if !page.has_older {
                values.reverse();
                return values;
            }
        }
    };
    assert_eq!(of_read().await, expected);
    assert_eq!(in_pages().await, expected);
    let all: BTreeSet<_> = expected.iter().flatten().map(json).collect();
    assert_eq!(all.len(), 3);
    let kept = storage.other_system.remains(id).await.data;
    assert!(all.iter().all(|values| kept.contains(values)), "{all:?}");

    storage.other_system.damage_old_values(id).await;
    assert_eq!(of_read().await, vec![None; 4]);
    assert_eq!(in_pages().await, vec![None; 4]);
    samples::condemned(storage.admin.erase(id, LATER, None).await.unwrap());
    assert_eq!(storage.other_system.remains(id).await.data, Vec::<String>::new());
}

fn json(values: &OldValues) -> String {
    serde_json::to_string(values).unwrap()
}

/// It returns the order.
pub async fn amendment_of_nothing_leaves_no_trace(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let update = changing::update(id, NOW, "ASSIGNED");
    storage.orders.update(&update).await.unwrap().unwrap();
    let before = found(storage, LIVE, id).await.unwrap();
    let nothing = samples::amend(id, new_order("F-1", NOW).order, LATER);
    assert_eq!(amend(storage, &nothing).await.unwrap(), before.clone().into());
    assert_eq!(found(storage, LIVE, id).await, Some(before));
    assert_eq!(events(storage).await, Vec::<Vec<String>>::new());
}

/// Nor that of an erased order.
pub async fn order_of_another_client_is_not_amended(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let test = storage.create(&NewOrder { is_test: true, ..new_order("F-1", NOW) }).await;
    let own = amendment(id, "F-1", "A");
    let service = Owner { party: Party::Service(SigningServiceId(43)), is_test: false };
    for other in [
        OrderCommandRequest { owner: Some(service), ..own.clone() },
        OrderCommandRequest { owner: Some(Owner::client(ClientId(99), false)), ..own.clone() },
        OrderCommandRequest { owner: Some(Owner { is_test: true, ..LIVE }), ..own.clone() },
        OrderCommandRequest { order: test, ..own.clone() },
        OrderCommandRequest { order: OrderId(test.0 + 1), ..own.clone() },
    ] {
        let outcome = amend(storage, &other).await;
        assert!(matches!(outcome, Err(WriteError::Refused(Refusal::NoSuchOrder))), "{outcome:?}");
    }
    assert_eq!(found(storage, LIVE, id).await.unwrap().updated_at, NOW);
    amend(storage, &of_versions(own.clone(), vec![LATER, NOW])).await.unwrap();
    storage.admin.erase(id, LATER, None).await.unwrap();
    let outcome = amend(storage, &own).await;
    assert!(matches!(outcome, Err(WriteError::Refused(Refusal::Erased))), "{outcome:?}");
}

/// History and events have one order. Covers changes of status and additions of documents.
pub async fn concurrent_amendments_and_changes_are_one_after_the_other(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let additions: Vec<_> = (0..8).map(|_| adding::addition(id, 1)).collect();
    for addition in &additions {
        record_uploads(storage, &adding::added(addition).documents).await;
    }
    let calls = (0..32).map(|number| {
        let (orders, addition) = (storage.orders.clone(), additions[number / 4].clone());
        let status = changing::update(id, NOW, &format!("S{number}"));
        let update = OrderUpdate { expected: None, ..status };
        let amendment = amendment(id, "F-1", &format!("Lender {number}"));
        async move {
            match number % 4 {
                0 => drop(orders.update(&update).await.unwrap().unwrap()),
                1 => drop(orders.change(&addition).await.unwrap()),
                _ => drop(orders.change(&amendment).await.unwrap()),
            }
        }
    });
    at_once(calls).await;
    let order = found(storage, LIVE, id).await.unwrap();
    assert_eq!((order.documents.len(), order.changes.len()), (8, 24));
    let instants: BTreeSet<_> = order.changes.iter().map(|change| change.at).collect();
    assert!(instants.iter().eq(order.changes.iter().map(|change| &change.at)), "they increase");
    assert_eq!(order.changes.last().unwrap().status, order.status);
    let events = storage.outbox.events(NOW + 400 * Duration::DAY, 10_000).await.unwrap();
    let told: Vec<_> = events.into_iter().filter_map(|event| event.change).collect();
    assert_eq!(told.len(), order.changes.len());
    for (change, event) in order.changes.iter().zip(&told) {
        match event {
            EventChange::Order(event) => assert_eq!(event.order_status, change.status.as_str()),
            EventChange::Fields { changed } => {
                assert_eq!(change.kind, ChangeKind::Changed(changed.clone()));
            }
            other => panic!("no change of the order: {other:?}"),
        }
    }
}

/// The others learn that it has changed.
pub async fn one_of_concurrent_amendments_of_a_version_is_stored(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let calls = (0..8).map(|number| {
        let orders = storage.orders.clone();
        let new = amendment(id, "F-1", &format!("Lender {number}"));
        let new = of_versions(new, vec![NOW]);
        async move { orders.change(&new).await }
    });
    let outcomes = at_once(calls).await;
    let stored: Vec<_> = outcomes.iter().flatten().collect();
    let order = found(storage, LIVE, id).await.unwrap();
    assert_eq!(stored, [&Changed::Amended(Box::new(order.clone().into()))]);
    for failed in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert!(matches!(failed, WriteError::Refused(Refusal::Changed)), "{failed:?}");
    }
    assert_eq!(events(storage).await, [lender()]);
}

/// In the transaction of the amendment: the entry and the event of the status follow those of the amendment.
pub async fn confirmation_ends_with_its_appointment(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let confirm = changing::update(id, NOW, "CONFIRMED");
    storage.orders.update(&confirm).await.unwrap().unwrap();
    amend(storage, &amendment(id, "F-1", "A bank")).await.unwrap();
    assert_eq!(found(storage, LIVE, id).await.unwrap().status, OrderStatus::CONFIRMED);
    let mut moved = found(storage, LIVE, id).await.unwrap().order;
    moved.appointment.date += Duration::DAY;
    let at = LATER + Duration::HOUR;

    let amended = amend(storage, &samples::amend(id, moved, at)).await.unwrap();

    let order = found(storage, LIVE, id).await.unwrap();
    assert_eq!(amended, order.clone().into());
    assert_eq!((order.status.clone(), order.notary_id), (OrderStatus::ASSIGNED, Some(7)));
    assert_eq!(order.updated_at, at + MICROSECOND);
    let [.., changed, ended] = &order.changes[..] else { panic!("{:?}", order.changes) };
    assert!(matches!(changed.kind, ChangeKind::Changed(_)), "{changed:?}");
    let expected = OrderChange {
        at: at + MICROSECOND,
        kind: ChangeKind::Status,
        status: OrderStatus::ASSIGNED,
        notary_id: Some(7),
        actor: Actor::Client,
        reason: None,
        by: None,
        before: None,
    };
    assert_eq!(*ended, expected);
    let events = storage.outbox.events(NOW + 400 * Duration::DAY, 10_000).await.unwrap();
    let [.., changed, ended] = &events[..] else { panic!("{events:?}") };
    let types = [changed, ended].map(|event| event.event);
    assert_eq!(types, [EventType::OrderChanged, EventType::OrderUpdated]);
    let told = ended.change.as_ref().and_then(EventChange::order).unwrap();
    let statuses = (&*told.previous_status, &*told.order_status, told.actor);
    assert_eq!(statuses, ("CONFIRMED", "ASSIGNED", Actor::Client));
    // Calendars keep the file with the greatest number: the move has it.
    samples::dispatch(&*storage.outbox, id, vec![delivery(0)]).await;
    let leases = storage.queue.lease(NOW + 400 * Duration::DAY, Duration::MINUTE, 1).await.unwrap();
    let begun = [(leases[0].delivery.id, order.updated_at)];
    let begun = storage.queue.begin(&begun, NOW, 0).await.unwrap();
    assert_eq!(begun[0].sequence, Some(3));
    let for_mail = samples::order_of(&*storage.queue, id).await.unwrap().unwrap();
    assert!(for_mail.must_be_confirmed_again());
}

/// Each of them gets a mail if the order is cancelled. What the client wants is rejected, and nothing is lost.
pub async fn order_that_as_many_addresses_know_as_can_gets_no_other(storage: &Storage) {
    let new = new_order("F-1", NOW);
    let id = storage.create(&new).await;
    let to_service = NewDelivery { audience: Audience::Service, ..delivery(MAX_TOLD) };
    let mails = (0..MAX_TOLD).map(delivery).chain([to_service]).collect();
    samples::dispatch(&*storage.outbox, id, mails).await;
    let leases = storage.queue.lease(NOW, Duration::MINUTE, 2 * MAX_TOLD).await.unwrap();
    let begun: Vec<_> = leases.iter().map(|lease| (lease.delivery.id, NOW)).collect();
    storage.queue.begin(&begun, NOW, 0).await.unwrap();
    assert_eq!(storage.queue.told(&[id]).await.unwrap().len(), MAX_TOLD + 1);
    let before = found(storage, LIVE, id).await.unwrap();

    let rejected = amend(storage, &amendment(id, "F-1", "A bank")).await;
    let is_rejected = matches!(rejected, Err(WriteError::Refused(Refusal::TooManyAddresses)));
    assert!(is_rejected, "{rejected:?}");
    assert_eq!(found(storage, LIVE, id).await.unwrap(), before);
    let mut known = new.order;
    known.contacts.order_contact_email = samples::recipient(0);
    amend(storage, &samples::amend(id, known, LATER)).await.unwrap();
}
