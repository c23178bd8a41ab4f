//! The input of the checks, and their findings.

use std::{fmt, sync::Arc};

use domain::ports::{Clock, error_chain};
use serde::Serialize;

use crate::settings::Settings;

/// How a finding is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It is right.
    Ok,
    /// It may be right; the operator decides.
    Warn,
    /// It is wrong.
    Fail,
}

/// The finding of a check, for one line of the report. It has no line break.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether it is right.
    pub level: Level,
    /// The name of the check.
    pub check: &'static str,
    /// The fact. Begins with a small letter, and has no full stop at its end.
    pub text: String,
    /// The advice. Begins with a capital letter, and has no full stop at its end.
    pub advice: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, check, text, advice } = self;
        let level = format!("{level:?}").to_lowercase();
        write!(formatter, "{level:<4}  {check:<11}  {text}")?;
        advice.iter().try_for_each(|advice| write!(formatter, ". {advice}."))
    }
}

/// The text and the advice of a finding that ends its check as a failure.
pub(super) struct Failure(pub(super) String, pub(super) String);

/// Adds the advice to an error.
pub(super) fn advise<T>(
    result: Result<T, impl Into<anyhow::Error>>,
    advice: impl Into<String>,
) -> Result<T, Failure> {
    let result = result.map_err(Into::<anyhow::Error>::into);
    result.map_err(|error| Failure(error_chain(error.as_ref()), advice.into()))
}

/// Collects the findings of a check.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The name of the check.
    pub(crate) check: &'static str,
    pub(crate) list: Vec<Finding>,
}

impl Findings {
    pub(crate) fn of(check: &'static str) -> Self {
        Self { check, list: Vec::new() }
    }

    pub(crate) fn ok(&mut self, text: impl AsRef<str>) {
        self.add(Level::Ok, text.as_ref(), None);
    }

    pub(crate) fn warn(&mut self, text: impl AsRef<str>, advice: impl Into<String>) {
        self.add(Level::Warn, text.as_ref(), Some(advice.into()));
    }

    pub(crate) fn fail(&mut self, text: impl AsRef<str>, advice: impl Into<String>) {
        self.add(Level::Fail, text.as_ref(), Some(advice.into()));
    }

    /// Adds a finding.
    pub(super) fn add(&mut self, level: Level, text: &str, advice: Option<String>) {
        // A message of another program may have several lines.
        let text = text.lines().collect::<Vec<_>>().join("; ");
        self.list.push(Finding { level, check: self.check, text, advice });
    }

    #[cfg(test)]
    pub(super) fn levels(&self) -> Vec<Level> {
        self.list.iter().map(|finding| finding.level).collect()
    }
}

/// The input of the checks.
pub(super) struct Subject {
    pub(super) settings: Settings,
    pub(super) clock: Arc<dyn Clock>,
}
