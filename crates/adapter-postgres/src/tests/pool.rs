use std::{sync::Arc, time::Duration};

use contract_tests::samples::{LIVE, NOW, WINDOW, new_order};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use domain::ports::{OrderRepo as _, StoreError, WriteError};
use test_servers::postgres::Database;
use tokio::{
    sync::Notify,
    task::{JoinHandle, yield_now},
    time::Instant,
};

use super::{GENEROUS, store, store_with};
use crate::{failure::Failure, limits::TimeLimits};

/// The number of sessions that wait for a lock.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity \
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

async fn a_statement_waits(database: &Database<'_>) {
    while database.sql(WAITING) != "1" {
        yield_now().await;
    }
}

/// Puts the clock forward once the calls that were just started wait.
async fn advance(time: Duration) {
    yield_now().await;
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

async fn first_step(connection: &mut AsyncPgConnection) -> Result<(), Failure> {
    let record = "INSERT INTO uploads (key, recorded_at) VALUES ('first step', now())";
    Ok(connection.batch_execute(record).await?)
}

#[tokio::test]
async fn transaction_that_does_not_end_well_is_rolled_back() {
    let (store, database) = store(1).await;
    for (number, how) in ["panics", "fails", "hangs", "is dropped"].into_iter().enumerate() {
        let has_begun = Notify::new();
        let ended = store.pool.transaction(async |connection| {
            first_step(connection).await?;
            has_begun.notify_one();
            match how {
                "panics" => panic!("on purpose"),
                "fails" => first_step(connection).await,
                _ => std::future::pending().await,
            }
        });
        let limit = async {
            has_begun.notified().await;
            advance(GENEROUS.call).await;
        };
        let error = match how {
            "is dropped" => tokio::select! {
                _ = ended => panic!("it has no end"),
                () = has_begun.notified() => None,
            },
            "hangs" => tokio::join!(ended, limit).0.err(),
            _ => ended.await.err(),
        };
        let is_unavailable =
            matches!(error.map(StoreError::from), Some(StoreError::Unavailable(_)));
        assert_eq!(is_unavailable, how == "hangs", "{how}");
        store.create(&new_order(&format!("F-{number}"), NOW), WINDOW).await.unwrap();
        assert_eq!(database.sql("SELECT count(*) FROM uploads"), "0", "{how}");
    }
}

#[tokio::test]
async fn slow_reads_do_not_hold_up_orders() {
    for connections in [2, 5] {
        let (store, _database) = store(connections).await;
        let slow: Vec<_> = (0..10)
            .map(|_| {
                let pool = store.pool.clone();
                tokio::spawn(async move {
                    pool.read(async |_| std::future::pending::<Result<(), Failure>>().await).await
                })
            })
            .collect();
        while store.pool.connections.status().size < connections / 2 {
            tokio::task::yield_now().await;
        }
        store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
        assert!(!slow.iter().any(JoinHandle::is_finished), "they hold and wait for connections");
        advance(GENEROUS.call).await;
        for read in slow {
            assert!(read.await.unwrap().is_err());
        }
    }
}

#[tokio::test]
async fn connection_of_dropped_call_is_free_once_its_statement_ends() {
    for ends in [true, false] {
        let (store, database) = store(2).await;
        let mut holder = store.server.connect().await.unwrap();
        holder.batch_execute("SELECT pg_advisory_lock(1)").await.unwrap();
        let change = store.pool.change_by_statement(LIVE.party, async |connection| {
            connection.batch_execute("SET statement_timeout = 0").await?;
            Ok(connection.batch_execute("SELECT pg_advisory_lock(1)").await?)
        });
        tokio::select! {
            _ = change => panic!("the lock is held"),
            () = a_statement_waits(&database) => {}
        }
        let other = async |connection: &mut AsyncPgConnection| {
            Ok(connection.batch_execute("SELECT 1").await?)
        };
        store.pool.run(other).await.unwrap();
        assert_eq!((&*database.sql(WAITING), store.pool.connections.status().size), ("1", 2));
        assert_eq!(store.pool.changes.used(), 1, "it still uses the server");
        if ends {
            holder.batch_execute("SELECT pg_advisory_unlock(1)").await.unwrap();
        } else {
            advance(GENEROUS.call).await;
        }
        while store.pool.changes.used() == 1 {
            yield_now().await;
        }
        assert_eq!(
            store.pool.connections.status().size,
            if ends { 2 } else { 1 },
            "a silent one is closed"
        );
    }
}

#[tokio::test]
async fn statement_of_dropped_read_is_interrupted() {
    let (store, database) = store(2).await;
    let mut holder = store.server.connect().await.unwrap();
    holder.batch_execute("SELECT pg_advisory_lock(1)").await.unwrap();
    let read = store.pool.read(async |connection| {
        Ok(connection.batch_execute("SELECT pg_advisory_lock(1)").await?)
    });
    tokio::select! {
        _ = read => panic!("the lock is held"),
        () = a_statement_waits(&database) => {}
    }
    while store.pool.reads.used() == 1 {
        yield_now().await;
    }
    assert_eq!((&*database.sql(WAITING), store.pool.connections.status().size), ("0", 1));
}

/// The only connection is busy for longer than an order waits for a batch, and then the server.
#[tokio::test]
async fn late_batch_has_its_whole_time_and_leaves_out_orders_that_waited_long() {
    let limits = TimeLimits {
        acquire: GENEROUS.call,
        batch: Duration::from_secs(900),
        call: Duration::from_secs(1_500),
        ..GENEROUS
    };
    let (store, database) = store_with(1, limits).await;
    let mut holder = store.server.connect().await.unwrap();
    let store = Arc::new(store);
    let busy = store.pool.acquire(Instant::now()).await.unwrap();
    let create = |number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.create(&new_order(number, NOW), WINDOW).await })
    };
    let early = create("early");
    advance(Duration::from_secs(780)).await;
    let late = create("late");
    advance(Duration::from_secs(180)).await;
    holder.batch_execute("BEGIN; LOCK TABLE orders").await.unwrap();
    busy.release();
    a_statement_waits(&database).await;
    let early = early.await.unwrap();
    assert!(matches!(early, Err(WriteError::Unavailable(_))), "{early:?}");
    advance(Duration::from_secs(600)).await;
    holder.batch_execute("ROLLBACK").await.unwrap();
    late.await.unwrap().unwrap();
    assert_eq!(database.sql("SELECT file_number FROM orders"), "late");
}

/// Its statements are short, but together they take longer than a call may.
#[tokio::test]
async fn slow_read_leaves_other_connections_open() {
    let limits = TimeLimits {
        statement: Duration::from_secs(2),
        call: Duration::from_millis(2_500),
        ..GENEROUS
    };
    let (store, _database) = store_with(3, limits).await;
    let other = store.pool.acquire(Instant::now()).await.unwrap();
    let slow = store.pool.read(async |connection| {
        loop {
            connection.batch_execute("SELECT pg_sleep(0.1)").await?;
        }
    });
    let (slow, ()): (Result<(), _>, _) = tokio::join!(slow, async { other.release() });
    assert!(matches!(slow, Err(Failure::Timeout)));
    assert_eq!(store.pool.connections.status().size, 1);
}
