//! An installation of the service with a separate database.

use std::path::Path;

use clap::ValueEnum;
use diesel::{
    Connection as _, RunQueryDsl as _, SqliteConnection, connection::SimpleConnection as _,
    dsl::sql, sql_types::BigInt,
};
use test_servers::postgres::{Cluster, Database};

use crate::service::Installation;

/// The database of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    Postgres,
    Sqlite,
}

impl Backend {
    pub const ALL: [Self; 2] = [Self::Postgres, Self::Sqlite];

    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Sqlite => "SQLite",
        }
    }
}

/// Durable commits, and no TLS, which the comparison does not include.
pub const CLUSTER_SETTINGS: [&str; 7] = [
    "fsync = on",
    "synchronous_commit = on",
    "full_page_writes = on",
    "ssl = off",
    "shared_buffers = 1GB",
    "max_wal_size = 4GB",
    "max_connections = 200",
];

/// Starts a cluster with [`CLUSTER_SETTINGS`].
pub fn cluster() -> Cluster {
    Cluster::start(&CLUSTER_SETTINGS)
}

/// A database with the service's schema, and an installation that uses it. Dropping it removes the
/// database.
pub struct Instance<'a> {
    pub installation: Installation,
    pub database: Option<Database<'a>>,
}

impl<'a> Instance<'a> {
    pub fn new(binary: &Path, backend: Backend, cluster: &'a Cluster) -> Self {
        let database = (backend == Backend::Postgres).then(|| cluster.database());
        let installation = Installation::new(binary, database.as_ref().map(Database::url));
        installation.migrate();
        Self { installation, database }
    }

    /// Counts the rows of a table.
    pub fn rows(&self, table: &str) -> u64 {
        let count: i64 = match &self.database {
            Some(database) => {
                database.sql(&format!("SELECT count(*) FROM {table}")).parse().unwrap()
            }
            None => sql::<BigInt>(&format!("SELECT count(*) FROM {table}"))
                .get_result(&mut self.sqlite())
                .unwrap(),
        };
        count.try_into().unwrap()
    }

    /// Checks that the database contains as many orders as were acknowledged.
    ///
    /// # Panics
    /// If it does not.
    pub fn assert_orders(&self, acknowledged: u64) {
        let rows = self.rows("orders");
        assert_eq!(rows, acknowledged, "rows of orders, and acknowledged orders");
    }

    /// Runs statements.
    pub fn execute(&self, statements: &str) {
        match &self.database {
            // Separately, because VACUUM does not run in a transaction.
            Some(database) => statements
                .split(";\n")
                .filter(|statement| !statement.trim().is_empty())
                .for_each(|statement| {
                    database.sql(statement);
                }),
            None => self.sqlite().batch_execute(statements).unwrap(),
        }
    }

    /// Returns the URL of the database, or the file of SQLite.
    pub fn url(&self) -> String {
        let file = || self.installation.data().join("notary-orders.sqlite").display().to_string();
        self.database.as_ref().map_or_else(file, Database::url)
    }

    fn sqlite(&self) -> SqliteConnection {
        let mut connection = SqliteConnection::establish(&self.url()).unwrap();
        connection.batch_execute("PRAGMA busy_timeout = 30000").unwrap();
        connection
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        if let Some(database) = &self.database {
            database
                .cluster
                .sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", database.name));
        }
    }
}

/// Flushes all pending writes, so that they do not slow down the next candidate.
pub fn flush(cluster: &Cluster) {
    cluster.sql("postgres", "CHECKPOINT");
    assert!(std::process::Command::new("sync").status().unwrap().success());
}
