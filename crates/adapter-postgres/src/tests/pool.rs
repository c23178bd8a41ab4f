use std::{sync::Arc, time::Duration};

use contract_tests::samples::{NOW, WINDOW, new_order};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use domain::ports::{OrderRepo as _, StoreError, WriteError};
use test_servers::postgres::Database;
use tokio::{task::yield_now, time::Instant};

use super::store;
use crate::{failure::Failure, pool::CALL_TIMEOUT};

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
        let began = Instant::now();
        let ended = store.pool.transaction(async |connection| {
            first_step(connection).await?;
            match how {
                "panics" => panic!("on purpose"),
                "fails" => first_step(connection).await,
                _ => std::future::pending().await,
            }
        });
        if how == "is dropped" {
            let first_step_is_done = Duration::from_millis(200);
            assert!(tokio::time::timeout(first_step_is_done, ended).await.is_err());
        } else {
            let error = StoreError::from(ended.await.unwrap_err());
            assert_eq!(matches!(error, StoreError::Unavailable(_)), how == "hangs", "{error:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(3), "{how}: {:?}", began.elapsed());
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
        let began = Instant::now();
        store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
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
        let read = store.pool.read(async |connection| {
            connection.batch_execute("SET statement_timeout = 0").await?;
            Ok(connection.batch_execute("SELECT pg_advisory_lock(1)").await?)
        });
        tokio::select! {
            _ = read => panic!("the lock is held"),
            () = a_statement_waits(&database) => {}
        }
        let other = async |connection: &mut AsyncPgConnection| {
            Ok(connection.batch_execute("SELECT 1").await?)
        };
        store.pool.run(other).await.unwrap();
        assert_eq!((&*database.sql(WAITING), store.pool.connections.status().size), ("1", 2));
        assert_eq!(store.pool.reads.available_permits(), 0, "the read still uses the server");
        if ends {
            holder.batch_execute("SELECT pg_advisory_unlock(1)").await.unwrap();
        } else {
            advance(CALL_TIMEOUT).await;
        }
        while store.pool.reads.available_permits() == 0 {
            yield_now().await;
        }
        assert_eq!(
            store.pool.connections.status().size,
            if ends { 2 } else { 1 },
            "a silent one is closed"
        );
    }
}

/// The only connection is busy for 1.6 s, and then the server for another second.
#[tokio::test]
async fn late_batch_has_its_whole_time_and_leaves_out_orders_that_waited_long() {
    let (store, database) = store(1).await;
    let mut holder = store.server.connect().await.unwrap();
    let store = Arc::new(store);
    let busy = store.pool.acquire(Instant::now()).await.unwrap();
    let create = |number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.create(&new_order(number, NOW), WINDOW).await })
    };
    let early = create("early");
    advance(Duration::from_millis(1_300)).await;
    let late = create("late");
    advance(Duration::from_millis(300)).await;
    holder.batch_execute("BEGIN; LOCK TABLE orders").await.unwrap();
    busy.release();
    a_statement_waits(&database).await;
    let early = early.await.unwrap();
    assert!(matches!(early, Err(WriteError::Unavailable(_))), "{early:?}");
    advance(Duration::from_secs(1)).await;
    holder.batch_execute("ROLLBACK").await.unwrap();
    late.await.unwrap().unwrap();
    assert_eq!(database.sql("SELECT file_number FROM orders"), "late");
}

/// Its statements are short, but together they take longer than a statement may.
#[tokio::test]
async fn slow_read_leaves_other_connections_open() {
    let (store, _database) = store(3).await;
    let other = store.pool.acquire(Instant::now()).await.unwrap();
    let slow = store.pool.read(async |connection| {
        for _ in 0..3 {
            connection.batch_execute("SELECT pg_sleep(1)").await?;
        }
        Ok(())
    });
    let (slow, ()) = tokio::join!(slow, async { other.release() });
    assert!(matches!(slow, Err(Failure::Timeout)));
    assert_eq!(store.pool.connections.status().size, 1);
}
