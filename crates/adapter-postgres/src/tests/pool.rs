use std::time::Duration;

use contract_tests::samples::{NOW, WINDOW, new_order};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use domain::ports::{OrderRepo as _, StoreError, UploadLedger as _};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::time::Instant;

use super::store;
use crate::failure::Failure;

const FIRST_STEP: &str = "INSERT INTO uploads (key, recorded_at) VALUES ('first step', now())";

fn panic_after_first_step(
    connection: &mut AsyncPgConnection,
) -> BoxFuture<'_, Result<(), Failure>> {
    connection
        .transaction(async |connection| {
            connection.batch_execute(FIRST_STEP).await?;
            panic!("on purpose")
        })
        .boxed()
}

#[tokio::test]
async fn panic_ends_its_own_call_only() {
    let (store, _database) = store(1).await;
    for round in 0..3 {
        let lost = store.pool.run(panic_after_first_step).await.unwrap_err();
        assert!(matches!(StoreError::from(lost), StoreError::Internal(_)));
        let lost = store
            .pool
            .run(|_| -> BoxFuture<'_, Result<(), Failure>> { panic!("before the first step") })
            .await
            .unwrap_err();
        assert!(matches!(StoreError::from(lost), StoreError::Internal(_)));
        store.create(&new_order(&format!("F-{round}"), NOW), WINDOW).await.unwrap();
    }
    assert_eq!(
        store.condemn_recorded_before(NOW, 10).await.unwrap(),
        [],
        "the transaction was rolled back"
    );
}

#[tokio::test]
async fn timeout_rolls_back() {
    let (store, database) = store(1).await;
    let began = Instant::now();
    let late = store.pool.run(|connection| {
        connection
            .transaction(async |connection| {
                connection.batch_execute(FIRST_STEP).await?;
                std::future::pending::<Result<(), Failure>>().await
            })
            .boxed()
    });
    assert!(matches!(StoreError::from(late.await.unwrap_err()), StoreError::Unavailable(_)));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    assert_eq!(database.sql("SELECT count(*) FROM uploads"), "0");
}

#[tokio::test]
async fn connection_works_after_failed_transaction() {
    let (store, database) = store(1).await;
    let failed = store.pool.run(|connection| {
        connection
            .transaction(async |connection| {
                connection.batch_execute(FIRST_STEP).await?;
                Ok::<(), Failure>(connection.batch_execute(FIRST_STEP).await?)
            })
            .boxed()
    });
    assert!(matches!(StoreError::from(failed.await.unwrap_err()), StoreError::Internal(_)));
    store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    assert_eq!(database.sql("SELECT count(*) FROM uploads"), "0");
}

fn endless(_: &mut AsyncPgConnection) -> BoxFuture<'_, Result<(), Failure>> {
    std::future::pending().boxed()
}

#[tokio::test]
async fn slow_reads_do_not_hold_up_orders() {
    for connections in [2, 5] {
        let (store, _database) = store(connections).await;
        let slow: Vec<_> = (0..10)
            .map(|_| {
                let pool = store.pool.clone();
                tokio::spawn(async move { pool.read(endless).await })
            })
            .collect();
        while store.pool.open() < connections / 2 {
            tokio::task::yield_now().await;
        }
        let began = Instant::now();
        store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        for read in slow {
            assert!(matches!(read.await.unwrap(), Err(Failure::Timeout)));
        }
    }
}
