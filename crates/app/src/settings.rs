//! Settings: each is a flag and an environment variable.

#![expect(
    clippy::doc_markdown,
    reason = "the comments on settings are the help text, shown as they are"
)]

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use tracing::level_filters::LevelFilter;

/// How the service runs.
#[derive(Clone, Args)]
#[command(next_help_heading = "Settings")]
pub struct Settings {
    /// Address and port of the API
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "NOTARY_ORDERS_LISTEN",
        default_value = "127.0.0.1:8080",
        global = true,
        hide_env_values = true
    )]
    pub listen: SocketAddr,

    /// Address and port of /metrics, /healthz and /readyz; keep it private
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "NOTARY_ORDERS_OPS_LISTEN",
        default_value = "127.0.0.1:8081",
        global = true,
        hide_env_values = true
    )]
    pub ops_listen: SocketAddr,

    /// Put before every API path, such as /signing
    #[arg(long, value_name = "PATH", env = "NOTARY_ORDERS_BASE_PATH", default_value = "", value_parser = base_path, global = true, hide_env_values = true)]
    pub base_path: String,

    /// Folder of the embedded database, documents, mail drop and spool
    #[arg(
        long,
        value_name = "FOLDER",
        env = "NOTARY_ORDERS_DATA_DIR",
        default_value = "data",
        global = true,
        hide_env_values = true
    )]
    pub data_dir: PathBuf,

    /// Database: postgres://USER:PASSWORD@HOST/DATABASE or sqlite://PATH [default:
    /// notary-orders.sqlite in the data directory]
    #[arg(long, value_name = "URL", env = "DATABASE_URL", global = true, hide_env_values = true)]
    pub database_url: Option<String>,

    /// Most connections to a PostgreSQL database
    #[arg(long, value_name = "NUMBER", env = "NOTARY_ORDERS_DATABASE_CONNECTIONS", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1_000), global = true, hide_env_values = true)]
    pub database_connections: u16,

    /// Where documents are kept: s3://BUCKET/PREFIX, gs://…, az://… or file:///PATH [default:
    /// documents in the data directory]
    #[arg(
        long,
        value_name = "URL",
        env = "NOTARY_ORDERS_DOCUMENTS_URL",
        global = true,
        hide_env_values = true
    )]
    pub documents_url: Option<String>,

    /// Where mails go: smtp://USER:PASSWORD@HOST, smtps://… or file:///PATH, a folder of .eml files
    /// [default: mail in the data directory]
    #[arg(
        long,
        value_name = "URL",
        env = "NOTARY_ORDERS_MAIL_URL",
        global = true,
        hide_env_values = true
    )]
    pub mail_url: Option<String>,

    /// Sender of mails
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "NOTARY_ORDERS_MAIL_FROM",
        default_value = "orders@localhost",
        global = true,
        hide_env_values = true
    )]
    pub mail_from: String,

    /// Seconds after an order in which its file number is refused as a duplicate
    #[arg(long, value_name = "SECONDS", env = "NOTARY_ORDERS_DUPLICATE_WINDOW_SECS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=31_536_000), global = true, hide_env_values = true)]
    pub duplicate_window_secs: u32,

    /// Most bytes of one document
    #[arg(long, value_name = "BYTES", env = "NOTARY_ORDERS_MAX_DOCUMENT_BYTES", default_value_t = 10 * 1024 * 1024, value_parser = clap::value_parser!(u64).range(1..=1_073_741_824), global = true, hide_env_values = true)]
    pub max_document_bytes: u64,

    /// Orders per second of one API key, and failed authentications per second of one peer; 0 turns
    /// the limit off
    #[arg(
        long,
        value_name = "NUMBER",
        env = "NOTARY_ORDERS_RATE_PER_SECOND",
        default_value_t = 50,
        global = true,
        hide_env_values = true
    )]
    pub rate_per_second: u32,

    /// Orders of one API key, and failed authentications of one peer, at once; 0 turns the limit
    /// off
    #[arg(
        long,
        value_name = "NUMBER",
        env = "NOTARY_ORDERS_RATE_BURST",
        default_value_t = 100,
        global = true,
        hide_env_values = true
    )]
    pub rate_burst: u32,

    /// Orders with documents per second of one API key; 0 turns the limit off [default:
    /// --rate-per-second]
    #[arg(
        long,
        value_name = "NUMBER",
        env = "NOTARY_ORDERS_DOCUMENTS_RATE_PER_SECOND",
        global = true,
        hide_env_values = true
    )]
    pub documents_rate_per_second: Option<u32>,

    /// Orders with documents of one API key at once; 0 turns the limit off [default: --rate-burst]
    #[arg(
        long,
        value_name = "NUMBER",
        env = "NOTARY_ORDERS_DOCUMENTS_RATE_BURST",
        global = true,
        hide_env_values = true
    )]
    pub documents_rate_burst: Option<u32>,

    /// Seconds that a request is remembered under its Idempotency-Key
    #[arg(long, value_name = "SECONDS", env = "NOTARY_ORDERS_IDEMPOTENCY_RETENTION_SECS", default_value_t = 86_400, value_parser = clap::value_parser!(u32).range(1..=31_536_000), global = true, hide_env_values = true)]
    pub idempotency_retention_secs: u32,

    /// Orders without documents that are placed at a time; beyond them the answer is 503 at once
    #[arg(long, value_name = "NUMBER", env = "NOTARY_ORDERS_MAX_ORDERS_IN_FLIGHT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000), global = true, hide_env_values = true)]
    pub max_orders_in_flight: u32,

    /// Proxies whose X-Forwarded-For is believed: addresses or networks, separated by commas
    #[arg(long, value_name = "NETWORKS", env = "NOTARY_ORDERS_TRUSTED_PROXIES", value_delimiter = ',', value_parser = network, global = true, hide_env_values = true)]
    pub trusted_proxies: Vec<IpNet>,

    /// Seconds that running requests have to finish when the service is stopped
    #[arg(long, value_name = "SECONDS", env = "NOTARY_ORDERS_SHUTDOWN_GRACE_SECS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3_600), global = true, hide_env_values = true)]
    pub shutdown_grace_secs: u32,

    /// Form of the log [default: pretty on a terminal, json otherwise]
    #[arg(
        long,
        value_name = "FORM",
        env = "NOTARY_ORDERS_LOG_FORMAT",
        global = true,
        hide_env_values = true
    )]
    pub log_format: Option<LogFormat>,

    /// Least level that is logged: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", env = "NOTARY_ORDERS_LOG_LEVEL", default_value = "info", value_parser = log_level, global = true, hide_env_values = true)]
    pub log_level: LevelFilter,

    /// Environment variables, in which the document store finds its credentials.
    #[arg(skip)]
    pub environment: BTreeMap<String, String>,
}

/// URLs and variables hold passwords.
impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, ops_listen, base_path, data_dir, .. } = self;
        let mut shown = formatter.debug_struct("Settings");
        shown
            .field("listen", listen)
            .field("ops_listen", ops_listen)
            .field("base_path", base_path)
            .field("data_dir", data_dir)
            .finish_non_exhaustive()
    }
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object per line.
    Json,
}

impl Settings {
    /// Environment files often name a variable and leave it empty, to mean that it is not set.
    pub(crate) fn without_blanks(mut self) -> Self {
        for url in [&mut self.database_url, &mut self.documents_url, &mut self.mail_url] {
            *url = url.take().filter(|url| !url.trim().is_empty());
        }
        self
    }

    /// A path in the data directory.
    pub(crate) fn in_data_dir(&self, name: &str) -> PathBuf {
        self.data_dir.join(name)
    }

    /// The database.
    pub(crate) fn database(&self) -> Result<Database, UnknownDatabase> {
        self.database_url.as_ref().map_or_else(
            || Ok(Database::Sqlite(self.in_data_dir("notary-orders.sqlite"))),
            |url| url.parse(),
        )
    }
}

/// A database that a URL names.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Database {
    /// The file of an SQLite database.
    Sqlite(PathBuf),
    /// The whole URL of a PostgreSQL database, which may hold a password.
    Postgres(String),
}

/// The URL names no database that the program knows. The text does not repeat it, because it may
/// hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is neither postgres://USER:PASSWORD@HOST/DATABASE nor sqlite://PATH")]
pub(crate) struct UnknownDatabase;

impl FromStr for Database {
    type Err = UnknownDatabase;

    fn from_str(url: &str) -> Result<Self, UnknownDatabase> {
        match url.split_once("://") {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(url.to_owned())),
            _ => Err(UnknownDatabase),
        }
    }
}

fn base_path(text: &str) -> Result<String, String> {
    let path = text.strip_suffix('/').unwrap_or(text);
    let segment = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    let whole =
        path.is_empty() || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(segment));
    if whole {
        Ok(path.to_owned())
    } else {
        Err("must be empty, or begin with / and hold only letters, digits and -._~ between slashes"
            .to_owned())
    }
}

fn log_level(text: &str) -> Result<LevelFilter, String> {
    let level = if text.is_empty() { None } else { text.parse().ok() };
    level.ok_or_else(|| "must be one of off, error, warn, info, debug, trace".to_owned())
}

fn network(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address.or_else(|_| text.parse()).map_err(|_| {
        "must be an address such as 10.0.0.1 or a network such as 10.0.0.0/8".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_paths_are_plain() {
        for (text, path) in [("", ""), ("/", ""), ("/signing", "/signing"), ("/a/b-c/", "/a/b-c")] {
            assert_eq!(base_path(text).as_deref(), Ok(path));
        }
        for text in ["/..", "/a/./b", "signing", "//", "/a//b", "/{id}", "/a b", "/ä"] {
            assert!(base_path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            settings: Settings,
        }
        let urls = [
            "--database-url=postgres://u:secret@h/d",
            "--documents-url=s3://b?secret",
            "--mail-url=smtp://u:secret@h",
        ];
        let settings =
            <Flags as clap::Parser>::parse_from(["notary-orders"].into_iter().chain(urls)).settings;
        let settings = Settings {
            environment: [("AWS_SECRET_ACCESS_KEY".to_owned(), "the-secret".to_owned())].into(),
            ..settings
        };
        let shown = format!("{settings:?} {settings:#?}");
        assert!(shown.contains("127.0.0.1:8080") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn proxies_are_addresses_or_networks() {
        assert_eq!(network("10.0.0.1").unwrap().to_string(), "10.0.0.1/32");
        assert_eq!(network(" 10.0.0.0/8 ").unwrap().to_string(), "10.0.0.0/8");
        assert!(network("proxy.example.com").is_err());
    }
}
