use async_trait::async_trait;
use domain::{
    api_key::ClientId,
    idempotency::{Answered, Claim, ClaimToken, IdempotencyKey, KeyUse},
    order::OrderId,
    ports::{ClaimError, IdempotencyLedger, NewOrder, StoreError},
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

fn ledger_key(key: &IdempotencyKey) -> (ClientId, [u8; 32]) {
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
            ledger_key(&claim.key),
            Kept { token: claim.token, answered: None, taken_at: now, until },
        );
        Ok(())
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let own = |kept: &Kept| kept.token == claim.token && kept.answered.is_none();
        self.state()
            .idempotency_keys
            .retain(|key, kept| *key != ledger_key(&claim.key) || !own(kept));
        Ok(())
    }

    async fn forget_free(
        &self,
        after: Option<IdempotencyKey>,
        now: OffsetDateTime,
        limit: usize,
    ) -> Result<Option<IdempotencyKey>, StoreError> {
        let mut state = self.state();
        let later = |key: &(ClientId, [u8; 32])| {
            after.as_ref().is_none_or(|after| *key > ledger_key(after))
        };
        let looked: Vec<_> =
            state.idempotency_keys.keys().copied().filter(later).take(limit).collect();
        state.idempotency_keys.retain(|key, kept| kept.until > now || !looked.contains(key));
        Ok(looked.last().map(|&(client, digest)| IdempotencyKey { client, digest }))
    }
}

impl State {
    pub(super) fn key_use(&self, claim: &Claim, now: OffsetDateTime) -> Option<KeyUse> {
        let kept =
            self.idempotency_keys.get(&ledger_key(&claim.key)).filter(|kept| kept.until > now)?;
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
                ledger_key(key),
                Kept {
                    token: *token,
                    answered,
                    taken_at: new.created_at,
                    until: remembrance.kept_until,
                },
            );
        }
    }
}
