//! The stores that a service runs on: those of the embedded default, or those of production.

mod embedded;
mod production;

use std::{
    any::Any,
    collections::BTreeMap,
    ops::Deref,
    path::Path,
    process::Command,
    sync::{Arc, LazyLock},
};

use test_servers::{
    postgres::{self, Cluster, Database},
    s3, smtp,
};

pub use self::production::{disconnect, psql};
use self::{embedded::Embedded, production::Production};
use crate::harness::{PENDING, TestApp, service_process::run};

/// Declares the tests of a file that run on both wirings, as `embedded::name` and `production::name`.
/// Each is an asynchronous function of the [`Kind`].
macro_rules! on_both_wirings {
    ($($(#[$attribute:meta])* $test:ident),+ $(,)?) => {
        mod embedded {
            $(
                #[tokio::test(flavor = "multi_thread")]
                $(#[$attribute])*
                async fn $test() {
                    super::$test($crate::wiring::Kind::Embedded).await;
                }
            )+
        }

        mod production {
            $(
                #[tokio::test(flavor = "multi_thread")]
                $(#[$attribute])*
                async fn $test() {
                    super::$test($crate::wiring::Kind::Production).await;
                }
            )+
        }
    };
}
pub(crate) use on_both_wirings;

/// One of the two wirings.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Embedded,
    Production,
}

impl Kind {
    /// Creates empty stores.
    pub fn wiring(self) -> Wiring {
        match self {
            Self::Embedded => Wiring::embedded(),
            Self::Production => Wiring::production(),
        }
    }

    /// Creates empty stores. The database has no tables yet.
    pub fn wiring_without_tables(self) -> Wiring {
        match self {
            Self::Embedded => Wiring::embedded(),
            Self::Production => Wiring::production_without_tables(),
        }
    }

    /// Creates empty stores. A database server is for this test alone, which may stop it.
    pub fn wiring_with_a_database_server(self) -> Wiring {
        match self {
            Self::Embedded => Wiring::embedded(),
            Self::Production => Wiring::with_a_database_server(),
        }
    }

    /// Starts a service with the default settings, but without a rate limit.
    pub async fn app(self) -> TestApp {
        self.app_with(&[]).await
    }

    /// Starts a service with these flags.
    pub async fn app_with(self, flags: &[&str]) -> TestApp {
        TestApp::start_on(self.wiring(), Arc::default(), flags, None).await
    }
}

/// How the mail store rejects mails.
#[derive(Clone, Copy)]
pub enum Refusal {
    /// The folder is gone.
    NoFolder,
    /// The relay rejects each recipient, and repeats the address in several spellings.
    Recipient,
    /// The relay rejects the content, and repeats parts of the mail.
    Content,
}

/// The texts that no output may contain.
pub const SECRETS: [&str; 3] = [postgres::PASSWORD, s3::SECRET_KEY, smtp::PASSWORD];

/// Stores for the services of one test.
pub enum Wiring {
    Embedded(Embedded),
    Production(Box<Production>),
}

impl Deref for Wiring {
    type Target = dyn Stores;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Embedded(stores) => stores,
            Self::Production(stores) => &**stores,
        }
    }
}

impl Wiring {
    /// Creates empty stores of the embedded default.
    pub fn embedded() -> Self {
        Self::Embedded(Embedded::new())
    }

    /// Creates empty stores of production, with a migrated database of the server that all tests share.
    pub fn production() -> Self {
        static MIGRATED: LazyLock<Database> = LazyLock::new(|| {
            let database = Cluster::shared().database();
            run(&Wiring::on_database(database.url()), &["migrate"]);
            database
        });
        Self::on_shared(MIGRATED.copy())
    }

    /// Creates empty stores of production. The database has no tables yet.
    pub fn production_without_tables() -> Self {
        Self::on_shared(Cluster::shared().database())
    }

    /// Creates empty stores of production, with this database of the shared server.
    pub fn on_shared(database: Database<'static>) -> Self {
        Self::Production(Box::new(Production::on_shared(database)))
    }

    /// Creates empty stores of production. The database server is for this test alone, which may stop it.
    pub fn with_a_database_server() -> Self {
        Self::with_database_server(Cluster::start(&[]))
    }

    /// Creates empty stores of production on this database server.
    pub fn with_database_server(cluster: Cluster) -> Self {
        Self::Production(Box::new(Production::with_database_server(cluster)))
    }

    /// Creates stores of production with the database at a URL.
    pub fn on_database(database_url: String) -> Self {
        Self::Production(Box::new(Production::on_database(database_url)))
    }

    /// Returns the servers of production.
    pub fn servers(&self) -> &Production {
        match self {
            Self::Embedded(_) => panic!("the embedded default has no servers"),
            Self::Production(stores) => stores,
        }
    }

    /// Returns whether the database is a server.
    pub fn has_server(&self) -> bool {
        matches!(self, Self::Production(_))
    }

    /// Returns the database server that a test may stop, if there is one.
    pub fn own_database_server(&self) -> Option<&Cluster> {
        match self {
            Self::Embedded(_) => None,
            Self::Production(stores) => stores.own_database_server(),
        }
    }

    /// Returns the number of services that tests start on these stores at once. The embedded
    /// database has one process.
    pub fn instances(&self) -> usize {
        match self {
            Self::Embedded(_) => 1,
            Self::Production(_) => 2,
        }
    }

    /// Returns the SQL for the hash of a document as hex text.
    pub fn hex_sha256(&self) -> &'static str {
        match self {
            Self::Embedded(_) => "lower(hex(sha256))",
            Self::Production(_) => "encode(sha256, 'hex')",
        }
    }

    /// Returns every way to reject mails.
    pub fn refusals(&self) -> &'static [Refusal] {
        match self {
            Self::Embedded(_) => &[Refusal::NoFolder],
            Self::Production(_) => &[Refusal::Recipient, Refusal::Content],
        }
    }

    /// Returns a lock that the start waits for until it is dropped. The database exists then.
    pub fn lock_start(&self) -> Box<dyn Any> {
        match self {
            Self::Embedded(stores) => {
                run(self, &["migrate"]);
                stores.lock_database()
            }
            Self::Production(stores) => stores.lock_migrations(),
        }
    }

    /// Returns the lines of output of a query.
    pub fn lines(&self, query: &str) -> Vec<String> {
        let output = self.execute(query).unwrap_or_else(|| panic!("failed: {query}"));
        output.lines().map(str::to_owned).collect()
    }

    /// Counts the rows of a table.
    pub fn rows(&self, table: &str) -> usize {
        self.lines(&format!("SELECT count(*) FROM {table}"))[0].parse().unwrap()
    }

    /// Counts the mails that are not delivered yet: those of events (at least one each), and those
    /// in the queue.
    pub fn pending_mails(&self) -> usize {
        self.lines(PENDING)[0].parse().unwrap()
    }
}

/// The operations of tests on the stores of either wiring.
pub trait Stores {
    /// Returns the data directory.
    fn data(&self) -> &Path;

    /// Returns the flags for stores outside the data directory.
    fn flags(&self) -> Vec<String>;

    /// Returns the environment variables with credentials.
    fn environment(&self) -> BTreeMap<String, String>;

    /// Returns a program that executes SQL from its input.
    fn sql(&self) -> Command;

    /// Executes SQL. Returns its output, or nothing if it fails.
    fn execute(&self, statements: &str) -> Option<String>;

    /// Makes every later insert of an order fail with an internal error.
    fn spoil_database(&self);

    /// Returns a lock that blocks the creation of orders until it is dropped.
    fn lock_database(&self) -> Box<dyn Any>;

    /// Returns a lock that no access is stored under until it is dropped.
    fn lock_accesses(&self) -> Box<dyn Any>;

    /// Makes the database unreachable.
    fn break_database(&self);

    /// Returns every stored object by its key.
    fn objects(&self) -> BTreeMap<String, Vec<u8>>;

    /// Stores an object that no order refers to.
    fn put_object(&self, key: &str, content: &[u8]);

    /// Removes every stored object.
    fn remove_objects(&self);

    /// Makes the documents unreachable.
    fn break_documents(&self);

    /// Returns every delivered mail.
    fn mails(&self) -> Vec<String>;

    /// Makes the mail store unreachable.
    fn break_mail(&self);

    /// Makes the mail store reachable again.
    fn mend_mail(&self);

    /// Makes the mail store reject mails.
    fn refuse_mails(&self, refusal: Refusal);
}
