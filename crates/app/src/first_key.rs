//! The welcome text of the first start: a new API key, and a command that creates an order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Result;
use domain::manage_keys::{KeyTerms, ManageKeys};

/// Issues a key if no key was ever issued. Returns a text with the key, which is not available
/// later.
pub(crate) async fn welcome(
    keys: &ManageKeys,
    api: SocketAddr,
    base_path: &str,
    uses_tls: bool,
) -> Result<Option<String>> {
    let terms = KeyTerms { name: "first start".to_owned(), ..KeyTerms::default() };
    let issued = keys.issue_first(terms, "first start").await?;
    // The certificate does not name the address of this machine.
    let scheme = if uses_tls { "--insecure https" } else { "http" };
    let base_url = format!("{scheme}://{}{base_path}", local_address(api));
    Ok(issued.map(|(_, key)| text(key.expose(), &base_url)))
}

/// Returns an address that this machine can connect to: the loopback address instead of the
/// unspecified one.
fn local_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn text(key: &str, base_url: &str) -> String {
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
No API key was ever issued here, so this start issued one. \
It is shown only now; keep it for the next steps of the README:

export API_KEY={key}

Create an order:

curl -i {base_url}/api/order/create -H 'Authorization: Bearer {key}' \
-H 'Content-Type: application/json' -d '{order}'
"
    )
}
