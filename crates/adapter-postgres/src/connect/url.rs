//! URLs of databases.

use std::{
    error::Error as _,
    path::{Path, PathBuf},
};

use diesel_async::pooled_connection::deadpool::BuildError;
use domain::ports::Cause;
use percent_encoding::percent_decode_str;
use tokio_postgres::{
    Config,
    config::{LoadBalanceHosts, SslMode, TargetSessionAttrs},
};

/// Parameters that a URL need not set. `connect_timeout` limits the TCP connection to one host, and
/// the login if there are several hosts. The others close the connection to a server that vanished.
const DEFAULTS: &str = "application_name=notary-orders&connect_timeout=1&tcp_user_timeout=10\
    &keepalives_idle=10&keepalives_interval=10";

/// The reason why a URL cannot be used. The text never repeats the URL, which may hold credentials.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is not one of PostgreSQL, or has an unknown or invalid parameter.
    #[error(
        "is not a URL of PostgreSQL; write postgres://user:password@host:5432/database, with \
        commas between several hosts and special characters percent-encoded"
    )]
    NotAUrl,
    /// The URL has a parameter that the service does not know.
    #[error(
        "the parameter {name} is not known here; remove it{}",
        instead(name).map(|instead| format!(", and {instead}")).unwrap_or_default()
    )]
    UnknownParameter {
        /// Its name.
        name: String,
    },
    /// A parameter has a value that it cannot have.
    #[error("the parameter {name} cannot have this value")]
    InvalidParameter {
        /// The name of the parameter.
        name: String,
    },
    /// `sslmode` has an unknown value.
    #[error("sslmode must be disable, prefer, require or verify-full")]
    SslMode,
    /// `sslrootcert` would be ignored.
    #[error("sslrootcert needs sslmode=require or sslmode=verify-full")]
    RootWithoutVerification,
    /// A weaker mode would accept any server that some authority knows.
    #[error("sslrootcert=system needs sslmode=verify-full, which may be left out")]
    SystemRootsWithoutVerification,
    /// The root certificates cannot be read.
    #[error("sslrootcert: no certificates can be read from {}", path.display())]
    Root {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Cause,
    },
    /// The system has no root certificates.
    #[error("the system has no root certificates; name a file of them by sslrootcert")]
    NoRoot,
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    /// The connection pool cannot be set up.
    #[error("the connection pool cannot be set up")]
    Pool(#[from] BuildError),
}

/// Returns what does the work of a parameter that drivers of other languages have.
fn instead(name: &str) -> Option<&'static str> {
    Some(match &*name.to_ascii_lowercase() {
        "schema" | "currentschema" | "search_path" | "searchpath" => {
            "name the schema by options=-csearch_path%3DSCHEMA"
        }
        "pgbouncer" | "preparethreshold" | "prepare_threshold" | "prepared_statements" => {
            "let the pooler lend out whole sessions"
        }
        "sslcert" | "sslkey" | "sslpassword" => "let the user log in by a password",
        "connection_limit" | "pool_timeout" | "pool_max_conns" | "pool.max" | "pool"
        | "poolsize" | "pool_size" | "maxpoolsize" | "max_pool_size" | "maximumpoolsize"
        | "max" => "set --database-connections (NOTARY_ORDERS_DATABASE_CONNECTIONS)",
        "ssl" | "sslmode" | "sslfactory" | "trustservercertificate" => {
            "write sslmode=require or sslmode=verify-full"
        }
        "applicationname" => "write application_name",
        "connecttimeout"
        | "logintimeout"
        | "connectiontimeout"
        | "connectiontimeoutmillis"
        | "timeout" => "write connect_timeout, in seconds",
        "tcpkeepalive" | "keepalive" => "write keepalives=1",
        "targetservertype" => "write target_session_attrs",
        "sockettimeout" | "socket_timeout" | "command_timeout" | "commandtimeout"
        | "statement_timeout" | "query_timeout" => "the service limits the time of its statements",
        _ => return None,
    })
}

/// Returns the configuration of each host of a URL, in the order of the URL, and the security of
/// the connections.
pub(crate) fn parse(url: &str) -> Result<(Vec<Config>, Security), OpenError> {
    let (rest, security) = Security::split_from(url)?;
    let mut hosts =
        one_url_per_host(&rest)?.iter().map(|url| host(url)).collect::<Result<Vec<_>, _>>()?;
    let several = hosts.len() > 1;
    for host in &mut hosts {
        if host.get_hostaddrs().len() > usize::from(!several) {
            return Err(OpenError::NotAUrl);
        }
        // By default, tokio-postgres would accept a standby.
        if several && host.get_target_session_attrs() == TargetSessionAttrs::Any {
            host.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        host.ssl_mode(security.mode);
    }
    Ok((hosts, security))
}

/// Splits `postgres://user@one,two/database` into `postgres://user@one/database` and
/// `postgres://user@two/database`.
fn one_url_per_host(url: &str) -> Result<Vec<String>, OpenError> {
    let (scheme, rest) = url.split_once("://").ok_or(OpenError::NotAUrl)?;
    let (address, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let (user, address) = address.split_at(address.find('@').map_or(0, |at| at + 1));
    let (hosts, database) = address.split_at(address.find('/').unwrap_or(address.len()));
    Ok(hosts.split(',').map(|host| format!("{scheme}://{user}{host}{database}{query}")).collect())
}

/// Returns the configuration of the URL of one host. Its parameters override ours.
fn host(url: &str) -> Result<Config, OpenError> {
    let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
    let separator = if parameters.is_empty() { "" } else { "&" };
    let url = format!("{address}?{DEFAULTS}{separator}{parameters}");
    let config: Config = url.parse().map_err(|_| OpenError::NotAUrl)?;
    // Hosts are tried in the order of the URL.
    if config.get_hosts().len() != 1
        || config.get_ports().len() > 1
        || config.get_load_balance_hosts() != LoadBalanceHosts::Disable
    {
        return Err(OpenError::NotAUrl);
    }
    Ok(config)
}

/// Returns whether a text has the form of a parameter's name in some driver: `connect_timeout`,
/// `prepareThreshold`, `ApplicationName`, `pool.max`. Other texts may be a part of a password.
fn is_name(text: &str) -> bool {
    const LONGEST: usize = 40;
    let has_form = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    // Names have abbreviations such as `SSL`, and no digits beside capitals.
    let capitals = text.split(|c: char| !c.is_ascii_uppercase()).map(str::len).max();
    let has_both = capitals > Some(0) && text.bytes().any(|byte| byte.is_ascii_digit());
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= LONGEST
        && text.bytes().all(has_form)
        && capitals <= Some(3)
        && !has_both
}

/// Checks a parameter by itself. An error names it, but never its value.
fn check_parameter(name: &str, parameter: &str) -> Result<(), OpenError> {
    let Err(error) = format!("postgres://localhost?{parameter}").parse::<Config>() else {
        return Ok(());
    };
    if instead(name).is_none() && !is_name(name) {
        return Err(OpenError::NotAUrl);
    }
    let name = name.to_owned();
    let is_unknown =
        error.source().is_some_and(|cause| cause.to_string().starts_with("unknown option"));
    Err(if is_unknown {
        OpenError::UnknownParameter { name }
    } else {
        OpenError::InvalidParameter { name }
    })
}

/// Encryption of connections, as in libpq (section 34.19, "SSL Support").
#[derive(Debug)]
pub(crate) struct Security {
    mode: SslMode,
    /// Whether the server must prove that it is the host of the URL.
    pub(crate) verified: bool,
    /// A file of root certificates; by default those of the system.
    pub(crate) root: Option<PathBuf>,
}

impl Security {
    /// Removes `sslmode` and `sslrootcert` from a URL. `tokio_postgres` does not know the second,
    /// nor `verify-full`.
    fn split_from(url: &str) -> Result<(String, Self), OpenError> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(OpenError::NotAUrl);
        }
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        // After an @ that is not percent-encoded, a part of the password would be read as the host, or
        // as a parameter, which an error may name.
        if address.matches('@').count() > 1 || query.contains('@') {
            return Err(OpenError::NotAUrl);
        }
        let (mut mode, mut root, mut others) = (None, None, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').ok_or(OpenError::NotAUrl)?;
            let value_of = || {
                percent_decode_str(value)
                    .decode_utf8()
                    .map(String::from)
                    .map_err(|_| OpenError::NotAUrl)
            };
            match name {
                "sslmode" => mode = Some(value_of()?),
                "sslrootcert" => root = Some(PathBuf::from(value_of()?)),
                _ => {
                    check_parameter(name, parameter)?;
                    others.push(parameter);
                }
            }
        }
        // As in libpq, these are the certificates that the system trusts.
        let of_system = root.as_deref() == Some(Path::new("system"));
        if of_system {
            root = None;
        }
        let (mode, verified) = match mode.as_deref() {
            None | Some("verify-full") if of_system => (SslMode::Require, true),
            Some(_) if of_system => return Err(OpenError::SystemRootsWithoutVerification),
            None | Some("prefer") => (SslMode::Prefer, false),
            Some("disable") => (SslMode::Disable, false),
            // As in libpq, a given root certificate is used.
            Some("require") => (SslMode::Require, root.is_some()),
            Some("verify-full") => (SslMode::Require, true),
            Some(_) => return Err(OpenError::SslMode),
        };
        if root.is_some() && !verified {
            return Err(OpenError::RootWithoutVerification);
        }
        let separator = if others.is_empty() { "" } else { "?" };
        Ok((format!("{address}{separator}{}", others.join("&")), Self { mode, verified, root }))
    }
}
