//! The welcome text of the first start: where everything is, a new API key, and a command that
//! creates an order.

use std::{net::SocketAddr, path::absolute};

use anyhow::Result;
use domain::manage_keys::{KeyTerms, ManageKeys};

use crate::{
    listen::local_address,
    settings::{Database, Settings},
};

/// Issues a key if no key was ever issued. Returns a text with the key, which is not available
/// later.
pub(crate) async fn welcome(
    keys: &ManageKeys,
    settings: &Settings,
    api: SocketAddr,
    ops: SocketAddr,
) -> Result<Option<String>> {
    let terms = KeyTerms { name: "first start".to_owned(), ..KeyTerms::default() };
    let Some((_, key)) = keys.issue_first(terms, "first start").await? else { return Ok(None) };
    let scheme = if settings.tls_cert.is_some() { "https" } else { "http" };
    let base_url = format!("{scheme}://{}{}", local_address(api), settings.base_path);
    let places = places(settings, &base_url, ops)?;
    // The certificate does not name the address of this machine.
    let option = if settings.tls_cert.is_some() { "--insecure " } else { "" };
    Ok(Some(text(key.expose(), &places, &format!("{option}{base_url}"))))
}

/// Returns lines that say where everything is. URLs of other servers are left out: they may contain
/// passwords.
fn places(settings: &Settings, base_url: &str, ops: SocketAddr) -> Result<String> {
    let database = match settings.database()? {
        Database::Sqlite(path) => absolute(path)?.display().to_string(),
        Database::Postgres(_) => "PostgreSQL".to_owned(),
    };
    let documents = match settings.documents() {
        Some(folder) => absolute(folder)?.display().to_string(),
        None => "in the bucket of --documents-url".to_owned(),
    };
    let mails = match settings.mail_drop() {
        Some(folder) => format!("{}, as files; none is sent", absolute(folder)?.display()),
        None => "sent to the relay of --mail-url".to_owned(),
    };
    let ops = local_address(ops);
    Ok(format!(
        "API        {base_url}/api, with its guide at {base_url}/docs
health     http://{ops}/readyz, metrics at http://{ops}/metrics
database   {database}
documents  {documents}
mails      {mails}"
    ))
}

fn text(key: &str, places: &str, base_url: &str) -> String {
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
It is shown only now; keep it for the next steps of the README:

export API_KEY={key}

`notary-orders doctor` checks the settings and this machine. Create an order:

curl -i {base_url}/api/order/create -H 'Authorization: Bearer {key}' \
-H 'Content-Type: application/json' -d '{order}'
"
    )
}
