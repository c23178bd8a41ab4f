use std::collections::BTreeSet;

use async_trait::async_trait;
use time::OffsetDateTime;

use crate::ports::{SealedSecrets, StoreError};
use crate::{
    api_key::{ApiKeyId, Owner, Party},
    webhook::{Endpoint, EndpointId, EventType, endpoint_request::EndpointChange},
};

/// An endpoint to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEndpoint {
    /// Its owner.
    pub owner: Owner,
    /// The key that makes it; `None` if an operator does.
    pub key: Option<ApiKeyId>,
    /// Where its events are sent.
    pub url: String,
    /// The events that it gets.
    pub events: BTreeSet<EventType>,
    /// The client's note about it.
    pub description: Option<String>,
    /// Its secret, encrypted.
    pub secret: Vec<u8>,
    /// Instant of creation.
    pub created_at: OffsetDateTime,
}

/// The secrets of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSecrets {
    /// The endpoint.
    pub id: EndpointId,
    /// Its party.
    pub party: Party,
    /// Its secrets.
    pub secrets: SealedSecrets,
}

/// Stores the webhook endpoints of clients and signing services.
///
/// An implementation guarantees:
/// - Every change is durable when the call returns.
/// - No call of an owner returns or changes anything of another owner's endpoint: the owner stands
///   in the statement.
/// - The identifier of a removed endpoint is never given again.
///
/// # Errors
/// Every method fails with [`StoreError`] only.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait WebhookRepo: Send + Sync {
    /// Stores an endpoint, enabled, and returns it. Returns `None` if its owner has `max` of them.
    /// The check and the change are one atomic step.
    async fn add(&self, new: &NewEndpoint, max: usize) -> Result<Option<Endpoint>, StoreError>;

    /// Returns the endpoints of an owner, the oldest first.
    async fn of_owner(&self, owner: Owner) -> Result<Vec<Endpoint>, StoreError>;

    /// Returns an endpoint; `None` if the owner has no such endpoint.
    async fn endpoint(&self, owner: Owner, id: EndpointId) -> Result<Option<Endpoint>, StoreError>;

    /// Changes an endpoint and returns it; `None` if the owner has no such endpoint.
    ///
    /// - An enabled endpoint is disabled at `at`, by [`Request`](crate::webhook::DisabledBy).
    /// - One that is disabled, and enabled now, or one that gets another URL, has no failures.
    async fn change(
        &self,
        owner: Owner,
        id: EndpointId,
        change: &EndpointChange,
        at: OffsetDateTime,
    ) -> Result<Option<Endpoint>, StoreError>;

    /// Removes an endpoint and its deliveries, however many there are. Nothing is sent to it any more. After a
    /// failure, a part of its deliveries may be gone. Returns `false` if the owner has no such endpoint.
    async fn remove(&self, owner: Owner, id: EndpointId) -> Result<bool, StoreError>;

    /// Gives an endpoint a new secret at `at`: see [`SealedSecrets::rotated`]. Of concurrent calls, none is
    /// lost. Returns `false` if the owner has no such endpoint.
    async fn rotate_secret(
        &self,
        owner: Owner,
        id: EndpointId,
        secret: &[u8],
        at: OffsetDateTime,
    ) -> Result<bool, StoreError>;

    /// Returns the secrets of every endpoint, also those that do not sign any more, in no particular order.
    async fn secrets(&self) -> Result<Vec<EndpointSecrets>, StoreError>;

    /// Replaces the secrets of an endpoint. Returns `false`, and changes nothing, unless they still are
    /// `before.secrets`.
    async fn replace_secrets(
        &self,
        before: &EndpointSecrets,
        after: &SealedSecrets,
    ) -> Result<bool, StoreError>;

    /// Returns the endpoints of parties, the disabled ones too, in no particular order.
    async fn of_parties(&self, parties: &[Party]) -> Result<Vec<Endpoint>, StoreError>;

    /// Returns the endpoints that their clients must be told of, and were not: enabled ones whose
    /// attempts have all failed since `failed_before` or longer, and those that the service has
    /// disabled.
    async fn untold(&self, failed_before: OffsetDateTime) -> Result<Vec<Endpoint>, StoreError>;

    /// Records at `at` that the client was told of an endpoint in its state: that it is disabled, or
    /// else that it fails. The next success, another URL and enabling it forget that.
    async fn told(
        &self,
        id: EndpointId,
        is_disabled: bool,
        at: OffsetDateTime,
    ) -> Result<(), StoreError>;

    /// Disables at `at` the enabled endpoints whose attempts have all failed since `failed_before`
    /// or longer, by [`Failures`](crate::webhook::DisabledBy), if their clients were told by
    /// `told_before`. Returns them.
    async fn disable_failing(
        &self,
        failed_before: OffsetDateTime,
        told_before: OffsetDateTime,
        at: OffsetDateTime,
    ) -> Result<Vec<EndpointId>, StoreError>;

    /// Returns every endpoint, the oldest first.
    async fn all(&self) -> Result<Vec<Endpoint>, StoreError>;
}
