//! A plain schema, which is not the service's: a claim, an order of a few columns and one outbox
//! row in one prepared statement. `pgbench` and the Fastify service share it.

use test_servers::postgres::{Cluster, Database};

use crate::pgbench::{Outcome, Pgbench};

const SCHEMA: &str = include_str!("../../peers/schema.sql");
/// The statement of one order. Its parameters are the file number, the signer and the address.
pub const ORDER: &str = include_str!("../../peers/order.sql");

/// Creates a database with the plain schema. It stays until the cluster ends.
pub fn database(cluster: &Cluster) -> Database<'_> {
    let database = cluster.database();
    database.sql(SCHEMA);
    database
}

/// Returns the script of one order. File numbers are random.
fn script() -> String {
    let statement = ORDER
        .replace("$1", "'F-' || :number::text")
        .replace("$2", "'Jane Doe'")
        .replace("$3", "'123 Main St, Dallas, TX 75201'");
    format!("\\set number random(1000000000000000, 9007199254740991)\n{statement}")
}

/// Runs `pgbench` on a database with the plain schema.
pub fn run(pgbench: Pgbench, database: &Database<'_>) -> Outcome {
    pgbench.run_script(database, &script())
}

/// Checks that there are as many orders, claims and outbox rows as acknowledged orders.
///
/// # Panics
/// If there are not.
pub fn assert_orders(database: &Database<'_>, acknowledged: u64) {
    for table in ["orders", "claims", "outbox"] {
        let rows = database.sql(&format!("SELECT count(*) FROM {table}"));
        assert_eq!(rows, acknowledged.to_string(), "rows of {table}, and acknowledged orders");
    }
}
