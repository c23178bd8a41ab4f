//! A session with a client.

use std::{
    io::{self, ErrorKind},
    net,
    os::fd::AsFd as _,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::sleep,
};
use tokio_rustls::server::TlsStream;

use super::treatment::{Mail, PASSWORD, Phase, Relay, Step, Tls, Treatment, USER};

/// Pause between the bytes of [`Treatment::Drip`].
const DRIP_PAUSE: Duration = Duration::from_millis(50);
/// Longest line of a command or a mail (RFC 5321 section 4.5.3.1).
const MAX_LINE: usize = 1_000;

trait Io: AsyncRead + AsyncWrite + Send {
    /// Returns the socket, also of a connection with TLS.
    fn socket(&self) -> &TcpStream;
}

impl Io for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Io for TlsStream<Pin<Box<dyn Io>>> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0.socket()
    }
}

type Stream = BufReader<Pin<Box<dyn Io>>>;

struct Session {
    relay: Arc<Relay>,
    stream: Stream,
    connection: usize,
    encrypted: bool,
    authenticated: bool,
    hello: String,
    in_mail: bool,
    to: Vec<String>,
    mails_before: usize,
}

/// Serves a connection until either side closes it.
pub(super) async fn serve(relay: Arc<Relay>, socket: TcpStream) {
    let connection = relay.connections.fetch_add(1, Ordering::Relaxed) + 1;
    socket.set_nodelay(true).unwrap();
    let stream: Stream = BufReader::new(Box::pin(socket));
    let session = Session {
        relay: Arc::clone(&relay),
        stream,
        connection,
        encrypted: false,
        authenticated: false,
        hello: String::new(),
        in_mail: false,
        to: Vec::new(),
        mails_before: 0,
    };
    // An error means that the client or a rule closed the connection.
    let _ = session.run().await;
}

fn hang_up() -> io::Error {
    ErrorKind::ConnectionAborted.into()
}

impl Session {
    async fn run(mut self) -> io::Result<()> {
        if self.relay.offer.tls == Tls::Implicit {
            self.treated(Phase::Handshake).await?;
            self = self.encrypt().await?;
        }
        if !self.answer(Phase::Greeting, "220 relay.example.com ESMTP").await? {
            return Ok(());
        }
        loop {
            let line = self.line().await?;
            self.relay.commands.lock().unwrap().push(line.clone());
            let (verb, rest) = line.split_once([' ', ':']).unwrap_or((&line, ""));
            match verb.to_ascii_uppercase().as_str() {
                "EHLO" => self.hello(rest).await?,
                "STARTTLS" if self.relay.offer.tls == Tls::StartTls && !self.encrypted => {
                    if self.answer(Phase::StartTls, "220 2.0.0 Go ahead").await? {
                        // Drops plaintext that was sent after the command (RFC 3207 section 4.2).
                        self = self.encrypt().await?;
                    }
                }
                "AUTH" => self.authenticate(rest).await?,
                "MAIL" => self.mail().await?,
                "RCPT" => self.recipient(rest).await?,
                "DATA" => self.data().await?,
                "RSET" => {
                    self.reset();
                    self.answer(Phase::Other, "250 2.0.0 OK").await?;
                }
                "QUIT" => {
                    self.answer(Phase::Quit, "221 2.0.0 Bye").await?;
                    return self.stream.shutdown().await;
                }
                _ => self.send("502 5.5.1 Unknown command").await?,
            }
        }
    }

    async fn encrypt(self) -> io::Result<Self> {
        let encrypted = self.relay.acceptor.accept(self.stream.into_inner()).await?;
        Ok(Self { stream: BufReader::new(Box::pin(encrypted)), encrypted: true, ..self })
    }

    async fn hello(&mut self, name: &str) -> io::Result<()> {
        let mut lines = "250-relay.example.com\r\n".to_owned();
        if self.relay.offer.tls == Tls::StartTls && !self.encrypted {
            lines.push_str("250-STARTTLS\r\n");
        }
        if let Some(mechanisms) = self.relay.offer.auth {
            lines = format!("{lines}250-AUTH {mechanisms}\r\n");
        }
        if self.answer(Phase::Ehlo, &(lines + "250 8BITMIME")).await? {
            name.clone_into(&mut self.hello);
            self.reset();
        }
        Ok(())
    }

    /// Handles AUTH PLAIN (RFC 4616) with an initial response, and AUTH LOGIN.
    async fn authenticate(&mut self, rest: &str) -> io::Result<()> {
        let valid = if let Some(response) = rest.strip_prefix("PLAIN ") {
            response == BASE64.encode(format!("\0{USER}\0{PASSWORD}"))
        } else {
            let user = self.challenge("VXNlcm5hbWU6").await?;
            let password = self.challenge("UGFzc3dvcmQ6").await?;
            user == BASE64.encode(USER) && password == BASE64.encode(PASSWORD)
        };
        let reply = if valid { "235 2.7.0 Welcome" } else { "535 5.7.8 Wrong user or password" };
        self.authenticated |= self.answer(Phase::Auth, reply).await? && valid;
        Ok(())
    }

    async fn challenge(&mut self, challenge: &str) -> io::Result<String> {
        self.send(&format!("334 {challenge}")).await?;
        self.line().await
    }

    async fn mail(&mut self) -> io::Result<()> {
        if self.relay.offer.auth.is_some() && !self.authenticated {
            return self.send("530 5.7.0 Authentication required").await;
        }
        if self.in_mail {
            return self.send("503 5.5.1 Nested MAIL").await;
        }
        self.in_mail = self.answer(Phase::Mail, "250 2.1.0 OK").await?;
        Ok(())
    }

    async fn recipient(&mut self, rest: &str) -> io::Result<()> {
        self.to.push(rest.split(['<', '>']).nth(1).unwrap_or_default().to_owned());
        if !self.answer(Phase::Rcpt, "250 2.1.5 OK").await? {
            self.to.pop();
        }
        Ok(())
    }

    async fn data(&mut self) -> io::Result<()> {
        if !self.answer(Phase::Data, "354 Go ahead").await? {
            return Ok(());
        }
        let mut raw = Vec::new();
        loop {
            let start = raw.len();
            self.read_line(&mut raw).await?;
            match &raw[start..] {
                b".\r\n" => {
                    raw.truncate(start);
                    break;
                }
                [b'.', ..] => drop(raw.remove(start)),
                _ => {}
            }
        }
        let treatment = self.treated(Phase::Content).await?;
        if !matches!(treatment, Treatment::Refuse(_)) {
            let to = std::mem::take(&mut self.to);
            let mail = Mail { hello: self.hello.clone(), encrypted: self.encrypted, to, raw };
            self.relay.mails.send_modify(|mails| mails.push(mail));
            self.mails_before += 1;
        }
        self.reset();
        self.finish(treatment, "250 2.0.0 Accepted").await.map(drop)
    }

    fn reset(&mut self) {
        self.in_mail = false;
        self.to.clear();
    }

    /// Replies to a step as the rule demands. Returns whether it was served.
    async fn answer(&mut self, phase: Phase, reply: &str) -> io::Result<bool> {
        let treatment = self.treated(phase).await?;
        self.finish(treatment, reply).await
    }

    /// Waits until the rule serves or rejects a step. Fails if the connection ends.
    async fn treated(&mut self, phase: Phase) -> io::Result<Treatment> {
        let relay = Arc::clone(&self.relay);
        let mut changed = relay.changed.subscribe();
        let mut held = false;
        loop {
            let recipient = self.to.last().map_or("", String::as_str);
            let step = Step {
                phase,
                recipient,
                connection: self.connection,
                mails_before: self.mails_before,
            };
            let treatment = relay.rule.lock().unwrap()(step);
            match treatment {
                Treatment::HangUp => return Err(hang_up()),
                Treatment::Stall | Treatment::Drip => {
                    held = true;
                    relay.held.send_modify(|held| *held += 1);
                    let ended = async {
                        match treatment {
                            Treatment::Drip => drip(&mut self.stream, phase).await,
                            _ => disconnected(&mut self.stream).await,
                        }
                    };
                    let ended = tokio::select! {
                        _ = changed.changed() => None,
                        error = ended => Some(error),
                    };
                    relay.held.send_modify(|held| *held -= 1);
                    ended.map_or(Ok(()), Err)?;
                }
                Treatment::Serve | Treatment::ServeAndHangUp | Treatment::Refuse(_) => {
                    // The client may also have abandoned a mail before this rule was set.
                    if held || phase == Phase::Content {
                        self.ensure_connected()?;
                    }
                    return Ok(treatment);
                }
            }
        }
    }

    /// Fails if the client has disconnected: an abandoned command must not be executed.
    fn ensure_connected(&self) -> io::Result<()> {
        // Asks the kernel, because the runtime learns of the end of a connection later.
        let socket = self.stream.get_ref().socket().as_fd().try_clone_to_owned()?;
        let is_connected = match net::TcpStream::from(socket).peek(&mut [0]) {
            Ok(bytes) => bytes > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        if is_connected { Ok(()) } else { Err(hang_up()) }
    }

    async fn finish(&mut self, treatment: Treatment, reply: &str) -> io::Result<bool> {
        match treatment {
            Treatment::ServeAndHangUp => Err(hang_up()),
            Treatment::Refuse(refusal) => {
                self.send(refusal).await?;
                if refusal.starts_with("421") { Err(hang_up()) } else { Ok(false) }
            }
            _ => self.send(reply).await.map(|()| true),
        }
    }

    async fn send(&mut self, reply: &str) -> io::Result<()> {
        self.stream.write_all(format!("{reply}\r\n").as_bytes()).await?;
        self.stream.flush().await
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.read_line(&mut line).await?;
        String::from_utf8(line)
            .map(|line| line.trim_end_matches("\r\n").to_owned())
            .map_err(|_| hang_up())
    }

    /// Appends the next line, which must end in CRLF.
    async fn read_line(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        let start = into.len();
        self.stream.read_until(b'\n', into).await?;
        let line = &into[start..];
        if line.ends_with(b"\r\n") && line.len() <= MAX_LINE { Ok(()) } else { Err(hang_up()) }
    }
}

/// Returns an error when the client has closed the connection.
async fn disconnected(stream: &mut Stream) -> io::Error {
    match stream.fill_buf().await {
        Ok([]) => hang_up(),
        // The client has sent more commands without waiting.
        Ok(_) => std::future::pending().await,
        Err(error) => error,
    }
}

/// Sends an endless first line of a reply, or record of TLS. Returns when the client has
/// disconnected.
async fn drip(stream: &mut Stream, phase: Phase) -> io::Error {
    let byte = if phase == Phase::Handshake { 0x16 } else { b'2' };
    loop {
        let sent = async {
            stream.write_all(&[byte]).await?;
            stream.flush().await
        };
        if let Err(error) = sent.await {
            return error;
        }
        sleep(DRIP_PAUSE).await;
    }
}
