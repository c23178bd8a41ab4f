//! Reads of orders: their cost, their round trips, and what they see of transactions in progress.

use std::sync::Arc;

use contract_tests::samples::{
    CLIENT, LIVE, NOW, WINDOW, add_documents, condemned, document, key_of, new_order, to_sign,
};
use domain::{
    api_key::{ClientId, Owner, Party},
    order::{OrderId, OrderStatus, SigningServiceId},
    ports::{
        Cursor, ListFilter, MaybeErased, NewOrder, OrderAdmin, OrderCommandRequest, OrderFilter,
        OrderReader, OrderRepo, PageQuery, UploadLedger as _,
    },
};
use time::{Duration, OffsetDateTime, macros::datetime};

use super::{PostgresStore, create, outsider, sessions, sql_without_statistics, store, until};

/// Returns the question for the newest orders.
fn newest() -> PageQuery {
    PageQuery {
        filter: ListFilter::default(),
        limit: 20,
        cursor: Cursor::Newest,
        cursor_starts: None,
    }
}

async fn page_of(store: &PostgresStore, owner: Owner, query: &PageQuery) -> Vec<i64> {
    let page = OrderReader::page(store, owner, query).await.unwrap().unwrap();
    page.items.iter().map(|order| order.stored.id.0).collect()
}

async fn page(store: &PostgresStore, query: &PageQuery) -> Vec<i64> {
    page_of(store, LIVE, query).await
}

fn live(client: i64) -> Owner {
    Owner::client(ClientId(client), false)
}

/// Adds 100,000 orders a minute apart. Nine of ten belong to one client, a hundred to another, and
/// the oldest 40,000 are erased. A file number has two orders of each client; the newer holds it.
const MANY: &str = "
    ALTER TABLE orders DISABLE TRIGGER orders_refuse_drawn;
    INSERT INTO orders (id, client_id, api_key_id, signing_service_id, starts_at, created_at,
        updated_at, is_test, holds_file_number, file_number, status, details, erased_at)
    SELECT n, CASE WHEN n % 10 > 0 THEN 3 WHEN n % 1000 > 0 THEN 4 ELSE 5 END, 1, 1, now(),
        '2026-01-01Z'::timestamptz + n * interval '1 minute', now(), false, n > 50000,
        'M-' || n % 50000, 'NEW', details, CASE WHEN n < 40000 THEN now() END
        FROM generate_series(10, 100000) n, (SELECT details FROM orders LIMIT 1) sample;
    INSERT INTO uploads SELECT 'm/' || n, now() FROM generate_series(10, 100000) n;
    INSERT INTO documents SELECT n, 0, 'm/' || n, 'x.pdf', 'x.pdf', 'application/pdf', 1,
        sha256('x') FROM generate_series(10, 100000) n;
    SELECT setval(pg_get_serial_sequence('orders', 'id'), 100000);
    ALTER TABLE orders ENABLE TRIGGER orders_refuse_drawn;
    ANALYZE";

/// The instant of an order of [`MANY`].
fn created(id: i64) -> OffsetDateTime {
    datetime!(2026-01-01 0:00 UTC) + Duration::minutes(id)
}

/// Identifiers of a client, downward.
fn downward(from: i64, is_own: impl Fn(i64) -> bool, count: usize) -> Vec<i64> {
    (0..=from).rev().filter(|id| is_own(*id)).take(count).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_cost_the_same_in_a_large_table() {
    let (store, database) = store().await;
    store.create(&new_order("F-1", created(0)), WINDOW).await.unwrap();
    // Planned while the table is small, and used when it is large.
    page(&store, &newest()).await;
    OrderReader::order(&store, LIVE, OrderId(1)).await.unwrap().unwrap();
    let outsider = outsider(&database).await;
    sql_without_statistics(&database, MANY);

    let ours = |id: i64| id % 10 > 0;
    let rare = |id: i64| id % 1000 == 0;
    let expected = downward(100_000, ours, 20);
    assert_eq!(page(&store, &newest()).await, expected);
    let cursor = Cursor::OlderThan(OrderId(70_001));
    let older = PageQuery { cursor, ..newest() };
    assert_eq!(page(&store, &older).await, downward(70_000, ours, 20));
    let cursor = Cursor::NewerThan(OrderId(69_999));
    let newer = PageQuery { cursor, ..newest() };
    let expected: Vec<i64> = (70_000..).filter(|id| ours(*id)).take(20).collect();
    assert!(page(&store, &newer).await.into_iter().rev().eq(expected));
    // A client with few orders, none of them among the newest.
    let expected = downward(100_000, rare, 20);
    assert_eq!(page_of(&store, live(5), &newest()).await, expected);
    assert_eq!(page_of(&store, live(6), &newest()).await, [0; 0]);
    // The last page stands before the erased orders.
    let cursor = Cursor::OlderThan(OrderId(40_001));
    let last = PageQuery { cursor, ..newest() };
    assert_eq!(page(&store, &last).await, [1]);
    let file_number = Some("M-45001".to_owned());
    let filter = ListFilter { file_number, ..ListFilter::default() };
    let numbered = PageQuery { filter, ..newest() };
    assert_eq!(page(&store, &numbered).await, [95_001, 45_001]);
    let cursor = Cursor::OlderThan(OrderId(95_001));
    assert_eq!(page(&store, &PageQuery { cursor, ..numbered.clone() }).await, [45_001]);
    let cursor = Cursor::NewerThan(OrderId(45_001));
    assert_eq!(page(&store, &PageQuery { cursor, ..numbered }).await, [95_001]);
    // A walk ends when the page is full.
    let both = PageQuery {
        filter: ListFilter {
            created_after: Some(created(59_990)),
            created_before: Some(created(60_000)),
            ..ListFilter::default()
        },
        limit: 3,
        cursor: Cursor::NewerThan(OrderId(59_995)),
        cursor_starts: None,
    };
    assert_eq!(page(&store, &both).await, [59_998, 59_997, 59_996]);
    OrderReader::order(&store, LIVE, OrderId(50_001)).await.unwrap().unwrap();
    store.document(LIVE, to_sign(OrderId(50_001), 0)).await.unwrap().unwrap();
    OrderAdmin::order(&store, OrderId(50_001)).await.unwrap().unwrap();
    // It walks through erased orders, too.
    let old = store.created_before(created(50_000), OrderId(39_000), 20).await.unwrap();
    assert_eq!(old[..2], [40_000, 40_001].map(OrderId));
    drop(store);
    until("the sessions of the store have ended", async || sessions(&outsider).await.0 == 0).await;
    let read = "SELECT relname || ' ' || seq_scan || ' ' || (idx_tup_fetch > 10000) \
        FROM pg_stat_user_tables WHERE relname IN ('orders', 'documents') ORDER BY 1";
    assert_eq!(database.sql(read), "documents 0 false\norders 0 false");
    let index = "SELECT max(idx_tup_read) < 15000 FROM pg_stat_user_indexes \
        WHERE relname IN ('orders', 'documents')";
    assert_eq!(database.sql(index), "t");
}

/// Nothing is sorted, although the planner knows nothing about the table and could take it for a small one.
#[tokio::test(flavor = "multi_thread")]
async fn filter_looks_at_a_bounded_number_of_orders() {
    let (store, database) = store().await;
    store.create(&new_order("F-1", created(0)), WINDOW).await.unwrap();
    let many = "INSERT INTO orders (client_id, api_key_id, signing_service_id, starts_at, created_at, \
            updated_at, is_test, holds_file_number, file_number, status, details) \
        SELECT client_id, 1, 42, starts_at, created_at, updated_at, false, false, 'F-1', \
            CASE WHEN n IN (2, 205000) THEN 'FOUND' ELSE 'NEW' END, \
            CASE WHEN n IN (2, 205000) THEN details ELSE '{}' END \
            FROM generate_series(2, 210001) n, (SELECT * FROM orders LIMIT 1) sample";
    sql_without_statistics(&database, many);
    let outsider = outsider(&database).await;
    let statuses = vec![OrderStatus::from_stored("FOUND".to_owned()).unwrap()];
    let filter = ListFilter { statuses, ..ListFilter::default() };
    let service = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };
    for owner in [LIVE, service] {
        for (cursor, expected, stopped_at) in [
            (Cursor::OlderThan(OrderId(210_001)), vec![205_000], Some(10_001)),
            (Cursor::OlderThan(OrderId(205_000)), vec![], Some(5_000)),
            (Cursor::OlderThan(OrderId(200_001)), vec![2], None),
            (Cursor::NewerThan(OrderId(2)), vec![], Some(200_002)),
            (Cursor::NewerThan(OrderId(200_002)), vec![205_000], None),
        ] {
            let query = PageQuery { filter: filter.clone(), limit: 1, cursor, cursor_starts: None };
            let page = OrderReader::page(&store, owner, &query).await.unwrap().unwrap();
            let ids: Vec<_> = page.items.iter().map(|order| order.stored.id.0).collect();
            let stopped = page.stopped_at.map(|at| at.id);
            assert_eq!((ids, stopped), (expected, stopped_at), "{cursor:?}");
        }
    }
    drop(store);
    until("the sessions of the store have ended", async || sessions(&outsider).await.0 == 0).await;
    let read = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'orders'";
    assert_eq!(database.sql(read), "0");
    let sorted = "SELECT temp_files FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(database.sql(sorted), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn poller_waits_for_a_transaction_that_is_held_open() {
    let (store, database) = store().await;
    let store = Arc::new(store);
    let first = create(&store, "first").await.unwrap();
    let (holder, watcher) = (outsider(&database).await, outsider(&database).await);
    // The transaction has drawn its identifier when it waits for the upload.
    let document = document();
    store.record(&[key_of(&document)], NOW).await.unwrap();
    let lock = format!(
        "BEGIN; SELECT key FROM uploads WHERE key = '{}' FOR UPDATE",
        key_of(&document).as_str()
    );
    holder.batch_execute(&lock).await.unwrap();
    let held = tokio::spawn({
        let store = Arc::clone(&store);
        let order = NewOrder { documents: vec![document], ..new_order("held", NOW) };
        async move { store.create(&order, WINDOW).await.unwrap() }
    });
    until("the order waits", async || sessions(&watcher).await.1 == 1).await;
    let mut later = Vec::new();
    for number in 0..3 {
        later.insert(0, create(&store, &format!("later {number}")).await.unwrap().0);
    }
    let poll = PageQuery { cursor: Cursor::NewerThan(first), ..newest() };
    assert_eq!(page(&store, &poll).await, [0; 0], "the held order may still appear");
    // Nothing else waits for it.
    let expected: Vec<i64> = later.iter().copied().chain([first.0]).collect();
    assert_eq!(page(&store, &newest()).await, expected);
    holder.batch_execute("ROLLBACK").await.unwrap();
    let held = held.await.unwrap();
    assert!(held.0 < later[2]);
    later.push(held.0);
    assert_eq!(page(&store, &poll).await, later);
}

#[tokio::test]
async fn unreadable_order_does_not_fail_reads_beside_it() {
    let (store, database) = store().await;
    let [bad, good] = [create(&store, "bad").await.unwrap(), create(&store, "good").await.unwrap()];
    database.sql(&format!("UPDATE orders SET details = '{{}}' WHERE id = {}", bad.0));
    let (bad_read, good_read) =
        tokio::join!(OrderReader::order(&store, LIVE, bad), OrderReader::order(&store, LIVE, good));
    assert!(matches!(good_read.unwrap(), Some(MaybeErased::Whole(_))));
    let message = super::log_line(&bad_read.unwrap_err());
    let expected = format!("the store failed: row {} of orders cannot be read: ", bad.0);
    assert!(message.starts_with(&expected), "{message}");
}

#[tokio::test]
async fn view_shows_nothing_of_an_erased_order() {
    let (store, database) = store().await;
    let id = create(&store, "F-1").await.unwrap();
    condemned(store.erase(id, NOW + Duration::DAY, None).await.unwrap());
    let columns = "SELECT string_agg(key, ' ' ORDER BY key) \
        FROM order_details o, json_each_text(row_to_json(o)) WHERE value IS NOT NULL";
    assert_eq!(
        database.sql(columns),
        "api_key_id client_id created_at erased_at is_test order_id order_status \
        signing_service_id updated_at"
    );
}

#[tokio::test]
async fn orders_are_listed_by_address_beyond_the_limit_of_statements() {
    let (store, database) = store().await;
    create(&store, "F-1").await.unwrap();
    database.sql(MANY);
    let filter = OrderFilter { email: Some("nobody@example.com".to_owned()), ..Default::default() };
    assert_eq!(store.list(&filter, None, 10).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_added_documents_is_forgotten_by_the_next_use_of_its_key() {
    use contract_tests::samples::{attempt, idempotency_key, idempotent_request, with_key};
    use domain::idempotency::KeyUse;
    use domain::ports::{IdempotencyLedger as _, WriteError};
    let (store, _database) = store().await;
    let id = create(&store, "F-1").await.unwrap();
    let attempt = attempt(&idempotency_key(CLIENT.0, "key"), 7);
    let document = document();
    store.record(&[key_of(&document)], NOW).await.unwrap();
    let addition = OrderCommandRequest {
        idempotent_request: idempotent_request(&attempt, NOW),
        ..add_documents(id, domain::document::DocumentKind::ToSign, vec![document])
    };
    store.change(&addition).await.unwrap();
    let at = NOW + Duration::WEEK;
    let order = with_key(new_order("F-2", at), &attempt);
    let created = store.create(&order, WINDOW).await.unwrap();
    let again = store.create(&order, WINDOW).await;
    let Err(WriteError::KeyInUse(KeyUse::Answered(answered))) = again else { panic!("{again:?}") };
    assert_eq!((answered.order_id, answered.added), (created, None));
    let claimed = store.claim(&attempt.claim, at, at + Duration::MINUTE).await;
    assert!(matches!(claimed, Err(WriteError::KeyInUse(KeyUse::Answered(_)))), "{claimed:?}");
}
