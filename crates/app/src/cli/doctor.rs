//! The command that checks everything.

use anyhow::{Result, bail};
use clap::Args;

use super::output::{print, without_credentials};
use crate::{
    doctor::{Finding, Level, examine},
    settings::{Settings, variables::Unknown},
    system::Machine,
};

const CHECK: &str = "settings";

#[derive(Debug, Args)]
pub(super) struct DoctorCommand {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// What the command line found out about the settings.
    #[arg(skip)]
    pub(super) settings: Vec<Finding>,
}

/// Returns the finding for a variable with an invalid value. The other checks use the default.
pub(super) fn wrong_variable(variable: &str, error: &clap::Error) -> Finding {
    let error = error.to_string();
    let cause = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let advice = format!("Correct {variable}; the service does not start with it");
    Finding::fail(CHECK, cause, advice)
}

/// Returns the finding for a variable that names no setting.
pub(super) fn unknown_variable(unknown: &Unknown) -> Finding {
    let text = format!("the variable {} is unknown and ignored", unknown.variable);
    let advice = match &unknown.nearest {
        Some(nearest) => format!("Rename it to {nearest}, or remove it"),
        None => "Remove it; on Kubernetes set enableServiceLinks: false".to_owned(),
    };
    Finding::warn(CHECK, text, advice)
}

/// Prints every finding. Fails if one is a failure.
pub(super) async fn run(
    command: DoctorCommand,
    settings: &Settings,
    machine: &Machine,
) -> Result<()> {
    let DoctorCommand { json, settings: mut findings } = command;
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "all flags and variables can be read"));
    }
    let mut failures = 0;
    let mut report = |finding: Finding| {
        failures += u32::from(finding.level == Level::Fail);
        let finding = Finding {
            text: without_credentials(&finding.text),
            advice: finding.advice.as_deref().map(without_credentials),
            ..finding
        };
        let line = if json { serde_json::to_string(&finding)? } else { finding.to_string() };
        print(&(line + "\n"))
    };
    findings.into_iter().try_for_each(&mut report)?;
    examine(settings, machine, report).await?;
    match failures {
        0 => Ok(()),
        1 => bail!("1 check failed"),
        _ => bail!("{failures} checks failed"),
    }
}
