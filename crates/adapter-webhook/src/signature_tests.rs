use std::process::Command;

use reqwest::header::{HeaderMap, HeaderValue};
use standardwebhooks::Webhook;
use test_servers::tools::{node_modules, python};
use time::{OffsetDateTime, macros::datetime};

use super::*;

const BODY: &str = r#"{"type":"order.created","data":{"file_number":"Ä-1\n"}}"#;

fn secret(byte: u8) -> WebhookSecret {
    WebhookSecret::from([byte; WebhookSecret::BYTES])
}

fn request(timestamp: OffsetDateTime, secrets: Vec<WebhookSecret>) -> WebhookRequest {
    let (url, id, body) = (String::new(), "msg_2mKq".to_owned(), BODY.to_owned());
    WebhookRequest { url, id, timestamp, body, secrets, trace: None }
}

/// The libraries compare the timestamp with the clock of the system.
#[allow(clippy::disallowed_methods, reason = "a test of other programs has no other clock")]
fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

/// Returns whether the library of the standard accepts the webhook, in the language of the program.
fn accepts(program: &mut Command, secret: &WebhookSecret, request: &WebhookRequest) -> bool {
    let output = program
        .env("SECRET", secret.to_text())
        .env("ID", &request.id)
        .env("TIMESTAMP", request.timestamp.unix_timestamp().to_string())
        .env("SIGNATURE", sign(request))
        .env("BODY", &request.body)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    String::from_utf8(output.stdout).unwrap().trim() == "accepted"
}

fn accepted_by_rust(secret: &WebhookSecret, request: &WebhookRequest) -> bool {
    let mut headers = HeaderMap::new();
    let timestamp = request.timestamp.unix_timestamp().to_string();
    for (name, value) in [
        ("webhook-id", &request.id),
        ("webhook-timestamp", &timestamp),
        ("webhook-signature", &sign(request)),
    ] {
        headers.insert(name, HeaderValue::from_str(value).unwrap());
    }
    let webhook = Webhook::new(&secret.to_text()).unwrap();
    webhook.verify(request.body.as_bytes(), &headers).is_ok()
}

fn accepted_by_python(secret: &WebhookSecret, request: &WebhookRequest) -> bool {
    let script = "
import os
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
names = {'ID': 'webhook-id', 'TIMESTAMP': 'webhook-timestamp', 'SIGNATURE': 'webhook-signature'}
headers = {header: os.environ[name] for name, header in names.items()}
try:
    Webhook(os.environ['SECRET']).verify(os.environb[b'BODY'], headers)
    print('accepted')
except WebhookVerificationError:
    print('rejected')
";
    accepts(Command::new(python()).args(["-c", script]), secret, request)
}

fn accepted_by_javascript(secret: &WebhookSecret, request: &WebhookRequest) -> bool {
    let script = "
const { Webhook, WebhookVerificationError } = require('standardwebhooks');
const { SECRET, ID, TIMESTAMP, SIGNATURE, BODY } = process.env;
const headers =
  { 'webhook-id': ID, 'webhook-timestamp': TIMESTAMP, 'webhook-signature': SIGNATURE };
try {
  new Webhook(SECRET).verify(BODY, headers);
  console.log('accepted');
} catch (error) {
  if (!(error instanceof WebhookVerificationError)) throw error;
  console.log('rejected');
}
";
    let mut node = Command::new("node");
    accepts(node.env("NODE_PATH", node_modules()).args(["-e", script]), secret, request)
}

#[test]
fn signature_is_the_hmac_of_id_timestamp_and_body() {
    // Computed with: printf 'msg_2mKq.1795262407.{"a":1}' |
    //     openssl dgst -sha256 -mac hmac -macopt hexkey:0707…07 -binary | base64
    let mut request = request(datetime!(2026-11-21 12:00:07.9 UTC), vec![secret(7)]);
    request.body = r#"{"a":1}"#.to_owned();
    assert_eq!(sign(&request), "v1,bVz4Y/kUj7MFVf+hMbe86XFq5GsEIZHzl59hSTjjeac=");
}

#[test]
fn libraries_of_the_standard_accept_each_secret_and_no_other() {
    for accepted in [accepted_by_rust, accepted_by_python, accepted_by_javascript] {
        let rotated = request(now(), vec![secret(2), secret(1)]);
        assert!(accepted(&secret(1), &rotated) && accepted(&secret(2), &rotated));
        assert!(!accepted(&secret(3), &rotated));
        assert!(accepted(&secret(1), &request(now(), vec![secret(1)])));
    }
}
