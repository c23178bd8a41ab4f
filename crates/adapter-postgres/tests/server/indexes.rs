//! Only indexes that a query needs, and queries that use them.

use std::sync::Arc;

use contract_tests::samples::{LIVE, NOW, WEBHOOK_SLOTS, delivery, hold, mails, new_endpoint};
use domain::{
    api_key::{ClientId, Owner, Party},
    delivery::{DeliveryId, MailSubject, NewDelivery},
    order::{Due, OrderId, OrderStatus, Retained, SigningServiceId},
    ports::{
        Cursor, DeliveryQueue, ListFilter, OrderAdmin, OrderReader, OrderRepo, Outbox, PageQuery,
        WebhookQueue, WebhookRepo, WebhookSlots,
    },
    webhook::EndpointPrecondition,
};
use time::Duration;

use super::{create, every_call, outsider, sql_without_statistics, store, until};

/// Indexes that no query uses, but that keep keys unique, and those of tables that are small here.
const UNUSED: &str = "'documents_key_key', 'api_keys_pkey', 'key_events_pkey', \
    'order_changes_pkey', 'order_notes_pkey', 'signing_services_pkey', 'installation_pkey', \
    'later_migrations_pkey', 'webhook_deliveries_order', 'order_feed_pkey', 'order_feed_order', \
    'order_feed_position_pkey', 'order_feed_epochs_pkey'";

/// Adds ten thousand orders with a document, an event, a delivery, an API key and an idempotency
/// key each.
const MANY: &str = "
    INSERT INTO orders (client_id, api_key_id, signing_service_id, starts_at, created_at,
        updated_at, is_test, holds_file_number, file_number, status, details)
    SELECT 1, 1, 1, now(), now(), now(), n % 2 = 0, true, 'M-' || n,
        CASE WHEN n % 3 = 0 THEN 'SIGNED' ELSE 'NEW' END, details
        FROM generate_series(1, 10000) n, (SELECT details FROM orders LIMIT 1) sample;
    INSERT INTO uploads SELECT 'm/' || id, now() FROM orders;
    INSERT INTO documents SELECT id, 0, 'm/' || id, 'x.pdf', 'x.pdf', 'application/pdf', 1,
        sha256('x') FROM orders;
    INSERT INTO uploads SELECT 'u/' || id, now() FROM orders;
    INSERT INTO deliveries (order_id, message_key, recipient, subject, to_service, created_at,
            due_at)
        SELECT id, 'm' || id, 'a@b', 'created', false, now(), '2999-01-01' FROM orders;
    INSERT INTO events (type, order_id, created_at) SELECT 'order.created', id, '2020-01-01'
        FROM orders;
    INSERT INTO webhook_endpoints (id, party, is_test, url, events, secret, created_at)
        SELECT 1000 + n, 9, false, 'https://a.example', 'order.created', '', now()
        FROM generate_series(0, 9) n;
    INSERT INTO webhook_deliveries (endpoint_id, event, message_key, created_at, due_at,
            delivered_at)
        SELECT 1000 + id % 10, 'order.created', 'm' || id, '2999-01-01', now(), now() FROM orders;
    INSERT INTO order_notes (order_id, at, author, text) SELECT id, now(), 'client', 'x' FROM orders;
    UPDATE order_feed SET number = id; UPDATE order_feed_position SET number = 20000;
    INSERT INTO order_recipients (order_id, recipient, to_service) SELECT id, 'a@b', false FROM orders;
    INSERT INTO recipient_mails SELECT '2026-11-21 12:00Z', 1, n::text::bytea, 1
        FROM generate_series(1, 10000) n;
    INSERT INTO api_keys (name, lookup, hash, issued_at, is_test, contact)
        SELECT 'x', 'm' || n, sha256('x'), now(), false, 'a' || n || '@b' FROM generate_series(1, 10000) n;
    INSERT INTO accesses (at, run, number, kind, order_id, party, api_key_id, outcome)
        SELECT '2026-11-20Z', 1, n, 'read', n, 1, 1, 'ok' FROM generate_series(1, 10000) n;
    INSERT INTO rejected_requests SELECT n, '2026-11-20Z', 'forbidden', 1, 1, 1, '{}', '[]'
        FROM generate_series(1, 10000) n;
    INSERT INTO people (party, name, role, handle, invited_at, accepted_at)
        SELECT 1000 + n, 'x', 'member', sha512('x'), now(), now() FROM generate_series(1, 10000) n;
    INSERT INTO invitations SELECT sha256(id::text::bytea), id, now(), now() FROM people;
    INSERT INTO passkeys (person_id, credential, name, fixed, changing, created_at)
        SELECT id, sha256(id::text::bytea), 'x', '', '', now() FROM people;
    INSERT INTO identities SELECT 'x', id, id, now() FROM people;
    INSERT INTO sessions (token, person_id, way, is_test, signed_in_at, last_used_at, expires_at)
        SELECT sha256(id::text::bytea), id, 'passkey', false, now(), now(), '2999-01-01' FROM people;
    INSERT INTO ceremonies SELECT sha256(n::text::bytea), 'sign_in', NULL, NULL, NULL, 'passkey', '', '',
        '2999-01-01' FROM generate_series(1, 9990) n;
    INSERT INTO idempotency_keys SELECT 9, false, sha256(n::text::bytea), substr(sha256('x'), 1, 16),
        sha256('x'), n, '2020-01-01', '2999-01-01' FROM generate_series(1, 10000) n;
    ANALYZE";

#[tokio::test(flavor = "multi_thread")]
async fn calls_use_indexes() {
    let (store, database) = store().await;
    let id = create(&store, "F-1").await.unwrap();
    let outsider = outsider(&database).await;
    sql_without_statistics(&database, MANY);

    every_call(&store).await;
    let event = store.events(NOW, 1).await.unwrap()[0].id;
    let note = NewDelivery { subject: MailSubject::NoteAdded, ..delivery(0) };
    assert_eq!(store.dispatch(&[mails(event, vec![note])], NOW).await.unwrap(), [event]);
    let many: Vec<_> = (id.0..id.0 + 64).map(OrderId).collect();
    assert_eq!(store.orders(&many).await.unwrap().len(), 64);
    let mails: Vec<_> = (2..66).map(|id| (DeliveryId(id), NOW)).collect();
    assert_eq!(store.begin(&mails, NOW, 200).await.unwrap().len(), 64);
    for file_number in [None, Some("M-1".to_owned())] {
        let filter = ListFilter { file_number, ..ListFilter::default() };
        let query = PageQuery { filter, limit: 20, cursor: Cursor::Newest, cursor_starts: None };
        OrderReader::page(&store, Owner::client(ClientId(1), true), &query).await.unwrap().unwrap();
    }

    let default = ListFilter::default;
    for filter in [
        default(),
        ListFilter { created_after: Some(NOW), ..default() },
        ListFilter { statuses: vec![OrderStatus::SIGNED], ..default() },
        ListFilter { signing_date_to: Some(NOW.date()), ..default() },
        ListFilter { updated_after: Some(NOW + Duration::days(400_000)), ..default() },
        ListFilter { by_appointment: true, statuses: vec![OrderStatus::SIGNED], ..default() },
    ] {
        let query = PageQuery { filter, limit: 20, cursor: Cursor::Newest, cursor_starts: None };
        OrderReader::page(&store, Owner::client(ClientId(1), true), &query).await.unwrap().unwrap();
        let service = Owner { party: Party::Service(SigningServiceId(1)), is_test: true };
        OrderReader::page(&store, service, &query).await.unwrap().unwrap();
    }

    assert_eq!(store.unfolded(10).await.unwrap(), []);

    drop(store);
    until("the sessions of the store have ended", async || super::sessions(&outsider).await.0 == 0)
        .await;
    let whole =
        database.sql("SELECT relname FROM pg_stat_user_tables WHERE seq_tup_read > 100 ORDER BY 1");
    assert_eq!(whole, "", "these tables were read whole");
    let unused = format!(
        "SELECT indexrelname FROM pg_stat_user_indexes WHERE idx_scan = 0 \
        AND relname <> '__diesel_schema_migrations' AND indexrelname NOT IN ({UNUSED})"
    );
    assert_eq!(database.sql(&unused), "", "no query needs these indexes");
}

/// The tables of work that waits are short, so they may be read whole.
#[tokio::test(flavor = "multi_thread")]
async fn holds_and_erasures_read_only_their_orders() {
    let (store, database) = store().await;
    let first = create(&store, "F-1").await.unwrap();
    let second = create(&store, "F-2").await.unwrap();
    let outsider = outsider(&database).await;
    sql_without_statistics(&database, MANY);

    OrderRepo::change(&store, &hold(first, Some(NOW))).await.unwrap();
    OrderRepo::change(&store, &hold(first, None)).await.unwrap();
    for (what, orders) in
        [(Retained::Documents, vec![first]), (Retained::Orders, vec![first, second])]
    {
        let due = Due { what, before: NOW + Duration::days(400_000), now: NOW };
        let erased = store.erase_due(due, orders.clone(), Arc::new(|_| None)).await.unwrap();
        assert_eq!(erased.unwrap().orders, orders);
    }

    drop(store);
    until("the sessions of the store have ended", async || super::sessions(&outsider).await.0 == 0)
        .await;
    let whole =
        database.sql("SELECT relname FROM pg_stat_user_tables WHERE seq_tup_read > 100 ORDER BY 1");
    assert_eq!(whole, "events\nuploads", "these tables were read whole");
    let read = "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes";
    let read: u64 = database.sql(read).parse().unwrap();
    assert!(read < 500, "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_does_not_read_the_whole_queue() {
    let (store, database) = store().await;
    let queue = |from: i32, to: i32| {
        format!(
            "INSERT INTO deliveries (order_id, message_key, recipient, subject, to_service, \
                created_at, due_at) \
            SELECT 1, 'm' || n, 'a@b', 'created', false, '2020-01-01Z', '2020-01-01Z' \
            FROM generate_series({from}, {to}) n;"
        )
    };
    // Planned when few rows are left in a large table, and used when the queue is long.
    database.sql(&queue(1, 1000));
    database.sql("DELETE FROM deliveries WHERE id <= 997");
    database.sql("VACUUM ANALYZE deliveries");
    assert_eq!(DeliveryQueue::lease(&store, NOW, Duration::MINUTE, 10).await.unwrap().len(), 3);
    let outsider = outsider(&database).await;
    sql_without_statistics(&database, &queue(1, 20_000));

    assert_eq!(DeliveryQueue::lease(&store, NOW, Duration::MINUTE, 10).await.unwrap().len(), 10);

    drop(store);
    until("the sessions of the store have ended", async || super::sessions(&outsider).await.0 == 0)
        .await;
    let read =
        "SELECT max(idx_tup_read) < 100 FROM pg_stat_user_indexes WHERE relname = 'deliveries'";
    assert_eq!(database.sql(read), "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_of_webhooks_does_not_read_endpoints_that_wait() {
    let (store, database) = store().await;
    let endpoint = WebhookRepo::add(&store, &new_endpoint(LIVE), 1).await.unwrap().unwrap().id;
    let outsider = outsider(&database).await;
    let many = "INSERT INTO webhook_endpoints (party, is_test, url, events, secret, created_at, \
            succeeded_at, due_at) SELECT n, false, 'https://a.example', 'order.created', '', now(), now(), \
            '2999-01-01' \
            FROM generate_series(1, 10000) n; \
        INSERT INTO webhook_deliveries (endpoint_id, event, message_key, created_at, due_at) \
            SELECT id, 'order.created', 'm' || id, now(), '2999-01-01' FROM webhook_endpoints; \
        ANALYZE";
    sql_without_statistics(&database, many);
    let test = store
        .add_test(LIVE, endpoint, "key", &EndpointPrecondition::NONE, NOW)
        .await
        .unwrap()
        .unwrap();
    let leases = WebhookQueue::lease(&store, NOW, Duration::MINUTE, &WEBHOOK_SLOTS).await.unwrap();
    assert_eq!(leases.iter().map(|lease| lease.delivery.id).collect::<Vec<_>>(), [test]);
    // Now they wait for slots.
    let due = "UPDATE webhook_endpoints SET due_at = '2020-01-01Z', \
            succeeded_at = CASE WHEN id % 2 = 0 THEN succeeded_at END WHERE due_at > now(); \
        UPDATE webhook_deliveries SET due_at = '2020-01-01Z' WHERE due_at > now()";
    sql_without_statistics(&database, due);
    let slots = WebhookSlots { limit: 3, unproven: 2, ..WEBHOOK_SLOTS };
    let leases = WebhookQueue::lease(&store, NOW, Duration::MINUTE, &slots).await.unwrap();
    assert_eq!(leases.len(), 3);
    drop(store);
    until("the sessions of the store have ended", async || super::sessions(&outsider).await.0 == 0)
        .await;
    let read = "SELECT sum(idx_tup_read + idx_scan) FROM pg_stat_user_indexes \
        WHERE relname LIKE 'webhook_%'";
    let read: u64 = database.sql(read).parse().unwrap();
    assert!(read < 100, "{read}");
}
