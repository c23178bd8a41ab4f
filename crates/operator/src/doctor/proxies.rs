//! The proxies that may name the addresses of clients.

use std::net::IpAddr;

use anyhow::Context as _;
use ipnet::IpNet;

use super::finding::{Failure, Findings, Subject, advise};
use crate::{adapters::LISTEN, address::resolve, settings::Settings};

const PROXIES: &str = "--trusted-proxies (NOTARY_ORDERS_TRUSTED_PROXIES)";

pub(super) async fn check(of: &Subject, found: &mut Findings) -> Result<(), Failure> {
    let Settings { listen, trusted_proxies, tls_cert, .. } = &of.settings;
    let listen = advise(resolve(listen).await.context(LISTEN), "Correct it, or repair the DNS")?;
    judge(listen.ip(), trusted_proxies, tls_cert.is_some(), found);
    Ok(())
}

fn judge(listen: IpAddr, proxies: &[IpNet], has_tls: bool, found: &mut Findings) {
    // Larger than any private network: `10.0.0.0/8` and `fc00::/7`.
    let is_too_broad =
        |network: &&IpNet| network.prefix_len() < if network.addr().is_ipv4() { 8 } else { 7 };
    for network in proxies.iter().filter(is_too_broad) {
        found.fail(
            format!("{network} is trusted, so that clients can forge their addresses"),
            format!("Name only your proxies in {PROXIES}"),
        );
    }
    match proxies {
        [] if listen.is_loopback() || has_tls => found.ok(format!(
            "none is trusted: right without a proxy; name one that there is in {PROXIES}"
        )),
        [] => found.warn(
            format!("other machines reach the API at {listen}, and no proxy is trusted"),
            format!(
                "Put a proxy with TLS before it and name it in {PROXIES}; otherwise all its \
                 clients share the rate limit of one address"
            ),
        ),
        [_] if found.list.is_empty() => found.ok("1 network is trusted"),
        _ if found.list.is_empty() => {
            found.ok(format!("{} networks are trusted", proxies.len()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn trusted_proxies_must_fit_the_address() {
        for (listen, proxies, has_tls, levels) in [
            ("127.0.0.1", &[][..], false, &[Level::Ok][..]),
            ("::1", &[], false, &[Level::Ok]),
            ("0.0.0.0", &[], false, &[Level::Warn]),
            // Clients reach the service itself.
            ("0.0.0.0", &[], true, &[Level::Ok]),
            ("127.0.0.1", &["127.0.0.1/32"], false, &[Level::Ok]),
            ("0.0.0.0", &["10.0.0.0/8", "fc00::/7"], false, &[Level::Ok]),
            ("0.0.0.0", &["0.0.0.0/0", "::/0"], false, &[Level::Fail, Level::Fail]),
            ("127.0.0.1", &["0.0.0.0/0"], false, &[Level::Fail]),
        ] {
            let networks: Vec<IpNet> = proxies.iter().map(|text| text.parse().unwrap()).collect();
            let mut found = Findings::of("proxies");
            judge(listen.parse().unwrap(), &networks, has_tls, &mut found);
            assert_eq!(found.levels(), levels, "{listen} {proxies:?}");
        }
    }
}
