//! How the bare service stores orders in the service's tables on SQLite: a thread writes all orders
//! that wait, with two statements in one transaction.

use std::{
    collections::HashMap,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use diesel::{
    Connection as _, QueryableByName, RunQueryDsl as _, SqliteConnection,
    connection::SimpleConnection as _,
    sql_query,
    sql_types::{BigInt, Text},
};
use tokio::sync::oneshot;

use crate::{fill::sqlite_values, pgbench::ORDER_COLUMNS};

/// As many orders share a transaction in the service.
const BATCH: usize = 64;

type Waiting = (String, oneshot::Sender<i64>);

/// The handle of the thread.
#[derive(Clone)]
pub struct Writer(Sender<Waiting>);

#[derive(QueryableByName)]
struct CreatedRow {
    #[diesel(sql_type = Text)]
    file_number: String,
    #[diesel(sql_type = BigInt)]
    id: i64,
}

impl Writer {
    /// Starts the thread on a database file. Commits wait for the disk, as in the service.
    pub fn start(file: &str) -> Self {
        let mut connection = SqliteConnection::establish(file).unwrap();
        connection.batch_execute("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 3000").unwrap();
        let (sender, orders) = channel();
        thread::spawn(move || write(&mut connection, &orders));
        Self(sender)
    }

    /// Stores an order. Returns its identifier.
    pub async fn add(&self, file_number: String) -> i64 {
        let (sender, receiver) = oneshot::channel();
        self.0.send((file_number, sender)).unwrap();
        receiver.await.unwrap()
    }
}

fn write(connection: &mut SqliteConnection, orders: &Receiver<Waiting>) {
    let create = format!(
        "INSERT INTO orders ({ORDER_COLUMNS})
         SELECT value, unixepoch() * 1000000, unixepoch() * 1000000, {} FROM json_each(?)
         RETURNING file_number, id",
        sqlite_values()
    );
    let note = "INSERT INTO events (type, order_id, created_at)
        SELECT 'order.created', value, unixepoch() * 1000000 FROM json_each(?)";
    while let Ok(first) = orders.recv() {
        let waiting: Vec<Waiting> =
            [first].into_iter().chain(orders.try_iter().take(BATCH - 1)).collect();
        let file_numbers: Vec<&str> = waiting.iter().map(|(number, _)| &**number).collect();
        connection.batch_execute("BEGIN IMMEDIATE").unwrap();
        let create = sql_query(&create).bind::<Text, _>(json(&file_numbers));
        let created: Vec<CreatedRow> = create.load(connection).unwrap();
        let ids: Vec<i64> = created.iter().map(|row| row.id).collect();
        sql_query(note).bind::<Text, _>(json(&ids)).execute(connection).unwrap();
        connection.batch_execute("COMMIT").unwrap();
        let created: HashMap<_, _> =
            created.into_iter().map(|row| (row.file_number, row.id)).collect();
        for (file_number, sender) in waiting {
            sender.send(created[&file_number]).unwrap();
        }
    }
}

fn json(values: &impl serde::Serialize) -> String {
    serde_json::to_string(values).unwrap()
}
