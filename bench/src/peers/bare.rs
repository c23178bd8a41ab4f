//! The least that a service in Rust can do for an order: read its JSON, run the statement of the
//! plain schema, and answer. It shows what HTTP and PostgreSQL alone cost on the machine.

use std::{
    cell::Cell,
    env,
    io::{Read as _, stdin},
    process::{Command, exit},
    thread,
};

use actix_web::{App, HttpResponse, HttpServer, rt, web};
use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, NoTls, Statement, types::ToSql};

use super::plain::ORDER;

const WORKERS: usize = 2;
/// As many connections in all as the service has by default.
const CONNECTIONS_OF_A_WORKER: usize = 8;

/// The connections of a worker, which poll on its thread.
struct Database {
    clients: Vec<(Client, Statement)>,
    next: Cell<usize>,
}

impl Database {
    async fn connect(url: String) -> Result<Self, tokio_postgres::Error> {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS_OF_A_WORKER {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
            rt::spawn(connection);
            let statement = client.prepare(ORDER).await?;
            clients.push((client, statement));
        }
        Ok(Self { clients, next: Cell::new(0) })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Order {
    signing_details_form_data: Details,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    pub file_number: String,
    signer_name: String,
    property_address: String,
}

impl Details {
    /// Returns the parameters of the statement.
    pub fn parameters(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.file_number, &self.signer_name, &self.property_address]
    }
}

#[derive(Serialize)]
pub struct Created {
    pub order_id: i64,
}

async fn create(body: web::Bytes, database: web::Data<Database>) -> HttpResponse {
    let order: Order = serde_json::from_slice(&body).unwrap();
    let details = order.signing_details_form_data;
    let next = database.next.get();
    database.next.set((next + 1) % CONNECTIONS_OF_A_WORKER);
    let (client, statement) = &database.clients[next];
    let row = client.query_one(statement, &details.parameters()).await.unwrap();
    HttpResponse::Created().json(Created { order_id: row.get(0) })
}

/// Returns the command that starts the service.
pub fn command() -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg("bare-service");
    command
}

/// Ends this process when the measurement ends.
pub fn end_with_standard_input() {
    thread::spawn(|| {
        let _ = stdin().read_to_end(&mut Vec::new());
        exit(0);
    });
}

/// Serves orders until standard input ends. Prints the address.
pub fn serve() {
    end_with_standard_input();
    let url = env::var("DATABASE_URL").unwrap();
    let server = HttpServer::new(move || {
        let url = url.clone();
        App::new()
            .data_factory(move || Database::connect(url.clone()))
            .route("/api/order/create", web::post().to(create))
    })
    .workers(WORKERS)
    .bind("127.0.0.1:0")
    .unwrap();
    println!("{}", server.addrs()[0]);
    rt::System::new().block_on(server.run()).unwrap();
}
