//! Checks of everything that the service needs, for operators.
//!
//! The checks run beside a service or without one, all at once, and each has a time limit. They
//! change nothing that matters: they make no database, folder or key, and remove what they write.
//!
//! To add a check, write a module like `mail` and name it in `checks`.

mod certificate;
mod clock;
mod database;
mod disk;
mod documents;
mod finding;
mod mail;
mod open_files;
mod ports;
mod proxies;
mod scanner;
mod traces;
mod webhooks;

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use futures_util::future::{BoxFuture, FutureExt as _, ready};
use tokio::{
    task::{spawn, spawn_blocking},
    time::{Instant, timeout_at},
};

use self::finding::Checked;
pub use self::finding::{Finding, Level};
use crate::{settings::Settings, system::Machine};

/// Time limit of all checks. Longer than those of the dependencies, whose errors say more.
const LIMIT: Duration = Duration::from_secs(12);

/// A check that runs.
type Check = BoxFuture<'static, Checked>;

/// Returns the checks by name, in the order of the report.
fn checks(settings: &Arc<Settings>, machine: &Machine) -> [(&'static str, Check); 12] {
    let settings = || Arc::clone(settings);
    let ours = || Arc::clone(&machine.clock);
    [
        ("database", begin(database::check(settings(), ours()))),
        ("documents", begin(documents::check(settings(), ours()))),
        ("mail", begin(mail::check(settings()))),
        ("scanner", begin(scanner::check(settings()))),
        ("webhooks", blocking(settings(), webhooks::check)),
        ("traces", begin(traces::check(settings()))),
        ("clock", ready(Ok(clock::check(&settings(), &*ours()))).boxed()),
        ("disk", blocking(settings(), disk::check)),
        ("files", begin(open_files::check(settings()))),
        ("ports", begin(ports::check(settings()))),
        ("certificate", begin(certificate::check(settings(), ours()))),
        ("proxies", ready(Ok(proxies::check(&settings()))).boxed()),
    ]
}

/// Runs a check, whether its outcome is awaited yet or not.
fn begin(check: impl Future<Output = Checked> + Send + 'static) -> Check {
    spawn(check).map(Result::flatten).boxed()
}

/// Runs a check on a thread of its own, because a disk may not answer.
fn blocking(settings: Arc<Settings>, check: fn(&Settings) -> Vec<Finding>) -> Check {
    spawn_blocking(move || check(&settings)).boxed()
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
    // They run already.
    for (name, check) in checks(&Arc::new(settings.clone()), machine) {
        let findings = match timeout_at(end, check).await {
            Ok(Ok(findings)) => findings,
            Err(_) => {
                let text = format!("no answer within {} seconds", LIMIT.as_secs());
                vec![Finding::fail(name, text, "Look at the disk, the network and the other end")]
            }
            // The log has its location.
            Ok(Err(_)) => {
                let advice = "This is a fault of the program: report it";
                vec![Finding::fail(name, "the check did not end", advice)]
            }
        };
        findings.into_iter().try_for_each(&mut report)?;
    }
    Ok(())
}
