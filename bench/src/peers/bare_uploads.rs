//! The least that a program in Rust can do for an order with documents, and keep the promise of the
//! service: receive the form, hash each document, write it to a new file, sync the file and its
//! folder, run the statement of the plain schema, and answer. It can also run the statements of the
//! service, and deliver the mails.
//!
//! A thread serves a connection by itself, with a connection of its own to PostgreSQL, so an order
//! passes no other thread.

use std::{
    env,
    fs::File,
    io::Write as _,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use actix_web::rt::Runtime;
use clap::ValueEnum as _;
use domain::document::{Content, DocumentFormat, ReceivedDocument, Sha256Digest, SpooledFile};
use memchr::memmem::{self, Finder};
use rustix::fs::{OFlags, fcntl_setfl};
use sha2::{Digest as _, Sha256};
use tokio_postgres::{Client, NoTls, Statement};

use super::{
    bare::{Created, Details, end_with_standard_input},
    bare_intake::BareIntake,
    plain::ORDER,
    received::{Received, Sink},
};
use crate::instance::Backend;

/// The most connections of the measurement.
const THREADS: usize = 32;
const BOUNDARY: &[u8] = b"boundary=";

/// Numbers the files.
static NEXT_DOCUMENT: AtomicU64 = AtomicU64::new(0);

/// Returns the command that starts the program; with a database, as the service on it.
pub fn command(as_service_on: Option<Backend>) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg("bare-uploads");
    if let Some(backend) = as_service_on {
        command.arg(backend.to_possible_value().unwrap().get_name());
    }
    command
}

/// Serves orders with documents until standard input ends. Prints the address when all threads are
/// connected to PostgreSQL.
pub fn serve(as_service_on: Option<Backend>) {
    end_with_standard_input();
    let intake = as_service_on.map(|backend| Arc::new(BareIntake::open(backend, THREADS)));
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let connected = Arc::new(Barrier::new(THREADS + 1));
    for _ in 0..THREADS {
        let (listener, connected) = (Arc::clone(&listener), Arc::clone(&connected));
        let intake = intake.clone();
        thread::spawn(move || {
            let orders = Orders::connect(intake);
            connected.wait();
            loop {
                let (connection, _) = listener.accept().unwrap();
                orders.serve(connection);
            }
        });
    }
    connected.wait();
    println!("{}", listener.local_addr().unwrap());
    loop {
        thread::park();
    }
}

/// What a thread needs for its orders.
struct Orders {
    runtime: Runtime,
    store: Store,
    folder: PathBuf,
}

/// Stores orders in one way.
enum Store {
    Plain { client: Client, statement: Statement, opened: File },
    Service(Arc<BareIntake>),
}

/// A received form. Its documents are durable, but not yet their names.
#[derive(Default)]
struct Form {
    /// Names and values.
    texts: Vec<(String, String)>,
    documents: Vec<ReceivedDocument>,
}

impl Orders {
    fn connect(intake: Option<Arc<BareIntake>>) -> Self {
        let folder = PathBuf::from(env::var_os("DOCUMENTS").unwrap());
        let runtime = Runtime::new().unwrap();
        let store = intake.map_or_else(
            || {
                let url = env::var("DATABASE_URL").unwrap();
                let (client, connection) =
                    runtime.block_on(tokio_postgres::connect(&url, NoTls)).unwrap();
                runtime.spawn(connection);
                let statement = runtime.block_on(client.prepare(ORDER)).unwrap();
                Store::Plain { client, statement, opened: File::open(&folder).unwrap() }
            },
            Store::Service,
        );
        Self { runtime, store, folder }
    }

    /// Creates the orders of a connection until the client closes it.
    fn serve(&self, mut connection: TcpStream) {
        connection.set_nodelay(true).unwrap();
        let mut received = Received::new(connection.try_clone().unwrap());
        while let Some(head) = received.until(b"\r\n\r\n") {
            let form = self.receive(&head, &mut received);
            let order = serde_json::to_string(&Created { order_id: self.create(form) }).unwrap();
            let length = order.len();
            let answer = format!(
                "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{order}"
            );
            connection.write_all(answer.as_bytes()).unwrap();
        }
    }

    fn receive(&self, head: &[u8], received: &mut Received<TcpStream>) -> Form {
        let boundary = memmem::find(head, BOUNDARY).unwrap() + BOUNDARY.len();
        let boundary = head[boundary..].split(|byte| *byte == b'\r').next().unwrap();
        let delimiter = [b"\r\n--", boundary].concat();
        let end_of_document = Finder::new(&delimiter);
        let mut form = Form::default();
        // No line break comes before the first delimiter.
        received.until(&delimiter[2..]).unwrap();
        while received.until(b"\r\n").unwrap() != b"--" {
            let part = String::from_utf8(received.until(b"\r\n\r\n").unwrap()).unwrap();
            let quoted =
                |before: &str| Some(part.split_once(before)?.1.split_once('"')?.0.to_owned());
            if let Some(name) = quoted("filename=\"") {
                let number = NEXT_DOCUMENT.fetch_add(1, Ordering::Relaxed);
                let mut document = Document::create(self.folder.join(number.to_string()));
                received.document(&end_of_document, &mut document);
                form.documents.push(document.finish(name));
            } else {
                let text = String::from_utf8(received.until(&delimiter).unwrap()).unwrap();
                form.texts.push((quoted("name=\"").unwrap(), text));
            }
        }
        form
    }

    /// Creates an order. Returns its identifier.
    fn create(&self, Form { texts, documents }: Form) -> i64 {
        match &self.store {
            Store::Plain { client, statement, opened } => {
                opened.sync_all().unwrap();
                let is_details = |(name, _): &&(String, String)| name == "signingDetailsFormData";
                let (_, details) = texts.iter().find(is_details).unwrap();
                let details: Details = serde_json::from_str(details).unwrap();
                let parameters = details.parameters();
                let query = client.query_one(statement, &parameters);
                self.runtime.block_on(query).unwrap().get(0)
            }
            Store::Service(intake) => {
                let members: Vec<_> =
                    texts.iter().map(|(name, text)| format!("\"{name}\":{text}")).collect();
                let order = format!("{{{}}}", members.join(","));
                self.runtime.block_on(intake.add(order.as_bytes(), documents))
            }
        }
    }
}

/// The file of a document.
struct Document {
    path: PathBuf,
    file: File,
    sha256: Sha256,
    size: u64,
}

impl Document {
    fn create(path: PathBuf) -> Self {
        let file = File::create_new(&path).unwrap();
        Self { path, file, sha256: Sha256::new(), size: 0 }
    }

    /// Writes blocks past the page cache, as the service does, which saves copying them.
    fn write(&mut self, bytes: &[u8], flags: OFlags) {
        self.sha256.update(bytes);
        self.size += bytes.len() as u64;
        fcntl_setfl(&self.file, flags).unwrap();
        self.file.write_all(bytes).unwrap();
    }

    fn finish(self, name_as_sent: String) -> ReceivedDocument {
        let Self { path, file, sha256, size } = self;
        file.sync_all().unwrap();
        ReceivedDocument {
            name_as_sent,
            file: SpooledFile { path, size, sha256: Sha256Digest(sha256.finalize().into()) },
            content: Content::Format(DocumentFormat::Pdf),
        }
    }
}

impl Sink for Document {
    fn block(&mut self, block: &[u8]) {
        self.write(block, OFlags::DIRECT);
    }

    fn last(&mut self, bytes: &[u8]) {
        self.write(bytes, OFlags::empty());
    }
}
