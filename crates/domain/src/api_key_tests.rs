use time::{Duration, macros::datetime};

use super::*;
use crate::test_support::{CountingEntropy, api_key, new_api_key};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

fn issued(presented: &PresentedKey) -> ApiKey {
    let key =
        NewApiKey { lookup: presented.lookup().to_owned(), ..new_api_key(presented.hash(), NOW) };
    ApiKey { id: ApiKeyId(1), key, revoked_at: None, last_used_at: None }
}

#[test]
fn a_key_has_a_prefix_and_192_random_bits() {
    let entropy = CountingEntropy::default();
    let (one, other) =
        (PresentedKey::random(false, &entropy), PresentedKey::random(false, &entropy));
    assert!(one.expose().starts_with(PREFIX));
    assert_eq!(one.expose().len(), 69);
    assert_ne!(one, other);
    assert_eq!(PresentedKey::parse(one.expose()), Some(one));
}

#[test]
fn public_part_is_the_beginning_of_a_key_without_its_secret() {
    for is_test in [false, true] {
        let key = PresentedKey::random(is_test, &CountingEntropy::default());
        let mut stored = issued(&key);
        stored.key.is_test = is_test;
        let public = stored.public_part();
        assert_eq!(key.expose().strip_prefix(&*public).map(str::len), Some(1 + SECRET_CHARS));
        for text in [&*public, &format!("{public}_"), key.expose(), &format!("{public}_0123…")] {
            assert_eq!(lookup_of(text), Some(key.lookup()), "{text}");
        }
        for text in
            ["", "nok_", "7", key.lookup(), &public[..public.len() - 1], &public.to_uppercase()]
        {
            assert_eq!(lookup_of(text), None, "{text}");
        }
    }
}

#[test]
fn debug_hides_the_secret() {
    let key = PresentedKey::random(false, &CountingEntropy::default());
    assert_eq!(format!("{key:?}"), "PresentedKey(…)");
    assert!(format!("{:?}", issued(&key)).contains("hash: KeyHash(…)"));
}

#[test]
fn stored_changes_are_read_back() {
    let successor = ApiKeyId(2);
    let stored = [
        ("issued", KeyChange::Issued),
        ("rotated", KeyChange::Rotated { successor }),
        ("revoked", KeyChange::Revoked),
    ];
    for (name, change) in stored {
        assert_eq!(
            (change.as_str(), KeyChange::from_stored(name, change.successor())),
            (name, Some(change))
        );
    }
    assert_eq!(KeyChange::from_stored("rotated", None), None);
    assert_eq!(KeyChange::from_stored("revoked", Some(successor)), None);
    assert_eq!(KeyChange::from_stored("forgotten", None), None);
}

#[test]
fn test_key_has_its_own_prefix() {
    let key = PresentedKey::random(true, &CountingEntropy::default());
    assert!(key.expose().starts_with("nok_test_"));
    assert_eq!((key.expose().len(), key.lookup().len()), (74, 16));
    let parsed = PresentedKey::parse(key.expose()).unwrap();
    assert_eq!((parsed.lookup(), parsed.hash()), (key.lookup(), key.hash()));
    // Without `test_` it is another key.
    let live = PresentedKey::parse(&key.expose().replace("test_", "")).unwrap();
    assert_eq!(live.lookup(), key.lookup());
    assert_ne!(live.hash(), key.hash());
}

#[test]
fn malformed_keys_are_rejected() {
    let key = PresentedKey::random(false, &CountingEntropy::default()).expose().to_owned();
    for text in [
        "",
        "nok_",
        &key[1..],
        &key.to_uppercase(),
        &key.replace("nok_", "sk__"),
        &format!("{key}0"),
        &format!(" {key}"),
        &key.replacen('0', "é", 1),
    ] {
        assert_eq!(PresentedKey::parse(text), None, "{text}");
    }
}

#[test]
fn key_is_valid_until_it_expires_or_is_revoked() {
    let presented = PresentedKey::random(false, &CountingEntropy::default());
    let key = issued(&presented);
    assert!(key.admits(&presented, NOW));
    let expiring =
        ApiKey { key: NewApiKey { expires_at: Some(NOW), ..key.key.clone() }, ..key.clone() };
    assert!(expiring.admits(&presented, NOW - Duration::NANOSECOND));
    assert!(!expiring.admits(&presented, NOW));
    assert!(!ApiKey { revoked_at: Some(NOW), ..key.clone() }.admits(&presented, NOW));
}

#[test]
fn key_may_do_what_its_scopes_say() {
    let mut key = issued(&PresentedKey::random(false, &CountingEntropy::default()));
    let may = |key: &ApiKey| Scope::ALL.map(|scope| key.may(scope));
    assert_eq!(may(&key), [true, true, false, false]);
    key.key.scopes = [Scope::WebhooksManage].into_iter().collect();
    assert_eq!(may(&key), [false, false, false, true]);
    key.key.scopes = Scopes::from_iter([]);
    assert_eq!(may(&key), [false; 4]);
}

#[test]
fn stored_scopes_are_read_back() {
    let all: Scopes = Scope::ALL.into_iter().rev().collect();
    for (scopes, stored) in [
        (Scopes::default(), "orders:create orders:read"),
        (all, "orders:create orders:read orders:update webhooks:manage"),
        (Scopes::from_iter([]), ""),
    ] {
        assert_eq!(scopes.to_string(), stored);
        assert_eq!(Scopes::from_stored(stored), scopes);
    }
    let known = Scopes::from_stored("orders:read orders:everything");
    assert_eq!(known, [Scope::OrdersRead].into_iter().collect());
}

#[test]
fn bound_key_is_limited_to_its_signing_service() {
    let mut key = issued(&PresentedKey::random(false, &CountingEntropy::default()));
    assert!(key.may_order_for(SigningServiceId(1)));
    key.key.signing_service = Some(SigningServiceId(2));
    assert!(!key.may_order_for(SigningServiceId(1)));
    assert!(key.may_order_for(SigningServiceId(2)));
}

/// Returns a valid key of the client 1, bound to this signing service.
fn bound(id: i64, service: Option<i64>) -> ApiKey {
    let mut key = api_key();
    key.id = ApiKeyId(id);
    key.key.client = Some(ClientId(1));
    key.key.scopes = Scope::DEFAULT.into_iter().collect();
    key.key.signing_service = service.map(SigningServiceId);
    key
}

#[test]
fn new_key_is_bound_like_all_valid_keys_that_create_orders() {
    let issued_at = api_key().key.issued_at;
    let binding = |keys: &[ApiKey]| binding(keys, bound(1, None).owner(), issued_at);
    let service = Some(SigningServiceId(42));
    let one = bound(1, Some(42));
    assert_eq!(binding(&[one.clone(), bound(2, Some(42))]), service);
    assert_eq!(binding(&[one.clone(), bound(2, None)]), None);
    assert_eq!(binding(&[one.clone(), bound(2, Some(43))]), None);
    assert_eq!(binding(&[]), None);
    // Keys that create no orders, of others, of test orders and revoked ones lift no binding.
    let (mut reads, mut foreign, mut test, mut revoked) =
        (bound(2, None), bound(2, None), bound(2, None), bound(2, None));
    reads.key.scopes = [Scope::OrdersRead].into_iter().collect();
    foreign.key.client = Some(ClientId(2));
    test.key.is_test = true;
    revoked.revoked_at = Some(issued_at);
    for key in [reads, foreign, test, revoked] {
        assert_eq!(binding(&[one.clone(), key]), service);
    }
}

#[test]
fn binding_outlives_the_revocation_of_the_last_key() {
    let mut revoked = [bound(1, None), bound(2, Some(42))];
    let issued_at = api_key().key.issued_at;
    for key in &mut revoked {
        key.revoked_at = Some(issued_at);
    }
    let owner = revoked[0].owner();
    assert_eq!(binding(&revoked, owner, issued_at), Some(SigningServiceId(42)));
    // Nor is it lost in the other mode.
    let test = Owner { is_test: true, ..owner };
    assert_eq!(binding(&revoked, test, issued_at), Some(SigningServiceId(42)));
}
