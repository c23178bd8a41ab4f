//! The commands about API keys.

use std::{
    io::{self, IsTerminal as _, Write as _},
    num::NonZeroU32,
};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use domain::{
    api_key::{
        ApiKey, ApiKeyId, ClientId, KeyChange, KeyEvent, Party, PresentedKey, Rate, Scope, Scopes,
        key_request::{DEFAULT_GRACE_HOURS, MAX_GRACE_HOURS, MAX_KEY_NAME, MAX_LIFETIME_DAYS},
        lookup_of,
    },
    order::{EmailAddress, SigningServiceId},
    ports::ApiKeyRepo,
    use_cases::keys::{
        manage_keys::{KeyError, KeyTerms, ManageKeys},
        revoke_key::{RevokeKey, RevokedKey},
    },
    webhook::Endpoint,
};
use serde_json::json;
use time::{Duration, OffsetDateTime, macros::format_description};

use super::output::{Column, Format, address, at, is_plain, mode, party_name, print, second};
use crate::{
    settings::{WrongSetting, values::whole},
    system::system_user,
};

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Issue a key. Prints only the key to standard output, and only this once
    Issue(Issue),
    /// List all keys ever issued
    List(Format),
    /// Issue a successor on the terms of a key. Prints only the successor to standard output. The
    /// old key stays valid for a while
    Rotate {
        /// Identifier or public part of the old key, as listed
        #[arg(value_parser = key_name)]
        id: KeyName,
        /// Hours for which the old key stays valid
        #[arg(
            long,
            value_name = "N",
            default_value_t = DEFAULT_GRACE_HOURS,
            value_parser = whole::<u32>(0..=MAX_GRACE_HOURS.into())
        )]
        grace_hours: u32,
    },
    /// Revoke a key. Names the webhook endpoints that it has made. The last valid key of a client or
    /// signing service disables all of them
    Revoke {
        /// Identifier or public part of the key, as listed: nok_ and the digits up to the next _
        #[arg(value_parser = key_name)]
        id: KeyName,
        /// Disable the webhook endpoints that the key has made. On a terminal, the command asks
        #[arg(long)]
        webhooks: bool,
    },
    /// Show the history of keys: which operator issued, rotated and revoked which key, and when
    #[command(visible_alias = "audit")]
    Trail(Format),
}

/// The name of a key on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyName {
    Id(i64),
    /// Its lookup part.
    Lookup(String),
}

pub(super) fn key_name(text: &str) -> Result<KeyName, String> {
    if let Some(lookup) = lookup_of(text.trim()) {
        return Ok(KeyName::Lookup(lookup.to_owned()));
    }
    // The text may be a part of a key.
    text.parse().map(KeyName::Id).map_err(|_| {
        "must be a number or nok_ with the digits of the public part, as `keys list` shows them"
            .to_owned()
    })
}

/// Returns the identifier of a key. An unknown number is left to the use case.
pub(super) async fn id_of(keys: &dyn ApiKeyRepo, name: KeyName) -> Result<i64> {
    match name {
        KeyName::Id(id) => Ok(id),
        KeyName::Lookup(lookup) => {
            let found = keys.find(&lookup).await?;
            let found = found.ok_or_else(|| anyhow!("there is no key with this public part"))?;
            Ok(found.id.0)
        }
    }
}

#[derive(Debug, Args)]
pub struct Issue {
    /// Name of the key
    #[arg(long, value_parser = name)]
    name: String,
    /// The only signing service for which the key may create orders
    #[arg(long, value_name = "ID", value_parser = whole::<i64>(1..=i64::MAX))]
    signing_service: Option<i64>,
    /// Issue a key of the signing service of this number. It reads and changes the orders of the
    /// service, of all clients, and creates none
    #[arg(
        long,
        value_name = "ID",
        value_parser = whole::<i64>(1..=i64::MAX),
        conflicts_with_all = ["signing_service", "client", "client_name"]
    )]
    for_service: Option<i64>,
    /// Permission of the key: orders:create, orders:read or webhooks:manage; a key of a signing
    /// service orders:read, orders:update or webhooks:manage. Repeat it for several. The default is
    /// orders:create and orders:read; for a signing service orders:read and orders:update
    #[arg(long = "scope", value_name = "SCOPE", value_parser = scope)]
    scopes: Vec<Scope>,
    /// Issue one more key for the client of this identifier, as listed. It sees the same orders
    #[arg(long, value_name = "ID", value_parser = whole::<i64>(1..=i64::MAX))]
    client: Option<i64>,
    /// Name of the new client, which both sides of its orders see; the default is the name of the key
    #[arg(long, value_name = "NAME", value_parser = party_name, conflicts_with = "client")]
    client_name: Option<String>,
    /// Days until the key expires
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=MAX_LIFETIME_DAYS.into()))]
    expires_in_days: Option<u32>,
    /// Address of the client or service that is told of webhook endpoints that fail, of rejected requests, and of
    /// a key that reads many orders
    #[arg(long, value_name = "EMAIL", value_parser = address)]
    contact: Option<EmailAddress>,
    /// Issue a test key: its orders are answered like all others, and no mail is sent
    #[arg(long)]
    test: bool,
    // The rate limits. The default is the limit of the service.
    /// Orders without documents per second
    #[arg(long, value_name = "N", requires = "limit_burst", value_parser = rate_part)]
    limit_per_second: Option<NonZeroU32>,
    /// Burst of orders without documents
    #[arg(long, value_name = "N", requires = "limit_per_second", value_parser = rate_part)]
    limit_burst: Option<NonZeroU32>,
    /// Orders with documents per second
    #[arg(long, value_name = "N", requires = "documents_limit_burst", value_parser = rate_part)]
    documents_limit_per_second: Option<NonZeroU32>,
    /// Burst of orders with documents
    #[arg(
        long,
        value_name = "N",
        requires = "documents_limit_per_second",
        value_parser = rate_part
    )]
    documents_limit_burst: Option<NonZeroU32>,
}

pub(super) async fn run(
    command: KeysCommand,
    revoke: RevokeKey,
    now: OffsetDateTime,
) -> Result<()> {
    let keys = &revoke.keys;
    match command {
        KeysCommand::Issue(terms) => issue(keys, terms).await,
        KeysCommand::List(format) => list(&keys.keys.list().await?, format, now),
        KeysCommand::Rotate { id, grace_hours } => {
            rotate(keys, id_of(&*keys.keys, id).await?, grace_hours).await
        }
        KeysCommand::Revoke { id, webhooks } => {
            revoke_key(&revoke, id_of(&*keys.keys, id).await?, webhooks).await
        }
        KeysCommand::Trail(format) => list_trail(&keys.keys.trail().await?, format),
    }
}

async fn issue(keys: &ManageKeys, issue: Issue) -> Result<()> {
    let scopes = scopes(issue.scopes, issue.for_service.is_some())?;
    let terms = KeyTerms {
        name: issue.name,
        signing_service: issue.signing_service.map(SigningServiceId),
        for_service: issue.for_service.map(SigningServiceId),
        scopes,
        client: issue.client.map(ClientId),
        client_name: issue.client_name,
        lifetime: issue.expires_in_days.map(|days| Duration::days(days.into())),
        is_test: issue.test,
        rate: rate(issue.limit_per_second, issue.limit_burst),
        documents_rate: rate(issue.documents_limit_per_second, issue.documents_limit_burst),
        contact: issue.contact,
    };
    let (id, key) = match keys.issue(terms, &system_user()).await {
        Err(KeyError::UnknownClient) => bail!(
            "there is no client {}; `keys list` shows the client of each key",
            issue.client.unwrap_or_default()
        ),
        issued => issued?,
    };
    show(id, &key)?;
    eprintln!("issued as key {}", id.0);
    Ok(())
}

async fn rotate(keys: &ManageKeys, id: i64, grace_hours: u32) -> Result<()> {
    let grace = Duration::hours(grace_hours.into());
    match keys.rotate(ApiKeyId(id), grace, &system_user()).await {
        Ok((successor, presented, old_until)) => {
            show(successor, &presented)?;
            eprintln!(
                "issued as key {}, the successor of key {id}, which is valid until {}",
                successor.0,
                second(old_until)
            );
            Ok(())
        }
        Err(KeyError::Unknown) => bail!("there is no key {id}"),
        Err(KeyError::Invalid) => bail!("key {id} is revoked or expired; issue a new one"),
        Err(error) => Err(anyhow!(error)),
    }
}

async fn revoke_key(revoke: &RevokeKey, id: i64, with_webhooks: bool) -> Result<()> {
    let revoked = revoke.revoke(ApiKeyId(id), &system_user()).await?;
    let RevokedKey { made, mut disabled, .. } =
        revoked.ok_or_else(|| anyhow!("there is no key {id}"))?;
    print(&format!("key {id} is revoked\n"))?;
    if with_webhooks || (!made.is_empty() && wants_disabled(&made)?) {
        revoke.disable(&made).await?;
        disabled.extend(made);
    } else {
        for endpoint in &made {
            let name = named(endpoint);
            eprintln!(
                "{name}, which it has made, still gets events; `keys revoke {id} --webhooks` disables it"
            );
        }
    }
    for endpoint in &disabled {
        eprintln!("{} is disabled", named(endpoint));
    }
    Ok(())
}

fn named(Endpoint { id, url, .. }: &Endpoint) -> String {
    format!("webhook endpoint {} ({})", id.0, url.escape_debug())
}

/// Asks the operator, on a terminal.
fn wants_disabled(made: &[Endpoint]) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    let names: Vec<_> = made.iter().map(named).collect();
    eprint!("It has made {}. Disable them? [y/N] ", names.join(", "));
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn scope(name: &str) -> Result<Scope, String> {
    Scope::from_name(name)
        .ok_or_else(|| format!("the scopes are {}", Scope::ALL.map(Scope::as_str).join(", ")))
}

/// Returns the scopes of a new key; the default if none are named.
fn scopes(named: Vec<Scope>, of_service: bool) -> Result<Scopes, WrongSetting> {
    let (kind, possible, default) = if of_service {
        ("a signing service", Scope::OF_SERVICES, Scope::DEFAULT_OF_SERVICES)
    } else {
        ("a client", Scope::OF_CLIENTS, Scope::DEFAULT)
    };
    match named.iter().find(|scope| !possible.contains(scope)) {
        Some(scope) => {
            let scope = scope.as_str();
            Err(anyhow!("--scope {scope}: a key of {kind} cannot have it").into())
        }
        None if named.is_empty() => Ok(Scopes::from_iter(default)),
        None => Ok(Scopes::from_iter(named)),
    }
}

fn rate_part(text: &str) -> Result<NonZeroU32, String> {
    let number = whole::<u32>(1..=u32::MAX.into());
    number(text).map(|number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
}

fn rate(per_second: Option<NonZeroU32>, burst: Option<NonZeroU32>) -> Option<Rate> {
    let rate = |(per_second, burst): (NonZeroU32, NonZeroU32)| Rate {
        per_second: per_second.get(),
        burst: burst.get(),
    };
    per_second.zip(burst).map(rate)
}

/// Prints only the key to standard output, so that scripts can read it. The key is not available
/// later.
fn show(id: ApiKeyId, key: &PresentedKey) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let shown = writeln!(stdout, "{}", key.expose()).and_then(|()| stdout.flush());
    shown.with_context(|| format!("key {} was issued and could not be shown; revoke it", id.0))
}

fn name(text: &str) -> Result<String, String> {
    let rule =
        || format!("must be one line of at most {MAX_KEY_NAME} visible characters, and not blank");
    is_plain(text, MAX_KEY_NAME).then(|| text.to_owned()).ok_or_else(rule)
}

fn list_trail(events: &[KeyEvent], format: Format) -> Result<()> {
    let what = |event: &KeyEvent| match event.change {
        KeyChange::Issued => "issued".to_owned(),
        KeyChange::Rotated { successor } => format!("rotated to key {}", successor.0),
        KeyChange::Revoked => "revoked".to_owned(),
    };
    let columns: [Column<'_, KeyEvent>; 4] = [
        ("WHEN", "", &|event| at(event.at)),
        ("KEY", "", &|event| json!(event.key.0)),
        ("WHAT", "", &|event| json!(what(event))),
        ("BY", "", &|event| json!(event.by)),
    ];
    format.print(&columns, events)
}

fn list(keys: &[ApiKey], format: Format, now: OffsetDateTime) -> Result<()> {
    let state = |listed: &ApiKey| match (listed.revoked_at, listed.key.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(end)) if end <= now => "expired",
        _ => "valid",
    };
    let client = |listed: &ApiKey| match listed.party() {
        Party::Client(client) => Some(client.0),
        Party::Service(_) => None,
    };
    let limit = |rate: Option<Rate>| {
        json!(rate.map(|Rate { per_second, burst }| {
            json!({ "per_second": per_second, "burst": burst })
        }))
    };
    let client_name = |listed: &ApiKey| {
        let first = keys.iter().find(|key| Some(key.id.0) == client(listed))?;
        Some(first.client_name().to_owned())
    };
    let party = |listed: &ApiKey| match (client(listed), client_name(listed)) {
        (Some(client), Some(name)) => format!("{client} {name}"),
        _ => listed.party().to_string(),
    };
    // The end of a key that was rotated may be hours away, so its minute counts.
    let end = |listed: &ApiKey| {
        let minute = format_description!("[year]-[month]-[day] [hour]:[minute]Z");
        listed.key.expires_at.and_then(|end| end.to_utc().format(minute).ok())
    };
    let of_table: [Column<'_, ApiKey>; 8] = [
        ("NAME", "", &|listed| json!(listed.key.name)),
        ("KEY", "", &|listed| json!(listed.public_part())),
        ("ID", "", &|listed| json!(listed.id.0)),
        ("STATE", "", &|listed| json!(state(listed))),
        ("MODE", "", &|listed| mode(listed.key.is_test)),
        ("EXPIRES", "never", &|listed| json!(end(listed))),
        ("CLIENT", "", &|listed| json!(party(listed))),
        ("LAST USED", "never", &|listed| {
            json!(listed.last_used_at.map(|at| at.date().to_string()))
        }),
    ];
    let columns: [Column<'_, ApiKey>; 15] = [
        ("ID", "", &|listed| json!(listed.id.0)),
        ("STATE", "", &|listed| json!(state(listed))),
        ("MODE", "", &|listed| mode(listed.key.is_test)),
        ("ISSUED", "", &|listed| at(listed.key.issued_at)),
        ("EXPIRES", "never", &|listed| at(listed.key.expires_at)),
        ("LAST USED", "never", &|listed| at(listed.last_used_at)),
        ("SIGNING SERVICE", "any", &|listed| json!(listed.key.signing_service.map(|id| id.0))),
        ("LIMIT", "default", &|listed| limit(listed.key.rate)),
        ("WITH DOCUMENTS", "default", &|listed| limit(listed.key.documents_rate)),
        ("CLIENT", "-", &|listed| json!(client(listed))),
        ("CLIENT NAME", "-", &|listed| json!(client_name(listed))),
        ("FOR SERVICE", "-", &|listed| json!(listed.key.for_service.map(|id| id.0))),
        ("SCOPES", "", &|listed| {
            json!(listed.key.scopes.to_string().split(' ').collect::<Vec<_>>())
        }),
        ("KEY", "", &|listed| json!(listed.public_part())),
        ("NAME", "", &|listed| json!(listed.key.name)),
    ];
    format.print_both(&of_table, &[("NAME", 14), ("CLIENT", 14)], &columns, keys)
}
