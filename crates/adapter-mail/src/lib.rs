//! Tells people about orders by mail.
//!
//! | scheme of the URL | where mails go |
//! |---|---|
//! | `file:///absolute/folder` | a folder of `.eml` files, one for each mail, that any mail program opens |
//!
//! Another way to deliver hands over the same mail: what it says is in the module `message`.

mod confirmation;
mod mail_drop;
mod message;
mod sender;

pub use mail_drop::{MailDrop, OpenError};
pub use sender::{InvalidSender, Sender};
