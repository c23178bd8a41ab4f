//! The fields in which two versions of an order differ, and their values before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Order, OrderRequest};

conceal!(OldValues);

/// Most bytes of the pointers and old values of an entry of the history, as JSON: a read of an order has many
/// entries. Long instructions do not fit.
pub const MAX_OLD_VALUES: usize = 4 * 1024;

/// Values of changed fields before a change, by their JSON Pointers: as a read showed them, and null of an empty
/// field. A changed field without one had a value that is too long to keep. Its JSON is part of the stored format.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldValues(BTreeMap<String, Value>);

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

    /// Returns the values of fields that an amendment changes: the shortest ones, up to a size.
    pub fn old_values(&self, changed: &[String]) -> OldValues {
        let mut fields = fields(self);
        let sized = |pointer: &String| {
            let value = fields.remove(pointer).unwrap_or_default();
            (pointer.len() + value.to_string().len(), pointer.clone(), value)
        };
        let mut values: Vec<_> = changed.iter().map(sized).collect();
        values.sort_by_key(|(size, ..)| *size);
        let mut left = MAX_OLD_VALUES;
        let fitting = values.into_iter().map_while(|(size, pointer, value)| {
            left = left.checked_sub(size)?;
            Some((pointer, value))
        });
        OldValues(fitting.collect())
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

    /// Returns the old values, without what most pointers begin with.
    fn old_values(before: &Order, after: &Order) -> Value {
        let values = before.old_values(&before.fields_changed_by(after)).0.into_iter();
        let short = |pointer: String| pointer.replace("/signingDetailsFormData", "");
        Value::Object(values.map(|(pointer, value)| (short(pointer), value)).collect())
    }

    #[test]
    fn old_values_are_those_that_a_read_showed() {
        let filled = |request: &mut Value| {
            let details = &mut request["signingDetailsFormData"];
            details["invoiceFee"] = json!(150.25);
            details["loanOfficer"] = json!({ "contact_name": " Ann " });
        };
        let before = order(filled);
        for (name, value, expected) in [
            ("city", json!("Austin"), json!({ "/city": "Dallas", "/signingCity": "Dallas" })),
            ("lender", json!("A bank"), json!({ "/lender": null })),
            ("invoiceFee", json!(0), json!({ "/invoiceFee": 150.25 })),
            ("invoiceFee", Value::Null, json!({ "/invoiceFee": 150.25 })),
            ("ronSigning", json!(true), json!({ "/ronSigning": false })),
            ("loanOfficer", Value::Null, json!({ "/loanOfficer/contact_name": "Ann" })),
            (
                "specificTime",
                json!("15:00"),
                json!({ "/specificTime": "14:30", "/utcTimeDate": "2026-12-01T20:30:00Z" }),
            ),
        ] {
            let after = order(|request| {
                filled(request);
                request["signingDetailsFormData"][name] = value.clone();
            });
            assert_eq!(old_values(&before, &after), expected, "{name}");
        }
    }

    /// Short values remain beside one that is too long.
    #[test]
    fn old_values_have_a_greatest_size() {
        let after = order(|request| request["signingDetailsFormData"]["city"] = json!("Austin"));
        let members = "/signingDetailsFormData/city'Dallas'/signingDetailsFormData/signingCity'Dallas'\
            /signingDetailsFormData/specialInstructions''";
        let fitting = MAX_OLD_VALUES - members.len();
        for (length, is_kept) in [(1, true), (fitting, true), (fitting + 1, false), (5_000, false)]
        {
            let before = order(|request| {
                let details = &mut request["signingDetailsFormData"];
                details["specialInstructions"] = json!("x".repeat(length));
            });
            let values = old_values(&before, &after);
            assert_eq!(values["/signingCity"], "Dallas", "{length}");
            let kept = values.get("/specialInstructions").map(|text| text.as_str().unwrap().len());
            assert_eq!(kept, is_kept.then_some(length));
        }
    }

    #[test]
    fn old_values_are_read_as_they_were_stored_and_not_logged() {
        let values = order(|_| ()).old_values(&["/signingDetailsFormData/city".to_owned()]);
        assert_eq!(format!("{values:?}"), "OldValues(…)");
        let stored = serde_json::to_string(&values).unwrap();
        assert_eq!(stored, r#"{"/signingDetailsFormData/city":"Dallas"}"#);
        assert_eq!(serde_json::from_str::<OldValues>(&stored).unwrap(), values);
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
