//! The command that checks everything.

use anyhow::{Result, bail};
use clap::Args;

use super::output::{print, without_credentials};
use crate::{
    doctor::{Finding, Findings, Level, examine},
    settings::Settings,
    system::Machine,
};

/// The flags of the doctor.
#[derive(Debug, Args)]
pub struct DoctorCommand {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// The result of reading the settings.
    #[arg(skip = Findings::of("settings"))]
    settings: Findings,
}

impl DoctorCommand {
    /// Notes a variable with an invalid value. The other checks use the default.
    pub fn note_wrong(&mut self, variable: &str, error: &clap::Error) {
        let error = error.to_string();
        let cause = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let advice = format!("Correct {variable}; the service does not start with it");
        self.settings.fail(cause, advice);
    }

    /// Notes a variable that names no setting, and the setting with the nearest name.
    pub fn note_unknown(&mut self, variable: &str, nearest: Option<&str>) {
        let advice = match nearest {
            Some(nearest) => format!("Rename it to {nearest}, or remove it"),
            None => "Remove it; on Kubernetes set enableServiceLinks: false".to_owned(),
        };
        self.settings.warn(format!("the variable {variable} is unknown and ignored"), advice);
    }

    /// Prints every finding. Fails if one is a failure.
    pub(super) async fn run(mut self, settings: &Settings, machine: &Machine) -> Result<()> {
        if self.settings.list.is_empty() {
            self.settings.ok("all flags and variables can be read");
        }
        let mut failures = 0;
        let mut report = |mut finding: Finding| {
            failures += u32::from(finding.level == Level::Fail);
            finding.text = without_credentials(&finding.text);
            finding.advice = finding.advice.as_deref().map(without_credentials);
            let line =
                if self.json { serde_json::to_string(&finding)? } else { finding.to_string() };
            print(&(line + "\n"))
        };
        self.settings.list.into_iter().try_for_each(&mut report)?;
        examine(settings, machine, report).await?;
        match failures {
            0 => Ok(()),
            1 => bail!("1 check failed"),
            _ => bail!("{failures} checks failed"),
        }
    }
}
