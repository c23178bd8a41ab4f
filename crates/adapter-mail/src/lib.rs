//! Sends mails about orders, into a folder with one `.eml` file per mail, which any mail program
//! opens, or to a relay that a URL names:
//!
//! - `smtp://[user:password@]host[:port]`: a relay; port 587 with credentials, 25 without.
//! - `smtps://[user:password@]host[:port]`: a relay with TLS from the first byte; port 465.
//!
//! User and password are percent-encoded. The URL of a relay may have parameters:
//!
//! - `tls=required`: STARTTLS, or no mail is sent. The default with credentials, except for
//!   `localhost` and loopback addresses.
//! - `tls=opportunistic`: STARTTLS if the relay offers it, with a valid certificate. The default
//!   otherwise.
//! - `tls=none`: no STARTTLS.
//! - `ca=/absolute/root.pem`: the root certificates to trust, instead of the system's.
//!
//! `tls` is for `smtp://` only. Credentials are sent unencrypted only to this machine, or with
//! `tls=none`.
//!
//! All destinations get the same mail, which the module `order` builds.

mod mail_drop;
mod message;
mod notice;
mod open;
mod open_error;
mod order;
mod removal;
mod sender;
mod smtp;

pub use mail_drop::MailDrop;
pub use open::open;
pub use open_error::OpenError;
pub use removal::{MailsOf, orders_of_mails, remove_mails, remove_old_mails};
pub use sender::{InvalidSender, Sender};
pub use smtp::{MAX_CONNECTIONS, is_refusal, is_slow};
