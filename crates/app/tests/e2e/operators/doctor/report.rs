//! The report of `doctor`.

use std::process::Command;

use serde_json::Value;

use crate::{
    harness::service_process::notary_orders,
    wiring::{SECRETS, Wiring},
};

/// The output of the command.
pub struct Report {
    findings: Vec<Value>,
    pub text: String,
}

impl Report {
    /// Runs the doctor on a wiring. Flags replace those of the wiring.
    pub fn on(wiring: &Wiring, flags: &[&str]) -> Self {
        Self::of(notary_orders(wiring, &[flags, &["doctor", "--json"]].concat()))
    }

    /// Runs a command that ends in `doctor --json`.
    pub fn of(mut command: Command) -> Self {
        let output = command.output().unwrap();
        let text = String::from_utf8([output.stdout.clone(), output.stderr].concat()).unwrap();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{text}");
        }
        let findings = String::from_utf8(output.stdout).unwrap();
        let findings: Vec<Value> =
            findings.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // Wrong findings make a failure, and nothing else.
        let failed = findings.iter().any(|finding| finding["level"] == "fail");
        assert_eq!(output.status.code(), Some(i32::from(failed)), "{text}");
        Self { findings, text }
    }

    /// Returns what a check found at a level, separated by line breaks.
    pub fn found(&self, level: &str, check: &str) -> String {
        let texts = self.findings.iter().filter_map(|finding| {
            let is_it = finding["level"] == level && finding["check"] == check;
            is_it.then(|| finding["text"].as_str().unwrap())
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Returns the names of the checks that failed, each once.
    pub fn failed(&self) -> Vec<&str> {
        self.named("fail")
    }

    /// Returns the names of the checks with a warning, each once.
    pub fn doubted(&self) -> Vec<&str> {
        self.named("warn")
    }

    fn named(&self, level: &str) -> Vec<&str> {
        let findings = self.findings.iter().filter(|finding| finding["level"] == level);
        let mut names: Vec<_> =
            findings.map(|finding| finding["check"].as_str().unwrap()).collect();
        names.dedup();
        names
    }
}
