//! Use case: move the secrets of endpoints to another key, and tell which keys are still needed.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use crate::{
    ports::{EndpointSecrets, SecretBox, StoreError, Unreadable, WebhookRepo},
    use_cases::webhooks::manage_webhooks::secret_context,
    webhook::EndpointId,
};

/// Which keys the secrets of endpoints need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretCounts {
    /// The number of secrets that each key decrypts, by its place among the keys from 0. Keys without a secret
    /// are left out. Secrets that do not sign any more do not count.
    pub of_keys: BTreeMap<usize, usize>,
    /// The number of endpoints whose present secret no key decrypts. No webhook is sent to them.
    pub unreadable: usize,
}

/// Counts the secrets of endpoints by their keys. Without a key, no secret can be read.
pub async fn count_secrets(
    endpoints: &dyn WebhookRepo,
    keys: Option<&dyn SecretBox>,
    now: OffsetDateTime,
) -> Result<SecretCounts, StoreError> {
    let mut counts = SecretCounts::default();
    for EndpointSecrets { party, secrets, .. } in endpoints.secrets().await? {
        let key_of = |sealed: &[u8]| keys?.key_of(sealed, &secret_context(party)).ok();
        let secrets = secrets.live(now);
        counts.unreadable += usize::from(key_of(&secrets.current).is_none());
        let older = secrets.older.iter().map(|(sealed, _)| sealed);
        for key in std::iter::once(&secrets.current).chain(older).filter_map(|one| key_of(one)) {
            *counts.of_keys.entry(key).or_default() += 1;
        }
    }
    Ok(counts)
}

/// The outcome of a re-encryption.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reencrypted {
    /// The number of secrets that were encrypted anew.
    pub secrets: usize,
    /// Endpoints whose present secret no key decrypts. It stays as it is.
    pub unreadable: Vec<EndpointId>,
}

/// Encrypts all secrets of endpoints with the first key, each endpoint in a step of its own, and removes those
/// that do not sign any more. An interrupted call has done a part, and the next one does the rest.
///
/// An endpoint whose secrets change at the same time is looked at again.
pub async fn reencrypt(
    endpoints: &dyn WebhookRepo,
    keys: &dyn SecretBox,
    now: OffsetDateTime,
) -> Result<Reencrypted, StoreError> {
    let mut done = Reencrypted::default();
    loop {
        done.unreadable.clear();
        let mut has_raced = false;
        for before in endpoints.secrets().await? {
            let context = secret_context(before.party);
            let mut secrets = 0;
            let mut renew = |sealed: &mut Vec<u8>| {
                if keys.key_of(sealed, &context)? > 0 {
                    *sealed = keys.seal(&keys.open(sealed, &context)?, &context);
                    secrets += 1;
                }
                Ok(())
            };
            let mut after = before.secrets.clone().live(now);
            let current: Result<(), Unreadable> = renew(&mut after.current);
            if current.is_err() {
                done.unreadable.push(before.id);
            }
            for (sealed, _) in &mut after.older {
                // The key of an older one may be lost, and the reason for the rotation.
                let _ = renew(sealed);
            }
            if after != before.secrets {
                if endpoints.replace_secrets(&before, &after).await? {
                    done.secrets += secrets;
                } else {
                    has_raced = true;
                }
            }
        }
        if !has_raced {
            return Ok(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use time::{Duration, macros::datetime};

    use super::*;
    use crate::{
        api_key::{ClientId, Party},
        ports::{MockSecretBox, MockWebhookRepo, SealedSecrets},
        webhook::secret::WebhookSecret,
    };

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
    const CLIENT: Party = Party::Client(ClientId(1));

    /// Returns a box of two keys. The first byte of a sealed secret is the place of its key; 9 is that of a lost
    /// one.
    fn keys() -> MockSecretBox {
        let mut keys = MockSecretBox::new();
        keys.expect_key_of().returning(|sealed, context| {
            assert_eq!(context, "webhook endpoints of client 1");
            Some(usize::from(sealed[0])).filter(|&key| key < 2).ok_or(Unreadable)
        });
        keys.expect_open().returning(|sealed, _| Ok(WebhookSecret::from([sealed[1]; 32])));
        keys.expect_seal().returning(|secret, _| vec![0, secret.expose()[0]]);
        keys
    }

    fn of(id: i64, current: [u8; 2], older: &[([u8; 2], OffsetDateTime)]) -> EndpointSecrets {
        let older = older.iter().map(|(sealed, until)| (sealed.to_vec(), *until)).collect();
        let secrets = SealedSecrets { current: current.to_vec(), older };
        EndpointSecrets { id: EndpointId(id), party: CLIENT, secrets }
    }

    /// Returns a store of these secrets. The first replacement finds that they have changed, if `races`.
    fn stored(secrets: Vec<EndpointSecrets>, races: bool) -> MockWebhookRepo {
        let stored: &'static Mutex<(Vec<EndpointSecrets>, bool)> =
            Box::leak(Box::new(Mutex::new((secrets, races))));
        let mut endpoints = MockWebhookRepo::new();
        endpoints.expect_secrets().returning(|| Ok(stored.lock().unwrap().0.clone()));
        endpoints.expect_replace_secrets().returning(|before, after| {
            let (all, races) = &mut *stored.lock().unwrap();
            let found = all.iter_mut().find(|one| one == &before).unwrap();
            if std::mem::take(races) {
                found.secrets.current = vec![1, 77];
                return Ok(false);
            }
            found.secrets = after.clone();
            Ok(true)
        });
        endpoints
    }

    #[tokio::test]
    async fn secrets_are_counted_by_key_while_they_sign() {
        let later = NOW + Duration::HOUR;
        let endpoints = stored(
            vec![
                of(1, [0, 1], &[([1, 2], later), ([1, 3], NOW), ([9, 4], later)]),
                of(2, [1, 5], &[]),
                of(3, [9, 6], &[([0, 7], later)]),
            ],
            false,
        );
        let counts = count_secrets(&endpoints, Some(&keys()), NOW).await.unwrap();
        let of_keys = [(0, 2), (1, 2)].into();
        assert_eq!(counts, SecretCounts { of_keys, unreadable: 1 });
        let without = count_secrets(&endpoints, None, NOW).await.unwrap();
        assert_eq!(without, SecretCounts { of_keys: BTreeMap::new(), unreadable: 3 });
    }

    #[tokio::test]
    async fn all_secrets_that_sign_move_to_the_first_key() {
        let later = NOW + Duration::HOUR;
        for races in [false, true] {
            let endpoints = stored(
                vec![
                    of(
                        1,
                        [1, 1],
                        &[([1, 2], later), ([0, 3], later), ([1, 4], NOW), ([9, 5], later)],
                    ),
                    of(2, [0, 6], &[]),
                    of(3, [9, 7], &[]),
                ],
                races,
            );
            let unreadable = vec![EndpointId(3)];
            let done = reencrypt(&endpoints, &keys(), NOW).await.unwrap();
            assert_eq!(done, Reencrypted { secrets: 2, unreadable: unreadable.clone() });
            let current = if races { 77 } else { 1 };
            let kept = [([0, 2], later), ([0, 3], later), ([9, 5], later)];
            let expected = [of(1, [0, current], &kept), of(2, [0, 6], &[]), of(3, [9, 7], &[])];
            assert_eq!(endpoints.secrets().await.unwrap(), expected);
            // Again, there is nothing to do.
            let again = reencrypt(&endpoints, &keys(), NOW).await.unwrap();
            assert_eq!(again, Reencrypted { secrets: 0, unreadable });
        }
    }
}
