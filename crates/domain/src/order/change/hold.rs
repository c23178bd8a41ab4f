//! Putting an order on hold, and ending its hold.

use time::OffsetDateTime;

use super::{before::OrderBefore, effects::OrderEffects};

/// Sets the end of the hold. The sides do not see a hold: the version of the order stays, and no event
/// tells of it.
pub(super) fn decide(until: Option<OffsetDateTime>) -> OrderEffects {
    OrderEffects { held_until: Some(until), ..OrderEffects::default() }
}

impl OrderBefore {
    /// Returns whether the order is on hold at `now`: it and its documents are not erased.
    pub(super) fn is_held(&self, now: OffsetDateTime) -> bool {
        self.held_until.is_some_and(|until| until > now)
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use crate::order::change::{
        OrderCommand,
        before::tests::{NOW, before, held},
    };

    #[test]
    fn hold_is_seen_by_no_side() {
        for until in [Some(NOW), None] {
            let effects = OrderCommand::Hold { until }.decide(&held(), NOW).unwrap().unwrap();
            assert_eq!((effects.held_until, effects.at, effects.entry), (Some(until), None, None));
            assert_eq!(effects.events, []);
        }
    }

    #[test]
    fn order_is_held_until_the_end_of_its_hold() {
        let until = held().held_until.unwrap();
        assert!(held().is_held(until - Duration::MICROSECOND));
        assert!(!held().is_held(until));
        assert!(!before().is_held(NOW));
    }
}
