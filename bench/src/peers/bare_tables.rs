//! How the bare service stores orders on PostgreSQL.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use actix_web::rt;
use tokio::{sync::oneshot, task::yield_now};
use tokio_postgres::{Client, Error, NoTls, Statement};

use super::{bare::Details, plain::ORDER};
use crate::pgbench::{ORDER_COLUMNS, ORDER_VALUES};

/// Two workers have as many connections as the service has by default.
pub const CONNECTIONS_OF_A_WORKER: usize = 8;

/// A connection that polls on the thread of its worker.
async fn connect(url: &str, statement: &str) -> Result<(Client, Statement), Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    rt::spawn(connection);
    let statement = client.prepare(statement).await?;
    Ok((client, statement))
}

/// The plain schema: a statement for each order, on the connections in turn.
pub struct Plain {
    clients: Vec<(Client, Statement)>,
    next: Cell<usize>,
}

impl Plain {
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS_OF_A_WORKER {
            clients.push(connect(url, ORDER).await?);
        }
        Ok(Self { clients, next: Cell::new(0) })
    }

    /// Stores an order. Returns its identifier.
    pub async fn add(&self, details: Details) -> i64 {
        let next = self.next.get();
        self.next.set((next + 1) % CONNECTIONS_OF_A_WORKER);
        let (client, statement) = &self.clients[next];
        client.query_one(statement, &details.parameters()).await.unwrap().get(0)
    }
}

/// The service's tables. Each worker has one batch in progress, as in the service: the next batch
/// gathers meanwhile.
pub struct Batches(Rc<Batch>);

struct Batch {
    client: Client,
    statement: Statement,
    waiting: RefCell<Vec<(String, oneshot::Sender<i64>)>>,
    is_working: Cell<bool>,
}

impl Batches {
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let statement = format!(
            "WITH created AS (
                INSERT INTO orders ({ORDER_COLUMNS})
                SELECT file_number, now(), now(), {ORDER_VALUES}
                FROM unnest($1::text[]) AS file_number
                ON CONFLICT (file_number, is_test) WHERE holds_file_number DO NOTHING
                RETURNING id, file_number
            ), noted AS (
                INSERT INTO events (type, order_id, created_at)
                SELECT 'order.created', id, now() FROM created
            ) SELECT file_number, id FROM created"
        );
        let (client, statement) = connect(url, &statement).await?;
        let (waiting, is_working) = (RefCell::default(), Cell::new(false));
        Ok(Self(Rc::new(Batch { client, statement, waiting, is_working })))
    }

    /// Stores an order. Returns its identifier.
    pub async fn add(&self, file_number: String) -> i64 {
        let (sender, receiver) = oneshot::channel();
        self.0.waiting.borrow_mut().push((file_number, sender));
        if !self.0.is_working.replace(true) {
            rt::spawn(Rc::clone(&self.0).work());
        }
        receiver.await.unwrap()
    }
}

impl Batch {
    async fn work(self: Rc<Self>) {
        loop {
            let waiting = self.waiting.take();
            if waiting.is_empty() {
                self.is_working.set(false);
                return;
            }
            let file_numbers: Vec<&str> = waiting.iter().map(|(number, _)| &**number).collect();
            let rows = self.client.query(&self.statement, &[&file_numbers]).await.unwrap();
            let created: HashMap<&str, i64> =
                rows.iter().map(|row| (row.get(0), row.get(1))).collect();
            for (file_number, sender) in waiting {
                sender.send(created[&*file_number]).unwrap();
            }
            // Requests that have arrived join the next batch.
            yield_now().await;
        }
    }
}
