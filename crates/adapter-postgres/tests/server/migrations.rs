//! The schema: made once, by whoever comes first, and never made of what is somebody else's.

use adapter_postgres::{MigrateError, PostgresStore};
use contract_tests::samples::{
    NOW, WINDOW, api_key, attempt, document, idempotency_key, new_order,
};
use domain::{
    idempotency::Remembrance,
    ports::{
        ApiKeyRepo, DeliveryQueue, IdempotencyLedger as _, NewOrder, OrderRepo, Settlement,
        UploadLedger as _,
    },
};
use futures_util::future::join_all;
use test_servers::postgres::{Cluster, Database};
use time::Duration;
use tokio::time::timeout;

use super::{PATIENCE, create, not_created, one_line, outsider, store_at};

fn open(url: &str) -> PostgresStore {
    PostgresStore::open(url, 2).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_migrate_at_once_migrate_once() {
    for _ in 0..5 {
        let database = Cluster::shared().database();
        let stores: Vec<_> = (0..8).map(|_| open(&database.url())).collect();
        let applied: Vec<usize> = join_all(stores.iter().map(PostgresStore::migrate))
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let known: usize =
            database.sql("SELECT count(*) FROM __diesel_schema_migrations").parse().unwrap();
        assert_eq!(applied.iter().filter(|&&count| count == known).count(), 1);
        assert_eq!(applied.iter().sum::<usize>(), known);
        assert_eq!(stores[0].migrate().await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_finds_the_schema_up_to_date_waits_for_nobody() {
    let database = Cluster::shared().database();
    store_at(&database.url()).await;
    // Another that hangs while it migrates, or orders that are placed for hours.
    let (hung, busy) = (outsider(&database).await, outsider(&database).await);
    hung.batch_execute("SELECT pg_advisory_lock(7957707180310490994)").await.unwrap();
    busy.batch_execute(
        "BEGIN; LOCK TABLE orders, uploads, __diesel_schema_migrations IN ROW EXCLUSIVE MODE",
    )
    .await
    .unwrap();
    let store = open(&database.url());
    assert_eq!(timeout(PATIENCE, store.migrate()).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_refused_and_left_alone() {
    let database = Cluster::shared().database();
    store_at(&database.url()).await;
    database.sql("INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231235959')");
    let before = database.schema();
    let refused = open(&database.url()).migrate().await.unwrap_err();
    assert!(
        matches!(&refused, MigrateError::Newer(version) if version == "99991231235959"),
        "{refused}"
    );
    // Even if it lacks one that this program has.
    database.sql("DELETE FROM __diesel_schema_migrations WHERE version <> '99991231235959'");
    assert!(matches!(open(&database.url()).migrate().await, Err(MigrateError::Newer(_))));
    assert_eq!(database.schema(), before);
}

#[tokio::test]
async fn a_database_that_another_program_uses_is_refused_and_left_alone() {
    for table in ["orders", "api_keys", "uploads"] {
        let database = Cluster::shared().database();
        database
            .sql(&format!("CREATE TABLE {table} (number integer); INSERT INTO {table} VALUES (1)"));
        let before = database.schema();
        let refused = open(&database.url()).migrate().await.unwrap_err();
        assert_eq!(
            one_line(&refused),
            format!(
                "the database has a table {table} that is not this program's; give it a database or a schema of its own"
            )
        );
        assert_eq!(database.schema(), before);
    }
}

#[tokio::test]
async fn a_migration_that_fails_changes_nothing() {
    let database = Cluster::shared().database();
    database.sql("CREATE TYPE deliveries AS ENUM ('of another program')");
    let before = database.schema();
    let told = one_line(&open(&database.url()).migrate().await.unwrap_err());
    assert!(
        told.starts_with("the database could not be migrated: ") && told.contains("deliveries"),
        "{told}"
    );
    let table = "CREATE TABLE public.__diesel_schema_migrations";
    assert!(
        !before.contains("CREATE TABLE")
            && database.schema().matches("CREATE TABLE").count()
                == database.schema().matches(table).count()
    );
    assert_eq!(database.sql("SELECT count(*) FROM pg_proc WHERE proname = 'adopt_upload'"), "0");
}

#[tokio::test]
async fn a_database_in_another_encoding_is_refused_and_left_alone() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let mut database = Cluster::shared().database();
        database.name = format!("{}_{}", database.name, encoding.to_lowercase());
        let created =
            format!("CREATE DATABASE {} ENCODING '{encoding}' TEMPLATE template0", database.name);
        Cluster::shared().sql("postgres", &created);
        let before = database.schema();
        let told = one_line(&open(&database.url()).migrate().await.unwrap_err());
        assert_eq!(told, format!("the database is encoded in {encoding}, and must be in UTF8"));
        assert_eq!(database.schema(), before);
    }
}

/// A role that may do nothing yet, and the URL with which it comes.
fn role(database: &Database<'_>) -> (String, String) {
    let role = format!("role_of_{}", database.name);
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'one'; REVOKE ALL ON SCHEMA public FROM PUBLIC"
    ));
    let url = database.url_as(&role, "one");
    (role, url)
}

#[tokio::test]
async fn a_user_who_may_not_make_tables_is_told_what_is_missing() {
    let database = Cluster::shared().database();
    let (role, url) = role(&database);
    let told = one_line(&open(&url).migrate().await.unwrap_err());
    assert!(told.contains("no schema has been selected to create in"), "{told}");
    database.sql(&format!("GRANT USAGE ON SCHEMA public TO {role}"));
    let told = one_line(&open(&url).migrate().await.unwrap_err());
    assert!(told.contains("permission denied for schema public"), "{told}");
    assert!(!database.schema().contains("TABLE"));
}

/// What a user needs who serves a schema that another has made.
const RIGHTS: [(&str, &[&str]); 8] = [
    ("__diesel_schema_migrations", &["SELECT"]),
    ("orders", &["SELECT", "INSERT", "UPDATE"]),
    ("documents", &["SELECT", "INSERT"]),
    ("uploads", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("deliveries", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("api_keys", &["SELECT", "INSERT", "UPDATE"]),
    ("key_events", &["SELECT", "INSERT"]),
    ("idempotency_keys", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
];

#[tokio::test]
async fn a_user_who_may_only_read_and_write_serves_a_schema_that_is_there() {
    let database = Cluster::shared().database();
    store_at(&database.url()).await;
    let (role, url) = role(&database);
    database.sql(&format!("GRANT USAGE ON SCHEMA public TO {role}"));
    for (table, privileges) in RIGHTS {
        database.sql(&format!("GRANT {} ON {table} TO {role}", privileges.join(", ")));
    }
    let store = open(&url);
    assert_eq!(store.migrate().await.unwrap(), 0);

    // Every statement that there is.
    let (one, two) = (document(), document());
    store.check().await.unwrap();
    store.record(&[one.key.clone(), two.key.clone()], NOW).await.unwrap();
    let order = store
        .create(&NewOrder { documents: vec![one], ..new_order("F-1", NOW) }, WINDOW)
        .await
        .unwrap();
    create(&store, "F-1").await.unwrap_err();
    OrderRepo::find(&store, order).await.unwrap().unwrap();
    store.condemn(std::slice::from_ref(&two.key)).await.unwrap();
    store.condemn_recorded_before(NOW, 10).await.unwrap();
    store.forget(&[two.key]).await.unwrap();
    let key = api_key(NOW);
    let id = store.add_first(&key, "jane").await.unwrap().unwrap();
    store.add(&api_key(NOW), "jane").await.unwrap();
    ApiKeyRepo::find(&store, &key.lookup).await.unwrap().unwrap();
    store.rotate(id, &api_key(NOW), NOW, "jane").await.unwrap().unwrap();
    store.revoke(id, NOW, "jane").await.unwrap();
    store.note_uses(&[(id, NOW)]).await.unwrap();
    store.trail().await.unwrap();
    let attempt = attempt(&idempotency_key(1, "key"), 7);
    store.claim(&attempt.claim, NOW, NOW + Duration::MINUTE).await.unwrap();
    store.release(&attempt.claim).await.unwrap();
    let remembrance = Some(Remembrance { attempt, kept_until: NOW });
    let test = NewOrder { is_test: true, deliveries: vec![], remembrance, ..new_order("F-2", NOW) };
    store.create(&test, WINDOW).await.unwrap();
    store.create(&NewOrder { created_at: NOW + Duration::HOUR, ..test }, WINDOW).await.unwrap();
    store.forget_free(None, NOW + Duration::DAY, 10).await.unwrap().unwrap();
    ApiKeyRepo::list(&store).await.unwrap();
    let lease = &store.lease(NOW, Duration::MINUTE, 1).await.unwrap()[0];
    DeliveryQueue::list(&store, false, 1).await.unwrap();
    store.stats().await.unwrap();
    store.retry(lease.delivery.id, NOW).await.unwrap();
    assert!(store.settle(lease.delivery.id, lease.token, &Settlement::Done).await.unwrap());
}

#[tokio::test]
async fn a_user_who_lacks_a_right_is_told_which() {
    let database = Cluster::shared().database();
    store_at(&database.url()).await;
    let (role, url) = role(&database);
    database.sql(&format!(
        "GRANT USAGE ON SCHEMA public TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}"
    ));
    let store = open(&url);
    for (lacking, privileges) in RIGHTS {
        for &needed in privileges {
            database.sql(&format!("REVOKE {needed} ON {lacking} FROM {role}"));
            let refused = store.migrate().await.unwrap_err();
            assert!(
                matches!(&refused, MigrateError::Right { table, privilege } if table == lacking && privilege == needed),
                "{refused:?}"
            );
            database.sql(&format!("GRANT {needed} ON {lacking} TO {role}"));
        }
    }
    assert_eq!(store.migrate().await.unwrap(), 0);
    // A right that is taken away while the service runs, and given back.
    database.sql(&format!("REVOKE INSERT ON orders FROM {role}"));
    not_created(create(&store, "F-1").await);
    database.sql(&format!("GRANT INSERT ON orders TO {role}"));
    create(&store, "F-1").await.unwrap();
}
