//! The wiring of production: PostgreSQL, S3 and SMTP over the network.

use std::{
    any::Any, collections::BTreeMap, fs::Permissions, os::unix::fs::PermissionsExt as _,
    path::Path, process::Command, sync::Mutex,
};

use tempfile::TempDir;
use test_servers::{
    postgres::{Cluster, Database},
    s3::{self, S3Server},
    smtp::{Offer, Phase, SmtpServer, Tls, Treatment},
};

use crate::{
    harness::{PATIENCE, service_process::SqlSession},
    wiring::{Refusal, Stores},
};

/// The prefix of object keys, from the URL.
const PREFIX: &str = "orders/";

/// Returns a program that executes SQL from its input on a database of PostgreSQL.
pub fn psql(url: &str) -> Command {
    let mut psql = Command::new("psql");
    psql.args(["--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1", url]);
    psql
}

/// Ends the connections to a database, and allows no more.
pub fn disconnect(cluster: &Cluster, database: &str) {
    cluster.sql("postgres", &format!("ALTER DATABASE {database} ALLOW_CONNECTIONS false"));
    let terminate = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity";
    cluster.sql("postgres", &format!("{terminate} WHERE datname = '{database}'"));
}

pub struct Production {
    data: TempDir,
    database_url: String,
    /// The database, if it is on the server that all tests share.
    shared: Option<Database<'static>>,
    /// The database server, if it is for this test alone.
    server: Option<Cluster>,
    /// Executes the queries of the test.
    session: Mutex<Option<SqlSession>>,
    bucket: S3Server,
    relay: SmtpServer,
}

/// Name of the database on a server for one test.
const OWN: &str = "orders_alone";

impl Production {
    /// Uses this database of the shared server.
    pub fn on_shared(database: Database<'static>) -> Self {
        let stores = Self::on_database(database.url());
        Self { shared: Some(database), ..stores }
    }

    pub fn with_database_server(cluster: Cluster) -> Self {
        cluster.sql("postgres", &format!("CREATE DATABASE {OWN}"));
        let stores = Self::on_database(cluster.url(OWN));
        Self { server: Some(cluster), ..stores }
    }

    /// Uses the database at a URL.
    pub fn on_database(database_url: String) -> Self {
        let relay = SmtpServer::offering(Offer { tls: Tls::StartTls, auth: Some("PLAIN LOGIN") });
        // As an operator makes it.
        let private = Permissions::from_mode(0o700);
        let data = tempfile::Builder::new().permissions(private).tempdir().unwrap();
        let bucket = S3Server::start();
        Self {
            data,
            database_url,
            shared: None,
            server: None,
            session: Mutex::default(),
            bucket,
            relay,
        }
    }

    pub fn database_url(&self) -> String {
        self.database_url.clone()
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
        self.server.as_ref()
    }

    pub fn documents_url(&self) -> String {
        self.bucket.url()
    }

    /// Returns the output of a statement.
    pub fn query(&self, statement: &str) -> String {
        let output = self.execute(statement).unwrap_or_else(|| panic!("failed: {statement}"));
        output.trim_end().to_owned()
    }

    /// Holds the lock of the migrations until dropped.
    pub fn lock_migrations(&self) -> Box<dyn Any> {
        self.hold("SELECT pg_advisory_lock(1852797025, hashtext(current_schema()))")
    }

    fn hold(&self, lock: &str) -> Box<dyn Any> {
        Box::new(SqlSession::holding(self.sql(), lock))
    }

    /// Returns a lock that blocks changes of API keys until it is dropped.
    pub fn lock_keys(&self) -> Box<dyn Any> {
        self.hold("BEGIN; LOCK TABLE api_keys IN EXCLUSIVE MODE")
    }

    pub fn document_keys(&self) -> Vec<String> {
        self.query("SELECT key FROM documents").lines().map(str::to_owned).collect()
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

    pub async fn wait_for_mails(&self, count: usize) {
        self.relay.wait_for_mails(count, PATIENCE).await;
    }

    /// Makes the relay never respond to `DATA`.
    pub fn stall_mail(&self) {
        self.relay.treat_phase(Phase::Data, Treatment::Stall);
    }

    pub async fn a_mail_stalls(&self) {
        self.relay.wait_until_held(1, PATIENCE).await;
    }

    pub fn mails_go_on(&self) {
        self.relay.behave();
    }
}

impl Stores for Production {
    fn data(&self) -> &Path {
        self.data.path()
    }

    fn flags(&self) -> Vec<String> {
        vec![
            format!("--database-url={}", self.database_url()),
            format!("--documents-url={}", self.bucket.url()),
            format!("--mail-url={}", self.relay.url()),
        ]
    }

    fn environment(&self) -> BTreeMap<String, String> {
        self.bucket.variables().into()
    }

    fn sql(&self) -> Command {
        psql(&self.database_url)
    }

    /// All of it in one transaction.
    fn execute(&self, statements: &str) -> Option<String> {
        let transaction = format!("BEGIN; {statements}; COMMIT");
        let mut session = self.session.lock().unwrap();
        // A session ends with its first failure, also if a test has stopped the database server.
        let kept = session.as_mut().and_then(|session| session.output(&transaction));
        kept.or_else(|| session.insert(SqlSession::open(self.sql())).output(&transaction))
    }

    fn spoil_database(&self) {
        self.query("ALTER TABLE orders ADD CONSTRAINT no_more CHECK (false) NOT VALID");
    }

    fn lock_database(&self) -> Box<dyn Any> {
        self.hold("BEGIN; LOCK TABLE orders")
    }

    fn lock_accesses(&self) -> Box<dyn Any> {
        self.hold("BEGIN; LOCK TABLE accesses IN EXCLUSIVE MODE")
    }

    fn break_database(&self) {
        let Database { cluster, name } = self.shared.as_ref().expect("a shared server");
        disconnect(cluster, name);
    }

    fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let below = |key: String| key.strip_prefix(PREFIX).map(str::to_owned).unwrap();
        self.bucket.objects().into_iter().map(|(key, object)| (below(key), object)).collect()
    }

    fn put_object(&self, key: &str, content: &[u8]) {
        let path = self.bucket.bucket().join(PREFIX).join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn remove_objects(&self) {
        for key in self.objects().into_keys() {
            std::fs::remove_file(self.bucket.bucket().join(PREFIX).join(key)).unwrap();
        }
    }

    fn break_documents(&self) {
        self.bucket.stop();
    }

    fn mails(&self) -> Vec<String> {
        self.relay.mails().into_iter().map(|mail| String::from_utf8(mail.raw).unwrap()).collect()
    }

    fn break_mail(&self) {
        self.relay.stop();
    }

    fn mend_mail(&self) {
        self.relay.start_again();
    }

    fn refuse_mails(&self, refusal: Refusal) {
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
}
