//! The wiring of production: PostgreSQL, S3 and SMTP over the network.

use std::{
    any::Any,
    collections::BTreeMap,
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use test_servers::{
    postgres::{self, Cluster, Database, Stop},
    s3::{self, S3Server},
    smtp::{self, Offer, Phase, SmtpServer, Tls, Treatment},
};

/// The prefix of object keys, from the URL.
const PREFIX: &str = "orders/";

/// SQL for the hash of a document as text.
pub const HEX_SHA256: &str = "encode(sha256, 'hex')";

/// The database of a test.
enum Storage {
    /// On the server that all tests share.
    Shared(Database<'static>),
    /// On a server for this test alone.
    Own(Box<Cluster>),
    /// At a URL; the test itself sends its statements.
    At(String),
}

/// The way the relay rejects mails.
#[derive(Clone, Copy)]
pub enum Refusal {
    /// It rejects each recipient, and repeats the address in several spellings.
    Recipient,
    /// It rejects the content, and repeats parts of the mail.
    Content,
}

pub struct Wiring {
    data: TempDir,
    storage: Storage,
    bucket: S3Server,
    relay: SmtpServer,
}

/// Name of the database on a server for one test.
const OWN: &str = "orders_alone";

impl Wiring {
    pub fn new() -> Self {
        Self::on_shared(Cluster::shared().database())
    }

    /// Uses this database of the shared server.
    pub fn on_shared(database: Database<'static>) -> Self {
        Self::on(Storage::Shared(database))
    }

    /// Starts a database server for this test alone, which the test may stop.
    pub fn with_a_database_server() -> Self {
        Self::with_database_server(Cluster::start(&[]))
    }

    pub fn with_database_server(cluster: Cluster) -> Self {
        cluster.sql("postgres", &format!("CREATE DATABASE {OWN}"));
        Self::on(Storage::Own(Box::new(cluster)))
    }

    /// Uses the database at a URL. The test itself sends its statements.
    pub fn on_database(url: String) -> Self {
        Self::on(Storage::At(url))
    }

    fn on(storage: Storage) -> Self {
        let relay = SmtpServer::offering(Offer { tls: Tls::StartTls, auth: Some("PLAIN LOGIN") });
        Self { data: tempfile::tempdir().unwrap(), storage, bucket: S3Server::start(), relay }
    }

    pub fn data(&self) -> &Path {
        self.data.path()
    }

    pub fn database_url(&self) -> String {
        match &self.storage {
            Storage::Shared(database) => database.url(),
            Storage::Own(cluster) => cluster.url(OWN),
            Storage::At(url) => url.clone(),
        }
    }

    pub fn bucket(&self) -> &S3Server {
        &self.bucket
    }

    pub fn relay(&self) -> &SmtpServer {
        &self.relay
    }

    pub fn database_server(&self) -> &Cluster {
        self.own_database_server().expect("the server is for this test alone")
    }

    /// Returns the database server, if it is for this test alone.
    pub fn own_database_server(&self) -> Option<&Cluster> {
        match &self.storage {
            Storage::Own(cluster) => Some(cluster),
            _ => None,
        }
    }

    pub fn documents_url(&self) -> String {
        self.bucket.url()
    }

    /// Returns the flags with the URLs of the servers.
    pub fn flags(&self) -> Vec<String> {
        vec![
            format!("--database-url={}", self.database_url()),
            format!("--documents-url={}", self.bucket.url()),
            format!("--mail-url={}", self.relay.url()),
        ]
    }

    /// Returns the environment variables with credentials.
    pub fn environment(&self) -> BTreeMap<String, String> {
        self.bucket.variables().into()
    }

    /// Returns the output of a statement.
    pub fn query(&self, statement: &str) -> String {
        match &self.storage {
            Storage::Shared(database) => database.sql(statement),
            Storage::Own(cluster) => cluster.sql(OWN, statement),
            Storage::At(_) => panic!("the test sends its own statements"),
        }
    }

    /// Returns a program that executes its last argument as SQL.
    pub fn sql_program(&self) -> Command {
        let mut psql = Command::new("psql");
        psql.args(["--quiet", "--set=ON_ERROR_STOP=1", "--dbname", &self.database_url()]);
        psql.arg("--command");
        psql
    }

    /// Returns the lines of output of a query.
    pub fn lines(&self, query: &str) -> Vec<String> {
        self.query(query).lines().map(str::to_owned).collect()
    }

    pub fn rows(&self, table: &str) -> i64 {
        self.query(&format!("SELECT count(*) FROM {table}")).parse().unwrap()
    }

    /// Counts the mails that are not delivered yet: those of events (at least one each), and those
    /// in the queue.
    pub fn pending_mails(&self) -> i64 {
        // One statement, because a worker moves mails from one table to the other.
        self.query("SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM deliveries)")
            .parse()
            .unwrap()
    }

    /// Makes every insert of an order fail.
    pub fn spoil_database(&self) {
        self.query("ALTER TABLE orders ADD CONSTRAINT no_more CHECK (false) NOT VALID");
    }

    /// Executes statements in a session that lasts until it is dropped.
    fn session(&self, statements: &str) -> impl Any {
        struct Session(Child);
        impl Drop for Session {
            fn drop(&mut self) {
                // The end of the input ends the session and releases its locks.
                drop(self.0.stdin.take());
                self.0.wait().unwrap();
            }
        }
        let mut psql = Command::new("psql")
            .args(["--quiet", "--tuples-only"])
            .arg(self.database_url())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(psql.stdin.as_mut().unwrap(), "{statements}").unwrap();
        Session(psql)
    }

    /// Holds the lock of the migrations until dropped.
    pub fn lock_start(&self) -> Box<dyn Any> {
        let lock = self.session("SELECT pg_advisory_lock(7957707180310490994);");
        let locks = "SELECT count(*) FROM pg_locks WHERE granted AND locktype = 'advisory' \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        while self.query(locks) == "0" {
            std::thread::sleep(Duration::from_millis(10));
        }
        Box::new(lock)
    }

    /// Returns a lock that blocks the creation of orders until it is dropped.
    pub fn lock_database(&self) -> Box<dyn Any> {
        self.lock_table("orders", "ACCESS EXCLUSIVE")
    }

    /// Returns a lock that blocks changes of API keys until it is dropped.
    pub fn lock_keys(&self) -> Box<dyn Any> {
        self.lock_table("api_keys", "EXCLUSIVE")
    }

    fn lock_table(&self, table: &str, mode: &str) -> Box<dyn Any> {
        let lock = self.session(&format!("BEGIN; LOCK TABLE {table} IN {mode} MODE;"));
        let locks = format!(
            "SELECT count(*) FROM pg_locks WHERE granted AND relation = '{table}'::regclass \
             AND mode = replace(initcap('{mode}'), ' ', '') || 'Lock'"
        );
        while self.query(&locks) == "0" {
            std::thread::sleep(Duration::from_millis(10));
        }
        Box::new(lock)
    }

    pub fn break_database(&self) {
        match &self.storage {
            Storage::Shared(database) => {
                let (cluster, name) = (database.cluster, &database.name);
                cluster.sql("postgres", &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"));
                let terminate = format!(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
                     WHERE datname = '{name}'"
                );
                cluster.sql("postgres", &terminate);
            }
            Storage::Own(cluster) => cluster.stop(Stop::Fast),
            Storage::At(_) => panic!("the test stops its own server"),
        }
    }

    /// Returns the stored objects by key.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let below = |key: String| key.strip_prefix(PREFIX).map(str::to_owned).unwrap();
        self.bucket.objects().into_iter().map(|(key, object)| (below(key), object)).collect()
    }

    pub fn put_object(&self, key: &str, content: &[u8]) {
        let path = self.bucket.bucket().join(PREFIX).join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn remove_objects(&self) {
        for key in self.objects().into_keys() {
            std::fs::remove_file(self.bucket.bucket().join(PREFIX).join(key)).unwrap();
        }
    }

    pub fn document_keys(&self) -> Vec<String> {
        self.lines("SELECT key FROM documents")
    }

    pub fn break_documents(&self) {
        self.bucket.stop();
    }

    pub fn mend_documents(&self) {
        self.bucket.start_again();
    }

    /// Makes the store accept connections and never respond.
    pub fn silence_documents(&self) {
        self.bucket.treat(|_| s3::Treatment::Silence);
    }

    pub fn documents_go_on(&self) {
        self.bucket.treat(|_| s3::Treatment::Serve);
    }

    /// Returns the delivered mails.
    pub fn mails(&self) -> Vec<String> {
        self.relay.mails().into_iter().map(|mail| String::from_utf8(mail.raw).unwrap()).collect()
    }

    pub async fn mails_within(&self, count: usize, timeout: Duration) {
        self.relay.wait_for_mails(count, timeout).await;
    }

    pub fn break_mail(&self) {
        self.relay.stop();
    }

    pub const REFUSALS: [Refusal; 2] = [Refusal::Recipient, Refusal::Content];

    pub fn refuse_mails(&self, refusal: Refusal) {
        self.relay.treat(move |step| {
            let (user, home) = step.recipient.split_once('@').unwrap_or_default();
            let upper_case = user.to_uppercase();
            let reply = match (refusal, step.phase) {
                (Refusal::Recipient, Phase::Rcpt) => format!(
                    "550-5.1.1 <{user}@{home}>: no \"{user}\" at {home}.\r\n\
                     550 5.1.1 {user}%40{home} {user}={home} {upper_case} ({user}) is unknown, \
                     user_{user}"
                ),
                (Refusal::Content, Phase::Content) => format!(
                    "554 5.7.1 {user}@{home}: Mk1zq Mk8zq Mk17zq \"file Mkelsewherezq-2\" \
                     looks like spam"
                ),
                _ => return Treatment::Serve,
            };
            // A few replies per test may leak.
            Treatment::Refuse(reply.leak())
        });
    }

    /// Returns the texts that no output may contain.
    pub fn secrets() -> Vec<String> {
        [postgres::PASSWORD, s3::SECRET_KEY, smtp::PASSWORD].map(str::to_owned).into()
    }

    pub fn mend_mail(&self) {
        self.relay.start_again();
    }

    /// Makes the relay never respond to `DATA`.
    pub fn stall_mail(&self) {
        self.relay.treat_phase(Phase::Data, Treatment::Stall);
    }

    pub async fn a_mail_stalls(&self) {
        self.relay.wait_until_held(1, Duration::from_secs(30)).await;
    }

    pub fn mails_go_on(&self) {
        self.relay.behave();
    }
}
