//! The address of a client: the peer of the connection, or what a trusted proxy reports.

use std::net::IpAddr;

use actix_web::{HttpRequest, http::header};
use ipnet::IpNet;

/// Returns the address of the client. Reads `X-Forwarded-For` from the right, and only as far as
/// trusted proxies have written it: a client can forge everything to the left.
pub(crate) fn address(request: &HttpRequest, trusted_proxies: &[IpNet]) -> Option<IpAddr> {
    let trusted =
        |address: IpAddr| trusted_proxies.iter().any(|network| network.contains(&address));
    let mut address = request.peer_addr()?.ip().to_canonical();
    let forwarded: Vec<&str> = request
        .headers()
        .get_all(header::X_FORWARDED_FOR)
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    for hop in forwarded.into_iter().rev() {
        if !trusted(address) {
            break;
        }
        match hop.trim().parse::<IpAddr>() {
            Ok(hop) => address = hop.to_canonical(),
            Err(_) => break,
        }
    }
    Some(address)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn seen(peer: &str, forwarded: &[&'static str], proxies: &[&str]) -> IpAddr {
        let mut request = TestRequest::default().peer_addr(format!("{peer}:1234").parse().unwrap());
        for value in forwarded {
            request = request.append_header((header::X_FORWARDED_FOR, *value));
        }
        let proxies: Vec<IpNet> = proxies.iter().map(|network| network.parse().unwrap()).collect();
        address(&request.to_http_request(), &proxies).unwrap()
    }

    #[test]
    fn untrusted_peer_cannot_name_a_client() {
        assert_eq!(seen("192.0.2.1", &["203.0.113.9"], &[]).to_string(), "192.0.2.1");
        assert_eq!(seen("192.0.2.1", &["203.0.113.9"], &["10.0.0.0/8"]).to_string(), "192.0.2.1");
    }

    #[test]
    fn trusted_proxy_names_the_client() {
        assert_eq!(seen("10.0.0.1", &["203.0.113.9"], &["10.0.0.0/8"]).to_string(), "203.0.113.9");
        assert_eq!(
            seen("10.0.0.1", &["198.51.100.1, 203.0.113.9", "10.0.0.2"], &["10.0.0.0/8"])
                .to_string(),
            "203.0.113.9"
        );
        assert_eq!(
            seen("10.0.0.1", &["forged", "unknown"], &["10.0.0.0/8"]).to_string(),
            "10.0.0.1"
        );
        assert_eq!(seen("10.0.0.1", &[], &["10.0.0.0/8"]).to_string(), "10.0.0.1");
    }
}
