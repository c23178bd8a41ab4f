use domain::api_key::{ClientId, Party};
use reqwest::header::{HeaderMap, HeaderValue};
use standardwebhooks::Webhook;
use time::{OffsetDateTime, macros::datetime};

use super::*;

fn secret(byte: u8) -> WebhookSecret {
    WebhookSecret::from([byte; WebhookSecret::BYTES])
}

fn request(timestamp: OffsetDateTime, body: &str, secrets: Vec<WebhookSecret>) -> WebhookRequest {
    let (url, id, body) = (String::new(), "msg_2mKq".to_owned(), body.to_owned());
    let client = ClientId(1);
    WebhookRequest { party: Party::Client(client), url, id, timestamp, body, secrets, trace: None }
}

/// Returns whether the library of the standard accepts a webhook.
fn is_accepted(secret: &WebhookSecret, request: &WebhookRequest) -> bool {
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

#[test]
fn signature_is_the_hmac_of_id_timestamp_and_body() {
    // Computed with: printf 'msg_2mKq.1795262407.{"a":1}' |
    //     openssl dgst -sha256 -mac hmac -macopt hexkey:0707…07 -binary | base64
    let at = datetime!(2026-11-21 12:00:07.9 UTC);
    let signature = sign(&request(at, r#"{"a":1}"#, vec![secret(7)]));
    assert_eq!(signature, "v1,bVz4Y/kUj7MFVf+hMbe86XFq5GsEIZHzl59hSTjjeac=");
}

/// The receivers of the guide, in four languages, verify signatures as well: `tests/receivers.rs`.
#[test]
#[allow(clippy::disallowed_methods, reason = "the library reads the clock of the system")]
fn library_of_the_standard_accepts_each_secret_and_no_other() {
    let now = OffsetDateTime::now_utc();
    let body = r#"{"type":"order.created","data":{"file_number":"Ä-1\n"}}"#;
    let rotated = request(now, body, vec![secret(2), secret(1)]);
    assert!(is_accepted(&secret(1), &rotated) && is_accepted(&secret(2), &rotated));
    assert!(!is_accepted(&secret(3), &rotated));
    assert!(is_accepted(&secret(1), &request(now, body, vec![secret(1)])));
}

/// Returns the outcome of the check of a webhook whose parts are changed on the way.
fn received(change: impl FnOnce(&mut Received<'_>)) -> Result<(), NotGenuine> {
    let sent = request(datetime!(2026-11-21 12:00 UTC), r#"{"a":"Ä"}"#, vec![secret(2), secret(1)]);
    let (timestamp, signature) = (sent.timestamp.unix_timestamp().to_string(), sign(&sent));
    let mut arrived = Received {
        id: &sent.id,
        timestamp: &timestamp,
        signature: &signature,
        body: sent.body.as_bytes(),
    };
    change(&mut arrived);
    verify(&secret(1), &arrived, sent.timestamp + Duration::minutes(5))
}

#[test]
fn signed_webhook_is_genuine_for_five_minutes() {
    assert_eq!(received(|_| {}), Ok(()));
    let now = datetime!(2026-11-21 12:05:01 UTC);
    let sent = request(now - Duration::seconds(301), "{}", vec![secret(1)]);
    let (timestamp, signature) = (sent.timestamp.unix_timestamp().to_string(), sign(&sent));
    let arrived =
        Received { id: &sent.id, timestamp: &timestamp, signature: &signature, body: b"{}" };
    assert_eq!(verify(&secret(1), &arrived, now), Err(NotGenuine::Old));
    let ahead = sent.timestamp - Duration::seconds(301);
    assert_eq!(verify(&secret(1), &arrived, ahead), Err(NotGenuine::Old));
    assert_eq!(verify(&secret(2), &arrived, sent.timestamp), Err(NotGenuine::Forged));
}

#[test]
fn changed_webhook_is_not_genuine() {
    assert_eq!(received(|it| it.body = br#"{"a":"B"}"#), Err(NotGenuine::Forged));
    assert_eq!(received(|it| it.id = "msg_other"), Err(NotGenuine::Forged));
    assert_eq!(received(|it| it.timestamp = "1795262401"), Err(NotGenuine::Forged));
    for signature in ["v1,", "v1,AAAA", "v1,*", "v2,AAAA", "Ä"] {
        assert_eq!(received(|it| it.signature = signature), Err(NotGenuine::Forged), "{signature}");
    }
    for timestamp in ["now", "9223372036854775807", "-1", "0"] {
        assert_eq!(received(|it| it.timestamp = timestamp), Err(NotGenuine::Old), "{timestamp}");
    }
    assert_eq!(received(|it| it.id = ""), Err(NotGenuine::Incomplete));
    assert_eq!(received(|it| it.timestamp = ""), Err(NotGenuine::Incomplete));
    assert_eq!(received(|it| it.signature = ""), Err(NotGenuine::Incomplete));
}
