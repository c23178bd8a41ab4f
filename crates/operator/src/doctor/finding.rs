//! What a check looks at, and what it found.

use std::{fmt, sync::Arc};

use domain::ports::Clock;
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

/// Makes findings of a check.
#[derive(Clone, Copy)]
pub(crate) struct Check(pub(crate) &'static str);

impl Check {
    pub(crate) fn ok(self, text: impl Into<String>) -> Finding {
        self.find(Level::Ok, text, None)
    }

    pub(crate) fn warn(self, text: impl Into<String>, advice: impl Into<String>) -> Finding {
        self.find(Level::Warn, text, Some(advice.into()))
    }

    pub(crate) fn fail(self, text: impl Into<String>, advice: impl Into<String>) -> Finding {
        self.find(Level::Fail, text, Some(advice.into()))
    }

    fn find(self, level: Level, text: impl Into<String>, advice: Option<String>) -> Finding {
        // A message of another program may have several lines.
        let text = text.into().lines().collect::<Vec<_>>().join("; ");
        Finding { level, check: self.0, text, advice }
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

/// What the checks look at.
pub(super) struct Subject {
    pub(super) settings: Settings,
    pub(super) clock: Arc<dyn Clock>,
}
