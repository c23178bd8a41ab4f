use time::macros::datetime;

use super::*;
use crate::{
    api_key::{KeyChange, KeyHash, Scope},
    ports::{MockApiKeyRepo, MockClock},
    test_support::{CountingEntropy, clock},
    use_cases::{keys::note_key_uses::NoteKeyUses, store_waiting::WaitingFacts as _},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

fn managing(keys: MockApiKeyRepo) -> ManageKeys {
    ManageKeys {
        keys: Arc::new(keys),
        clock: clock(NOW),
        entropy: Arc::new(CountingEntropy::default()),
        uses: Arc::default(),
        cache: Arc::default(),
    }
}

fn terms() -> KeyTerms {
    KeyTerms {
        name: "title company".to_owned(),
        signing_service: Some(SigningServiceId(42)),
        lifetime: Some(Duration::days(90)),
        scopes: Scopes::from_iter([Scope::OrdersRead]),
        ..KeyTerms::default()
    }
}

fn issued(hash: KeyHash) -> ApiKey {
    let key = NewApiKey {
        for_service: None,
        name: "title company".to_owned(),
        lookup: "0001020304050607".to_owned(),
        hash,
        signing_service: Some(SigningServiceId(42)),
        scopes: Scopes::from_iter([Scope::OrdersRead]),
        issued_at: NOW - Duration::days(80),
        expires_at: Some(NOW + Duration::days(10)),
        is_test: true,
        rate: Some(Rate { per_second: 5, burst: 9 }),
        documents_rate: None,
        client: None,
        client_name: Some("Title".to_owned()),
        contact: Some(EmailAddress::from_stored("it@title.example.com".to_owned())),
    };
    ApiKey { id: ApiKeyId(3), key, revoked_at: None, last_used_at: None }
}

/// Returns a repository with one key, which finds it by any text.
fn repository_of(key: ApiKey) -> MockApiKeyRepo {
    let mut keys = MockApiKeyRepo::new();
    let listed = key.clone();
    keys.expect_list().returning(move || Ok(vec![listed.clone()]));
    keys.expect_trail().returning(|| Ok(vec![]));
    keys.expect_find().returning(move |_| Ok(Some(key.clone())));
    keys
}

fn presented(first: u8) -> PresentedKey {
    PresentedKey::random(true, &CountingEntropy::starting_at(first))
}

/// Returns a clock that shows each of these seconds once before and once after a look-up.
fn clock_of(seconds: &[i64]) -> Arc<MockClock> {
    let mut clock = MockClock::new();
    for &second in seconds {
        clock.expect_now().times(2).return_const(NOW + Duration::seconds(second));
    }
    Arc::new(clock)
}

async fn is_admitted(managing: &ManageKeys, key: &PresentedKey) -> bool {
    managing.authenticate(key, || true).await.unwrap().is_some()
}

#[tokio::test]
async fn key_is_stored_as_hash_and_terms() {
    let mut keys = MockApiKeyRepo::new();
    keys.expect_add().once().returning(|key, by| {
        assert_eq!(
            (key.name.as_str(), key.signing_service, key.issued_at, by),
            ("title company", Some(SigningServiceId(42)), NOW, "jane")
        );
        assert_eq!(
            (key.expires_at, key.client, key.is_test),
            (Some(NOW + Duration::days(90)), None, false)
        );
        assert_eq!(key.scopes, Scopes::from_iter([Scope::OrdersRead]));
        Ok(ApiKeyId(7))
    });
    let (id, presented) = managing(keys).issue(terms(), "jane").await.unwrap();
    assert_eq!(id, ApiKeyId(7));
    assert!(PresentedKey::parse(presented.expose()).is_some());
}

#[tokio::test]
async fn first_key_is_shown_only_if_stored() {
    for stored in [None, Some(ApiKeyId(1))] {
        let mut keys = MockApiKeyRepo::new();
        keys.expect_add_first().once().returning(move |key, by| {
            assert_eq!((key.name.as_str(), by), ("title company", "jane"));
            Ok(stored)
        });
        let issued = managing(keys).issue_first(terms(), "jane").await.unwrap();
        let shown = issued.map(|(id, presented)| (id, presented.lookup().to_owned()));
        assert_eq!(shown, stored.map(|id| (id, "0001020304050607".to_owned())));
    }
}

#[tokio::test]
async fn only_valid_key_with_its_secret_is_admitted() {
    let (presented, other) = (presented(0), presented(9));
    for (hash, revoked_at, admitted) in [
        (presented.hash(), None, true),
        (presented.hash(), Some(NOW), false),
        (other.hash(), None, false),
    ] {
        let mut keys = repository_of(ApiKey { revoked_at, ..issued(hash) });
        keys.expect_note_uses()
            .withf(|uses| uses == [(ApiKeyId(3), NOW)])
            .times(usize::from(admitted))
            .returning(|_| Ok(()));
        let managing = managing(keys);
        assert_eq!(is_admitted(&managing, &presented).await, admitted);
        // The second batch has nothing left to store.
        let noting = NoteKeyUses { keys: managing.keys, uses: managing.uses };
        noting.store_batch().await.unwrap();
        noting.store_batch().await.unwrap();
    }
}

#[tokio::test]
async fn revocation_takes_effect_within_five_seconds() {
    let presented = presented(0);
    let hash = presented.hash();
    let mut keys = MockApiKeyRepo::new();
    keys.expect_find().once().returning(move |_| Ok(Some(issued(hash))));
    keys.expect_find()
        .once()
        .returning(move |_| Ok(Some(ApiKey { revoked_at: Some(NOW), ..issued(hash) })));
    let managing = ManageKeys { clock: clock_of(&[0, 4, 5]), ..managing(keys) };
    for admitted in [true, true, false] {
        assert_eq!(is_admitted(&managing, &presented).await, admitted);
    }
}

#[tokio::test]
async fn cached_key_expires_on_time() {
    let presented = presented(0);
    let mut key = issued(presented.hash());
    key.key.expires_at = Some(NOW + Duration::seconds(1));
    let mut keys = MockApiKeyRepo::new();
    keys.expect_find().once().return_once(move |_| Ok(Some(key)));
    let managing = ManageKeys { clock: clock_of(&[0, 1]), ..managing(keys) };
    for admitted in [true, false] {
        assert_eq!(is_admitted(&managing, &presented).await, admitted);
    }
}

#[tokio::test]
async fn cached_key_admits_no_other_secret() {
    let (presented, other) = (presented(0), presented(9));
    let lookup = presented.lookup().to_owned();
    let forged = PresentedKey::parse(&other.expose().replace(other.lookup(), &lookup)).unwrap();
    let mut key = issued(presented.hash());
    key.key.lookup = lookup;
    let managing = managing(repository_of(key));
    assert!(is_admitted(&managing, &presented).await);
    assert!(!is_admitted(&managing, &forged).await);
}

#[tokio::test]
async fn without_look_ups_only_listed_keys_are_found() {
    let (valid, guess) = (presented(0), presented(99));
    let mut stored = issued(valid.hash());
    stored.key.lookup = valid.lookup().to_owned();
    let mut keys = MockApiKeyRepo::new();
    keys.expect_list().once().return_once(move || Ok(vec![stored]));
    let managing = managing(keys);

    assert_eq!(managing.authenticate(&guess, || false).await.unwrap(), None);
    assert!(managing.authenticate(&valid, || false).await.unwrap().is_some());
}

#[tokio::test]
async fn further_key_belongs_to_its_client() {
    for (client, is_known) in [(3, true), (8, false)] {
        let mut keys = repository_of(issued(KeyHash([7; 32])));
        keys.expect_add().times(usize::from(is_known)).returning(|key, _| {
            assert_eq!(key.client, Some(ClientId(3)));
            Ok(ApiKeyId(8))
        });
        let terms = KeyTerms { client: Some(ClientId(client)), ..terms() };
        match managing(keys).issue(terms, "jane").await {
            Ok(_) => assert!(is_known),
            Err(error) => assert!(!is_known && matches!(error, KeyError::UnknownClient)),
        }
    }
}

#[tokio::test]
async fn successor_keeps_terms_and_client() {
    let mut keys = repository_of(issued(KeyHash([7; 32])));
    keys.expect_rotate().once().returning(|id, successor, until, by| {
        assert_eq!((id, until, by), (ApiKeyId(3), NOW + Duration::hours(24), "jane"));
        let old = issued(successor.hash).key;
        let expected = NewApiKey {
            issued_at: NOW,
            expires_at: Some(NOW + Duration::days(90)),
            client: Some(crate::api_key::ClientId(3)),
            // Only the first key has the name of its client.
            client_name: None,
            ..old
        };
        assert_eq!(*successor, NewApiKey { lookup: successor.lookup.clone(), ..expected });
        Ok(Some(ApiKeyId(8)))
    });
    let (id, presented, old_until) =
        managing(keys).rotate(ApiKeyId(3), Duration::hours(24), "jane").await.unwrap();
    assert_eq!((id, old_until), (ApiKeyId(8), NOW + Duration::hours(24)));
    assert!(presented.expose().starts_with("nok_test_"));
}

#[tokio::test]
async fn grace_does_not_extend_a_key() {
    let mut keys = repository_of(issued(KeyHash([7; 32])));
    keys.expect_rotate().returning(|_, _, _, _| Ok(Some(ApiKeyId(8))));
    let (.., old_until) =
        managing(keys).rotate(ApiKeyId(3), Duration::days(30), "jane").await.unwrap();
    assert_eq!(old_until, NOW + Duration::days(10));
}

#[tokio::test]
async fn invalid_key_is_not_rotated() {
    let mut keys = repository_of(issued(KeyHash([7; 32])));
    keys.expect_rotate().returning(|_, _, _, _| Ok(None));
    let managing = managing(keys);
    let rotated = managing.rotate(ApiKeyId(3), Duration::ZERO, "jane").await;
    assert!(matches!(rotated, Err(KeyError::Invalid)));
    let rotated = managing.rotate(ApiKeyId(4), Duration::ZERO, "jane").await;
    assert!(matches!(rotated, Err(KeyError::Unknown)));
}

#[tokio::test]
async fn repeated_rotation_keeps_the_lifetime() {
    for lifetime in [None, Some(Duration::days(90))] {
        let key = |id, issued_at, expires_at| {
            let key = NewApiKey { issued_at, expires_at, ..issued(KeyHash([7; 32])).key };
            ApiKey { id: ApiKeyId(id), key, ..issued(KeyHash([7; 32])) }
        };
        // Rotated a minute ago, issued an hour before that.
        let (issued_at, rotated_at) = (NOW - Duration::HOUR, NOW - Duration::MINUTE);
        let keys_there = vec![
            key(3, issued_at, Some(NOW + Duration::DAY)),
            key(4, rotated_at, lifetime.map(|lifetime| rotated_at + lifetime)),
        ];
        let rotated = KeyEvent {
            key: ApiKeyId(3),
            change: KeyChange::Rotated { successor: ApiKeyId(4) },
            at: rotated_at,
            by: "jane".to_owned(),
        };
        let mut keys = MockApiKeyRepo::new();
        keys.expect_list().returning(move || Ok(keys_there.clone()));
        keys.expect_trail().returning(move || Ok(vec![rotated.clone()]));
        keys.expect_rotate().once().returning(move |_, successor, _, _| {
            assert_eq!(successor.expires_at, lifetime.map(|lifetime| NOW + lifetime));
            Ok(Some(ApiKeyId(8)))
        });
        managing(keys).rotate(ApiKeyId(3), Duration::ZERO, "jane").await.unwrap();
    }
}

#[tokio::test]
async fn revoked_key_is_not_valid_any_more() {
    let key = issued(PresentedKey::random(true, &CountingEntropy::default()).hash());
    let revoked = ApiKey { revoked_at: Some(NOW), ..key.clone() };
    assert!(managing(repository_of(key.clone())).is_still_valid(&key.clone().into()).await);
    assert!(!managing(repository_of(revoked)).is_still_valid(&key.clone().into()).await);
    let mut outage = MockApiKeyRepo::new();
    outage.expect_find().returning(|_| Err(StoreError::Unavailable("down".into())));
    assert!(managing(outage).is_still_valid(&key.clone().into()).await, "the request goes on");
}
