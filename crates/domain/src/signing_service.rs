//! Signing services: the records that operators keep of them.

use crate::people::{EmailAddress, SigningServiceId};

/// Maximum length of the name of a service or a client in characters.
pub const MAX_NAME: usize = 200;

/// Maximum number of addresses of a signing service.
pub const MAX_EMAILS: usize = 10;

/// A signing service: it carries out the orders that name it. Orders may name one without a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningService {
    /// Its number, which orders name.
    pub id: SigningServiceId,
    /// Its name.
    pub name: String,
    /// The addresses that get a mail about each of its orders; each once, whatever the letter case.
    pub emails: Vec<EmailAddress>,
}
