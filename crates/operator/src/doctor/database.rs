//! The database: whether it can be reached and used, whether it keeps what it acknowledges, and
//! whether its clock agrees with that of this machine.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Instant};

use adapter_postgres::{Facts, Inspection, MigrateError, PostgresStore, Protection};
use adapter_sqlite::{InspectError, MigrateError as SqliteMigrateError, SqliteStore};
use adapter_webhook::SealedSecrets;
use anyhow::Context as _;
use domain::{
    clock_watch,
    delivery::FARTHEST_DUE,
    installation::{CopiedDatabase, SendsMessages},
    order::OrderId,
    ports::{
        DatabaseTime, DatabaseTimes, DeliveryQueue, InstallationRepo, OrderAdmin, OrderRepo as _,
        QueueStats, SecretBox, WebhookQueue, WebhookRepo,
    },
    use_cases::{
        upkeep::erase_old_orders::{COUNTED, Retention, Waiting},
        webhooks::reencrypt_secrets::{SecretCounts, count_secrets},
    },
};
use time::Duration;

use super::finding::{Failure, Findings, Subject, advise};
use crate::adapters::{DATA_DIR, check_file, describe_orphans, installations};
use crate::progress::counted;
use crate::settings::{DATABASE, Database, Settings};
use crate::{secrets_key, system::OsEntropy};

/// Greatest difference between the clocks of instances (docs/topologies.md).
const TOLERATED: Duration = Duration::SECOND;

/// What an instance does while its clock is over a minute off that of the database.
const NOTHING_DELIVERED: &str =
    "; an instance with this clock sends no mail and no webhook, and erases nothing";

/// How long it looks for orders that cannot be read: a part of the time that a check has.
const LOOK_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

/// Time without anything stored after which the clock may be ahead.
const LONG_UNUSED: Duration = Duration::days(7);

/// The oldest version of PostgreSQL that works.
const MIN_VERSION: i32 = 130_000;

/// Connections of a start, beside the pool.
const START_CONNECTIONS: usize = 2;

const DRAWS_AHEAD: &str =
    "Run the statement as the owner of the tables; running instances create orders again at once";

const MIGRATE: &str = "The next start applies them, or `notary-orders migrate`";

pub(super) async fn check(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    let url = match usable(of.settings.database(), &of.settings)? {
        Database::Sqlite(path) => return sqlite(&path, of, found).await,
        Database::Postgres(url) => url,
    };
    let limits = of.settings.time_limits.postgres;
    let store = usable(PostgresStore::open(&url, 1, limits).context(DATABASE), &of.settings)?;
    let inspection = usable(store.inspect(&*of.clock).await, &of.settings)?;
    judge_orphans(&inspection.orphans, found);
    judge_newest(&store, of, found).await;
    found.check = "database";
    postgres(inspection, &of.settings, found)?;
    judge_secrets(&store, of, found).await;
    judge_webhooks(&store, Instant::now() + LOOK_LIMIT, found).await;
    judge_mails(&store, of, found).await;
    judge_waiting_webhooks(&store, of, found).await;
    judge_retention(&store, of, found).await;
    judge_copy(store, of, found).await;
    Ok(())
}

/// Tells whether the database is a copy, and whether messages leave.
async fn judge_copy(store: impl InstallationRepo + 'static, of: &Subject, found: &mut Findings) {
    // The check of the documents reports a wrong setting.
    let Ok(installations) = installations(Arc::new(store), &of.settings) else { return };
    let Ok(copy) = installations.copy().await else { return };
    found.check = "messages";
    let sends = of.settings.sends_messages;
    let may_leave = if sends.may_send(copy.as_ref()) { "leave" } else { "wait" };
    match copy {
        Some(CopiedDatabase { original, here }) => found.warn(
            format!(
                "mails and webhooks {may_leave}; the database is a copy: it belongs to {original}; this \
                 is {here}"
            ),
            "If it replaces the other one, stop that one and run `notary-orders adopt`. A copy for a \
             drill or a test needs nothing",
        ),
        None if sends == SendsMessages::Never => found.warn(
            "mails and webhooks wait: --sends-messages is false",
            "Remove --sends-messages (NOTARY_ORDERS_SENDS_MESSAGES) to send them",
        ),
        None => {}
    }
}

/// Names rows whose parent is gone, or has a number that was given again.
fn judge_orphans(orphans: &[(String, i64)], found: &mut Findings) {
    if !orphans.is_empty() {
        found.warn(
            format!("it has {}", describe_orphans(orphans)),
            "Another program has deleted rows. The service ignores those without a parent, and `copy` \
             skips them; orphaned orders are kept. Rows older than their order belong to another \
             order, which had its number: remove them",
        );
    }
}

/// Names rows that another version of the service has written, or that cannot be read. Looks at the first of many
/// millions of orders: no look begins after `until`, besides the first one.
async fn judge_webhooks(deliveries: &dyn WebhookQueue, until: Instant, found: &mut Findings) {
    const NAMED: usize = 3;
    let (mut faults, mut next) = (BTreeSet::new(), Some(OrderId(0)));
    while let Some(after) = next.filter(|_| faults.len() <= NAMED) {
        if after.0 > 0 && Instant::now() >= until {
            found.check = "database";
            found.ok(format!(
                "the orders up to {} were looked at; a running service looks at all in turn, and its log \
                 names those that cannot be read",
                after.0
            ));
            break;
        }
        let Ok(look) = deliveries.unreadable(after, NAMED + 1).await else { break };
        faults.extend(look.rows);
        next = look.looked_at;
    }
    if faults.is_empty() {
        return;
    }
    let are_webhooks = faults.iter().all(|row| row.is_of_webhooks);
    found.check = if are_webhooks { "webhooks" } else { "database" };
    let more = if faults.len() > NAMED { ", and more" } else { "" };
    let named: Vec<_> = faults.into_iter().map(|row| row.fault).take(NAMED).collect();
    let named = named.join("; ");
    found.warn(
        format!("{named}{more}"),
        "What this version knows is used and sent; start the version that wrote them for the rest",
    );
}

/// Counts mails that need an operator or wait for the limit of their recipients.
async fn judge_mails(queue: &dyn DeliveryQueue, of: &Subject, found: &mut Findings) {
    let Ok(stats) = queue.stats().await else { return };
    let QueueStats { over_limit, failed, put_off, put_off_order, latest_due_at, .. } = stats;
    found.check = "mail";
    if let Some(order) = put_off_order {
        let events = counted(&put_off, "event");
        found.warn(
            format!(
                "{events} could not become mails and webhooks, among them one of order {}",
                order.0
            ),
            "They hold up no other, and are tried again each minute; the log of the service says what \
             is wrong",
        );
    }
    if over_limit > 0 {
        let wait = match over_limit {
            1 => "mail waits: its recipient has",
            _ => "mails wait: their recipients have",
        };
        found.warn(
            format!("{over_limit} {wait} had the mails of this hour"),
            "`notary-orders deliveries list` names their orders. Revoke the key if it was stolen, or \
             raise --mails-per-recipient-hour",
        );
    }
    if failed > 0 {
        found.warn(
            format!("{} failed for good", counted(&failed, "mail")),
            "`notary-orders deliveries list --failed` says why; send them again with \
             `notary-orders deliveries retry --failed`",
        );
    }
    if let Some(latest) = latest_due_at {
        judge_wait(latest - of.clock.now(), found);
    }
}

/// Names webhooks that a clock which was ahead has put off.
async fn judge_waiting_webhooks(webhooks: &dyn WebhookQueue, of: &Subject, found: &mut Findings) {
    let Ok(stats) = webhooks.stats().await else { return };
    found.check = "webhooks";
    if let Some(latest) = stats.latest_due_at {
        judge_wait(latest - of.clock.now(), found);
    }
}

fn judge_wait(longest: Duration, found: &mut Findings) {
    if longest > FARTHEST_DUE {
        found.warn(
            format!(
                "a delivery waits for {} hours more: a clock was ahead when it was put off",
                longest.whole_hours()
            ),
            "A running service whose clock is right sends it within a minute; look at the check clock \
             if it stays",
        );
    }
}

/// Tells how many orders are on hold, and how many wait for an erasure.
async fn judge_retention(orders: &dyn OrderAdmin, of: &Subject, found: &mut Findings) {
    let retention = of.settings.retention();
    let Ok(waiting) = retention.waiting(orders, of.clock.now()).await else { return };
    if retention == Retention::default() && waiting.held == 0 {
        return;
    }
    found.check = "retention";
    let count = |number, noun| match number {
        COUNTED => format!("{COUNTED} or more {noun}s"),
        number => counted(&number, noun),
    };
    let Waiting { orders, documents, held } = waiting;
    let held = if held == 1 { "1 order is".to_owned() } else { format!("{held} orders are") };
    let due = [
        retention.orders.map(|_| format!("{} due for erasure", count(orders, "order"))),
        retention
            .documents
            .map(|_| format!("documents of {} due for erasure", count(documents, "order"))),
    ];
    let parts = [format!("{held} on hold")].into_iter().chain(due.into_iter().flatten());
    let text = parts.collect::<Vec<_>>().join("; ");
    if orders.max(documents) == COUNTED {
        return found.warn(
            text,
            "A running service erases some hundred a second; look at its log if the number stays",
        );
    }
    found.ok(text);
}

/// Judges whether the keys of the settings decrypt the secrets of webhooks, and which of several are needed.
/// Another check reports other faults of the keys.
async fn judge_secrets(endpoints: &dyn WebhookRepo, of: &Subject, found: &mut Findings) {
    let Ok(keys) = secrets_key::find(&of.settings) else { return };
    let secrets = SealedSecrets::new(&keys, Arc::new(OsEntropy));
    let secrets: Option<&dyn SecretBox> = secrets.as_ref().map(|secrets| secrets as _);
    let Ok(SecretCounts { of_keys, unreadable }) =
        count_secrets(endpoints, secrets, of.clock.now()).await
    else {
        return;
    };
    if unreadable > 0 || keys.len() > 1 {
        found.check = "webhooks";
    }
    if unreadable > 0 {
        let text = match unreadable {
            1 => "1 endpoint gets no webhooks: its secret needs another key".to_owned(),
            _ => format!("{unreadable} endpoints get no webhooks: their secrets need another key"),
        };
        found.fail(text, secrets_key::ADVICE);
    }
    if keys.len() > 1 {
        let count = |key| counted(&of_keys.get(&key).copied().unwrap_or_default(), "secret");
        let counts = (0..keys.len()).map(|key| format!("{} under key {}", count(key), key + 1));
        let text = counts.collect::<Vec<_>>().join(", ");
        if of_keys.keys().any(|&key| key > 0) {
            found.warn(
                text,
                "Start every instance with these keys, then `notary-orders webhooks reencrypt` moves all \
                 secrets to key 1",
            );
        } else {
            found.warn(text, "Keep key 1 alone: no secret needs the others");
        }
    }
}

/// Compares the clock of this machine with another, which is ahead by so much. The measurement may
/// be wrong by `uncertainty`. `effect` tells what a great difference does.
pub(super) fn compare_clock(
    of: &str,
    ahead: Duration,
    uncertainty: Duration,
    effect: &str,
    found: &mut Findings,
) {
    found.check = "clock";
    let difference = (ahead.abs() - uncertainty).max(Duration::ZERO);
    if difference <= TOLERATED {
        return found.ok(format!("the clock of the {of} agrees with that of this machine"));
    }
    let direction = if ahead.is_positive() { "ahead of" } else { "behind" };
    let seconds = ahead.abs().as_seconds_f64();
    let text = format!("the clock of the {of} is {seconds:.1} s {direction} that of this machine");
    let advice = "Synchronize the clocks of all machines by NTP";
    if difference <= clock_watch::TOLERATED {
        found.warn(text, advice);
    } else {
        found.fail(text + effect, advice);
    }
}

/// Compares the clock of this machine with the newest stored instant. A file has no other clock.
async fn judge_newest(database: &dyn DatabaseTime, of: &Subject, found: &mut Findings) {
    if let Ok(DatabaseTimes { newest: Some(newest), .. }) = database.times().await {
        found.check = "clock";
        judge_unused(of.clock.now() - newest, found);
    }
}

/// Judges how long ago the newest row was stored by the clock of this machine.
fn judge_unused(unused: Duration, found: &mut Findings) {
    if unused < -clock_watch::TOLERATED {
        found.fail(
            format!(
                "the newest row is {} s ahead of the clock of this machine",
                unused.abs().whole_seconds()
            ),
            "Set the clock. If it is right, it was ahead when the row was stored: the service then erases nothing for \
             an hour after a start",
        );
    } else if unused > LONG_UNUSED {
        found.warn(
            format!(
                "nothing was stored for {} days by the clock of this machine",
                unused.whole_days()
            ),
            "Set the clock if the service was in use since then",
        );
    }
}

/// Adds the advice to an error of the database. Only a setting that is set can be corrected, as the start
/// says it.
fn usable<T>(
    result: Result<T, impl Into<anyhow::Error>>,
    settings: &Settings,
) -> Result<T, Failure> {
    let result = result.map_err(Into::<anyhow::Error>::into).context("it cannot be used");
    let advice = if settings.database_url.is_some() {
        format!("Start or repair the database, or correct {DATABASE}")
    } else {
        let database = settings.database_setting();
        format!("Repair {database}, or give its files to the user of the service")
    };
    advise(result, advice)
}

async fn sqlite(path: &Path, of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    let shown = path.display();
    if path.exists() {
        usable(check_file(path), &of.settings)?;
    }
    let inspected = adapter_sqlite::inspect(path);
    let is_foreign =
        matches!(inspected, Err(InspectError::Schema(SqliteMigrateError::OtherProgram(_))));
    let missing = inspected.with_context(|| shown.to_string());
    if is_foreign {
        // Repairing it, or giving it to the user of the service, would harm the other program.
        let setting = if of.settings.database_url.is_some() { DATABASE } else { DATA_DIR };
        return advise(missing.context("it cannot be used"), format!("Correct {setting}"))
            .map(drop);
    }
    match usable(missing, &of.settings)? {
        None => found.ok(format!("there is none yet; the first start makes SQLite at {shown}")),
        Some(0) => {
            let limits = of.settings.time_limits.sqlite;
            let store = usable(SqliteStore::open(path, limits), &of.settings)?;
            let checked = store.check().await.context("the database accepts no writes");
            usable(checked.with_context(|| shown.to_string()), &of.settings)?;
            found.ok(format!("SQLite at {shown} accepts writes, and has every migration"));
            judge_orphans(&usable(store.orphans().await, &of.settings)?, found);
            judge_newest(&store, of, found).await;
            judge_secrets(&store, of, found).await;
            judge_webhooks(&store, Instant::now() + LOOK_LIMIT, found).await;
            judge_mails(&store, of, found).await;
            judge_waiting_webhooks(&store, of, found).await;
            judge_retention(&store, of, found).await;
            judge_copy(store, of, found).await;
        }
        Some(missing) => found.warn(
            format!("SQLite at {shown} accepts writes, and lacks {}", migrations(missing)),
            MIGRATE,
        ),
    }
    Ok(())
}

fn postgres(
    inspection: Inspection,
    settings: &Settings,
    found: &mut Findings,
) -> Result<(), Failure> {
    let Inspection { facts, missing_migrations, clock_ahead, round_trip, .. } = inspection;
    let missing_migrations = match missing_migrations {
        Err(error @ MigrateError::DrawsAhead(_)) => advise(Err(error), DRAWS_AHEAD),
        other => usable(other, settings),
    };
    let state = judge_state(&facts, missing_migrations, found);
    judge_durability(&facts, found);
    judge_connections(facts.connections, settings.database_connections, found);
    judge_protection(inspection.protection, found);
    compare_clock("database", clock_ahead, round_trip / 2, NOTHING_DELIVERED, found);
    state
}

fn migrations(missing: usize) -> String {
    counted(&missing, "migration")
}

/// Judges whether a service can start on it, and write.
fn judge_state(
    facts: &Facts,
    missing_migrations: Result<usize, Failure>,
    found: &mut Findings,
) -> Result<(), Failure> {
    let version = format!("PostgreSQL {}", facts.version);
    if facts.version_number < MIN_VERSION {
        found.fail(format!("{version} is too old"), "Use version 13 or newer");
        return Ok(());
    }
    match missing_migrations? {
        _ if facts.is_read_only => found.fail(
            format!("{version} is read-only, or a standby"),
            format!("Name the primary in {DATABASE}, or every host with a comma between them"),
        ),
        0 => found.ok(format!("{version} accepts writes, and has every migration")),
        missing if facts.may_create_tables => {
            found.warn(
                format!("{version} accepts writes, and lacks {}", migrations(missing)),
                MIGRATE,
            );
        }
        missing => found.fail(
            format!(
                "{version} lacks {}, and the user may not create tables in the schema",
                migrations(missing)
            ),
            "Run `notary-orders migrate` as the owner of the schema",
        ),
    }
    Ok(())
}

/// Names what may lose acknowledged orders.
fn judge_durability(facts: &Facts, found: &mut Findings) {
    let before = found.list.len();
    if !facts.fsync {
        found.fail(
            "fsync is off: a crash of the server loses or damages acknowledged orders",
            "Set fsync = on in postgresql.conf",
        );
    }
    let set = &facts.synchronous_commit;
    if facts.waits_for_standbys && ["local", "remote_write"].contains(&set.as_str()) {
        found.warn(
            format!("synchronous_commit is {set}: a failover may lose acknowledged orders"),
            "Set it to on or remote_apply for this user or database",
        );
    }
    if facts.standbys > 0 && !facts.waits_for_standbys {
        found.warn(
            "no commit waits for the standby: a failover may lose acknowledged orders",
            "Set synchronous_standby_names if the standby is to take over",
        );
    }
    if found.list.len() == before {
        found.ok("a commit is durable before an order is acknowledged");
    }
}

/// Names what may show orders to the network.
fn judge_protection(protection: Protection, found: &mut Findings) {
    let advice = || format!("Add sslmode=verify-full to {DATABASE}");
    match protection {
        Protection::Local => found.ok("connections stay on this machine"),
        Protection::Verified => found.ok("connections use TLS, and the server proves its name"),
        Protection::Unverified => {
            found.warn("connections use TLS, but any server is accepted", advice());
        }
        Protection::Plain => {
            found.warn("the URL permits connections to another machine without TLS", advice());
        }
    }
}

fn judge_connections(all: i64, own: usize, found: &mut Findings) {
    if i64::try_from(own + START_CONNECTIONS).is_ok_and(|needed| needed > all) {
        found.fail(
            format!(
                "the server gives this user {}, and an instance uses {own}",
                counted(&all, "connection")
            ),
            "Lower --database-connections (NOTARY_ORDERS_DATABASE_CONNECTIONS), or raise \
             max_connections, or the CONNECTION LIMIT of the user or the database",
        );
    }
}

#[cfg(test)]
mod tests {
    use domain::ports::{FoundUnreadable, MockWebhookQueue, UnreadableRow};

    use super::*;
    use crate::doctor::Level;

    /// Returns a queue of which the first look finds nothing, and the second one an order.
    fn queue() -> MockWebhookQueue {
        let mut queue = MockWebhookQueue::new();
        queue.expect_unreadable().returning(|after, _| {
            let fault = "row 1501 of orders cannot be read: status".to_owned();
            let row = UnreadableRow { is_of_webhooks: false, fault };
            Ok(match after {
                OrderId(0) => FoundUnreadable { rows: vec![], looked_at: Some(OrderId(1_000)) },
                _ => FoundUnreadable { rows: vec![row], looked_at: None },
            })
        });
        queue
    }

    #[tokio::test]
    async fn order_that_cannot_be_read_is_named_wherever_it_is() {
        let mut found = Findings::of("database");
        judge_webhooks(&queue(), Instant::now() + LOOK_LIMIT, &mut found).await;
        let [finding] = &found.list[..] else { panic!("{found:?}") };
        assert_eq!(finding.text, "row 1501 of orders cannot be read: status");
    }

    #[tokio::test]
    async fn look_that_ends_early_says_where() {
        let mut found = Findings::of("database");
        judge_webhooks(&queue(), Instant::now(), &mut found).await;
        assert_eq!(found.levels(), [Level::Ok]);
        assert!(found.list[0].text.contains("up to 1000 "), "{found:?}");
    }

    fn facts() -> Facts {
        Facts {
            version: "17.6".to_owned(),
            version_number: 170_006,
            is_read_only: false,
            may_create_tables: true,
            fsync: true,
            synchronous_commit: "on".to_owned(),
            waits_for_standbys: true,
            standbys: 1,
            connections: 97,
        }
    }

    fn levels(judge: impl FnOnce(&mut Findings)) -> Vec<Level> {
        let mut found = Findings::of("database");
        judge(&mut found);
        found.levels()
    }

    #[test]
    fn server_that_may_lose_orders_is_named() {
        let levels = |facts| levels(|found| judge_durability(&facts, found));
        assert_eq!(levels(facts()), [Level::Ok]);
        assert_eq!(levels(Facts { fsync: false, ..facts() }), [Level::Fail]);
        assert_eq!(levels(Facts { waits_for_standbys: false, ..facts() }), [Level::Warn]);
        let local = Facts { synchronous_commit: "local".to_owned(), ..facts() };
        assert_eq!(levels(local), [Level::Warn]);
        // The service replaces it.
        let off = Facts { synchronous_commit: "off".to_owned(), ..facts() };
        assert_eq!(levels(off), [Level::Ok]);
    }

    #[test]
    fn unusable_state_is_a_failure() {
        let level = |facts, missing| {
            levels(|found| {
                assert!(judge_state(&facts, Ok(missing), found).is_ok());
            })[0]
        };
        assert_eq!(level(facts(), 0), Level::Ok);
        assert_eq!(level(facts(), 1), Level::Warn);
        assert_eq!(level(Facts { may_create_tables: false, ..facts() }, 0), Level::Ok);
        assert_eq!(level(Facts { may_create_tables: false, ..facts() }, 1), Level::Fail);
        assert_eq!(level(Facts { is_read_only: true, ..facts() }, 0), Level::Fail);
        assert_eq!(level(Facts { version_number: 120_022, ..facts() }, 0), Level::Fail);
    }

    #[test]
    fn pool_must_fit_the_limits_of_the_server() {
        for (own, expected) in [(16, &[][..]), (95, &[]), (96, &[Level::Fail])] {
            assert_eq!(levels(|found| judge_connections(97, own, found)), expected, "{own}");
        }
    }

    #[test]
    fn connection_to_another_machine_must_be_verified() {
        for (protection, level) in [
            (Protection::Local, Level::Ok),
            (Protection::Verified, Level::Ok),
            (Protection::Unverified, Level::Warn),
            (Protection::Plain, Level::Warn),
        ] {
            let mut found = Findings::of("database");
            judge_protection(protection, &mut found);
            assert_eq!(found.levels(), [level], "{protection:?}");
            let advises = found.list[0].advice.as_ref().map(|it| it.contains("verify-full"));
            assert_eq!(advises.is_some_and(|it| it), level == Level::Warn);
        }
    }

    #[test]
    fn delivery_that_waits_longer_than_any_delay_is_named() {
        for (longest, expected) in [
            (Duration::days(-1), &[][..]),
            (FARTHEST_DUE, &[]),
            (FARTHEST_DUE + Duration::SECOND, &[Level::Warn]),
            (Duration::days(10 * 365), &[Level::Warn]),
        ] {
            assert_eq!(levels(|found| judge_wait(longest, found)), expected, "{longest}");
        }
    }

    #[test]
    fn clock_far_from_the_newest_row_is_named() {
        for (unused, expected) in [
            (Duration::seconds(-61), &[Level::Fail][..]),
            (Duration::seconds(-60), &[]),
            (Duration::days(7), &[]),
            (Duration::days(4 * 365), &[Level::Warn]),
        ] {
            assert_eq!(levels(|found| judge_unused(unused, found)), expected, "{unused}");
        }
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
            let found = levels(|found| compare_clock("database", ahead, uncertainty, "", found));
            assert_eq!(found, [level], "{ahead}");
        }
        let mut behind = Findings::of("database");
        compare_clock("bucket", Duration::seconds(-90), Duration::ZERO, ": bad", &mut behind);
        let text = "the clock of the bucket is 90.0 s behind that of this machine: bad";
        assert_eq!((behind.list[0].check, &*behind.list[0].text), ("clock", text));
    }
}
