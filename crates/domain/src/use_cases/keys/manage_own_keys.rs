//! Use case: an admin issues, rotates and revokes the keys of the own side.

use time::{Duration, OffsetDateTime};

use crate::{
    api_key::{ApiKey, ApiKeyId, Owner, Party, PresentedKey, binding, key_request::KeyRequest},
    person::Admin,
    ports::StoreError,
    use_cases::{
        keys::{
            manage_keys::{KeyError, KeyTerms},
            revoke_key::RevokeKey,
        },
        people::sessions::Sessions,
    },
};

/// Number of keys of a side that may be issued within a day before its admins issue no more. Every instance may have to
/// know all keys, and a key is never removed. Requests at once may exceed it by their number.
const ISSUED_A_DAY: usize = 100;

/// Manages the keys of one side, for its admins. What an operator alone may say of a key stays out: its rates, its
/// contact, the only service that it may order for. A new key has the binding of the others.
#[derive(Clone)]
pub struct ManageOwnKeys {
    /// Issues and revokes them.
    pub keys: RevokeKey,
    /// Their sessions end with them.
    pub sessions: Sessions,
}

impl ManageOwnKeys {
    /// Returns the keys of the admin's side, valid or not, the oldest first.
    pub async fn list(&self, by: Admin) -> Result<Vec<ApiKey>, StoreError> {
        let mut keys = self.keys.keys.keys.list().await?;
        keys.retain(|key| key.party() == by.party());
        Ok(keys)
    }

    /// Returns a key of the admin's side.
    ///
    /// # Errors
    /// [`KeyError::Unknown`], also for the key of another side.
    pub async fn find(&self, by: Admin, id: ApiKeyId) -> Result<ApiKey, KeyError> {
        let keys = self.list(by).await?;
        keys.into_iter().find(|key| key.id == id).ok_or(KeyError::Unknown)
    }

    /// Issues a key of the admin's side. The secret is not available later.
    ///
    /// # Errors
    /// [`KeyError::TooMany`]: the side has many new keys. [`KeyError::NameInUse`]: histories would not tell the key from
    /// a person.
    pub async fn issue(
        &self,
        by: Admin,
        request: KeyRequest,
    ) -> Result<(ApiKeyId, PresentedKey), KeyError> {
        let KeyRequest { name, scopes, is_test, lifetime } = request;
        let (keys, now) = (self.list(by).await?, self.keys.keys.clock.now());
        may_issue(&keys, now)?;
        let (client, for_service, signing_service) = match by.party() {
            Party::Client(client) => {
                let owner = Owner { party: by.party(), is_test };
                (Some(client), None, binding(&keys, owner, now))
            }
            Party::Service(service) => (None, Some(service), None),
        };
        let terms = KeyTerms {
            name,
            signing_service,
            for_service,
            scopes,
            client,
            lifetime,
            is_test,
            ..KeyTerms::default()
        };
        let (presented, key) = self.keys.keys.new_key(terms);
        let issued = self.keys.keys.keys.add_by_admin(&key, by.party(), &name_of(by)).await?;
        Ok((issued.ok_or(KeyError::NameInUse)?, presented))
    }

    /// Issues the successor of a key of the admin's side, as [`ManageKeys::rotate`] does. It keeps the name of the key.
    ///
    /// [`ManageKeys::rotate`]: crate::use_cases::keys::manage_keys::ManageKeys::rotate
    ///
    /// # Errors
    /// [`KeyError::TooMany`], as for [`Self::issue`].
    pub async fn rotate(
        &self,
        by: Admin,
        id: ApiKeyId,
        grace: Duration,
    ) -> Result<(ApiKeyId, PresentedKey, OffsetDateTime), KeyError> {
        let keys = self.list(by).await?;
        if !keys.iter().any(|key| key.id == id) {
            return Err(KeyError::Unknown);
        }
        may_issue(&keys, self.keys.keys.clock.now())?;
        self.keys.keys.rotate(id, grace, &name_of(by)).await
    }

    /// Revokes a key of the admin's side. The last valid one takes the webhooks of its owner along.
    pub async fn revoke(&self, by: Admin, id: ApiKeyId) -> Result<(), KeyError> {
        self.find(by, id).await?;
        let revoked = self.keys.revoke(id, &name_of(by)).await;
        self.sessions.read_anew();
        revoked?.map(drop).ok_or(KeyError::Unknown)
    }
}

/// Decides whether a side with these keys gets another one.
fn may_issue(keys: &[ApiKey], now: OffsetDateTime) -> Result<(), KeyError> {
    let age = |key: &ApiKey| now - key.key.issued_at;
    let mut ages: Vec<Duration> = keys.iter().map(age).filter(|age| *age < Duration::DAY).collect();
    ages.sort_unstable();
    // The key after whose day there are fewer.
    let Some(age) = ages.get(ISSUED_A_DAY - 1) else { return Ok(()) };
    let seconds = (Duration::DAY - *age).whole_seconds().saturating_add(1);
    Err(KeyError::TooMany { retry_after: seconds.unsigned_abs() })
}

/// Returns the admin in the history of keys, which operators read.
fn name_of(by: Admin) -> String {
    format!("person {}", by.person().0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        api_key::{ClientId, Scopes},
        person::{
            Caller, Doer, Holder, NewSession, PersonId, Role, Session, SessionId, SessionTerms,
            TokenHash, Way, tests::person,
        },
        ports::{MockApiKeyRepo, MockSessionRepo, MockWebhookRepo},
        test_support::{CountingEntropy, api_key, clock, new_api_key},
        use_cases::keys::manage_keys::ManageKeys,
    };

    const NOW: OffsetDateTime = time::macros::datetime!(2026-11-21 12:00 UTC);

    fn managing(keys: MockApiKeyRepo) -> ManageOwnKeys {
        let keys = ManageKeys {
            keys: Arc::new(keys),
            clock: clock(NOW),
            entropy: Arc::new(CountingEntropy::default()),
            uses: Arc::default(),
            cache: Arc::default(),
        };
        let sessions = Sessions {
            sessions: Arc::new(MockSessionRepo::new()),
            clock: clock(NOW),
            terms: SessionTerms::default(),
            uses: Arc::default(),
            cache: Arc::default(),
        };
        let keys = RevokeKey { keys, endpoints: Arc::new(MockWebhookRepo::new()) };
        ManageOwnKeys { keys, sessions }
    }

    /// Returns person 3, an admin of client 1.
    fn admin() -> Admin {
        let session = NewSession {
            token: TokenHash([1; 32]),
            doer: Doer::Person(PersonId(3)),
            way: Way::Passkey,
            is_test: false,
            signed_in_at: NOW,
            expires_at: NOW + Duration::HOUR,
        };
        let session = Session { id: SessionId(9), session, last_used_at: NOW, ended_at: None };
        let mut admin = person();
        admin.person.role = Role::Admin;
        Caller::of_session(session, Holder::Person(Arc::new(admin))).admin(NOW).unwrap()
    }

    /// The store decides it at once with the names of people.
    #[tokio::test]
    async fn key_with_the_name_of_a_person_is_not_issued() {
        for (stored, is_issued) in [(Some(ApiKeyId(7)), true), (None, false)] {
            let mut keys = MockApiKeyRepo::new();
            keys.expect_list().returning(|| Ok(vec![api_key()]));
            keys.expect_add_by_admin().once().returning(move |key, party, by| {
                assert_eq!((key.name.as_str(), by), ("Jane Doe", "person 3"));
                assert_eq!((party, key.client), (admin().party(), Some(ClientId(1))));
                Ok(stored)
            });
            let request = KeyRequest {
                name: "Jane Doe".to_owned(),
                scopes: Scopes::default(),
                is_test: false,
                lifetime: None,
            };
            match managing(keys).issue(admin(), request).await {
                Ok((id, _)) => assert!(is_issued && Some(id) == stored),
                Err(error) => assert!(!is_issued && matches!(error, KeyError::NameInUse)),
            }
        }
    }

    #[tokio::test]
    async fn successor_keeps_the_name_of_its_key() {
        let mut keys = MockApiKeyRepo::new();
        keys.expect_list().returning(|| Ok(vec![api_key()]));
        keys.expect_trail().returning(|| Ok(vec![]));
        keys.expect_rotate().once().returning(|_, successor, _, _| {
            assert_eq!(successor.name, api_key().key.name);
            Ok(Some(ApiKeyId(8)))
        });
        let rotated = managing(keys).rotate(admin(), ApiKeyId(1), Duration::HOUR).await;
        assert_eq!(rotated.unwrap().0, ApiKeyId(8));
    }

    fn issued(at: OffsetDateTime) -> ApiKey {
        let key = api_key();
        ApiKey { key: new_api_key(key.key.hash, at), ..key }
    }

    #[test]
    fn admins_issue_few_keys_a_day() {
        let mut keys = vec![issued(NOW - Duration::DAY); 500];
        keys.extend(vec![issued(NOW - Duration::HOUR); ISSUED_A_DAY - 1]);
        assert!(may_issue(&keys, NOW).is_ok());
        keys.push(issued(NOW));
        let wait = |now| match may_issue(&keys, now) {
            Err(KeyError::TooMany { retry_after }) => retry_after,
            other => panic!("{other:?}"),
        };
        assert_eq!(wait(NOW), 23 * 3_600 + 1);
        assert!(may_issue(&keys, NOW + Duration::hours(23)).is_ok());
    }
}
