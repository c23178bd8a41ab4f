use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use super::*;
use crate::order::OrderRequest;

/// One golden file: a request, and what a database stores of its order. Files of released
/// versions never change. A new optional field extends the file of the full order.
struct Golden(Value);

const GOLDEN: [&str; 3] = [
    include_str!("../../golden/order-v1-minimal.json"),
    include_str!("../../golden/order-v1-anytime.json"),
    include_str!("../../golden/order-v1-full.json"),
];

impl Golden {
    fn all() -> impl Iterator<Item = Self> {
        GOLDEN.iter().map(|text| Self(serde_json::from_str(text).unwrap()))
    }

    fn full() -> Self {
        Self(serde_json::from_str(GOLDEN[2]).unwrap())
    }

    fn request(&self) -> OrderRequest {
        serde_json::from_value(self.0["request"].clone()).unwrap()
    }

    fn order(&self) -> Order {
        *self.request().parse().unwrap().order
    }

    fn record(&self) -> OrderColumns {
        let columns = &self.0["columns"];
        let instant = |name: &str| {
            columns[name].as_str().map(|text| OffsetDateTime::parse(text, &Rfc3339).unwrap())
        };
        OrderColumns {
            signing_service_id: columns["signing_service_id"].as_i64().unwrap(),
            file_number: columns["file_number"].as_str().unwrap().to_owned(),
            starts_at: instant("starts_at"),
            ends_at: instant("ends_at"),
            details: self.0["details"].to_string(),
        }
    }
}

/// Returns the full record with one member of `details` changed.
fn changed(pointer: &str, value: Value) -> Result<Order, UnreadableOrder> {
    let mut golden = Golden::full();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    golden.0["details"].pointer_mut(parent).unwrap()[name] = value;
    golden.record().into_order()
}

#[test]
fn golden_records_are_read() {
    for golden in Golden::all() {
        assert!(golden.record().into_order() == Ok(golden.order()), "{}", golden.0);
    }
}

#[test]
fn records_are_written_as_the_golden_files_show() {
    for golden in Golden::all() {
        let (written, expected) = (OrderColumns::of(&golden.order()).unwrap(), golden.record());
        let json = |record: &OrderColumns| serde_json::from_str::<Value>(&record.details).unwrap();
        assert_eq!(json(&written), json(&expected));
        let details = String::new();
        assert!(
            OrderColumns { details: details.clone(), ..written }
                == OrderColumns { details, ..expected }
        );
    }
}

#[test]
fn unknown_members_are_ignored() {
    assert!(changed("/new_member", json!("text")) == Ok(Golden::full().order()));
}

#[test]
fn trace_of_the_request_is_stored() {
    let trace = TraceContext { traceparent: "00-1-2-01".to_owned(), tracestate: None };
    for trace in [trace.clone(), TraceContext { tracestate: Some("a=b".to_owned()), ..trace }] {
        let order = Order { trace: Some(trace), ..Golden::full().order() };
        let record = OrderColumns::of(&order).unwrap();
        assert!(record.details.contains(r#""trace":{"parent":"00-1-2-01""#), "{}", record.details);
        assert!(record.into_order() == Ok(order));
    }
}

#[test]
fn missing_or_wrong_required_members_are_errors() {
    let minimal = || Golden::all().next().unwrap();
    for name in minimal().0["details"].as_object().unwrap().keys() {
        let mut golden = minimal();
        golden.0["details"].as_object_mut().unwrap().remove(name);
        assert!(golden.record().into_order().is_err(), "without {name}");
    }
    for (pointer, value) in [
        ("/v", json!(2)),
        ("/date", json!("2026-11-31")),
        ("/zone", json!("America/Nowhere")),
        ("/from", json!("25:00")),
        ("/at", json!("12:00")),
        ("/same", json!("yes")),
        ("/document_delivery", json!(7)),
        ("/invoice/fee_cents", json!(-1)),
        ("/property/zip", json!(null)),
    ] {
        assert!(changed(pointer, value).is_err(), "{pointer}");
    }
    let record = Golden::full().record();
    for unreadable in [
        OrderColumns { starts_at: None, ..record.clone() },
        OrderColumns { ends_at: None, ..record.clone() },
        OrderColumns { file_number: String::new(), ..record.clone() },
        OrderColumns { details: "{".to_owned(), ..record },
    ] {
        assert!(unreadable.into_order().is_err());
    }
}

#[test]
fn errors_show_no_value_of_the_record() {
    for error in [changed("/same", json!("Jane Doe")), changed("/date", json!("Jane Doe"))] {
        let text = error.map(drop).unwrap_err().to_string();
        assert!(!text.contains("Jane"), "{text}");
    }
}

#[test]
fn orders_stay_readable_under_stricter_rules() {
    assert!(changed("/zone", json!("Factory")).is_ok());
    let record = OrderColumns { file_number: "F\u{200b}1".to_owned(), ..Golden::full().record() };
    assert_eq!(record.into_order().map(|order| order.file_number.as_str().len()), Ok(5));
}

#[test]
fn every_member_with_an_address_is_listed() {
    fn addresses(path: &[&str], value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    addresses(&[path, &[name]].concat(), value, found);
                }
            }
            Value::String(text) if text.contains('@') => found.push(path.join(".")),
            _ => {}
        }
    }
    let mut found = Vec::new();
    addresses(&[], &Golden::full().0["details"], &mut found);
    found.sort();
    let mut listed = ADDRESSES.map(|path| path.join("."));
    listed.sort();
    assert_eq!(found, listed);
}

/// An older instance reads the file number in the form of the column.
#[test]
fn file_number_is_kept_as_it_was_sent() {
    let (composed, decomposed) = ("Jos\u{e9}", "Jose\u{301}");
    let mut order = Golden::full().order();
    order.file_number = FileNumber::new(decomposed.to_owned()).unwrap();
    let record = OrderColumns::of(&order).unwrap();
    assert_eq!(record.file_number, composed);
    assert!(record.clone().into_order() == Ok(order));
    // Another system has changed the column.
    let changed = OrderColumns { file_number: "F-2".to_owned(), ..record };
    assert_eq!(changed.into_order().unwrap().file_number.as_str(), "F-2");
    assert!(!OrderColumns::of(&Golden::full().order()).unwrap().details.contains("number"));
}
