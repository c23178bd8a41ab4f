//! PostgreSQL alone: `pgbench` runs a prepared statement on the service's own schema. For orders it
//! does the durable work of one order.

use std::{fs, path::Path, process::Command, time::Duration};

use test_servers::postgres::{Database, PASSWORD, SUPERUSER, program};

use crate::{instance::Instance, latency::Latencies, process::children_cpu_seconds};

/// Columns of the benchmark's order. The caller supplies the file number and the first two
/// instants.
pub const ORDER_COLUMNS: &str = "file_number, created_at, updated_at, client_id, api_key_id, \
     signing_service_id, status, is_test, holds_file_number, starts_at, details";

/// Values of the columns from `client_id` on. `details` is the record that the service stores for
/// [`ORDER`](crate::request::ORDER).
pub const ORDER_VALUES: &str = "1, 1, 42, 'NEW', false, true, '2026-12-01 20:30Z', \
     '{\"v\":1,\"date\":\"2026-12-01\",\"zone\":\"America/Chicago\",\"at\":\"14:30\",\
     \"email\":\"escrow@title.example.com\",\"property\":{\
     \"address\":\"123 Main St, Dallas, TX 75201\",\"city\":\"Dallas\",\
     \"state\":\"TX\",\"zip\":\"75201\"},\"type\":\"Refinance\",\"signer\":{\
     \"name\":\"Jane Doe\",\"phone\":\"+1 555 010 0199\",\"email\":\"jane.doe@example.com\"},\
     \"user\":1001}'";

/// Returns the script of one order per transaction: an expired holder releases the file number, the
/// order claims it, and its event is noted. File numbers have 16 digits.
fn script() -> String {
    format!(
        "\\set number random(1000000000000000, 9007199254740991)
WITH released AS (
    UPDATE orders SET holds_file_number = false
    WHERE file_number = 'F-' || :number::text AND is_test = false AND holds_file_number
        AND created_at <= now() - interval '60 seconds'
    RETURNING id
), created AS (
    INSERT INTO orders ({ORDER_COLUMNS})
    SELECT 'F-' || :number::text, now(), now(), {ORDER_VALUES}
    FROM (SELECT count(*) FROM released) AS released_before
    ON CONFLICT (file_number, is_test) WHERE holds_file_number DO NOTHING
    RETURNING id
), noted AS (
    INSERT INTO events (type, order_id, created_at) SELECT 'order.created', id, now() FROM created
)
SELECT id FROM created;
"
    )
}

/// Time for the clients to connect, which `pgbench --time` includes.
const CONNECT_TIME: Duration = Duration::from_secs(3);

/// A run of `pgbench`.
#[derive(Debug, Clone, Copy)]
pub struct Pgbench {
    pub clients: usize,
    /// Transactions per second at random moments; `None` for as many as possible.
    pub rate: Option<f64>,
    pub warmup: Duration,
    pub window: Duration,
}

/// The result of a run.
pub struct Outcome {
    /// Latencies in the window; with a rate, since the transaction was due.
    pub latencies: Latencies,
    /// Transactions per second in the window.
    pub rate: f64,
    /// Transactions, including those of the warm-up.
    pub transactions: u64,
    /// CPU seconds of `pgbench` per 1,000 transactions.
    pub cpu: f64,
}

impl Pgbench {
    /// Creates orders in the database of an instance.
    ///
    /// # Panics
    /// If there is not one order per transaction.
    pub fn run(self, instance: &Instance<'_>) -> Outcome {
        let outcome = self.run_script(instance.database.as_ref().unwrap(), &script());
        instance.assert_orders(outcome.transactions);
        outcome
    }

    /// Runs a script on a database.
    pub fn run_script(self, database: &Database<'_>, script: &str) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let script_file = folder.path().join("script.sql");
        fs::write(&script_file, script).unwrap();
        let before = children_cpu_seconds();
        let output = self.command(database, &script_file, folder.path()).output().unwrap();
        let cpu = children_cpu_seconds() - before;
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && text.contains("number of failed transactions: 0 "),
            "{text}"
        );
        self.outcome(&read_logs(folder.path()), cpu)
    }

    fn command(self, database: &Database<'_>, script: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program("pgbench"));
        command
            .args([
                "--protocol=prepared",
                "--no-vacuum",
                "--log",
                "--host=127.0.0.1",
                "--username",
                SUPERUSER,
            ])
            .env("PGPASSWORD", PASSWORD);
        command.args([
            format!("--port={}", database.cluster.port()),
            format!("--client={}", self.clients),
            format!("--jobs={}", self.clients.min(2)),
        ]);
        command.arg(format!("--time={}", (CONNECT_TIME + self.warmup + self.window).as_secs_f64()));
        command.args(self.rate.map(|rate| format!("--rate={rate:.3}")));
        command
            .arg(format!("--log-prefix={}", folder.join("transactions").display()))
            .arg("--file")
            .arg(script)
            .arg(&database.name);
        command
    }

    fn outcome(self, transactions: &[Transaction], cpu: f64) -> Outcome {
        let first = transactions.iter().map(Transaction::began).min().unwrap();
        let opens = first + self.warmup.as_micros() as u64;
        let end = opens + self.window.as_micros() as u64;
        let last = transactions.iter().map(|transaction| transaction.done).max().unwrap();
        assert!(last >= end, "the clients of pgbench took longer than {CONNECT_TIME:?} to connect");
        // Like the load generator: with a rate, counts transactions that were due in the window,
        // otherwise those that were done in it.
        let moment = |transaction: &Transaction| {
            if self.rate.is_some() { transaction.began() } else { transaction.done }
        };
        let counted =
            transactions.iter().filter(|transaction| (opens..end).contains(&moment(transaction)));
        let latencies = Latencies::new(counted.map(|transaction| transaction.took).collect());
        let rate = latencies.count() as f64 / self.window.as_secs_f64();
        let transactions = transactions.len() as u64;
        Outcome { latencies, rate, transactions, cpu: cpu * 1000.0 / transactions as f64 }
    }
}

/// One line of a log, in microseconds.
#[derive(Debug, PartialEq, Eq)]
struct Transaction {
    /// Latency since it was due.
    took: u32,
    /// End, since 1970.
    done: u64,
}

impl Transaction {
    fn began(&self) -> u64 {
        self.done - u64::from(self.took)
    }
}

/// Reads the logs, one per thread.
fn read_logs(folder: &Path) -> Vec<Transaction> {
    let logs = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let logs =
        logs.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("transactions"));
    logs.flat_map(|log| fs::read_to_string(log).unwrap().lines().map(parse).collect::<Vec<_>>())
        .collect()
}

/// Reads a line `client transaction microseconds script seconds microseconds [lag]`.
fn parse(line: &str) -> Transaction {
    let fields: Vec<u64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
    Transaction { took: fields[2].try_into().unwrap(), done: fields[4] * 1_000_000 + fields[5] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_line_is_parsed_with_and_without_rate() {
        let transaction = Transaction { took: 10_340, done: 1_795_286_262_805_507 };
        assert_eq!(parse("0 199 10340 0 1795286262 805507"), transaction);
        assert_eq!(parse("0 199 10340 0 1795286262 805507 120"), transaction);
    }

    #[test]
    fn warm_up_is_not_counted() {
        let done = |seconds: u64| Transaction { took: 1000, done: seconds * 1_000_000 };
        let second = Duration::from_secs(1);
        let outcome = Pgbench { clients: 1, rate: None, warmup: second, window: 2 * second }
            .outcome(&[done(1), done(2), done(3), done(9)], 0.0);
        assert_eq!((outcome.latencies.count(), outcome.rate), (2, 1.0));
    }
}
