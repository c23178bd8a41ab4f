//! Checks that the document says what the code does.

use std::collections::BTreeSet;

use actix_web::{http::Method, test::TestRequest};
use contract_tests::samples::{maximal_request, new_order, stored};
use domain::{
    document::{DocumentFault, DocumentLimits, MAX_DOCUMENTS_PER_ORDER},
    duplicate_window::DuplicateWindow,
    idempotency::MAX_KEY_CHARS,
    order::{
        Actor, MAX_NOTE, MAX_NOTES, MAX_OLD_VALUES, MAX_REASON, MAX_STATUS, Money, OrderId,
        OrderRequest,
        change_request::{
            CancelBody, CancelRequest, ChangeBody, ChangeRequest, NoteBody, NoteRequest,
        },
        default_language,
        feed::FeedCursor,
    },
    person::{InvitationFault, NoAdmin, PersonRefusal},
    ports::{LoginError, PasskeyFault},
    request::{Violation, ViolationCode},
    use_cases::{
        keys::manage_keys::KeyError,
        order_error::{OrderError, Rejection},
        people::sign_in::SignInError,
        webhooks::manage_webhooks::WebhooksError,
    },
    webhook::{
        ChangedOrder, EndpointId, ErasedFrom, EventChange, EventType, MAX_ENDPOINTS,
        endpoint_request::{MAX_DESCRIPTION, MAX_URL},
        erased_body, order_body, test_body,
    },
};
use serde_json::{Map, Value, json};
use time::Duration;

use super::{
    OpenApiSettings, PATH,
    tests::{DOCUMENT, at, examples, faults, operations, resolve, strict_validator, validator},
    units,
};
use crate::{
    admission::{
        preconditions::{nothing_to_match, without_versions},
        rate_limit::{BEGUN_SIGN_INS, FAILED_AUTHENTICATIONS, Policy},
        site::{cross_site, insecure_origin},
    },
    body::{self, json},
    form::{self, TEXT_PARTS},
    orders::{create_form, create_json::name_the_form},
    respond::{
        list::{DEFAULT_LIMIT, MAX_LIMIT},
        problem::{FieldProblem, Problem, ProblemCode},
    },
    routes,
    sessions::{key::keys_disabled, session::no_session},
    test_support::{NOW, Ports, body_of},
    webhooks::problems::replay_in_progress,
};

#[actix_web::test]
async fn paths_and_methods_are_those_that_the_service_answers() {
    let documented: BTreeSet<_> =
        at("/paths").as_object().unwrap().keys().map(|it| &**it).collect();
    let paths: BTreeSet<_> = routes::operations().iter().map(|(path, _)| *path).collect();
    assert_eq!(documented, paths);
    let methods = |path| -> BTreeSet<String> {
        let methods = at("/paths")[path].as_object().unwrap().keys().map(|it| it.to_uppercase());
        methods
            .flat_map(|it| if it == "GET" { vec![it, "HEAD".into()] } else { vec![it] })
            .collect()
    };
    let document = (PATH, BTreeSet::from(["GET".to_owned(), "HEAD".to_owned()]));
    for (path, expected) in paths.into_iter().map(|path| (path, methods(path))).chain([document]) {
        let url = path.replace(['{', '}'], "").replace("order_id", "7").replace("position", "0");
        let request = TestRequest::default().method(Method::TRACE).uri(&url);

        let answer = Ports::without_key().api().send(request).await;

        answer.problem(405, "method_not_allowed");
        let allowed = answer.header("allow").split(", ").map(str::to_owned);
        assert_eq!(allowed.collect::<BTreeSet<_>>(), expected, "{path}");
    }
}

/// The schemas of an order as clients send it, each with a JSON Pointer to where it stands.
const REQUESTS: [(&str, &str); 6] = [
    ("OrderRequest", ""),
    ("SigningContactsRequest", "/signingContactsFormData"),
    ("ContactRequest", "/signingContactsFormData/inHouseContact"),
    ("SigningDetailsRequest", "/signingDetailsFormData"),
    ("InvoiceRecipientRequest", "/signingDetailsFormData/invoiceOrderTo"),
    ("RequestedByRequest", "/requestedBy"),
];

/// Returns the properties of a schema.
pub(super) fn properties(schema: &str) -> &'static Map<String, Value> {
    at("/components/schemas")[schema]["properties"].as_object().unwrap()
}

#[test]
fn requests_have_the_fields_that_the_service_reads() {
    // Reading skips members that the service does not know.
    let read: OrderRequest = serde_json::from_value(maximal_request()).unwrap();
    let read = serde_json::to_value(read).unwrap();
    for (schema, path) in REQUESTS {
        let read = read.pointer(path).unwrap().as_object().unwrap();
        let described: BTreeSet<_> = properties(schema).keys().collect();
        assert_eq!(described, read.keys().collect());
    }
    let parts = properties("OrderForm").keys().filter(|name| *name != "documents");
    let read = TEXT_PARTS.map(|(name, _)| name.to_owned());
    assert_eq!(parts.cloned().collect::<BTreeSet<_>>(), BTreeSet::from(read));
    let body = &at("/paths")[create_form::PATH]["post"]["requestBody"]["content"];
    for (name, media_type) in TEXT_PARTS {
        let encoding = &body["multipart/form-data"]["encoding"][name];
        assert_eq!(encoding["contentType"], media_type, "{name}");
    }
}

#[test]
fn required_fields_are_those_that_the_service_requires() {
    let sections = json!({
        "signingContactsFormData": {}, "signingDetailsFormData": {}, "requestedBy": {}
    });
    let required: BTreeSet<String> = [json!({}), sections]
        .map(|request| serde_json::from_value::<OrderRequest>(request).unwrap())
        .into_iter()
        .flat_map(|request| request.parse().err().unwrap())
        .map(|violation| violation.pointer.into_owned())
        .collect();
    let documented = REQUESTS.into_iter().flat_map(|(schema, path)| {
        let names = at("/components/schemas")[schema]["required"].as_array();
        let pointer = move |name: &Value| format!("{path}/{}", name.as_str().unwrap());
        names.into_iter().flatten().map(pointer)
    });
    assert_eq!(documented.collect::<BTreeSet<_>>(), required);
}

/// Texts of every kind that some fields accept and others do not, between bars.
const TEXTS: &str = "| |x|  Jane\tDoe| Jane |\u{a0}Zo\u{eb} |\u{a0} |John Doe\n|Zo\u{eb}\nDoe|\
    Ring.\r\n\tTwice.|Ring.\u{0}|Jane\u{7f}|Jane\u{200b} Doe|Jane\u{202e} Doe|Jane\u{2028} Doe|\
    Jane\u{e0041} Doe|\u{feff}|\u{639}\u{644}\u{6cc}\u{200c}\u{631}\u{636}\u{627}|\
    TX|tx |T1|Texas|75201|75201-1234|7\u{665}201|14:30|23:59 |24:00|9:30|\
    (+1) 555-010-0199, ext. 12| 5550100199#44\n|555010|555+0100199|555-010-0199 e5|\
    jane.o'doe+x@title.example.com|jane@example.com |a..b@example.com|jane@-example.com|\
    jane@[192.0.2.1]|2026-12-01T20:30:00Z|2026-12-01T20:30:00.1234567+0000|2026-12-01 20:30|en|at";

/// Fields that have rules beyond a text's own: which dates and zones exist, and which times a signing
/// needs. The service ignores `specificTime` and `utcTimeDate` in an order with a range of times.
const BEYOND_TEXT: [&str; 5] =
    ["signingDate", "signingTimeType", "timeZoneId", "startTime", "endTime"];

#[test]
fn texts_are_valid_if_and_only_if_the_service_accepts_them() {
    let full = maximal_request();
    let mut checked = 0;
    for (schema, path) in REQUESTS {
        for (name, property) in properties(schema) {
            if !resolve(property)["type"].to_string().contains("\"string\"") {
                continue;
            }
            let pointer = format!("{path}/{name}");
            let accepts = |text: &str| {
                let mut order = full.clone();
                *order.pointer_mut(&pointer).unwrap() = text.into();
                let request: OrderRequest = serde_json::from_value(order).unwrap();
                let violations = request.parse().err().unwrap_or_default();
                !violations.iter().any(|violation| violation.pointer == pointer)
            };
            let validator = validator(property);
            let max_length = resolve(property)["maxLength"].as_u64().unwrap_or(100);
            let lengths =
                [max_length, max_length + 1].map(|length| "x".repeat(length.try_into().unwrap()));
            for text in TEXTS.split('|').chain(lengths.iter().map(String::as_str)) {
                let (valid, accepted) = (validator.is_valid(&text.into()), accepts(text));
                if !BEYOND_TEXT.contains(&name.as_str()) {
                    assert!(!valid || accepted, "{pointer} rejects {text:?}");
                }
                // The service drops more characters than patterns can say.
                let is_ignored = ["specificTime", "utcTimeDate"].contains(&name.as_str());
                if text.trim() == text && text != "\u{feff}" && !is_ignored {
                    assert!(valid || !accepted, "{pointer} accepts {text:?}");
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 1_500, "{checked}");
    for (name, text, valid) in [
        ("signerPhone", " 5550100199#44\n", true),
        ("signerName", "\u{a0}Zo\u{eb} ", true),
        ("spouseName", "John Doe\n", true),
        ("specificTime", " 23:59", true),
        ("specificTime", "24:00", false),
    ] {
        let validator = validator(&properties("SigningDetailsRequest")[name]);
        assert_eq!(validator.is_valid(&text.into()), valid, "{name} {text:?}");
    }
}

/// A client that checks the pattern must be able to send every cursor that it gets.
#[test]
fn cursors_of_the_feed_are_valid_if_and_only_if_the_service_reads_them() {
    let parameters = at("/paths")["/api/order/changes"]["get"]["parameters"].as_array().unwrap();
    let after = parameters.iter().find(|it| it["name"] == "after").unwrap();
    let validator = validator(&after["schema"]);
    let last = FeedCursor { created: OrderId(i64::MAX), changed: i64::MAX, epoch: i64::MAX };
    let epochs = [FeedCursor::START, FeedCursor { epoch: 1_764_504_000_000, ..last }, last];
    let cursors = epochs.map(|cursor| cursor.to_string());
    let others = ["17-42", "17", "17-", "17-42-", "17-42-0", "17-42-07", "17-42-7-1", "017-42"];
    for text in cursors.iter().map(String::as_str).chain(others) {
        let is_read = text.parse::<FeedCursor>().is_ok();
        assert_eq!(validator.is_valid(&text.into()), is_read, "{text}");
    }
    assert!(validator.is_valid(&"now".into()));
}

#[test]
fn changes_are_valid_if_and_only_if_the_service_accepts_them() {
    let schema = |name: &str| validator(&json!({ "$ref": format!("#/components/schemas/{name}") }));
    let (change, cancellation) = (schema("OrderUpdate"), schema("OrderCancellation"));
    let note = schema("NewOrderNote");
    let lengths = [MAX_STATUS, MAX_REASON, MAX_NOTE].map(|length| [length, length + 1]).concat();
    let lengths = lengths.into_iter().map(|length| json!("x".repeat(length)));
    let others = [json!(null), json!(0), json!(-1), json!(7), json!(7.0), json!(7.5), json!(true)];
    let texts = TEXTS.split('|').map(Value::from);
    for value in texts.chain(lengths).chain(others).chain([json!(i64::MAX), json!(1e19)]) {
        for name in ["order_status", "notary_id", "reason"] {
            let body = json!({ name: value });
            let changes: ChangeBody = serde_json::from_value(body.clone()).unwrap();
            let cancels: CancelBody = serde_json::from_value(body.clone()).unwrap();
            let accepted =
                (ChangeRequest::parse(changes).is_ok(), CancelRequest::parse(cancels).is_ok());
            assert_eq!((change.is_valid(&body), cancellation.is_valid(&body)), accepted, "{body}");
        }
        let body = json!({ "text": value });
        let sent: NoteBody = serde_json::from_value(body.clone()).unwrap();
        assert_eq!(note.is_valid(&body), NoteRequest::parse(sent).is_ok(), "{body}");
    }
    for notary in [
        json!(null),
        json!({}),
        json!("Pat"),
        json!({ "name": " " }),
        json!({ "name": "é".repeat(201) }),
        json!({ "name": "Pat", "phone": null, "email": " " }),
        json!({ "name": "Pat", "phone": "+1 555 010 0142", "email": "pat@example.com" }),
        json!({ "name": "Pat", "phone": "555" }),
        json!({ "name": "Pat", "email": "pat" }),
        json!({ "name": "Pat", "mobile": "+1 555 010 0142" }),
    ] {
        let body = json!({ "notary": notary });
        let sent: ChangeBody = serde_json::from_value(body.clone()).unwrap();
        assert_eq!(change.is_valid(&body), ChangeRequest::parse(sent).is_ok(), "{body}");
    }
    assert!(change.is_valid(&json!({})) && ChangeRequest::parse(ChangeBody::default()).is_ok());
    assert!(
        cancellation.is_valid(&json!({})) && CancelRequest::parse(CancelBody::default()).is_ok()
    );
}

#[test]
fn composed_schemas_have_the_properties_of_their_parts() {
    let plain = |schema: &str, except: &[&str]| -> Map<String, Value> {
        let mut properties = properties(schema).clone();
        for name in except {
            properties.remove(*name).unwrap_or_else(|| panic!("{schema} {name}"));
        }
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            property.remove("example");
            // A part of a form has no null.
            let text = property.get("type").is_some_and(|kinds| kinds[1] == "null");
            if schema.contains("Order") && text {
                property["type"] = property["type"][0].take();
            }
        }
        properties
    };
    for (whole, own, part, left_out) in [
        (
            "Order",
            &[
                "details",
                "documents",
                "documents_uploaded",
                "history",
                "notes",
                "signed_documents",
                "signed_documents_uploaded",
            ][..],
            "OrderRecord",
            &["documents_uploaded", "signed_documents_uploaded"][..],
        ),
        ("ListedOrder", &["last_change", "newest_note"], "OrderRecord", &[]),
        (
            "OrderRecord",
            &[
                "attention",
                "documents_fetched",
                "documents_to_fetch",
                "scanbacks_required",
                "signing_type",
                "documents_uploaded",
                "notary",
                "client_name",
                "signing_service_name",
                "signed_documents_uploaded",
                "appointment",
                "calendar_uid",
                "signing_city",
                "signing_state",
            ],
            "CreatedOrder",
            &["documents_uploaded"],
        ),
        ("OrderForm", &["documents"], "OrderRequest", &[]),
        ("NewWebhook", &["secret"], "Webhook", &[]),
    ] {
        assert_eq!(plain(whole, own), plain(part, left_out), "{whole}");
    }
    let names = |schema: &str| properties(schema).keys().cloned().collect::<BTreeSet<_>>();
    let mut of_change = names("OrderUpdateEventData");
    assert!(of_change.remove("previous_status") && of_change.remove("notary_id"));
    assert_eq!(of_change, names("OrderEventData"));
    let mut of_fields = names("ChangedFieldsEventData");
    assert!(of_fields.remove("changed"));
    assert_eq!(of_fields, of_change);
    let mut of_note = names("OrderNoteEventData");
    assert!(of_note.remove("author"));
    assert_eq!(of_note, names("OrderEventData"));
    assert_eq!(properties("DocumentsForm")["documents"], properties("OrderForm")["documents"]);
    for name in ["AddedDocuments", "AddedSignedDocuments"] {
        assert_eq!(properties(name)["order_id"], properties("Order")["order_id"]);
    }
    let mut of_documents = names("DocumentsEventData");
    assert!(of_documents.remove("documents") && of_documents.remove("actor"));
    assert_eq!(of_documents, names("OrderEventData"));
    let reads = &at("/paths")["/api/order/{order_id}/documents/{position}"]["get"]["parameters"];
    let position = reads.as_array().unwrap().iter().find(|it| it["name"] == "position").unwrap();
    for keyword in ["type", "format", "minimum", "maximum"] {
        let of_record = &properties("DocumentRecord")["position"][keyword];
        assert_eq!(position["schema"][keyword], *of_record, "{keyword}");
    }
}

#[test]
fn limits_names_and_defaults_are_those_of_the_code() {
    let in_request = DocumentLimits::default().max_count;
    let of_orders = EventType::OF_ORDERS.map(EventType::as_str);
    for (schemas, pointer, expected) in [
        ("DocumentsForm OrderForm SignedDocumentsForm", "documents/maxItems", json!(in_request)),
        ("WebhookRequest WebhookChange", "url/maxLength", json!(MAX_URL)),
        ("WebhookRequest WebhookChange", "description/maxLength", json!(MAX_DESCRIPTION)),
        ("WebhookRequest WebhookChange", "events/maxItems", json!(of_orders.len())),
        ("OrderUpdate", "order_status/maxLength", json!(MAX_STATUS)),
        ("OrderCancellation", "reason/maxLength", json!(MAX_REASON)),
        ("NewOrderNote", "text/maxLength", json!(MAX_NOTE)),
        ("DocumentsForm", "replaces/maximum", json!(MAX_DOCUMENTS_PER_ORDER - 1)),
    ] {
        for schema in schemas.split(' ') {
            let found = at(&format!("/components/schemas/{schema}/properties/{pointer}"));
            assert_eq!(*found, expected, "{schema} {pointer}");
        }
    }
    let language = format!("; `{}` by default.", default_language());
    let described = properties("SigningDetailsRequest")["language"]["description"].as_str();
    assert!(described.unwrap().ends_with(&language));
    #[expect(clippy::cast_precision_loss, reason = "the cents are far below 2^53")]
    let max_amount = Money::MAX.cents() as f64 / 100.0;
    for (name, property) in REQUESTS.iter().flat_map(|(schema, _)| properties(schema)) {
        match property["format"].as_str() {
            Some("int64") => assert_eq!(property["maximum"], i64::MAX, "{name}"),
            Some("double") => assert_eq!(property["maximum"], max_amount, "{name}"),
            _ => {}
        }
    }
    let limit = operations()
        .into_iter()
        .flat_map(|(_, operation)| operation["parameters"].as_array().into_iter().flatten())
        .filter(|parameter| parameter["name"] == "limit");
    for limit in limit.map(|parameter| &parameter["schema"]) {
        assert_eq!(
            (&limit["default"], &limit["maximum"]),
            (&DEFAULT_LIMIT.into(), &MAX_LIMIT.into())
        );
    }
    let text = DOCUMENT.to_string();
    for stated in [
        format!("The body is larger than {}.", units::size(json::MAX_BODY)),
        format!("to an order. An order has at most {MAX_DOCUMENTS_PER_ORDER}."),
        format!("A client has at most {MAX_ENDPOINTS}."),
        format!("An order has at most {},000.", MAX_NOTES / 1_000),
        format!("of more than {} KiB together", MAX_OLD_VALUES / 1024),
        format!("1 to {} files in parts named", DocumentLimits::default().max_count),
        format!("1 to {} files of at most", DocumentLimits::default().max_count),
        format!("1 to {MAX_KEY_CHARS} visible ASCII characters"),
        format!("{{1,{MAX_KEY_CHARS}}}"),
        format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(text.contains(&stated), "{stated}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one list")]
fn problems_are_those_of_the_service() {
    let limits = DocumentLimits::default();
    let violation = |pointer: &'static str, code, detail: &'static str| Violation {
        pointer: pointer.into(),
        code,
        detail: detail.into(),
    };
    let rejected = |rejection| Problem::from(OrderError::Rejected(rejection));
    let invalid = |violations| rejected(Rejection { violations, ..Rejection::default() });
    let bad_document =
        |fault| rejected(Rejection { documents: vec![(0, fault)], ..Rejection::default() });
    let invalid_webhook = |violation| Problem::from(WebhooksError::Invalid(vec![violation]));
    let not_public = "the address 127.0.0.1 is not public; the operator can open networks with \
        --webhook-allow";
    let invalid_limit = FieldProblem::of_parameter(
        "limit",
        ViolationCode::OutOfRange.as_str(),
        format!("must be an integer from 1 to {MAX_LIMIT}"),
    );
    let others = [
        Problem::malformed("The body is not valid JSON: expected value at line 1 column 1."),
        Problem::malformed("The content type has no boundary."),
        invalid(vec![
            violation(
                "/signingDetailsFormData/state",
                ViolationCode::InvalidFormat,
                "must be a state code of two letters",
            ),
            violation("/requestedBy/userId", ViolationCode::Required, "is required"),
        ]),
        invalid(vec![violation(
            "/status",
            ViolationCode::UnknownMember,
            "is not a member of this request",
        )]),
        invalid(vec![violation(
            "/signingDetailsFormData/fileNumber",
            ViolationCode::Immutable,
            "must be that of the order",
        )]),
        invalid(vec![violation(
            "/reason",
            ViolationCode::TooLong,
            "must have at most 500 characters",
        )]),
        invalid(vec![violation(
            "/signingServiceId",
            ViolationCode::UnknownSigningService,
            "must be a signing service of which the operator has a record: `services add` adds one",
        )]),
        invalid(vec![violation("/text", ViolationCode::Blank, "must not be blank")]),
        invalid_webhook(violation("/url", ViolationCode::NotAllowed, not_public)),
        invalid_webhook(violation("/since", ViolationCode::Required, "is required")),
        invalid_webhook(violation(
            "/to",
            ViolationCode::UnknownMember,
            "is not a member of this request",
        )),
        Problem::invalid(ProblemCode::ValidationFailed, vec![invalid_limit]),
        bad_document(DocumentFault::ContentMismatch(Some("RTF; save it as .docx or PDF"))),
        bad_document(DocumentFault::Encrypted),
        bad_document(DocumentFault::Infected),
        form::too_many_documents(limits),
        rejected(Rejection { no_documents: true, ..Rejection::default() }),
        Problem::invalid_token(),
        Problem::session_ended(),
        invalid(vec![violation(
            "/purpose",
            ViolationCode::NotAllowed,
            "must be sign_in, accept or confirm",
        )]),
        invalid(vec![violation("/role", ViolationCode::NotAllowed, "must be admin or member")]),
        invalid(vec![violation(
            "/scopes/0",
            ViolationCode::NotAllowed,
            "must be one of orders:create, orders:read, webhooks:manage",
        )]),
        invalid(vec![violation(
            "/grace_hours",
            ViolationCode::OutOfRange,
            "must be a whole number from 0 to 8760",
        )]),
        invalid(vec![violation(
            "/disabled",
            ViolationCode::UnknownMember,
            "is not a member of this request",
        )]),
        invalid(vec![violation("/token", ViolationCode::Required, "is required")]),
        invalid(vec![violation("/credential", ViolationCode::Required, "is required")]),
        invalid(vec![violation("/state", ViolationCode::Required, "is required")]),
        SignInError::Passkey(PasskeyFault("replayed".into())).into(),
        SignInError::Login(LoginError::Rejected("nonce".into())).into(),
        SignInError::Login(LoginError::Unavailable("down".into())).into(),
        SignInError::Unknown.into(),
        SignInError::NoCeremony.into(),
        SignInError::OtherPerson.into(),
        SignInError::NoProvider.into(),
        no_session(),
        keys_disabled(),
        cross_site(),
        insecure_origin(),
        NoAdmin::Member.into(),
        NoAdmin::Key.into(),
        NoAdmin::SignInAgain.into(),
        PersonRefusal::Disabled.into(),
        PersonRefusal::LastAdmin.into(),
        PersonRefusal::NameInUse.into(),
        PersonRefusal::LastMethod.into(),
        PersonRefusal::MethodInUse.into(),
        PersonRefusal::TooManyPasskeys.into(),
        PersonRefusal::TooManyInvitations.into(),
        InvitationFault::Unknown.into(),
        InvitationFault::Used.into(),
        InvitationFault::Expired.into(),
        InvitationFault::Withdrawn.into(),
        KeyError::Invalid.into(),
        OrderError::Forbidden.into(),
        Problem::no_such_order(),
        OrderError::Erased.into(),
        OrderError::Duplicate { retry_after: 43 }.into(),
        OrderError::Cancelled.into(),
        OrderError::Closed.into(),
        OrderError::Over.into(),
        OrderError::Held.into(),
        OrderError::TooManyNotes.into(),
        OrderError::TooManyAddresses.into(),
        OrderError::Changed.into(),
        OrderError::InProgress { retry_after: 5 }.into(),
        WebhooksError::Disabled.into(),
        WebhooksError::NotConfigured.into(),
        replay_in_progress(),
        body::too_slow(),
        form::document_too_large("deed-of-trust.pdf", limits),
        form::document_too_large(
            "deed-of-trust.pdf",
            DocumentLimits { max_bytes: 50 << 20, ..limits },
        ),
        invalid(vec![violation(
            "/replaces",
            ViolationCode::NotReplaceable,
            "must be the position of a document of the order that is neither replaced nor withdrawn",
        )]),
        OrderError::Withdrawn.into(),
        body::payload_too_large(json::MAX_BODY),
        name_the_form(body::payload_too_large(json::MAX_BODY)),
        json::unsupported_media_type(),
        Problem::range_not_satisfiable(48_213),
        OrderError::KeyReused.into(),
        Problem::rate_limited(Policy::Orders.as_str(), 1),
        Problem::unreadable_order(),
        Problem::internal(),
        Problem::unavailable(),
    ];
    let named = [
        ("missing_scope", Problem::missing_scope(Policy::Reads.scope())),
        ("failed_authentications", Problem::rate_limited(FAILED_AUTHENTICATIONS, 1)),
        ("no_such_webhook", Problem::no_such_webhook()),
        ("webhook_changed", WebhooksError::Changed.into()),
        ("nothing_to_match", nothing_to_match()),
        ("without_versions", without_versions()),
        ("no_such_person", PersonRefusal::Unknown.into()),
        ("begun_sign_ins", Problem::rate_limited(BEGUN_SIGN_INS, 1)),
        ("small_body_too_large", body::payload_too_large(json::MAX_SMALL_BODY)),
    ];
    let codes: BTreeSet<_> = others.iter().map(|problem| problem.code().as_str()).collect();
    let documented = ProblemCode::ALL.iter().filter(|it| **it != ProblemCode::MethodNotAllowed);
    assert_eq!(codes, documented.map(|code| code.as_str()).collect());
    let expected = others.into_iter().map(|it| (it.code().as_str(), it)).chain(named);
    let text = |name: &str, mut problem: Value| {
        problem.sort_all_objects();
        format!("{name} {problem}")
    };
    let expected = expected.map(|(name, problem)| text(name, body_of(&problem)));
    let shown = examples().into_iter().filter_map(|(path, _, example)| {
        let name = path.contains("problem+json").then(|| path.rsplit('/').next())??;
        Some(text(name, example.clone()))
    });
    assert_eq!(shown.collect::<BTreeSet<_>>(), expected.collect());
}

/// The sides of an erased order.
const ERASED: ErasedFrom = ErasedFrom { client_id: 3, signing_service_id: 42, is_test: false };

#[test]
fn events_have_their_bodies() {
    let order = stored(OrderId(7), &new_order("REFI-1", NOW));
    let status = EventChange::Order(ChangedOrder {
        order_status: "ASSIGNED".to_owned(),
        previous_status: "NEW".to_owned(),
        notary_id: Some(7001),
        actor: Actor::Service,
        notary_changed: Some(true),
    });
    let fields = EventChange::Fields { changed: vec!["/utcTimeDate".to_owned()] };
    let note = EventChange::Note { author: Actor::Client };
    let documents = EventChange::Documents { documents: vec![0, 1], actor: Actor::Service };
    let of_orders = EventType::OF_ORDERS.map(|event| {
        let change = match event {
            EventType::OrderUpdated | EventType::OrderCancelled => Some(&status),
            EventType::OrderChanged => Some(&fields),
            EventType::NoteAdded => Some(&note),
            EventType::SignedDocumentsAdded
            | EventType::DocumentsReplaced
            | EventType::DocumentWithdrawn => Some(&documents),
            EventType::OrderCreated | EventType::DocumentsAdded | EventType::Test => None,
            EventType::OrderErased => return (event, erased_body(NOW, OrderId(7), &ERASED)),
        };
        (event, order_body(event, change, NOW, &order))
    });
    let test = (EventType::Test, test_body(NOW, EndpointId(3)));
    let events: Vec<_> = of_orders.into_iter().chain([test]).collect();
    assert_eq!(at("/webhooks").as_object().unwrap().len(), events.len());
    for (event, body) in events {
        let post = &at("/webhooks")[event.as_str()]["post"];
        let headers: Vec<_> =
            post["parameters"].as_array().unwrap().iter().map(|header| &header["name"]).collect();
        assert_eq!(headers, ["webhook-id", "webhook-timestamp", "webhook-signature"]);
        let statuses: Vec<_> = post["responses"].as_object().unwrap().keys().collect();
        assert_eq!(statuses, ["2XX", "410", "default"]);
        let schema = &post["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(resolve(schema)["properties"]["type"]["const"], event.as_str());
        let body: Value = serde_json::from_str(&body.unwrap()).unwrap();
        assert_eq!(faults(&strict_validator(schema), &body), [""; 0], "{event:?}");
    }
}

#[test]
fn document_states_the_settings() {
    let settings = OpenApiSettings {
        base_path: "/api".to_owned(),
        max_document_bytes: 3 << 20,
        duplicate_window: DuplicateWindow(Duration::seconds(90)),
        idempotency_retention: Duration::hours(2),
    };
    let document = super::document(&settings);
    serde_json::from_str::<Value>(&document).unwrap();
    let count = |document: &str, text: &str| document.matches(text).count();
    for (default, own, times) in [
        (r#""url": "/""#, r#""url": "/api""#, 1),
        (r#""url": "/api/order"#, r#""url": "/api/api/order"#, 12),
        (r#""url": "/api/services"#, r#""url": "/api/api/services"#, 1),
        (r#""url": "/api/webhooks"#, r#""url": "/api/api/webhooks"#, 2),
        (r#"e": "/api/order/1/documents/0""#, r#"e": "/api/api/order/1/documents/0""#, 1),
        ("larger than 10485760 bytes.", "larger than 3145728 bytes.", 2),
        ("files of at most 10 MiB each", "files of at most 3 MiB each", 2),
        ("less than 1 minute ago", "less than 90 seconds ago", 2),
        ("of the client for 24 hours:", "of the client for 2 hours:", 6),
    ] {
        assert_eq!(count(super::DEFAULT, default), times, "{default}");
        assert_eq!((count(&document, default), count(&document, own)), (0, times), "{own}");
    }
    assert!(super::document(&OpenApiSettings::default()) == super::DEFAULT);
}
