//! Use case: list the notaries that a signing service knows.

use std::sync::Arc;

use crate::{
    api_key::Owner,
    notary::{KNOWN_FOR, KnownNotaries, KnownNotary, NOTARY_ORDERS, NotaryUse, merged},
    ports::{Clock, OrderReader, StoreError},
};

/// A page of notaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotaryPage {
    /// The notaries, the latest used first.
    pub notaries: Vec<KnownNotary>,
    /// Whether there are others behind them.
    pub has_more: bool,
    /// Whether all orders were looked at.
    pub is_complete: bool,
}

/// Lists the notaries of orders.
#[derive(Clone)]
pub struct ListNotaries {
    /// Reads orders.
    pub reader: Arc<dyn OrderReader>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl ListNotaries {
    /// Returns up to `limit` notaries of a signing service's orders after a place in the list, the latest used first,
    /// whether there are others, and whether all orders were looked at.
    pub async fn page(
        &self,
        owner: Owner,
        limit: usize,
        after: Option<NotaryUse>,
    ) -> Result<NotaryPage, StoreError> {
        let since = self.clock.now().saturating_sub(KNOWN_FOR);
        let KnownNotaries { found, is_complete } =
            self.reader.notaries(owner, since, NOTARY_ORDERS).await?;
        let mut notaries = merged(found);
        notaries.retain(|one| after.is_none_or(|after| one.last_use < after));
        let has_more = notaries.len() > limit;
        notaries.truncate(limit);
        Ok(NotaryPage { notaries, has_more, is_complete })
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime, macros::datetime};

    use super::*;
    use crate::{
        api_key::Party,
        order::{Notary, OrderId, SigningServiceId},
        ports::MockOrderReader,
        test_support::clock,
    };

    const NOW: OffsetDateTime = datetime!(2026-12-31 12:00 UTC);
    const SERVICE: Owner = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };

    #[tokio::test]
    async fn pages_have_each_notary_of_a_year_once() {
        let mut reader = MockOrderReader::new();
        reader
            .expect_notaries()
            .withf(|owner, since, newest| {
                let since_a_year = datetime!(2025-12-31 12:00 UTC);
                (*owner, *since, *newest) == (SERVICE, since_a_year, NOTARY_ORDERS)
            })
            .returning(|_, _, _| {
                let known = |number: i64| KnownNotary {
                    notary: Notary { name: format!("N{number}"), phone: None, email: None },
                    notary_id: None,
                    orders: 1,
                    last_use: NotaryUse {
                        at: NOW - Duration::DAY * i32::try_from(number / 2).unwrap(),
                        order: OrderId(number),
                    },
                };
                Ok(KnownNotaries { found: (0..5).map(known).collect(), is_complete: false })
            });
        let list = ListNotaries { reader: Arc::new(reader), clock: clock(NOW) };
        let (mut after, mut names) = (None, Vec::new());
        for expected in [true, true, false] {
            let page = list.page(SERVICE, 2, after).await.unwrap();
            assert_eq!((page.has_more, page.is_complete), (expected, false));
            after = page.notaries.last().map(|one| one.last_use);
            names.extend(page.notaries.into_iter().map(|one| one.notary.name));
        }
        assert_eq!(names, ["N1", "N0", "N3", "N2", "N4"]);
    }
}
