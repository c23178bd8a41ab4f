//! Transactions that wait, fail or share a commit.

use std::pin::pin;

use diesel::sql_types::Integer;
use domain::ports::{ErasureOutcome, OrderAdmin};
use tokio::time::timeout;

use super::*;
use crate::{Rewrite, database::rewrite_within};

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_processes_creates_an_order() {
    let directory = tempdir().unwrap();
    let stores = [Arc::new(open(&directory).await), Arc::new(open(&directory).await)];
    for round in 0..20 {
        let tasks = (0..10).map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move {
                store.create(&new_order(&format!("F-{round}"), NOW), WINDOW).await
            })
        });
        let outcomes: Vec<_> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        assert_eq!(
            outcomes
                .iter()
                .filter(|outcome| matches!(outcome, Err(WriteError::Duplicate { .. })))
                .count(),
            9
        );
    }
}

#[tokio::test]
async fn lock_of_another_process_makes_the_store_unavailable() {
    let directory = tempdir().unwrap();
    let limits = TimeLimits { lock: Duration::from_millis(1), ..GENEROUS };
    let store = open_with(&directory, limits).await;
    let mut other = outsider(&path(&directory));
    other.batch_execute("BEGIN IMMEDIATE").unwrap();

    assert!(matches!(
        store.create(&new_order("F-1", NOW), WINDOW).await,
        Err(WriteError::Unavailable(_))
    ));
    assert!(matches!(store.check().await, Err(StoreError::Unavailable(_))));
    assert_eq!(order_of(&store, OrderId(1)).await.unwrap(), None, "reading needs no lock");
    other.batch_execute("ROLLBACK").unwrap();
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
}

/// Its caller has answered that the order was not created.
#[tokio::test]
async fn order_given_up_behind_a_lock_is_not_stored() {
    let directory = tempdir().unwrap();
    drop(open(&directory).await);
    let limits = TimeLimits { call: Duration::from_secs(1), ..GENEROUS };
    let store = SqliteStore::open(&path(&directory), limits).unwrap();
    let mut other = outsider(&path(&directory));
    other.batch_execute("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(
        store.create(&new_order("F-1", NOW), WINDOW).await,
        Err(WriteError::Unavailable(_))
    ));
    other.batch_execute("ROLLBACK").unwrap();
    // Runs behind the order, however long it waits.
    let orders = |connection: &mut SqliteConnection| {
        Ok(sql::<Integer>("SELECT count(*) FROM orders").get_result::<i32>(connection)?)
    };
    assert_eq!(store.writer.maintain::<_, Failure>(orders).await.unwrap(), 0);
}

#[tokio::test]
async fn full_disk_makes_the_store_unavailable() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    on_writer(&store, "PRAGMA max_page_count = 1").await;
    let failed = loop {
        match store.create(&new_order(object_key().as_str(), NOW), WINDOW).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, WriteError::Unavailable(_)), "{failed:?}");
    let before = store.stats().await.unwrap();
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap_err();
    assert_eq!(store.stats().await.unwrap(), before);
    assert!(matches!(store.check().await, Err(StoreError::Unavailable(_))), "as an order");

    on_writer(&store, "PRAGMA max_page_count = 1000000").await;
    store.check().await.unwrap();
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
}

#[tokio::test]
async fn moved_database_makes_the_store_unavailable() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.check().await.unwrap();
    let (path, aside) = (path(&directory), directory.path().join("aside.db"));
    std::fs::rename(&path, &aside).unwrap();
    assert!(matches!(store.check().await, Err(StoreError::Unavailable(_))), "the file is missing");
    // After a panic, the next transaction opens the database again.
    store.writer.run(|_| -> Result<(), Failure> { panic!("on purpose") }).await.unwrap_err();
    assert!(matches!(
        store.create(&new_order("F-1", NOW), WINDOW).await,
        Err(WriteError::Unavailable(_))
    ));
    assert!(!path.exists(), "no empty database was created");
    if cfg!(unix) {
        std::fs::copy(&aside, &path).unwrap();
        assert!(
            matches!(store.check().await, Err(StoreError::Unavailable(_))),
            "another file has the path"
        );
    }
    std::fs::rename(&aside, &path).unwrap();
    store.check().await.unwrap();
}

/// Time passes when nothing else is to do. A rewrite of a large database takes minutes.
#[tokio::test(start_paused = true)]
async fn command_waits_as_long_as_another_process_holds_the_lock() {
    let directory = tempdir().unwrap();
    drop(open(&directory).await);
    let mut other = outsider(&path(&directory));
    other.batch_execute("BEGIN IMMEDIATE").unwrap();
    let store = SqliteStore::open_patiently(&path(&directory)).unwrap();
    assert_eq!(store.migrate().await.unwrap(), 0, "nothing to migrate needs no lock");
    let mut check = pin!(store.check());
    timeout(Duration::from_secs(3_600), &mut check).await.unwrap_err();
    other.batch_execute("ROLLBACK").unwrap();
    check.await.unwrap();
    let waits = |connection: &mut SqliteConnection| {
        Ok(sql::<Integer>("PRAGMA busy_timeout").get_result::<i32>(connection)?)
    };
    assert_eq!(store.transaction::<_, StoreError>(waits).await.unwrap(), 86_400_000);
}

#[tokio::test]
async fn check_fails_without_tables() {
    let directory = tempdir().unwrap();
    let store = SqliteStore::open(&path(&directory), GENEROUS).unwrap();
    assert!(matches!(store.check().await, Err(StoreError::Internal(_))));
}

#[tokio::test]
async fn panic_rolls_back_only_its_transaction() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let lost = store
        .writer
        .run(|connection| -> Result<(), Failure> {
            connection
                .batch_execute("INSERT INTO uploads (key, recorded_at) VALUES ('half', 0)")?;
            panic!("on purpose");
        })
        .await
        .unwrap_err();
    assert!(matches!(StoreError::from(lost), StoreError::Internal(_)));
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    assert_eq!(
        store.condemn_recorded_before(NOW, None, 10).await.unwrap(),
        [],
        "the upload was rolled back"
    );
}

/// Keeps the writer busy until the sender is dropped, so that calls wait together.
async fn hold(
    store: &Arc<SqliteStore>,
) -> (mpsc::Sender<()>, tokio::task::JoinHandle<Result<(), Failure>>) {
    let (release, held) = mpsc::channel::<()>();
    let (began, begins) = tokio::sync::oneshot::channel();
    let store = Arc::clone(store);
    let holding = tokio::spawn(async move {
        let occupy = move |_: &mut SqliteConnection| {
            let _ = began.send(());
            let _ = held.recv();
            Ok::<_, Failure>(())
        };
        store.writer.run(occupy).await
    });
    begins.await.unwrap();
    (release, holding)
}

/// Returns the number of commits in the write-ahead log: frames with the size of the database
/// (SQLite file format, section 4.1).
fn commits(directory: &TempDir) -> usize {
    let log = std::fs::read(directory.path().join("orders.db-wal")).unwrap();
    log[32..].chunks_exact(24 + 4096).filter(|frame| frame[4..8] != [0; 4]).count()
}

/// Creates orders with these file numbers in one transaction.
async fn create_together(
    store: &Arc<SqliteStore>,
    file_numbers: &[&str],
) -> Vec<Result<OrderId, WriteError>> {
    let (release, holding) = hold(store).await;
    let orders: Vec<_> = file_numbers.iter().map(|number| new_order(number, NOW)).collect();
    let mut creating = pin!(join_all(orders.iter().map(|order| store.create(order, WINDOW))));
    poll_fn(|context| Poll::Ready(creating.as_mut().poll(context).is_pending())).await;
    drop(release);
    let outcomes = creating.await;
    holding.await.unwrap().unwrap();
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_calls_share_a_commit() {
    let directory = tempdir().unwrap();
    let store = Arc::new(open(&directory).await);
    let before = commits(&directory);
    let numbers: Vec<_> = (0..60).map(|number| format!("F-{number}")).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    assert!(create_together(&store, &numbers).await.iter().all(Result::is_ok));
    assert_eq!(commits(&directory) - before, 1);
}

/// A trigger of an operator fails an order that shares a transaction with others.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_order_fails_alone_unless_sqlite_ends_the_transaction() {
    let numbers = ["F-1", "bad", "F-1", "F-2"];
    for (trigger, created) in [
        ("ON orders WHEN new.file_number = 'bad' BEGIN SELECT RAISE(ABORT, 'no')", "F-1,F-2"),
        // The row is skipped.
        ("ON orders WHEN new.file_number = 'bad' BEGIN SELECT RAISE(IGNORE)", "F-1,F-2"),
        // An order without its event is not kept.
        (
            "ON events WHEN (SELECT file_number FROM orders WHERE id = new.order_id) = 'bad' \
            BEGIN SELECT RAISE(ABORT, 'no')",
            "F-1,F-2",
        ),
        // SQLite ends the whole transaction.
        ("ON orders WHEN new.file_number = 'bad' BEGIN SELECT RAISE(ROLLBACK, 'no')", ""),
    ] {
        let directory = tempdir().unwrap();
        let store = Arc::new(open(&directory).await);
        let mut outsider = outsider(&path(&directory));
        let trigger = format!("CREATE TRIGGER strict BEFORE INSERT {trigger}; END");
        outsider.batch_execute(&trigger).unwrap();
        let outcomes = create_together(&store, &numbers).await;
        let acknowledged: Vec<_> = (0..4).filter(|&number| outcomes[number].is_ok()).collect();
        let expected: &[usize] = if created.is_empty() { &[] } else { &[0, 3] };
        assert_eq!(acknowledged, expected, "{trigger}: {outcomes:?}");
        if !created.is_empty() {
            assert!(matches!(outcomes[2], Err(WriteError::Duplicate { .. })), "{outcomes:?}");
        }
        for rows in ["orders", "events JOIN orders ON orders.id = order_id"] {
            let query = format!("SELECT coalesce(group_concat(file_number), '') FROM {rows}");
            let kept: String = sql::<Text>(&query).get_result(&mut outsider).unwrap();
            assert_eq!(kept, created, "{trigger}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn success_is_reported_only_after_commit() {
    let directory = tempdir().unwrap();
    let store = Arc::new(open(&directory).await);
    let (release, holding) = hold(&store).await;
    // Fails when it is committed, and not before.
    let orphan = format!("PRAGMA defer_foreign_keys = ON; {ORPHAN}");
    let order = new_order("F-1", NOW);
    let orphaned = store
        .writer
        .run(move |connection| connection.batch_execute(&orphan).map_err(Failure::from));
    let mut both = pin!(futures_util::future::join(store.create(&order, WINDOW), orphaned));
    poll_fn(|context| Poll::Ready(both.as_mut().poll(context).is_pending())).await;
    drop(release);
    let (stored, orphaned) = both.await;
    assert!(matches!(stored, Err(WriteError::Unavailable(_))), "{stored:?}");
    orphaned.unwrap_err();
    holding.await.unwrap().unwrap();
    assert_eq!(store.stats().await.unwrap(), QueueStats::default());
    store.create(&order, WINDOW).await.unwrap();
}

#[tokio::test]
async fn maintenance_has_no_time_limit() {
    let directory = tempdir().unwrap();
    let store = Arc::new(open(&directory).await);
    let (release, holding) = hold(&store).await;
    tokio::time::pause();
    let mut removing = OrderAdmin::remove_mails(&*store, &[], NOW);
    let mut erasing = OrderAdmin::erase(&*store, OrderId(1), NOW, None);
    let mut creating = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.create(&new_order("F-1", NOW), WINDOW).await }
    });
    // An order is not created so late.
    tokio::select! {
        _ = &mut removing => panic!("the writer is busy"),
        _ = &mut erasing => panic!("the writer is busy"),
        created = &mut creating => assert!(created.unwrap().is_err()),
    }
    drop(release);
    assert_eq!(removing.await.unwrap(), 0);
    assert_eq!(erasing.await.unwrap(), ErasureOutcome::NotFound);
    // It has waited for too long itself.
    holding.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn abandoned_call_does_nothing() {
    let directory = tempdir().unwrap();
    let store = Arc::new(open(&directory).await);
    let (release, holding) = hold(&store).await;
    let order = new_order("F-1", NOW);
    let mut creating = store.create(&order, WINDOW);
    poll_fn(|context| Poll::Ready(creating.as_mut().poll(context).is_pending())).await;
    drop(creating);
    drop(release);
    holding.await.unwrap().unwrap();
    store.check().await.unwrap();
    assert_eq!(store.stats().await.unwrap(), QueueStats::default());
}

#[tokio::test]
async fn log_is_emptied_beside_copies() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    let (stop, stopped) = mpsc::channel::<()>();
    let copied = path(&directory);
    let copying = std::thread::spawn(move || {
        let mut other = outsider(&copied);
        while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
            other.batch_execute("PRAGMA wal_checkpoint(PASSIVE)").unwrap();
        }
    });
    for number in 0..20 {
        store.create(&new_order(&format!("F-{number}"), NOW), WINDOW).await.unwrap();
        on_writer(&store, "PRAGMA user_version = 1").await;
        // On a busy machine, a single checkpoint of the other may take seconds.
        let rewritten = rewrite_within(&path(&directory), Duration::from_mins(10));
        assert_eq!(rewritten.unwrap(), Rewrite::Done);
    }
    stop.send(()).unwrap();
    copying.join().unwrap();
}

#[tokio::test]
async fn order_is_not_replaced_by_another_program() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let replace = "CREATE TEMP TABLE changed AS SELECT * FROM main.orders;
        UPDATE changed SET status = 'SIGNED';
        REPLACE INTO main.orders SELECT * FROM changed";
    let refused = outsider(&path(&directory)).batch_execute(replace).unwrap_err().to_string();
    assert_eq!(refused, "the order exists: change it by UPDATE, not by REPLACE");
    assert_eq!(order_of(&store, OrderId(1)).await.unwrap().unwrap().status.as_str(), "NEW");
    store.create(&new_order("F-2", NOW), WINDOW).await.unwrap();
    for (replace, expected) in [
        (
            "DELETE FROM changed; INSERT INTO changed SELECT * FROM main.orders WHERE id = 1;
            UPDATE changed SET id = 9; REPLACE INTO main.orders SELECT * FROM changed",
            "another order holds the file number",
        ),
        (
            "UPDATE OR REPLACE main.orders SET file_number = 'F-1' WHERE id = 2",
            "another order has the identifier or holds the file number",
        ),
        (
            "UPDATE OR REPLACE main.orders SET id = 1 WHERE id = 2",
            "another order has the identifier or holds the file number",
        ),
    ] {
        let table = "CREATE TEMP TABLE changed AS SELECT * FROM main.orders;";
        let mut other = outsider(&path(&directory));
        let refused = other.batch_execute(&format!("{table}{replace}")).unwrap_err().to_string();
        assert_eq!(refused, expected, "{replace}");
    }
    assert_eq!(order_of(&store, OrderId(1)).await.unwrap().unwrap().id, OrderId(1));
}

/// Readers of the feed and of lists would never see it: they are behind its identifier when it appears.
#[tokio::test]
async fn identifier_below_others_is_refused() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    let mut other = outsider(&path(&directory));
    let columns = "client_id, api_key_id, signing_service_id, created_at, updated_at, is_test, status, details";
    let mut insert = |id: &str| {
        let insert = format!(
            "INSERT INTO orders (id, file_number, holds_file_number, {columns}) \
            SELECT {id}, 'F-2', 0, {columns} FROM orders WHERE id = 1"
        );
        other.batch_execute(&insert).map_err(|error| error.to_string())
    };
    insert("9").unwrap();
    insert("NULL").unwrap();
    for id in ["8", "0", "-7"] {
        let expected =
            "the identifier of an order must be above those of all others: leave the column id out";
        assert_eq!(insert(id).unwrap_err(), expected, "{id}");
    }
    store.create(&new_order("F-3", NOW), WINDOW).await.unwrap();
    assert!(order_of(&store, OrderId(11)).await.unwrap().is_some());
}

/// Foreign keys are off in other programs, unless they ask for them. The next order would get the number.
#[tokio::test]
async fn order_is_not_deleted_by_another_program() {
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    for (statement, expected) in [
        (
            "DELETE FROM orders",
            "an order is never deleted: erase it by `notary-orders orders erase`",
        ),
        ("UPDATE orders SET id = 9", "an order keeps its identifier"),
    ] {
        let mut other = outsider(&path(&directory));
        other.batch_execute("PRAGMA foreign_keys = OFF").unwrap();
        assert_eq!(other.batch_execute(statement).unwrap_err().to_string(), expected);
    }
    assert_eq!(store.create(&new_order("F-2", NOW), WINDOW).await.unwrap(), OrderId(2));
}

#[tokio::test]
async fn writing_needs_no_function_that_other_versions_refuse() {
    let directory = tempdir().unwrap();
    drop(open(&directory).await);
    // The versions 3.38 to 3.40 refuse JSON functions in triggers with `trusted_schema = OFF`. They take
    // `json_each`, which is a table.
    let written =
        "SELECT lower(sql) FROM sqlite_schema WHERE sql IS NOT NULL AND name <> 'order_details'";
    let written = sql::<Text>(written).load::<String>(&mut outsider(&path(&directory))).unwrap();
    assert!(written.len() >= 20, "{written:?}");
    let uses_json = |sql: &&String| {
        let sql = sql.replace("from json_each(", "");
        sql.contains("json_") || sql.contains("json(")
    };
    assert_eq!(written.iter().find(uses_json), None, "also in a CHECK");
    // The operator ->> came with version 3.38.
    let view = "SELECT sql FROM sqlite_schema WHERE name = 'order_details'";
    let view: String = sql::<Text>(view).get_result(&mut outsider(&path(&directory))).unwrap();
    assert!(!view.contains("->"), "{view}");
}

#[tokio::test]
async fn locked_database_is_reported_after_the_limit_of_a_call() {
    let directory = tempdir().unwrap();
    let limits = TimeLimits { call: Duration::from_millis(100), ..GENEROUS };
    let store = SqliteStore::open(&path(&directory), limits).unwrap();
    let mut other = outsider(&path(&directory));
    other.batch_execute("BEGIN IMMEDIATE").unwrap();
    // The second waits behind the first, and has a limit of its own.
    let (one, two) = tokio::join!(store.check(), store.check());
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    }
    other.batch_execute("ROLLBACK").unwrap();
}

/// Clients get their answers within three seconds.
#[test]
fn limits_of_the_service_leave_time_for_the_answer() {
    let limits = TimeLimits::default();
    assert!(limits.lock < limits.call && limits.call < Duration::from_secs(3));
}
