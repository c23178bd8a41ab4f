//! A database of another version or program stops the start with one line that says what to do.

use crate::{
    harness::service_process::{output, run},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    other_database_stops_the_start_and_stays,
}

/// The table in which Diesel records the applied migrations.
const MIGRATIONS: &str = "CREATE TABLE __diesel_schema_migrations (\
     version VARCHAR(50) PRIMARY KEY, run_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);";

/// Fails to start the service, and returns the line that it prints.
fn start_error(wiring: &Wiring) -> String {
    let failed = output(wiring, &[]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let error = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(error.lines().count(), 1, "{error}");
    let names = ["--database-url (DATABASE_URL): ", "the database in the data directory: "];
    assert!(names.iter().any(|name| error.starts_with(&format!("error: {name}"))), "{error}");
    assert!(error.contains("; "), "no advice: {error}");
    error
}

async fn other_database_stops_the_start_and_stays(kind: Kind) {
    // Before its first release, the service had other migrations.
    let earlier = format!(
        "{MIGRATIONS} INSERT INTO __diesel_schema_migrations (version) \
             VALUES ('20261121000000'), ('20261121180000'); \
             CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (1);"
    );
    let newer = "INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231235959')";
    let foreign = "CREATE TABLE orders (number INTEGER); INSERT INTO orders VALUES (1), (2), (3);";
    for (is_migrated, statements, named, orders) in [
        (true, newer, "is newer than this program: it has the migration 99991231235959", 0),
        (false, &earlier, "20261121", 1),
        (false, foreign, "orders", 3),
    ] {
        let wiring = kind.wiring_without_tables();
        if is_migrated {
            run(&wiring, &["migrate"]);
        }
        wiring.execute(statements).unwrap();
        let error = start_error(&wiring);
        assert!(error.contains(named), "{error}");
        assert_eq!(wiring.rows("orders"), orders, "{error}");
    }
}
