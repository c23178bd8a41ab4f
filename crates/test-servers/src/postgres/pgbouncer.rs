//! PgBouncer in front of a PostgreSQL cluster.

use std::{fs, iter, net::TcpStream, os::unix::fs::PermissionsExt as _, process::Stdio};

use tempfile::TempDir;

use crate::{
    janitor::{self, Janitor, free_port, wait_for},
    postgres::{Cluster, Database, PASSWORD, SUPERUSER, unprivileged},
};

/// A pooler for every database of a cluster. It ends when it is dropped or the test process ends.
pub struct PgBouncer {
    port: u16,
    _janitor: Janitor,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts a pooler with additional lines of `pgbouncer.ini`, such as `pool_mode = session`.
    pub fn start(cluster: &Cluster, settings: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("notary-orders-pgbouncer").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let port = free_port();
        let users = folder.path().join("users");
        fs::write(&users, format!("\"{SUPERUSER}\" \"{PASSWORD}\"\n")).unwrap();
        let lines = [
            "[databases]",
            &format!("* = host=127.0.0.1 port={}", cluster.port()),
            "[pgbouncer]",
            "listen_addr = 127.0.0.1",
            &format!("listen_port = {port}"),
            "unix_socket_dir =",
            "auth_type = scram-sha-256",
            &format!("auth_file = {}", users.display()),
            "max_client_conn = 1000",
            // Each test has a database of its own, and so a pool.
            "server_idle_timeout = 1",
        ];
        let ini = folder.path().join("pgbouncer.ini");
        fs::write(&ini, [&lines[..], settings].concat().join("\n")).unwrap();
        let mut pooler = unprivileged("pgbouncer");
        pooler.arg("--quiet").arg(&ini);
        let janitor = Janitor::start(
            janitor::RUN,
            iter::once(pooler.get_program()).chain(pooler.get_args()),
            Stdio::null(),
        );
        wait_for("PgBouncer", || TcpStream::connect(("127.0.0.1", port)));
        Self { port, _janitor: janitor, _folder: folder }
    }

    /// Returns the URL of a database through the pooler, for the superuser.
    pub fn url(&self, database: &Database<'_>) -> String {
        format!("postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{}/{}", self.port, database.name)
    }
}
