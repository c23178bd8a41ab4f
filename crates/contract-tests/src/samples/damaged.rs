//! Calls that read many orders, beside rows that another program has damaged.

use std::sync::Arc;

use domain::{
    order::{Actor, Due, OrderId, OrderStatus, Retained, feed::FeedCursor},
    ports::{
        ChangeFeed, Cursor, DeliveryQueue, ListFilter, OrderAdmin, OrderFilter, OrderReader,
        OrderRepo, OrderUpdate, Outbox, PageQuery, WebhookQueue,
    },
};
use time::Duration;

use super::{LIVE, NOW};

/// Lists, follows, changes and erases all orders of a store, which are few. `whole` is one that nobody has damaged.
pub async fn serve_beside_damaged<S>(store: &S, orders: &[OrderId], whole: OrderId)
where
    S: OrderRepo + OrderReader + OrderAdmin + ChangeFeed + Outbox + DeliveryQueue + WebhookQueue,
{
    for by_appointment in [false, true] {
        let filter = ListFilter { by_appointment, ..ListFilter::default() };
        let query = PageQuery { filter, limit: 100, cursor: Cursor::Newest, cursor_starts: None };
        let page = OrderReader::page(store, LIVE, &query).await.unwrap().unwrap();
        let mut listed: Vec<_> = page.items.iter().map(|order| order.stored.id).collect();
        listed.sort_unstable();
        // The agenda has no place for an order that begins beyond every answer.
        assert!(listed == orders || by_appointment && listed.contains(&whole), "{listed:?}");
    }
    let listed = OrderAdmin::list(store, &OrderFilter::default(), None, 100).await.unwrap();
    assert_eq!(listed.len(), orders.len());
    let feed = ChangeFeed::page(store, LIVE, FeedCursor::START, 1_000).await.unwrap().unwrap();
    let mut created: Vec<_> = feed.entries.into_iter().map(|entry| entry.change).collect();
    created.retain(|change| change.kind == "created");
    assert_eq!(created.len(), orders.len());
    let events = Outbox::events(store, NOW, 1_000).await.unwrap();
    let has_event = |order: &OrderId| events.iter().any(|event| event.order_id == *order);
    assert!(orders.iter().all(has_event), "{events:?}");
    assert_eq!(DeliveryQueue::orders(store, orders).await.unwrap().len(), orders.len());
    WebhookQueue::unreadable(store, OrderId(0), 10).await.unwrap();
    for &id in orders {
        let update = OrderUpdate {
            owner: LIVE,
            only_service: None,
            id,
            expected: None,
            status: OrderStatus::named("CONFIRMED".to_owned()),
            notary_id: None,
            notary: None,
            at: NOW,
            actor: Actor::Service,
            reason: None,
            access: None,
        };
        assert!(OrderRepo::update(store, &update).await.unwrap().is_some(), "{id:?}");
    }
    let due = Due { what: Retained::Orders, before: NOW + Duration::days(400_000), now: NOW };
    let erased = store.erase_due(due, orders.to_vec(), Arc::new(|_| None)).await.unwrap();
    assert!(erased.unwrap().orders.contains(&whole));
    for &id in orders {
        OrderAdmin::erase(store, id, NOW, None).await.unwrap();
    }
}
