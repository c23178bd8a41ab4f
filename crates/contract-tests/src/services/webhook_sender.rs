//! The contract of `WebhookSender`. The adapter tests which URLs it refuses.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    api_key::{ClientId, Party},
    ports::{WebhookAnswer, WebhookError, WebhookRequest, WebhookSender},
    trace_context::TraceContext,
    webhook::secret::WebhookSecret,
};
use futures_util::future::join_all;
use time::{Duration, macros::datetime};

/// A webhook that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedWebhook {
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl ReceivedWebhook {
    /// Returns a header that is there once.
    pub fn header(&self, name: &str) -> &str {
        let values: Vec<_> = self.headers.iter().filter(|(one, _)| one == name).collect();
        let [(_, value)] = values[..] else { panic!("{name} in {:?}", self.headers) };
        value
    }
}

/// The reaction of the receiver to each webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// Answers with a status, header lines and no body.
    Answer(u16, &'static str),
    /// Answers 200 with a body of many megabytes.
    HugeBody,
    /// Answers 200 and begins a body that never ends.
    EndlessBody,
    /// Reads the webhook and never answers.
    Silence,
    /// Sends the head of an answer without end.
    EndlessHead,
    /// Answers with something else than HTTP.
    Nonsense,
    /// Closes the connection without an answer.
    Close,
}

/// A sender, and a receiver that it may call.
#[async_trait]
pub trait WebhookSenderFixture: Send + Sync {
    /// Returns the sender. Its time limit is short while the receiver does not answer.
    fn sender(&self) -> Arc<dyn WebhookSender>;

    /// Returns the URL of the receiver.
    fn url(&self) -> String;

    /// Returns a URL of the same receiver that the service may not call.
    fn refused_url(&self) -> String;

    /// Returns a URL where nothing listens.
    fn closed_url(&self) -> String;

    /// Sets what the receiver does.
    async fn react(&self, reaction: Reaction);

    /// Returns every webhook that arrived, in any order.
    async fn received(&self) -> Vec<ReceivedWebhook>;
}

const NOW: time::OffsetDateTime = datetime!(2026-11-21 12:00:07.9 UTC);

/// Returns an attempt with a body of several kinds of characters.
pub fn request(url: String) -> WebhookRequest {
    WebhookRequest {
        party: Party::Client(ClientId(1)),
        url,
        id: "msg_2mKq".to_owned(),
        timestamp: NOW,
        body: r#"{"type":"order.created","data":{"file_number":"Ä-1\n"}}"#.to_owned(),
        secrets: vec![WebhookSecret::from([7; WebhookSecret::BYTES])],
        trace: None,
    }
}

async fn send(fixture: &dyn WebhookSenderFixture) -> Result<WebhookAnswer, WebhookError> {
    fixture.sender().send(&request(fixture.url())).await
}

fn status(status: u16) -> WebhookAnswer {
    WebhookAnswer { status, retry_after: None }
}

/// With the headers of the standard.
pub async fn webhook_arrives_byte_for_byte(fixture: &dyn WebhookSenderFixture) {
    fixture.react(Reaction::Answer(204, "")).await;
    assert_eq!(send(fixture).await, Ok(status(204)));
    let [webhook] = &fixture.received().await[..] else { panic!("one webhook") };
    assert_eq!(webhook.body, request(String::new()).body.as_bytes());
    assert_eq!(webhook.header("content-type"), "application/json");
    assert_eq!(webhook.header("webhook-id"), "msg_2mKq");
    assert_eq!(webhook.header("webhook-timestamp"), "1795262407");
}

/// The signature of the newest secret comes first.
pub async fn each_secret_signs(fixture: &dyn WebhookSenderFixture) {
    fixture.react(Reaction::Answer(204, "")).await;
    let [old, new] = [1, 2].map(|byte| WebhookSecret::from([byte; WebhookSecret::BYTES]));
    for secrets in [vec![old.clone()], vec![new.clone()], vec![new, old]] {
        let request = WebhookRequest { secrets, ..request(fixture.url()) };
        fixture.sender().send(&request).await.unwrap();
    }
    let received = fixture.received().await;
    let [old, new, both] = [0, 1, 2].map(|index| received[index].header("webhook-signature"));
    assert!(old.starts_with("v1,") && new.starts_with("v1,") && old != new);
    assert_eq!(both, format!("{new} {old}"));
}

/// None of its headers is sent without one.
pub async fn trace_context_arrives(fixture: &dyn WebhookSenderFixture) {
    fixture.react(Reaction::Answer(204, "")).await;
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned();
    for tracestate in [None, Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE".to_owned())] {
        let trace = Some(TraceContext { traceparent: traceparent.clone(), tracestate });
        let request = WebhookRequest { trace, ..request(fixture.url()) };
        fixture.sender().send(&request).await.unwrap();
    }
    send(fixture).await.unwrap();
    let [parent, both, none] = &fixture.received().await[..] else { panic!("three webhooks") };
    let has = |webhook: &ReceivedWebhook, name| webhook.headers.iter().any(|(one, _)| one == name);
    assert_eq!(parent.header("traceparent"), traceparent);
    assert!(!has(parent, "tracestate"));
    assert_eq!(both.header("tracestate"), "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
    assert!(!has(none, "traceparent") && !has(none, "tracestate"));
}

/// Covers each class. A redirect is not followed: only one webhook arrives.
pub async fn any_status_is_the_answer(fixture: &dyn WebhookSenderFixture) {
    let codes = [200, 202, 204, 301, 302, 303, 304, 307, 308, 400, 401, 404, 410, 429, 500, 599];
    for code in codes {
        fixture.react(Reaction::Answer(code, "Location: /elsewhere\r\n")).await;
        assert_eq!(send(fixture).await, Ok(status(code)));
    }
    assert_eq!(fixture.received().await.len(), codes.len());
}

/// Whether the receiver is silent, never comes to an end, sends something else than HTTP, ends the
/// connection before the answer, or is not there.
pub async fn missing_answer_is_an_error(fixture: &dyn WebhookSenderFixture) {
    for (reaction, expected) in [
        (Reaction::Silence, &[WebhookError::TimedOut][..]),
        (Reaction::EndlessHead, &[WebhookError::TimedOut, WebhookError::Protocol]),
        (Reaction::Nonsense, &[WebhookError::Protocol]),
        (Reaction::Close, &[WebhookError::Protocol]),
    ] {
        fixture.react(reaction.clone()).await;
        let error = send(fixture).await.unwrap_err();
        assert!(expected.contains(&error), "{reaction:?}: {error}");
    }
    let answer = fixture.sender().send(&request(fixture.closed_url())).await;
    assert_eq!(answer, Err(WebhookError::Connect));
}

/// As seconds or as a date; any other text is none.
pub async fn retry_after_is_read(fixture: &dyn WebhookSenderFixture) {
    for (header, retry_after) in [
        ("Retry-After: 120\r\n", Some(Duration::seconds(120))),
        ("Retry-After: 0\r\n", Some(Duration::ZERO)),
        ("Retry-After: Sat, 21 Nov 2026 12:01:08 GMT\r\n", Some(Duration::milliseconds(60_100))),
        ("Retry-After: Sat, 21 Nov 2026 11:00:00 GMT\r\n", Some(Duration::ZERO)),
        ("Retry-After: soon\r\n", None),
        ("Retry-After: -1\r\n", None),
        ("Retry-After: 99999999999999999999\r\n", None),
        ("", None),
    ] {
        fixture.react(Reaction::Answer(503, header)).await;
        let answer = send(fixture).await.unwrap();
        assert_eq!(answer, WebhookAnswer { status: 503, retry_after }, "{header}");
    }
}

/// The receiver has the webhook when it answers; its body does not matter.
pub async fn body_of_the_answer_changes_nothing(fixture: &dyn WebhookSenderFixture) {
    for reaction in [Reaction::HugeBody, Reaction::EndlessBody] {
        fixture.react(reaction).await;
        assert_eq!(send(fixture).await, Ok(status(200)));
    }
}

/// Neither by a check nor by an attempt. Both have the same reason.
pub async fn refused_url_is_never_called(fixture: &dyn WebhookSenderFixture) {
    let refused = fixture
        .sender()
        .check(Party::Client(ClientId(1)), &fixture.refused_url())
        .await
        .unwrap_err();
    let answer = fixture.sender().send(&request(fixture.refused_url())).await;
    assert_eq!(answer, Err(WebhookError::Refused(refused)));
    assert_eq!(fixture.received().await, []);
}

/// Covers checks at the same time.
pub async fn check_sends_nothing(fixture: &dyn WebhookSenderFixture) {
    let (sender, url) = (fixture.sender(), fixture.url());
    join_all((0..16).map(|_| sender.check(Party::Client(ClientId(1)), &url)))
        .await
        .into_iter()
        .for_each(Result::unwrap);
    assert_eq!(fixture.received().await, []);
}
