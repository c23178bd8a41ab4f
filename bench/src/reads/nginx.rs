//! nginx, which serves the files of a folder.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::geteuid;

use crate::{folder::Folder, process::Server};

/// The program of Debian's package.
const PROGRAM: &str = "/usr/sbin/nginx";
/// Time limit for a start.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Stops nginx when standard input ends, so that it also ends with this process.
const JANITOR: &str = r#"
"$1" -p "$2" -c nginx.conf -e error.log &
cat >/dev/null
kill "$!"
wait "$!"
"#;

/// A running nginx. Dropping it stops the process.
pub struct Nginx {
    folder: Folder,
    janitor: Child,
    pub address: String,
}

impl Nginx {
    /// Serves a copy of a file as `/document`.
    pub fn start(file: &Path) -> Self {
        let folder = Folder::new();
        fs::copy(file, folder.path().join("document")).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        fs::write(folder.path().join("nginx.conf"), configuration(folder.path(), &address))
            .unwrap();
        let janitor = Command::new("sh")
            .args(["-c", JANITOR, "sh", PROGRAM])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let nginx = Self { folder, janitor, address };
        let started = Instant::now();
        while TcpStream::connect(&nginx.address).is_err() {
            let log = nginx.folder.path().join("error.log");
            assert!(
                started.elapsed() < START_TIMEOUT,
                "{PROGRAM} (package nginx-light) did not start: {}",
                fs::read_to_string(log).unwrap_or_default()
            );
            thread::sleep(Duration::from_millis(10));
        }
        nginx
    }

    /// Returns the CPU seconds of all its processes.
    pub fn cpu_seconds(&self) -> f64 {
        let main = fs::read_to_string(self.folder.path().join("nginx.pid")).unwrap();
        Server(main.trim().parse().unwrap()).cpu_seconds()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

fn configuration(folder: &Path, address: &str) -> String {
    // The folder belongs to this user only.
    let user = if geteuid().is_root() { "user root;" } else { "" };
    let folder = folder.display();
    format!(
        "{user}
daemon off;
worker_processes auto;
pid {folder}/nginx.pid;
events {{}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    default_type application/pdf;
    client_body_temp_path {folder}/client_body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {address};
        root {folder};
    }}
}}
"
    )
}
