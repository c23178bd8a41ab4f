//! Settings: each is a flag and an environment variable, `NOTARY_ORDERS_` and the name of the flag;
//! only `--database-url` is `DATABASE_URL`.

#![expect(clippy::doc_markdown, reason = "the comments on settings are the help text")]

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    ops::RangeInclusive,
    path::PathBuf,
};

use actix_web::http::header::HeaderName;
use adapter_sqlite::{BackupError, OpenError};
use anyhow::Context as _;
use clap::{ArgAction, Args, ValueEnum};
use domain::{
    api_key::Rate,
    appointment::ZoneDatabase,
    delivery::{Mails, Settling},
    document::DocumentLimits,
    duplicate_window::DuplicateWindow,
    idempotency::DEFAULT_RETENTION,
    installation::SendsMessages,
    person::{SessionTerms, Token},
    use_cases::{
        accesses::watch_accesses::AccessLimits,
        deliveries::run_deliveries::{DELIVERIES_IN_FLIGHT, MAILS_PER_RECIPIENT_HOUR},
        webhooks::run_webhooks::WEBHOOKS_IN_FLIGHT,
    },
};
use ipnet::IpNet;
use time::Duration;
use tracing::level_filters::LevelFilter;
use url::Url;

pub(crate) use self::login::LOGINS;
pub use self::{login::Login, values::Database};
use self::{
    login::login,
    time_zones::time_zones,
    values::{
        address, address_header, base_path, log_level, mails, network, public_url, sends_messages,
        whole,
    },
};

mod login;
mod logins;
mod time_zones;
pub(crate) mod values;
pub mod variables;

/// Names the database in errors.
pub(crate) const DATABASE: &str = "--database-url (DATABASE_URL)";

const YEAR_SECS: i64 = 31_536_000;

/// Up to a hundred years, and 0 for no limit.
const DAYS: RangeInclusive<i64> = 0..=36_500;

/// Longer than two health checks of common load balancers.
const DEFAULT_DRAIN_SECS: u64 = 5;

/// The settings of the service.
#[derive(Clone, Args)]
#[command(
    next_help_heading = "Settings",
    mut_args(|setting| variables::with_variable(setting).global(true).hide_env_values(true))
)]
pub struct Settings {
    /// Address and port of the API; :8080 is every IPv4 address of this machine
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = address)]
    pub listen: String,

    /// Address and port of /metrics, /healthz and /readyz; keep it private
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081", value_parser = address)]
    pub ops_listen: String,

    /// File of the certificate chain in PEM format, the service's own first: the API then speaks
    /// HTTPS; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// File of the private key of the certificate in PEM format, without a password
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Prefix of every API path, for example /signing
    #[arg(long, value_name = "PATH", default_value = "", value_parser = base_path)]
    pub base_path: String,

    /// Whether there is a page at /console, where people sign in
    #[arg(long, value_name = "BOOLEAN", default_value_t = true, action = ArgAction::Set)]
    pub console: bool,

    /// Whether that page takes an API key, and gives the browser a session in its place; false: only
    /// people sign in there
    #[arg(long, value_name = "BOOLEAN", default_value_t = true, action = ArgAction::Set)]
    pub console_keys: bool,

    /// Folder of the embedded database, documents, mails and uploads in progress
    #[arg(long, value_name = "FOLDER", default_value = "data")]
    pub data_dir: PathBuf,

    /// Database: postgres://USER:PASSWORD@HOST/DATABASE or sqlite://PATH [default:
    /// notary-orders.sqlite in the data directory]
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,

    /// Maximum number of connections to a PostgreSQL database
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = whole::<usize>(1..=1_000))]
    pub database_connections: usize,

    /// Document store: s3://BUCKET/PREFIX, gs://…, az://… or file:///PATH [default: documents in
    /// the data directory]
    #[arg(long, value_name = "URL")]
    pub documents_url: Option<String>,

    /// Mail relay: smtp://USER:PASSWORD@HOST or smtps://…; or file:///PATH, a folder for .eml files
    /// [default: mail in the data directory]
    #[arg(long, value_name = "URL")]
    pub mail_url: Option<String>,

    /// Malware scanner: unix:///run/clamav/clamd.ctl or tcp://HOST:3310, where clamd of ClamAV
    /// listens [default: documents are not scanned]
    #[arg(long, value_name = "URL")]
    pub scan_url: Option<String>,

    /// Whether documents must be scanned: if false, they are stored unscanned while the malware
    /// scanner is unavailable; if true, the answer is 503
    #[arg(long, value_name = "BOOLEAN", default_value_t = true, action = ArgAction::Set)]
    pub scan_required: bool,

    /// Sender of mails
    #[arg(long, value_name = "ADDRESS", default_value = "orders@localhost")]
    pub mail_from: String,

    /// Address at which users reach this service, with its base path: each mail links to its order in
    /// the console [default: mails have no link]
    #[arg(long, value_name = "URL", value_parser = public_url)]
    pub public_url: Option<Url>,

    /// Mails to send: all, or only those about new, changed and cancelled orders and signed documents
    #[arg(long, value_name = "MAILS", default_value = "full", value_parser = mails())]
    pub mails: Mails,

    /// Seconds without further news of its kind after which a mail leaves about changed fields, documents
    /// or notes, but 120 after the first at the latest. 0: at once
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = Settling::DEFAULT_SECS,
        value_parser = whole::<u32>(0..=Settling::LONGEST.whole_seconds())
    )]
    pub mail_settle_secs: u32,

    /// Whether mails and webhooks leave; auto: unless the database is a copy, which `notary-orders
    /// adopt` ends
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = sends_messages())]
    pub sends_messages: SendsMessages,

    /// Minutes without a request after which a session of a browser ends
    #[arg(
        long,
        value_name = "MINUTES",
        default_value_t = SessionTerms::default().idle.whole_minutes(),
        value_parser = whole::<i64>(1..=1_440)
    )]
    pub session_idle_mins: i64,

    /// Hours after the sign-in after which a session ends in any case
    #[arg(
        long,
        value_name = "HOURS",
        default_value_t = SessionTerms::default().lifetime.whole_hours(),
        value_parser = whole::<i64>(1..=168)
    )]
    pub session_hours: i64,

    /// Logins of companies by OpenID Connect, separated by commas: NAME is what people see, ISSUER that of
    /// the provider, such as Keycloak=https://HOST/realms/REALM
    #[arg(long, value_name = "NAME=ISSUER", value_delimiter = ',', value_parser = login)]
    pub oidc: Vec<Login>,

    /// Identifier of this service at the provider, for each login of --oidc
    #[arg(long, value_name = "NAME=CLIENT_ID", value_delimiter = ',')]
    pub oidc_client: Vec<String>,

    /// Secret of this service at the provider of a login [default: it has none there]
    #[arg(long, value_name = "NAME=SECRET", value_delimiter = ',')]
    pub oidc_secret: Vec<String>,

    /// File of that secret, in place of --oidc-secret; read at the start
    #[arg(long, value_name = "NAME=FILE", value_delimiter = ',')]
    pub oidc_secret_file: Vec<String>,

    /// Time zone data of the system or newer files, such as /usr/share/zoneinfo; names that it lacks
    /// are those of the data in the program [default: the data in the program]
    #[arg(long, value_name = "FOLDER", value_parser = time_zones)]
    pub tzdata_dir: Option<ZoneDatabase>,

    /// Whether orders may name only signing services of which `services list` has a record; auto: as
    /// soon as it has one
    #[arg(
        long,
        value_name = "WHEN",
        num_args = 0..=1,
        default_value = "auto",
        default_missing_value = "true"
    )]
    pub require_known_services: RequireKnownServices,

    /// Seconds after an order during which its file number is rejected as a duplicate
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = DuplicateWindow::default().0.whole_seconds(),
        value_parser = whole::<i64>(0..=YEAR_SECS)
    )]
    pub duplicate_window_secs: i64,

    /// Maximum size of one document in bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = DocumentLimits::default().max_bytes,
        value_parser = whole::<u64>(1..=1_073_741_824)
    )]
    pub max_document_bytes: u64,

    /// Maximum size of one signed document in MiB
    #[arg(long, value_name = "MIB", default_value_t = 50, value_parser = whole::<u64>(1..=1_024))]
    pub signed_document_mib: u64,

    /// Orders per second for each API key, and failed authentications per second for each client
    /// address; 0 turns the limit off
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = Rate::default().per_second,
        value_parser = whole::<u32>(0..=u32::MAX.into())
    )]
    pub rate_per_second: u32,

    /// Burst of orders for each API key, and of failed authentications for each client address; 0
    /// turns the limit off
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = Rate::default().burst,
        value_parser = whole::<u32>(0..=u32::MAX.into())
    )]
    pub rate_burst: u32,

    /// Orders with documents per second for each API key; 0 turns the limit off [default:
    /// --rate-per-second]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>(0..=u32::MAX.into()))]
    pub documents_rate_per_second: Option<u32>,

    /// Burst of orders with documents for each API key; 0 turns the limit off [default:
    /// --rate-burst]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>(0..=u32::MAX.into()))]
    pub documents_rate_burst: Option<u32>,

    /// Reads of orders and documents per second for each API key; 0 turns the limit off
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = Rate::READS.per_second,
        value_parser = whole::<u32>(0..=u32::MAX.into())
    )]
    pub reads_rate_per_second: u32,

    /// Burst of reads for each API key; 0 turns the limit off
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = Rate::READS.burst,
        value_parser = whole::<u32>(0..=u32::MAX.into())
    )]
    pub reads_rate_burst: u32,

    /// Seconds for which a request is stored under its Idempotency-Key
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = DEFAULT_RETENTION.whole_seconds(),
        value_parser = whole::<i64>(1..=YEAR_SECS)
    )]
    pub idempotency_retention_secs: i64,

    /// Concurrency limit of orders without documents; at the limit the answer is 503 at once
    #[arg(long, value_name = "NUMBER", default_value_t = 256, value_parser = whole::<usize>(1..=100_000))]
    pub max_orders_in_flight: usize,

    /// Concurrency limit of orders with documents, from their form to their storage; each client
    /// has a quarter of it; at the limit an order waits up to 5 seconds, then the answer is 503
    #[arg(long, value_name = "NUMBER", default_value_t = 256, value_parser = whole::<usize>(1..=100_000))]
    pub max_uploads_in_flight: usize,

    /// Disk space for all uploads in progress in MiB, half of it for one client; at the limit the
    /// answer is 503
    #[arg(long, value_name = "MIB", default_value_t = 8_192, value_parser = whole::<u64>(1..=u32::MAX.into()))]
    pub spool_mb: u64,

    /// Remove a mail from the mail drop after this many days. 0: never
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = whole::<u32>(0..=u32::MAX.into()))]
    pub mail_drop_days: u32,

    /// Remove the audit entry of a read or change of an order, and an erasure in the feed of changes,
    /// after this many days. 0: never
    #[arg(long, value_name = "DAYS", default_value_t = 730, value_parser = whole::<u32>(DAYS))]
    pub access_days: u32,

    /// Warn if a key or a person reads more than this many different orders in an hour, and send a
    /// mail to the contact of the key. Pages of the list do not count [default: no warning]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>(1..=i64::MAX))]
    pub access_alert: Option<u64>,

    /// Erase an order this many days after its appointment or last change, whichever is later. Orders
    /// on hold stay. 0: never
    #[arg(long, value_name = "DAYS", default_value_t = 0, value_parser = whole::<u32>(DAYS))]
    pub erase_after_days: u32,

    /// Erase the documents of an order this many days after its appointment or last change, whichever
    /// is later. Orders on hold keep them. 0: never
    #[arg(long, value_name = "DAYS", default_value_t = 0, value_parser = whole::<u32>(DAYS))]
    pub erase_documents_after_days: u32,

    /// Most mails an hour from one client to one recipient; the rest wait. 0: no limit. Signing
    /// services have no limit
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = MAILS_PER_RECIPIENT_HOUR,
        value_parser = whole::<u32>(0..=u32::MAX.into())
    )]
    pub mails_per_recipient_hour: u32,

    /// Maximum number of mails in progress; a mail relay gets at most 32 at a time
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = DELIVERIES_IN_FLIGHT,
        value_parser = whole::<usize>(1..=1_000)
    )]
    pub deliveries_in_flight: usize,

    /// Maximum number of webhooks in progress; a quarter is for endpoints that work. An endpoint gets
    /// at most 4 at a time, and 1 if it is new, or its last attempt failed or took over 5 seconds
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = WEBHOOKS_IN_FLIGHT,
        value_parser = whole::<usize>(1..=10_000)
    )]
    pub webhooks_in_flight: usize,

    /// Key that encrypts the secrets of webhook endpoints: 32 bytes in base64, as openssl rand
    /// -base64 32 prints. Of several keys, separated by commas, the first one encrypts and all
    /// decrypt [default: secrets.key in the data directory, made at the first start; none with
    /// PostgreSQL]
    #[arg(long, value_name = "KEYS")]
    pub secrets_key: Option<String>,

    /// Networks or addresses, separated by commas, that webhooks may be sent to although they are
    /// not public; http is permitted there
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',', value_parser = network)]
    pub webhook_allow: Vec<IpNet>,

    /// Proxy through which all webhooks are sent: http://USER:PASSWORD@HOST:PORT or https://…
    #[arg(long, value_name = "URL")]
    pub webhook_proxy: Option<String>,

    /// Proxies that are trusted to name the client and the request (X-Request-Id): addresses or
    /// networks, separated by commas
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',', value_parser = network)]
    pub trusted_proxies: Vec<IpNet>,

    /// Header in which trusted proxies name the address of the client: x-forwarded-for or forwarded
    #[arg(long, value_name = "NAME", default_value = "x-forwarded-for", value_parser = address_header)]
    pub client_address_header: HeaderName,

    /// Maximum number of connections of each client address, or IPv6 network of 64 bits; loopback
    /// addresses and trusted proxies have no limit
    #[arg(long, value_name = "NUMBER", default_value_t = 128, value_parser = whole::<usize>(1..=i64::MAX))]
    pub connections_per_address: usize,

    /// Seconds at a stop in which /readyz fails and requests are served on, so that load balancers
    /// choose other instances [default: 5, or 0 on a terminal]
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u64>(0..=3_600))]
    pub drain_secs: Option<u64>,

    /// Seconds that requests in progress have to finish when the service stops
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = whole::<u64>(1..=3_600))]
    pub shutdown_grace_secs: u64,

    /// Format of the log [default: pretty on a terminal, json otherwise]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// Minimum level of log lines
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log_level())]
    pub log_level: LevelFilter,

    /// Environment variables. The document store reads its credentials from them.
    #[arg(skip)]
    pub environment: BTreeMap<String, String>,

    /// Time limits of the adapters. Tests set others.
    #[arg(skip)]
    pub time_limits: TimeLimits,
}

/// The time limits of the adapters. Each adapter has the defaults of the service, and why.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeLimits {
    /// Of a store on PostgreSQL.
    pub postgres: adapter_postgres::TimeLimits,
    /// Of a store on SQLite.
    pub sqlite: adapter_sqlite::TimeLimits,
    /// Of a store of documents.
    pub documents: adapter_object_store::TimeLimits,
    /// Of the malware scanner.
    pub scanner: adapter_clamd::TimeLimits,
    /// Of the operators' endpoints.
    pub http: adapter_http::TimeLimits,
}

/// The error of a setting or an argument that cannot be used. Its text is that of the error.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct WrongSetting(#[from] pub anyhow::Error);

/// Names the setting of an error, and marks it as wrong.
pub fn checked<T, E>(result: Result<T, E>, setting: impl Into<String>) -> anyhow::Result<T>
where
    Result<T, E>: anyhow::Context<T, E>,
{
    result.context(setting.into()).map_err(|error| WrongSetting(error).into())
}

/// Returns whether a setting or an argument is wrong, so that a restart does not help: it is marked
/// so, unless a disk is full, or names a file or folder that this user cannot use.
pub fn is_wrong_setting(error: &anyhow::Error) -> bool {
    use io::ErrorKind::{
        IsADirectory, NotADirectory, PermissionDenied, ReadOnlyFilesystem, StorageFull,
    };
    let is_closed =
        |kind| matches!(kind, IsADirectory | NotADirectory | PermissionDenied | ReadOnlyFilesystem);
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    let kinds: Vec<_> = causes.map(io::Error::kind).collect();
    let is_marked = error.is::<WrongSetting>() && !kinds.contains(&StorageFull);
    let is_no_database = error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(OpenError::NotADatabase))
            || matches!(cause.downcast_ref(), Some(BackupError::Open(OpenError::NotADatabase)))
    });
    is_marked || is_no_database || kinds.into_iter().any(is_closed)
}

/// When orders may name only signing services that have a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RequireKnownServices {
    /// As soon as one has a record.
    Auto,
    /// Always.
    #[value(name = "true", alias = "on")]
    Always,
    /// Never.
    #[value(name = "false", alias = "off")]
    Never,
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for a terminal.
    Pretty,
    /// One JSON object per line.
    Json,
}

impl Settings {
    /// Treats the blank text of a flag as absent.
    pub fn without_blanks(mut self) -> Self {
        for text in [
            &mut self.database_url,
            &mut self.documents_url,
            &mut self.mail_url,
            &mut self.scan_url,
            &mut self.secrets_key,
            &mut self.webhook_proxy,
        ] {
            *text = text.take().filter(|text| !text.trim().is_empty());
        }
        self
    }

    /// Returns a path in the data directory.
    pub fn in_data_dir(&self, name: &str) -> PathBuf {
        self.data_dir.join(name)
    }

    /// Returns the mail drop, unless mails go to a relay.
    pub fn mail_drop(&self) -> Option<PathBuf> {
        self.folder(self.mail_url.as_deref(), "mail")
    }

    /// Returns the folder of documents, unless they are in a bucket.
    pub fn documents(&self) -> Option<PathBuf> {
        self.folder(self.documents_url.as_deref(), "documents")
    }

    /// Returns the folder that a URL names; without a URL the one with this name in the data
    /// directory.
    fn folder(&self, url: Option<&str>, name: &str) -> Option<PathBuf> {
        let Some(url) = url else { return Some(self.in_data_dir(name)) };
        let url = Url::parse(url).ok().filter(|url| {
            url.scheme() == "file" && url.query().is_none() && url.fragment().is_none()
        });
        url?.to_file_path().ok()
    }

    /// Returns the database. Errors name the setting.
    pub fn database(&self) -> anyhow::Result<Database> {
        let default = || Ok(Database::Sqlite(self.in_data_dir("notary-orders.sqlite")));
        checked(self.database_url.as_ref().map_or_else(default, |url| url.parse()), DATABASE)
    }

    /// Returns the name of the database in errors: that of its setting, if an operator has set it.
    pub fn database_setting(&self) -> &'static str {
        if self.database_url.is_some() { DATABASE } else { "the database in the data directory" }
    }

    /// Returns how long accesses are kept, and which keys are busy.
    pub fn access_limits(&self) -> AccessLimits {
        let kept = (self.access_days > 0).then(|| Duration::days(self.access_days.into()));
        AccessLimits { kept, alert: self.access_alert }
    }

    /// Returns how long an order bars its file number.
    pub fn duplicate_window(&self) -> DuplicateWindow {
        DuplicateWindow(Duration::seconds(self.duplicate_window_secs))
    }

    /// Returns how long sessions last.
    pub fn session_terms(&self) -> SessionTerms {
        SessionTerms {
            idle: Duration::minutes(self.session_idle_mins),
            lifetime: Duration::hours(self.session_hours),
        }
    }

    /// Returns the address at which users reach the service, without a slash at its end.
    pub fn public_address(&self) -> Option<String> {
        let url = self.public_url.as_ref()?;
        Some(url.as_str().trim_end_matches('/').to_owned())
    }

    /// Returns a link to the console whose fragment has a token: no server and no log gets it. Without
    /// `--public-url` it leads to this machine by the name `localhost`, where browsers allow passkeys.
    pub fn console_link(&self, name: &str, token: &Token, port: u16) -> String {
        let base = self.public_address().unwrap_or_else(|| {
            let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
            format!("{scheme}://localhost:{port}{}", self.base_path)
        });
        format!("{base}/console#{name}={}", token.expose())
    }

    /// Returns how long a request is stored under its idempotency key.
    pub fn idempotency_retention(&self) -> Duration {
        Duration::seconds(self.idempotency_retention_secs)
    }

    /// Returns the limits for the documents of one request.
    pub fn document_limits(&self) -> DocumentLimits {
        DocumentLimits { max_bytes: self.max_document_bytes, ..DocumentLimits::default() }
    }

    /// Returns the limits for the signed documents of one request.
    pub fn signed_document_limits(&self) -> DocumentLimits {
        let max_bytes = self.signed_document_mib * 1024 * 1024;
        DocumentLimits { max_bytes, ..DocumentLimits::default() }
    }

    /// Returns how long requests are served on after the signal to stop. An operator who presses
    /// Ctrl-C does not wait for load balancers.
    pub fn drain(&self) -> std::time::Duration {
        let default = if io::stderr().is_terminal() { 0 } else { DEFAULT_DRAIN_SECS };
        std::time::Duration::from_secs(self.drain_secs.unwrap_or(default))
    }

    /// Returns whether the log is JSON: by default, unless it goes to a terminal.
    pub fn is_json_log(&self) -> bool {
        match self.log_format {
            Some(format) => format == LogFormat::Json,
            None => !io::stderr().is_terminal(),
        }
    }

    /// Returns the default rate limit for orders without documents.
    pub fn rate(&self) -> Rate {
        Rate { per_second: self.rate_per_second, burst: self.rate_burst }
    }

    /// Returns the default rate limit for orders with documents.
    pub fn documents_rate(&self) -> Rate {
        Rate {
            per_second: self.documents_rate_per_second.unwrap_or(self.rate_per_second),
            burst: self.documents_rate_burst.unwrap_or(self.rate_burst),
        }
    }

    /// Returns the rate limit for reads.
    pub fn reads_rate(&self) -> Rate {
        Rate { per_second: self.reads_rate_per_second, burst: self.reads_rate_burst }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the settings of a command line.
    pub(crate) fn settings(flags: &[&str]) -> Settings {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            settings: Settings,
        }
        let flags = ["notary-orders"].iter().chain(flags);
        <Flags as clap::Parser>::parse_from(flags).settings
    }
}
