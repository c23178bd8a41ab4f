//! Use case: create, list, change, remove and test webhook endpoints, and replay deliveries.

use std::sync::Arc;

use time::{Duration, OffsetDateTime};

use crate::{
    api_key::{ApiKeyId, Owner, Party},
    ports::{
        Clock, DeliveryPageQuery, Entropy, NewEndpoint, Page, ReplayBatch, SecretBox, StoreError,
        WebhookQueue, WebhookRepo, WebhookSender,
    },
    request::{Violation, ViolationCode, Word},
    webhook::{
        self, Endpoint, EndpointId, EventType, MAX_ENDPOINTS, WebhookDelivery, WebhookDeliveryId,
        endpoint_request::{EndpointChange, EndpointChangeBody, NewEndpointBody},
        secret::WebhookSecret,
    },
};

/// Deliveries that one step of a replay looks at.
const REPLAYED: usize = 500;

/// Why no secret can be made or read.
pub(crate) const NO_KEY: &str =
    "webhooks need a key for their secrets: --secrets-key (NOTARY_ORDERS_SECRETS_KEY)";

/// Manages webhook endpoints. Each call takes the owner: an endpoint of another owner is like none.
#[derive(Clone)]
pub struct ManageWebhooks {
    /// Stores endpoints.
    pub endpoints: Arc<dyn WebhookRepo>,
    /// Stores deliveries.
    pub deliveries: Arc<dyn WebhookQueue>,
    /// Checks URLs.
    pub sender: Arc<dyn WebhookSender>,
    /// Encrypts secrets; `None` without a key. No endpoint can be created then.
    pub secrets: Option<Arc<dyn SecretBox>>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Provides randomness for secrets and messages.
    pub entropy: Arc<dyn Entropy>,
}

/// The reason why a call about an endpoint failed.
#[derive(Debug, thiserror::Error)]
pub enum WebhooksError {
    /// The request has violations.
    #[error("the request is invalid")]
    Invalid(Vec<Violation>),
    /// The owner has no such endpoint, or the endpoint no such delivery.
    #[error("there is no such endpoint or delivery")]
    NotFound,
    /// A disabled endpoint gets no test.
    #[error("the endpoint is disabled")]
    Disabled,
    /// The cursor is no delivery of the endpoint.
    #[error("the cursor is no delivery of the endpoint")]
    UnknownCursor,
    /// The service has no key for the secrets of endpoints.
    #[error("{NO_KEY}")]
    NotConfigured,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ManageWebhooks {
    /// Creates an endpoint for a key or an operator. Its secret is not available later.
    pub async fn create(
        &self,
        owner: Owner,
        key: Option<ApiKeyId>,
        body: &NewEndpointBody,
    ) -> Result<(Endpoint, WebhookSecret), WebhooksError> {
        let request = EndpointChange::create(body);
        let request = self.check_url(owner.party, body.url.value(), request).await?;
        let (secret, sealed) = self.new_secret(owner)?;
        let new = NewEndpoint {
            owner,
            key,
            url: request.url.unwrap_or_default(),
            events: request.events.unwrap_or_else(|| EventType::OF_ORDERS.into()),
            description: request.description.flatten(),
            secret: sealed,
            created_at: self.clock.now(),
        };
        let endpoint = self.endpoints.add(&new, MAX_ENDPOINTS).await?.ok_or_else(|| {
            let detail = format!("a client has at most {MAX_ENDPOINTS} endpoints; delete one");
            WebhooksError::Invalid(vec![violation("", ViolationCode::OutOfRange, detail)])
        })?;
        Ok((endpoint, secret))
    }

    /// Returns the endpoints of an owner, the oldest first; at most [`MAX_ENDPOINTS`].
    pub async fn list(&self, owner: Owner) -> Result<Vec<Endpoint>, WebhooksError> {
        Ok(self.endpoints.of_owner(owner).await?)
    }

    /// Returns an endpoint.
    pub async fn read(&self, owner: Owner, id: EndpointId) -> Result<Endpoint, WebhooksError> {
        self.endpoints.endpoint(owner, id).await?.ok_or(WebhooksError::NotFound)
    }

    /// Changes an endpoint, and returns it. One that is enabled gets the events that it missed.
    pub async fn change(
        &self,
        owner: Owner,
        id: EndpointId,
        body: &EndpointChangeBody,
    ) -> Result<Endpoint, WebhooksError> {
        let change = EndpointChange::change(body);
        let mut url = body.url.value();
        // The URL of an unknown endpoint is not looked up.
        if url.is_some() && self.endpoints.endpoint(owner, id).await?.is_none() {
            url = None;
        }
        let change = self.check_url(owner.party, url, change).await?;
        let changed = self.endpoints.change(owner, id, &change, self.clock.now()).await?;
        changed.ok_or(WebhooksError::NotFound)
    }

    /// Removes an endpoint and its deliveries.
    pub async fn delete(&self, owner: Owner, id: EndpointId) -> Result<(), WebhooksError> {
        found(self.endpoints.remove(owner, id).await?)
    }

    /// Gives an endpoint a new secret, which is not available later. The old one signs along for
    /// [`ROTATION_OVERLAP`](webhook::ROTATION_OVERLAP).
    pub async fn rotate_secret(
        &self,
        owner: Owner,
        id: EndpointId,
    ) -> Result<WebhookSecret, WebhooksError> {
        let (secret, sealed) = self.new_secret(owner)?;
        found(self.endpoints.rotate_secret(owner, id, &sealed, self.clock.now()).await?)?;
        Ok(secret)
    }

    /// Sends a test event to an endpoint. Returns its delivery.
    pub async fn test(
        &self,
        owner: Owner,
        id: EndpointId,
    ) -> Result<WebhookDeliveryId, WebhooksError> {
        let key = webhook::message_key(&*self.entropy);
        let added = self.deliveries.add_test(owner, id, &key, self.clock.now()).await?;
        let Some(delivery) = added else {
            self.read(owner, id).await?;
            return Err(WebhooksError::Disabled);
        };
        Ok(delivery)
    }

    /// Returns a page of the deliveries of an endpoint, those of the last
    /// [`RETENTION`](webhook::RETENTION).
    pub async fn deliveries(
        &self,
        owner: Owner,
        id: EndpointId,
        query: &DeliveryPageQuery,
    ) -> Result<(Endpoint, Page<WebhookDelivery>), WebhooksError> {
        let endpoint = self.read(owner, id).await?;
        let page = self.deliveries.page(owner, id, query).await?;
        Ok((endpoint, page.ok_or(WebhooksError::UnknownCursor)?))
    }

    /// Sends a delivery again, whether it was delivered or failed. One that waits is due now.
    pub async fn replay_delivery(
        &self,
        owner: Owner,
        id: EndpointId,
        delivery: WebhookDeliveryId,
    ) -> Result<(), WebhooksError> {
        found(self.deliveries.replay(owner, id, delivery, self.clock.now()).await?)?;
        Ok(())
    }

    /// Sends the events from `since` on, and before `until` or now, again that were delivered or
    /// failed.
    pub async fn replay(
        &self,
        owner: Owner,
        id: EndpointId,
        since: OffsetDateTime,
        until: Option<OffsetDateTime>,
    ) -> Result<(), WebhooksError> {
        self.read(owner, id).await?;
        let now = self.clock.now();
        let until = until.unwrap_or(now.saturating_add(Duration::MICROSECOND));
        let mut batch = ReplayBatch { since, until, before: None, limit: REPLAYED };
        loop {
            let next = self.deliveries.replay_batch(owner, id, &batch, now).await?;
            if next.is_none() {
                return Ok(());
            }
            batch.before = next;
        }
    }

    fn new_secret(&self, owner: Owner) -> Result<(WebhookSecret, Vec<u8>), WebhooksError> {
        let secrets = self.secrets.as_ref().ok_or(WebhooksError::NotConfigured)?;
        let secret = WebhookSecret::random(&*self.entropy);
        let sealed = secrets.seal(&secret, &secret_context(owner.party));
        Ok((secret, sealed))
    }

    /// Adds the fault of the URL, if there is one, to the other violations of a body.
    async fn check_url(
        &self,
        party: Party,
        url: Option<&Word>,
        parsed: Result<EndpointChange, Vec<Violation>>,
    ) -> Result<EndpointChange, WebhooksError> {
        let mut violations = parsed.as_ref().err().cloned().unwrap_or_default();
        if let Some(url) = url
            && !violations.iter().any(|violation| violation.pointer == "/url")
            && let Err(refused) = self.sender.check(party, url).await
        {
            let code = ViolationCode::NotAllowed;
            violations.insert(0, violation("/url", code, refused.to_string()));
        }
        parsed.ok().filter(|_| violations.is_empty()).ok_or(WebhooksError::Invalid(violations))
    }
}

/// Returns the context in which the secrets of a party are encrypted.
pub(crate) fn secret_context(party: Party) -> String {
    format!("webhook endpoints of {party}")
}

fn violation(pointer: &'static str, code: ViolationCode, detail: String) -> Violation {
    Violation { pointer: pointer.into(), code, detail: detail.into() }
}

fn found(is_found: bool) -> Result<(), WebhooksError> {
    if is_found { Ok(()) } else { Err(WebhooksError::NotFound) }
}

#[cfg(test)]
#[path = "manage_webhooks_tests.rs"]
mod tests;
