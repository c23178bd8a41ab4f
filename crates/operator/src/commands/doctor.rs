//! The command that checks everything.

use anyhow::{Result, bail};
use clap::Args;

use super::output::{print, without_credentials};
use crate::{
    doctor::{Check, Finding, Level, examine},
    settings::{Settings, variables::Unknown},
    system::Machine,
};

const CHECK: Check = Check("settings");

/// The flags of the doctor.
#[derive(Debug, Args)]
pub struct DoctorCommand {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// What the command line found out about the settings.
    #[arg(skip)]
    settings: Vec<Finding>,
}

impl DoctorCommand {
    /// Notes a variable with an invalid value. The other checks use the default.
    pub fn note_wrong(&mut self, variable: &str, error: &clap::Error) {
        let error = error.to_string();
        let cause = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let advice = format!("Correct {variable}; the service does not start with it");
        self.settings.push(CHECK.fail(cause, advice));
    }

    /// Notes a variable that names no setting.
    pub fn note_unknown(&mut self, Unknown { variable, nearest }: &Unknown) {
        let text = format!("the variable {variable} is unknown and ignored");
        let advice = match nearest {
            Some(nearest) => format!("Rename it to {nearest}, or remove it"),
            None => "Remove it; on Kubernetes set enableServiceLinks: false".to_owned(),
        };
        self.settings.push(CHECK.warn(text, advice));
    }

    /// Prints every finding. Fails if one is a failure.
    pub(super) async fn run(self, settings: &Settings, machine: &Machine) -> Result<()> {
        let mut findings = self.settings;
        if findings.is_empty() {
            findings.push(CHECK.ok("all flags and variables can be read"));
        }
        let mut failures = 0;
        let mut report = |finding: Finding| {
            failures += u32::from(finding.level == Level::Fail);
            let finding = Finding {
                text: without_credentials(&finding.text),
                advice: finding.advice.as_deref().map(without_credentials),
                ..finding
            };
            let line =
                if self.json { serde_json::to_string(&finding)? } else { finding.to_string() };
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
}
