//! Reads of orders: their plans, and what may not hold them up.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use contract_tests::samples::{CLIENT, LIVE, WEBHOOK_SLOTS, access, new_endpoint, to_sign};
use diesel::connection::InstrumentationEvent;
use domain::{
    api_key::{Owner, Party},
    order::{
        Due, OrderStatus, Retained, SigningServiceId,
        attention::{Attention, AttentionFilter},
        feed::FeedCursor,
        search::SearchedText,
    },
    ports::{
        AccessFilter, AccessLog as _, ChangeFeed, Cursor, ListFilter, MaybeErased, NoteNumber,
        NoteQuery, OrderFilter, OrderReader, PageQuery, ReplayBatch, WebhookRepo,
    },
    webhook::EndpointPrecondition,
    webhook::WebhookDeliveryId,
};
use sql_rows::Utc;
use time::Duration;

use super::*;
use crate::{
    accesses,
    failure::Failure,
    orders::{
        admin, feed,
        list::{self, Pace},
        read,
    },
    webhooks::{lease::lease_due, queue},
};

/// Returns the distinct statements of some work, with their values.
fn statements(
    connection: &mut SqliteConnection,
    work: impl FnOnce(&mut SqliteConnection),
) -> BTreeSet<String> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let seen_by = Arc::clone(&seen);
    connection.set_instrumentation(move |event: InstrumentationEvent<'_>| {
        if let InstrumentationEvent::StartQuery { query, .. } = event {
            seen_by.lock().unwrap().insert(query.to_string());
        }
    });
    work(connection);
    connection.set_instrumentation(None::<fn(InstrumentationEvent<'_>)>);
    seen.lock().unwrap().clone()
}

/// Returns the plans of statements.
fn plans(
    connection: &mut SqliteConnection,
    statements: BTreeSet<String>,
) -> BTreeMap<String, Vec<String>> {
    let explain = |text: String| {
        let statement = text.split(" -- binds").next().unwrap().to_owned();
        let plan = format!("EXPLAIN QUERY PLAN {statement}");
        let plan = sql::<(BigInt, BigInt, BigInt, Text)>(&plan).load(connection).unwrap();
        let steps = plan.into_iter().map(|(.., step): (i64, i64, i64, String)| step);
        (statement, steps.collect())
    };
    let reads = |text: &String| !["BEGIN", "COMMIT"].iter().any(|it| text.starts_with(it));
    statements.into_iter().filter(reads).map(explain).collect()
}

/// Returns every question for a page: each cursor, with and without each filter.
fn questions() -> Vec<PageQuery> {
    let mut questions = Vec::new();
    for cursor in [Cursor::Newest, Cursor::OlderThan(OrderId(2)), Cursor::NewerThan(OrderId(2))] {
        for filters in 0..256 {
            let some = |bit: i32| filters & bit > 0;
            let filter = ListFilter {
                file_number: some(1).then(|| "F-1".to_owned()),
                created_after: some(2).then_some(NOW),
                created_before: some(4).then_some(NOW),
                statuses: if some(8) { vec![OrderStatus::NEW] } else { Vec::new() },
                signing_date_from: some(16).then_some(NOW.date()),
                signing_date_to: some(16).then_some(NOW.date()),
                updated_after: some(32).then_some(NOW),
                search: SearchedText::parse("jane".to_owned()).ok().filter(|_| some(64)),
                by_appointment: some(128),
                ..ListFilter::default()
            };
            questions.push(PageQuery { filter, limit: 20, cursor, cursor_starts: None });
        }
    }
    questions
}

/// The pace of a walk that ends early in no case.
const AT_ONCE: Pace<'_> = Pace { orders: usize::MAX, is_awaited: &|| true };

#[tokio::test]
async fn walk_in_pieces_finds_the_same_orders() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    for number in 0..5 {
        store.create(&new_order(&format!("F-{number}"), NOW), WINDOW).await.unwrap();
    }
    let mut connection = outsider(&path(&directory));
    let mut page =
        |query: &PageQuery, pace| list::page(&mut connection, LIVE, query, pace).unwrap().unwrap();
    for query in questions() {
        for limit in [1, 2, 20] {
            let query = PageQuery { limit, ..query.clone() };
            let whole = page(&query, AT_ONCE);
            for orders in 1..=6 {
                assert_eq!(page(&query, Pace { orders, ..AT_ONCE }), whole, "{query:?} {orders}");
            }
        }
    }
}

#[tokio::test]
async fn walk_ends_soon_after_its_caller_has_gone() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    for number in 0..5 {
        store.create(&new_order(&format!("F-{number}"), NOW), WINDOW).await.unwrap();
    }
    let search = SearchedText::parse("nowhere".to_owned()).ok();
    let filter = ListFilter { search, ..ListFilter::default() };
    let query = PageQuery { filter, limit: 20, cursor: Cursor::Newest, cursor_starts: None };
    let left = Cell::new(2);
    let is_awaited = || left.replace(left.get() - 1) > 1;
    let pace = Pace { orders: 1, is_awaited: &is_awaited };
    let walked = list::page(&mut outsider(&path(&directory)), LIVE, &query, pace);
    assert!(matches!(walked, Err(Failure::TimedOut)));
    assert_eq!(left.get(), 0, "it goes on while the caller waits");
}

#[tokio::test]
async fn every_read_uses_an_index() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    for number in 0..3 {
        store.create(&new_order(&format!("F-{number}"), NOW), WINDOW).await.unwrap();
    }
    let mut connection = outsider(&path(&directory));
    let statements = statements(&mut connection, |connection| {
        read::find(connection, Some(LIVE), OrderId(1)).unwrap().unwrap();
        read::document(connection, LIVE, to_sign(OrderId(1), 0)).unwrap();
        read::find(connection, None, OrderId(1)).unwrap().unwrap();
        for cursor in [Cursor::Newest, Cursor::NewerThan(NoteNumber::START)] {
            let query = NoteQuery { limit: 20, cursor };
            read::notes(connection, LIVE, OrderId(1), query).unwrap().unwrap();
        }
        let service = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };
        for owner in [LIVE, service] {
            for query in questions() {
                list::page(connection, owner, &query, AT_ONCE).unwrap().unwrap();
            }
        }
        for filters in 0..8 {
            let filter = OrderFilter {
                list: ListFilter {
                    file_number: (filters & 1 > 0).then(|| "F-1".to_owned()),
                    ..ListFilter::default()
                },
                client: (filters & 2 > 0).then_some(CLIENT),
                email: (filters & 4 > 0).then(|| "jane@example.com".to_owned()),
                held_at: None,
            };
            admin::list(connection, &filter, None, 20).unwrap();
        }
        admin::created_before(connection, NOW, OrderId(0), 20).unwrap();
    });
    let plans = plans(&mut connection, statements);
    // The names of clients are few.
    let parts = ["CONSTANT", "SCAN walked", "SCAN json_each", "SCAN k"];
    // The notes of one order: numbered by its index, limited, and up to a size.
    let notes = ["SCAN numbered", "SCAN next", "SCAN sized", "SCAN (subquery-"];
    let parts = [&parts[..], &notes].concat();
    let whole =
        |step: &String| step.contains("SCAN") && !parts.iter().any(|part| step.contains(part));
    let is_range_of_owner = |step: &String, key: &str, suffix: &str| {
        ["client_id", "signing_service_id"].iter().any(|owner| {
            let side = owner.trim_end_matches("_id").replace("signing_", "");
            let index = format!("INDEX orders_{side}{suffix} (");
            let range = format!("({owner}=? AND is_test=? AND {key}>? AND {key}<?)");
            step.contains(&index) && step.contains(&range)
        })
    };
    let (mut walks, mut ends, mut agendas) = (0, 0, 0);
    for (statement, details) in plans {
        assert!(!details.iter().any(whole), "{statement}\n{details:#?}");
        let uses = |part: &str| details.iter().any(|detail| detail.contains(part));
        // Otherwise a client with many orders waits long for a few of them.
        let has = |part: &str| statement.contains(part);
        let index = if has("FROM `order_changes`") {
            "INDEX order_changes_order "
        } else if has("numbered") || has("FROM `order_notes`") {
            "INDEX order_notes_order "
        } else if has("`id` = ?") || has("`id` IN (") {
            "PRIMARY KEY"
        } else if has("NOT (`orders`.`holds_file_number`)") {
            "INDEX orders_client_file_number "
        } else if has("`orders`.`holds_file_number`") && has("file_number` = ?")
            || has("(file_number, ")
        {
            "INDEX orders_file_number "
        } else if has("INDEXED BY") {
            let is_agenda = has("_appointment");
            let (key, suffix) = if is_agenda { ("<expr>", "_appointment") } else { ("id", "") };
            let own = details.iter().filter(|step| is_range_of_owner(step, key, suffix));
            let own: Vec<_> = own.collect();
            assert_eq!(own.len(), 1, "{statement}\n{details:#?}");
            if is_agenda {
                // It reads rows.
                assert!(!uses("TEMP B-TREE"), "{statement}\n{details:#?}");
                agendas += 1;
                continue;
            }
            // A search reads rows.
            let is_covered = own[0].contains("COVERING INDEX");
            assert_eq!(is_covered, !has("search_text"), "{statement}\n{details:#?}");
            assert!(!uses("TEMP B-TREE"), "{statement}\n{details:#?}");
            *if has("walked") { &mut walks } else { &mut ends } += 1;
            continue;
        } else if has("(signing_service_id, is_test") {
            "INDEX orders_service "
        } else if has("(client_id, is_test") {
            "INDEX orders_client "
        } else {
            "PRIMARY KEY"
        };
        assert!(uses(index), "{statement}\n{details:#?}");
        // The page of an owner is a range of one index, in its order. One order holds a file number.
        let is_page = (has("(client_id, is_test, id) >=")
            || has("(signing_service_id, is_test, id) >="))
            && index != "INDEX orders_file_number ";
        assert!(!is_page || !uses("TEMP B-TREE"), "{statement}\n{details:#?}");
    }
    // Two sides, two directions, with filters, a search or neither: what clients ask for makes no others.
    // In the order of appointments, a file number is a filter of the walk, too.
    assert_eq!((walks, ends, agendas), (12, 4, 24));
}

#[tokio::test]
async fn page_of_the_feed_is_a_range_of_two_indexes() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let mut connection = outsider(&path(&directory));
    let service = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };
    for (owner, index) in [(LIVE, "client"), (service, "service")] {
        let statements = statements(&mut connection, |connection| {
            feed::page(connection, owner, FeedCursor::START, 20).unwrap().unwrap();
        });
        let plans = plans(&mut connection, statements);
        assert_eq!(plans.len(), 3);
        for table in ["orders", "order_feed"] {
            let key = if table == "orders" { "id" } else { "number" };
            let range = format!("is_test=? AND {key}>? AND {key}<?)");
            let index = format!("INDEX {table}_{index} (");
            let own = |details: &&Vec<String>| details.iter().any(|step| step.contains(&index));
            let of_index: Vec<_> = plans.values().filter(own).collect();
            let [details] = of_index[..] else { panic!("{index} {plans:#?}") };
            let reads_more = |step: &String| step.contains("SCAN") || step.contains("TEMP B-TREE");
            assert!(!details.iter().any(reads_more), "{details:#?}");
            assert!(details.iter().any(|step| step.contains(&range)), "{details:#?}");
        }
    }
}

/// Rows that another program has not committed are not there, and no read waits for them.
#[tokio::test]
async fn feed_is_read_while_another_program_writes() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let mut other = outsider(&path(&directory));
    other.batch_execute("BEGIN IMMEDIATE; UPDATE orders SET status = 'ASSIGNED'").unwrap();
    let page = async |after| ChangeFeed::page(&store, LIVE, after, 10).await.unwrap().unwrap();
    let first = page(FeedCursor::START).await;
    assert_eq!(first.entries.len(), 1);
    let now = ChangeFeed::now(&store).await.unwrap();
    assert_eq!((page(first.next).await.entries, now), (vec![], first.next));
    other.batch_execute("COMMIT").unwrap();
    let after = page(first.next).await.entries;
    assert_eq!((after.len(), &*after[0].change.kind), (1, "status"));
}

#[tokio::test]
async fn look_for_due_orders_reads_a_range_of_orders() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let mut connection = outsider(&path(&directory));
    let statements = statements(&mut connection, |connection| {
        for what in [Retained::Orders, Retained::Documents] {
            let due = Due { what, before: NOW + Duration::days(4_000), now: NOW };
            let found = admin::due(connection, due, OrderId(0), 10).unwrap();
            assert_eq!(found.orders.len(), usize::from(what == Retained::Orders));
        }
    });
    for (statement, details) in plans(&mut connection, statements) {
        let parts =
            ["SCALAR SUBQUERY", "USING PRIMARY KEY (order_id=?)", "INTEGER PRIMARY KEY (rowid>?"];
        let is_short = |step: &String| parts.iter().any(|part| step.contains(part));
        assert!(details.iter().all(is_short), "{statement}\n{details:#?}");
    }
}

/// Otherwise a look has all of them in memory.
#[tokio::test]
async fn look_for_unreadable_orders_reads_a_few_at_a_time() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    many_orders(&directory, 249);
    let mut connection = outsider(&path(&directory));
    let statements = statements(&mut connection, |connection| {
        queue::look_at_orders(connection, OrderId(0)).unwrap();
    });
    assert_eq!(statements.len(), 3, "{statements:#?}");
    for (statement, details) in plans(&mut connection, statements) {
        assert!(statement.contains(" LIMIT "), "{statement}");
        let uses = |part: &str| details.iter().any(|step| step.contains(part));
        assert!(uses("orders USING INTEGER PRIMARY KEY (rowid>?)"), "{details:#?}");
        assert!(!uses("SCAN") && !uses("TEMP B-TREE"), "{details:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_read_holds_up_no_other() {
    let directory = tempdir().unwrap();
    let store = Arc::new(open(&directory).await);
    let id = store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let (started, has_started) = tokio::sync::oneshot::channel();
    let (end, ends) = mpsc::channel::<()>();
    let slow = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let wait = move |_: &mut SqliteConnection| {
                started.send(()).unwrap();
                ends.recv().unwrap();
                Ok::<_, Failure>(())
            };
            store.order_readers.run(wait).await
        }
    });
    has_started.await.unwrap();
    for _ in 0..100 {
        assert!(OrderReader::order(&*store, LIVE, id).await.unwrap().is_some());
    }
    end.send(()).unwrap();
    slow.await.unwrap().unwrap();
}

/// Neither authentication nor mails wait for clients that read.
#[tokio::test(flavor = "multi_thread")]
async fn slow_reads_of_clients_hold_up_no_other_port() {
    let directory = tempdir().unwrap();
    let store = Arc::new(open(&directory).await);
    let (end, ends) = mpsc::channel::<()>();
    let ends = Arc::new(Mutex::new(ends));
    let wait = move |_: &mut SqliteConnection| {
        let _ = ends.lock().unwrap().recv();
        Ok::<_, Failure>(())
    };
    let slow = join_all((0..10).map(|_| store.order_readers.run(wait.clone())));
    let mut slow = std::pin::pin!(slow);
    poll_fn(|context| Poll::Ready(slow.as_mut().poll(context).is_pending())).await;
    assert_eq!(ApiKeyRepo::find(&*store, "unknown").await.unwrap(), None);
    assert_eq!(store.stats().await.unwrap(), QueueStats::default());
    let query = &questions()[0];
    let mut page = OrderReader::page(&*store, LIVE, query);
    let waits = poll_fn(|context| Poll::Ready(page.as_mut().poll(context).is_pending())).await;
    assert!(waits, "clients have readers of their own");
    drop(end);
    assert!(slow.await.iter().all(Result::is_ok));
    page.await.unwrap();
}

/// A page is a range of one index, in its order, and so are the oldest accesses.
#[tokio::test]
async fn accesses_are_not_sorted() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let id = store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    store.store(&[access(1, id), access(2, id)]).await.unwrap();
    let mut connection = outsider(&path(&directory));
    let statements = statements(&mut connection, |connection| {
        for before in [None, Some(access(2, id).id)] {
            for order in [None, Some(id)] {
                let filter = AccessFilter { order, ..AccessFilter::default() };
                accesses::list(connection, &filter, before, 10).unwrap();
            }
            accesses::of_order(connection, LIVE, id, before.map(Into::into), 10).unwrap();
        }
        accesses::remove_before(connection, NOW + Duration::SECOND, 10).unwrap();
    });
    let mut ranges = BTreeSet::new();
    for (statement, details) in plans(&mut connection, statements) {
        assert!(!details.iter().any(|step| step.contains("TEMP B-TREE")), "{details:#?}");
        if statement.contains("`accesses`") && !statement.starts_with("INSERT") {
            ranges.insert(details[0].clone());
        }
    }
    let expected = [
        "SEARCH accesses USING INDEX accesses_asked_order (asked_order_id=? AND at<?)",
        "SEARCH accesses USING INDEX accesses_order (order_id=? AND at<?)",
        "SEARCH accesses USING PRIMARY KEY (at<?)",
    ];
    assert_eq!(ranges.into_iter().collect::<Vec<_>>(), expected);
}

/// Each batch of a replay is a range of one index, and so are old deliveries.
#[tokio::test]
async fn batches_of_webhooks_are_not_sorted() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let endpoint = WebhookRepo::add(&store, &new_endpoint(LIVE), 1).await.unwrap().unwrap().id;
    let mut connection = outsider(&path(&directory));
    let statements = statements(&mut connection, |connection| {
        for before in [None, Some(WebhookDeliveryId(1))] {
            let batch = ReplayBatch { since: NOW, until: NOW, before, limit: 10 };
            queue::replay_batch(
                connection,
                LIVE,
                endpoint,
                batch,
                &EndpointPrecondition::NONE,
                NOW,
            )
            .unwrap();
        }
        queue::forget(connection, Utc(NOW), 10).unwrap();
    });
    let mut indexes = Vec::new();
    for (statement, details) in plans(&mut connection, statements) {
        assert!(!details.iter().any(|step| step.contains("TEMP B-TREE")), "{details:#?}");
        if statement.contains("ORDER BY") {
            indexes.push(details[0].split_once(" INDEX ").unwrap().1.to_owned());
        }
    }
    indexes.sort_unstable();
    let replay =
        "webhook_deliveries_endpoint_created (endpoint_id=? AND created_at>? AND created_at<?)";
    assert_eq!(indexes, ["webhook_deliveries_created (created_at<?)", replay, replay]);
}

#[tokio::test]
async fn lease_of_webhooks_does_not_read_endpoints_that_wait() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let endpoint = WebhookRepo::add(&store, &new_endpoint(LIVE), 1).await.unwrap().unwrap().id;
    on_writer(
        &store,
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 10000)
        INSERT INTO webhook_endpoints (party, is_test, url, events, secret, created_at,
            succeeded_at, due_at) SELECT n, 0, 'https://a.example', '', x'', 0, 0, 1 << 62
            FROM numbers;
        INSERT INTO webhook_deliveries (endpoint_id, event, message_key, created_at, due_at)
            SELECT id, 'order.created', 'm', 0, 1 << 62 FROM webhook_endpoints",
    )
    .await;
    let none = EndpointPrecondition::NONE;
    let test =
        domain::ports::WebhookQueue::add_test(&store, LIVE, endpoint, "key", &none, NOW).await;
    test.unwrap().unwrap();
    let mut connection = outsider(&path(&directory));
    let statements = statements(&mut connection, |connection| {
        let slots = WEBHOOK_SLOTS;
        let leased = lease_due(connection, NOW, Duration::MINUTE, &slots).unwrap();
        assert_eq!(leased.len(), 1);
    });
    assert!(statements.len() < 10, "{}", statements.len());
    for (statement, details) in plans(&mut connection, statements) {
        let is_whole =
            |step: &String| step.contains("SCAN webhook") || step.contains("TEMP B-TREE");
        assert!(!details.iter().any(is_whole), "{statement}\n{details:#?}");
    }
}

#[tokio::test]
async fn orders_are_read_while_another_process_writes() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let order = new_order("F-1", NOW);
    let id = store.create(&order, WINDOW).await.unwrap();
    let mut writer = outsider(&path(&directory));
    writer.batch_execute("BEGIN IMMEDIATE; UPDATE orders SET status = 'X'").unwrap();
    let read = OrderReader::order(&store, LIVE, id).await.unwrap();
    assert_eq!(read, Some(MaybeErased::Whole(stored(id, &order))));
}

/// With a status that none, few, or most of them have.
#[tokio::test]
async fn filters_find_orders_wherever_they_are() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    many_orders(&directory, 12_287);
    let of_status = |status: &'static str| -> Vec<i64> {
        let ids = (1..=12_288).rev();
        match status {
            "RARE" => ids.filter(|id| id % 2_000 == 0).collect(),
            "OLD" => ids.filter(|id| (2..5).contains(id)).collect(),
            "USUAL" => ids.filter(|id| id % 2_000 != 0 && *id > 4).collect(),
            _ => Vec::new(),
        }
    };
    for status in ["RARE", "OLD", "USUAL", "NONE"] {
        let statuses = vec![OrderStatus::from_stored(status.to_owned()).unwrap()];
        let filter = ListFilter { statuses, ..ListFilter::default() };
        let expected = of_status(status);
        let mut query = PageQuery { filter, limit: 3, cursor: Cursor::Newest, cursor_starts: None };
        for page in expected.chunks(3).chain(expected.is_empty().then_some(&[][..])).take(4) {
            let found = OrderReader::page(&store, LIVE, &query).await.unwrap().unwrap();
            let ids: Vec<_> = found.items.iter().map(|order| order.stored.id.0).collect();
            assert_eq!(ids, page, "{status}");
            assert_eq!(found.has_older, page.last() != expected.last(), "{status}");
            query.cursor = page.last().map_or(Cursor::Newest, |id| Cursor::OlderThan(OrderId(*id)));
        }
        query.cursor = Cursor::NewerThan(OrderId(2_040));
        let newer: Vec<_> = expected.iter().rev().filter(|id| **id > 2_040).take(3).collect();
        let found = OrderReader::page(&store, LIVE, &query).await.unwrap().unwrap();
        let ids: Vec<_> = found.items.iter().rev().map(|order| &order.stored.id.0).collect();
        assert_eq!(ids, newer, "{status}");
    }
}

/// A page tells where it stopped. The next pages go on there, and find every order.
async fn pages_stop(store: &SqliteStore, filter: &ListFilter, expected: &[Stop<'_>]) {
    for (cursor, expected, has_older, has_newer, stopped_at) in expected {
        let query =
            PageQuery { filter: filter.clone(), limit: 1, cursor: *cursor, cursor_starts: None };
        let page = OrderReader::page(store, LIVE, &query).await.unwrap().unwrap();
        let ids: Vec<_> = page.items.iter().map(|order| order.stored.id.0).collect();
        let stopped = page.stopped_at.map(|at| at.id);
        let found = (&*ids, page.has_older, page.has_newer, stopped);
        assert_eq!(found, (*expected, *has_older, *has_newer, *stopped_at), "{cursor:?}");
    }
}

/// A cursor, the orders on its page, whether there are older and newer ones, and where the page stopped.
type Stop<'a> = (Cursor, &'a [i64], bool, bool, Option<i64>);

fn older(id: i64) -> Cursor {
    Cursor::OlderThan(OrderId(id))
}

fn newer(id: i64) -> Cursor {
    Cursor::NewerThan(OrderId(id))
}

#[tokio::test]
async fn search_looks_at_a_bounded_number_of_orders() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    many_orders(&directory, 60_000);
    let found = "UPDATE orders SET search_text = 'found' WHERE id IN (1, 2, 55000, 60001)";
    outsider(&path(&directory)).batch_execute(found).unwrap();
    // By its number.
    let search = SearchedText::parse("jane 54321".to_owned()).ok();
    let filter = ListFilter { search, ..ListFilter::default() };
    let stops = [(Cursor::Newest, &[54_321][..], true, false, Some(10_002))];
    pages_stop(&store, &filter, &stops).await;
    let search = SearchedText::parse("FOUND".to_owned()).ok();
    let stops = [
        (Cursor::Newest, &[60_001][..], true, false, None),
        (older(60_001), &[55_000], true, true, Some(10_001)),
        (older(55_000), &[], true, true, Some(5_000)),
        (older(50_001), &[2], true, true, None),
        (older(2), &[1], false, true, None),
        (newer(2), &[], true, true, Some(50_002)),
        (newer(50_002), &[55_000], true, true, None),
    ];
    pages_stop(&store, &ListFilter { search, ..ListFilter::default() }, &stops).await;
}

#[tokio::test]
async fn filter_looks_at_a_bounded_number_of_orders() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    many_orders(&directory, 210_000);
    let found = "UPDATE orders SET status = 'FOUND' WHERE id IN (1, 2, 205000, 210001)";
    outsider(&path(&directory)).batch_execute(found).unwrap();
    let statuses = vec![OrderStatus::from_stored("FOUND".to_owned()).unwrap()];
    let stops = [
        (Cursor::Newest, &[210_001][..], true, false, None),
        (older(210_001), &[205_000], true, true, Some(10_001)),
        (older(205_000), &[], true, true, Some(5_000)),
        (older(200_003), &[], true, true, Some(3)),
        (older(200_002), &[2], true, true, Some(2)),
        // The walk ends with the last order.
        (older(200_001), &[2], true, true, None),
        (older(2), &[1], false, true, None),
        (newer(2), &[], true, true, Some(200_002)),
        (newer(200_002), &[205_000], true, true, None),
        (newer(10_001), &[205_000], true, true, None),
        (newer(0), &[1], false, true, None),
    ];
    pages_stop(&store, &ListFilter { statuses, ..ListFilter::default() }, &stops).await;
}

/// One that is late for its result stands behind more orders than one page reads.
#[tokio::test]
async fn late_orders_are_found_behind_signed_ones() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    many_orders(&directory, 12_287);
    let signed = "UPDATE orders SET status = 'SIGNED' WHERE id > 1";
    outsider(&path(&directory)).batch_execute(signed).unwrap();
    let attention =
        |code| Some(AttentionFilter { codes: vec![code], now: NOW + Duration::weeks(9) });
    let filter = |code| ListFilter { attention: attention(code), ..ListFilter::default() };
    let found = [(Cursor::Newest, &[1][..], false, false, None)];
    pages_stop(&store, &filter(Attention::NoResult), &found).await;
    // Each of them may lack its scans.
    let query = PageQuery {
        filter: filter(Attention::NoScanbacks),
        limit: 1,
        cursor: Cursor::Newest,
        cursor_starts: None,
    };
    let page = OrderReader::page(&store, LIVE, &query).await.unwrap().unwrap();
    assert!(page.items.is_empty() && page.stopped_at.is_some());
}

/// Adds orders like the first one, and gives each a status.
pub(super) fn many_orders(directory: &TempDir, count: i64) {
    let insert = format!(
        "WITH RECURSIVE numbers (value) AS
            (SELECT 1 UNION ALL SELECT value + 1 FROM numbers LIMIT {count})
        INSERT INTO orders (client_id, api_key_id, signing_service_id, created_at, updated_at,
            is_test, holds_file_number, file_number, status, details, signing_date, search_text,
            starts_at)
        SELECT client_id, api_key_id, signing_service_id, created_at, updated_at, is_test, 0,
            file_number,
            CASE WHEN value % 2000 = 1999 THEN 'RARE' WHEN value < 4 THEN 'OLD' ELSE 'USUAL' END,
            details, signing_date, search_text, starts_at FROM orders, numbers"
    );
    outsider(&path(directory)).batch_execute(&insert).unwrap();
}
