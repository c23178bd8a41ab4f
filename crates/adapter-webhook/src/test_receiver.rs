//! A receiver of webhooks for tests.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use contract_tests::webhook_sender::{Reaction, ReceivedWebhook};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader,
    },
    net::{TcpListener, TcpSocket, TcpStream},
};
use tokio_rustls::TlsAcceptor;

/// Listens on every address of the machine, so that `127.0.0.1` and `127.0.0.2` are the same
/// receiver.
pub(crate) struct Receiver {
    pub port: u16,
    pub state: Arc<State>,
}

pub(crate) struct State {
    pub reaction: Mutex<Reaction>,
    pub received: Mutex<Vec<ReceivedWebhook>>,
    /// The first line of each request.
    pub lines: Mutex<Vec<String>>,
    pub connections: AtomicUsize,
    /// Bytes of bodies that the system took.
    pub sent: AtomicUsize,
}

/// Size of [`Reaction::HugeBody`].
pub(crate) const HUGE: usize = 256 * 1024 * 1024;

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    pub(crate) async fn start_with(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            reaction: Mutex::new(Reaction::Answer(204, "")),
            received: Mutex::default(),
            lines: Mutex::default(),
            connections: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, state) = (tls.clone(), Arc::clone(&shared));
                state.connections.fetch_add(1, Ordering::SeqCst);
                // A sender that goes away ends its connection.
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => serve(tls.accept(stream).await?, &state).await,
                        None => serve(stream, &state).await,
                    }
                });
            }
        });
        Self { port, state }
    }

    pub(crate) fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/orders?tenant=7", self.port)
    }

    pub(crate) fn react(&self, reaction: Reaction) {
        *self.state.reaction.lock().unwrap() = reaction;
    }

    pub(crate) fn received(&self) -> Vec<ReceivedWebhook> {
        self.state.received.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

/// Reserves an address where nothing listens.
pub(crate) fn closed_address() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}

/// Starts a proxy that connects every tunnel to this port. Returns its own port.
pub(crate) async fn tunnel_to(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let mut client = BufReader::new(listener.accept().await.unwrap().0);
            tokio::spawn(async move {
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    client.read_line(&mut line).await?;
                }
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    own
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: &State) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while read_request(&mut stream, state).await? {
        let reaction = state.reaction.lock().unwrap().clone();
        match reaction {
            Reaction::Answer(status, headers) => {
                let head = format!("HTTP/1.1 {status} -\r\n{headers}Content-Length: 0\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
            }
            Reaction::HugeBody => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {HUGE}\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                for _ in 0..HUGE / 4096 {
                    stream.write_all(&[b'x'; 4096]).await?;
                    state.sent.fetch_add(4096, Ordering::SeqCst);
                }
            }
            Reaction::EndlessBody => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx").await?;
                std::future::pending::<()>().await;
            }
            Reaction::Silence => std::future::pending::<()>().await,
            Reaction::EndlessHead => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
                loop {
                    stream.write_all(b"X-More: to come\r\n").await?;
                }
            }
            Reaction::Nonsense => return stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await,
            Reaction::Close => return Ok(()),
        }
    }
    Ok(())
}

/// Returns whether there was a request.
async fn read_request(
    stream: &mut BufReader<impl AsyncRead + Unpin>,
    state: &State,
) -> io::Result<bool> {
    let (mut first, mut headers) = (String::new(), Vec::new());
    if stream.read_line(&mut first).await? == 0 {
        return Ok(false);
    }
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    stream.read_exact(&mut body).await?;
    state.lines.lock().unwrap().push(first.trim_end().to_owned());
    state.received.lock().unwrap().push(ReceivedWebhook { headers, body });
    Ok(true)
}
