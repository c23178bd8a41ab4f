//! Names: each client has its share of the lookups, and every address is checked before a connection
//! goes there.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    sync::{Arc, Mutex, PoisonError},
};

use domain::api_key::Party;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use crate::guard::{Guard, Scheme};

/// Names that are resolved at a time: more than all attempts can wait for while the system has not
/// given up names of attempts that ended.
const MAX_LOOKUPS: usize = 1_024;
/// Names of one party that are resolved at a time: more than its attempts, so that none waits for its
/// dead ones. The names of others do not wait for them either.
const MAX_LOOKUPS_OF_PARTY: usize = 64;

/// Finds the addresses of a name. Blocks.
pub(crate) type Find = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Asks the resolver of the system, as every program of the machine does.
pub(crate) fn ask_system(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// Finds the addresses of names, each on a thread of its own.
pub(crate) struct Lookups {
    find: Arc<Find>,
    all: Arc<Semaphore>,
    /// Has an entry for each party with a webhook, which are few.
    of_parties: Mutex<HashMap<Party, Arc<Semaphore>>>,
}

impl Lookups {
    pub(crate) fn new(find: Arc<Find>) -> Self {
        Self { find, all: Arc::new(Semaphore::new(MAX_LOOKUPS)), of_parties: Mutex::default() }
    }

    /// Finds the addresses of a name for a party. A dropped call leaves its thread, which keeps its
    /// permits until the system answers.
    pub(crate) async fn lookup(&self, party: Party, name: &str) -> io::Result<Vec<IpAddr>> {
        let of_party = {
            let mut parties = self.of_parties.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(MAX_LOOKUPS_OF_PARTY));
            Arc::clone(parties.entry(party).or_insert_with(new))
        };
        // The semaphores are never closed.
        let permits = (of_party.acquire_owned().await, self.all.clone().acquire_owned().await);
        let (find, name) = (Arc::clone(&self.find), name.to_owned());
        names::on_thread(move || {
            let _permits = permits;
            find(&name)
        })
        .await
    }
}

tokio::task_local! {
    /// The party whose webhook a task sends, and the scheme of its URL. `reqwest` passes only the
    /// name to a resolver.
    pub(crate) static ATTEMPT: (Party, Scheme);
}

/// The name has no address now.
#[derive(Debug, thiserror::Error)]
#[error("the name has no address")]
pub(crate) struct NoAddress;

/// Gives `reqwest` the addresses of a name for a new connection, if all of them are admitted.
pub(crate) struct Resolver {
    pub lookups: Arc<Lookups>,
    /// The rule that admits addresses. `None` admits all.
    pub admits: Option<Arc<Guard>>,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookups, admits) = (Arc::clone(&self.lookups), self.admits.clone());
        let attempt = ATTEMPT.try_get();
        Box::pin(async move {
            let (party, scheme) = attempt?;
            let addresses = lookups.lookup(party, name.as_str()).await.unwrap_or_default();
            if addresses.is_empty() {
                return Err(NoAddress.into());
            }
            if let Some(guard) = admits {
                guard.admit(scheme, &addresses)?;
            }
            // `reqwest` replaces the port by that of the URL.
            let found = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Condvar,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use domain::api_key::ClientId;
    use futures_util::future::join_all;
    use tokio::{
        task::{JoinSet, spawn_blocking},
        time::timeout,
    };

    use super::*;

    fn client(id: i64) -> Party {
        Party::Client(ClientId(id))
    }

    /// A system whose name servers do not answer for names that begin with `dead`.
    #[derive(Default)]
    struct System {
        answers_all: Mutex<bool>,
        changed: Condvar,
        waiting: AtomicUsize,
    }

    impl System {
        fn find(&self, name: &str) -> Vec<IpAddr> {
            if name.starts_with("dead") {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                let answers = self.answers_all.lock().unwrap();
                drop(self.changed.wait_while(answers, |answers| !*answers).unwrap());
                self.waiting.fetch_sub(1, Ordering::SeqCst);
            }
            vec![IpAddr::from([192, 0, 2, 1])]
        }
    }

    #[tokio::test]
    async fn dead_names_hold_up_only_names_of_their_client() {
        let system = Arc::new(System::default());
        let lookups = Arc::new(Lookups::new({
            let system = Arc::clone(&system);
            Arc::new(move |name: &str| Ok(system.find(name)))
        }));
        let mut dead = JoinSet::new();
        for number in 0..300_i64 {
            let lookups = Arc::clone(&lookups);
            let name = format!("dead{number}.example");
            dead.spawn(async move { lookups.lookup(client(number % 2), &name).await });
        }
        // A client has fewer attempts than that.
        while system.waiting.load(Ordering::SeqCst) < 2 * MAX_LOOKUPS_OF_PARTY {
            tokio::task::yield_now().await;
        }
        let limit = Duration::from_mins(1);
        let others = (0..100).map(|_| lookups.lookup(client(7), "hooks.example"));
        let found = timeout(limit, join_all(others)).await.unwrap();
        assert!(found.into_iter().all(|found| found.unwrap() == [IpAddr::from([192, 0, 2, 1])]));
        // Uploads and mails use these threads.
        timeout(limit, spawn_blocking(|| {})).await.unwrap().unwrap();
        assert_eq!(system.waiting.load(Ordering::SeqCst), 2 * MAX_LOOKUPS_OF_PARTY);
        *system.answers_all.lock().unwrap() = true;
        system.changed.notify_all();
        assert_eq!(timeout(limit, dead.join_all()).await.unwrap().len(), 300);
    }
}
