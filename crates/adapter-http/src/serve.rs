//! The server, its connections and its stop.

pub(crate) mod closing;
pub(crate) mod detached_tasks;
pub(crate) mod guard;
pub(crate) mod server;
pub(crate) mod tls;
