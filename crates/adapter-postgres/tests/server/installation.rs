//! The identity of a database: a standby is no copy, everything else is.

use std::process::Command;

use domain::{installation::Installation, ports::InstallationRepo as _};
use test_servers::postgres::{Cluster, program};

use super::{open, store_at};

async fn identity(url: &str) -> String {
    open(url, 1).database_identity().await.unwrap()
}

/// Runs a program of PostgreSQL, and returns its output.
fn run(name: &str, arguments: &[&str], input: Option<&std::path::Path>) -> Vec<u8> {
    let mut command = Command::new(program(name));
    command.args(arguments).args(input);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[tokio::test]
async fn restored_database_is_another_one() {
    let database = Cluster::shared().database();
    store_at(&database.url()).await;
    let expected = identity(&database.url()).await;
    assert_eq!(identity(&database.url()).await, expected);

    let dump = tempfile::NamedTempFile::new().unwrap();
    let written = run("pg_dump", &["--format=custom", &database.url()], None);
    std::fs::write(dump.path(), written).unwrap();
    let beside = Cluster::shared().database();
    run("pg_restore", &["--exit-on-error", "--dbname", &beside.url()], Some(dump.path()));
    assert_ne!(identity(&beside.url()).await, expected);
    // A copy of its files has the same tables.
    assert_ne!(identity(&database.copy().url()).await, expected);
    // In the place of the original.
    let again = ["--clean", "--exit-on-error", "--dbname", &database.url()];
    run("pg_restore", &again, Some(dump.path()));
    assert_ne!(identity(&database.url()).await, expected);
}

#[tokio::test]
async fn promoted_standby_is_the_same_database() {
    let primary = Cluster::start(&[]);
    primary.sql("postgres", "CREATE DATABASE orders");
    store_at(&primary.url("orders")).await;
    let expected = identity(&primary.url("orders")).await;
    let standby = primary.standby();
    standby.promote();
    assert_eq!(identity(&standby.url("orders")).await, expected);
}

/// The second cluster has the same numbers of databases and tables as the first.
#[tokio::test]
async fn database_of_another_cluster_is_another_one() {
    let mut identities = Vec::new();
    for _ in 0..2 {
        let cluster = Cluster::start(&[]);
        cluster.sql("postgres", "CREATE DATABASE orders");
        store_at(&cluster.url("orders")).await;
        identities.push(identity(&cluster.url("orders")).await);
    }
    assert_ne!(identities[0], identities[1]);
    let numbers = |identity: &str| identity.rsplit(' ').next().unwrap().to_owned();
    assert_eq!(numbers(&identities[0]), numbers(&identities[1]));
}

/// A compatible engine may not identify its cluster.
#[tokio::test]
async fn right_to_read_the_cluster_is_not_needed() {
    let database = Cluster::shared().database();
    store_at(&database.url()).await;
    let role = format!("role_of_{}", database.name);
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'one'; \
        REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC"
    ));
    let found = identity(&database.url_as(&role, "one")).await;
    assert!(found.starts_with("PostgreSQL cluster unknown, database and table "), "{found}");
}

#[tokio::test]
async fn imported_rows_are_those_of_another_installation() {
    let database = Cluster::shared().database();
    let store = store_at(&database.url()).await;
    let database = store.database_identity().await.unwrap();
    let here = Installation { database, documents: "a bucket".to_owned() };
    assert_eq!(store.record_first(&here).await.unwrap(), here);
    let import = store.begin_import().await.unwrap();
    import.commit(&std::collections::BTreeMap::new()).await.unwrap();
    assert_ne!(store.record_first(&here).await.unwrap(), here);
}
