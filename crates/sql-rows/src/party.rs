//! How a party is stored.

use domain::{
    api_key::{ClientId, Party},
    order::SigningServiceId,
};

/// Returns how a party is stored: a client, or minus the number of a signing service.
pub fn stored_party(party: Party) -> i64 {
    match party {
        Party::Client(client) => client.0,
        Party::Service(service) => -service.0,
    }
}

/// Returns the party that is stored.
pub fn party_of(stored: i64) -> Party {
    if stored < 0 {
        Party::Service(SigningServiceId(stored.saturating_neg()))
    } else {
        Party::Client(ClientId(stored))
    }
}
