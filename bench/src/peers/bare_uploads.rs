//! The least that a program in Rust can do for an order with documents, and keep the promise of the
//! service: receive the form, hash each document, write it to a new file, sync the file and its
//! folder, run the statement of the plain schema, and answer.
//!
//! A thread serves a connection by itself, with a connection of its own to PostgreSQL, so an order
//! passes no other thread.

use std::{
    env,
    fs::File,
    hint::black_box,
    io::Write as _,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Barrier},
    thread,
};

use actix_web::rt::Runtime;
use memchr::memmem::{self, Finder};
use rustix::fs::{OFlags, fcntl_setfl};
use sha2::{Digest as _, Sha256};
use tokio_postgres::{Client, NoTls, Statement};

use super::{
    bare::{Created, Details, end_with_standard_input},
    plain::ORDER,
    received::{Received, Sink},
};

/// The most connections of the measurement.
const THREADS: usize = 32;
const BOUNDARY: &[u8] = b"boundary=";

/// Returns the command that starts the program.
pub fn command() -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg("bare-uploads");
    command
}

/// Serves orders with documents until standard input ends. Prints the address when all threads are
/// connected to PostgreSQL.
pub fn serve() {
    end_with_standard_input();
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let connected = Arc::new(Barrier::new(THREADS + 1));
    for _ in 0..THREADS {
        let (listener, connected) = (Arc::clone(&listener), Arc::clone(&connected));
        thread::spawn(move || {
            let orders = Orders::connect();
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
    client: Client,
    statement: Statement,
    folder: PathBuf,
    opened: File,
}

impl Orders {
    fn connect() -> Self {
        let url = env::var("DATABASE_URL").unwrap();
        let folder = PathBuf::from(env::var_os("DOCUMENTS").unwrap());
        let opened = File::open(&folder).unwrap();
        let runtime = Runtime::new().unwrap();
        let (client, connection) = runtime.block_on(tokio_postgres::connect(&url, NoTls)).unwrap();
        runtime.spawn(connection);
        let statement = runtime.block_on(client.prepare(ORDER)).unwrap();
        Self { runtime, client, statement, folder, opened }
    }

    /// Creates the orders of a connection until the client closes it.
    fn serve(&self, mut connection: TcpStream) {
        connection.set_nodelay(true).unwrap();
        let mut received = Received::new(connection.try_clone().unwrap());
        while let Some(head) = received.until(b"\r\n\r\n") {
            let details = self.keep_documents(&head, &mut received);
            let order = serde_json::to_string(&self.create(&details)).unwrap();
            let length = order.len();
            let answer = format!(
                "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{order}"
            );
            connection.write_all(answer.as_bytes()).unwrap();
        }
    }

    /// Receives a form, and keeps its documents durably.
    fn keep_documents(&self, head: &[u8], received: &mut Received<TcpStream>) -> Details {
        let boundary = memmem::find(head, BOUNDARY).unwrap() + BOUNDARY.len();
        let boundary = head[boundary..].split(|byte| *byte == b'\r').next().unwrap();
        let delimiter = [b"\r\n--", boundary].concat();
        let end_of_document = Finder::new(&delimiter);
        let (mut details, mut documents) = (None::<Details>, 0);
        // No line break comes before the first delimiter.
        received.until(&delimiter[2..]).unwrap();
        while received.until(b"\r\n").unwrap() != b"--" {
            let part = received.until(b"\r\n\r\n").unwrap();
            let has = |text: &str| memmem::find(&part, text.as_bytes()).is_some();
            if has("filename=") {
                let number = &details.as_ref().unwrap().file_number;
                let mut document =
                    Document::create(&self.folder.join(format!("{number}-{documents}")));
                received.document(&end_of_document, &mut document);
                document.finish();
                documents += 1;
            } else {
                let text = received.until(&delimiter).unwrap();
                if has("name=\"signingDetailsFormData\"") {
                    details = Some(serde_json::from_slice(&text).unwrap());
                }
            }
        }
        self.opened.sync_all().unwrap();
        details.unwrap()
    }

    fn create(&self, details: &Details) -> Created {
        let parameters = details.parameters();
        let query = self.client.query_one(&self.statement, &parameters);
        Created { order_id: self.runtime.block_on(query).unwrap().get(0) }
    }
}

/// The file of a document.
struct Document {
    file: File,
    sha256: Sha256,
}

impl Document {
    fn create(path: &Path) -> Self {
        Self { file: File::create_new(path).unwrap(), sha256: Sha256::new() }
    }

    /// Writes blocks past the page cache, as the service does, which saves copying them.
    fn write(&mut self, bytes: &[u8], flags: OFlags) {
        self.sha256.update(bytes);
        fcntl_setfl(&self.file, flags).unwrap();
        self.file.write_all(bytes).unwrap();
    }

    fn finish(self) {
        black_box(self.sha256.finalize());
        self.file.sync_all().unwrap();
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
