//! The contract of `OrderAdmin`.

use std::{collections::BTreeSet, slice::from_ref, sync::Arc};

use domain::{
    api_key::ClientId,
    delivery::{LONGEST_ATTEMPT, Settling},
    document::StoredDocument,
    order::{
        Actor, ChangeKind, Due, OrderId, Refusal, Retained, StoredOrder, change::ERASED_ENTRIES,
    },
    ports::{
        Changed, Dispatch, EndpointEffect, ErasedDue, ErasureOutcome, ListFilter, MaybeErased,
        NewOrder, NewWebhookDelivery, OrderFilter, QueueStats, Settlement, WriteError,
    },
    webhook::{EndpointPrecondition, ErasedFrom, EventType},
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use crate::{
    ForeignChange, Remains,
    order_repo::{added, addition, addition_at},
    samples::{
        CLIENT, LIVE, MICROSECOND, NOW, Storage, WINDOW, attempt, condemned, create_with_uploads,
        delivery, dispatch, document, hold, idempotency_key, key_of, keys_of, lease_webhooks,
        mails, maximal_order, maximal_request, minimal_request, new_endpoint, new_order,
        object_key, order, order_of, record_uploads, settle, settle_webhook, stored, to_sign,
        with_key, withdraw,
    },
};

/// Before every order.
const NONE: OrderId = OrderId(0);

const OTHER: ClientId = ClientId(77);

async fn listed(
    storage: &Storage,
    filter: &OrderFilter,
    before: Option<OrderId>,
    limit: usize,
) -> Vec<OrderId> {
    let orders = storage.admin.list(filter, before, limit).await.unwrap();
    orders.into_iter().map(|order| order.stored.id).collect()
}

/// The newest come first, in pages. Erased orders are left out.
pub async fn orders_of_all_clients_are_listed(storage: &Storage) {
    let mut ids = Vec::new();
    for number in 0..5 {
        let client = if number % 2 == 0 { CLIENT } else { OTHER };
        let documents = (0..number).map(|_| document()).collect();
        let order = NewOrder { client, documents, ..new_order(&format!("F-{number}"), NOW) };
        ids.insert(0, create_with_uploads(storage, &order).await);
    }
    let all = storage.admin.list(&OrderFilter::default(), None, 10).await.unwrap();
    let documents: Vec<_> = all.iter().map(|order| order.counts.documents).collect();
    assert_eq!(documents, [4, 3, 2, 1, 0]);
    assert!(all.iter().all(|order| order.stored.documents.is_empty()));
    let filter = OrderFilter::default();
    assert_eq!(listed(storage, &filter, None, 2).await, ids[..2]);
    assert_eq!(listed(storage, &filter, Some(ids[1]), 2).await, ids[2..4]);
    storage.admin.erase(ids[2], NOW, None).await.unwrap();
    assert_eq!(listed(storage, &filter, Some(ids[1]), 2).await, ids[3..]);
    assert_eq!(listed(storage, &filter, Some(ids[4]), 2).await, []);
}

/// Both together give the orders that match both.
pub async fn orders_are_listed_by_file_number_and_client(storage: &Storage) {
    let mut ids = Vec::new();
    for (number, (client, file_number)) in
        [(CLIENT, "F-1"), (OTHER, "F-1"), (CLIENT, "F-2"), (CLIENT, "F-1")].into_iter().enumerate()
    {
        let at = NOW + Duration::MINUTE * i32::try_from(number).unwrap();
        let order = NewOrder { client, ..new_order(file_number, at) };
        ids.push(storage.create(&order).await);
    }
    let filter = |file_number: Option<&str>, client| OrderFilter {
        list: ListFilter { file_number: file_number.map(str::to_owned), ..Default::default() },
        client,
        ..Default::default()
    };
    let by_number = filter(Some("F-1"), None);
    assert_eq!(listed(storage, &by_number, None, 10).await, [ids[3], ids[1], ids[0]]);
    assert_eq!(listed(storage, &by_number, Some(ids[3]), 1).await, [ids[1]]);
    let by_client = filter(None, Some(CLIENT));
    assert_eq!(listed(storage, &by_client, None, 10).await, [ids[3], ids[2], ids[0]]);
    let by_both = filter(Some("F-1"), Some(CLIENT));
    assert_eq!(listed(storage, &by_both, None, 10).await, [ids[3], ids[0]]);
    assert_eq!(listed(storage, &filter(Some("f-1"), None), None, 10).await, []);
}

/// The fields of an order that are e-mail addresses of a person.
const ADDRESSES: [&str; 8] = [
    "/signingContactsFormData/orderContactEmail",
    "/signingContactsFormData/observer",
    "/signingContactsFormData/inHouseContact/contact_email",
    "/signingContactsFormData/inHouseContact2/contact_email",
    "/signingDetailsFormData/signerEmail",
    "/signingDetailsFormData/coSignerEmail",
    "/signingDetailsFormData/loanOfficer/contact_email",
    "/signingDetailsFormData/invoiceEmail",
];

/// Letter case does not matter. A part of an address is none.
pub async fn orders_are_listed_by_any_address(storage: &Storage) {
    let mut ids = Vec::new();
    for (number, field) in ADDRESSES.into_iter().enumerate() {
        let mut request: Value = maximal_request();
        for other in ADDRESSES {
            *request.pointer_mut(other).unwrap() = json!("other_%@example.com");
        }
        *request.pointer_mut(field).unwrap() = json!("Jane.Doe_1@Example.com");
        request["signingDetailsFormData"]["fileNumber"] = json!(format!("F-{number}"));
        let new = NewOrder { order: order(request), ..new_order("F", NOW) };
        ids.insert(0, storage.create(&new).await);
    }
    storage.create(&new_order("F-other", NOW)).await;
    let filter = |email: &str| OrderFilter { email: Some(email.to_owned()), ..Default::default() };
    for address in ["jane.doe_1@example.com", "JANE.DOE_1@EXAMPLE.COM"] {
        assert_eq!(listed(storage, &filter(address), None, 10).await, ids, "{address}");
    }
    let page = listed(storage, &filter("jane.doe_1@example.com"), Some(ids[0]), 2).await;
    assert_eq!(page, ids[1..3]);
    for unknown in ["doe_1@example.com", "jane.doe_1@example", "jane.doe%1@example.com", "%", ""] {
        assert_eq!(listed(storage, &filter(unknown), None, 10).await, [], "{unknown}");
    }
}

/// It is whole, with its documents.
pub async fn order_of_any_client_is_found(storage: &Storage) {
    for client in [CLIENT, OTHER] {
        let order = NewOrder {
            client,
            order: maximal_order(),
            documents: vec![document(), document()],
            is_test: client == OTHER,
            ..new_order("F", NOW)
        };
        let id = create_with_uploads(storage, &order).await;
        let found = storage.admin.order(id).await.unwrap();
        assert_eq!(found, Some(MaybeErased::Whole(stored(id, &order))));
    }
    for unknown in [0, -1, i64::MAX].map(OrderId) {
        assert_eq!(storage.admin.order(unknown).await.unwrap(), None);
    }
}

/// The instant itself is left out, and so are erased orders. A clock may have been a year ahead.
pub async fn old_orders_are_found_smallest_first(storage: &Storage) {
    for number in 0..4 {
        let order = new_order(&format!("A-{number}"), NOW + Duration::days(365));
        storage.create(&order).await;
    }
    let mut ids = Vec::new();
    for number in 0..4 {
        let order = new_order(&format!("F-{number}"), NOW + Duration::SECOND * number);
        let order = NewOrder { is_test: number % 2 == 0, ..order };
        ids.push(storage.create(&order).await);
    }
    let old = |number: i32, limit| {
        storage.admin.created_before(NOW + Duration::SECOND * number, NONE, limit)
    };
    assert_eq!(old(3, 10).await.unwrap(), ids[..3]);
    assert_eq!(old(3, 2).await.unwrap(), ids[..2]);
    assert_eq!(old(0, 10).await.unwrap(), []);
    storage.admin.erase(ids[0], NOW, None).await.unwrap();
    assert_eq!(old(3, 2).await.unwrap(), ids[1..3]);
    assert_eq!(storage.admin.created_before(NOW + MICROSECOND, NONE, 2).await.unwrap(), []);
    let later = storage.admin.created_before(NOW + Duration::MINUTE, ids[1], 10).await.unwrap();
    assert_eq!(later, ids[2..]);
}

/// Erases an order, and returns the condemned keys.
async fn erase(storage: &Storage, id: OrderId) -> Vec<domain::document::ObjectKey> {
    condemned(storage.admin.erase(id, NOW + Duration::DAY, None).await.unwrap())
}

/// It is erased in every port.
pub async fn erasure_leaves_only_the_row(storage: &Storage) {
    let closed = || vec!["CLOSED".to_owned()];
    let order =
        NewOrder { order: maximal_order(), documents: vec![document()], ..new_order("F", NOW) };
    let id = create_with_uploads(storage, &order).await;
    storage.other_system.change_order(id, ForeignChange::Status("CLOSED")).await;
    let whole = storage.other_system.remains(id).await;
    assert_eq!((&*whole.status, whole.client, whole.history), ("CLOSED", CLIENT, closed()));
    assert!(!whole.data.is_empty());
    erase(storage, id).await;
    assert_eq!(storage.admin.order(id).await.unwrap(), Some(MaybeErased::Erased));
    assert_eq!(storage.reader.order(LIVE, id).await.unwrap(), Some(MaybeErased::Erased));
    for position in [0, 1] {
        let document = storage.reader.document(LIVE, to_sign(id, position)).await.unwrap();
        assert_eq!(document, Some(MaybeErased::Erased));
    }
    assert_eq!(order_of(&*storage.queue, id).await.unwrap(), None);
    let addition = addition(id, 1);
    record_uploads(storage, &added(&addition).documents).await;
    let outcome = storage.orders.change(&addition).await;
    assert!(matches!(outcome, Err(WriteError::Refused(Refusal::Erased))), "{outcome:?}");
    // The row has nothing of the order but what the contract of `erase` names.
    let status = "CLOSED".to_owned();
    let remains = Remains { status, client: CLIENT, history: closed(), data: Vec::new() };
    assert_eq!(storage.other_system.remains(id).await, remains);
}

/// An instance of version 0.1.0 beside does not know what later versions store of the order.
pub async fn erasure_by_the_first_version_leaves_only_the_row(storage: &Storage) {
    let mut any_time = minimal_request();
    any_time["signingDetailsFormData"]["signingTimeType"] = json!("anytime");
    let id = storage.create(&NewOrder { order: order(any_time), ..new_order("F", NOW) }).await;
    storage.other_system.change_order(id, ForeignChange::Named(Some(7), "Pat")).await;
    storage.other_system.change_as_first_version(id).await;
    assert!(!storage.other_system.remains(id).await.data.is_empty());
    storage.other_system.erase_as_first_version(id).await;
    assert_eq!(storage.other_system.remains(id).await.data, Vec::<String>::new());
    assert_eq!(storage.reader.order(LIVE, id).await.unwrap(), Some(MaybeErased::Erased));
}

/// Another order may use it at once. Erasing the order again, or an unknown one, changes nothing.
pub async fn erasure_frees_the_file_number(storage: &Storage) {
    let order = new_order("F-1", NOW);
    let first = storage.create(&order).await;
    assert_eq!(erase(storage, first).await, []);
    for unknown in [first.0, first.0 + 1, 0, -1].map(OrderId) {
        assert_eq!(
            storage.admin.erase(unknown, NOW, None).await.unwrap(),
            ErasureOutcome::NotFound
        );
    }
    let second = storage.create(&order).await;
    // Erased orders do not bar each other.
    erase(storage, second).await;
    storage.create(&order).await;
}

/// Their keys are in the ledger until their objects are deleted.
pub async fn erasure_condemns_the_documents(storage: &Storage) {
    let documents = vec![document(), document()];
    let mut keys = keys_of(&documents);
    let id = create_with_uploads(storage, &NewOrder { documents, ..new_order("F-1", NOW) }).await;
    let mut removed = erase(storage, id).await;
    keys.sort_unstable();
    removed.sort_unstable();
    assert_eq!(removed, keys);
    let mut swept = storage.uploads.condemn_recorded_before(NOW, None, 10).await.unwrap();
    swept.sort_unstable();
    assert_eq!(swept, keys, "at any age");
    storage.uploads.forget(&keys).await.unwrap();
    assert_eq!(storage.condemn(&keys).await, []);
}

/// A worker that has read the event adds nothing.
pub async fn erasure_removes_the_event_and_the_deliveries(storage: &Storage) {
    let [id, other, noted] = storage.create_all(["F-1", "F-2", "F-3"]).await;
    dispatch(&*storage.outbox, id, (0..3).map(delivery).collect()).await;
    dispatch(&*storage.outbox, other, vec![delivery(0)]).await;
    let event = storage.outbox.events(NOW, 10).await.unwrap().remove(0);
    assert_eq!(event.order_id, noted);

    erase(storage, id).await;
    erase(storage, noted).await;
    let late = mails(event.id, vec![delivery(0)]);
    assert_eq!(storage.outbox.dispatch(&[late], NOW).await.unwrap(), []);
    let left = storage.queue.lease(NOW, Duration::MINUTE, 10).await.unwrap();
    let left: Vec<_> = left.iter().map(|lease| lease.delivery.order_id).collect();
    assert_eq!(left, [other]);
    erase(storage, other).await;
    assert_eq!(remove_mails(storage, NOW + Duration::days(4_000)).await, 0);
    drop_erasures(storage).await;
    assert_eq!(storage.stats().await, QueueStats::default());
    let erased = storage.admin.erased(&[id, OrderId(i64::MAX), other]).await.unwrap();
    assert_eq!(BTreeSet::from_iter(erased), BTreeSet::from([id, other]));
}

/// Dispatches the events of erasures to nobody. No other event must be left.
async fn drop_erasures(storage: &Storage) {
    let events = storage.outbox.events(NOW + Duration::days(4_000), 10).await.unwrap();
    for event in events {
        assert_eq!(event.event, EventType::OrderErased);
        assert_eq!(
            storage.outbox.dispatch(&[mails(event.id, vec![])], NOW).await.unwrap(),
            [event.id]
        );
    }
}

/// Both sides learn of it, and nothing of the order but its identifier and its sides.
pub async fn erasure_is_an_event(storage: &Storage) {
    let test = NewOrder { is_test: true, ..new_order("F-2", NOW) };
    let ids = [storage.create(&new_order("F-1", NOW)).await, storage.create(&test).await];
    let end = NOW + Duration::days(4_000);
    let at = [NOW + MICROSECOND, end];
    condemned(storage.admin.erase(ids[0], at[0], None).await.unwrap());
    // As the retention does.
    let far = Due { now: end, ..due(Retained::Orders, end) };
    assert_eq!(erase_due(storage, far, &[ids[1]]).await.orders, [ids[1]]);
    let events = storage.outbox.events(end, 10).await.unwrap();
    let told: Vec<_> = events
        .iter()
        .map(|it| (it.order_id, it.event, it.created_at, it.change.as_ref().unwrap().erased()))
        .collect();
    let erased = [false, true].map(|is_test| ErasedFrom {
        client_id: CLIENT.0,
        signing_service_id: new_order("F", NOW).order.signing_service_id.0,
        is_test,
    });
    let event = EventType::OrderErased;
    let expected = [0, 1].map(|one| (ids[one], event, at[one], Some(&erased[one])));
    assert_eq!(told, expected);
}

/// Removes the mails of erased orders. Returns what is in progress.
async fn remove_mails(storage: &Storage, at: OffsetDateTime) -> usize {
    let mails = storage.admin.mails_of_erased().await.unwrap();
    storage.admin.remove_mails(&mails, at).await.unwrap()
}

/// How far the clock of a worker is ahead of that of the erasure.
const CLOCKS: [Duration; 3] = [Duration::ZERO, Duration::days(-31), Duration::days(365)];

/// A worker may have read the order before, and may still write its mail.
pub async fn mail_in_progress_stays_until_it_is_settled(storage: &Storage) {
    let error = || "busy".to_owned();
    let settlements = [
        Some(Settlement::Done),
        Some(Settlement::RetryAt { due_at: NOW, error: error() }),
        Some(Settlement::Fail { at: NOW, error: error() }),
        // The worker has died.
        None,
    ];
    let cases = settlements.iter().flat_map(|settlement| CLOCKS.map(|ahead| (settlement, ahead)));
    for (number, (settlement, ahead)) in cases.enumerate() {
        let at = NOW + ahead;
        let id = storage.create(&new_order(&format!("F-{number}"), at)).await;
        dispatch(&*storage.outbox, id, vec![delivery(0), delivery(1)]).await;
        let lease = storage.queue.lease(at, Duration::MINUTE, 1).await.unwrap().remove(0);
        condemned(storage.admin.erase(id, NOW, None).await.unwrap());
        drop_erasures(storage).await;
        assert_eq!(storage.stats().await.pending, 1, "the other one is gone");
        for waited in [Duration::ZERO, Duration::MINUTE, Duration::minutes(20)] {
            let left = remove_mails(storage, NOW + waited).await;
            assert_eq!(left, 1, "{number}");
        }
        let mut end = NOW;
        match settlement {
            Some(settlement) => assert!(settle(&*storage.queue, &lease, settlement).await),
            None => end += LONGEST_ATTEMPT,
        }
        assert_eq!(remove_mails(storage, end).await, 0, "{number}");
        assert_eq!(storage.stats().await, QueueStats::default());
    }
}

/// Its worker is slow: another one would settle the mail as one without an order, and the erasure would
/// no more wait.
pub async fn mail_in_progress_of_an_erased_order_is_not_leased_again(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    dispatch(&*storage.outbox, id, vec![delivery(0)]).await;
    let lease = storage.queue.lease(NOW, Duration::MINUTE, 1).await.unwrap().remove(0);
    condemned(storage.admin.erase(id, NOW, None).await.unwrap());
    let later = NOW + Duration::minutes(3);
    assert_eq!(storage.queue.lease(later, Duration::MINUTE, 1).await.unwrap(), []);
    assert_eq!(remove_mails(storage, later).await, 1);
    assert!(settle(&*storage.queue, &lease, &Settlement::Done).await);
    assert_eq!(remove_mails(storage, later).await, 0);
}

/// It names the file number of the order, also after it was delivered.
pub async fn webhooks_of_an_erased_order_lose_their_bodies(storage: &Storage) {
    let endpoint = storage.webhooks.add(&new_endpoint(LIVE), 10).await.unwrap().unwrap().id;
    let id = storage.create(&new_order("F-1", NOW)).await;
    let event = storage.outbox.events(NOW, 1).await.unwrap().remove(0).id;
    let webhook = NewWebhookDelivery {
        endpoint,
        event: EventType::OrderCreated,
        change: None,
        message_key: "m".to_owned(),
        body: Some("F-1".to_owned()),
    };
    let dispatched =
        Dispatch { event, mails: vec![], settling: Settling::NONE, webhooks: vec![webhook] };
    storage.outbox.dispatch(&[dispatched], NOW).await.unwrap();
    let lease = lease_webhooks(storage, NOW).await.remove(0);
    assert_eq!(lease.body.as_deref(), Some("F-1"));
    settle_webhook(storage, &lease, Settlement::Done, EndpointEffect::Succeeded, NOW).await;
    condemned(storage.admin.erase(id, NOW, None).await.unwrap());
    let (queue, delivery) = (&storage.webhook_queue, lease.delivery.id);
    let none = EndpointPrecondition::NONE;
    assert!(queue.replay(LIVE, endpoint, delivery, &none, NOW).await.unwrap());
    assert_eq!(lease_webhooks(storage, NOW).await[0].body, None);
}

/// The worker has read the order and still sends its file number.
pub async fn webhook_in_progress_of_an_erased_order_is_counted(storage: &Storage) {
    let endpoint = storage.webhooks.add(&new_endpoint(LIVE), 10).await.unwrap().unwrap().id;
    for (number, ahead) in CLOCKS.into_iter().enumerate() {
        let at = NOW + ahead;
        let id = storage.create(&new_order(&format!("F-{number}"), at)).await;
        let event = storage.outbox.events(at, 1).await.unwrap().remove(0).id;
        let (kind, message_key) = (EventType::OrderCreated, "m".to_owned());
        let webhooks = vec![NewWebhookDelivery {
            endpoint,
            event: kind,
            change: None,
            message_key,
            body: None,
        }];
        let dispatched = Dispatch { event, mails: vec![], settling: Settling::NONE, webhooks };
        storage.outbox.dispatch(&[dispatched], at).await.unwrap();
        let lease = lease_webhooks(storage, at).await.remove(0);
        condemned(storage.admin.erase(id, NOW, None).await.unwrap());
        drop_erasures(storage).await;
        assert_eq!(remove_mails(storage, NOW).await, 1, "{ahead}");
        let ended = NOW + LONGEST_ATTEMPT;
        assert_eq!(remove_mails(storage, ended).await, 0, "{ahead}");
        settle_webhook(storage, &lease, Settlement::Done, EndpointEffect::None, at).await;
        assert_eq!(remove_mails(storage, NOW).await, 0, "{ahead}");
    }
}

/// The request still puts its objects, and then removes them.
pub async fn upload_in_progress_of_an_erased_order_is_condemned_and_counted(storage: &Storage) {
    let [id, other] = storage.create_all(["F-1", "F-2"]).await;
    let [key, kept, late] = [object_key(), object_key(), object_key()];
    for (order, key) in [(id, &key), (other, &kept)] {
        // Changes no row: SQLite counts the rows of the last change, not of a read.
        storage.uploads.forget(from_ref(&late)).await.unwrap();
        let recorded = storage.uploads.record_for(LIVE.party, order, from_ref(key), NOW).await;
        assert!(recorded.unwrap());
    }
    assert_eq!(storage.admin.erase(id, NOW, None).await.unwrap(), ErasureOutcome::Erased(vec![]));
    for gone in [id, OrderId(i64::MAX)] {
        let recorded = storage.uploads.record_for(LIVE.party, gone, from_ref(&late), NOW).await;
        assert!(!recorded.unwrap());
    }
    assert_eq!(remove_mails(storage, NOW).await, 1);
    assert_eq!(remove_mails(storage, NOW + LONGEST_ATTEMPT).await, 0);
    let swept = storage.uploads.condemn_recorded_before(NOW, None, 10).await.unwrap();
    assert_eq!(swept, from_ref(&key));
    storage.uploads.forget(from_ref(&key)).await.unwrap();
    assert_eq!(remove_mails(storage, NOW).await, 0);
    assert_eq!(storage.condemn(from_ref(&late)).await, []);
}

/// Also an order with the same file number. The idempotency key of the erased one stays in use: a
/// repeat of the request creates no second order.
pub async fn other_orders_are_left_alone(storage: &Storage) {
    let first = with_key(new_order("F-1", NOW), &attempt(&idempotency_key(1, "key"), 7));
    let first = NewOrder { documents: vec![document()], ..first };
    let second = NewOrder { documents: vec![document()], ..new_order("F-1", NOW + WINDOW.0) };
    let erased = create_with_uploads(storage, &first).await;
    let kept = create_with_uploads(storage, &second).await;
    erase(storage, erased).await;
    let found = storage.admin.order(kept).await.unwrap();
    assert_eq!(found, Some(MaybeErased::Whole(stored(kept, &second))));
    let again = storage.orders.create(&second, WINDOW).await;
    assert!(again.is_err(), "it still holds the file number: {again:?}");
    let keys = &[key_of(&second.documents[0])];
    assert_eq!(storage.condemn(keys).await, []);
    let repeated = storage.orders.create(&NewOrder { documents: vec![], ..first }, WINDOW).await;
    assert!(matches!(repeated, Err(WriteError::KeyInUse(_))), "{repeated:?}");
}

/// Runs both at the same time: no document is left that no order and no ledger has.
pub async fn document_is_added_or_the_order_erased_never_both(storage: &Storage) {
    for round in 0..20 {
        let id = storage.create(&new_order(&format!("F-{round}"), NOW)).await;
        let addition = addition(id, 1);
        let key = key_of(&added(&addition).documents[0]);
        record_uploads(storage, &added(&addition).documents).await;
        let (orders, admin) = (storage.orders.clone(), storage.admin.clone());
        let adding = tokio::spawn(async move { orders.change(&addition).await });
        let erasing =
            tokio::spawn(async move { condemned(admin.erase(id, NOW, None).await.unwrap()) });
        let (added, condemned) = (adding.await.unwrap(), erasing.await.unwrap());
        match added {
            Ok(_) => assert_eq!(condemned, from_ref(&key), "it was added before"),
            // Unavailable: an erasure on a busy machine may hold the order for longer than a request waits.
            Err(WriteError::Refused(Refusal::Erased) | WriteError::Unavailable(_)) => {
                assert_eq!(condemned, []);
                let left = storage.condemn(from_ref(&key)).await;
                assert_eq!(left, from_ref(&key), "the upload stays in the ledger");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Returns what is due of orders whose appointment and last change lie before an instant.
fn due(what: Retained, before: OffsetDateTime) -> Due {
    Due { what, before, now: NOW }
}

async fn found(storage: &Storage, due: Due) -> Vec<OrderId> {
    storage.admin.due(due, OrderId(0), 10).await.unwrap().orders
}

async fn erase_due(storage: &Storage, due: Due, ids: &[OrderId]) -> ErasedDue {
    storage.admin.erase_due(due, ids.to_vec(), Arc::new(|_| None)).await.unwrap().unwrap()
}

/// The sample orders have their appointment after their creation.
pub async fn order_is_due_after_its_appointment_and_its_last_change(storage: &Storage) {
    let [first, second, held] = storage.create_all(["F-1", "F-2", "F-3"]).await;
    let far = NOW + Duration::days(4_000);
    storage.other_system.change_order(second, ForeignChange::Status("SIGNED")).await;
    storage.orders.change(&hold(held, Some(NOW + MICROSECOND))).await.unwrap();
    assert_eq!(found(storage, due(Retained::Orders, NOW - MICROSECOND)).await, []);
    assert_eq!(found(storage, due(Retained::Orders, far)).await, [first, second]);
    let changed = storage.admin.order(second).await.unwrap().unwrap().whole().unwrap().updated_at;
    if changed > NOW {
        let before = changed.min(far);
        let found = found(storage, due(Retained::Orders, before)).await;
        assert!(!found.contains(&second), "its last change is not before");
    }
    let look = async |after, limit| {
        let found = storage.admin.due(due(Retained::Orders, far), after, limit).await.unwrap();
        assert_eq!(found.looked_at, None, "there are no later orders");
        found.orders
    };
    assert_eq!(look(OrderId(0), 1).await, [first]);
    assert_eq!(look(first, 10).await, [second]);
    assert_eq!(look(held, 10).await, []);
    // The hold has ended.
    let later = Due { now: NOW + MICROSECOND, ..due(Retained::Orders, far) };
    assert_eq!(found(storage, later).await, [first, second, held]);
}

/// It is erased like any other. Orders that are not due any more stay.
pub async fn order_that_is_due_is_erased_once(storage: &Storage) {
    let documents = vec![document(), document()];
    let mut keys = keys_of(&documents);
    let old = create_with_uploads(storage, &NewOrder { documents, ..new_order("F-1", NOW) }).await;
    let held = storage.create(&new_order("F-2", NOW)).await;
    let far = due(Retained::Orders, NOW + Duration::days(4_000));
    assert_eq!(found(storage, far).await, [old, held]);
    storage.orders.change(&hold(held, Some(NOW + MICROSECOND))).await.unwrap();
    let erased = erase_due(storage, far, &[old, held]).await;
    let mut condemned = erased.condemned;
    condemned.sort_unstable();
    keys.sort_unstable();
    assert_eq!((erased.orders, condemned), (vec![old], keys));
    assert_eq!(storage.admin.order(old).await.unwrap(), Some(MaybeErased::Erased));
    assert!(matches!(storage.admin.order(held).await.unwrap(), Some(MaybeErased::Whole(_))));
    assert_eq!(erase_due(storage, far, &[old, held]).await, ErasedDue::default());
    assert_eq!(found(storage, far).await, []);
}

/// Other writes need not wait for several of them. What is left is due as before.
pub async fn orders_with_long_histories_are_erased_in_steps(storage: &Storage) {
    let ids = storage.create_all(["F-1", "F-2", "F-3"]).await;
    for id in [ids[0], ids[1]] {
        storage.other_system.count_entries(id, ERASED_ENTRIES).await;
    }
    let far = due(Retained::Orders, NOW + Duration::days(4_000));
    assert_eq!(erase_due(storage, far, &ids).await.orders, [ids[0]]);
    assert_eq!(found(storage, far).await, ids[1..]);
    assert_eq!(erase_due(storage, far, &ids).await.orders, ids[1..]);
}

/// Their records stay. The retention of the order itself is not prolonged.
pub async fn documents_that_are_due_are_withdrawn(storage: &Storage) {
    let documents = vec![document(), document()];
    let mut keys = keys_of(&documents);
    let id = create_with_uploads(storage, &NewOrder { documents, ..new_order("F-1", NOW) }).await;
    storage.create(&new_order("F-2", NOW)).await;
    let end = NOW + Duration::days(4_000);
    let far = Due { now: end, ..due(Retained::Documents, end) };
    assert_eq!(found(storage, far).await, [id], "the other one has none");
    let mut erased = erase_due(storage, far, &[id]).await;
    keys.sort_unstable();
    erased.condemned.sort_unstable();
    assert_eq!(erased, ErasedDue { orders: vec![id], condemned: keys });
    assert_eq!(found(storage, far).await, []);
    let order = storage.admin.order(id).await.unwrap().unwrap().whole().unwrap();
    // No change of people: what they change next does not fail for it.
    assert_eq!((order.updated_at, order.touched_at), (NOW, Some(end)));
    let is_erased = |one: &StoredDocument| one.withdrawn_at == Some(end) && one.is_erased;
    assert!(order.documents.iter().all(|one| is_erased(one) && one.key.is_none()));
    let entry = &order.changes[0];
    assert_eq!((&entry.kind, entry.actor), (&ChangeKind::DocumentsErased, Actor::Operator));
    let events = storage.outbox.events(NOW, 10).await.unwrap();
    let withdrawn = events.iter().filter(|it| it.event == EventType::DocumentWithdrawn);
    assert_eq!(withdrawn.count(), 1);
}

/// Also if they go late, as when the settings are first set on old orders. A change after it prolongs it. Each
/// document keeps which withdrew it, its side or the retention.
pub async fn erasure_of_documents_does_not_prolong_the_retention_of_their_order(storage: &Storage) {
    let documents = vec![document(), document()];
    let id = create_with_uploads(storage, &NewOrder { documents, ..new_order("F-1", NOW) }).await;
    storage.orders.change(&withdraw(to_sign(id, 0))).await.unwrap();
    let end = NOW + Duration::days(4_000);
    let due_at = |what, at| Due { now: at, ..due(what, at) };
    erase_due(storage, due_at(Retained::Documents, end), &[id]).await;
    assert_eq!(found(storage, due_at(Retained::Orders, end)).await, [id], "it stays due");

    let (changed, later) = (end + MICROSECOND, end + Duration::MINUTE);
    let addition = addition_at(id, 1, changed);
    record_uploads(storage, &added(&addition).documents).await;
    storage.orders.change(&addition).await.unwrap();
    assert_eq!(found(storage, due_at(Retained::Orders, end)).await, []);
    erase_due(storage, due_at(Retained::Documents, later), &[id]).await;
    assert_eq!(found(storage, due(Retained::Orders, changed)).await, []);
    assert_eq!(found(storage, due(Retained::Orders, changed + MICROSECOND)).await, [id]);
    let order = storage.admin.order(id).await.unwrap().unwrap().whole().unwrap();
    let erased: Vec<_> = order.documents.iter().map(|one| one.is_erased).collect();
    assert_eq!(erased, [false, true, true]);
}

/// They are those of a status and a date about which something can be late. A look goes on behind a full one.
pub async fn orders_that_may_be_late_are_looked_for(storage: &Storage) {
    let all = storage.create_all(["F-1", "F-2", "F-3"]).await;
    storage.other_system.change_order(all[1], ForeignChange::Status("CANCELLED")).await;
    let far = NOW + Duration::days(10);
    let look = async |now, after, limit| {
        let found = storage.admin.maybe_late(now, after, limit).await.unwrap();
        let ids: Vec<_> = found.orders.iter().map(|order| order.stored.id).collect();
        (ids, found.looked_at)
    };
    assert_eq!(look(far, NONE, 10).await, (vec![all[0], all[2]], None));
    assert_eq!(look(far, NONE, 1).await, (vec![all[0]], Some(all[0])));
    assert_eq!(look(far, all[0], 10).await, (vec![all[2]], None));
    assert_eq!(look(far, all[2], 10).await, (vec![], None));
    assert_eq!(look(NOW, NONE, 10).await, (vec![], None));
}

/// Neither the operator nor a side removes anything, until the hold has ended.
pub async fn order_on_hold_keeps_its_data(storage: &Storage) {
    let documents = vec![document()];
    let id = create_with_uploads(storage, &NewOrder { documents, ..new_order("F-1", NOW) }).await;
    let before = storage.admin.order(id).await.unwrap().unwrap().whole().unwrap();
    let until = NOW + Duration::DAY;
    let set = async |id, until| storage.orders.change(&hold(id, until)).await;
    assert_eq!(set(id, Some(until)).await.unwrap(), Changed::HoldSet);
    let unknown = set(OrderId(id.0 + 1), Some(until)).await;
    assert!(matches!(unknown, Err(WriteError::Refused(Refusal::NoSuchOrder))), "{unknown:?}");
    assert_eq!(storage.admin.held(NOW).await.unwrap(), 1);
    assert_eq!(storage.admin.held(until).await.unwrap(), 0);
    let outcome = storage.admin.erase(id, until - MICROSECOND, None).await.unwrap();
    assert_eq!(outcome, ErasureOutcome::Held);
    let outcome = storage.orders.change(&withdraw(to_sign(id, 0))).await;
    assert!(matches!(outcome, Err(WriteError::Refused(Refusal::Held))), "{outcome:?}");
    let held = storage.admin.order(id).await.unwrap().unwrap().whole().unwrap();
    assert_eq!(held, StoredOrder { held_until: Some(until), ..before.clone() });
    let on_hold = OrderFilter { held_at: Some(NOW), ..OrderFilter::default() };
    assert_eq!(listed(storage, &on_hold, None, 10).await, [id]);
    set(id, None).await.unwrap();
    assert_eq!(storage.admin.order(id).await.unwrap(), Some(MaybeErased::Whole(before)));
    assert_eq!(listed(storage, &on_hold, None, 10).await, []);
    assert_eq!(erase(storage, id).await.len(), 1);
    let erased = set(id, Some(until)).await;
    assert!(matches!(erased, Err(WriteError::Refused(Refusal::Erased))), "{erased:?}");
}

/// Runs both at the same time: an order is erased, or it is on hold and whole.
pub async fn order_is_held_or_erased_never_both(storage: &Storage) {
    for round in 0..20 {
        let id = storage.create(&new_order(&format!("F-{round}"), NOW)).await;
        let (orders, eraser) = (storage.orders.clone(), storage.admin.clone());
        let request = hold(id, Some(NOW + Duration::DAY));
        let holding = tokio::spawn(async move { orders.change(&request).await });
        let erasing = tokio::spawn(async move { eraser.erase(id, NOW, None).await.unwrap() });
        let (held, outcome) = (holding.await.unwrap(), erasing.await.unwrap());
        let expected = match held {
            Ok(_) => ErasureOutcome::Held,
            Err(WriteError::Refused(Refusal::Erased)) => ErasureOutcome::Erased(vec![]),
            Err(error) => panic!("{error:?}"),
        };
        assert_eq!(outcome, expected);
    }
}
