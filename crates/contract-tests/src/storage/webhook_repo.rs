//! The contract of `WebhookRepo`.

use std::collections::BTreeSet;

use domain::{
    api_key::{ClientId, Owner, Party},
    ports::{EndpointSecrets, NewEndpoint, SealedSecrets},
    webhook::{
        DisabledBy, Endpoint, EndpointId, EventType, ROTATION_OVERLAP,
        endpoint_request::EndpointChange,
    },
};
use time::{Duration, OffsetDateTime};

use crate::samples::{
    self, API_KEY, CLIENT, LIVE, MICROSECOND, NOW, Storage, api_key, at_once, attempt_webhook,
    lease_webhooks, new_endpoint, read_endpoint,
};

const TEST: Owner = Owner { is_test: true, ..LIVE };
const OTHER: Owner = Owner::client(ClientId(99), false);
const MAX: usize = 3;

async fn add(storage: &Storage, new: &NewEndpoint) -> EndpointId {
    let added = storage.webhooks.add(new, 100).await.unwrap().unwrap();
    let read = storage.webhooks.endpoint(new.owner, added.id).await.unwrap();
    assert_eq!(read.as_ref(), Some(&added));
    added.id
}

async fn change(storage: &Storage, id: EndpointId, change: EndpointChange) -> Endpoint {
    let changed = storage.webhooks.change(LIVE, id, &change, NOW).await.unwrap().unwrap();
    assert_eq!(changed, read_endpoint(storage, id).await);
    changed
}

fn enabled(is_enabled: bool) -> EndpointChange {
    EndpointChange { is_enabled: Some(is_enabled), ..EndpointChange::default() }
}

/// In the list of its owner too, the oldest first.
pub async fn endpoint_is_read_as_it_was_added(storage: &Storage) {
    let description = Some("é'\"\\ %".to_owned());
    let events = [EventType::DocumentsAdded].into();
    let first = NewEndpoint { description, events, ..new_endpoint(LIVE) };
    let mut endpoints = Vec::new();
    for new in [first, new_endpoint(LIVE)] {
        let id = add(storage, &new).await;
        assert!(id.0 > 0);
        let endpoint = read_endpoint(storage, id).await;
        let expected = Endpoint {
            id,
            owner: LIVE,
            key: new.key,
            url: new.url,
            events: new.events,
            description: new.description,
            created_at: NOW,
            disabled: None,
            failing_since: None,
        };
        assert_eq!(endpoint, expected);
        endpoints.push(endpoint);
    }
    assert_eq!(storage.webhooks.of_owner(LIVE).await.unwrap(), endpoints);
    assert_eq!(storage.webhooks.all().await.unwrap(), endpoints);
    let mut secrets = storage.webhooks.secrets().await.unwrap();
    secrets.sort_by_key(|of| of.id);
    let sealed = SealedSecrets { current: new_endpoint(LIVE).secret, older: Vec::new() };
    let secrets_of = |endpoint: &Endpoint| EndpointSecrets {
        id: endpoint.id,
        party: LIVE.party,
        secrets: sealed.clone(),
    };
    assert_eq!(secrets, endpoints.iter().map(secrets_of).collect::<Vec<_>>());
}

/// Other owners have their own. Covers additions at the same time.
pub async fn owner_has_a_limited_number_of_endpoints(storage: &Storage) {
    for owner in [LIVE, TEST, OTHER] {
        let additions = (0..8).map(|_| {
            let webhooks = storage.webhooks.clone();
            async move { webhooks.add(&new_endpoint(owner), MAX).await.unwrap() }
        });
        assert_eq!(at_once(additions).await.into_iter().flatten().count(), MAX);
        assert_eq!(storage.webhooks.add(&new_endpoint(owner), MAX).await.unwrap(), None);
        assert_eq!(storage.webhooks.of_owner(owner).await.unwrap().len(), MAX);
    }
}

/// A test key and a live key of one client are different owners.
pub async fn endpoint_of_another_owner_is_like_none(storage: &Storage) {
    let id = add(storage, &new_endpoint(LIVE)).await;
    let before = read_endpoint(storage, id).await;
    for (owner, id) in [(TEST, id), (OTHER, id), (LIVE, EndpointId(i64::MAX))] {
        let webhooks = &storage.webhooks;
        assert_eq!(webhooks.endpoint(owner, id).await.unwrap(), None);
        assert_eq!(webhooks.change(owner, id, &enabled(false), NOW).await.unwrap(), None);
        assert!(!webhooks.remove(owner, id).await.unwrap());
        assert!(!webhooks.rotate_secret(owner, id, &[1], NOW).await.unwrap());
    }
    assert_eq!(storage.webhooks.of_owner(TEST).await.unwrap(), []);
    assert_eq!(read_endpoint(storage, id).await, before);
}

/// Each part can be changed alone.
pub async fn absent_parts_of_a_change_stay(storage: &Storage) {
    let id = add(storage, &new_endpoint(LIVE)).await;
    let mut expected = read_endpoint(storage, id).await;
    assert_eq!(change(storage, id, EndpointChange::default()).await, expected);
    "https://b.example".clone_into(&mut expected.url);
    let url = Some(expected.url.clone());
    let new_url = EndpointChange { url, ..EndpointChange::default() };
    assert_eq!(change(storage, id, new_url).await, expected);
    expected.events = [EventType::DocumentsAdded].into();
    let events = Some(expected.events.clone());
    let new_events = EndpointChange { events, ..EndpointChange::default() };
    assert_eq!(change(storage, id, new_events).await, expected);
    for description in [Some("later".to_owned()), None] {
        expected.description.clone_from(&description);
        let description = Some(description);
        let described = EndpointChange { description, ..EndpointChange::default() };
        assert_eq!(change(storage, id, described).await, expected);
    }
}

/// The first instant stays.
pub async fn endpoint_is_disabled_once_and_enabled_again(storage: &Storage) {
    let id = add(storage, &new_endpoint(LIVE)).await;
    let disabled = Some((NOW, DisabledBy::Request));
    assert_eq!(change(storage, id, enabled(false)).await.disabled, disabled);
    let later = NOW + Duration::HOUR;
    let again = storage.webhooks.change(LIVE, id, &enabled(false), later).await.unwrap().unwrap();
    assert_eq!(again.disabled, disabled);
    assert_eq!(change(storage, id, EndpointChange::default()).await.disabled, disabled);
    assert_eq!(change(storage, id, enabled(true)).await.disabled, None);
}

/// And so has one that is enabled again. Enabling one that is enabled changes nothing.
pub async fn another_url_has_no_failures(storage: &Storage) {
    let id = add(storage, &new_endpoint(LIVE)).await;
    attempt_webhook(storage, id, 500, NOW).await;
    assert_eq!(read_endpoint(storage, id).await.failing_since, Some(NOW));
    let same_url =
        EndpointChange { url: Some(read_endpoint(storage, id).await.url), ..enabled(true) };
    assert_eq!(change(storage, id, same_url).await.failing_since, Some(NOW));
    assert_eq!(change(storage, id, enabled(false)).await.failing_since, Some(NOW));
    assert_eq!(change(storage, id, enabled(true)).await.failing_since, None);
    attempt_webhook(storage, id, 500, NOW).await;
    let url = Some("https://b.example".to_owned());
    let new_url = EndpointChange { url, ..EndpointChange::default() };
    assert_eq!(change(storage, id, new_url).await.failing_since, None);
}

/// Of rotations at the same time too.
pub async fn rotated_secrets_sign_along_until_their_ends(storage: &Storage) {
    let id = add(storage, &NewEndpoint { secret: vec![0], ..new_endpoint(LIVE) }).await;
    let mut expected = SealedSecrets { current: vec![0], older: Vec::new() };
    let half = ROTATION_OVERLAP / 2;
    for (number, at) in [(1, NOW), (2, NOW + half), (3, NOW + half), (4, NOW + ROTATION_OVERLAP)] {
        assert!(storage.webhooks.rotate_secret(LIVE, id, &[number], at).await.unwrap());
        expected = expected.rotated(vec![number], at);
        storage.webhook_queue.add_test(LIVE, id, "k", NOW).await.unwrap().unwrap();
        assert_eq!(lease_webhooks(storage, NOW).await.remove(0).secrets, expected);
        storage.webhook_queue.forget(NOW + MICROSECOND, 10).await.unwrap();
        assert_eq!(secrets_of(storage, id).await.secrets, expected);
    }
    let rotations = (5..9).map(|number| {
        let webhooks = storage.webhooks.clone();
        async move { webhooks.rotate_secret(LIVE, id, &[number], NOW).await.unwrap() }
    });
    assert_eq!(at_once(rotations).await, [true; 4]);
    let SealedSecrets { current, older } = secrets_of(storage, id).await.secrets;
    let mut newest: Vec<_> = older[..3].iter().map(|(secret, _)| secret[0]).collect();
    newest.push(current[0]);
    newest.sort_unstable();
    assert_eq!(newest, [5, 6, 7, 8]);
}

async fn secrets_of(storage: &Storage, id: EndpointId) -> EndpointSecrets {
    let all = storage.webhooks.secrets().await.unwrap();
    all.into_iter().find(|of| of.id == id).unwrap()
}

/// A rotation or another re-encryption was faster.
pub async fn secrets_are_replaced_only_while_they_are_the_same(storage: &Storage) {
    let id = add(storage, &NewEndpoint { secret: vec![1], ..new_endpoint(LIVE) }).await;
    add(storage, &new_endpoint(LIVE)).await;
    for number in [2, 3] {
        assert!(storage.webhooks.rotate_secret(LIVE, id, &[number], NOW).await.unwrap());
    }
    let before = secrets_of(storage, id).await;
    let mut after = before.secrets.clone();
    after.current = vec![13];
    after.older[1].0 = vec![11];
    for is_replaced in [true, false] {
        let replaced = storage.webhooks.replace_secrets(&before, &after).await.unwrap();
        assert_eq!((replaced, secrets_of(storage, id).await.secrets), (is_replaced, after.clone()));
    }
    let before = secrets_of(storage, id).await;
    after.older.clear();
    assert!(storage.webhooks.replace_secrets(&before, &after).await.unwrap());
    assert_eq!(secrets_of(storage, id).await.secrets, after);
    assert!(storage.webhooks.remove(LIVE, id).await.unwrap());
    let before = EndpointSecrets { secrets: after.clone(), ..before };
    assert!(!storage.webhooks.replace_secrets(&before, &after).await.unwrap());
}

/// A newer version of the service has written them. The endpoint gets the others, and is changed like
/// any other.
pub async fn unknown_events_of_an_endpoint_are_left_out(storage: &Storage) {
    let (unknown, other) =
        (add(storage, &new_endpoint(LIVE)).await, add(storage, &new_endpoint(LIVE)).await);
    let events: BTreeSet<_> = [EventType::OrderCreated].into();
    storage.other_system.make_endpoint_unknown(unknown).await;
    for endpoints in [
        storage.webhooks.of_owner(LIVE).await.unwrap(),
        storage.webhooks.of_parties(&[LIVE.party]).await.unwrap(),
        storage.webhooks.all().await.unwrap(),
    ] {
        let found = |id| endpoints.iter().find(|endpoint| endpoint.id == id).unwrap();
        assert_eq!((&found(unknown).events, found(unknown).disabled), (&events, None));
        assert_eq!(found(other).events, EventType::OF_ORDERS.into());
    }
    let faults = samples::faults(storage).await;
    let fault = format!("row {} of webhook_endpoints cannot be read: events", unknown.0);
    assert_eq!(faults, [fault]);
    assert_eq!(change(storage, unknown, enabled(false)).await.events, events);
}

/// The successor of a key goes on with its endpoints. Those of other keys stay theirs.
pub async fn rotation_hands_endpoints_on(storage: &Storage) {
    let until = NOW + Duration::HOUR;
    let old = storage.keys.add(&api_key(NOW), "jane").await.unwrap();
    let other = storage.keys.add(&api_key(NOW), "jane").await.unwrap();
    for key in [Some(old), Some(other), None, Some(old)] {
        add(storage, &NewEndpoint { key, ..new_endpoint(LIVE) }).await;
    }
    let successor = storage.keys.rotate(old, &api_key(NOW), until, "jane").await.unwrap();
    let endpoints = storage.webhooks.of_owner(LIVE).await.unwrap();
    let keys: Vec<_> = endpoints.into_iter().map(|endpoint| endpoint.key).collect();
    assert!(successor.is_some_and(|successor| successor != old));
    assert_eq!(keys, [successor, Some(other), None, successor]);
}

/// A key, or an operator.
pub async fn endpoint_knows_the_key_that_made_it(storage: &Storage) {
    for key in [Some(API_KEY), None] {
        let id = add(storage, &NewEndpoint { key, ..new_endpoint(LIVE) }).await;
        assert_eq!(read_endpoint(storage, id).await.key, key);
    }
}

/// It has deliveries that no other endpoint must get.
pub async fn removed_endpoint_gives_its_identifier_to_no_other(storage: &Storage) {
    let id = add(storage, &new_endpoint(LIVE)).await;
    assert!(storage.webhooks.remove(LIVE, id).await.unwrap());
    assert!(!storage.webhooks.remove(LIVE, id).await.unwrap());
    assert_eq!(storage.webhooks.endpoint(LIVE, id).await.unwrap(), None);
    assert!(add(storage, &new_endpoint(LIVE)).await > id);
}

/// Those of test keys too.
pub async fn endpoints_of_parties_are_found_whatever_their_state(storage: &Storage) {
    let mut expected = Vec::new();
    for owner in [LIVE, TEST] {
        expected.push(add(storage, &new_endpoint(owner)).await);
    }
    change(storage, expected[0], enabled(false)).await;
    add(storage, &new_endpoint(OTHER)).await;
    let found = storage
        .webhooks
        .of_parties(&[Party::Client(CLIENT), Party::Client(ClientId(98))])
        .await
        .unwrap();
    let mut found: Vec<_> = found.into_iter().map(|endpoint| endpoint.id).collect();
    found.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(storage.webhooks.of_parties(&[]).await.unwrap(), []);
}

/// One that has never failed, or works again, or is disabled already, is left alone.
pub async fn endpoint_is_disabled_when_it_has_failed_for_too_long(storage: &Storage) {
    let mut ids = Vec::new();
    for statuses in [&[500_u16][..], &[500, 200], &[], &[500]] {
        let id = add(storage, &new_endpoint(LIVE)).await;
        for status in statuses {
            attempt_webhook(storage, id, *status, NOW).await;
        }
        ids.push(id);
    }
    change(storage, ids[3], enabled(false)).await;
    let (told, later) = (NOW + Duration::days(4), NOW + Duration::days(5));
    let disable = |failed, told| async move {
        storage.webhooks.disable_failing(failed, told, later).await.unwrap()
    };
    assert_eq!(disable(NOW, told).await, [], "its client was not told");
    for id in &ids {
        storage.webhooks.told(*id, false, told).await.unwrap();
    }
    assert_eq!(disable(NOW - MICROSECOND, told).await, []);
    assert_eq!(disable(NOW, told - MICROSECOND).await, []);
    assert_eq!(disable(NOW, told).await, [ids[0]]);
    assert_eq!(disable(NOW, told).await, []);
    assert_eq!(read_endpoint(storage, ids[0]).await.disabled, Some((later, DisabledBy::Failures)));
    assert_eq!(read_endpoint(storage, ids[1]).await.disabled, None);
    assert_eq!(read_endpoint(storage, ids[3]).await.disabled, Some((NOW, DisabledBy::Request)));
}

async fn untold(storage: &Storage, failed_before: OffsetDateTime) -> Vec<EndpointId> {
    let untold = storage.webhooks.untold(failed_before).await.unwrap();
    untold.into_iter().map(|endpoint| endpoint.id).collect()
}

/// And again, if it has worked in between.
pub async fn endpoint_that_fails_is_told_of_once(storage: &Storage) {
    let id = add(storage, &new_endpoint(LIVE)).await;
    assert_eq!(untold(storage, NOW).await, []);
    for hour in 0..2 {
        let at = NOW + Duration::hours(hour);
        attempt_webhook(storage, id, 500, at).await;
        assert_eq!(untold(storage, at - MICROSECOND).await, []);
        assert_eq!(untold(storage, at).await, [id]);
        storage.webhooks.told(id, false, at).await.unwrap();
        assert_eq!(untold(storage, at).await, []);
        attempt_webhook(storage, id, 200, at).await;
        assert_eq!(untold(storage, at).await, []);
    }
    attempt_webhook(storage, id, 500, NOW).await;
    change(storage, id, enabled(false)).await;
    assert_eq!(untold(storage, NOW).await, [], "its client has disabled it");
}

/// And again, if it was enabled in between.
pub async fn endpoint_that_the_service_disabled_is_told_of_once(storage: &Storage) {
    let id = add(storage, &new_endpoint(LIVE)).await;
    for _ in 0..2 {
        attempt_webhook(storage, id, 500, NOW).await;
        storage.webhooks.told(id, false, NOW).await.unwrap();
        assert_eq!(storage.webhooks.disable_failing(NOW, NOW, NOW).await.unwrap(), [id]);
        assert_eq!(untold(storage, NOW).await, [id]);
        storage.webhooks.told(id, true, NOW).await.unwrap();
        assert_eq!(untold(storage, NOW).await, []);
        change(storage, id, enabled(true)).await;
        assert_eq!(untold(storage, NOW).await, []);
    }
}
