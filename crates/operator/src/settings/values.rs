//! Parsers of single settings.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    str::FromStr,
};

use actix_web::http::header::{self, HeaderName};
use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::{delivery::Mails, installation::SendsMessages};
use ipnet::IpNet;
use tracing::level_filters::LevelFilter;
use url::Url;

/// A database.
#[derive(Clone, PartialEq, Eq)]
pub enum Database {
    /// Path of an SQLite database.
    Sqlite(PathBuf),
    /// URL of a PostgreSQL database. It may contain a password.
    Postgres(String),
}

impl FromStr for Database {
    type Err = anyhow::Error;

    fn from_str(url: &str) -> Result<Self> {
        match url.split_once("://") {
            Some(("sqlite", path)) if !path.is_empty() => sqlite(path),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(url.to_owned())),
            _ => bail!("is neither postgres://USER:PASSWORD@HOST/DATABASE nor sqlite://PATH"),
        }
    }
}

/// Returns the database at a path. Other programs take parameters behind a question mark: as a part of the path,
/// they would name another file.
fn sqlite(path: &str) -> Result<Database> {
    let Some((_, query)) = path.split_once('?') else { return Ok(Database::Sqlite(path.into())) };
    // With an @, what looks like a name may be a part of a password.
    match query.split_once('=') {
        Some((name, _)) if !query.contains('@') => {
            bail!(
                "the parameter {name} is not known here; remove it: sqlite://PATH has none. An older version made \
                a file with this text in its name: rename that to PATH"
            )
        }
        _ => bail!("sqlite://PATH has no parameters, and PATH no question mark"),
    }
}

/// Returns the parser of a whole number in a range. Without it, errors have the words of libraries.
pub(crate) fn whole<N: TryFrom<i64> + 'static>(
    range: RangeInclusive<i64>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            match (*least, *most) {
                (i64::MIN, i64::MAX) => "must be a whole number".to_owned(),
                (_, i64::MAX) => format!("must be a whole number, {least} or more"),
                _ => format!("must be a whole number from {least} to {most}"),
            }
        })
    }
}

/// Reads the identifier of what a command names. Whether there is such a one, the command says.
pub(crate) fn listed(text: &str) -> Result<i64, &'static str> {
    text.trim().parse().map_err(|_| "must be a number, as lists show it")
}

/// Checks an address or a name with its port. Without a host it is every IPv4 address of this machine.
pub(super) fn address(text: &str) -> Result<String, String> {
    let text = text.trim();
    let text = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let is_named = |(host, port): (&str, &str)| {
        let is_name = host.contains(char::is_alphabetic) && !host.contains([':', '/', ' ']);
        is_name && port.parse::<u16>().is_ok()
    };
    if text.parse::<SocketAddr>().is_ok() || text.rsplit_once(':').is_some_and(is_named) {
        return Ok(text);
    }
    Err("must be an address and a port, such as 127.0.0.1:8080, localhost:8080 or :8080".to_owned())
}

pub(super) fn base_path(text: &str) -> Result<String, String> {
    let path = text.strip_suffix('/').unwrap_or(text);
    let segment = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    let is_valid =
        path.is_empty() || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(segment));
    is_valid.then(|| path.to_owned()).ok_or_else(|| {
        "must be empty, or begin with / and have only letters, digits and -._~ between slashes"
            .to_owned()
    })
}

pub(super) fn public_url(text: &str) -> Result<Url, &'static str> {
    let is_page = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    };
    let url = Url::parse(text.trim()).ok().filter(is_page);
    url.ok_or(
        "must be of the form https://orders.example.com, without a user, a query or a fragment",
    )
}

pub(super) fn mails() -> impl TypedValueParser<Value = Mails> {
    PossibleValuesParser::new(["full", "essential"])
        .map(|mails| if mails == "full" { Mails::Full } else { Mails::Essential })
}

pub(super) fn sends_messages() -> impl TypedValueParser<Value = SendsMessages> {
    PossibleValuesParser::new(["auto", "true", "false"]).map(|sends| match sends.as_str() {
        "true" => SendsMessages::Always,
        "false" => SendsMessages::Never,
        _ => SendsMessages::Auto,
    })
}

pub(super) fn log_level() -> impl TypedValueParser<Value = LevelFilter> {
    PossibleValuesParser::new(["off", "error", "warn", "info", "debug", "trace"])
        .try_map(|level| level.parse::<LevelFilter>())
}

pub(super) fn address_header(text: &str) -> Result<HeaderName, &'static str> {
    [header::X_FORWARDED_FOR, header::FORWARDED]
        .into_iter()
        .find(|name| text.trim().eq_ignore_ascii_case(name.as_str()))
        .ok_or("must be x-forwarded-for or forwarded")
}

pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address.or_else(|_| text.parse()).map_err(|_| {
        "must be an address such as 10.0.0.1 or a network such as 10.0.0.0/8".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn path_of_a_database_has_no_parameters() {
        let error = |url: &str| url.parse::<Database>().err().map(|error| error.to_string());
        let path = "data/orders #1 & 100%.sqlite";
        let parsed = format!("sqlite://{path}").parse::<Database>();
        assert!(matches!(parsed, Ok(Database::Sqlite(named)) if named == Path::new(path)));
        let expected = "the parameter mode is not known here; remove it: sqlite://PATH has none. An older \
            version made a file with this text in its name: rename that to PATH";
        for query in ["mode=rwc", "mode=ro&cache=shared"] {
            assert_eq!(error(&format!("sqlite://n.sqlite?{query}")).as_deref(), Some(expected));
        }
        let expected = "sqlite://PATH has no parameters, and PATH no question mark";
        for rest in ["n.sqlite?", "?", "n.sqlite?memory", "user:pass?w0rd=x@host/orders"] {
            assert_eq!(error(&format!("sqlite://{rest}")).as_deref(), Some(expected), "{rest}");
        }
    }

    #[test]
    fn public_url_is_that_of_a_page() {
        for text in ["https://orders.example.com", " http://localhost:8080/base/ "] {
            public_url(text).unwrap();
        }
        for text in [
            "",
            "orders.example.com",
            "ftp://orders.example.com",
            "https://user@orders.example.com",
            "https://:secret@orders.example.com",
            "https://orders.example.com?key=1",
            "https://orders.example.com/#/orders",
        ] {
            public_url(text).unwrap_err();
        }
    }
    use crate::address::resolve;

    #[tokio::test]
    async fn address_may_be_a_name_or_a_port_alone() {
        for (text, expected) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            (":8080", "0.0.0.0:8080"),
            ("[::1]:8080", "[::1]:8080"),
            (":0", "0.0.0.0:0"),
        ] {
            let resolved = resolve(&address(text).unwrap()).await.unwrap();
            assert_eq!(resolved, expected.parse().unwrap(), "{text}");
        }
        // A resolver that does not answer delays no other command.
        address("orders.example.invalid:8080").unwrap();
        for text in [
            "",
            "8080",
            "localhost",
            "127.0.0.1",
            ":",
            ":http",
            ":65536",
            "::1",
            "[::1]",
            "1.2.3:80",
            "a b:80",
            "http://a:80",
        ] {
            assert!(address(text).unwrap_err().contains("localhost:8080"), "{text}");
        }
    }

    #[test]
    fn number_is_rejected_in_words_of_ours() {
        assert_eq!(whole::<u32>(0..=9)(" 7 "), Ok(7));
        for text in ["", "x", "1.5", "-1", "10", "1e3", "99999999999999999999"] {
            let error = whole::<u32>(0..=9)(text).unwrap_err();
            assert_eq!(error, "must be a whole number from 0 to 9", "{text}");
        }
        assert_eq!(
            whole::<u64>(1..=i64::MAX)("0").unwrap_err(),
            "must be a whole number, 1 or more"
        );
        assert_eq!(listed("0"), Ok(0));
        assert_eq!(listed("1x").unwrap_err(), "must be a number, as lists show it");
    }

    #[test]
    fn base_path_has_plain_segments() {
        for (text, path) in [("", ""), ("/", ""), ("/signing", "/signing"), ("/a/b-c/", "/a/b-c")] {
            assert_eq!(base_path(text).as_deref(), Ok(path));
        }
        for text in ["/..", "/a/./b", "signing", "//", "/a//b", "/{id}", "/a b", "/ä"] {
            assert!(base_path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn proxy_is_an_address_or_a_network() {
        assert_eq!(network("10.0.0.1").unwrap().to_string(), "10.0.0.1/32");
        assert_eq!(network(" 10.0.0.0/8 ").unwrap().to_string(), "10.0.0.0/8");
        assert!(network("proxy.example.com").is_err());
    }
}
