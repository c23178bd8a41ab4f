//! Sample accesses.

use std::net::IpAddr;

use domain::{
    access::{Access, AccessActor, AccessFacts, AccessId, AccessKind, DONE, RunId},
    api_key::Party,
    order::OrderId,
};

use super::{API_KEY, CLIENT, MICROSECOND, NOW};

/// The run of sample accesses.
pub const RUN: RunId = RunId(i64::MAX);

/// Returns a read of an order by its client. Its instant is that many microseconds after [`NOW`].
pub fn access(number: u32, order: OrderId) -> Access {
    let facts = AccessFacts {
        kind: AccessKind::Read,
        order: Some(order),
        orders: None,
        position: None,
        subject: None,
        actor: AccessActor::Key { id: API_KEY, party: Party::Client(CLIENT) },
        address: Some(IpAddr::from([192, 0, 2, 1])),
        request_id: Some(format!("request {number}")),
    };
    let id = AccessId { at: NOW + number * MICROSECOND, run: RUN, number: number.into() };
    Access { id, facts, outcome: DONE.to_owned() }
}

/// Returns an access of an operator.
pub fn operator_access(number: u32, order: OrderId) -> Access {
    let mut access = access(number, order);
    let (command, user) = ("orders show".to_owned(), "o'neil \\é".to_owned());
    access.facts.actor = AccessActor::Operator { command, user };
    (access.facts.address, access.facts.request_id) = (None, None);
    access
}
