//! The extensions that a relay offers, its answer to each step of a client, and the mails that it got.

use std::sync::{Mutex, atomic::AtomicUsize};

use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// The only user of a relay with authentication.
pub const USER: &str = "orders@relay.example.com";
/// The password. Contains characters that a URL must encode.
pub const PASSWORD: &str = "s3cr3t:/?#[@]%-passw0rd";

/// When a relay uses TLS. Its certificate is for `localhost` and 127.0.0.1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tls {
    /// Never.
    #[default]
    Never,
    /// After STARTTLS (RFC 3207).
    StartTls,
    /// From the first byte (RFC 8314).
    Implicit,
}

/// The features of a relay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offer {
    /// When it uses TLS.
    pub tls: Tls,
    /// The AUTH mechanisms, such as `PLAIN LOGIN` (RFC 4954). If set, credentials are required.
    pub auth: Option<&'static str>,
}

/// The step of a client to which the relay replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has connected, and implicit TLS begins.
    Handshake,
    /// It has connected.
    Greeting,
    /// It has sent EHLO.
    Ehlo,
    /// It has sent STARTTLS.
    StartTls,
    /// It has sent its credentials.
    Auth,
    /// It has named the sender.
    Mail,
    /// It has named a recipient.
    Rcpt,
    /// It has sent DATA.
    Data,
    /// It has sent a whole mail.
    Content,
    /// It has sent RSET or NOOP.
    Other,
    /// It has sent QUIT.
    Quit,
}

/// A step of a session that the relay replies to.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The step of the client.
    pub phase: Phase,
    /// The last recipient that the client has named, or an empty string.
    pub recipient: &'a str,
    /// The number of the connection, from 1.
    pub connection: usize,
    /// The number of earlier mails on this connection.
    pub mails_before: usize,
}

/// The reaction of the relay to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Replies normally.
    Serve,
    /// Sends this reply instead, such as `550 5.1.1 No such user`. A 421 closes the connection.
    Refuse(&'static str),
    /// Does not reply until the rule changes.
    Stall,
    /// Sends an endless reply, a byte at a time, until the rule changes.
    Drip,
    /// Closes the connection.
    HangUp,
    /// Executes the command, such as accepting the mail, and closes the connection without a reply.
    ServeAndHangUp,
}

/// An accepted mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The name in EHLO.
    pub hello: String,
    /// Whether it was sent over TLS.
    pub encrypted: bool,
    /// The recipients of the envelope.
    pub to: Vec<String>,
    /// The mail, without doubled dots.
    pub raw: Vec<u8>,
}

pub(super) type Rule = Box<dyn Fn(Step<'_>) -> Treatment + Send>;

/// The state that all sessions share.
pub(super) struct Relay {
    pub(super) offer: Offer,
    pub(super) acceptor: TlsAcceptor,
    pub(super) rule: Mutex<Rule>,
    /// Notifies sessions of a new rule.
    pub(super) changed: watch::Sender<()>,
    /// The number of sessions that a rule holds up.
    pub(super) held: watch::Sender<usize>,
    pub(super) mails: watch::Sender<Vec<Mail>>,
    pub(super) commands: Mutex<Vec<String>>,
    pub(super) connections: AtomicUsize,
}
