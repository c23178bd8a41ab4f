//! Rows of the endpoints of webhooks.

use std::collections::BTreeSet;

use diesel::{dsl::auto_type, prelude::*};
use domain::{
    api_key::{ApiKeyId, Owner},
    ports::{EndpointSecrets, NewEndpoint, SealedSecrets, UnreadableRow},
    webhook::{
        DisabledBy, Endpoint, EndpointId, EventType, PER_ENDPOINT, endpoint_request::EndpointChange,
    },
};
use time::OffsetDateTime;

use crate::{
    Unreadable, Utc,
    instant::farthest_due,
    party::{party_of, stored_party},
    schema::webhook_endpoints,
    text::{Lossy, LossyNullable},
};

fn stored_events(events: &BTreeSet<EventType>) -> String {
    events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(" ")
}

/// An endpoint to add.
#[derive(Insertable)]
#[diesel(table_name = webhook_endpoints)]
pub struct NewEndpointRow {
    party: i64,
    is_test: bool,
    api_key_id: Option<i64>,
    url: String,
    events: String,
    description: Option<String>,
    secret: Vec<u8>,
    created_at: Utc,
}

impl From<&NewEndpoint> for NewEndpointRow {
    fn from(new: &NewEndpoint) -> Self {
        Self {
            party: stored_party(new.owner.party),
            is_test: new.owner.is_test,
            api_key_id: new.key.map(|key| key.0),
            url: new.url.clone(),
            events: stored_events(&new.events),
            description: new.description.clone(),
            secret: new.secret.clone(),
            created_at: Utc(new.created_at),
        }
    }
}

/// An endpoint without its secrets.
#[derive(Queryable, Selectable)]
#[diesel(table_name = webhook_endpoints)]
pub struct EndpointRow {
    id: i64,
    party: i64,
    is_test: bool,
    api_key_id: Option<i64>,
    #[diesel(deserialize_as = Lossy)]
    url: String,
    #[diesel(deserialize_as = Lossy)]
    events: String,
    #[diesel(deserialize_as = LossyNullable)]
    description: Option<String>,
    created_at: Utc,
    failed_at: Option<Utc>,
    disabled_at: Option<Utc>,
    #[diesel(deserialize_as = LossyNullable)]
    disabled_by: Option<String>,
}

impl EndpointRow {
    /// Returns the endpoint. Events that only another version of the service knows are left out, and a
    /// reason to disable it that this one does not know is a request.
    pub fn into_endpoint(self) -> Endpoint {
        let events = self.events.split_ascii_whitespace().filter_map(EventType::from_name);
        let disabled_by = self.disabled_by.as_deref().and_then(DisabledBy::from_name);
        let disabled_by = disabled_by.unwrap_or(DisabledBy::Request);
        Endpoint {
            id: EndpointId(self.id),
            owner: Owner { party: party_of(self.party), is_test: self.is_test },
            key: self.api_key_id.map(ApiKeyId),
            events: events.collect(),
            url: self.url,
            description: self.description,
            created_at: self.created_at.0,
            disabled: self.disabled_at.map(|at| (at.0, disabled_by)),
            failing_since: self.failed_at.map(|at| at.0),
        }
    }

    /// Returns what this version of the service does not know of it; `None` if it knows everything.
    pub fn fault(&self) -> Option<UnreadableRow> {
        let is_unknown = |name: &&str| EventType::from_name(name).is_none();
        let is_known = |name: &str| DisabledBy::from_name(name).is_some();
        let fault = |column: &str| Unreadable::new("webhook_endpoints", &self.id, &column);
        if self.events.split_ascii_whitespace().any(|name| is_unknown(&name)) {
            Some(fault("events").named())
        } else if self.disabled_by.as_deref().is_some_and(|name| !is_known(name)) {
            Some(fault("disabled_by").named())
        } else {
            None
        }
    }
}

/// The columns of an endpoint to change; those that are `None` stay.
#[derive(AsChangeset)]
#[diesel(table_name = webhook_endpoints)]
#[expect(clippy::option_option, reason = "diesel sets a column to NULL for `Some(None)`")]
pub struct EndpointChangeRow {
    url: String,
    events: Option<String>,
    description: Option<Option<String>>,
    succeeded_at: Option<Option<Utc>>,
    failed_at: Option<Option<Utc>>,
    warned_at: Option<Option<Utc>>,
    disabled_at: Option<Option<Utc>>,
    disabled_by: Option<Option<String>>,
    told_at: Option<Option<Utc>>,
}

impl EndpointChangeRow {
    /// Returns the change of an endpoint at an instant.
    pub fn new(before: &Endpoint, change: EndpointChange, at: OffsetDateTime) -> Self {
        let (disabled_at, disabled_by) = match (change.is_enabled, before.disabled) {
            (Some(true), Some(_)) => (Some(None), Some(None)),
            (Some(false), None) => {
                (Some(Some(Utc(at))), Some(Some(DisabledBy::Request.as_str().to_owned())))
            }
            _ => (None, None),
        };
        let url = change.url.unwrap_or_else(|| before.url.clone());
        // `Some(None)`: the endpoint has not been tried.
        let attempts = (url != before.url || disabled_at == Some(None)).then_some(None);
        Self {
            url,
            events: change.events.as_ref().map(stored_events),
            description: change.description,
            succeeded_at: attempts,
            failed_at: attempts,
            warned_at: attempts,
            told_at: attempts,
            disabled_at,
            disabled_by,
        }
    }
}

/// The secrets of an endpoint.
#[derive(Debug, Clone, Queryable, Selectable, AsChangeset)]
#[diesel(table_name = webhook_endpoints, treat_none_as_null = true)]
pub struct SecretsRow {
    secret: Vec<u8>,
    previous_secret: Option<Vec<u8>>,
    previous_until: Option<Utc>,
    earlier_secrets: Option<String>,
}

impl SecretsRow {
    /// Returns the secrets. Earlier ones that cannot be read do not sign.
    pub fn into_sealed(self) -> SealedSecrets {
        let previous = self.previous_secret.zip(self.previous_until.map(|until| until.0));
        let earlier = self.earlier_secrets.as_deref().and_then(read_earlier).unwrap_or_default();
        SealedSecrets { current: self.secret, older: previous.into_iter().chain(earlier).collect() }
    }
}

impl From<SealedSecrets> for SecretsRow {
    fn from(SealedSecrets { current, mut older }: SealedSecrets) -> Self {
        let earlier = older.split_off(older.len().min(1));
        let (previous_secret, previous_until) = older.pop().unzip();
        Self {
            secret: current,
            previous_secret,
            previous_until: previous_until.map(Utc),
            earlier_secrets: (!earlier.is_empty()).then(|| stored_earlier(&earlier)),
        }
    }
}

fn stored_earlier(secrets: &[(Vec<u8>, OffsetDateTime)]) -> String {
    let row = |(secret, until): &(Vec<u8>, OffsetDateTime)| (secret.clone(), Utc(*until).micros());
    // Numbers become JSON without an error.
    serde_json::to_string(&secrets.iter().map(row).collect::<Vec<_>>()).unwrap_or_default()
}

fn read_earlier(stored: &str) -> Option<Vec<(Vec<u8>, OffsetDateTime)>> {
    let secrets: Vec<(Vec<u8>, i64)> = serde_json::from_str(stored).ok()?;
    let read = |(secret, micros): (Vec<u8>, i64)| {
        let until = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000).ok()?;
        Some((secret, until))
    };
    secrets.into_iter().map(read).collect()
}

/// The secrets of an endpoint, with its party.
#[derive(Queryable, Selectable)]
#[diesel(table_name = webhook_endpoints)]
pub struct EndpointSecretsRow {
    id: i64,
    party: i64,
    #[diesel(embed)]
    secrets: SecretsRow,
}

impl EndpointSecretsRow {
    /// Returns the secrets of the endpoint.
    pub fn into_secrets(self) -> EndpointSecrets {
        EndpointSecrets {
            id: EndpointId(self.id),
            party: party_of(self.party),
            secrets: self.secrets.into_sealed(),
        }
    }
}

/// The columns of an endpoint that a lease needs.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = webhook_endpoints)]
pub struct TargetRow {
    /// The identifier.
    pub id: i64,
    /// The party of the endpoint.
    pub party: i64,
    /// Since when it has waited for a delivery.
    pub due_at: Option<Utc>,
    #[diesel(deserialize_as = Lossy)]
    pub(crate) url: String,
    #[diesel(embed)]
    pub(crate) secrets: SecretsRow,
    succeeded_at: Option<Utc>,
}

impl TargetRow {
    /// Returns whether the last attempt succeeded in time.
    pub fn is_proven(&self) -> bool {
        self.succeeded_at.is_some()
    }

    /// Returns how many deliveries may be leased at a time.
    pub fn attempts(&self) -> usize {
        if self.is_proven() { PER_ENDPOINT } else { 1 }
    }
}

#[auto_type]
fn is_of(owner: Owner) -> _ {
    let party: i64 = stored_party(owner.party);
    let is_test: bool = owner.is_test;
    webhook_endpoints::party.eq(party).and(webhook_endpoints::is_test.eq(is_test))
}

/// Selects the endpoints of an owner.
#[auto_type(no_type_alias)]
pub fn endpoints_of(owner: Owner) -> _ {
    let is_own: is_of = is_of(owner);
    webhook_endpoints::table.filter(is_own)
}

/// Selects an endpoint of an owner.
#[auto_type(no_type_alias)]
pub fn endpoint_of(owner: Owner, id: EndpointId) -> _ {
    let id: i64 = id.0;
    let is_own: is_of = is_of(owner);
    webhook_endpoints::table.filter(webhook_endpoints::id.eq(id).and(is_own))
}

/// Selects the endpoints that a key has made.
#[auto_type(no_type_alias)]
pub fn endpoints_made_by(key: ApiKeyId) -> _ {
    let key: i64 = key.0;
    webhook_endpoints::table.filter(webhook_endpoints::api_key_id.eq(key))
}

/// Selects the endpoints whose client is to be told that they fail since then, or are disabled.
#[auto_type(no_type_alias)]
pub fn untold_endpoints(failed_before: OffsetDateTime) -> _ {
    let failed_before: Utc = Utc(failed_before);
    let by_service: [&'static str; 2] = [DisabledBy::Gone.as_str(), DisabledBy::Failures.as_str()];
    webhook_endpoints::table.filter(
        webhook_endpoints::disabled_at
            .is_null()
            .and(webhook_endpoints::failed_at.le(failed_before))
            .and(webhook_endpoints::warned_at.is_null())
            .or(webhook_endpoints::disabled_by
                .eq_any(by_service)
                .and(webhook_endpoints::told_at.is_null())),
    )
}

/// Selects the endpoints that have something to do, the longest waiting first, without those of some
/// parties.
#[auto_type(no_type_alias)]
pub fn due_endpoints(now: Utc, without: Vec<i64>) -> _ {
    webhook_endpoints::table
        .filter(webhook_endpoints::disabled_at.is_null())
        .filter(webhook_endpoints::due_at.le(now))
        .filter(webhook_endpoints::party.ne_all(without))
        .order((webhook_endpoints::due_at, webhook_endpoints::id))
}

/// Selects the identifiers of the endpoints that wait longer than any delay.
#[auto_type(no_type_alias)]
pub fn far_endpoints(now: OffsetDateTime) -> _ {
    let farthest: Utc = farthest_due(Utc(now));
    webhook_endpoints::table
        .filter(webhook_endpoints::disabled_at.is_null())
        .filter(webhook_endpoints::due_at.gt(farthest))
        .select(webhook_endpoints::id)
}
