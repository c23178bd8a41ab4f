//! Rows of the runs that number accesses, and the numbers that are missing.

use std::collections::BTreeMap;

use diesel::{dsl::auto_type, prelude::*, sql_types};
use domain::{
    access::{AccessId, RunId},
    ports::{MAX_SILENCE, MissingAccesses},
};
use time::OffsetDateTime;

use crate::{Instant, Utc, accesses::stored_number, schema::access_runs};

/// The first number of a run whose smaller ones were removed.
#[derive(AsChangeset, Insertable)]
#[diesel(table_name = access_runs)]
pub struct FirstNumber {
    id: i64,
    /// The number.
    pub first_number: i64,
}

impl FirstNumber {
    /// Returns the first numbers after the removal of these runs and numbers.
    pub fn after(removed: Vec<(i64, i64)>) -> Vec<Self> {
        let mut last = BTreeMap::new();
        for (run, number) in removed {
            let last = last.entry(run).or_insert(number);
            *last = number.max(*last);
        }
        last.into_iter()
            .map(|(id, last)| Self { id, first_number: last.saturating_add(1) })
            .collect()
    }
}

/// The orderly end of a run.
#[derive(AsChangeset, Insertable)]
#[diesel(table_name = access_runs)]
pub struct EndedRun {
    id: i64,
    ended_at: Utc,
    last_number: i64,
}

impl EndedRun {
    /// Returns the end of a run.
    pub fn new(run: RunId, last_number: u64, at: OffsetDateTime) -> Self {
        Self { id: run.0, ended_at: Utc(at), last_number: stored_number(last_number) }
    }
}

/// A run, and its first sign of life.
#[derive(Insertable)]
#[diesel(table_name = access_runs)]
pub struct BegunRun {
    id: i64,
    seen_at: Utc,
}

impl BegunRun {
    /// Returns the run of an access.
    pub fn of(access: AccessId) -> Self {
        Self { id: access.run.0, seen_at: Utc(access.at) }
    }
}

/// Selects the runs that ended before an instant, and those that were killed before it.
#[auto_type(no_type_alias)]
pub fn runs_over_before(at: OffsetDateTime) -> _ {
    let silent_since: Utc = Utc(at.saturating_sub(MAX_SILENCE));
    let at: Utc = Utc(at);
    let was_killed = access_runs::ended_at.is_null().and(access_runs::seen_at.lt(silent_since));
    access_runs::table.filter(access_runs::ended_at.lt(at).or(was_killed))
}

/// The columns of a row of [`missing_accesses`].
pub type MissingColumns = (
    sql_types::BigInt,
    sql_types::BigInt,
    sql_types::BigInt,
    sql_types::Nullable<Instant>,
    sql_types::Nullable<Instant>,
    sql_types::Nullable<Instant>,
    sql_types::Bool,
);

/// Returns the query of missing numbers: between two rows of a run, before the first and, if the run has
/// ended, after the last. Looks at the rows one by one only where the number of rows tells that some are
/// missing.
pub fn missing_accesses(limit: usize) -> String {
    let first = |before: &str| {
        format!(
            "CASE WHEN coalesce({before}, 0) < coalesce(first_number, 1) \
            THEN coalesce(first_number, 1) ELSE {before} + 1 END"
        )
    };
    let (between, after) = (first("before"), first("held.last"));
    format!(
        "WITH held AS (\
            SELECT run, count(*) AS stored, min(number) AS first, max(number) AS last, \
                max(at) AS last_at \
            FROM accesses GROUP BY run\
        ), suspect AS (\
            SELECT run, first_number, ended_at, last_at FROM held \
            LEFT JOIN access_runs ON access_runs.id = held.run \
            WHERE stored < last - first + 1 OR first > coalesce(first_number, 1)\
        ), rows_of_suspects AS (\
            SELECT run, number, at, first_number, ended_at, last_at, \
                lag(number) OVER in_run AS before, lag(at) OVER in_run AS before_at \
            FROM accesses JOIN suspect USING (run) \
            WINDOW in_run AS (PARTITION BY run ORDER BY number)\
        ), missing AS (\
            SELECT run, {between} AS first, number - 1 AS last, before_at, at AS after_at, \
                last_at, ended_at IS NOT NULL AS has_ended \
            FROM rows_of_suspects \
            UNION ALL SELECT id, {after}, last_number, last_at, NULL, last_at, true \
            FROM access_runs LEFT JOIN held ON held.run = id WHERE ended_at IS NOT NULL\
        ) SELECT run, first, last, before_at, after_at, last_at, has_ended FROM missing \
        WHERE first <= last ORDER BY has_ended DESC, coalesce(after_at, last_at) IS NULL, \
            coalesce(after_at, last_at), run, first LIMIT {limit}"
    )
}

/// A row of [`missing_accesses`].
pub type MissingRow = (i64, i64, i64, Option<Utc>, Option<Utc>, Option<Utc>, bool);

/// Returns the gap of a row of [`missing_accesses`].
pub fn missing_access(row: MissingRow) -> MissingAccesses {
    let (run, first, last, before, after, last_at, has_ended) = row;
    let at = |stored: Option<Utc>| stored.map(|at| at.0);
    MissingAccesses {
        run: RunId(run),
        numbers: (first.unsigned_abs(), last.unsigned_abs()),
        between: (at(before), at(after)),
        last_at: at(last_at),
        has_ended,
    }
}
