//! The limit that PostgreSQL itself sets: `pgbench` with the durable work of one order, in one
//! prepared statement on the service's own schema, as a straightforward service would have it.

use std::{fs, path::Path, process::Command, time::Duration};

use test_servers::postgres::{Database, PASSWORD, SUPERUSER, program};

use crate::{instance::Instance, latency::Latencies, service::children_cpu_seconds};

/// Columns that the benchmark's order fills, and their values; the file number and the instant are
/// the caller's.
pub const ORDER_COLUMNS: &str = "file_number, created_at, updated_at, signing_service_id, order_contact_email, signing_date, time_zone_id, signing_time_type, \
     start_time, start_utc, property_address, property_city, property_state, property_zipcode, is_property_address_same, signing_address, signing_city, \
     signing_state, signing_zipcode, signing_type, signer_name, signer_phone, signer_email, language, scanbacks_required, ron_signing, requested_by, status";
pub const ORDER_VALUES: &str = "42, 'escrow@title.example.com', '2026-12-01', 'America/Chicago', 'at', '14:30', '2026-12-01 20:30Z', \
     '123 Main St, Dallas, TX 75201', 'Dallas', 'TX', '75201', true, '123 Main St, Dallas, TX 75201', 'Dallas', 'TX', '75201', 'Refinance', 'Jane Doe', \
     '+1 555 010 0199', 'jane.doe@example.com', 'en', false, false, '{\"user_id\": 1001, \"user_role\": null, \"signing_service_id\": null}', 'NEW'";

/// Both numbers have as many digits each time; the message key is about as long as the service's.
fn script() -> String {
    format!(
        "\\set number random(1000000000000000, 9007199254740991)
\\set one random(1000000000000000, 9007199254740991)
\\set other random(1000000000000000, 9007199254740991)
WITH claimed AS (
    INSERT INTO file_numbers AS known (file_number, created_at) VALUES ('F-' || :number::text, now())
    ON CONFLICT (file_number) DO UPDATE SET created_at = excluded.created_at WHERE known.created_at <= now() - interval '60 seconds'
    RETURNING file_number
), placed AS (
    INSERT INTO orders ({ORDER_COLUMNS})
    SELECT file_number, now(), now(), {ORDER_VALUES} FROM claimed RETURNING id
), enqueued AS (
    INSERT INTO deliveries (order_id, message_key, recipient, created_at, due_at)
    SELECT id, :one::text || :other::text, 'escrow@title.example.com', now(), now() FROM placed
)
SELECT id FROM placed;
"
    )
}

/// The time that `pgbench` is given includes that in which its clients connect.
const TO_CONNECT: Duration = Duration::from_secs(3);

/// How it is run.
#[derive(Debug, Clone, Copy)]
pub struct Pgbench {
    pub clients: usize,
    /// Transactions per second at random moments; as many as there can be without.
    pub rate: Option<f64>,
    pub warmup: Duration,
    pub window: Duration,
}

/// What came of it.
pub struct Outcome {
    /// Of the window; since the transaction was due, if there is a rate.
    pub latencies: Latencies,
    /// Transactions per second in the window.
    pub rate: f64,
    /// Transactions of the warm-up, too.
    pub transactions: u64,
    /// Seconds of CPU of `pgbench` itself per 1,000 transactions.
    pub cpu: f64,
}

impl Pgbench {
    /// Runs it on an instance's database.
    ///
    /// # Panics
    /// If there is not one order for each transaction.
    pub fn run(self, instance: &Instance<'_>) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let script_file = folder.path().join("order.sql");
        fs::write(&script_file, script()).unwrap();
        let database = instance.database.as_ref().unwrap();
        let before = children_cpu_seconds();
        let output = self.command(database, &script_file, folder.path()).output().unwrap();
        let cpu = children_cpu_seconds() - before;
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && text.contains("number of failed transactions: 0 "),
            "{text}"
        );
        let transactions = read_logs(folder.path());
        instance.assert_orders(transactions.len() as u64);
        self.outcome(&transactions, cpu)
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
        command.arg(format!("--time={}", (TO_CONNECT + self.warmup + self.window).as_secs_f64()));
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
        assert!(last >= end, "the clients of pgbench took longer than {TO_CONNECT:?} to connect");
        // As the load generator counts: by what is due in the window if there is a rate, otherwise
        // by what is done in it.
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

/// One line of a log; microseconds.
#[derive(Debug, PartialEq, Eq)]
struct Transaction {
    /// Since it was due.
    took: u32,
    /// Since 1970.
    done: u64,
}

impl Transaction {
    fn began(&self) -> u64 {
        self.done - u64::from(self.took)
    }
}

/// There is one log for each thread.
fn read_logs(folder: &Path) -> Vec<Transaction> {
    let logs = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let logs =
        logs.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("transactions"));
    logs.flat_map(|log| fs::read_to_string(log).unwrap().lines().map(parse).collect::<Vec<_>>())
        .collect()
}

/// `client transaction microseconds script seconds microseconds [lag]`
fn parse(line: &str) -> Transaction {
    let fields: Vec<u64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
    Transaction { took: fields[2].try_into().unwrap(), done: fields[4] * 1_000_000 + fields[5] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_read_with_and_without_a_rate() {
        let transaction = Transaction { took: 10_340, done: 1_795_286_262_805_507 };
        assert_eq!(parse("0 199 10340 0 1795286262 805507"), transaction);
        assert_eq!(parse("0 199 10340 0 1795286262 805507 120"), transaction);
    }

    #[test]
    fn the_warm_up_is_not_counted() {
        let done = |seconds: u64| Transaction { took: 1000, done: seconds * 1_000_000 };
        let second = Duration::from_secs(1);
        let outcome = Pgbench { clients: 1, rate: None, warmup: second, window: 2 * second }
            .outcome(&[done(1), done(2), done(3), done(9)], 0.0);
        assert_eq!((outcome.latencies.count(), outcome.rate), (2, 1.0));
    }
}
