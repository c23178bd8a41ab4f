//! A database of another version or program stops the start with one line that says what to do.

use crate::{
    service_process::{output, run, text},
    wiring::Wiring,
};

/// The table in which Diesel records the applied migrations.
const MIGRATIONS: &str = "CREATE TABLE __diesel_schema_migrations (\
     version VARCHAR(50) PRIMARY KEY, run_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);";

/// Fails to start the service, and returns the line that it prints.
fn start_error(wiring: &Wiring) -> String {
    let failed = output(wiring, &[]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let error = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("error: --database-url (DATABASE_URL): "), "{error}");
    assert!(error.contains("; "), "no advice: {error}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_database_stops_the_start() {
    let wiring = Wiring::new();
    run(&wiring, &["migrate"]);
    let insert = "INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231235959')";
    text(wiring.execute(insert));
    let error = start_error(&wiring);
    assert!(error.contains("is newer than this program"), "{error}");
    assert!(error.contains("99991231235959"), "{error}");
}

/// Before its first release, the service had other migrations.
#[tokio::test(flavor = "multi_thread")]
async fn database_of_earlier_schema_stops_the_start() {
    let wiring = Wiring::new();
    text(wiring.execute(&format!(
        "{MIGRATIONS} INSERT INTO __diesel_schema_migrations (version) \
             VALUES ('20261121000000'), ('20261121180000'); \
             CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (1);"
    )));
    let error = start_error(&wiring);
    assert!(error.contains("20261121"), "{error}");
    assert_eq!((wiring.rows("orders"), wiring.rows("__diesel_schema_migrations")), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn database_of_other_program_stops_the_start() {
    let wiring = Wiring::new();
    let tables = "CREATE TABLE orders (number INTEGER); INSERT INTO orders VALUES (1), (2), (3);";
    text(wiring.execute(tables));
    let error = start_error(&wiring);
    assert!(error.contains("orders"), "{error}");
    assert_eq!(wiring.rows("orders"), 3);
}
