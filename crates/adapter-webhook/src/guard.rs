//! Which URLs and addresses the service may call.

use std::{net::IpAddr, str::FromStr};

use domain::ports::UrlRefused;
use ipnet::IpNet;
use url::{Host, Url};

use crate::address::is_public;

/// First port that needs no privilege. Below are the services of a system: SSH, SMTP, databases of
/// names.
const FIRST_FREE_PORT: u16 = 1024;

/// Networks that the operator opens for webhooks, and for `http`, although they are not public.
/// Reads networks or addresses, separated by commas.
#[derive(Debug, Clone, Default)]
pub struct Networks(Vec<IpNet>);

/// A text is neither a network nor an address.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no network, such as 10.1.0.0/16, and no address")]
pub struct InvalidNetwork(String);

impl Networks {
    fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl FromStr for Networks {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let network = |text: &str| {
            let text = text.trim();
            let address = || text.parse::<IpAddr>().map(IpNet::from);
            text.parse().or_else(|_| address()).map_err(|_| InvalidNetwork(text.to_owned()))
        };
        text.split(',').map(network).collect::<Result<_, _>>().map(Self)
    }
}

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
    pub open: Networks,
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
            "http" if !self.open.0.is_empty() => Scheme::Http,
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
        if addresses.iter().all(|address| self.open.contain(*address)) {
            return Ok(());
        }
        if scheme == Scheme::Http {
            return Err(only_https());
        }
        let admitted = |address: &IpAddr| is_public(*address) || self.open.contain(*address);
        if addresses.iter().all(admitted) {
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
mod tests;
