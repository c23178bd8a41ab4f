//! One connection of a client.

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

/// How long it takes for the next byte of an answer that drips.
const DRIP: Duration = Duration::from_millis(50);
/// Longest line of a command, and of a mail (RFC 5321 section 4.5.3.1).
const LONGEST_LINE: usize = 1_000;

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

/// Counts as long as it lives.
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
    // However it ends, the client notices.
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
                        // Whatever came in clear after the command is dropped with the buffer (RFC
                        // 3207 section 4.2).
                        self = self.encrypt().await?;
                    }
                }
                "AUTH" => self.authenticate(rest).await?,
                "MAIL" => self.mail(rest).await?,
                "RCPT" => self.recipient(rest).await?,
                "DATA" => self.data().await?,
                "RSET" => {
                    if self.answer(Phase::Other, "250 2.0.0 OK").await? {
                        self.forget();
                    }
                }
                "NOOP" => drop(self.answer(Phase::Other, "250 2.0.0 OK").await?),
                "QUIT" => {
                    self.answer(Phase::Quit, "221 2.0.0 Bye").await?;
                    return self.stream.shutdown().await;
                }
                _ => self.send("502 5.5.1 What is that?").await?,
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
            self.forget();
        }
        Ok(())
    }

    /// AUTH PLAIN (RFC 4616), with the credentials in the command or after it, and AUTH LOGIN.
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
        let right = if mechanism == "PLAIN" {
            let given =
                if initial.is_empty() { self.challenge("").await? } else { initial.to_owned() };
            given == BASE64.encode(format!("\0{USER}\0{PASSWORD}"))
        } else {
            let user = self.challenge("VXNlcm5hbWU6").await?;
            let password = self.challenge("UGFzc3dvcmQ6").await?;
            user == BASE64.encode(USER) && password == BASE64.encode(PASSWORD)
        };
        let reply = if right { "235 2.7.0 Welcome" } else { "535 5.7.8 Wrong user or password" };
        self.authenticated |= self.answer(Phase::Auth, reply).await? && right;
        Ok(())
    }

    async fn challenge(&mut self, challenge: &str) -> io::Result<String> {
        self.send(&format!("334 {challenge}")).await?;
        self.line().await
    }

    async fn mail(&mut self, rest: &str) -> io::Result<()> {
        let refusal = match address(rest) {
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
        self.send(refusal).await
    }

    async fn recipient(&mut self, rest: &str) -> io::Result<()> {
        let refusal = match address(rest).filter(|to| !to.is_empty()) {
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
        self.send(refusal).await
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
        self.forget();
        self.finish(treatment, "250 2.0.0 Taken").await.map(drop)
    }

    fn forget(&mut self) {
        self.from = None;
        self.to.clear();
    }

    /// Answers a step as the rule says; whether it was served.
    async fn answer(&mut self, phase: Phase, reply: &str) -> io::Result<bool> {
        let treatment = self.treated(phase).await?;
        self.finish(treatment, reply).await
    }

    /// How a step is treated, once that is to serve or refuse it.
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
                        left = left(&mut self.stream) => return Err(left),
                    }
                }
                Treatment::Drip => {
                    let _held = Counted::new(&relay, |counts| &mut counts.held);
                    (held, dripped) = (true, true);
                    tokio::select! {
                        _ = changed.changed() => {}
                        left = drip(&mut self.stream, phase) => return Err(left),
                    }
                }
                Treatment::Serve | Treatment::ServeAndHangUp | Treatment::Refuse(_) => {
                    if held {
                        self.still_there().await?;
                    }
                    if dripped {
                        self.stream.write_all(b"\r\n").await?;
                    }
                    return Ok(treatment);
                }
            }
        }
    }

    /// Fails if the client did not wait: what it has given up must not be served.
    async fn still_there(&mut self) -> io::Result<()> {
        // Lets the runtime learn what has come in by now.
        tokio::task::yield_now().await;
        tokio::select! {
            biased;
            left = left(&mut self.stream) => Err(left),
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

    /// Reads one line more, which must end in CRLF.
    async fn read_line(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        let start = into.len();
        self.stream.read_until(b'\n', into).await?;
        let line = &into[start..];
        if line.ends_with(b"\r\n") && line.len() <= LONGEST_LINE { Ok(()) } else { Err(hang_up()) }
    }
}

/// The address between angle brackets in `FROM:<address>`, which stands alone where the verb was
/// split off at a space.
fn address(rest: &str) -> Option<&str> {
    let (_, rest) = rest.split_once('<')?;
    rest.split_once('>').map(|(address, _)| address)
}

/// Returns when the client has closed the connection.
async fn left(stream: &mut Stream) -> io::Error {
    match stream.fill_buf().await {
        Ok([]) => hang_up(),
        // A client that pipelines has said more already.
        Ok(_) => std::future::pending().await,
        Err(error) => error,
    }
}

/// Sends the beginning of an answer of several lines; returns when the client is gone.
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
        sleep(DRIP).await;
    }
    hang_up()
}
