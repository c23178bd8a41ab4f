//! Tells people about orders by mail.
//!
//! | URL | where mails go |
//! |---|---|
//! | `file:///absolute/folder` | a folder of `.eml` files, one for each mail, that any mail program opens |
//! | `smtp://[user:password@]host[:port]` | a relay; port 587 with credentials, 25 without |
//! | `smtps://[user:password@]host[:port]` | a relay that speaks TLS from the first byte; port 465 |
//!
//! User and password are percent-encoded. A relay's URL may have parameters:
//!
//! | parameter | meaning |
//! |---|---|
//! | `tls=required` | mails go encrypted by STARTTLS, or wait; the default with credentials, unless the host is `localhost` or a loopback address |
//! | `tls=opportunistic` | STARTTLS if the relay offers it, with a certificate that is valid; the default otherwise |
//! | `tls=none` | never STARTTLS |
//! | `ca=/absolute/root.pem` | the root certificates to trust, instead of the system's |
//!
//! `tls` is for `smtp://` alone. Credentials go unencrypted only to this machine, or after
//! `tls=none`.
//!
//! Each way hands over the same mail: what it says is in the module `message`.

mod confirmation;
mod mail_drop;
mod message;
mod open;
mod sender;
mod smtp;

pub use mail_drop::MailDrop;
pub use open::{OpenError, open};
pub use sender::{InvalidSender, Sender};
