//! A proxy between a client and a local server. Tests use it to observe and break the connection.

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

/// Forwards connections to a port. Dropping it closes them.
pub struct Proxy {
    address: SocketAddr,
    network: Arc<Network>,
}

/// When the proxy closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Before it forwards a request of the client, after so many requests on all connections.
    Question(usize),
    /// After it has forwarded that request, before it forwards the response.
    Answer(usize),
}

#[derive(Default)]
struct Network {
    state: Mutex<State>,
    changed: Condvar,
    /// Responses that began: bytes of the server after bytes of the client.
    round_trips: AtomicUsize,
}

#[derive(Default)]
struct State {
    stalled: bool,
    /// Delay in each direction.
    delay: Duration,
    cut: Option<Cut>,
    /// Only requests that contain this text count for `cut`.
    cut_text: String,
    ended: bool,
    connections: Vec<Arc<Link>>,
    accepted: usize,
}

/// A connection of a client with its connection to the server.
struct Link {
    client: TcpStream,
    server: TcpStream,
    /// The server has not responded to the last request yet.
    awaits_response: AtomicBool,
    /// Nothing passes any more, and the connections stay open.
    lost: AtomicBool,
    /// The next response closes the connection instead of passing.
    drop_response: AtomicBool,
}

impl Proxy {
    /// Starts a proxy for a port on 127.0.0.1.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), network: Arc::default() };
        let network = Arc::clone(&proxy.network);
        thread::spawn(move || {
            for client in listener.incoming() {
                if network.state().ended {
                    return;
                }
                // If the server refuses the connection, the proxy closes the client's.
                if let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", port)))
                {
                    network.join(client, server);
                }
            }
        });
        proxy
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the number of round trips on all connections.
    pub fn round_trips(&self) -> usize {
        self.network.round_trips.load(Ordering::SeqCst)
    }

    /// Returns the number of connections so far.
    pub fn accepted(&self) -> usize {
        self.network.state().accepted
    }

    /// Holds back all data until [`Self::go_on`].
    pub fn stall(&self) {
        self.network.state().stalled = true;
    }

    /// Forwards the data that was held back.
    pub fn go_on(&self) {
        self.network.state().stalled = false;
        self.network.changed.notify_all();
    }

    /// Delays all data in each direction from now on.
    pub fn slow_down(&self, delay: Duration) {
        self.network.state().delay = delay;
    }

    /// Closes one connection once. Only requests that contain `text` count.
    pub fn cut_once(&self, cut: Cut, text: &str) {
        let mut state = self.network.state();
        (state.cut, state.cut_text) = (Some(cut), text.to_owned());
    }

    /// Returns whether that connection was closed. Cancels the cut otherwise.
    pub fn was_cut(&self) -> bool {
        self.network.state().cut.take().is_none()
    }

    /// Drops all data on the existing connections without closing them, as if the server's machine
    /// had disappeared. New connections work.
    pub fn lose(&self) {
        for link in &self.network.state().connections {
            link.lost.store(true, Ordering::SeqCst);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.network.state();
        state.ended = true;
        state.connections.drain(..).for_each(|link| link.close());
        drop(state);
        self.network.changed.notify_all();
        // Wakes the listener, which then ends.
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
            awaits_response: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            drop_response: AtomicBool::new(false),
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
                link.awaits_response.store(true, Ordering::SeqCst);
            } else if link.awaits_response.swap(false, Ordering::SeqCst) {
                self.round_trips.fetch_add(1, Ordering::SeqCst);
            }
            drop(self.changed.wait_while(self.state(), |state| state.stalled && !state.ended));
            let delay = self.state().delay;
            thread::sleep(delay);
            if from_client && self.cuts_request(link, &block[..count])
                || !from_client && link.drop_response.load(Ordering::SeqCst)
            {
                return;
            }
            if !link.lost.load(Ordering::SeqCst) && to.write_all(&block[..count]).is_err() {
                return;
            }
        }
    }

    /// Returns whether to close the connection instead of forwarding this request.
    fn cuts_request(&self, link: &Link, request: &[u8]) -> bool {
        let mut state = self.state();
        let text = state.cut_text.as_bytes();
        if !text.is_empty() && !request.windows(text.len()).any(|part| part == text) {
            return false;
        }
        let Some(Cut::Question(left) | Cut::Answer(left)) = &mut state.cut else { return false };
        if *left > 0 {
            *left -= 1;
            return false;
        }
        let question = matches!(state.cut.take(), Some(Cut::Question(_)));
        link.drop_response.store(!question, Ordering::SeqCst);
        question
    }
}

impl Link {
    fn close(&self) {
        // Either connection may be closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}
