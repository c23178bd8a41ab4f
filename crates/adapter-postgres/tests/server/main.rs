//! Behaviour beyond the contract of the ports, with a real server that is slow, gone or full, or
//! that rejects the store.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod busy;
mod concurrency;
mod constraints;
mod failures;
mod feed;
mod hosts;
mod import;
mod indexes;
mod installation;
mod migrations;
mod order_details;
mod outage;
mod pgbouncer;
mod reads;
mod round_trips;
mod schemas;
mod tls;
mod unreadable;
mod urls;
mod webhooks;

use std::{error::Error, time::Duration};

use adapter_postgres::{PostgresStore, TimeLimits};
use contract_tests::samples::{
    LIVE, NOW, RUN, WINDOW, access, add_documents, add_note, api_key, attempt, call_people,
    call_webhooks, delivery, document, idempotency_key, key_of, mails, new_order, order_of, settle,
    to_sign,
};
use domain::{
    api_key::{ClientId, NewApiKey, Owner, Party},
    idempotency::IdempotentRequest,
    order::{Actor, Due, OrderId, Retained, SigningServiceId, feed::FeedCursor},
    ports::{
        AccessFilter, AccessLog, ApiKeyRepo, ChangeFeed, Cursor, DeliveryQueue as _,
        IdempotencyLedger as _, ListFilter, NewOrder, OrderAdmin, OrderFilter, OrderReader,
        OrderRepo as _, Outbox as _, PageQuery, Settlement, StoreError, UploadLedger as _,
        WriteError,
    },
    rejected::Rejected,
};
use test_servers::postgres::{Cluster, Database, PASSWORD, SUPERUSER};
use tokio::{
    net::TcpSocket,
    sync::OnceCell,
    time::{Instant, sleep},
};
use tokio_postgres::{Client, NoTls};

/// Time limit for everything that a test waits for. A busy machine takes seconds for anything.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Limits that no call meets on a busy machine. A test of a limit sets its own.
const GENEROUS: TimeLimits = TimeLimits {
    connect: TIMEOUT,
    session_check: TIMEOUT,
    acquire: TIMEOUT,
    statement: TIMEOUT,
    call: Duration::from_secs(2 * 60),
    idle_transaction: TIMEOUT,
    lock: TIMEOUT,
    batch: TIMEOUT,
    fast_rejection: TIMEOUT,
};

/// Limits for a server that does not answer: no other call meets them, and [`unanswered`] puts the clock past them.
const SHORT: TimeLimits = TimeLimits {
    acquire: Duration::from_secs(40),
    statement: Duration::from_secs(40),
    call: Duration::from_secs(50),
    ..GENEROUS
};

/// Opens a store with generous limits.
fn open(url: &str, connections: usize) -> PostgresStore {
    PostgresStore::open(url, connections, GENEROUS).unwrap()
}

/// Returns a store of a few connections, with a current schema.
async fn store_at(url: &str) -> PostgresStore {
    let store = open(url, 4);
    store.migrate().await.unwrap();
    store
}

/// Returns a database with a current schema, on the server that all tests share.
async fn database() -> Database<'static> {
    static MIGRATED: OnceCell<Database<'static>> = OnceCell::const_new();
    let migrated = MIGRATED.get_or_init(async || {
        let database = Cluster::shared().database();
        store_at(&database.url()).await;
        database
    });
    migrated.await.copy()
}

/// Returns a store on a database of its own.
async fn store() -> (PostgresStore, Database<'static>) {
    store_with(GENEROUS).await
}

/// Returns a store on a database of its own, with limits of its own.
async fn store_with(limits: TimeLimits) -> (PostgresStore, Database<'static>) {
    let database = database().await;
    (PostgresStore::open(&database.url(), 4, limits).unwrap(), database)
}

/// Executes SQL whose reads no statistics count, and begins the statistics anew.
fn sql_without_statistics(database: &Database<'_>, statements: &str) {
    database.sql(&format!("{}; SELECT pg_stat_reset()", statements.trim_end_matches(';')));
}

/// Returns the URL of a database through another port.
fn url_through(port: u16, database: &Database<'_>) -> String {
    format!("postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{port}/{}", database.name)
}

/// Reserves a port of 127.0.0.1 where nothing listens.
fn closed_port() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}

/// Returns a session of another program.
async fn outsider(database: &Database<'_>) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn create(store: &PostgresStore, file_number: &str) -> Result<OrderId, WriteError> {
    store.create(&new_order(file_number, NOW), WINDOW).await
}

/// Makes every call of every port that uses an index.
async fn every_call(store: &PostgresStore) {
    let (one, two, three) = (document(), document(), document());
    store.check().await.unwrap();
    store.record(&[&one, &two, &three].map(key_of), NOW).await.unwrap();
    let order = store
        .create(&NewOrder { documents: vec![one], ..new_order("E-1", NOW) }, WINDOW)
        .await
        .unwrap();
    create(store, "E-1").await.unwrap_err();
    order_of(store, order).await.unwrap().unwrap();
    OrderReader::order(store, LIVE, order).await.unwrap().unwrap();
    store.document(LIVE, to_sign(order, 0)).await.unwrap().unwrap();
    let cursor = Cursor::NewerThan(order);
    let (created_after, created_before) = (Some(NOW), Some(NOW));
    let filter = ListFilter { created_after, created_before, ..ListFilter::default() };
    let page = PageQuery { filter, limit: 1, cursor, cursor_starts: None };
    OrderReader::page(store, LIVE, &page).await.unwrap().unwrap();
    OrderAdmin::list(store, &OrderFilter::default(), None, 1).await.unwrap();
    store.created_before(NOW, OrderId(0), 1).await.unwrap();
    store.held(NOW).await.unwrap();
    for what in [Retained::Orders, Retained::Documents] {
        let before = NOW + time::Duration::days(400_000);
        let due = Due { what, before, now: NOW };
        OrderAdmin::due(store, due, OrderId(0), 1).await.unwrap();
    }
    let kind = domain::document::DocumentKind::ToSign;
    store.change(&add_documents(order, kind, vec![three])).await.unwrap();
    store.change(&add_note(order, Actor::Client, "x")).await.unwrap();
    let service = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };
    for owner in [LIVE, service] {
        ChangeFeed::page(store, owner, FeedCursor::START, 1).await.unwrap().unwrap();
    }
    ChangeFeed::now(store).await.unwrap();
    store.forget_erasures(NOW, 1).await.unwrap();
    domain::ports::ServiceRepo::standing(store, SigningServiceId(42)).await.unwrap();
    store.condemn(&[key_of(&two)]).await.unwrap();
    store.forget(&[key_of(&two)]).await.unwrap();
    let key = api_key(NOW);
    store.add_first(&api_key(NOW), "jane").await.unwrap();
    let id = store.add(&key, "jane").await.unwrap();
    ApiKeyRepo::find(store, &key.lookup).await.unwrap().unwrap();
    store.rotate(id, &api_key(NOW), NOW, "jane").await.unwrap().unwrap();
    store.revoke(id, NOW, "jane").await.unwrap();
    assert!(store.rename_client(ClientId(id.0), "x").await.unwrap());
    store.note_uses(&[(id, NOW)]).await.unwrap();
    store.trail().await.unwrap();
    let attempt = attempt(&idempotency_key(1, "key"), 7);
    store.claim(&attempt.claim, NOW, NOW + time::Duration::MINUTE).await.unwrap();
    store.release(&attempt.claim).await.unwrap();
    let idempotent_request = Some(IdempotentRequest { attempt, kept_until: NOW });
    let test = NewOrder { is_test: true, idempotent_request, ..new_order("E-2", NOW) };
    store.create(&test, WINDOW).await.unwrap();
    store
        .create(&NewOrder { created_at: NOW + time::Duration::HOUR, ..test }, WINDOW)
        .await
        .unwrap();
    store.forget_free(None, NOW + time::Duration::DAY, 10).await.unwrap().unwrap();
    ApiKeyRepo::list(store).await.unwrap();
    let event = store.events(NOW, 1).await.unwrap()[0].id;
    store.put_off(&[event], NOW).await.unwrap();
    store.dispatch(&[mails(event, vec![delivery(0)])], NOW).await.unwrap();
    let lease = &store.lease(NOW, time::Duration::MINUTE, 1).await.unwrap()[0];
    store.begin(&[(lease.delivery.id, NOW)], NOW, 1).await.unwrap();
    store.retry(lease.delivery.id, NOW).await.unwrap();
    store.told(&[lease.delivery.order_id]).await.unwrap();
    assert!(settle(store, lease, &Settlement::Done).await);
    let (first, last) = (access(1, order), access(2, order));
    store.store(&[first.clone(), last.clone()]).await.unwrap();
    store.end(RUN, 2, NOW).await.unwrap();
    store.of_order(LIVE, order, Some(last.id.into()), 1).await.unwrap().unwrap();
    let filter = AccessFilter { order: Some(order), ..AccessFilter::default() };
    assert_eq!(AccessLog::list(store, &filter, None, 1).await.unwrap().len(), 1);
    let all = AccessFilter::default();
    assert_eq!(AccessLog::list(store, &all, Some(last.id), 1).await.unwrap(), [first]);
    store.busy_readers((NOW, NOW), 1).await.unwrap();
    store.remove_before(last.id.at, 1).await.unwrap();
    call_rejected(store).await;
    call_webhooks(store).await;
    call_people(store).await;
}

/// By their paths: another port has methods of these names.
async fn call_rejected(store: &PostgresStore) {
    use domain::ports::{MailClaim, RejectedLog};
    let contact = "it@title.example.com".to_owned().try_into().ok();
    let key = store.add(&NewApiKey { contact, ..api_key(NOW) }, "jane").await.unwrap();
    let count = Rejected {
        key,
        at: NOW,
        code: "forbidden".to_owned(),
        run: RUN,
        requests: 1,
        faults: [].into(),
        request_ids: Vec::new(),
    };
    RejectedLog::store(store, &[count]).await.unwrap();
    RejectedLog::counts(store, key, NOW).await.unwrap();
    let claim = MailClaim { now: NOW, rejected_until: NOW, until: NOW };
    assert_eq!(RejectedLog::claim_mail(store, claim).await.unwrap(), [key]);
    let untold = RejectedLog::untold(store, &[key], 1).await.unwrap();
    RejectedLog::end_claim(store, &[key], &untold, NOW).await.unwrap();
}

/// Makes calls that no server answers. Whenever all of them wait, the clock goes on to the next limit. Only a runtime
/// with one thread has such a clock.
async fn unanswered<T>(calls: impl Future<Output = T>) -> T {
    tokio::time::pause();
    let ended = calls.await;
    tokio::time::resume();
    ended
}

/// Waits until a condition holds.
async fn until(condition: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds().await {
        assert!(Instant::now() < deadline, "never happened: {condition}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the number of sessions of stores, and how many of them wait for a lock.
async fn sessions(outsider: &Client) -> (i64, i64) {
    let query = "SELECT count(*), count(*) FILTER (WHERE wait_event_type = 'Lock') \
        FROM pg_stat_activity WHERE datname = current_database() \
        AND application_name = 'notary-orders'";
    let row = outsider.query_one(query, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// Returns whether an order is the duplicate of one that was created at [`NOW`].
fn is_duplicate(outcome: &Result<OrderId, WriteError>) -> bool {
    match outcome {
        Err(WriteError::Duplicate { created_at }) => *created_at == NOW,
        _ => false,
    }
}

/// Returns the log line of an error that must be temporary.
fn unavailable<T>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Err(error @ StoreError::Unavailable(_)) => log_line(&error),
        Err(error) => panic!("{}", log_line(&error)),
        Ok(_) => panic!("the call succeeded"),
    }
}

/// Returns the log line of an order that failed with a temporary error.
fn not_created(outcome: Result<OrderId, WriteError>) -> String {
    match outcome {
        Err(error @ WriteError::Unavailable(_)) => log_line(&error),
        Err(error) => panic!("{}", log_line(&error)),
        Ok(_) => panic!("the order was created"),
    }
}

/// Returns the log line of an error: one line without a password.
fn log_line(error: &dyn Error) -> String {
    let chain = domain::ports::error_chain(error);
    assert!(!chain.contains('\n') && !chain.contains(PASSWORD), "{chain}");
    chain
}
