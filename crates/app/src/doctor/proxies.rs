//! The proxies that may name the addresses of clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::finding::Finding;
use crate::settings::Settings;

const CHECK: &str = "proxies";
const SETTING: &str = "--trusted-proxies (NOTARY_ORDERS_TRUSTED_PROXIES)";

pub(super) fn check(settings: &Settings) -> Vec<Finding> {
    judge(settings.listen.ip(), &settings.trusted_proxies, settings.tls_cert.is_some())
}

fn judge(listen: IpAddr, proxies: &[IpNet], has_tls: bool) -> Vec<Finding> {
    let broad = proxies.iter().filter(|network| is_too_broad(network)).map(|network| {
        Finding::fail(
            CHECK,
            format!("{network} is trusted, so that clients can forge their addresses"),
            format!("Name only your proxies in {SETTING}"),
        )
    });
    let mut findings: Vec<_> = broad.collect();
    let is_local = listen.is_loopback();
    // From where the proxies of this machine connect.
    let here: IpAddr =
        if listen.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    match proxies {
        [] if is_local || has_tls => findings.push(Finding::ok(
            CHECK,
            format!("none is trusted: right without a proxy; name one that there is in {SETTING}"),
        )),
        [] => findings.push(Finding::warn(
            CHECK,
            format!("other machines reach the API at {listen}, and no proxy is trusted"),
            format!(
                "Put a proxy with TLS before it and name it in {SETTING}; otherwise all its \
                 clients share the rate limit of one address"
            ),
        )),
        _ if is_local && !proxies.iter().any(|network| network.contains(&here)) => {
            findings.push(Finding::fail(
                CHECK,
                format!("only this machine reaches the API at {listen}, and {here} is not trusted"),
                format!("Add {here} to {SETTING}, or listen on another address"),
            ));
        }
        _ if findings.is_empty() => findings.push(Finding::ok(
            CHECK,
            format!("{} addresses or networks are trusted", proxies.len()),
        )),
        _ => {}
    }
    findings
}

/// Returns whether a network is larger than any private one: `10.0.0.0/8` and `fc00::/7`.
fn is_too_broad(network: &IpNet) -> bool {
    match network {
        IpNet::V4(network) => network.prefix_len() < 8,
        IpNet::V6(network) => network.prefix_len() < 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn trusted_proxies_must_fit_the_address() {
        for (listen, proxies, levels) in [
            ("127.0.0.1", &[][..], &[Level::Ok][..]),
            ("::1", &[], &[Level::Ok]),
            ("0.0.0.0", &[], &[Level::Warn]),
            ("127.0.0.1", &["127.0.0.1/32"], &[Level::Ok]),
            ("127.0.0.1", &["10.0.0.0/8"], &[Level::Fail]),
            ("0.0.0.0", &["10.0.0.0/8", "fc00::/7"], &[Level::Ok]),
            ("0.0.0.0", &["0.0.0.0/0", "::/0"], &[Level::Fail, Level::Fail]),
            ("127.0.0.1", &["0.0.0.0/0"], &[Level::Fail]),
        ] {
            let networks: Vec<IpNet> = proxies.iter().map(|text| text.parse().unwrap()).collect();
            let found = judge(listen.parse().unwrap(), &networks, false);
            let found: Vec<_> = found.iter().map(|finding| finding.level).collect();
            assert_eq!(found, levels, "{listen} {proxies:?}");
        }
        // Clients reach the service itself.
        let found = judge("0.0.0.0".parse().unwrap(), &[], true);
        assert_eq!(found.first().map(|finding| finding.level), Some(Level::Ok));
    }
}
