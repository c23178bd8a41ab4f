//! Use case: list signing services, and tell which of them orders may name.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use time::{Duration, OffsetDateTime};

use crate::{
    api_key::Party,
    order::SigningServiceId,
    person::Caller,
    ports::{Cursor, Page, ServiceRepo, Standing, StoreError},
    signing_service::SigningService,
};

/// Time for which a number is accepted without asking for its record again.
const ACCEPTED: Duration = Duration::milliseconds(50);

/// Tells which signing services orders may name: those with a record.
pub struct KnownServices {
    /// Stores the records.
    services: Arc<dyn ServiceRepo>,
    /// Whether any number is accepted while there is no record at all.
    takes_any_without_records: bool,
    /// When the store accepted which number; `None` any number. Only short: creating an order must not
    /// cost a query each time, and a new record must take effect at once.
    accepted: Mutex<BTreeMap<Option<SigningServiceId>, OffsetDateTime>>,
}

impl KnownServices {
    /// Returns the rule on a store. `takes_any_without_records` accepts any number while there is no
    /// record at all.
    pub fn new(services: Arc<dyn ServiceRepo>, takes_any_without_records: bool) -> Self {
        Self { services, takes_any_without_records, accepted: Mutex::default() }
    }

    /// Returns whether an order may name this service at an instant. A number is rejected only after the
    /// store was asked: its record may be new.
    pub(crate) async fn accept(
        &self,
        service: SigningServiceId,
        now: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        if self.was_accepted(None, now) || self.was_accepted(Some(service), now) {
            return Ok(true);
        }
        let accepted = match self.services.standing(service).await? {
            Standing::Recorded => Some(service),
            Standing::NoRecords if self.takes_any_without_records => None,
            Standing::NoRecords | Standing::Unknown => return Ok(false),
        };
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).insert(accepted, now);
        Ok(true)
    }

    fn was_accepted(&self, service: Option<SigningServiceId>, now: OffsetDateTime) -> bool {
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back keeps nothing.
        let is_recent = |at: &OffsetDateTime| (Duration::ZERO..ACCEPTED).contains(&(now - *at));
        accepted.get(&service).is_some_and(is_recent)
    }
}

/// Lists the signing services that orders of a key may name.
#[derive(Clone)]
pub struct ListServices {
    /// Stores the records.
    pub services: Arc<dyn ServiceRepo>,
}

impl ListServices {
    /// Returns the name of a service; `None` if it has no record.
    pub async fn name(&self, service: SigningServiceId) -> Result<Option<String>, StoreError> {
        let found = self.services.find(&[service]).await?;
        Ok(found.into_iter().next().map(|service| service.name))
    }

    /// Returns a page of the records, by number. A key that belongs to a service or is bound to one sees
    /// only that. Returns `None` if the cursor is none of them.
    pub async fn page(
        &self,
        caller: &Caller,
        limit: usize,
        cursor: &Cursor<SigningServiceId>,
    ) -> Result<Option<Page<SigningService>>, StoreError> {
        let own = match caller.party() {
            Party::Service(service) => Some(service),
            Party::Client(_) => caller.signing_service(),
        };
        let mut all = match own {
            Some(own) => self.services.find(&[own]).await?,
            None => self.services.all().await?,
        };
        let (Cursor::OlderThan(id) | Cursor::NewerThan(id)) = cursor else {
            return Ok(Some(Page::of(limit, cursor, all, false)));
        };
        let Some(at) = all.iter().position(|service| service.id == *id) else { return Ok(None) };
        let read = if matches!(cursor, Cursor::OlderThan(_)) {
            all.split_off(at + 1)
        } else {
            all.truncate(at);
            all.reverse();
            all
        };
        Ok(Some(Page::of(limit, cursor, read, true)))
    }
}

#[cfg(test)]
#[path = "services_tests.rs"]
mod tests;
