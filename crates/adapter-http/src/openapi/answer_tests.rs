//! Checks the schemas of answers, which later versions may extend.

use std::collections::BTreeSet;

use contract_tests::samples::{maximal_request, minimal_request};
use domain::{
    access::AccessKind,
    api_key::Scope,
    order::{
        Actor, ChangeKind, OrderRequest, OrderStatus, attention::Attention, feed::OTHER_KINDS,
    },
    person::{PersonState, Role},
    webhook::{DELAYS, DisabledBy, EventType},
};
use serde_json::{Value, json};
use time::Duration;

use super::{
    code_tests::properties,
    tests::{at, faults, operations, strict_validator, validator},
};
use crate::{
    respond::problem::ProblemCode,
    webhooks::record::{DISABLED, ENABLED},
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
        let details = serde_json::to_value(details).unwrap();
        assert_eq!(faults(&validator, &details), [""; 0]);
    }
}

#[test]
fn guide_and_console_name_every_event() {
    let guide = include_str!("../../../../docs/webhooks.md");
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let is_event = |name: &&str| name.starts_with("order.") || name.starts_with("webhook.");
    let mut described: Vec<_> = rows.map(|(name, _)| name).filter(is_event).collect();
    let mut events = EventType::ALL.map(EventType::as_str);
    described.sort_unstable();
    events.sort_unstable();
    assert_eq!(described, events);
    let console = include_str!("../../assets/console/webhooks/webhooks.js");
    for event in EventType::OF_ORDERS.map(EventType::as_str) {
        assert!(
            console.contains(&format!("\"{event}\": \"")),
            "{event} has no words in the console"
        );
    }
}

/// One body for each event, and nothing that the document does not describe.
#[test]
fn guide_of_webhooks_has_each_body() {
    let guide = include_str!("../../../../docs/webhooks.md");
    let mut shown = BTreeSet::new();
    for block in guide.split("```json\n").skip(1).map(|it| it.split("```").next().unwrap()) {
        let body: Value = serde_json::from_str(block).unwrap();
        let event = body["type"].as_str().unwrap().to_owned();
        let post = &at("/webhooks")[&event]["post"]["requestBody"]["content"];
        let schema = &post["application/json"]["schema"];
        assert_eq!(faults(&strict_validator(schema), &body), [""; 0], "{event}");
        shown.insert(event);
    }
    assert_eq!(shown, EventType::ALL.map(|event| event.as_str().to_owned()).into());
}

#[test]
fn guide_of_webhooks_has_the_schedule() {
    let guide = include_str!("../../../../docs/webhooks.md");
    let shown = |delay: Duration| match (delay.whole_hours(), delay.whole_minutes()) {
        (0, 0) => format!("{} s", delay.whole_seconds()),
        (0, minutes) => format!("{minutes} min"),
        (hours, _) => format!("{hours} h"),
    };
    let row = format!("| {} | failed for good |", DELAYS.map(shown).join(" | "));
    assert!(guide.contains(&row), "{row}");
}

#[test]
fn guide_of_the_api_is_short() {
    let guide = include_str!("../../../../docs/api.md");
    assert!(guide.lines().count() < 500);
}

#[test]
fn guide_has_a_row_for_each_problem() {
    let guide = include_str!("../../../../docs/api.md");
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | `"));
    let rows = rows.filter(|(status, _)| status.parse::<u16>().is_ok());
    // A row may have several.
    let cells = rows.map(|(_, rest)| rest.split(" |").next().unwrap());
    let codes =
        cells.flat_map(|codes| codes.split(['`', ',', ' ']).filter(|code| !code.is_empty()));
    let codes: Vec<_> = codes.collect();
    let all: BTreeSet<_> = ProblemCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(codes.iter().copied().collect::<BTreeSet<_>>(), all);
    assert_eq!(codes.len(), all.len(), "a code has two rows");
}

/// The names of 0.1.0, which stand in one table.
#[test]
fn guide_names_every_operation_event_and_kind_in_one_table() {
    let guide = include_str!("../../../../docs/api.md");
    let names = guide.split("\n## Names\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let operations = operations()
        .into_iter()
        .filter(|(path, _)| path.contains("/api/order") && !path.starts_with("get "));
    let operations = operations.map(|(_, it)| it["operationId"].as_str().unwrap().to_owned());
    let kinds = &at("/components/schemas/OrderHistoryEntry/properties/kind/x-extensible-enum");
    let kinds = kinds.as_array().unwrap().iter().map(|kind| kind.as_str().unwrap().to_owned());
    let events = EventType::OF_ORDERS.map(|event| event.as_str().to_owned());
    for name in operations.chain(kinds).chain(events) {
        assert!(names.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn known_values_are_those_of_the_code_and_closed_in_requests_only() {
    let of_orders = EventType::OF_ORDERS.map(EventType::as_str);
    let events = [&of_orders[..], &[EventType::Test.as_str()]].concat();
    let actors = [Actor::Client, Actor::Service, Actor::Operator, Actor::Database];
    let kinds = [
        ChangeKind::Created,
        ChangeKind::Status,
        ChangeKind::Changed(vec![]),
        ChangeKind::SignedDocumentsAdded(vec![]),
        ChangeKind::DocumentsReplaced(vec![]),
        ChangeKind::Withdrawn(vec![]),
        ChangeKind::DocumentsErased,
    ]
    .map(|kind| kind.as_str());
    let reasons = [DisabledBy::Request, DisabledBy::Gone, DisabledBy::Failures];
    let mut accesses = AccessKind::ALL.to_vec();
    accesses.retain(|(kind, _)| !AccessKind::OF_OPERATORS.contains(kind));
    let accesses: Vec<_> = accesses.into_iter().map(|(_, name)| name).collect();
    let statuses = OrderStatus::USUAL.map(|status| status.as_str().to_owned());
    let codes: Vec<_> = ProblemCode::ALL.iter().map(|code| code.as_str()).collect();
    for (schemas, pointer, expected) in [
        ("Webhook NewWebhook", "events/items/x-extensible-enum", json!(of_orders)),
        ("Webhook NewWebhook", "status/x-extensible-enum", json!([ENABLED, DISABLED])),
        (
            "Webhook NewWebhook",
            "disabled_by/x-extensible-enum",
            json!(reasons.map(DisabledBy::as_str)),
        ),
        ("WebhookDelivery", "event/x-extensible-enum", json!(events)),
        ("OrderChange", "kind/x-extensible-enum", json!([&kinds[..], &OTHER_KINDS].concat())),
        (
            "OrderHistoryEntry OrderHistoryListEntry LastChange",
            "kind/x-extensible-enum",
            json!(kinds),
        ),
        (
            "Order OrderRecord ListedOrder",
            "attention/items/x-extensible-enum",
            json!(Attention::ALL.map(Attention::as_str)),
        ),
        (
            "OrderNote OrderNoteListEntry OrderNoteEventData NewestNote",
            "author/x-extensible-enum",
            json!(actors[..3].iter().map(|actor| actor.as_str()).collect::<Vec<_>>()),
        ),
        ("OrderAccess", "kind/x-extensible-enum", json!(accesses)),
        (
            "OrderAccess",
            "actor/x-extensible-enum",
            json!(actors[..3].iter().map(|actor| actor.as_str()).collect::<Vec<_>>()),
        ),
        (
            "OrderHistoryEntry LastChange",
            "actor/x-extensible-enum",
            json!(actors.map(Actor::as_str)),
        ),
        (
            "CreatedOrder OrderRecord Order OrderHistoryEntry OrderUpdate OrderEventData \
             OrderUpdateEventData OrderNoteEventData OrderChange",
            "order_status/x-extensible-enum",
            json!(statuses),
        ),
        ("OrderUpdateEventData", "previous_status/x-extensible-enum", json!(statuses)),
        ("Problem", "code/x-extensible-enum", json!(codes)),
        (
            "SigningDetails",
            "signingTimeType/x-extensible-enum",
            at("/components/schemas/SigningTimeType/enum").clone(),
        ),
        (
            "KeyTerms SideKey IssuedKey",
            "scopes/items/x-extensible-enum",
            json!(Scope::ALL.map(Scope::as_str)),
        ),
        (
            "SessionPerson InvitationOffer Person OwnPerson",
            "role/x-extensible-enum",
            json!([Role::Admin, Role::Member].map(Role::as_str)),
        ),
        (
            "Person OwnPerson",
            "state/x-extensible-enum",
            json!(
                [PersonState::Invited, PersonState::Active, PersonState::Disabled]
                    .map(PersonState::as_str)
            ),
        ),
    ] {
        for schema in schemas.split(' ') {
            let property = format!("/components/schemas/{schema}/properties/{pointer}");
            assert_eq!(*at(&property), expected, "{schema} {pointer}");
            let values = at(property.rsplit_once('/').unwrap().0);
            assert!(validator(values).is_valid(&json!("later")), "{schema} {pointer}");
        }
    }
    for (name, values) in
        [("WebhookEventType", json!(of_orders)), ("WebhookStatus", json!([ENABLED, DISABLED]))]
    {
        assert_eq!(at("/components/schemas")[name]["enum"], values);
    }
}
