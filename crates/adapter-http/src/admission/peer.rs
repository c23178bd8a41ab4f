//! The address of a client: the peer of the connection, or what trusted proxies report.

use std::net::IpAddr;

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderName},
};
use domain::access::{SITE_BITS, network_of};
use ipnet::IpNet;

/// An address that a header names; `None` if it is hidden, unknown or malformed.
type Hop = Option<IpAddr>;

/// Returns whether an address is that of a trusted proxy.
pub(crate) fn is_proxy(peer: IpAddr, trusted_proxies: &[IpNet]) -> bool {
    trusted_proxies.iter().any(|network| network.contains(&peer.to_canonical()))
}

/// The proxies that report the addresses of clients.
#[derive(Debug, Clone)]
pub struct Proxies {
    /// Their networks.
    pub trusted: Vec<IpNet>,
    /// The header that they maintain: `Forwarded` (RFC 7239), or else one like `X-Forwarded-For`.
    pub header: HeaderName,
}

/// Returns the address of the client. Reads the header of the proxies from the right, and only as far
/// as trusted proxies have written it: a client can forge everything to the left.
pub(crate) fn address(request: &HttpRequest, proxies: &Proxies) -> Option<IpAddr> {
    let peer = request.peer_addr()?.ip().to_canonical();
    let read = if proxies.header == header::FORWARDED {
        forwarded
    } else {
        |value: &str| value.split(',').map(node).collect()
    };
    let values = request.headers().get_all(&proxies.header);
    let hops = values.flat_map(|value| value.to_str().map_or_else(|_| vec![None], read)).collect();
    Some(nearest_untrusted(peer, hops, &proxies.trusted))
}

/// Returns the /64 network of an IPv6 address, because one host can use all of it.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    network_of(peer, 64)
}

/// Returns the network of a whole site.
pub(crate) fn site(peer: IpAddr) -> IpAddr {
    network_of(peer, SITE_BITS)
}

fn nearest_untrusted(peer: IpAddr, hops: Vec<Hop>, trusted_proxies: &[IpNet]) -> IpAddr {
    let mut address = peer;
    for hop in hops.into_iter().rev() {
        match hop {
            Some(hop) if is_proxy(address, trusted_proxies) => address = hop,
            _ => break,
        }
    }
    address
}

/// Reads a value of `Forwarded`. A quote without its end could hide what a proxy has added, so then
/// nothing of the value counts.
fn forwarded(value: &str) -> Vec<Hop> {
    let Some(elements) = split(value, ',') else { return vec![None] };
    let hop = |element: &str| {
        let pairs = split(element, ';')?;
        let mut hops = pairs.into_iter().filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            name.trim().eq_ignore_ascii_case("for").then(|| node(value))
        });
        let first = hops.next()?;
        first.filter(|_| hops.next().is_none())
    };
    elements.into_iter().map(hop).collect()
}

/// Splits a text at a separator outside of quoted strings (RFC 9110, section 5.6.4). Returns `None`
/// if a quote does not end.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = text
        .split(|c: char| {
            let ends = c == separator && !quoted;
            quoted ^= c == '"' && !escaped;
            escaped = c == '\\' && quoted && !escaped;
            ends
        })
        .collect();
    (!quoted).then_some(parts)
}

/// Reads an address with or without a port (RFC 7239, section 6): `192.0.2.1:4711`,
/// `"[2001:db8::1]:4711"`. Ports may be hidden, too: `192.0.2.1:_port`.
fn node(text: &str) -> Hop {
    let text = text.trim();
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        // An IPv6 address without brackets has no port.
        None if text.matches(':').count() > 1 => (text, ""),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let named = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_port = |port: &str| !port.is_empty() && port.chars().all(named);
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return None;
    }
    host.parse().ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const PROXY: &str = "10.0.0.1";

    /// Returns the address of a request with headers that all have one name.
    fn seen_with(peer: &str, headers: &[(&'static str, &str)], proxies: &[&str]) -> String {
        let name = headers.first().map_or("x-forwarded-for", |(name, _)| name);
        let mut request = TestRequest::default().peer_addr(format!("{peer}:1234").parse().unwrap());
        for header in headers {
            request = request.append_header(*header);
        }
        let trusted = proxies.iter().map(|network| network.parse().unwrap()).collect();
        let proxies = Proxies { trusted, header: HeaderName::from_static(name) };
        address(&request.to_http_request(), &proxies).unwrap().to_string()
    }

    /// Returns the address of a request that came through a trusted proxy.
    fn seen(headers: &[(&'static str, &str)]) -> String {
        seen_with(PROXY, headers, &["10.0.0.0/8"])
    }

    #[test]
    fn untrusted_peer_cannot_name_a_client() {
        let headers = [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=203.0.113.9")];
        for (header, proxies) in headers.iter().zip([&[][..], &["10.0.0.0/8"]]) {
            assert_eq!(seen_with("192.0.2.1", &[*header], proxies), "192.0.2.1");
        }
    }

    #[test]
    fn trusted_proxy_names_the_client() {
        assert_eq!(seen(&[("x-forwarded-for", "203.0.113.9")]), "203.0.113.9");
        let twice =
            [("x-forwarded-for", "198.51.100.1, 203.0.113.9"), ("x-forwarded-for", "10.0.0.2")];
        assert_eq!(seen(&twice), "203.0.113.9");
        assert_eq!(seen(&[("x-forwarded-for", "forged, unknown")]), PROXY);
        assert_eq!(seen(&[]), PROXY);
        let twice = [
            ("forwarded", "for=198.51.100.1;proto=https, For=\"203.0.113.9:4711\";by=_edge"),
            ("forwarded", "by=10.0.0.1;for=10.0.0.2"),
        ];
        assert_eq!(seen(&twice), "203.0.113.9");
    }

    #[test]
    fn port_is_no_part_of_the_address() {
        for (text, address) in [
            ("203.0.113.9:4711", "203.0.113.9"),
            ("203.0.113.9:_port", "203.0.113.9"),
            ("[2001:db8::7]:4711", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("2001:db8::7", "2001:db8::7"),
            ("\"[2001:db8::7]:4711\"", "2001:db8::7"),
            ("[::ffff:203.0.113.9]:4711", "203.0.113.9"),
        ] {
            assert_eq!(seen(&[("x-forwarded-for", text)]), address, "{text}");
            assert_eq!(seen(&[("forwarded", &format!("for={text}"))]), address, "{text}");
        }
    }

    #[test]
    fn hidden_or_malformed_hop_is_the_proxy() {
        for text in [
            "unknown",
            "_hidden",
            "",
            "203.0.113.9:",
            "[2001:db8::7]4711",
            "[2001:db8::7",
            "\"203.0.113.9",
            "203.0.113.9 x",
            "256.0.0.1",
            "fe80::1%eth0",
            "203.0.113.9:1:2",
        ] {
            assert_eq!(seen(&[("x-forwarded-for", text)]), PROXY, "{text}");
            assert_eq!(seen(&[("forwarded", &format!("for={text}"))]), PROXY, "{text}");
        }
        for text in ["by=203.0.113.9", "for=192.0.2.7;for=203.0.113.9"] {
            assert_eq!(seen(&[("forwarded", text)]), PROXY, "{text}");
        }
    }

    #[test]
    fn quotes_of_a_client_do_not_hide_what_the_proxy_added() {
        for forged in ["for=192.0.2.7;x=\"", "for=192.0.2.7;x=\"\\", "for=\"192.0.2.7"] {
            for added in ["for=203.0.113.9", "for=\"[2001:db8::9]:4711\""] {
                assert_eq!(
                    seen(&[("forwarded", &format!("{forged}, {added}"))]),
                    PROXY,
                    "{forged}"
                );
            }
        }
        assert_eq!(
            seen(&[("forwarded", "for=192.0.2.7;x=\", for=198.51.100.1\", for=203.0.113.9")]),
            "203.0.113.9"
        );
    }

    #[test]
    fn only_the_header_of_the_setting_counts() {
        let (chosen, other) = (("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=192.0.2.7"));
        assert_eq!(seen(&[chosen, other]), "203.0.113.9");
        assert_eq!(seen(&[other, chosen]), "192.0.2.7");
    }
}
