//! The database: whether it can be reached and used, and whether it keeps what it acknowledges.

use std::{path::Path, sync::Arc};

use adapter_postgres::{Facts, Inspection, MigrateError, PostgresStore};
use domain::ports::{Clock, error_chain};
use tokio::task::spawn_blocking;

use super::{
    clock,
    finding::{Checked, Finding},
};
use crate::{
    adapters::DATABASE,
    settings::{Database, Settings},
};

const CHECK: &str = "database";

/// The oldest version of PostgreSQL that works.
const MIN_VERSION: i32 = 130_000;

/// Connections of a start, beside the pool.
const START_CONNECTIONS: i64 = 2;

/// Time of a statement above which the database is far away.
const FAR: time::Duration = time::Duration::milliseconds(20);

pub(super) async fn check(settings: Arc<Settings>, ours: Arc<dyn Clock>) -> Checked {
    let url = match settings.database() {
        Ok(Database::Sqlite(path)) => {
            return spawn_blocking(move || vec![sqlite(&path)]).await;
        }
        Ok(Database::Postgres(url)) => url,
        Err(error) => return Ok(vec![unusable(&format!("{DATABASE}: {error}"))]),
    };
    let store = match PostgresStore::open(&url, 1) {
        Ok(store) => store,
        Err(error) => {
            return Ok(vec![unusable(&format!("{DATABASE}: {}", error_chain(&error)))]);
        }
    };
    Ok(match store.inspect(&*ours).await {
        Ok(inspection) => postgres(&settings, &inspection),
        Err(error) => vec![unusable(&error_chain(&error))],
    })
}

fn unusable(cause: &str) -> Finding {
    let advice = format!("Start or repair the database, or correct {DATABASE}");
    Finding::fail(CHECK, format!("it cannot be used: {cause}"), advice)
}

fn sqlite(path: &Path) -> Finding {
    let shown = path.display();
    match adapter_sqlite::inspect(path) {
        Ok(None) => Finding::ok(
            CHECK,
            format!("there is none yet; the first start makes SQLite at {shown}"),
        ),
        Ok(Some(0)) => {
            Finding::ok(CHECK, format!("SQLite at {shown} accepts writes, and has every migration"))
        }
        Ok(Some(missing)) => Finding::warn(
            CHECK,
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
        findings.push(Finding::warn(
            CHECK,
            "the URL permits a connection without TLS, or to another server",
            format!("Add sslmode=verify-full to {DATABASE}"),
        ));
    }
    if *round_trip > FAR {
        let milliseconds = round_trip.whole_milliseconds();
        findings.push(Finding::warn(
            CHECK,
            format!("a statement takes {milliseconds} ms; an order waits for several"),
            "Run the service near its database",
        ));
    }
    findings.push(clock::compare("database", *clock_ahead, *round_trip / 2));
    findings
}

/// Returns whether a service can start on it, and write.
fn state(facts: &Facts, missing_migrations: &Result<usize, MigrateError>) -> Finding {
    let version = format!("PostgreSQL {}", facts.version);
    if facts.version_number < MIN_VERSION {
        return Finding::fail(CHECK, format!("{version} is too old"), "Use version 13 or newer");
    }
    match missing_migrations {
        Err(error) => unusable(&error_chain(error)),
        Ok(_) if facts.is_read_only => Finding::fail(
            CHECK,
            format!("{version} is read-only, or a standby"),
            format!("Name the primary in {DATABASE}, or every host with a comma between them"),
        ),
        Ok(0) => Finding::ok(CHECK, format!("{version} accepts writes, and has every migration")),
        Ok(missing) if facts.may_create_tables => Finding::warn(
            CHECK,
            format!("{version} accepts writes, and lacks {missing} migrations"),
            "The next start applies them, or `notary-orders migrate`",
        ),
        Ok(missing) => Finding::fail(
            CHECK,
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
        findings.push(Finding::fail(
            CHECK,
            "fsync is off: a crash of the server loses or damages acknowledged orders",
            "Set fsync = on in postgresql.conf",
        ));
    }
    if !facts.full_page_writes {
        findings.push(Finding::warn(
            CHECK,
            "full_page_writes is off: a crash of the server may damage the database",
            "Set it to on, unless the file system never writes half a page, such as ZFS",
        ));
    }
    let weak = ["local", "remote_write"].contains(&facts.synchronous_commit.as_str());
    if facts.waits_for_standbys && weak {
        let set = &facts.synchronous_commit;
        findings.push(Finding::warn(
            CHECK,
            format!("synchronous_commit is {set}: a failover may lose acknowledged orders"),
            "Set it to on or remote_apply for this user or database",
        ));
    }
    if facts.standbys > 0 && !facts.waits_for_standbys {
        findings.push(Finding::warn(
            CHECK,
            "no commit waits for the standby: a failover may lose acknowledged orders",
            "Set synchronous_standby_names if the standby is to take over",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "a commit is durable before an order is acknowledged"));
    }
    findings
}

fn connections(facts: &Facts, own: i64) -> Option<Finding> {
    let all = facts.connections;
    (own + START_CONNECTIONS > all).then(|| {
        Finding::fail(
            CHECK,
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
}
