//! The malware scanner, if the settings name one.

use std::sync::Arc;

use domain::ports::{DocumentScanner as _, error_chain};

use super::finding::{Checked, Finding};
use crate::{
    adapters::{SCANNER, scanner},
    settings::Settings,
};

const CHECK: &str = "scanner";

pub(super) async fn check(settings: Arc<Settings>) -> Checked {
    let scanner = match scanner(&settings) {
        Ok(None) => return Ok(Vec::new()),
        Ok(Some(scanner)) => scanner,
        Err(error) => {
            let text = error_chain(error.as_ref());
            return Ok(vec![Finding::fail(CHECK, text, format!("Correct {SCANNER}"))]);
        }
    };
    let finding = match scanner.check().await {
        Ok(()) => Finding::ok(CHECK, "it answers"),
        Err(error) => {
            let advice = format!("Start it, or correct {SCANNER}");
            Finding::fail(CHECK, error_chain(&error), advice)
        }
    };
    Ok(vec![finding])
}
