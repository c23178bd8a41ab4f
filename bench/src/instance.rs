//! A service with a database of its own, and what that holds.

use std::path::Path;

use diesel::{
    Connection as _, RunQueryDsl as _, SqliteConnection, connection::SimpleConnection as _,
    dsl::sql, sql_types::BigInt,
};
use test_servers::postgres::{Cluster, Database};

use crate::service::Site;

/// Where a service keeps its orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wiring {
    Postgres,
    Sqlite,
}

impl Wiring {
    pub const ALL: [Self; 2] = [Self::Postgres, Self::Sqlite];

    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Sqlite => "SQLite",
        }
    }
}

/// PostgreSQL with durable commits, and without TLS, which is no part of what is compared.
pub const CLUSTER_SETTINGS: [&str; 7] = [
    "fsync = on",
    "synchronous_commit = on",
    "full_page_writes = on",
    "ssl = off",
    "shared_buffers = 1GB",
    "max_wal_size = 4GB",
    "max_connections = 200",
];

/// A cluster with [`CLUSTER_SETTINGS`].
pub fn cluster() -> Cluster {
    Cluster::start(&CLUSTER_SETTINGS)
}

/// A database with the service's schema that is removed when it is dropped, and a place to run the
/// service on it.
pub struct Instance<'a> {
    pub site: Site,
    pub database: Option<Database<'a>>,
}

impl<'a> Instance<'a> {
    pub fn new(binary: &Path, wiring: Wiring, cluster: &'a Cluster) -> Self {
        let database = (wiring == Wiring::Postgres).then(|| cluster.database());
        let site = Site::new(binary, database.as_ref().map(Database::url));
        site.migrate();
        Self { site, database }
    }

    /// Leaves what it holds until all is measured: the database to its cluster, and the rest to
    /// [`clear_up`](crate::service::clear_up).
    pub fn put_aside(mut self) {
        self.site.put_aside();
        self.database = None;
    }

    /// Rows of a table.
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

    /// # Panics
    /// If the database does not hold the orders that were acknowledged, and no others.
    pub fn assert_orders(&self, acknowledged: u64) {
        let rows = self.rows("orders");
        assert_eq!(rows, acknowledged, "rows of orders, and orders acknowledged");
    }

    /// Runs statements.
    pub fn execute(&self, statements: &str) {
        match &self.database {
            // Each by itself: some of them must not be part of a transaction.
            Some(database) => statements
                .split(";\n")
                .filter(|statement| !statement.trim().is_empty())
                .for_each(|statement| {
                    database.sql(statement);
                }),
            None => self.sqlite().batch_execute(statements).unwrap(),
        }
    }

    fn sqlite(&self) -> SqliteConnection {
        let mut connection = SqliteConnection::establish(
            self.site.data().join("notary-orders.sqlite").to_str().unwrap(),
        )
        .unwrap();
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

/// Nothing that one contestant left to be written is written while the next is measured.
pub fn flush(cluster: &Cluster) {
    cluster.sql("postgres", "CHECKPOINT");
    assert!(std::process::Command::new("sync").status().unwrap().success());
}
