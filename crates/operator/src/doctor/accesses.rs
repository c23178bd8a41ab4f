//! Whether each recorded read or change of an order still has its row.

use adapter_postgres::PostgresStore;
use adapter_sqlite::SqliteStore;
use domain::{
    access::RunId,
    ports::{AccessLog, MissingAccesses},
};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::time::sleep;

use super::finding::{Failure, Findings, Level, Subject, advise};
use crate::{adapters::check_file, settings::Database};

/// The name of the check.
pub(super) const NAME: &str = "accesses";

/// Maximum number of gaps that are named.
const NAMED: usize = 10;

/// Maximum number of gaps that are looked at. Instances that were killed leave some for years.
const JUDGED: usize = 1_000;

/// A row is stored within a second after its number was given, or with the transaction of its change.
const STORED: std::time::Duration = std::time::Duration::from_secs(3);

/// How long before the last row of a run a crash may have lost others.
const LOST_BY_CRASH: Duration = Duration::seconds(2);

/// How long an access may have a number and no row: a change waits for other transactions.
const WAITS: Duration = Duration::MINUTE;

pub(super) async fn check(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    // Another check reports a database that cannot be used, or has no tables yet.
    let limits = &of.settings.time_limits;
    match of.settings.database() {
        Ok(Database::Sqlite(path)) if path.exists() && check_file(&path).is_ok() => {
            // Opening creates a database, switches it to WAL, and leaves files beside a read-only one.
            if let Ok(Some(0)) = adapter_sqlite::inspect(&path)
                && let Ok(store) = SqliteStore::open(&path, limits.sqlite)
            {
                return judge(&store, of.clock.now(), found).await;
            }
        }
        Ok(Database::Postgres(url)) => {
            let Ok(store) = PostgresStore::open(&url, 1, limits.postgres) else { return Ok(()) };
            let inspected = store.inspect(&*of.clock).await;
            if inspected.is_ok_and(|it| matches!(it.missing_migrations, Ok(0))) {
                return judge(&store, of.clock.now(), found).await;
            }
        }
        _ => {}
    }
    Ok(())
}

async fn judge(
    log: &dyn AccessLog,
    now: OffsetDateTime,
    found: &mut Findings,
) -> Result<(), Failure> {
    let missing = async || {
        let missing = log.missing(JUDGED).await;
        advise(missing, "Look at the database: removed rows of accesses cannot be detected")
    };
    let mut gaps = missing().await?;
    if !gaps.is_empty() {
        // A running service may not have stored them yet.
        sleep(STORED).await;
        gaps = in_both(&gaps, &missing().await?);
    }
    if gaps.is_empty() {
        found.ok("each recorded read or change of an order has its row");
    }
    judge_gaps(gaps, now, found);
    Ok(())
}

/// Returns the numbers that were missing before and still are.
fn in_both(before: &[MissingAccesses], now: &[MissingAccesses]) -> Vec<MissingAccesses> {
    let overlap = |one: &MissingAccesses, other: &MissingAccesses| {
        let numbers = (one.numbers.0.max(other.numbers.0), one.numbers.1.min(other.numbers.1));
        let is_same = one.run == other.run && numbers.0 <= numbers.1;
        is_same.then(|| MissingAccesses { numbers, ..other.clone() })
    };
    now.iter().flat_map(|now| before.iter().filter_map(move |it| overlap(it, now))).collect()
}

/// Names the worst gaps, and says whether there are others.
fn judge_gaps(gaps: Vec<MissingAccesses>, now: OffsetDateTime, found: &mut Findings) {
    let mut judged: Vec<_> = gaps.into_iter().map(|gap| (Cause::of(&gap, now), gap)).collect();
    judged.sort_by_key(|(cause, _)| *cause);
    for (cause, gap) in judged.iter().take(NAMED) {
        let (level, what, advice) = cause.finding();
        found.add(level, &format!("{}: {what}", describe(gap)), Some(advice.to_owned()));
    }
    if let Some((cause, _)) = judged.get(NAMED) {
        let (level, ..) = cause.finding();
        found.add(level, "more are missing", Some("Look at the first ones".to_owned()));
    }
}

/// The likely cause of a gap, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Removal,
    Kill,
    Waiting,
}

impl Cause {
    fn of(gap: &MissingAccesses, now: OffsetDateTime) -> Self {
        let after = gap.between.1.filter(|_| !gap.has_ended);
        if after.is_some_and(|at| (now - at).abs() < WAITS) {
            Self::Waiting
        } else if after.zip(gap.last_at).is_some_and(|(at, last)| last - at <= LOST_BY_CRASH) {
            Self::Kill
        } else {
            Self::Removal
        }
    }

    fn finding(self) -> (Level, &'static str, &'static str) {
        match self {
            Self::Removal => (
                Level::Fail,
                "rows of reads or changes of orders were removed",
                "Look at the rights on the database, and compare with a backup",
            ),
            Self::Kill => (
                Level::Warn,
                "likely its instance was killed, which loses up to a second",
                "Look whether the log has a start after this instant, without a stop before it",
            ),
            Self::Waiting => (
                Level::Warn,
                "a change may still wait for the database, or its instance was killed just now",
                "Run doctor again in a minute",
            ),
        }
    }
}

fn describe(gap: &MissingAccesses) -> String {
    let MissingAccesses { run: RunId(run), numbers: (first, last), between, .. } = gap;
    let numbers =
        if first == last { format!("row {first}") } else { format!("rows {first} to {last}") };
    let at = |at: Option<OffsetDateTime>, none: &str| {
        at.and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_else(|| none.to_owned())
    };
    let (from, until) = (at(between.0, "the start"), at(between.1, "the end"));
    format!("run {run:x} lacks {numbers}, between {from} and {until}")
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const AT: OffsetDateTime = datetime!(2026-11-28 12:00 UTC);

    fn gap(numbers: (u64, u64), until: Option<OffsetDateTime>) -> MissingAccesses {
        let between = (Some(AT), until);
        MissingAccesses { run: RunId(255), numbers, between, last_at: Some(AT), has_ended: false }
    }

    fn judged_at(now: OffsetDateTime, gaps: &[MissingAccesses]) -> Findings {
        let mut found = Findings::of(NAME);
        judge_gaps(gaps.to_vec(), now, &mut found);
        found
    }

    fn judged(gap: &MissingAccesses) -> Findings {
        judged_at(AT + Duration::HOUR, std::slice::from_ref(gap))
    }

    #[test]
    fn numbers_that_arrive_later_are_not_missing() {
        let before = [gap((3, 9), None), gap((20, 22), None)];
        let other = MissingAccesses { run: RunId(1), ..gap((20, 22), None) };
        let now = [gap((5, 6), None), gap((8, 12), None), gap((30, 30), None), other];
        let numbers: Vec<_> = in_both(&before, &now).iter().map(|gap| gap.numbers).collect();
        assert_eq!(numbers, [(5, 6), (8, 9)]);
    }

    #[test]
    fn gap_before_a_crash_is_a_warning_and_any_other_a_failure() {
        let late = MissingAccesses {
            last_at: Some(AT + Duration::seconds(3)),
            ..gap((7, 7), Some(AT + Duration::seconds(1)))
        };
        assert_eq!(judged(&late).levels(), [Level::Warn]);
        let ended = MissingAccesses { has_ended: true, ..late.clone() };
        assert_eq!(judged(&ended).levels(), [Level::Fail]);
        let early = MissingAccesses { last_at: Some(AT + Duration::seconds(4)), ..late };
        assert_eq!(judged(&early).levels(), [Level::Fail]);
        // The last rows of a run that has ended.
        let tail = MissingAccesses { has_ended: true, ..gap((8, 9), None) };
        let found = judged(&tail);
        assert_eq!(found.levels(), [Level::Fail]);
        let text = "run ff lacks rows 8 to 9, between 2026-11-28T12:00:00Z and the end: ";
        assert!(found.list[0].text.starts_with(text), "{found:?}");
    }

    #[test]
    fn gap_just_now_is_a_warning_until_the_run_ends() {
        let last_at = Some(AT + Duration::seconds(50));
        let live = MissingAccesses { last_at, ..gap((7, 7), Some(AT)) };
        let ended = MissingAccesses { has_ended: true, ..live.clone() };
        for (seconds, expected) in [(-59, Level::Warn), (59, Level::Warn), (60, Level::Fail)] {
            let now = AT + Duration::seconds(seconds);
            assert_eq!(judged_at(now, std::slice::from_ref(&live)).levels(), [expected]);
            assert_eq!(judged_at(now, std::slice::from_ref(&ended)).levels(), [Level::Fail]);
        }
    }

    #[test]
    fn removed_rows_are_named_before_many_that_a_crash_has_lost() {
        let now = AT + Duration::HOUR;
        let mut gaps: Vec<_> = (1..=11).map(|at| gap((2 * at, 2 * at), Some(AT))).collect();
        assert_eq!(judged_at(now, &gaps).levels(), [Level::Warn; 11]);
        let last_at = Some(AT + Duration::MINUTE);
        gaps.push(MissingAccesses { last_at, ..gap((99, 99), Some(AT)) });
        let found = judged_at(now, &gaps);
        assert!(found.list[0].text.contains("lacks row 99, "), "{found:?}");
        assert_eq!(found.levels()[..2], [Level::Fail, Level::Warn]);
        let removed = vec![gaps[11].clone(); 11];
        assert_eq!(judged_at(now, &removed).levels(), [Level::Fail; 11]);
    }
}
