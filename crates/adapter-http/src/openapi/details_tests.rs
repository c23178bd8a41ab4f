//! Checks the schemas of the details that clients read.

use std::collections::BTreeSet;

use contract_tests::samples::{maximal_request, minimal_request};
use domain::order::OrderRequest;
use serde_json::{Value, json};

use super::{
    code_tests::properties,
    tests::{at, faults, strict_validator, validator},
};

/// The schemas of the details of an order as clients read them, each with that of the request.
const READS: [(&str, &str); 6] = [
    ("OrderDetails", "OrderRequest"),
    ("SigningContacts", "SigningContactsRequest"),
    ("Contact", "ContactRequest"),
    ("SigningDetails", "SigningDetailsRequest"),
    ("InvoiceRecipient", "InvoiceRecipientRequest"),
    ("RequestedBy", "RequestedByRequest"),
];

#[test]
fn details_of_a_read_have_the_fields_of_requests_without_their_rules() {
    for (read, request) in READS {
        let schema = &at("/components/schemas")[read];
        for rule in ["allOf", "if", "then", "else", "additionalProperties"] {
            assert!(schema.get(rule).is_none(), "{read} {rule}");
        }
        let names = |schema| properties(schema).keys().cloned().collect::<BTreeSet<_>>();
        let mut expected = names(request);
        if request == "OrderRequest" {
            expected.remove("signingServiceId");
        }
        assert_eq!(names(read), expected);
        for (name, property) in properties(read) {
            for rule in ["pattern", "default", "multipleOf", "oneOf"] {
                assert!(property.get(rule).is_none(), "{read}/{name} {rule}");
            }
            assert!(!validator(property).is_valid(&Value::Null), "{read}/{name} is never null");
            let reference = property["$ref"].as_str().unwrap_or_default();
            assert!(!reference.ends_with("Request"), "{read}/{name}");
        }
    }
    let validator = strict_validator(&json!({ "$ref": "#/components/schemas/OrderDetails" }));
    for request in [minimal_request(), maximal_request()] {
        let request: OrderRequest = serde_json::from_value(request).unwrap();
        let details = OrderRequest::of(&request.parse().unwrap().order);
        assert_eq!(faults(&validator, &details), [""; 0]);
    }
}
