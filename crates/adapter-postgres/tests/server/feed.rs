//! The feed of changes beside transactions of other systems that are held open, and of other instances.

use std::collections::BTreeMap;

use contract_tests::samples::{LIVE, NOW, add_note, new_order};
use domain::{
    order::{
        Actor, OrderId,
        feed::{FeedCursor, FeedPage},
    },
    ports::{ChangeFeed, OrderRepo as _},
};
use futures_util::future::join_all;
use tokio::time::timeout;

use super::{PostgresStore, TIMEOUT, create, outsider, store, store_at};

async fn page(store: &PostgresStore, after: FeedCursor) -> FeedPage {
    let page = timeout(TIMEOUT, ChangeFeed::page(store, LIVE, after, 100)).await.unwrap();
    page.unwrap().expect("the place is known")
}

fn kinds(page: &FeedPage) -> Vec<(OrderId, &str)> {
    page.entries.iter().map(|entry| (entry.change.order, entry.change.kind.as_str())).collect()
}

async fn note(store: &PostgresStore, order: OrderId) {
    store.change(&add_note(order, Actor::Client, "x")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn open_change_comes_after_its_commit_and_holds_up_no_other() {
    let (store, database) = store().await;
    let [held, free] = [create(&store, "F-1").await.unwrap(), create(&store, "F-2").await.unwrap()];
    let other = outsider(&database).await;
    let update = format!("BEGIN; UPDATE orders SET status = 'ASSIGNED' WHERE id = {}", held.0);
    other.batch_execute(&update).await.unwrap();
    note(&store, free).await;

    let first = page(&store, FeedCursor::START).await;
    assert_eq!(kinds(&first), [(held, "created"), (free, "created"), (free, "note_added")]);
    assert_eq!(kinds(&page(&store, first.next).await), []);
    let now = ChangeFeed::now(&store).await.unwrap();
    other.batch_execute("COMMIT").await.unwrap();
    for place in [first.next, now] {
        assert_eq!(kinds(&page(&store, place).await), [(held, "status")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn undone_change_is_in_no_page() {
    let (store, database) = store().await;
    let id = create(&store, "F-1").await.unwrap();
    let other = outsider(&database).await;
    let update = "BEGIN; UPDATE orders SET status = 'ASSIGNED'";
    other.batch_execute(update).await.unwrap();
    let first = page(&store, FeedCursor::START).await;
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(kinds(&first), [(id, "created")]);
    assert_eq!(kinds(&page(&store, first.next).await), []);
}

/// Another system inserts an order: it does not announce itself as the service does.
#[tokio::test(flavor = "multi_thread")]
async fn page_ends_before_an_order_that_may_still_appear() {
    let (store, database) = store().await;
    let first = create(&store, "F-1").await.unwrap();
    let other = outsider(&database).await;
    let columns = "client_id, api_key_id, signing_service_id, created_at, updated_at, is_test, \
        holds_file_number, status, details";
    let insert = format!(
        "BEGIN; INSERT INTO orders (file_number, {columns}) SELECT 'F-2', {columns} FROM orders"
    );
    other.batch_execute(&insert).await.unwrap();
    let later = create(&store, "F-3").await.unwrap();
    note(&store, later).await;
    note(&store, first).await;

    let before = page(&store, FeedCursor::START).await;
    // A change of an order never comes before its creation.
    assert_eq!(kinds(&before), [(first, "created")]);
    assert_eq!(kinds(&page(&store, before.next).await), []);
    other.batch_execute("COMMIT").await.unwrap();
    let between = OrderId(first.0 + 1);
    assert!(between < later);
    let mut after = page(&store, before.next).await;
    after.entries.sort_by_key(|entry| entry.change.order);
    let expected =
        [(first, "note_added"), (between, "created"), (later, "created"), (later, "note_added")];
    assert_eq!(kinds(&after), expected);
}

/// Readers of the feed and of lists would never see it: they are behind its identifier when it appears.
#[tokio::test(flavor = "multi_thread")]
async fn identifier_that_was_drawn_before_its_insert_is_refused() {
    let (store, database) = store().await;
    let first = create(&store, "F-1").await.unwrap();
    let other = outsider(&database).await;
    let columns = "client_id, api_key_id, signing_service_id, created_at, updated_at, is_test, \
        holds_file_number, status, details";
    let insert = |id: &str, number: &str| {
        format!(
            "INSERT INTO orders (id, file_number, {columns}) \
            SELECT {id}, '{number}', {columns} FROM orders WHERE id = {}",
            first.0
        )
    };
    let drawn = other.query_one("SELECT nextval('orders_id_seq')", &[]).await.unwrap();
    let drawn: i64 = drawn.get(0);
    create(&store, "F-2").await.unwrap();
    let seen = page(&store, FeedCursor::START).await;
    let refused = other.batch_execute(&insert(&drawn.to_string(), "F-3")).await.unwrap_err();
    let refused = refused.as_db_error().unwrap();
    let expected = format!(
        "the identifier {drawn} of an order is not above {}, which was drawn before its INSERT",
        drawn + 1
    );
    assert_eq!(refused.message(), expected);
    assert!(refused.hint().unwrap().contains("leaves the column id out"), "{refused:?}");

    // Nor may it be ahead: the feed would take its readers past the orders that come after.
    let refused = other.batch_execute(&insert("1000000", "F-3")).await.unwrap_err();
    let expected = "the identifier 1000000 of an order is ahead of the sequence orders_id_seq";
    assert_eq!(refused.as_db_error().unwrap().message(), expected);
    // The same of a sequence that has drawn nothing.
    database.sql("ALTER SEQUENCE orders_id_seq RESTART");
    let refused = other.batch_execute(&insert("1000000", "F-3")).await.unwrap_err();
    assert_eq!(refused.as_db_error().unwrap().message(), expected);
    database.sql("SELECT setval('orders_id_seq', (SELECT max(id) FROM orders))");
    let changed = other.batch_execute("UPDATE orders SET id = id + 7").await.unwrap_err();
    assert_eq!(changed.as_db_error().unwrap().message(), "an order keeps its identifier");

    // The INSERT itself may draw it, also by name, and in a transaction that has drawn others.
    let own = insert("nextval('orders_id_seq')", "F-4");
    let both = format!("BEGIN; {own}; {}; COMMIT", insert("nextval('orders_id_seq')", "F-5"));
    other.batch_execute(&both).await.unwrap();
    let after = page(&store, seen.next).await;
    assert_eq!(after.entries.len(), 2);
    assert_eq!(database.sql("SELECT count(*) FROM orders"), "4");
}

/// As `pg_restore --data-only` writes them into the tables of which they come.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_dump_are_refused_with_what_a_restore_needs() {
    let (store, database) = store().await;
    create(&store, "F-1").await.unwrap();
    let other = outsider(&database).await;
    let empty = "CREATE TABLE dumped AS SELECT * FROM orders; \
        ALTER TABLE orders DISABLE TRIGGER orders_are_not_truncated; TRUNCATE orders CASCADE; \
        ALTER TABLE orders ENABLE TRIGGER orders_are_not_truncated";
    other.batch_execute(empty).await.unwrap();
    let restore = "INSERT INTO orders SELECT * FROM dumped";
    let refused = other.batch_execute(restore).await.unwrap_err();
    let refused = refused.as_db_error().unwrap();
    let message = "the identifier 1 of an order is not above 1, which was drawn before its INSERT";
    assert_eq!(refused.message(), message);
    assert!(refused.hint().unwrap().contains("--disable-triggers"), "{refused:?}");
    // What that option does.
    let all = |switch| format!("ALTER TABLE orders {switch} TRIGGER ALL");
    let restore = [all("DISABLE"), restore.to_owned(), all("ENABLE")].join("; ");
    other.batch_execute(&restore).await.unwrap();
    assert_eq!(create(&store, "F-2").await.unwrap(), OrderId(2));
}

/// The sessions of the service have drawn identifiers that are too small then. The remedy takes them away at once.
#[tokio::test(flavor = "multi_thread")]
async fn sequence_that_draws_ahead_is_named_with_its_remedy() {
    let (store, database) = store().await;
    let first = create(&store, "F-1").await.unwrap();
    let insert = |number: &str| {
        let columns = "client_id, api_key_id, signing_service_id, created_at, updated_at, is_test, \
            holds_file_number, status, details";
        format!(
            "INSERT INTO orders (file_number, {columns}) SELECT '{number}', {columns} FROM orders \
            WHERE id = {}",
            first.0
        )
    };
    let other = outsider(&database).await;
    database.sql("ALTER SEQUENCE orders_id_seq CACHE 50");
    other.batch_execute(&insert("F-2")).await.unwrap();
    let refused = other.batch_execute(&insert("F-3")).await.unwrap_err();
    let refused = refused.as_db_error().unwrap();
    assert!(
        refused.message().starts_with("the sequence orders_id_seq has CACHE 50, "),
        "{refused:?}"
    );
    let remedy = refused.hint().unwrap().strip_prefix("Run ").unwrap();
    database.sql(remedy.trim_end_matches('.'));
    other.batch_execute(&insert("F-3")).await.unwrap();
    create(&store, "F-4").await.unwrap();
    let page = page(&store, FeedCursor::START).await;
    assert_eq!(page.entries.len(), 4, "{page:?}");
}

/// It has removed some entries of its order already.
#[tokio::test(flavor = "multi_thread")]
async fn undone_erasure_leaves_the_changes_in_their_order() {
    let (store, database) = store().await;
    let [held, free] = [create(&store, "F-1").await.unwrap(), create(&store, "F-2").await.unwrap()];
    for _ in 0..2 {
        note(&store, held).await;
    }
    let other = outsider(&database).await;
    let erase = "BEGIN; DELETE FROM order_feed WHERE id = (SELECT min(id) FROM order_feed)";
    other.batch_execute(erase).await.unwrap();
    note(&store, free).await;
    let first = page(&store, FeedCursor::START).await;
    assert_eq!(kinds(&first), [(held, "created"), (free, "created"), (free, "note_added")]);
    other.batch_execute("ROLLBACK").await.unwrap();
    let after = page(&store, first.next).await;
    assert_eq!(kinds(&after), [(held, "note_added"); 2]);
    assert!(after.entries[0].change.at < after.entries[1].change.at);
}

/// Each poller goes on at another instance each time.
#[tokio::test(flavor = "multi_thread")]
async fn pollers_of_two_instances_miss_no_change_by_sql() {
    const WRITERS: usize = 8;
    const EACH: i64 = 20;
    let (one, database) = store().await;
    let other = store_at(&database.url()).await;
    let mut orders = Vec::new();
    for number in 0..WRITERS {
        orders.push(create(&one, &format!("F-{number}")).await.unwrap());
    }
    let writing = orders.iter().map(|&id| {
        let database = database.url();
        tokio::spawn(async move {
            let (client, connection) =
                tokio_postgres::connect(&database, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            for notary in 1..=EACH {
                let update = format!("UPDATE orders SET notary_id = {notary} WHERE id = {}", id.0);
                client.batch_execute(&format!("BEGIN; {update}")).await.unwrap();
                tokio::task::yield_now().await;
                let end = if notary % 5 == 0 { "ROLLBACK" } else { "COMMIT" };
                client.batch_execute(end).await.unwrap();
            }
        })
    });
    let writing: Vec<_> = writing.collect();
    let polling = [[&one, &other], [&other, &one]].map(|instances| {
        let writing = &writing;
        async move {
            let (mut after, mut seen) = (FeedCursor::START, Vec::new());
            for instance in instances.into_iter().cycle() {
                let is_last_look = writing.iter().all(tokio::task::JoinHandle::is_finished);
                let page = page(instance, after).await;
                let is_empty = page.entries.is_empty();
                after = page.next;
                seen.extend(page.entries);
                if is_last_look && is_empty && !page.has_more {
                    break;
                }
            }
            seen
        }
    });
    let [seen, same]: [_; 2] = join_all(polling).await.try_into().unwrap();
    join_all(writing).await.into_iter().for_each(Result::unwrap);
    assert_eq!(seen.len(), orders.len() * usize::try_from(EACH * 4 / 5 + 1).unwrap());
    let by_order = |seen: &[domain::order::feed::FeedEntry]| {
        let mut found: BTreeMap<OrderId, Vec<_>> = BTreeMap::new();
        for entry in seen {
            found.entry(entry.change.order).or_default().push(entry.change.clone());
        }
        found
    };
    assert_eq!(by_order(&seen), by_order(&same));
    for (id, changes) in by_order(&seen) {
        let history = database.sql(&format!(
            "SELECT string_agg(at::text, ' ' ORDER BY id) FROM order_changes WHERE order_id = {}",
            id.0
        ));
        assert_eq!(changes.len(), history.split(' ').count() / 2 + 1);
        assert!(changes[1..].is_sorted_by(|one, other| one.at < other.at), "{id:?}");
    }
}

/// A mass change by SQL does not make one call give all numbers.
#[tokio::test(flavor = "multi_thread")]
async fn long_queue_gets_its_numbers_in_several_calls() {
    let (store, database) = store().await;
    let id = create(&store, "F-1").await.unwrap();
    database.sql(&format!(
        "INSERT INTO order_feed (order_id, client_id, signing_service_id, is_test, at, kind, status) \
        SELECT id, client_id, signing_service_id, is_test, created_at, 'status', 'x' \
        FROM orders, generate_series(1, 10001) WHERE id = {}",
        id.0
    ));
    let first = page(&store, FeedCursor::START).await;
    assert!(first.has_more);
    assert_eq!(database.sql("SELECT count(*) FROM order_feed WHERE number IS NULL"), "1");
    let now = ChangeFeed::now(&store).await.unwrap();
    assert_eq!(now, FeedCursor { created: id, changed: 10_001, epoch: 0 });
    let order = new_order("F-2", NOW);
    store.create(&order, contract_tests::samples::WINDOW).await.unwrap();
    assert_eq!(page(&store, now).await.entries.len(), 1);
}
