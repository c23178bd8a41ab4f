use diesel_async::AsyncMigrationHarness;
use diesel_migrations::MigrationHarness as _;

use super::store;
use crate::migrations::MIGRATIONS;

#[tokio::test]
async fn migrations_can_be_reverted_and_applied_again() {
    let (store, database) = store(1).await;
    let before = database.schema();
    let mut harness = AsyncMigrationHarness::new(store.server.connect_unlimited().await.unwrap());
    let reverted = tokio::task::spawn_blocking(move || {
        harness.revert_all_migrations(MIGRATIONS).unwrap().len()
    });
    assert!(reverted.await.unwrap() > 0);
    let left = "SELECT relname FROM pg_class \
            WHERE relnamespace = 'public'::regnamespace AND relkind <> 'i' \
        UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace \
        UNION ALL SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace \
            AND typtype <> 'c' AND typcategory <> 'A'";
    assert_eq!(database.sql(left), "__diesel_schema_migrations");
    assert!(store.migrate().await.unwrap() > 0);
    assert_eq!(database.schema(), before);
}
