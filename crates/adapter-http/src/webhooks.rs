//! Webhooks: the operations that manage endpoints and show their deliveries, and their records.

mod create;
mod deliveries;
mod endpoint;
pub(crate) mod path;
pub(crate) mod problems;
pub(crate) mod record;
mod replay;
#[cfg(test)]
mod test_endpoint;

pub(crate) use self::{
    create::{create, list},
    deliveries::list as list_deliveries,
    endpoint::{change, delete, read, rotate_secret},
    replay::{replay, replay_delivery, test},
};
