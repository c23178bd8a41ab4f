use diesel_async::AsyncMigrationHarness;
use diesel_migrations::MigrationHarness as _;

use super::store;
use crate::migrations::MIGRATIONS;

#[tokio::test]
async fn every_migration_can_be_taken_back_and_applied_again() {
    let (store, database) = store(1).await;
    let before = database.schema();
    let mut harness = AsyncMigrationHarness::new(store.server.connect_unlimited().await.unwrap());
    let reverted = tokio::task::spawn_blocking(move || {
        harness.revert_all_migrations(MIGRATIONS).unwrap().len()
    });
    assert!(reverted.await.unwrap() > 0);
    let left = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind <> 'i'
        UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        UNION ALL SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typtype <> 'c' AND typcategory <> 'A'";
    assert_eq!(database.sql(left), "__diesel_schema_migrations");
    assert!(store.migrate().await.unwrap() > 0);
    assert_eq!(database.schema(), before);
}

#[tokio::test]
async fn each_migration_can_be_taken_back_by_itself() {
    let (store, database) = store(1).await;
    let mut schemas = vec![database.schema()];
    let count: usize =
        database.sql("SELECT count(*) FROM __diesel_schema_migrations").parse().unwrap();
    let mut harness = AsyncMigrationHarness::new(store.server.connect_unlimited().await.unwrap());
    for _ in 0..count {
        harness = tokio::task::spawn_blocking(move || {
            harness.revert_last_migration(MIGRATIONS).unwrap();
            harness
        })
        .await
        .unwrap();
        schemas.push(database.schema());
    }
    while let Some(expected) = schemas.pop() {
        assert_eq!(database.schema(), expected);
        if !schemas.is_empty() {
            harness = tokio::task::spawn_blocking(move || {
                harness.run_next_migration(MIGRATIONS).unwrap();
                harness
            })
            .await
            .unwrap();
        }
    }
}
