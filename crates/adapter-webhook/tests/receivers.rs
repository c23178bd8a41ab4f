//! Sends webhooks to the example receivers of the guide, `docs/examples/receive…`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    io::Read as _,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use adapter_webhook::Sender;
use domain::{
    api_key::{ClientId, Party},
    ports::{WebhookRequest, WebhookSender as _},
    webhook::secret::WebhookSecret,
};
use standardwebhooks::Webhook;
use tempfile::TempDir;
use test_servers::{
    ports::free_port,
    tools::{built, examples, python},
};
use time::OffsetDateTime;

const RECEIVERS: [&str; 4] =
    ["receive_webhooks.py", "receive-webhooks.mjs", "receive-webhooks.php", "receive_webhooks.rs"];

const CREATED: &str = r#"{"type":"order.created","timestamp":"2026-12-01T20:30:00Z","data":{"order_id":170017,"file_number":"REFI-Ä","order_status":"NEW"}}"#;
const UPDATED: &str = r#"{"type":"order.updated","timestamp":"2026-12-01T21:05:00Z","data":{"order_id":170017,"file_number":"REFI-Ä","order_status":"ASSIGNED","previous_status":"NEW","notary_id":7001}}"#;
const ERASED: &str = r#"{"type":"order.erased","timestamp":"2026-12-02T08:00:00Z","data":{"order_id":170017,"is_test":false}}"#;
const TEST: &str = r#"{"type":"webhook.test","timestamp":"2026-12-01T20:30:00Z","data":{}}"#;

fn secret(byte: u8) -> WebhookSecret {
    WebhookSecret::from([byte; WebhookSecret::BYTES])
}

/// The receivers compare the timestamp with the clock of the system.
#[allow(clippy::disallowed_methods, reason = "a test of other programs has no other clock")]
fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

/// Returns a client that sends what the service would not.
fn client() -> reqwest::Client {
    // An error means that another test has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

/// A receiver with the secret `secret(1)`.
struct Receiver {
    process: Child,
    url: String,
    sender: Sender,
    _state: TempDir,
}

impl Receiver {
    fn start(name: &str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples").join(name);
        let state = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = match source.extension().unwrap().to_str().unwrap() {
            "py" => Command::new(python()),
            "mjs" => Command::new("node"),
            "php" => Command::new("php"),
            _ => Command::new(built(
                "examples/receive_webhooks",
                "cargo build --package notary-orders-adapter-webhook --example receive_webhooks",
            )),
        };
        match name {
            "receive_webhooks.rs" => &mut command,
            "receive-webhooks.php" => command.args(["-S", &address.to_string()]).arg(source),
            _ => command.arg(source),
        };
        let process = command
            .env("WEBHOOK_SECRET", secret(1).to_text())
            .env("PORT", address.port().to_string())
            .env("STATE_DIR", state.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; scripts/test.sh installs it"));
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "{name} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let open = vec!["127.0.0.1/32".parse().unwrap()];
        let (url, sender) = (format!("http://{address}/orders"), Sender::new(open, None).unwrap());
        Self { process, url, sender, _state: state }
    }

    /// Sends a webhook as the service does, and returns the status.
    async fn send(&self, id: &str, body: &str, secrets: &[u8], at: OffsetDateTime) -> u16 {
        let request = WebhookRequest {
            party: Party::Client(ClientId(1)),
            url: self.url.clone(),
            id: id.to_owned(),
            timestamp: at,
            body: body.to_owned(),
            secrets: secrets.iter().copied().map(secret).collect(),
            trace: None,
        };
        self.sender.send(&request).await.unwrap().status
    }

    /// Sends a body with the signature of another text.
    async fn send_forged(&self, signed: &str, body: String) -> u16 {
        let timestamp = now().unix_timestamp();
        let webhook = Webhook::new(&secret(1).to_text()).unwrap();
        let signature = webhook.sign("msg_forged", timestamp, signed.as_bytes()).unwrap();
        let request = client()
            .post(&self.url)
            .header("webhook-id", "msg_forged")
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature);
        request.body(body).send().await.unwrap().status().as_u16()
    }

    /// Ends the receiver and returns what it printed.
    fn printed(mut self) -> String {
        self.process.kill().unwrap();
        let mut printed = String::new();
        self.process.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        self.process.wait().unwrap();
        printed
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Also while the secret is being rotated.
#[tokio::test]
async fn genuine_events_are_handled_once() {
    for name in examples(&RECEIVERS) {
        let receiver = Receiver::start(name);
        for (id, body, secrets) in [
            ("msg_1", CREATED, &[1][..]),
            ("msg_2", TEST, &[1, 2]),
            ("msg_1", CREATED, &[1]),
            ("msg_3", TEST, &[2, 1]),
            ("msg_4", UPDATED, &[1]),
            ("msg_5", ERASED, &[1]),
        ] {
            assert_eq!(receiver.send(id, body, secrets, now()).await, 204, "{name} {id}");
        }
        let expected = [
            "order.created 170017 NEW",
            "webhook.test",
            "webhook.test",
            "order.updated 170017 ASSIGNED",
            "order.erased 170017\n",
        ];
        assert_eq!(receiver.printed(), expected.join("\n"), "{name}");
    }
}

/// The guide has code for platforms of flows.
#[test]
fn code_of_the_guide_tells_genuine_events() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/webhooks.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let code = guide.split("```js\n").nth(1).unwrap().split("```").next().unwrap();
    let (timestamp, key) = (now().unix_timestamp(), secret(1).to_text());
    let webhook = Webhook::new(&key).unwrap();
    let old = timestamp - 400;
    for (sent, body, expected) in
        [(timestamp, CREATED, "true"), (timestamp, UPDATED, "false"), (old, CREATED, "false")]
    {
        let signature = webhook.sign("msg_1", sent, CREATED.as_bytes()).unwrap();
        let inputs = serde_json::json!({
            "secret": key, "id": "msg_1", "timestamp": sent.to_string(), "body": body,
            "signatures": format!("v1,b3RoZXI= {signature}")
        });
        let program = format!(
            "const {{ secret, id, timestamp, body, signatures }} = {inputs};\n{code}\n\
             console.log(isGenuine);"
        );
        let output = Command::new("node").args(["-e", &program]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{output:?}");
    }
}

#[tokio::test]
async fn forged_old_and_long_events_are_rejected() {
    for name in examples(&RECEIVERS) {
        let receiver = Receiver::start(name);
        assert_eq!(receiver.send("msg_1", CREATED, &[2, 3], now()).await, 401, "{name}");
        for minutes in [-6, 6] {
            let at = now() + time::Duration::minutes(minutes);
            assert_eq!(receiver.send("msg_1", CREATED, &[1], at).await, 401, "{name} {minutes}");
        }
        assert_eq!(receiver.send_forged(TEST, CREATED.to_owned()).await, 401, "{name}");
        let long = "x".repeat(64 * 1024 + 1);
        assert_eq!(receiver.send_forged(&long, long.clone()).await, 413, "{name}");
        let unsigned = client().post(&receiver.url).body(CREATED);
        assert_eq!(unsigned.send().await.unwrap().status(), 401, "{name}");
        assert_eq!(receiver.printed(), "", "{name}");
    }
}
