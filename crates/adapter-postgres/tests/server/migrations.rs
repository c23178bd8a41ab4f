//! Migrations: applied once, and never to the database of another program.

use adapter_postgres::{MigrateError, PostgresStore};
use contract_tests::samples::NOW;
use contract_tests::samples::condemned;
use domain::ports::{DeliveryQueue, OrderAdmin as _, UploadLedger as _};
use futures_util::future::join_all;
use test_servers::postgres::{Cluster, Database};
use tokio::time::timeout;

use super::{TIMEOUT, create, every_call, log_line, outsider, store, store_at};

fn open(url: &str) -> PostgresStore {
    super::open(url, 2)
}

/// Migrates, as often as other starts take longer than this one waits for them.
async fn migrate_in_turn(store: &PostgresStore) -> usize {
    loop {
        match store.migrate().await {
            Ok(applied) => return applied,
            Err(error) => {
                let message = log_line(&error);
                assert!(message.contains("lock timeout"), "{message}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_starts_migrate_once() {
    for _ in 0..5 {
        let database = Cluster::shared().database();
        let stores: Vec<_> = (0..8).map(|_| open(&database.url())).collect();
        let applied = join_all(stores.iter().map(migrate_in_turn)).await;
        let all: usize = database
            .sql(
                "SELECT (SELECT count(*) FROM __diesel_schema_migrations) \
                + (SELECT count(*) FROM later_migrations)",
            )
            .parse()
            .unwrap();
        assert_eq!(applied.iter().filter(|&&count| count == all).count(), 1);
        assert_eq!(applied.iter().sum::<usize>(), all);
        assert_eq!(stores[0].migrate().await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn current_schema_needs_no_lock() {
    let database = Cluster::shared().database();
    store_at(&database.url()).await;
    // An instance that hangs while it migrates, and orders that take hours.
    let (hung, busy) = (outsider(&database).await, outsider(&database).await);
    hung.batch_execute("SELECT pg_advisory_lock(1852797025, hashtext(current_schema()))")
        .await
        .unwrap();
    busy.batch_execute(
        "BEGIN; LOCK TABLE orders, uploads, __diesel_schema_migrations IN ROW EXCLUSIVE MODE",
    )
    .await
    .unwrap();
    let store = open(&database.url());
    assert_eq!(timeout(TIMEOUT, store.migrate()).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn database_of_another_version_is_rejected_unchanged() {
    let other = "the database is of another version of this program: it has the migration \
        20261121180000, which this version does not know; start the version that made the \
        database, or use an empty database or data directory";
    let newer = "the database is newer than this program: it has the migration 99991231235959; \
        start a version of the program that knows it";
    let added = "INSERT INTO __diesel_schema_migrations (version) VALUES ";
    for (change, expected) in [
        (format!("{added} ('20261121180000')"), other),
        (format!("{added} ('99991231235959')"), newer),
        // Even if it lacks a migration that this program has.
        (format!("DELETE FROM __diesel_schema_migrations; {added} ('99991231235959')"), newer),
    ] {
        let (store, database) = store().await;
        database.sql(&change);
        let before = database.schema();
        assert_eq!(log_line(&store.migrate().await.unwrap_err()), expected);
        assert_eq!(database.schema(), before);
    }
}

/// Version 0.1.0 starts only if its table has its migration and no other.
#[tokio::test]
async fn version_0_1_0_finds_its_own_migration_alone() {
    let (_, database) = store().await;
    let found = database.sql("SELECT version FROM __diesel_schema_migrations");
    assert_eq!(found, "20261129100000");
}

/// A newer version has migrated the database, and runs beside this one.
#[tokio::test]
async fn later_migration_that_needs_a_known_one_is_accepted() {
    let (store, database) = store().await;
    let add = |version: &str, needs: &str| {
        database.sql(&format!(
            "INSERT INTO later_migrations (version, needs) VALUES ('{version}', '{needs}')"
        ));
    };
    database.sql("ALTER TABLE orders ADD COLUMN closing_office text");
    add("99991231235958", "20261129100000");
    assert_eq!(store.migrate().await.unwrap(), 0);
    create(&store, "F-1").await.unwrap();
    add("99991231235959", "99991231235958");
    let message = log_line(&store.migrate().await.unwrap_err());
    assert!(message.contains("it has the migration 99991231235959"), "{message}");
}

#[tokio::test]
async fn database_of_another_program_is_rejected_unchanged() {
    for table in ["orders", "api_keys", "uploads"] {
        let database = Cluster::shared().database();
        database
            .sql(&format!("CREATE TABLE {table} (number integer); INSERT INTO {table} VALUES (1)"));
        let before = database.schema();
        let rejected = open(&database.url()).migrate().await.unwrap_err();
        assert_eq!(
            log_line(&rejected),
            format!(
                "the database has a table {table} of another program; use an empty database or \
                schema"
            )
        );
        assert_eq!(database.schema(), before);
    }
}

#[tokio::test]
async fn failed_migration_changes_nothing() {
    let database = Cluster::shared().database();
    database.sql("CREATE TYPE deliveries AS ENUM ('of another program')");
    let before = database.schema();
    let message = log_line(&open(&database.url()).migrate().await.unwrap_err());
    assert!(
        message.starts_with("the database could not be migrated: ")
            && message.contains("deliveries"),
        "{message}"
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
async fn other_encoding_is_rejected_unchanged() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let mut database = Cluster::shared().database();
        database.name = format!("{}_{}", database.name, encoding.to_lowercase());
        let created =
            format!("CREATE DATABASE {} ENCODING '{encoding}' TEMPLATE template0", database.name);
        Cluster::shared().sql("postgres", &created);
        let before = database.schema();
        let message = log_line(&open(&database.url()).migrate().await.unwrap_err());
        assert_eq!(message, format!("the database is encoded in {encoding}, but must be in UTF8"));
        assert_eq!(database.schema(), before);
    }
}

/// Returns a role without rights, and its URL.
fn role(database: &Database<'_>) -> (String, String) {
    let role = format!("role_of_{}", database.name);
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'one'; REVOKE ALL ON SCHEMA public FROM PUBLIC"
    ));
    let url = database.url_as(&role, "one");
    (role, url)
}

#[tokio::test]
async fn missing_right_to_create_tables_is_named() {
    let database = Cluster::shared().database();
    let (role, url) = role(&database);
    let message = log_line(&open(&url).migrate().await.unwrap_err());
    assert!(message.contains("no schema has been selected to create in"), "{message}");
    database.sql(&format!("GRANT USAGE ON SCHEMA public TO {role}"));
    let message = log_line(&open(&url).migrate().await.unwrap_err());
    assert!(message.contains("permission denied for schema public"), "{message}");
    assert!(!database.schema().contains("TABLE"));
}

/// The rights of a user that did not create the schema.
const RIGHTS: [(&str, &[&str]); 31] = [
    ("__diesel_schema_migrations", &["SELECT"]),
    ("later_migrations", &["SELECT"]),
    ("installation", &["SELECT", "INSERT", "UPDATE"]),
    ("orders", &["SELECT", "INSERT", "UPDATE"]),
    ("orders_id_seq", &["USAGE"]),
    ("order_changes", &["SELECT", "INSERT", "UPDATE"]),
    ("order_notes", &["SELECT", "INSERT", "UPDATE"]),
    ("order_feed", &["SELECT", "UPDATE", "DELETE"]),
    ("order_feed_position", &["SELECT", "UPDATE"]),
    ("order_feed_epochs", &["SELECT", "INSERT"]),
    ("signing_services", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("documents", &["SELECT", "INSERT", "DELETE"]),
    ("uploads", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("events", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("deliveries", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("webhook_endpoints", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("webhook_deliveries", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("order_recipients", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("recipient_mails", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("api_keys", &["SELECT", "INSERT", "UPDATE"]),
    ("key_events", &["SELECT", "INSERT"]),
    ("idempotency_keys", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("accesses", &["SELECT", "INSERT", "DELETE"]),
    ("access_runs", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("rejected_requests", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("people", &["SELECT", "INSERT", "UPDATE"]),
    ("invitations", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("passkeys", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("identities", &["SELECT", "INSERT", "DELETE"]),
    ("sessions", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("ceremonies", &["SELECT", "INSERT", "DELETE"]),
];

#[tokio::test]
async fn rights_to_read_and_write_are_enough() {
    let database = Cluster::shared().database();
    store_at(&database.url()).await;
    let (role, url) = role(&database);
    database.sql(&format!("GRANT USAGE ON SCHEMA public TO {role}"));
    for (table, privileges) in RIGHTS {
        database.sql(&format!("GRANT {} ON {table} TO {role}", privileges.join(", ")));
    }
    let store = open(&url);
    assert_eq!(store.migrate().await.unwrap(), 0);

    every_call(&store).await;
    let erased = create(&store, "E-0").await.unwrap();
    condemned(store.erase(erased, NOW, None).await.unwrap());
    store.condemn_recorded_before(NOW, None, 10).await.unwrap();
    DeliveryQueue::list(&store, false, 1).await.unwrap();
    DeliveryQueue::stats(&store).await.unwrap();
}

#[tokio::test]
async fn missing_right_is_named() {
    let database = Cluster::shared().database();
    store_at(&database.url()).await;
    let (role, url) = role(&database);
    database.sql(&format!(
        "GRANT USAGE ON SCHEMA public TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}; \
        GRANT USAGE ON SEQUENCE orders_id_seq TO {role}"
    ));
    let store = open(&url);
    for (lacking, privileges) in RIGHTS {
        for &needed in privileges {
            database.sql(&format!("REVOKE {needed} ON {lacking} FROM {role}"));
            let rejected = store.migrate().await.unwrap_err();
            assert!(
                matches!(
                    &rejected,
                    MigrateError::Right { table, privilege }
                        if table == lacking && privilege == needed
                ),
                "{rejected:?}"
            );
            database.sql(&format!("GRANT {needed} ON {lacking} TO {role}"));
        }
    }
    assert_eq!(store.migrate().await.unwrap(), 0);
}

fn assert_incomplete(started: &Result<usize, MigrateError>, lacking: &str, change: &str) {
    let is_named = |error: &MigrateError| matches!(error, MigrateError::Incomplete(name) if name.contains(lacking));
    assert!(started.as_ref().is_err_and(is_named), "{change}: {started:?}");
}

const FILE_NUMBERS: &str =
    "INDEX orders_file_number ON orders (file_number, is_test) WHERE holds_file_number";

#[tokio::test]
async fn start_needs_the_unique_index_of_file_numbers() {
    let (store, database) = store().await;
    database.sql("DROP INDEX orders_file_number");
    for not_enough in [
        String::new(),
        format!("CREATE {FILE_NUMBERS}"),
        format!("CREATE UNIQUE {FILE_NUMBERS} AND NOT is_test"),
        format!(
            "CREATE UNIQUE {FILE_NUMBERS}; UPDATE pg_index SET indisvalid = false \
            WHERE indexrelid = 'orders_file_number'::regclass"
        ),
    ] {
        database.sql(&not_enough);
        assert_incomplete(&store.migrate().await, "unique index", &not_enough);
        database.sql("DROP INDEX IF EXISTS orders_file_number");
    }
    database.sql(&format!("CREATE UNIQUE {FILE_NUMBERS}"));
    store.migrate().await.unwrap();
}

#[tokio::test]
async fn index_of_file_numbers_may_be_renamed_and_tuned() {
    let (store, database) = store().await;
    database.sql(
        "ALTER INDEX orders_file_number RENAME TO orders_barred; \
        ALTER INDEX orders_barred SET (fillfactor = 80)",
    );
    database.sql(&format!("ALTER DATABASE {} SET quote_all_identifiers = on", database.name));
    store_at(&database.url()).await;
    store.migrate().await.unwrap();
}

#[tokio::test]
async fn start_needs_the_sequence_of_identifiers() {
    let (store, database) = store().await;
    for (wrong, right) in [
        (
            "ALTER SEQUENCE orders_id_seq RENAME TO other; CREATE SEQUENCE orders_id_seq",
            "DROP SEQUENCE orders_id_seq; ALTER SEQUENCE other RENAME TO orders_id_seq",
        ),
        (
            "ALTER SEQUENCE orders_id_seq MINVALUE -9 INCREMENT -1",
            "ALTER SEQUENCE orders_id_seq MINVALUE 1 INCREMENT 1",
        ),
        ("ALTER SEQUENCE orders_id_seq CYCLE", "ALTER SEQUENCE orders_id_seq NO CYCLE"),
        (
            "DROP TRIGGER orders_refuse_drawn ON orders; \
            ALTER TABLE orders ALTER id DROP IDENTITY; CREATE SEQUENCE other CACHE 50; \
            CREATE SEQUENCE orders_id_seq OWNED BY orders.id; \
            ALTER TABLE orders ALTER id SET DEFAULT nextval('other')",
            "ALTER TABLE orders ALTER id DROP DEFAULT; DROP SEQUENCE orders_id_seq; \
            ALTER TABLE orders ALTER id ADD GENERATED BY DEFAULT AS IDENTITY; \
            CREATE TRIGGER orders_refuse_drawn BEFORE INSERT ON orders FOR EACH ROW \
            WHEN (NEW.id > coalesce(pg_sequence_last_value('orders_id_seq'), 0)) \
            EXECUTE FUNCTION refuse_drawn_identifier()",
        ),
    ] {
        database.sql(wrong);
        assert_incomplete(&store.migrate().await, "orders_id_seq", wrong);
        database.sql(right);
        store.migrate().await.unwrap();
    }
}

/// Most orders are refused with it, so the start says what to do, and `doctor` with it.
#[tokio::test]
async fn start_needs_a_sequence_that_draws_nothing_ahead() {
    let (store, database) = store().await;
    database.sql("ALTER SEQUENCE orders_id_seq CACHE 50");
    let refused = store.migrate().await.unwrap_err();
    assert!(matches!(refused, MigrateError::DrawsAhead(50)), "{refused:?}");
    let text = refused.to_string();
    let (_, statement) = text.split_once("; run ").unwrap();
    database.sql(statement);
    assert_eq!(store.migrate().await.unwrap(), 0);
}

#[tokio::test]
async fn start_needs_the_triggers() {
    let (store, database) = store().await;
    for (table, trigger) in [
        ("documents", "documents_adopt_uploads"),
        ("events", "events_feed"),
        ("order_changes", "order_changes_feed"),
        ("order_notes", "order_notes_feed"),
        ("orders", "orders_announce"),
        ("orders", "orders_erase_day_start"),
        ("orders", "orders_erase_old_values"),
        ("orders", "orders_feed_erasure"),
        ("orders", "orders_keep_identifier"),
        ("orders", "orders_refuse_drawn"),
        ("idempotency_keys", "idempotency_keys_in_use"),
        ("orders", "orders_name_status"),
        ("orders", "orders_record_change"),
    ] {
        let disable = format!("ALTER TABLE {table} DISABLE TRIGGER {trigger}");
        database.sql(&disable);
        assert_incomplete(&store.migrate().await, trigger, &disable);
        database.sql(&format!("ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}"));
        store.migrate().await.unwrap();
    }
}
