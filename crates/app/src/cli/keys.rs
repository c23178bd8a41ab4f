//! The commands about API keys.

use std::{fmt::Write as _, io::Write as _};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use domain::{
    api_key::{ApiKey, ApiKeyId, KeyChange, PresentedKey, Rate},
    manage_keys::{KeyTerms, ManageKeys, RotateError},
    order::SigningServiceId,
};
use time::{Duration, OffsetDateTime};

use super::{KeysCommand, print, second};

/// Longest name of a key, or of an operator in the trail.
const MAX_CHARS: usize = 100;

pub(super) async fn run(
    command: KeysCommand,
    keys: &ManageKeys,
    now: OffsetDateTime,
) -> Result<()> {
    match command {
        KeysCommand::Issue { name, signing_service, expires_in_days, test, limits } => {
            ensure!(
                is_plain(&name),
                "--name must be one line of at most {MAX_CHARS} characters that can all be seen, and not blank"
            );
            let terms = KeyTerms {
                name,
                signing_service: signing_service.map(SigningServiceId),
                lifetime: expires_in_days.map(|days| Duration::days(days.into())),
                is_test: test,
                rate: rate(limits.limit_per_second, limits.limit_burst),
                documents_rate: rate(
                    limits.documents_limit_per_second,
                    limits.documents_limit_burst,
                ),
            };
            let (id, key) = keys.issue(terms, &operator()).await?;
            show(id, &key)?;
            eprintln!("issued as key {}", id.0);
            Ok(())
        }
        KeysCommand::List => print(&table(&keys.list().await?, now)?),
        KeysCommand::Rotate { id, grace_hours } => match keys
            .rotate(ApiKeyId(id), Duration::hours(grace_hours.into()), &operator())
            .await
        {
            Ok(rotation) => {
                show(rotation.id, &rotation.presented)?;
                eprintln!(
                    "issued as key {} in the place of key {id}, which is good until {}",
                    rotation.id.0,
                    second(rotation.old_until)
                );
                Ok(())
            }
            Err(RotateError::Unknown) => bail!("there is no key {id}"),
            Err(RotateError::NotLive) => bail!("key {id} is revoked or expired; issue a new one"),
            Err(error @ RotateError::Store(_)) => Err(anyhow!(error)),
        },
        KeysCommand::Revoke { id } => match keys.revoke(ApiKeyId(id), &operator()).await? {
            Some(_) => print(&format!("key {id} is revoked\n")),
            None => bail!("there is no key {id}"),
        },
        KeysCommand::Trail => {
            let mut table = format!("{:<20}  {:>6}  {:<24}  BY\n", "WHEN", "KEY", "WHAT");
            for event in keys.trail().await? {
                let what = match event.change {
                    KeyChange::Issued => "issued".to_owned(),
                    KeyChange::Rotated { successor } => format!("rotated to key {}", successor.0),
                    KeyChange::Revoked => "revoked".to_owned(),
                };
                writeln!(
                    table,
                    "{:<20}  {:>6}  {what:<24}  {}",
                    second(event.at),
                    event.key.0,
                    event.by
                )?;
            }
            print(&table)
        }
    }
}

fn rate(per_second: Option<u32>, burst: Option<u32>) -> Option<Rate> {
    per_second.zip(burst).map(|(per_second, burst)| Rate { per_second, burst })
}

/// Shows a key alone on standard output, for scripts. Nothing else will ever show it.
fn show(id: ApiKeyId, key: &PresentedKey) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let shown = writeln!(stdout, "{}", key.expose()).and_then(|()| stdout.flush());
    shown.with_context(|| format!("key {} was issued and could not be shown; revoke it", id.0))
}

/// Whether a text can be shown in a table as what it is: no control, invisible or
/// direction-changing characters.
fn is_plain(text: &str) -> bool {
    let hidden = |character: char| {
        character.is_control()
            || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    !text.trim().is_empty() && text.chars().count() <= MAX_CHARS && !text.chars().any(hidden)
}

/// Who runs the command: whoever became another user to do so, or the user. It can be forged by
/// whoever may run the command.
fn operator() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|name| !name.trim().is_empty());
    let plain = named.unwrap_or_else(|| "unknown".to_owned());
    plain.chars().filter(|character| !character.is_control()).take(MAX_CHARS).collect()
}

fn table(keys: &[ApiKey], now: OffsetDateTime) -> Result<String> {
    let mut table = format!(
        "{:>6}  {:<8} {:<10} {:<20} {:<20} {:<20} {:>15} {:>12} {:>14}  NAME\n",
        "ID",
        "STATE",
        "KIND",
        "ISSUED",
        "EXPIRES",
        "LAST USED",
        "SIGNING SERVICE",
        "LIMIT",
        "WITH DOCUMENTS"
    );
    for ApiKey { id, key, revoked_at, last_used_at } in keys {
        let state = match (revoked_at, key.expires_at) {
            (Some(_), _) => "revoked",
            (None, Some(end)) if end <= now => "expired",
            _ => "live",
        };
        let kind = if key.is_test { "test" } else { "production" };
        let instant =
            |instant: Option<OffsetDateTime>| instant.map_or_else(|| "never".to_owned(), second);
        let limit = |rate: Option<Rate>| {
            rate.map_or_else(
                || "default".to_owned(),
                |rate| format!("{}/s, {}", rate.per_second, rate.burst),
            )
        };
        let service =
            key.signing_service.map_or_else(|| "any".to_owned(), |service| service.0.to_string());
        let (issued, expires, used) =
            (second(key.issued_at), instant(key.expires_at), instant(*last_used_at));
        let (orders, with_documents) = (limit(key.rate), limit(key.documents_rate));
        writeln!(
            table,
            "{:>6}  {state:<8} {kind:<10} {issued:<20} {expires:<20} {used:<20} {service:>15} {orders:>12} {with_documents:>14}  {}",
            id.0, key.name
        )?;
    }
    Ok(table)
}
