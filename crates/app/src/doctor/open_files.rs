//! The limit of open files, against the limits of connections and requests.

use std::sync::Arc;

use rustix::process::{Resource, getrlimit};

use super::{
    finding::{Checked, Finding},
    ports,
};
use crate::{listen, settings::Settings};

const CHECK: &str = "files";

pub(super) async fn check(settings: Arc<Settings>) -> Checked {
    // The service raises its limit up to the hard limit.
    let own = || getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let (limit, whose) = match ports::running_service(&settings).await.and_then(|it| it.max_files) {
        Some(limit) => (limit, "the running service"),
        None => (own(), "a process of this user"),
    };
    Ok(vec![judge(&settings, limit, whose)])
}

fn judge(settings: &Settings, limit: u64, whose: &str) -> Finding {
    let connections = listen::connections_within(limit, settings.database_connections);
    let requests =
        u64::from(settings.max_orders_in_flight) + u64::from(settings.max_uploads_in_flight);
    let text = format!("{whose} may open {limit} files: enough for {connections} connections");
    if connections >= requests {
        return Finding::ok(CHECK, text);
    }
    Finding::fail(
        CHECK,
        format!("{text}, fewer than the {requests} requests that the settings permit at a time"),
        "Raise the hard limit (LimitNOFILE of systemd, `ulimit -Hn`), or lower \
         --max-orders-in-flight and --max-uploads-in-flight",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{doctor::Level, settings::tests::settings};

    #[test]
    fn limit_must_fit_the_permitted_requests() {
        let level = |flags: &[&str], limit| judge(&settings(flags), limit, "it").level;
        assert_eq!(level(&[], 65_536), Level::Ok);
        // 48 files and 16 connections to the database, and three times 256 + 256.
        assert_eq!(level(&[], 1_600), Level::Ok);
        assert_eq!(level(&[], 1_599), Level::Fail);
        assert_eq!(level(&[], 20), Level::Fail);
        assert_eq!(level(&["--max-orders-in-flight=32"], 1_599), Level::Ok);
    }
}
