//! What a check found.

use std::fmt;

use serde::Serialize;
use tokio::task::JoinError;

/// The findings of a check that has ended. An error means that it panicked.
pub(super) type Checked = Result<Vec<Finding>, JoinError>;

/// How a finding is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It is right.
    Ok,
    /// It may be right; the operator decides.
    Warn,
    /// It is wrong.
    Fail,
}

/// What a check found, for one line of the report. It has no line break.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether it is right.
    pub level: Level,
    /// The name of the check.
    pub check: &'static str,
    /// What was found. Begins with a small letter, and has no full stop at its end.
    pub text: String,
    /// What to do. Begins with a capital letter, and has no full stop at its end.
    pub advice: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self::new(Level::Ok, check, text, None)
    }

    pub(crate) fn warn(
        check: &'static str,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(Level::Warn, check, text, Some(advice.into()))
    }

    pub(crate) fn fail(
        check: &'static str,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(Level::Fail, check, text, Some(advice.into()))
    }

    fn new(
        level: Level,
        check: &'static str,
        text: impl Into<String>,
        advice: Option<String>,
    ) -> Self {
        // A message of another program may have several lines.
        let text = text.into().lines().collect::<Vec<_>>().join("; ");
        Self { level, check, text, advice }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, check, text, advice } = self;
        let level = match level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "fail",
        };
        write!(formatter, "{level:<4}  {check:<11}  {text}")?;
        advice.iter().try_for_each(|advice| write!(formatter, ". {advice}."))
    }
}
