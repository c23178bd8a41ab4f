//! URLs of scanners.

use std::{path::PathBuf, str::FromStr, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    sync::Semaphore,
};
use url::Url;

use crate::failure::Failure;

/// The port of clamd in its manual.
const DEFAULT_PORT: u16 = 3310;

/// Where clamd listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Socket(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
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
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(InvalidUrl)?;
        let has_more = !url.username().is_empty()
            || url.password().is_some()
            || !matches!(url.path(), "" | "/")
            || url.query().is_some()
            || url.fragment().is_some();
        if url.scheme() != "tcp" || has_more {
            return Err(InvalidUrl);
        }
        Ok(Self::Tcp(format!("{host}:{}", url.port().unwrap_or(DEFAULT_PORT))))
    }
}

/// A connection to clamd.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl Address {
    pub(crate) async fn connect(
        &self,
        lookups: &Arc<Semaphore>,
    ) -> Result<Box<dyn Connection>, Failure> {
        Ok(match self {
            Self::Socket(path) => {
                Box::new(UnixStream::connect(path).await.map_err(Failure::Connect)?)
            }
            Self::Tcp(address) => {
                let addresses = names::addresses(lookups, address.clone()).await;
                let addresses = addresses.map_err(Failure::Connect)?;
                let connection = TcpStream::connect(&*addresses).await.map_err(Failure::Connect)?;
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

    #[test]
    fn url_names_a_socket_or_a_host() {
        for (url, address) in [
            ("unix:///run/clamav/clamd.ctl", Ok(Address::Socket("/run/clamav/clamd.ctl".into()))),
            ("unix:///run/a b?c", Ok(Address::Socket("/run/a b?c".into()))),
            ("tcp://scanner:3310", Ok(Address::Tcp("scanner:3310".to_owned()))),
            ("tcp://scanner.example.com", Ok(Address::Tcp("scanner.example.com:3310".to_owned()))),
            ("tcp://127.0.0.1:1/", Ok(Address::Tcp("127.0.0.1:1".to_owned()))),
            ("tcp://[::1]:3310", Ok(Address::Tcp("[::1]:3310".to_owned()))),
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
