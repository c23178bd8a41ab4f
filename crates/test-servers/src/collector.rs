//! A collector of OpenTelemetry: Rotel, which `scripts/requirements.txt` names.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpStream,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use tempfile::TempDir;

use crate::{
    janitor::{self, Janitor, free_port, wait_for},
    tools,
};

/// A running collector; it ends when this value is dropped.
pub struct Collector {
    _janitor: Janitor,
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
        let files = folder.path().display();
        let arguments = format!(
            "{agent} start --otlp-http-endpoint=127.0.0.1:{port} \
             --otlp-grpc-endpoint=127.0.0.1:{} --exporter=blackhole --debug-log=traces \
             --debug-log-verbosity=detailed --pid-file={files}/pid --log-file={files}/log",
            free_port()
        );
        let mut janitor = Janitor::start(janitor::RUN, arguments.split(' '), Stdio::piped());
        let output = Arc::<Mutex<String>>::default();
        let (lines, read) = (BufReader::new(janitor.0.stdout.take().unwrap()), output.clone());
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut output = read.lock().unwrap();
                output.push_str(&line);
                output.push('\n');
            }
        });
        wait_for("the collector", || TcpStream::connect(("127.0.0.1", port)));
        Self { _janitor: janitor, port, output, _folder: folder }
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
