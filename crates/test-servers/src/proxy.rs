//! A network between a client and a server on this machine, which can be watched and broken.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// Forwards connections to a port until it is dropped, which ends them.
pub struct Proxy {
    address: SocketAddr,
    network: Arc<Network>,
}

/// When a connection is closed in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// What the client says next, after so many times on whatever connection, does not reach the
    /// server.
    Question(usize),
    /// The server gets that and acts on it, and its answer does not reach the client.
    Answer(usize),
}

#[derive(Default)]
struct Network {
    state: Mutex<State>,
    changed: Condvar,
    /// Answers that began: bytes of the server after bytes of the client.
    round_trips: AtomicUsize,
}

#[derive(Default)]
struct State {
    stalled: bool,
    /// How long everything takes to pass, each way.
    delay: Duration,
    cut: Option<Cut>,
    /// What is counted for it: what holds this text.
    cut_where: String,
    ended: bool,
    connections: Vec<Arc<Link>>,
    accepted: usize,
}

/// One connection of a client, and the one to the server that belongs to it.
struct Link {
    client: TcpStream,
    server: TcpStream,
    /// The client has said something that the server has not answered yet.
    asked: AtomicBool,
    /// Nothing passes any more, and nobody is told.
    lost: AtomicBool,
    /// The connection is closed instead of an answer.
    unanswered: AtomicBool,
}

impl Proxy {
    /// A proxy before a port on 127.0.0.1.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), network: Arc::default() };
        let network = Arc::clone(&proxy.network);
        thread::spawn(move || {
            for client in listener.incoming() {
                if network.state().ended {
                    return;
                }
                // A server that is down refuses the connection, and so does the proxy, as far as it
                // can.
                if let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", port)))
                {
                    network.join(client, server);
                }
            }
        });
        proxy
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How often, over all connections, the server has answered what a client had said: round
    /// trips.
    pub fn round_trips(&self) -> usize {
        self.network.round_trips.load(Ordering::SeqCst)
    }

    /// How many connections were ever made.
    pub fn accepted(&self) -> usize {
        self.network.state().accepted
    }

    /// Nothing passes, on no connection, until [`Self::go_on`]; nothing is lost.
    pub fn stall(&self) {
        self.network.state().stalled = true;
    }

    /// What was held back passes.
    pub fn go_on(&self) {
        self.network.state().stalled = false;
        self.network.changed.notify_all();
    }

    /// Everything takes so long from now on, each way.
    pub fn slow_down(&self, delay: Duration) {
        self.network.state().delay = delay;
    }

    /// Closes one connection, once, in the middle of what goes on there. Nothing is counted that
    /// does not hold this text.
    pub fn cut_once(&self, cut: Cut, text: &str) {
        let mut state = self.network.state();
        (state.cut, state.cut_where) = (Some(cut), text.to_owned());
    }

    /// Whether the connection was closed that was to be; none is any more.
    pub fn was_cut(&self) -> bool {
        self.network.state().cut.take().is_none()
    }

    /// Nothing passes any more on the connections that there are, and nobody is told: the machine
    /// at the other end is gone. New ones work.
    pub fn lose(&self) {
        self.network
            .state()
            .connections
            .iter()
            .for_each(|link| link.lost.store(true, Ordering::SeqCst));
    }

    /// Closes every connection. New ones work.
    pub fn cut(&self) {
        self.network.state().connections.drain(..).for_each(|link| link.close());
        self.network.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.state().ended = true;
        self.cut();
        // The listener notices with the next connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl Network {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn join(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
        }
        let link = Arc::new(Link {
            client,
            server,
            asked: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            unanswered: AtomicBool::new(false),
        });
        let mut state = self.state();
        state.accepted += 1;
        state.connections.push(Arc::clone(&link));
        for from_client in [true, false] {
            let (network, link) = (Arc::clone(self), Arc::clone(&link));
            thread::spawn(move || {
                network.forward(&link, from_client);
                if !link.lost.load(Ordering::SeqCst) {
                    link.close();
                }
            });
        }
    }

    fn forward(&self, link: &Link, from_client: bool) {
        let (mut from, mut to) =
            if from_client { (&link.client, &link.server) } else { (&link.server, &link.client) };
        let mut block = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut block) {
            if from_client {
                link.asked.store(true, Ordering::SeqCst);
            } else if link.asked.swap(false, Ordering::SeqCst) {
                self.round_trips.fetch_add(1, Ordering::SeqCst);
            }
            drop(self.changed.wait_while(self.state(), |state| state.stalled && !state.ended));
            let delay = self.state().delay;
            if !delay.is_zero() {
                thread::sleep(delay);
            }
            if from_client && self.cuts_now(link, &block[..count])
                || !from_client && link.unanswered.load(Ordering::SeqCst)
            {
                return;
            }
            if !link.lost.load(Ordering::SeqCst) && to.write_all(&block[..count]).is_err() {
                return;
            }
        }
    }
}

impl Network {
    /// Whether what a client has just said is not to reach the server.
    fn cuts_now(&self, link: &Link, said: &[u8]) -> bool {
        let mut state = self.state();
        let text = state.cut_where.as_bytes();
        if !text.is_empty() && !said.windows(text.len()).any(|part| part == text) {
            return false;
        }
        let (due, next) = match state.cut {
            Some(Cut::Question(0) | Cut::Answer(0)) => (true, None),
            Some(Cut::Question(more)) => (false, Some(Cut::Question(more - 1))),
            Some(Cut::Answer(more)) => (false, Some(Cut::Answer(more - 1))),
            None => (false, None),
        };
        let question = matches!(state.cut, Some(Cut::Question(_)));
        state.cut = next;
        if due && !question {
            link.unanswered.store(true, Ordering::SeqCst);
        }
        due && question
    }
}

impl Link {
    fn close(&self) {
        // One that is closed already is no failure.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}
