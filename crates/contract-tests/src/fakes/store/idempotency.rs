use async_trait::async_trait;
use domain::{
    api_key::ApiKeyId,
    idempotency::{Answered, Claim, ClaimToken, IdempotencyKey, KeyUse},
    order::OrderId,
    ports::{ClaimError, IdempotencyLedger, NewOrder, RememberedRequest, StoreError},
};
use time::OffsetDateTime;

use super::{InMemoryStore, State};

#[derive(Clone, Copy)]
pub(super) struct Kept {
    token: ClaimToken,
    answered: Option<Answered>,
    taken_at: OffsetDateTime,
    until: OffsetDateTime,
}

fn create(key: &IdempotencyKey) -> (ApiKeyId, [u8; 32]) {
    (key.client, key.digest)
}

#[async_trait]
impl IdempotencyLedger for InMemoryStore {
    async fn claim(
        &self,
        claim: &Claim,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<(), ClaimError> {
        let mut state = self.state();
        if let Some(taken) = state.key_use(claim, now) {
            return Err(ClaimError::Taken(taken));
        }
        state.idempotency_keys.insert(
            create(&claim.key),
            Kept { token: claim.token, answered: None, taken_at: now, until },
        );
        Ok(())
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let own = |kept: &Kept| kept.token == claim.token && kept.answered.is_none();
        self.state().idempotency_keys.retain(|key, kept| *key != create(&claim.key) || !own(kept));
        Ok(())
    }

    async fn forget_free(
        &self,
        after: Option<IdempotencyKey>,
        now: OffsetDateTime,
        limit: usize,
    ) -> Result<Option<IdempotencyKey>, StoreError> {
        let mut state = self.state();
        let later =
            |key: &(ApiKeyId, [u8; 32])| after.as_ref().is_none_or(|after| *key > create(after));
        let looked: Vec<_> =
            state.idempotency_keys.keys().copied().filter(later).take(limit).collect();
        state.idempotency_keys.retain(|key, kept| kept.until > now || !looked.contains(key));
        Ok(looked.last().map(|&(client, digest)| IdempotencyKey { client, digest }))
    }
}

impl State {
    pub(super) fn key_use(&self, claim: &Claim, now: OffsetDateTime) -> Option<KeyUse> {
        let kept =
            self.idempotency_keys.get(&create(&claim.key)).filter(|kept| kept.until > now)?;
        match kept.answered {
            Some(answered) => Some(KeyUse::Answered(answered)),
            None => (kept.token != claim.token).then_some(KeyUse::InFlight { until: kept.until }),
        }
    }

    pub(super) fn remember(&mut self, new: &NewOrder, order_id: OrderId) {
        if let Some(remembrance) = &new.remembrance {
            let Claim { key, token } = &remembrance.attempt.claim;
            let answered =
                Some(Answered { fingerprint: remembrance.attempt.fingerprint, order_id });
            self.idempotency_keys.insert(
                create(key),
                Kept {
                    token: *token,
                    answered,
                    taken_at: new.created_at,
                    until: remembrance.kept_until,
                },
            );
        }
    }

    pub(super) fn remembered(&self) -> impl Iterator<Item = RememberedRequest> {
        self.idempotency_keys.iter().filter_map(|(&(client, digest), kept)| {
            let key = IdempotencyKey { client, digest };
            Some(RememberedRequest {
                key,
                answered: kept.answered?,
                taken_at: kept.taken_at,
                kept_until: kept.until,
            })
        })
    }

    pub(super) fn take_remembered(&mut self, remembered: Vec<RememberedRequest>) {
        for RememberedRequest { key, answered, taken_at, kept_until } in remembered {
            let kept = Kept {
                token: ClaimToken([0; 16]),
                answered: Some(answered),
                taken_at,
                until: kept_until,
            };
            self.idempotency_keys.insert(create(&key), kept);
        }
    }
}
