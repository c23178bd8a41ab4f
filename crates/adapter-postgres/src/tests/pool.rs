use std::time::Duration;

use contract_tests::samples::{NOW, WINDOW, new_order};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use domain::ports::{OrderRepo as _, StoreError};
use tokio::time::Instant;

use super::store;
use crate::failure::Failure;

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
        while store.pool.open() < connections / 2 {
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
