//! A malware scanner: clamd of ClamAV, with one signature of its own.

use std::{
    fmt::Write as _,
    fs,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Mutex,
};

use tempfile::TempDir;

use crate::janitor::{self, Janitor, free_port, wait_for};

/// The bytes that the scanner takes for malware, anywhere in a file.
pub const MALWARE: &[u8] = b"this text is malware to the scanner of the tests";

/// Greatest size of a stream in bytes (`StreamMaxLength`).
pub const MAX_STREAM: usize = 1024 * 1024;

/// A scanner that listens on a socket and on a port. It ends when it is dropped or the test process
/// ends.
pub struct Clamd {
    /// Ends before its folder goes.
    janitor: Mutex<Option<Janitor>>,
    folder: TempDir,
    port: u16,
}

impl Clamd {
    /// Starts a scanner, and waits until it answers.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("notary-orders-clamd").tempdir().unwrap();
        let port = free_port();
        let clamd = Self { folder, port, janitor: Mutex::default() };
        let hex = MALWARE.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        let database = clamd.folder.path().join("database");
        fs::create_dir(&database).unwrap();
        // Name, any kind of file, any position, bytes.
        fs::write(database.join("tests.ndb"), format!("Test.Malware:0:*:{hex}\n")).unwrap();
        let lines = [
            "Foreground yes".to_owned(),
            format!("DatabaseDirectory {}", database.display()),
            format!("TemporaryDirectory {}", clamd.folder.path().display()),
            format!("PidFile {}", clamd.pid_file().display()),
            format!("LocalSocket {}", clamd.socket().display()),
            "TCPAddr 127.0.0.1".to_owned(),
            format!("TCPSocket {port}"),
            format!("StreamMaxLength {MAX_STREAM}"),
        ];
        fs::write(clamd.folder.path().join("clamd.conf"), lines.join("\n") + "\n").unwrap();
        clamd.start_again();
        clamd
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("clamd.ctl")
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.path().join("clamd.pid")
    }

    /// Returns the URL of the socket.
    pub fn unix_url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Returns the URL of the port.
    pub fn tcp_url(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }

    /// Starts a stopped scanner on the same addresses, and waits until it answers.
    pub fn start_again(&self) {
        let settings = self.folder.path().join("clamd.conf");
        let clamd = ["clamd".as_ref(), "--config-file".as_ref(), settings.as_os_str()];
        let janitor = Janitor::start(janitor::RUN, clamd, Stdio::null());
        *self.janitor.lock().unwrap() = Some(janitor);
        wait_for("clamd", || UnixStream::connect(self.socket()));
    }

    /// Kills the scanner. Scans in progress lose their connections.
    pub fn stop(&self) {
        *self.janitor.lock().unwrap() = None;
    }

    /// Makes the scanner silent. The kernel still accepts connections for it.
    pub fn silence(&self) {
        self.signal("STOP");
    }

    /// Lets a silent scanner go on.
    pub fn go_on(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = fs::read_to_string(self.pid_file()).unwrap();
        let kill = format!("kill -{signal} {}", pid.trim());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }
}
