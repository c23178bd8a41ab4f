//! Checks of everything that the service needs, for operators.
//!
//! The checks run beside a service or without one, all at once, and each has a time limit. They
//! change nothing that matters: they make no database, folder or key, and remove what they write.
//!
//! To add a check, write a function like `stores::scanner` and name it in `examine`.

mod accesses;
mod certificate;
mod database;
mod disk;
mod encryption;
mod files;
mod finding;
pub(crate) mod health;
mod logins;
mod proxies;
mod stores;
mod time_zones;

use std::{sync::Arc, thread, time::Duration};

use anyhow::Result;
use tokio::{
    runtime::Handle,
    sync::oneshot,
    time::{Instant, timeout_at},
};

pub(crate) use self::finding::Findings;
use self::finding::{Failure, Subject};
pub use self::finding::{Finding, Level};
use crate::{settings::Settings, system::Machine};

/// Time limit of all checks but one. Longer than those of the dependencies, whose errors say more.
const LIMIT: Duration = Duration::from_secs(12);

/// Time limit of the check that reads all accesses. There may be many millions.
const ACCESSES_LIMIT: Duration = Duration::from_secs(60);

/// The name of a check that runs, and its findings.
type Running = (&'static str, oneshot::Receiver<Vec<Finding>>);

/// Runs a check on a thread of its own, because a disk may not answer.
fn begin<C>(subject: &Arc<Subject>, name: &'static str, check: C) -> Running
where
    C: AsyncFnOnce(&Subject, &mut Findings) -> Result<(), Failure> + Send + 'static,
{
    let (report, running) = oneshot::channel();
    let (runtime, subject) = (Handle::current(), Arc::clone(subject));
    thread::spawn(move || {
        let mut found = Findings::of(name);
        if let Err(Failure(text, advice)) = runtime.block_on(check(&subject, &mut found)) {
            // The check may have gone on to report on something else.
            found.check = name;
            found.fail(text, advice);
        }
        report.send(found.list)
    });
    (name, running)
}

/// Runs every check, and reports each finding as soon as those before it are reported.
///
/// # Errors
/// Only those of `report`.
pub async fn examine(
    settings: &Settings,
    machine: &Machine,
    mut report: impl FnMut(Finding) -> Result<()>,
) -> Result<()> {
    let started = Instant::now();
    let of = &Arc::new(Subject { settings: settings.clone(), clock: Arc::clone(&machine.clock) });
    let checks = [
        begin(of, "database", database::check),
        begin(of, "documents", stores::documents),
        begin(of, "mail", stores::mail),
        begin(of, "scanner", stores::scanner),
        begin(of, "webhooks", stores::webhooks),
        begin(of, "tzdata", time_zones::check),
        begin(of, "disk", disk::check),
        begin(of, "encryption", encryption::check),
        begin(of, "files", files::check),
        begin(of, "certificate", certificate::check),
        begin(of, "proxies", proxies::check),
        begin(of, "logins", logins::logins),
        begin(of, "passkeys", logins::passkeys),
        // Last, because the others do not wait for it.
        begin(of, accesses::NAME, accesses::check),
    ];
    for running in checks {
        end(running, started).await.into_iter().try_for_each(&mut report)?;
    }
    Ok(())
}

/// Waits for the end of a check, up to its limit, and returns its findings.
async fn end((name, running): Running, started: Instant) -> Vec<Finding> {
    let limit = if name == accesses::NAME { ACCESSES_LIMIT } else { LIMIT };
    let mut found = Findings::of(name);
    match timeout_at(started + limit, running).await {
        Ok(Ok(findings)) => found.list = findings,
        // The service has no such limit.
        Err(_) if name == accesses::NAME => found.warn(
            format!("not all rows could be read within {} seconds", limit.as_secs()),
            "Run doctor while the database has less to do, or keep fewer with --access-days \
             (NOTARY_ORDERS_ACCESS_DAYS)",
        ),
        // If it panicked, the log has the location.
        _ => found.fail(
            format!("the check did not end within {} seconds", limit.as_secs()),
            "Look at the disk, the network and the other end",
        ),
    }
    found.list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    #[tokio::test(flavor = "multi_thread")]
    async fn check_that_ends_as_a_failure_has_its_own_name() {
        let clock = Machine::default().clock;
        let of = Arc::new(Subject { settings: settings(&[]), clock });
        let (_, running) = begin(&of, "database", async |_: &Subject, found: &mut Findings| {
            found.check = "clock";
            found.ok("it agrees");
            Err(Failure("it is newer".to_owned(), "Update".to_owned()))
        });
        let names: Vec<_> = running.await.unwrap().iter().map(|one| one.check).collect();
        assert_eq!(names, ["clock", "database"]);
    }

    /// The number of accesses is no fault, and they may take longer than anything else.
    #[tokio::test]
    async fn check_that_does_not_end_is_a_failure_and_that_of_accesses_a_warning() {
        for (name, seconds, expected) in
            [("disk", 12, Level::Fail), (accesses::NAME, 60, Level::Warn)]
        {
            let limit = Duration::from_secs(seconds);
            let (_goes_on, running) = oneshot::channel();
            let found = end((name, running), Instant::now() - limit).await;
            assert_eq!(found.iter().map(|one| one.level).collect::<Vec<_>>(), [expected]);
            let (goes_on, running) = oneshot::channel();
            goes_on.send(Vec::new()).unwrap();
            let just_now = Instant::now() + Duration::from_secs(1) - limit;
            assert_eq!(end((name, running), just_now).await, []);
        }
    }
}
