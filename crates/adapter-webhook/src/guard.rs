//! Which URLs and addresses the service may call.

use std::net::IpAddr;

use domain::ports::UrlRefused;
use ipnet::IpNet;
use url::{Host, Url};

use crate::address::is_public;

/// First port that needs no privilege. Below are the services of a system: SSH, SMTP, databases of
/// names.
const FIRST_FREE_PORT: u16 = 1024;

/// The scheme of a URL that the service may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// To public addresses and opened networks.
    Https,
    /// To opened networks only.
    Http,
}

/// The rules, with the settings of the operator.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Networks that the operator opens for webhooks, and for `http`, although they are not public.
    pub open: Vec<IpNet>,
    /// A proxy resolves names, and decides where they may lead.
    pub proxied: bool,
}

impl Guard {
    /// Reads a URL and checks all of it but the addresses of its name, for [`Guard::admit`]. `Url`
    /// reads each spelling of an address (decimal, octal, hexadecimal, other digits of Unicode) as
    /// the address.
    pub(crate) fn target(&self, text: &str) -> Result<(Url, Scheme), UrlRefused> {
        let url = Url::parse(text).map_err(|_| refused("must be a URL"))?;
        let scheme = match url.scheme() {
            "https" => Scheme::Https,
            "http" if !self.open.is_empty() => Scheme::Http,
            _ => return Err(only_https()),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("must not contain credentials"));
        }
        if url.port().is_some_and(|port| port < FIRST_FREE_PORT) {
            return Err(refused("must have port 443, or one above 1023"));
        }
        match url.host() {
            Some(Host::Ipv4(address)) => self.admit(scheme, &[address.into()])?,
            Some(Host::Ipv6(address)) => self.admit(scheme, &[address.into()])?,
            Some(Host::Domain(_)) if self.proxied && scheme == Scheme::Http => {
                return Err(only_https());
            }
            Some(Host::Domain(_)) => {}
            None => return Err(refused("must have a host")),
        }
        Ok((url, scheme))
    }

    /// Checks the addresses of a host. One that is refused refuses the host: otherwise its name
    /// could lead there when the others do not answer.
    pub(crate) fn admit(&self, scheme: Scheme, addresses: &[IpAddr]) -> Result<(), UrlRefused> {
        let is_open = |address: &IpAddr| self.open.iter().any(|network| network.contains(address));
        if addresses.iter().all(is_open) {
            return Ok(());
        }
        if scheme == Scheme::Http {
            return Err(only_https());
        }
        if addresses.iter().all(|address| is_public(*address) || is_open(address)) {
            return Ok(());
        }
        Err(refused(
            "must not lead to a private, local or reserved address; the operator can open its \
             network with --webhook-allow",
        ))
    }
}

fn only_https() -> UrlRefused {
    refused(
        "must begin with https://; the operator can open networks for http with --webhook-allow",
    )
}

fn refused(reason: &str) -> UrlRefused {
    UrlRefused(reason.to_owned())
}

#[cfg(test)]
#[path = "guard_tests.rs"]
pub(crate) mod tests;
