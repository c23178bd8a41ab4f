//! A session with a client.

use std::{
    io::{self, ErrorKind},
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

use super::{Command, Mail, PASSWORD, Phase, Relay, Step, Tls, Treatment, USER};

/// Pause between the bytes of [`Treatment::Drip`].
const DRIP_PAUSE: Duration = Duration::from_millis(50);
/// Longest line of a command or a mail (RFC 5321 section 4.5.3.1).
const MAX_LINE: usize = 1_000;

trait Io: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Io for T {}

type Stream = BufReader<Pin<Box<dyn Io>>>;

struct Session {
    relay: Arc<Relay>,
    stream: Stream,
    connection: usize,
    encrypted: bool,
    authenticated: bool,
    hello: String,
    from: Option<String>,
    to: Vec<String>,
    mails_before: usize,
}

/// Increments a count until it is dropped.
struct Counted<'a>(&'a Relay, fn(&mut super::Counts) -> &mut usize);

impl<'a> Counted<'a> {
    fn new(relay: &'a Relay, which: fn(&mut super::Counts) -> &mut usize) -> Self {
        relay.counts.send_modify(|counts| {
            *which(counts) += 1;
            counts.most_open = counts.most_open.max(counts.open);
        });
        Self(relay, which)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.counts.send_modify(|counts| *(self.1)(counts) -= 1);
    }
}

/// Serves a connection until either side closes it.
pub(super) async fn serve(relay: Arc<Relay>, socket: TcpStream) {
    let connection = relay.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let _open = Counted::new(&relay, |counts| &mut counts.open);
    socket.set_nodelay(true).unwrap();
    let stream: Stream = BufReader::new(Box::pin(socket));
    let session = Session {
        relay: Arc::clone(&relay),
        stream,
        connection,
        encrypted: false,
        authenticated: false,
        hello: String::new(),
        from: None,
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
            self.relay
                .commands
                .lock()
                .unwrap()
                .push(Command { encrypted: self.encrypted, line: line.clone() });
            let (verb, rest) = line.split_once([' ', ':']).unwrap_or((&line, ""));
            match verb.to_ascii_uppercase().as_str() {
                "EHLO" | "HELO" => self.hello(rest).await?,
                "STARTTLS" if self.relay.offer.tls == Tls::StartTls && !self.encrypted => {
                    if self.answer(Phase::StartTls, "220 2.0.0 Go ahead").await? {
                        // Drops plaintext that was sent after the command (RFC 3207 section 4.2).
                        self = self.encrypt().await?;
                    }
                }
                "AUTH" => self.authenticate(rest).await?,
                "MAIL" => self.mail(rest).await?,
                "RCPT" => self.recipient(rest).await?,
                "DATA" => self.data().await?,
                "RSET" => {
                    if self.answer(Phase::Other, "250 2.0.0 OK").await? {
                        self.reset();
                    }
                }
                "NOOP" => drop(self.answer(Phase::Other, "250 2.0.0 OK").await?),
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
        let mut lines = vec!["relay.example.com", "8BITMIME", "PIPELINING", "ENHANCEDSTATUSCODES"];
        if self.relay.offer.tls == Tls::StartTls && !self.encrypted {
            lines.push("STARTTLS");
        }
        let auth = self.relay.offer.auth.map(|mechanisms| format!("AUTH {mechanisms}"));
        lines.extend(auth.as_deref());
        let last = lines.pop().unwrap();
        let others = lines.join("\r\n250-");
        if self.answer(Phase::Ehlo, &format!("250-{others}\r\n250 {last}")).await? {
            name.clone_into(&mut self.hello);
            self.reset();
        }
        Ok(())
    }

    /// Handles AUTH PLAIN (RFC 4616), with or without an initial response, and AUTH LOGIN.
    async fn authenticate(&mut self, rest: &str) -> io::Result<()> {
        let (mechanism, initial) = rest.split_once(' ').unwrap_or((rest, ""));
        let mechanism = mechanism.to_ascii_uppercase();
        if !self
            .relay
            .offer
            .auth
            .is_some_and(|offered| offered.split(' ').any(|one| one == mechanism))
        {
            return self.send("504 5.5.4 Unrecognized authentication type").await;
        }
        let valid = if mechanism == "PLAIN" {
            let response =
                if initial.is_empty() { self.challenge("").await? } else { initial.to_owned() };
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

    async fn mail(&mut self, rest: &str) -> io::Result<()> {
        let error = match address(rest) {
            _ if self.hello.is_empty() => "503 5.5.1 EHLO first",
            _ if self.relay.offer.auth.is_some() && !self.authenticated => {
                "530 5.7.0 Authentication required"
            }
            _ if self.from.is_some() => "503 5.5.1 Nested MAIL",
            Some(from) => {
                if self.answer(Phase::Mail, "250 2.1.0 OK").await? {
                    self.from = Some(from.to_owned());
                }
                return Ok(());
            }
            None => "501 5.5.4 MAIL FROM:<address>",
        };
        self.send(error).await
    }

    async fn recipient(&mut self, rest: &str) -> io::Result<()> {
        let error = match address(rest).filter(|to| !to.is_empty()) {
            _ if self.from.is_none() => "503 5.5.1 MAIL first",
            Some(to) => {
                self.to.push(to.to_owned());
                if !self.answer(Phase::Rcpt, "250 2.1.5 OK").await? {
                    self.to.pop();
                }
                return Ok(());
            }
            None => "501 5.5.4 RCPT TO:<address>",
        };
        self.send(error).await
    }

    async fn data(&mut self) -> io::Result<()> {
        if self.to.is_empty() {
            return self.send("503 5.5.1 RCPT first").await;
        }
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
            let (from, to) = (self.from.take().unwrap_or_default(), std::mem::take(&mut self.to));
            let mail = Mail {
                hello: self.hello.clone(),
                encrypted: self.encrypted,
                authenticated: self.authenticated,
                from,
                to,
                raw,
            };
            self.relay.mails.lock().unwrap().push(mail);
            self.relay.counts.send_modify(|counts| counts.mails += 1);
            self.mails_before += 1;
        }
        self.reset();
        self.finish(treatment, "250 2.0.0 Accepted").await.map(drop)
    }

    fn reset(&mut self) {
        self.from = None;
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
        let (mut held, mut dripped) = (false, false);
        loop {
            let recipient = self.to.last().map_or("", String::as_str);
            let step = Step {
                phase,
                recipient,
                connection: self.connection,
                mails_before: self.mails_before,
            };
            let treatment =
                relay.rule.lock().unwrap().as_ref().map_or(Treatment::Serve, |rule| rule(step));
            match treatment {
                Treatment::HangUp => return Err(hang_up()),
                Treatment::Stall => {
                    held = true;
                    let _held = Counted::new(&relay, |counts| &mut counts.held);
                    tokio::select! {
                        _ = changed.changed() => {}
                        error = disconnected(&mut self.stream) => return Err(error),
                    }
                }
                Treatment::Drip => {
                    let _held = Counted::new(&relay, |counts| &mut counts.held);
                    (held, dripped) = (true, true);
                    tokio::select! {
                        _ = changed.changed() => {}
                        error = drip(&mut self.stream, phase) => return Err(error),
                    }
                }
                Treatment::Serve | Treatment::ServeAndHangUp | Treatment::Refuse(_) => {
                    if held {
                        self.ensure_connected().await?;
                    }
                    if dripped {
                        self.stream.write_all(b"\r\n").await?;
                    }
                    return Ok(treatment);
                }
            }
        }
    }

    /// Fails if the client has disconnected: an abandoned command must not be executed.
    async fn ensure_connected(&mut self) -> io::Result<()> {
        // Lets the runtime process pending network events.
        tokio::task::yield_now().await;
        tokio::select! {
            biased;
            error = disconnected(&mut self.stream) => Err(error),
            () = std::future::ready(()) => Ok(()),
        }
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

/// Returns the address in angle brackets of `FROM:<address>` or `TO:<address>`.
fn address(rest: &str) -> Option<&str> {
    let (_, rest) = rest.split_once('<')?;
    rest.split_once('>').map(|(address, _)| address)
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

/// Sends an endless first line of a reply. Returns when the client has disconnected.
async fn drip(stream: &mut Stream, phase: Phase) -> io::Error {
    let line: &[u8] = match phase {
        Phase::Handshake => b"\x16",
        Phase::Greeting | Phase::StartTls => b"220-",
        Phase::Auth => b"235-",
        Phase::Data => b"354-",
        Phase::Quit => b"221-",
        _ => b"250-",
    };
    for byte in line.iter().chain(std::iter::repeat(&b'.')) {
        let sent = async {
            stream.write_all(&[*byte]).await?;
            stream.flush().await
        };
        if let Err(error) = sent.await {
            return error;
        }
        sleep(DRIP_PAUSE).await;
    }
    hang_up()
}
