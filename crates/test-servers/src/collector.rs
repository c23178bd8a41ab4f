//! A collector of OpenTelemetry: Rotel, which `scripts/requirements.txt` names.

use std::{
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{janitor::free_port, tools};

/// A running collector; it ends when this value is dropped.
pub struct Collector {
    process: Child,
    port: u16,
    output: Arc<Mutex<String>>,
    _folder: TempDir,
}

/// A span that the collector has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedSpan {
    /// The trace, in hexadecimal.
    pub trace: String,
    /// The span, in hexadecimal.
    pub id: String,
    /// The span that it is a part of, or nothing.
    pub parent: String,
    /// Its name.
    pub name: String,
    /// Its kind, as the protocol names it.
    pub kind: String,
}

impl Collector {
    /// Starts a collector, and waits until it accepts connections.
    pub fn start() -> Self {
        let package = "import importlib.util as u; print(u.find_spec('rotel').origin)";
        let found = Command::new(tools::python()).args(["-c", package]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        let agent = found.trim().replace("__init__.py", "rotel-agent");
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let mut process = Command::new(agent)
            .arg("start")
            .arg(format!("--otlp-http-endpoint=127.0.0.1:{port}"))
            .arg(format!("--otlp-grpc-endpoint=127.0.0.1:{}", free_port()))
            .args(["--exporter=blackhole", "--debug-log=traces", "--debug-log-verbosity=detailed"])
            .arg("--pid-file")
            .arg(folder.path().join("pid"))
            .arg("--log-file")
            .arg(folder.path().join("log"))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = Arc::<Mutex<String>>::default();
        let (lines, read) = (BufReader::new(process.stdout.take().unwrap()), output.clone());
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut output = read.lock().unwrap();
                output.push_str(&line);
                output.push('\n');
            }
        });
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "the collector does not start");
            sleep(Duration::from_millis(10));
        }
        Self { process, port, output, _folder: folder }
    }

    /// Returns the value of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns everything that was received, with attributes, as the collector prints it.
    pub fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    /// Returns the spans that were received.
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        let output = self.output();
        let spans = output.split("\nSpan #").skip(1);
        spans
            .map(|span| {
                let field = |name| {
                    let fields = span.lines().filter_map(|line| line.split_once(':'));
                    let mut values = fields.filter(|(field, _)| field.trim() == name);
                    values.next().map_or("", |(_, value)| value.trim()).to_owned()
                };
                ReceivedSpan {
                    trace: field("Trace ID"),
                    id: field("ID"),
                    parent: field("Parent ID"),
                    name: field("Name"),
                    kind: field("Kind"),
                }
            })
            .collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
