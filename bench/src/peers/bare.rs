//! The least that a service in Rust can do for an order: read its JSON, store it, and answer. It
//! shows what HTTP and the database alone cost on the machine.

use std::{
    env,
    io::{Read as _, stdin},
    process::{Command, exit},
    thread,
};

use actix_web::{App, HttpResponse, HttpServer, rt, web};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio_postgres::{Error, types::ToSql};

use super::{
    bare_checked::Checked,
    bare_sqlite::Writer,
    bare_tables::{Batches, Plain},
};

const WORKERS: usize = 2;

/// Where the bare service stores orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tables {
    /// The plain schema on PostgreSQL, a statement for each order
    Plain,
    /// The service's tables on PostgreSQL, in batches
    Postgres,
    /// The service's tables on SQLite, in batches
    Sqlite,
    /// The service's tables on PostgreSQL, with its checks and by its own statement
    CheckedPostgres,
    /// The service's tables on SQLite, with its checks and by its own statements
    CheckedSqlite,
}

/// Stores orders in one way. Each worker has its own.
enum Store {
    Plain(Plain),
    Postgres(Batches),
    Shared(Shared),
}

/// Stores orders in one way for all workers.
#[derive(Clone)]
enum Shared {
    Sqlite(Writer),
    Checked(Checked),
}

impl Store {
    /// Connects to PostgreSQL, unless the workers share something.
    async fn open(tables: Tables, url: String, shared: Option<Shared>) -> Result<Self, Error> {
        match (tables, shared) {
            (_, Some(shared)) => Ok(Self::Shared(shared)),
            (Tables::Plain, None) => Plain::connect(&url).await.map(Self::Plain),
            _ => Batches::connect(&url).await.map(Self::Postgres),
        }
    }

    async fn add(&self, body: &[u8]) -> i64 {
        let details = || serde_json::from_slice::<Order>(body).unwrap().signing_details_form_data;
        match self {
            Self::Plain(plain) => plain.add(details()).await,
            Self::Postgres(batches) => batches.add(details().file_number).await,
            Self::Shared(Shared::Sqlite(writer)) => writer.add(details().file_number).await,
            Self::Shared(Shared::Checked(checked)) => checked.add(body).await,
        }
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

async fn create(body: web::Bytes, store: web::Data<Store>) -> HttpResponse {
    let order_id = store.add(&body).await;
    HttpResponse::Created().json(Created { order_id })
}

/// Returns the command that starts the service.
pub fn command(tables: Tables) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg("bare-service").arg(tables.to_possible_value().unwrap().get_name());
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
pub fn serve(tables: Tables) {
    end_with_standard_input();
    let url = env::var("DATABASE_URL").unwrap();
    let shared = match tables {
        Tables::Plain | Tables::Postgres => None,
        Tables::Sqlite => Some(Shared::Sqlite(Writer::start(&url))),
        Tables::CheckedPostgres => Some(Shared::Checked(Checked::on_postgres(&url, WORKERS))),
        Tables::CheckedSqlite => Some(Shared::Checked(Checked::on_sqlite(&url))),
    };
    let server = HttpServer::new(move || {
        let (url, shared) = (url.clone(), shared.clone());
        App::new()
            .data_factory(move || Store::open(tables, url.clone(), shared.clone()))
            .route("/api/order/create", web::post().to(create))
    })
    .workers(WORKERS)
    .bind("127.0.0.1:0")
    .unwrap();
    println!("{}", server.addrs()[0]);
    rt::System::new().block_on(server.run()).unwrap();
}
