//! URLs of scanners.

use std::{path::PathBuf, str::FromStr};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};
use url::{Host, Url};

use crate::failure::Failure;

/// The port of clamd in its manual.
const DEFAULT_PORT: u16 = 3310;

/// Where clamd listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Socket(PathBuf),
    Tcp { host: String, port: u16 },
}

/// The text is no URL of a scanner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is neither unix:///PATH nor tcp://HOST:PORT")]
pub struct InvalidUrl;

impl FromStr for Address {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        if let Some(path) = text.strip_prefix("unix://") {
            let names_a_file = path.starts_with('/') && !path.ends_with('/');
            return names_a_file.then(|| Self::Socket(path.into())).ok_or(InvalidUrl);
        }
        let url: Url = text.parse().map_err(|_| InvalidUrl)?;
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => return Err(InvalidUrl),
        };
        let has_more = !url.username().is_empty()
            || url.password().is_some()
            || !matches!(url.path(), "" | "/")
            || url.query().is_some()
            || url.fragment().is_some();
        if url.scheme() != "tcp" || has_more {
            return Err(InvalidUrl);
        }
        Ok(Self::Tcp { host, port: url.port().unwrap_or(DEFAULT_PORT) })
    }
}

/// A connection to clamd.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl Address {
    pub(crate) async fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        Ok(match self {
            Self::Socket(path) => {
                Box::new(UnixStream::connect(path).await.map_err(Failure::Connect)?)
            }
            Self::Tcp { host, port } => {
                let connection =
                    TcpStream::connect((host.as_str(), *port)).await.map_err(Failure::Connect)?;
                // The last block of a document would wait for a delayed acknowledgement.
                connection.set_nodelay(true).map_err(Failure::Connect)?;
                Box::new(connection)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn url_names_a_socket_or_a_host() {
        for (url, address) in [
            ("unix:///run/clamav/clamd.ctl", Ok(Address::Socket("/run/clamav/clamd.ctl".into()))),
            ("unix:///run/a b?c", Ok(Address::Socket("/run/a b?c".into()))),
            ("tcp://scanner:3310", Ok(tcp("scanner", 3310))),
            ("tcp://scanner.example.com", Ok(tcp("scanner.example.com", 3310))),
            ("tcp://127.0.0.1:1/", Ok(tcp("127.0.0.1", 1))),
            ("tcp://[::1]:3310", Ok(tcp("::1", 3310))),
        ] {
            assert_eq!(url.parse(), address, "{url}");
        }
    }

    #[test]
    fn other_urls_are_rejected() {
        for url in "|unix://|unix://run/clamd.ctl|unix:///|unix:///run/|unix:/run/clamd.ctl|\
             /run/clamd.ctl|tcp://|tcp://:3310|tcp://host:99999|tcp://user@host|\
             tcp://user:secret@host|tcp://host/path|tcp://host?query|tcp://host#fragment|\
             tcp:host:3310|http://host:3310|host:3310"
            .split('|')
        {
            assert_eq!(url.parse::<Address>(), Err(InvalidUrl), "{url}");
        }
    }
}
