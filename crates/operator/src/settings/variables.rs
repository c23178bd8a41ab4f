//! Environment variables of the settings: blank ones, and ones that name no setting.

use std::{collections::BTreeMap, env};

use clap::Arg;

const PREFIX: &str = "NOTARY_ORDERS_";

/// Similarity from which a name is suggested, between 0 and 1.
const SIMILAR: f64 = 0.5;

/// Names the variable of a setting after its flag. Treats a blank variable as absent: environment
/// files often name a variable without a value.
pub(super) fn with_variable(setting: Arg) -> Arg {
    let variable = match setting.get_long() {
        Some("database-url") => "DATABASE_URL".to_owned(),
        Some(flag) => format!("{PREFIX}{}", flag.to_uppercase().replace('-', "_")),
        None => return setting,
    };
    let is_blank = env::var(&variable).is_ok_and(|value| value.trim().is_empty());
    if is_blank { setting } else { setting.env(variable) }
}

/// Returns the variables that look like a setting and are none, each with the setting whose name is
/// most similar.
pub fn unknown(
    environment: &BTreeMap<String, String>,
    settings: &[String],
) -> Vec<(String, Option<String>)> {
    let unknown = |(variable, value): (&String, &String)| {
        let is_known = settings.contains(variable) || value.trim().is_empty();
        let name = variable.strip_prefix(PREFIX).filter(|_| !is_known)?;
        let nearest = nearest(name, settings).map(|nearest| format!("{PREFIX}{nearest}"));
        Some((variable.clone(), nearest))
    };
    environment.iter().filter_map(unknown).collect()
}

/// Returns the setting whose name is most similar, without the prefix.
fn nearest<'a>(name: &str, settings: &'a [String]) -> Option<&'a str> {
    settings
        .iter()
        .filter_map(|setting| setting.strip_prefix(PREFIX))
        .map(|setting| (strsim::normalized_damerau_levenshtein(name, setting), setting))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, setting)| setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_name_has_a_nearest_setting() {
        let settings = ["LISTEN", "OPS_LISTEN", "MAIL_URL", "MAIL_FROM", "DOCUMENTS_URL"]
            .map(|name| format!("{PREFIX}{name}"));
        for (name, expected) in [
            ("LISTN", Some("LISTEN")),
            ("DOCUMENT_URL", Some("DOCUMENTS_URL")),
            ("MAILURL", Some("MAIL_URL")),
            ("SERVICE_HOST", None),
        ] {
            assert_eq!(nearest(name, &settings), expected, "{name}");
        }
    }
}
