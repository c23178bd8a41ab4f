//! Fills a database with old orders in one statement.

use crate::{
    instance::Instance,
    pgbench::{ORDER_COLUMNS, ORDER_VALUES},
};

pub const MILLION: u64 = 1_000_000;

/// The multiples of a number modulo a prime look random, and no two are equal.
const FACTOR: u64 = 1_103_515_245;
const PRIME: u64 = 2_147_483_647;

/// Returns the file number of an order. Successive orders have scattered file numbers, like those
/// of clients.
pub fn file_number(order: u64) -> String {
    format!("F-{:016}", order * FACTOR % PRIME)
}

/// Adds the orders from the one after `from` up to `to`. They have no pending mails, and each is
/// created a second after the one before it.
pub fn add(instance: &Instance<'_>, from: u64, to: u64) {
    instance.execute(&if instance.database.is_some() {
        postgres(from, to)
    } else {
        sqlite(from, to)
    });
}

fn postgres(from: u64, to: u64) -> String {
    format!(
        "INSERT INTO orders ({ORDER_COLUMNS})
         SELECT 'F-' || lpad((number * {FACTOR} % {PRIME})::text, 16, '0'), created_at, created_at,
             {ORDER_VALUES}
         FROM generate_series({from}::bigint + 1, {to}) AS number
         CROSS JOIN LATERAL (
             SELECT timestamptz '2025-01-01 00:00Z' + number * interval '1 second'
         ) AS c (created_at);\n\
         VACUUM (ANALYZE) orders"
    )
}

/// Returns [`ORDER_VALUES`] for SQLite, whose instants are microseconds.
pub fn sqlite_values() -> String {
    ORDER_VALUES.replace("'2026-12-01 20:30Z'", "1796157000000000")
}

fn sqlite(from: u64, to: u64) -> String {
    let values = sqlite_values();
    let created_at = "1735689600000000 + number * 1000000";
    format!(
        "PRAGMA synchronous = OFF;
         PRAGMA cache_size = -500000;
         WITH RECURSIVE numbers (number) AS (
             SELECT {from} + 1 UNION ALL SELECT number + 1 FROM numbers LIMIT {to} - {from}
         )
         INSERT INTO orders ({ORDER_COLUMNS})
         SELECT format('F-%016d', number * {FACTOR} % {PRIME}), {created_at}, {created_at}, {values}
         FROM numbers;
         PRAGMA wal_checkpoint(TRUNCATE);"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn file_numbers_are_unique_and_scattered() {
        let numbers: Vec<String> = (1..=100_000).map(file_number).collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
        let ascents = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((45_000..55_000).contains(&ascents), "{ascents}");
    }
}
