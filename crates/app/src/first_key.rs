//! What a newcomer is shown at the first start: a key, and an order to create with it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Result;
use domain::manage_keys::{KeyTerms, ManageKeys};

/// Issues a key if none was ever issued; the text shows it, which nothing will do again.
pub(crate) async fn welcome(
    keys: &ManageKeys,
    api: SocketAddr,
    base_path: &str,
) -> Result<Option<String>> {
    let terms = KeyTerms { name: "first start".to_owned(), ..KeyTerms::default() };
    let issued = keys.issue_first(terms, "first start").await?;
    Ok(issued.map(|(_, key)| text(key.expose(), &format!("http://{}{base_path}", reachable(api)))))
}

/// An address that listens everywhere is reached on this machine by the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
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
        r#""signingDetailsFormData":{"fileNumber":"FIRST-001","signingDate":"2026-12-01","signingTimeType":"at","specificTime":"14:30","#,
        r#""timeZoneId":"America/Chicago","propertyAddress":"123 Main St, Dallas, TX 75201","signingType":"Refinance","signerName":"Jane Doe","#,
        r#""signerPhone":"+1 555 010 0199","signerEmail":"jane.doe@example.com","city":"Dallas","state":"TX","zipcode":"75201"},"#,
        r#""signingServiceId":42,"requestedBy":{"userId":1001}}"#
    );
    format!(
        "\nNo API key was ever issued here, so this start issued one. It is shown only now; keep it for the next steps of the README:\n\n\
         export API_KEY={key}\n\n\
         Create an order:\n\n\
         curl -i {base_url}/api/order/create -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d '{order}'\n"
    )
}
