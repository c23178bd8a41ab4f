//! Names: every address of a name is checked before a connection goes there.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::guard::{Guard, Scheme};

/// Finds the addresses of a name.
#[async_trait]
pub(crate) trait Lookup: Send + Sync {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the resolver of the system, as every program of the machine does.
pub(crate) struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// The name has no address now.
#[derive(Debug, thiserror::Error)]
#[error("the name has no address")]
pub(crate) struct NoAddress;

/// Gives `reqwest` the addresses of a name for a new connection, if all of them are admitted.
pub(crate) struct GuardedResolver {
    pub lookup: Arc<dyn Lookup>,
    pub guard: Arc<Guard>,
    pub scheme: Scheme,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, guard, scheme) =
            (Arc::clone(&self.lookup), Arc::clone(&self.guard), self.scheme);
        Box::pin(async move {
            let addresses = lookup.lookup(name.as_str()).await.unwrap_or_default();
            if addresses.is_empty() {
                return Err(NoAddress.into());
            }
            guard.admit(scheme, &addresses)?;
            // `reqwest` replaces the port by that of the URL.
            let found = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}
