//! A temporary PostgreSQL cluster from the system's packages, reached over TCP.
//!
//! PostgreSQL does not run as root, so tests that run as root start it as the user `postgres`.

pub mod pgbouncer;
mod session;

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use tempfile::TempDir;

use self::session::Session;
use crate::{
    certificates::Certificates,
    janitor::{Janitor, free_port},
};

/// The superuser of a cluster.
pub const SUPERUSER: &str = "orders";
/// Its password.
pub const PASSWORD: &str = "s3cr3t-passw0rd";

/// A cluster that listens on loopback. When it is dropped or the test process ends, even by a
/// signal, it stops and its data is removed.
pub struct Cluster {
    data: PathBuf,
    port: u16,
    root_certificate: PathBuf,
    /// Free sessions of [`Self::sql`], by database.
    sessions: Mutex<HashMap<String, Vec<Session>>>,
    _janitor: Janitor,
    folder: TempDir,
}

/// How to stop a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Disconnects all sessions and writes everything to disk.
    Fast,
    /// Sends SIGKILL to the postmaster and all backends.
    Kill,
}

/// Waits for the end of standard input, stops the server and removes the folder of the cluster.
const JANITOR: &str = r#"
cat >/dev/null
server="$(head -1 "$1/data/postmaster.pid")"
# A suspended server does not react to other signals.
kill -CONT "$server"
kill -QUIT "$server"
while kill -0 "$server"; do sleep 0.02; done
rm -rf "$1"
"#;

static DATABASES: AtomicU32 = AtomicU32::new(0);

impl Cluster {
    /// Returns the cluster that all tests of this process share. Starts it on the first call.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[]))
    }

    /// Starts a cluster with additional lines of `postgresql.conf`.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_in(&std::env::temp_dir(), settings)
    }

    /// Starts a cluster with its data in a folder.
    pub fn start_in(folder: &Path, settings: &[&str]) -> Self {
        let cluster = Self::prepare(folder);
        let password_file = cluster.folder.path().join("password");
        fs::write(&password_file, PASSWORD).unwrap();
        let password_file = format!("--pwfile={}", password_file.display());
        cluster.run(
            "initdb",
            &[
                "--no-sync",
                "--username",
                SUPERUSER,
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                &password_file,
            ],
        );
        cluster.configure(settings);
        cluster.resume_after_stop();
        cluster
    }

    /// Starts a standby that follows this cluster under the name `standby`.
    pub fn standby(&self) -> Self {
        let standby = Self::prepare(&std::env::temp_dir());
        let source = format!("--dbname={}?application_name=standby", self.url("postgres"));
        let target = format!("--pgdata={}", standby.data.display());
        // The copy includes the settings and certificates of the primary.
        succeed(standby.command("pg_basebackup").args([
            &source,
            &target,
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
        ]));
        standby.configure(&[]);
        standby.resume_after_stop();
        standby
    }

    fn prepare(below: &Path) -> Self {
        let folder =
            tempfile::Builder::new().prefix("notary-orders-postgres").tempdir_in(below).unwrap();
        // The user `postgres` must be able to reach its data.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
        give_to_postgres(&data);
        let port = free_port();
        let janitor = Janitor::start(JANITOR, [folder.path()], Stdio::null());
        let root_certificate = folder.path().join("root.pem");
        let sessions = Mutex::default();
        Self { data, port, root_certificate, sessions, _janitor: janitor, folder }
    }

    fn configure(&self, settings: &[&str]) {
        let Certificates { root, server, key } = Certificates::issue("Root", &["localhost"]);
        fs::write(&self.root_certificate, root).unwrap();
        for (name, content) in [("server.crt", server.pem()), ("server.key", key.serialize_pem())] {
            let path = self.data.join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            give_to_postgres(&path);
        }
        // The programs that the environment names may be built without TLS.
        let tls = if std::env::var_os(PROGRAMS).is_some() { "ssl = off" } else { "ssl = on" };
        // A test cluster need not survive a crash of the machine, so it does not wait for the disk.
        let lines = [
            "fsync = off",
            "full_page_writes = off",
            "max_connections = 300",
            "unix_socket_directories = ''",
            tls,
            "listen_addresses = '127.0.0.1'",
        ];
        let mut file =
            fs::OpenOptions::new().append(true).open(self.data.join("postgresql.conf")).unwrap();
        for line in lines.iter().chain(settings) {
            writeln!(file, "{line}").unwrap();
        }
        writeln!(file, "port = {}", self.port).unwrap();
    }

    /// Starts the server again.
    pub fn resume_after_stop(&self) {
        let log = self.data.join("server.log");
        let log = log.to_str().unwrap();
        // The backends of a killed postmaster may hold its shared memory for a moment; `pg_ctl`
        // does not wait for them.
        for _ in 0..600 {
            let started = self
                .command("pg_ctl")
                .args(["--wait", "--silent", "--log", log, "start"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap();
            if started.success() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("PostgreSQL does not start: {}", fs::read_to_string(log).unwrap_or_default());
    }

    /// Stops the server.
    pub fn stop(&self, how: Stop) {
        match how {
            Stop::Fast => self.run("pg_ctl", &["--wait", "--silent", "--mode=fast", "stop"]),
            Stop::Kill => {
                // No process must react to the end of another.
                self.freeze();
                let processes = self.processes();
                signal("-KILL", &processes);
                // An ended process has no program.
                while processes
                    .iter()
                    .any(|process| fs::read_link(format!("/proc/{process}/exe")).is_ok())
                {
                    thread::sleep(Duration::from_millis(5));
                }
                // Another process may get its number.
                let _ = fs::remove_file(self.data.join("postmaster.pid"));
            }
        }
    }

    /// Suspends the server and keeps its connections open until [`Self::thaw`].
    pub fn freeze(&self) {
        // First the postmaster, so that it starts no more backends.
        signal("-STOP", self.processes().get(..1).unwrap_or_default());
        signal("-STOP", &self.processes());
    }

    /// Resumes the server.
    pub fn thaw(&self) {
        signal("-CONT", &self.processes());
    }

    /// Promotes a standby and returns when it accepts writes.
    pub fn promote(&self) {
        self.run("pg_ctl", &["--wait", "--silent", "promote"]);
    }

    /// Creates an empty database with a unique name.
    pub fn database(&self) -> Database<'_> {
        self.create_database("")
    }

    fn create_database(&self, options: &str) -> Database<'_> {
        let name =
            format!("orders_{}_{}", std::process::id(), DATABASES.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} {options}"));
        Database { cluster: self, name }
    }

    /// Runs statements as the superuser, as one message: several are one transaction. Returns one line
    /// per row, with `|` between the values.
    ///
    /// The session is kept for the next call, because connecting costs more than most statements. So a
    /// `SET` lasts. What it reads is not in the statistics of the server.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        // Two calls at once have a session each.
        let kept = self.sessions.lock().unwrap().get_mut(database).and_then(Vec::pop);
        let session = kept.filter(Session::is_open);
        let session = session.unwrap_or_else(|| Session::open(&self.url(database)));
        let rows = session.run(statements);
        self.sessions.lock().unwrap().entry(database.to_owned()).or_default().push(session);
        rows
    }

    /// Ends the sessions of [`Self::sql`] with a database.
    fn end_sessions(&self, database: &str) {
        self.sessions.lock().unwrap().remove(database);
    }

    /// Returns the log of the server.
    pub fn log(&self) -> String {
        fs::read_to_string(self.data.join("server.log")).unwrap()
    }

    /// Returns the URL of a database for the superuser.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the root certificate that signed the server's certificate for `localhost`.
    pub fn root_certificate(&self) -> &Path {
        &self.root_certificate
    }

    /// Returns the postmaster and its backends, or nothing if the server is stopped.
    fn processes(&self) -> Vec<String> {
        let file = fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
        let Some(postmaster) = file.lines().next() else { return Vec::new() };
        let children = format!("/proc/{postmaster}/task/{postmaster}/children");
        let children = fs::read_to_string(children).unwrap_or_default();
        let children = children.split_whitespace();
        [postmaster].into_iter().chain(children).map(str::to_owned).collect()
    }

    /// Returns a command for a server program, run by the owner of the data.
    fn command(&self, program: &str) -> Command {
        let mut command = unprivileged(self::program(program));
        command.env("PGDATA", &self.data).current_dir(self.folder.path());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        succeed(self.command(program).args(arguments));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A suspended server does not react to signals.
        self.thaw();
    }
}

/// A database of a cluster.
pub struct Database<'a> {
    /// Its cluster.
    pub cluster: &'a Cluster,
    /// Its name.
    pub name: String,
}

impl<'a> Database<'a> {
    /// Copies the database, which no other session may use. Takes less time than migrating an empty one.
    pub fn copy(&self) -> Database<'a> {
        self.cluster.end_sessions(&self.name);
        // A backend goes on for a moment after its connection has closed.
        let terminate = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity";
        self.cluster.sql("postgres", &format!("{terminate} WHERE datname = '{}'", self.name));
        // The other strategy writes each page to the log.
        self.cluster.create_database(&format!("TEMPLATE {} STRATEGY file_copy", self.name))
    }

    /// Returns its URL for the superuser.
    pub fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    /// Returns its URL for another role.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("postgres://{user}:{password}@127.0.0.1:{}/{}", self.cluster.port, self.name)
    }

    /// Runs statements as the superuser, like [`Cluster::sql`].
    pub fn sql(&self, statements: &str) -> String {
        self.cluster.sql(&self.name, statements)
    }

    /// Returns its schema as SQL.
    pub fn schema(&self) -> String {
        let mut dump = Command::new(program("pg_dump"));
        let output = succeed(dump.arg(self.url()).args(["--schema-only", "--no-owner"]));
        // Newer versions of pg_dump write a random key around their output.
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| !line.starts_with('\\')).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        self.cluster.end_sessions(&self.name);
    }
}

/// Names the folder of the programs of another PostgreSQL than the system's.
const PROGRAMS: &str = "NOTARY_ORDERS_TEST_POSTGRES";

/// Returns the path of a program of PostgreSQL, such as `pg_dump`: in the folder that the environment
/// names, or of the newest version on this machine.
pub fn program(name: &str) -> PathBuf {
    if let Some(folder) = std::env::var_os(PROGRAMS) {
        return Path::new(&folder).join(name);
    }
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let debian = debian.map(|version| version.unwrap().path().join("bin"));
    let on_path = std::env::var_os("PATH").unwrap();
    debian
        .max()
        .into_iter()
        .chain(std::env::split_paths(&on_path))
        .map(|folder| folder.join(name))
        .find(|program| program.exists())
        .expect("PostgreSQL is installed; scripts/test.sh does so")
}

/// Sends a signal. Ignores processes that have ended.
fn signal(signal: &str, processes: &[String]) {
    let _ = Command::new("sh")
        .args(["-c", "kill \"$@\"", "sh", signal])
        .args(processes)
        .stderr(Stdio::null())
        .status()
        .unwrap();
}

fn runs_as_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Returns a command for a program that does not run as root.
pub(crate) fn unprivileged(program: impl AsRef<OsStr>) -> Command {
    if !runs_as_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
    command
}

/// Lets the server read a file if it runs as another user.
fn give_to_postgres(path: &Path) {
    if runs_as_root() {
        succeed(Command::new("chown").arg("postgres").arg(path));
    }
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
