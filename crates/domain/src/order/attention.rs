//! What is late about an order, and which side acts. It is computed from the order and the clock, and stored
//! nowhere.

use time::{Date, Duration, OffsetDateTime};

use super::{OrderStatus, StoredOrder};
use crate::{
    document::DocumentCounts,
    request::{Fault, ViolationCode},
};

/// What is late about an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attention {
    /// Nobody carries it out, and it begins within 24 hours. The service acts.
    Unassigned,
    /// It has a notary, is not confirmed, and begins within 4 hours. The service acts.
    Unconfirmed,
    /// It has no document in force, and begins within 2 hours. The client acts.
    NoDocuments,
    /// The service has not fetched a document, and it begins within an hour. The service acts.
    NotFetched,
    /// It was over 2 hours ago, and nobody has told its result. The service acts.
    NoResult,
    /// It was signed, and no scan has come back 3 hours after its start. The service acts.
    NoScanbacks,
}

/// Before this, nothing is late about an order.
const FIRST: Duration = Duration::hours(24);

/// No zone is farther ahead of UTC.
const FARTHEST_ZONE: Duration = Duration::hours(14);

impl Attention {
    /// Every code, in the order of answers.
    pub const ALL: [Self; 6] = [
        Self::Unassigned,
        Self::Unconfirmed,
        Self::NoDocuments,
        Self::NotFetched,
        Self::NoResult,
        Self::NoScanbacks,
    ];

    /// The statuses of orders about which nothing is late. `SIGNED` is late for its scans only, and `ON_HOLD` for its
    /// preparation only.
    pub const NEVER: [OrderStatus; 3] =
        [OrderStatus::DID_NOT_SIGN, OrderStatus::COMPLETED, OrderStatus::CANCELLED];

    /// Returns the code, in answers, filters and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unassigned => "unassigned",
            Self::Unconfirmed => "unconfirmed",
            Self::NoDocuments => "no_documents",
            Self::NotFetched => "not_fetched",
            Self::NoResult => "no_result",
            Self::NoScanbacks => "no_scanbacks",
        }
    }

    /// Returns what is late about an order at `now`.
    pub fn of(stored: &StoredOrder, counts: DocumentCounts, now: OffsetDateTime) -> Vec<Self> {
        Self::ALL.into_iter().filter(|code| code.holds(stored, counts, now)).collect()
    }

    fn holds(self, stored: &StoredOrder, counts: DocumentCounts, now: OffsetDateTime) -> bool {
        let StoredOrder { order, status, notary_id, notary, created_at, .. } = stored;
        let (starts, ends) = (order.appointment.starts(), order.appointment.ends());
        let is_open = *status != OrderStatus::SIGNED && !Self::NEVER.contains(status);
        let is_on_hold = *status == OrderStatus::ON_HOLD;
        // An order that is entered after the fact needs no preparation, nor does one whose appointment has passed on
        // hold.
        let is_prepared = is_open && *created_at < ends && !(is_on_hold && now >= ends);
        let begins_within = |limit| starts - now < limit;
        let has_notary = notary_id.is_some() || notary.is_some();
        match self {
            Self::Unassigned => is_prepared && !has_notary && begins_within(FIRST),
            Self::Unconfirmed => {
                let is_confirmed = *status == OrderStatus::CONFIRMED;
                is_prepared && has_notary && !is_confirmed && begins_within(Duration::hours(4))
            }
            Self::NoDocuments => {
                let needs_documents = !order.signing.ron_signing && counts.in_force() == 0;
                is_prepared && needs_documents && begins_within(Duration::hours(2))
            }
            Self::NotFetched => {
                is_prepared && counts.unfetched > 0 && begins_within(Duration::hours(1))
            }
            Self::NoResult => is_open && !is_on_hold && now - ends >= Duration::hours(2),
            Self::NoScanbacks => {
                let is_signed = *status == OrderStatus::SIGNED;
                let needs_scans = order.signing.scanbacks_required && counts.signed == 0;
                is_signed && needs_scans && now - starts >= Duration::hours(3)
            }
        }
    }

    /// Returns the last date in its zone of an order about which something may be late at `now`.
    pub fn last_date(now: OffsetDateTime) -> Date {
        now.saturating_add(FIRST + FARTHEST_ZONE).date()
    }
}

/// The codes that a list is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttentionFilter {
    /// An order has one of them.
    pub codes: Vec<Attention>,
    /// At this instant.
    pub now: OffsetDateTime,
}

impl AttentionFilter {
    /// Returns whether an order that is not signed can have one of the codes.
    pub fn asks_for_open(&self) -> bool {
        self.codes.iter().any(|code| *code != Attention::NoScanbacks)
    }

    /// Returns whether a signed order can have one of the codes.
    pub fn asks_for_signed(&self) -> bool {
        self.codes.contains(&Attention::NoScanbacks)
    }

    /// Returns whether an order has one of the codes.
    pub fn matches(&self, stored: &StoredOrder, counts: DocumentCounts) -> bool {
        self.codes.iter().any(|code| code.holds(stored, counts, self.now))
    }
}

/// Reads codes separated by commas; `any` is all of them.
///
/// # Errors
/// A code is none.
pub fn read_attention(sent: &str) -> Result<Vec<Attention>, Fault> {
    let mut found = Vec::new();
    for name in sent.split(',').map(str::trim) {
        let is_named = |code: &Attention| name == "any" || code.as_str() == name;
        let before = found.len();
        found.extend(Attention::ALL.into_iter().filter(is_named));
        if found.len() == before {
            let codes = Attention::ALL.map(Attention::as_str).join(", ");
            let detail = format!("must be any, or some of these, separated by commas: {codes}");
            return Err((ViolationCode::NotAllowed, detail.into()));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use time::macros::datetime;

    use super::*;
    use crate::{
        order::{Notary, Order, OrderRequest},
        test_support::{minimal_request, stored_order},
    };

    /// The start of the appointment of the sample: 14:30 in Chicago.
    const STARTS: OffsetDateTime = datetime!(2026-12-01 20:30 UTC);
    const CREATED: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    fn order(change: impl FnOnce(&mut Value)) -> Box<Order> {
        let mut request = minimal_request();
        change(&mut request["signingDetailsFormData"]);
        serde_json::from_value::<OrderRequest>(request).unwrap().parse().unwrap().order
    }

    /// An order in a status, with or without a notary.
    fn in_status(status: &str, has_notary: bool) -> StoredOrder {
        StoredOrder {
            status: OrderStatus::named(status.to_owned()).unwrap(),
            notary_id: has_notary.then_some(7),
            ..stored_order(CREATED)
        }
    }

    fn counts(documents: usize, unfetched: usize, signed: usize) -> DocumentCounts {
        DocumentCounts { documents, fetched: documents - unfetched, unfetched, signed }
    }

    /// Checks from when on a code holds.
    fn begins(stored: &StoredOrder, counts: DocumentCounts, code: Attention, at: OffsetDateTime) {
        let has = |now| Attention::of(stored, counts, now).contains(&code);
        assert!(has(at) && !has(at - Duration::MICROSECOND), "{code:?}");
        assert!(has(at + Duration::weeks(52)), "{code:?} ends");
    }

    fn never(stored: &StoredOrder, counts: DocumentCounts, code: Attention) {
        for now in [STARTS - Duration::MINUTE, STARTS + Duration::DAY] {
            assert!(!Attention::of(stored, counts, now).contains(&code), "{code:?}");
        }
    }

    const TICK: Duration = Duration::MICROSECOND;

    #[test]
    fn order_without_a_notary_is_late_less_than_a_day_before() {
        let papers = counts(1, 0, 0);
        let at = STARTS - Duration::hours(24) + TICK;
        begins(&in_status("NEW", false), papers, Attention::Unassigned, at);
        never(&in_status("NEW", true), papers, Attention::Unassigned);
        let notary = Notary { name: "Pat Quimby".to_owned(), phone: None, email: None };
        let named = StoredOrder { notary: Some(notary), ..in_status("NEW", false) };
        never(&named, papers, Attention::Unassigned);
    }

    #[test]
    fn unconfirmed_order_is_late_less_than_four_hours_before() {
        let papers = counts(1, 0, 0);
        let at = STARTS - Duration::hours(4) + TICK;
        begins(&in_status("ASSIGNED", true), papers, Attention::Unconfirmed, at);
        never(&in_status("CONFIRMED", true), papers, Attention::Unconfirmed);
        never(&in_status("NEW", false), papers, Attention::Unconfirmed);
    }

    #[test]
    fn order_without_documents_is_late_less_than_two_hours_before() {
        let at = STARTS - Duration::hours(2) + TICK;
        begins(&in_status("CONFIRMED", true), counts(0, 0, 0), Attention::NoDocuments, at);
        never(&in_status("CONFIRMED", true), counts(1, 1, 0), Attention::NoDocuments);
        // The one that is left is replaced, and its replacement is withdrawn.
        let replaced = DocumentCounts { fetched: 0, ..counts(1, 0, 0) };
        begins(&in_status("CONFIRMED", true), replaced, Attention::NoDocuments, at);
        let online = order(|details| details["ronSigning"] = json!(true));
        let online = StoredOrder { order: online, ..in_status("CONFIRMED", true) };
        never(&online, counts(0, 0, 0), Attention::NoDocuments);
    }

    #[test]
    fn unfetched_document_is_late_less_than_an_hour_before() {
        let at = STARTS - Duration::hours(1) + TICK;
        begins(&in_status("CONFIRMED", true), counts(3, 1, 0), Attention::NotFetched, at);
        // The replaced one was not fetched.
        let papers = DocumentCounts { fetched: 1, ..counts(2, 0, 0) };
        never(&in_status("CONFIRMED", true), papers, Attention::NotFetched);
    }

    #[test]
    fn order_without_a_result_is_late_two_hours_after_its_end() {
        let papers = counts(1, 0, 0);
        let code = Attention::NoResult;
        begins(&in_status("CONFIRMED", true), papers, code, STARTS + Duration::hours(2));
        begins(&in_status("en route", true), papers, code, STARTS + Duration::hours(2));
        let range = order(|details| {
            details["signingTimeType"] = json!("between");
            details["startTime"] = json!("14:30");
            details["endTime"] = json!("16:30");
        });
        let range = StoredOrder { order: range, ..in_status("CONFIRMED", true) };
        begins(&range, papers, code, range.order.appointment.ends() + Duration::hours(2));
        assert_eq!(range.order.appointment.ends(), STARTS + Duration::hours(2));
        for status in ["SIGNED", "DID_NOT_SIGN", "COMPLETED", "CANCELLED", "ON_HOLD"] {
            never(&in_status(status, true), papers, code);
        }
    }

    #[test]
    fn signed_order_without_scans_is_late_three_hours_after_its_start() {
        let scanned = || order(|details| details["scanbacksRequired"] = json!(true));
        let of = |status| StoredOrder { order: scanned(), ..in_status(status, true) };
        let code = Attention::NoScanbacks;
        begins(&of("SIGNED"), counts(1, 0, 0), code, STARTS + Duration::hours(3));
        never(&of("SIGNED"), counts(1, 0, 1), code);
        never(&of("CONFIRMED"), counts(1, 0, 0), code);
        never(&of("COMPLETED"), counts(1, 0, 0), code);
        never(&in_status("SIGNED", true), counts(1, 0, 0), code);
    }

    #[test]
    fn any_time_appointment_is_from_eight_to_the_end_of_its_day() {
        let day = order(|details| details["signingTimeType"] = json!("anytime"));
        let day = StoredOrder { order: day, ..in_status("NEW", false) };
        let papers = counts(0, 0, 0);
        let starts = datetime!(2026-12-01 14:00 UTC);
        begins(&day, papers, Attention::Unassigned, starts - Duration::hours(24) + TICK);
        begins(&day, papers, Attention::NoDocuments, starts - Duration::hours(2) + TICK);
        begins(&day, papers, Attention::NoResult, datetime!(2026-12-02 08:00 UTC));
    }

    #[test]
    fn order_entered_after_the_fact_lacks_its_result_alone() {
        let after = |created_at| StoredOrder { created_at, ..in_status("NEW", false) };
        let now = STARTS + Duration::hours(5);
        let codes = |created_at| Attention::of(&after(created_at), counts(0, 0, 0), now);
        assert_eq!(codes(STARTS), [Attention::NoResult]);
        let before = [Attention::Unassigned, Attention::NoDocuments, Attention::NoResult];
        assert_eq!(codes(STARTS - TICK), before);
    }

    #[test]
    fn nothing_is_late_about_settled_orders() {
        for status in Attention::NEVER {
            let order = in_status(status.as_str(), false);
            for now in [STARTS - Duration::MINUTE, STARTS + Duration::weeks(9)] {
                assert_eq!(Attention::of(&order, counts(2, 2, 0), now), []);
            }
        }
    }

    /// It is not late any more once its appointment has passed.
    #[test]
    fn order_on_hold_is_late_for_its_preparation_alone() {
        let held = in_status("ON_HOLD", false);
        let codes = |now| Attention::of(&held, counts(1, 1, 0), now);
        assert_eq!(codes(STARTS - Duration::hours(24)), []);
        let late = [Attention::Unassigned, Attention::NotFetched];
        assert_eq!(codes(STARTS - Duration::hours(2)), late[..1]);
        assert_eq!(codes(STARTS - TICK), late);
        assert_eq!(codes(STARTS), []);
        assert_eq!(codes(STARTS + Duration::weeks(1)), []);
    }

    #[test]
    fn filter_tells_the_statuses_that_its_codes_need() {
        for code in Attention::ALL {
            let filter = AttentionFilter { codes: vec![code], now: STARTS + Duration::DAY };
            for (status, is_asked) in
                [("SIGNED", filter.asks_for_signed()), ("NEW", filter.asks_for_open())]
            {
                let order = order(|details| details["scanbacksRequired"] = json!(true));
                let stored =
                    StoredOrder { order, ..in_status(status, code == Attention::Unconfirmed) };
                let number = usize::from(code != Attention::NoDocuments);
                let papers = counts(number, number, 0);
                assert_eq!(filter.matches(&stored, papers), is_asked, "{code:?} {status}");
            }
        }
    }

    #[test]
    fn last_date_covers_every_zone() {
        // 13:00 on the second in Kiritimati.
        let now = datetime!(2026-12-01 00:00 UTC);
        assert_eq!(Attention::last_date(now), datetime!(2026-12-02 00:00 UTC).date());
        assert_eq!(
            Attention::last_date(now + Duration::hours(10)),
            datetime!(2026-12-03 00:00 UTC).date()
        );
    }

    #[test]
    fn codes_are_read_by_their_names() {
        for sent in ["any", "any,unassigned"] {
            assert_eq!(read_attention(sent).unwrap(), Attention::ALL);
        }
        let codes = read_attention("no_result, unassigned,no_result").unwrap();
        assert_eq!(codes, [Attention::Unassigned, Attention::NoResult]);
        for sent in ["", "late", "Unassigned", "no_result,"] {
            assert_eq!(read_attention(sent).unwrap_err().0, ViolationCode::NotAllowed, "{sent}");
        }
    }
}
