//! The welcome text of the first start: where everything is, a link for the first admin, a new API key, and a
//! command that creates an order.

use std::{
    fs,
    io::{self, IsTerminal as _},
    net::SocketAddr,
    os::unix::process,
    path::{Path, absolute},
};

use anyhow::{Context as _, Result};
use domain::{
    api_key::{ApiKey, PresentedKey},
    person::{PersonName, Role},
    use_cases::{
        keys::manage_keys::{KeyTerms, ManageKeys},
        people::manage_people::{InvitationTerms, ManagePeople},
    },
};
use operator::{
    address::local_address,
    private_files::{name_file, prepare_file, prepared_files, replace_file},
    settings::Settings,
};
use rustls::pki_types::{IpAddr::V6, ServerName};

/// The file of the first key in the data directory.
const FILE: &str = "first-key";

/// The file of the link by which the first admin signs in, beside it.
const LINK_FILE: &str = "first-sign-in";

/// The name of the first admin, until they change it.
const FIRST_ADMIN: &str = "First admin";

/// Who has issued it, in the trail of keys.
const ISSUER: &str = "first start";

/// Issues a key if no key was ever issued. Returns a text with the key, if a terminal shows the
/// text. Otherwise the text may stay in a log, so a file that only its owner can read gets the key.
/// The certificate of the API is for `names`.
pub(crate) async fn welcome(
    (keys, people): (&ManageKeys, &ManagePeople),
    settings: &Settings,
    database: &Path,
    names: &[String],
    [api, ops]: [SocketAddr; 2],
    messages_wait: bool,
) -> Result<Option<String>> {
    let (api, port) = (local_address(api), api.port());
    let scheme = if settings.tls_cert.is_some() { "https" } else { "http" };
    let base_url = format!("{scheme}://{api}{}", settings.base_path);
    let places = |sign_in: &str| {
        let mut places = places(settings, database, &base_url, ops, sign_in)?;
        if messages_wait {
            places += "\nmessages   wait: `notary-orders doctor` says why";
        }
        Ok::<_, anyhow::Error>(places)
    };
    let target = match &settings.tls_cert {
        Some(cert) => https_target(&absolute(cert)?, names, api) + &settings.base_path,
        None => base_url.clone(),
    };
    let file = absolute(settings.in_data_dir(FILE))?;
    let link_file = absolute(settings.in_data_dir(LINK_FILE))?;
    let in_file = async || {
        tracing::info!(file = %file.display(), "the first API key is in this file");
        let sign_in = match first_link(people, keys, settings, port).await? {
            Some(link) => {
                let written = replace_file(&link_file, format!("{link}\n").as_bytes());
                written.with_context(|| link_file.display().to_string())?;
                format!("the link in {}", link_file.display())
            }
            None => WITHOUT_LINK.to_owned(),
        };
        let note = format!("It is in {}; move it to a safe place, or keep it", file.display());
        let key = format!("$(cat {})", quoted(&file));
        Ok::<_, anyhow::Error>(text(&note, &key, &places(&sign_in)?, &target))
    };
    if finish(keys, &file).await.with_context(|| file.display().to_string())? {
        return in_file().await.map(Some);
    }
    // In a container the terminal is its log, and its first process has no parent.
    let is_shown =
        io::stdin().is_terminal() && io::stdout().is_terminal() && process::parent_id() > 1;
    let terms = KeyTerms { name: "first start".to_owned(), ..KeyTerms::default() };
    if is_shown {
        let Some((_, key)) = keys.issue_first(terms, ISSUER).await? else { return Ok(None) };
        let sign_in = first_link(people, keys, settings, port).await?;
        let places = places(&sign_in.unwrap_or_else(|| WITHOUT_LINK.to_owned()))?;
        let note = "It is shown only now; keep it";
        return Ok(Some(text(note, key.expose(), &places, &target)));
    }
    if !keys.keys.list().await?.is_empty() {
        return Ok(None);
    }
    let is_written =
        issue_into(keys, terms, &file).await.with_context(|| file.display().to_string())?;
    if is_written { in_file().await.map(Some) } else { Ok(None) }
}

/// What the text says in place of a link.
const WITHOUT_LINK: &str = "the key below";

/// Invites the first admin of the first client, if nobody was ever invited, and returns the link. A start that is
/// killed before it has shown the link leaves `notary-orders people invite`.
async fn first_link(
    people: &ManagePeople,
    keys: &ManageKeys,
    settings: &Settings,
    port: u16,
) -> Result<Option<String>> {
    let issued = keys.keys.list().await?;
    let Some(first) = issued.first().filter(|_| settings.console) else { return Ok(None) };
    let terms = InvitationTerms {
        party: first.party(),
        name: PersonName::from_stored(FIRST_ADMIN.to_owned()),
        email: None,
        role: Role::Admin,
    };
    let invited = people.invite_first(terms).await?;
    Ok(invited.map(|(_, token)| settings.console_link("welcome", &token, port)))
}

/// Issues a key into a file, unless a key was issued meanwhile. The key is in a file before it is issued:
/// a process that is killed leaves no key that nobody has, because the next start finishes the file.
async fn issue_into(keys: &ManageKeys, terms: KeyTerms, file: &Path) -> Result<bool> {
    let (presented, key) = keys.new_key(terms);
    let content = format!("{}\n", presented.expose());
    let prepared = prepare_file(file, content.as_bytes())?;
    match keys.keys.add_first(&key, ISSUER).await {
        Ok(None) => Ok(false),
        Ok(Some(_)) => {
            let named = name_file(prepared, file);
            // Another start may have finished it.
            let is_there = || fs::read_to_string(file).is_ok_and(|found| found == content);
            if named.is_err() && is_there() {
                return Ok(true);
            }
            named.context("the first key was issued; the next start gives it this file")?;
            Ok(true)
        }
        Err(error) => {
            // It may be issued nevertheless.
            prepared.keep()?;
            Err(error.into())
        }
    }
}

/// Gives the file of the first key its name if a start was killed before. Returns whether it did so.
/// Removes files of keys that were not issued, once there is another key: none of them will be.
async fn finish(keys: &ManageKeys, file: &Path) -> Result<bool> {
    for prepared in prepared_files(file)? {
        let text = fs::read_to_string(&prepared).unwrap_or_default();
        let presented = PresentedKey::parse(text.trim());
        let stored = match &presented {
            Some(presented) => keys.keys.find(presented.lookup()).await?,
            None => None,
        };
        let is_issued = |key: ApiKey| Some(key.key.hash) == presented.map(|key| key.hash());
        if stored.is_some_and(is_issued) {
            fs::rename(&prepared, file)?;
            return Ok(true);
        }
        if !keys.keys.list().await?.is_empty() {
            fs::remove_file(&prepared)?;
        }
    }
    Ok(false)
}

/// Returns a path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Returns the arguments by which curl reaches the API on this machine, and verifies it: the
/// options and the URL, which has a name of the certificate.
fn https_target(cert: &Path, names: &[String], api: SocketAddr) -> String {
    let host = names.iter().find_map(|name| {
        let host = name.replace("*.", "orders.");
        match ServerName::try_from(host.as_str()).ok()? {
            ServerName::IpAddress(V6(_)) => Some(format!("[{host}]")),
            _ => Some(host),
        }
    });
    // No client can verify a certificate without names.
    let Some(host) = host else { return format!("--insecure https://{api}") };
    let cert = quoted(cert);
    format!("--cacert {cert} --connect-to ::{api} https://{host}:{}", api.port())
}

/// Returns lines that say where everything is. URLs of other servers are left out: they may contain
/// passwords.
///
/// `sign_in` names the way of the first admin.
fn places(
    settings: &Settings,
    database: &Path,
    base_url: &str,
    ops: SocketAddr,
    sign_in: &str,
) -> Result<String> {
    let documents = match settings.documents() {
        Some(folder) => absolute(folder)?.display().to_string(),
        None => "in the bucket of --documents-url".to_owned(),
    };
    let mails = match settings.mail_drop() {
        Some(folder) => format!("{}, as files; none is sent", absolute(folder)?.display()),
        None => "sent to the relay of --mail-url".to_owned(),
    };
    let ops = local_address(ops);
    let console = if settings.console {
        format!("console    {base_url}/console, for people: sign in by\n           {sign_in}\n")
    } else {
        String::new()
    };
    Ok(format!(
        "{console}API        {base_url}/api, with its guide at {base_url}/docs
health     http://{ops}/readyz, metrics at http://{ops}/metrics
database   {}
documents  {documents}
mails      {mails}",
        absolute(database)?.display()
    ))
}

/// `key` is a word of a shell between double quotes.
fn text(note: &str, key: &str, places: &str, target: &str) -> String {
    let order = concat!(
        r#"{"signingContactsFormData":{"orderContactEmail":"escrow@title.example.com"},"#,
        r#""signingDetailsFormData":{"fileNumber":"FIRST-001","signingDate":"2026-12-01","#,
        r#""signingTimeType":"at","specificTime":"14:30","timeZoneId":"America/Chicago","#,
        r#""propertyAddress":"123 Main St, Dallas, TX 75201","signingType":"Refinance","#,
        r#""signerName":"Jane Doe","signerPhone":"+1 555 010 0199","#,
        r#""signerEmail":"jane.doe@example.com","city":"Dallas","state":"TX","#,
        r#""zipcode":"75201"},"signingServiceId":42,"requestedBy":{"userId":1001}}"#
    );
    format!(
        "
The service runs. This is its first start here:

{places}

No API key was ever issued here, so this start issued one. \
{note} for the next steps of the README:

export API_KEY={key}

`notary-orders doctor` checks the settings and this machine. Create an order:

curl -i {target}/api/order/create -H \"Authorization: Bearer {key}\" \
-H 'Content-Type: application/json' -d '{order}'
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curl_uses_a_name_of_the_certificate() {
        for (api, names, expected) in [
            (
                "127.0.0.1:8443",
                &["a.example", "b.example"][..],
                "--connect-to ::127.0.0.1:8443 https://a.example:8443",
            ),
            ("[::1]:1", &["*.a.example"], "--connect-to ::[::1]:1 https://orders.a.example:1"),
            ("[::1]:1", &["2001:db8::1"], "--connect-to ::[::1]:1 https://[2001:db8::1]:1"),
            // A name cannot become a command of the shell.
            ("127.0.0.1:1", &["$(id)", "a"], "--connect-to ::127.0.0.1:1 https://a:1"),
        ] {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            let target = https_target(Path::new("/tls/it's.pem"), &names, api.parse().unwrap());
            assert_eq!(target, format!(r"--cacert '/tls/it'\''s.pem' {expected}"));
        }
        let target = https_target(Path::new("/c"), &[], "127.0.0.1:1".parse().unwrap());
        assert_eq!(target, "--insecure https://127.0.0.1:1");
    }
}
