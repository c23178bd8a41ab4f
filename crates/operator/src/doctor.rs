//! Checks of everything that the service needs, for operators.
//!
//! The checks run beside a service or without one, all at once, and each has a time limit. They
//! change nothing that matters: they make no database, folder or key, and remove what they write.
//!
//! To add a check, write a function like `stores::scanner` and name it in `examine`.

mod certificate;
mod database;
mod disk;
mod finding;
mod network;
mod stores;
mod time_zones;

use std::{sync::Arc, thread, time::Duration};

use anyhow::Result;
use tokio::{
    runtime::Handle,
    sync::oneshot,
    time::{Instant, timeout_at},
};

pub(crate) use self::finding::Check;
use self::finding::Subject;
pub use self::finding::{Finding, Level};
use crate::{settings::Settings, system::Machine};

/// Time limit of all checks. Longer than those of the dependencies, whose errors say more.
const LIMIT: Duration = Duration::from_secs(12);

/// The findings of a check that runs.
type Running = oneshot::Receiver<Vec<Finding>>;

/// Runs a check on a thread of its own, because a disk may not answer.
fn begin<F>(subject: &Arc<Subject>, check: impl FnOnce(Arc<Subject>) -> F) -> Running
where
    F: Future<Output = Vec<Finding>> + Send + 'static,
{
    let (report, running) = oneshot::channel();
    let (runtime, check) = (Handle::current(), check(Arc::clone(subject)));
    thread::spawn(move || report.send(runtime.block_on(check)));
    running
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
    let end = Instant::now() + LIMIT;
    let of = &Arc::new(Subject { settings: settings.clone(), clock: Arc::clone(&machine.clock) });
    let checks = [
        ("database", begin(of, database::check)),
        ("documents", begin(of, stores::documents)),
        ("mail", begin(of, stores::mail)),
        ("scanner", begin(of, stores::scanner)),
        ("webhooks", begin(of, stores::webhooks)),
        ("traces", begin(of, stores::traces)),
        ("clock", begin(of, database::clock)),
        ("tzdata", begin(of, time_zones::check)),
        ("disk", begin(of, disk::check)),
        ("files", begin(of, network::open_files)),
        ("ports", begin(of, network::ports)),
        ("certificate", begin(of, certificate::check)),
        ("proxies", begin(of, network::proxies)),
    ];
    for (name, running) in checks {
        let findings = match timeout_at(end, running).await {
            Ok(Ok(findings)) => findings,
            Err(_) => {
                let text = format!("no answer within {} seconds", LIMIT.as_secs());
                vec![Check(name).fail(text, "Look at the disk, the network and the other end")]
            }
            // It panicked. The log has the location.
            Ok(Err(_)) => {
                let advice = "This is a fault of the program: report it";
                vec![Check(name).fail("the check did not end", advice)]
            }
        };
        findings.into_iter().try_for_each(&mut report)?;
    }
    Ok(())
}
