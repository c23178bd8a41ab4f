//! The database: whether it can be reached and used, whether it keeps what it acknowledges, and
//! whether its clock agrees with that of this machine.

use std::{path::Path, sync::Arc};

use adapter_postgres::{Facts, Inspection, MigrateError, PostgresStore};
use domain::ports::error_chain;
use time::{Duration, format_description::well_known::Rfc3339};

use super::finding::{Check, Finding, Subject};
use crate::{
    adapters::DATABASE,
    settings::{Database, Settings},
};

const CHECK: Check = Check("database");
const CLOCK: Check = Check("clock");

/// Greatest difference between the clocks of instances (docs/topologies.md).
const TOLERATED: Duration = Duration::SECOND;

/// Half the time of a lease: an instance that is further ahead delivers mails twice.
const HARMFUL: Duration = Duration::MINUTE;

/// The oldest version of PostgreSQL that works.
const MIN_VERSION: i32 = 130_000;

/// Connections of a start, beside the pool.
const START_CONNECTIONS: i64 = 2;

/// Time of a statement above which the database is far away.
const FAR: Duration = Duration::milliseconds(20);

pub(super) async fn check(of: Arc<Subject>) -> Vec<Finding> {
    let url = match of.settings.database() {
        Ok(Database::Sqlite(path)) => return vec![sqlite(&path)],
        Ok(Database::Postgres(url)) => url,
        Err(error) => return vec![unusable(&format!("{DATABASE}: {error}"))],
    };
    let store = match PostgresStore::open(&url, 1) {
        Ok(store) => store,
        Err(error) => return vec![unusable(&format!("{DATABASE}: {}", error_chain(&error)))],
    };
    match store.inspect(&*of.clock).await {
        Ok(inspection) => postgres(&of.settings, &inspection),
        Err(error) => vec![unusable(&error_chain(&error))],
    }
}

/// Says so if there is no other clock. The checks of the database and of the bucket compare theirs.
pub(super) async fn clock(of: Arc<Subject>) -> Vec<Finding> {
    let is_alone = matches!(of.settings.database(), Ok(Database::Sqlite(_)))
        && of.settings.documents().is_some();
    match of.clock.now().truncate_to_second().format(&Rfc3339) {
        Ok(now) if is_alone => {
            vec![CLOCK.ok(format!("{now}; there is no other clock to compare it with"))]
        }
        _ => Vec::new(),
    }
}

/// Compares the clock of this machine with another, which is ahead by so much. The measurement may
/// be wrong by `uncertainty`.
pub(super) fn compare_clock(of: &str, ahead: Duration, uncertainty: Duration) -> Finding {
    let difference = (ahead.abs() - uncertainty).max(Duration::ZERO);
    if difference <= TOLERATED {
        return CLOCK.ok(format!("the clock of the {of} agrees with that of this machine"));
    }
    let direction = if ahead.is_positive() { "ahead of" } else { "behind" };
    let seconds = ahead.abs().as_seconds_f64();
    let text = format!("the clock of the {of} is {seconds:.1} s {direction} that of this machine");
    let advice = "Synchronize the clocks of all machines by NTP";
    if difference <= HARMFUL { CLOCK.warn(text, advice) } else { CLOCK.fail(text, advice) }
}

fn unusable(cause: &str) -> Finding {
    let advice = format!("Start or repair the database, or correct {DATABASE}");
    CHECK.fail(format!("it cannot be used: {cause}"), advice)
}

fn sqlite(path: &Path) -> Finding {
    let shown = path.display();
    match adapter_sqlite::inspect(path) {
        Ok(None) => CHECK.ok(format!("there is none yet; the first start makes SQLite at {shown}")),
        Ok(Some(0)) => {
            CHECK.ok(format!("SQLite at {shown} accepts writes, and has every migration"))
        }
        Ok(Some(missing)) => CHECK.warn(
            format!("SQLite at {shown} accepts writes, and lacks {missing} migrations"),
            "The next start applies them, or `notary-orders migrate`",
        ),
        Err(error) => unusable(&format!("{shown}: {}", error_chain(&error))),
    }
}

fn postgres(settings: &Settings, inspection: &Inspection) -> Vec<Finding> {
    let Inspection { facts, missing_migrations, clock_ahead, round_trip, .. } = inspection;
    let mut findings = vec![state(facts, missing_migrations)];
    findings.extend(durability(facts));
    findings.extend(connections(facts, settings.database_connections.into()));
    if inspection.may_be_unencrypted {
        findings.push(CHECK.warn(
            "the URL permits a connection without TLS, or to another server",
            format!("Add sslmode=verify-full to {DATABASE}"),
        ));
    }
    if *round_trip > FAR {
        let milliseconds = round_trip.whole_milliseconds();
        findings.push(CHECK.warn(
            format!("a statement takes {milliseconds} ms; an order waits for several"),
            "Run the service near its database",
        ));
    }
    findings.push(compare_clock("database", *clock_ahead, *round_trip / 2));
    findings
}

/// Returns whether a service can start on it, and write.
fn state(facts: &Facts, missing_migrations: &Result<usize, MigrateError>) -> Finding {
    let version = format!("PostgreSQL {}", facts.version);
    if facts.version_number < MIN_VERSION {
        return CHECK.fail(format!("{version} is too old"), "Use version 13 or newer");
    }
    match missing_migrations {
        Err(error) => unusable(&error_chain(error)),
        Ok(_) if facts.is_read_only => CHECK.fail(
            format!("{version} is read-only, or a standby"),
            format!("Name the primary in {DATABASE}, or every host with a comma between them"),
        ),
        Ok(0) => CHECK.ok(format!("{version} accepts writes, and has every migration")),
        Ok(missing) if facts.may_create_tables => CHECK.warn(
            format!("{version} accepts writes, and lacks {missing} migrations"),
            "The next start applies them, or `notary-orders migrate`",
        ),
        Ok(missing) => CHECK.fail(
            format!(
                "{version} lacks {missing} migrations, and the user may not create tables in \
                 the schema"
            ),
            "Run `notary-orders migrate` as the owner of the schema",
        ),
    }
}

/// Returns what may lose acknowledged orders.
fn durability(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !facts.fsync {
        findings.push(CHECK.fail(
            "fsync is off: a crash of the server loses or damages acknowledged orders",
            "Set fsync = on in postgresql.conf",
        ));
    }
    if !facts.full_page_writes {
        findings.push(CHECK.warn(
            "full_page_writes is off: a crash of the server may damage the database",
            "Set it to on, unless the file system never writes half a page, such as ZFS",
        ));
    }
    let weak = ["local", "remote_write"].contains(&facts.synchronous_commit.as_str());
    if facts.waits_for_standbys && weak {
        let set = &facts.synchronous_commit;
        findings.push(CHECK.warn(
            format!("synchronous_commit is {set}: a failover may lose acknowledged orders"),
            "Set it to on or remote_apply for this user or database",
        ));
    }
    if facts.standbys > 0 && !facts.waits_for_standbys {
        findings.push(CHECK.warn(
            "no commit waits for the standby: a failover may lose acknowledged orders",
            "Set synchronous_standby_names if the standby is to take over",
        ));
    }
    if findings.is_empty() {
        findings.push(CHECK.ok("a commit is durable before an order is acknowledged"));
    }
    findings
}

fn connections(facts: &Facts, own: i64) -> Option<Finding> {
    let all = facts.connections;
    (own + START_CONNECTIONS > all).then(|| {
        CHECK.fail(
            format!("the server gives this user {all} connections, and an instance uses {own}"),
            "Lower --database-connections (NOTARY_ORDERS_DATABASE_CONNECTIONS), or raise \
             max_connections, or the CONNECTION LIMIT of the user or the database",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn facts() -> Facts {
        Facts {
            version: "17.6".to_owned(),
            version_number: 170_006,
            is_read_only: false,
            may_create_tables: true,
            fsync: true,
            full_page_writes: true,
            synchronous_commit: "on".to_owned(),
            waits_for_standbys: true,
            standbys: 1,
            connections: 97,
        }
    }

    #[test]
    fn server_that_may_lose_orders_is_named() {
        let levels = |facts| durability(&facts).iter().map(|found| found.level).collect::<Vec<_>>();
        assert_eq!(levels(facts()), [Level::Ok]);
        assert_eq!(levels(Facts { fsync: false, ..facts() }), [Level::Fail]);
        assert_eq!(levels(Facts { full_page_writes: false, ..facts() }), [Level::Warn]);
        assert_eq!(levels(Facts { waits_for_standbys: false, ..facts() }), [Level::Warn]);
        let local = Facts { synchronous_commit: "local".to_owned(), ..facts() };
        assert_eq!(levels(local), [Level::Warn]);
        // The service replaces it.
        let off = Facts { synchronous_commit: "off".to_owned(), ..facts() };
        assert_eq!(levels(off), [Level::Ok]);
    }

    #[test]
    fn unusable_state_is_a_failure() {
        let level = |facts, missing| state(&facts, &Ok(missing)).level;
        assert_eq!(level(facts(), 0), Level::Ok);
        assert_eq!(level(facts(), 1), Level::Warn);
        assert_eq!(level(Facts { may_create_tables: false, ..facts() }, 0), Level::Ok);
        assert_eq!(level(Facts { may_create_tables: false, ..facts() }, 1), Level::Fail);
        assert_eq!(level(Facts { is_read_only: true, ..facts() }, 0), Level::Fail);
        assert_eq!(level(Facts { version_number: 120_022, ..facts() }, 0), Level::Fail);
    }

    #[test]
    fn pool_must_fit_the_limits_of_the_server() {
        assert_eq!(connections(&facts(), 16), None);
        assert_eq!(connections(&facts(), 95), None);
        assert_eq!(connections(&facts(), 96).unwrap().level, Level::Fail);
    }

    #[test]
    fn difference_beyond_the_uncertainty_counts() {
        for (ahead, uncertainty, level) in [
            (0.9, 0.0, Level::Ok),
            (-0.9, 0.0, Level::Ok),
            (2.4, 1.5, Level::Ok),
            (1.1, 0.0, Level::Warn),
            (-59.0, 0.0, Level::Warn),
            (61.0, 0.5, Level::Fail),
            (-3_600.0, 5.0, Level::Fail),
        ] {
            let [ahead, uncertainty] = [ahead, uncertainty].map(Duration::seconds_f64);
            assert_eq!(compare_clock("database", ahead, uncertainty).level, level, "{ahead}");
        }
        let behind = compare_clock("bucket", Duration::seconds(-90), Duration::ZERO);
        assert_eq!(behind.text, "the clock of the bucket is 90.0 s behind that of this machine");
    }
}
