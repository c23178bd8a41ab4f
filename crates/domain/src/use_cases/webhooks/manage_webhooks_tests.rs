use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use time::macros::datetime;

use super::*;
use crate::{
    api_key::ClientId,
    ports::{
        Cursor, MockSecretBox, MockWebhookQueue, MockWebhookRepo, MockWebhookSender, UrlRefused,
    },
    request::Object,
    test_support::{CountingEntropy, clock, endpoint},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
const OWNER: Owner = Owner::client(ClientId(1), false);
const KEY: ApiKeyId = ApiKeyId(4);
const ID: EndpointId = EndpointId(3);

#[derive(Default)]
struct Mocks {
    endpoints: MockWebhookRepo,
    deliveries: MockWebhookQueue,
    sender: MockWebhookSender,
    secrets: MockSecretBox,
}

impl Mocks {
    /// The sender refuses URLs that begin with `http:`.
    fn new() -> Self {
        let mut mocks = Self::default();
        mocks.sender.expect_check().returning(|_, url| match url.strip_prefix("http:") {
            Some(_) => Err(UrlRefused("must begin with https://".to_owned())),
            None => Ok(()),
        });
        mocks.secrets.expect_seal().returning(|secret, context| {
            assert_eq!(context, "webhook endpoints of client 1");
            vec![secret.expose()[0]]
        });
        mocks
    }

    fn use_case(self) -> ManageWebhooks {
        ManageWebhooks {
            endpoints: Arc::new(self.endpoints),
            deliveries: Arc::new(self.deliveries),
            sender: Arc::new(self.sender),
            secrets: Some(Arc::new(self.secrets)),
            clock: clock(NOW),
            entropy: Arc::new(CountingEntropy::starting_at(9)),
        }
    }
}

fn body<T: DeserializeOwned>(json: &Value) -> Object<T> {
    serde_json::from_value(json.clone()).unwrap()
}

fn with_url<T: DeserializeOwned>(url: &str) -> Object<T> {
    body(&json!({ "url": url }))
}

fn pointers<T>(result: Result<T, WebhooksError>) -> Vec<String> {
    match result.map(drop) {
        Err(WebhooksError::Invalid(violations)) => {
            violations.into_iter().map(|violation| violation.pointer.into_owned()).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Nothing is stored.
#[tokio::test]
async fn refused_url_is_reported_with_every_other_violation() {
    for (sent, expected) in [
        (json!({ "url": "http://a.example" }), &["/url"][..]),
        (
            json!({ "url": " http://a.example ", "events": ["nope"], "description": 7 }),
            &["/url", "/description", "/events/0"],
        ),
        (json!({ "url": "https://a.example", "events": [] }), &["/events"]),
        (json!({ "url": "h".repeat(2_001), "events": [] }), &["/events", "/url"]),
    ] {
        let mut mocks = Mocks::new();
        mocks.endpoints.expect_endpoint().returning(|_, _| Ok(Some(endpoint(ID))));
        let webhooks = mocks.use_case();
        assert_eq!(pointers(webhooks.create(OWNER, None, &body(&sent)).await), expected);
        assert_eq!(pointers(webhooks.change(OWNER, ID, &body(&sent)).await), expected);
    }
    // The URL of an unknown endpoint is not looked up.
    let mut mocks = Mocks::default();
    mocks.endpoints.expect_endpoint().returning(|_, _| Ok(None));
    let body = body(&json!({ "url": "http://a.example", "status": "paused" }));
    assert_eq!(pointers(mocks.use_case().change(OWNER, ID, &body).await), ["/status"]);
}

#[tokio::test]
async fn new_endpoint_shows_the_secret_that_is_stored_encrypted() {
    let mut mocks = Mocks::new();
    mocks
        .endpoints
        .expect_add()
        .once()
        .withf(|new, max| {
            let stored = (new.owner, new.key, &new.secret[..], new.created_at, *max);
            stored == (OWNER, Some(KEY), &[9], NOW, MAX_ENDPOINTS)
        })
        .returning(|_, _| Ok(Some(endpoint(ID))));
    let (endpoint, secret) =
        mocks.use_case().create(OWNER, Some(KEY), &with_url("https://a.example")).await.unwrap();
    assert_eq!((endpoint.id, endpoint.disabled, secret.expose()[0]), (ID, None, 9));
}

#[tokio::test]
async fn without_a_key_no_endpoint_is_created() {
    let webhooks = ManageWebhooks { secrets: None, ..Mocks::new().use_case() };
    let created = webhooks.create(OWNER, None, &with_url("https://a.example")).await.map(drop);
    for result in [created, webhooks.rotate_secret(OWNER, ID).await.map(drop)] {
        assert!(matches!(result, Err(WebhooksError::NotConfigured)));
    }
}

#[tokio::test]
async fn endpoint_of_another_owner_is_like_none() {
    let mut mocks = Mocks::new();
    mocks.endpoints.expect_endpoint().returning(|_, _| Ok(None));
    mocks.endpoints.expect_change().returning(|_, _, _, _| Ok(None));
    mocks.endpoints.expect_remove().returning(|_, _| Ok(false));
    mocks.endpoints.expect_rotate_secret().returning(|_, _, _, _| Ok(false));
    mocks.deliveries.expect_add_test().returning(|_, _, _, _| Ok(None));
    mocks.deliveries.expect_replay().returning(|_, _, _, _| Ok(false));
    let webhooks = mocks.use_case();
    let query = DeliveryPageQuery { limit: 1, cursor: Cursor::Newest };
    // Its URL is not even looked up.
    for result in [
        webhooks.read(OWNER, ID).await.map(drop),
        webhooks.change(OWNER, ID, &with_url("http://a.example")).await.map(drop),
        webhooks.change(OWNER, ID, &Object::default()).await.map(drop),
        webhooks.delete(OWNER, ID).await,
        webhooks.rotate_secret(OWNER, ID).await.map(drop),
        webhooks.test(OWNER, ID).await.map(drop),
        webhooks.deliveries(OWNER, ID, &query).await.map(drop),
        webhooks.replay_delivery(OWNER, ID, WebhookDeliveryId(1)).await,
        webhooks.replay(OWNER, ID, NOW, None).await,
    ] {
        assert!(matches!(result, Err(WebhooksError::NotFound)), "{result:?}");
    }
}

#[tokio::test]
async fn rotation_stores_a_new_secret() {
    let mut mocks = Mocks::new();
    mocks
        .endpoints
        .expect_rotate_secret()
        .once()
        .withf(|owner, id, sealed, at| (*owner, *id, sealed, *at) == (OWNER, ID, &[9], NOW))
        .returning(|_, _, _, _| Ok(true));
    assert_eq!(mocks.use_case().rotate_secret(OWNER, ID).await.unwrap().expose()[0], 9);
}

#[tokio::test]
async fn replay_goes_on_to_the_end_and_leaves_no_event_of_now_out() {
    let mut mocks = Mocks::new();
    mocks.endpoints.expect_endpoint().returning(|_, _| Ok(Some(endpoint(ID))));
    mocks.deliveries.expect_replay_batch().times(3).returning(|_, _, batch, at| {
        assert_eq!((batch.since, at), (NOW - Duration::HOUR, NOW));
        assert!(batch.until > NOW);
        Ok(match batch.before {
            None => Some(WebhookDeliveryId(20)),
            Some(WebhookDeliveryId(20)) => Some(WebhookDeliveryId(10)),
            Some(WebhookDeliveryId(10)) => None,
            other => panic!("{other:?}"),
        })
    });
    mocks.use_case().replay(OWNER, ID, NOW - Duration::HOUR, None).await.unwrap();
}
