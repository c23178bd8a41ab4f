//! The fields in which two versions of an order differ.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Order, OrderRequest};

impl Order {
    /// Returns the JSON Pointers of the fields that differ in the `details` of a read, sorted. Objects
    /// are compared member by member.
    pub fn fields_changed_by(&self, amended: &Self) -> Vec<String> {
        let (mut before, after) = (fields(self), fields(amended));
        let changed = after.into_iter().filter_map(|(pointer, value)| {
            (before.remove(&pointer) != Some(value)).then_some(pointer)
        });
        let mut changed: Vec<_> = changed.collect();
        changed.extend(before.into_keys());
        changed.sort_unstable();
        changed
    }

    /// Returns whether an amendment moves the appointment: to another time or zone, or to another place.
    pub fn is_moved_by(&self, amended: &Self) -> bool {
        self.appointment != amended.appointment
            || self.signing.signing_location() != amended.signing.signing_location()
    }
}

fn fields(order: &Order) -> BTreeMap<String, Value> {
    let mut fields = BTreeMap::new();
    // Texts, numbers and booleans become JSON without an error.
    let details = serde_json::to_value(OrderRequest::of(order)).unwrap_or_default();
    add(&mut fields, "", details);
    fields
}

/// Adds the leaves of a value. The names of the API need no escapes in pointers.
fn add(fields: &mut BTreeMap<String, Value>, pointer: &str, value: Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                add(fields, &format!("{pointer}/{name}"), value);
            }
        }
        leaf => drop(fields.insert(pointer.to_owned(), leaf)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_support::minimal_request;

    fn order(change: impl Fn(&mut Value)) -> Order {
        let mut request = minimal_request();
        change(&mut request);
        let request: OrderRequest = serde_json::from_value(request).unwrap();
        *request.parse().unwrap().order
    }

    #[test]
    fn appointment_moves_with_its_time_or_place_only() {
        let before = order(|_| ());
        for (name, value, moves) in [
            ("specificTime", json!("15:00"), true),
            ("signingDate", json!("2027-03-09"), true),
            ("signingTimeType", json!("anytime"), true),
            ("timeZoneId", json!("America/Denver"), true),
            ("city", json!("Austin"), true),
            ("lender", json!("A bank"), false),
            ("signerName", json!("Jane Roe"), false),
        ] {
            let after = order(|request| request["signingDetailsFormData"][name] = value.clone());
            assert_eq!(before.is_moved_by(&after), moves, "{name}");
        }
        // The same place, written otherwise.
        let same = order(|request| {
            let details = &mut request["signingDetailsFormData"];
            for (signing, property) in [
                ("signingAddress", "propertyAddress"),
                ("signingCity", "city"),
                ("signingState", "state"),
                ("signingZipcode", "zipcode"),
            ] {
                details[signing] = details[property].clone();
            }
            details["isPropertyAddressSame"] = json!(false);
        });
        assert!(!before.is_moved_by(&same));
    }

    #[test]
    fn changed_fields_are_those_that_a_read_shows_otherwise() {
        let details = "/signingDetailsFormData";
        let before = order(|_| ());
        for (name, value, changed) in [
            ("signerName", json!(" Jane\u{200b} Doe "), vec![]),
            ("language", json!("en"), vec![]),
            ("signingState", json!("Oregon"), vec![]),
            ("signerName", json!("Jane Roe"), vec!["/signerName"]),
            ("lender", json!("A bank"), vec!["/lender"]),
            ("specificTime", json!("15:00"), vec!["/specificTime", "utc"]),
            ("signingTimeType", json!("anytime"), vec!["/signingTimeType", "/specificTime", "utc"]),
            ("city", json!("Austin"), vec!["/city", "/signingCity"]),
            (
                "loanOfficer",
                json!({ "contact_name": "Ann", "contact_email": "ann@example.com" }),
                vec!["/loanOfficer/contact_email", "/loanOfficer/contact_name"],
            ),
        ] {
            let after = order(|request| request["signingDetailsFormData"][name] = value.clone());
            let expected: Vec<_> = changed
                .iter()
                .map(|field| match *field {
                    "utc" => "/utcTimeDate".to_owned(),
                    field => format!("{details}{field}"),
                })
                .collect();
            assert_eq!(before.fields_changed_by(&after), expected, "{name}");
            assert_eq!(after.fields_changed_by(&before), expected, "{name}");
        }
        let after = order(|request| {
            request["requestedBy"]["userId"] = json!(7);
            request["signingContactsFormData"]["clientCompanyId"] = json!(7);
        });
        let expected = ["/requestedBy/userId", "/signingContactsFormData/clientCompanyId"];
        assert_eq!(before.fields_changed_by(&after), expected);
    }
}
