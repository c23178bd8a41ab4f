//! Members that would be lost: they belong to another place in the objects of the request, where nothing was
//! sent.
//!
//! Other unknown members are ignored, because programs send whole states of their forms. So is a copy of a
//! field beside the field itself, a default, and a field that does not count for the order.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{OrderRequest, default_language, default_same};
use crate::request::{Object, Unknown, Violation, ViolationCode, names, pointer, says};

/// Names under which programs send documents, without case and separators.
const DOCUMENTS: [&str; 3] = ["documents", "files", "attachments"];

/// The longest name that can be meant for a field, in bytes.
const MAX_NAME: usize = 64;

/// Maximum number of violations, so that the answer is short.
const MAX_LOST: usize = 100;

/// Returns the violations of a request's misplaced members. What it says about documents is ignored if they
/// were sent with it.
pub(super) fn misplaced(request: &OrderRequest, has_documents: bool) -> Vec<Violation> {
    let places = places(request);
    if places.iter().all(|place| place.unknown.is_empty()) {
        return Vec::new();
    }
    let mut search = Search {
        request,
        sent: serde_json::to_value(request).unwrap_or_default(),
        fields: places
            .iter()
            .flat_map(|place| (place.names)().iter().map(|name| Field::new(place.at, name)))
            .collect(),
        has_documents,
        lost: Vec::new(),
    };
    for place in &places {
        for member in place.unknown {
            search.member(place.at, &member.name, &member.value());
        }
    }
    search.lost
}

/// A search for misplaced members.
struct Search<'a> {
    request: &'a OrderRequest,
    /// The fields of the request that have a value.
    sent: Value,
    fields: Vec<Field>,
    has_documents: bool,
    lost: Vec<Violation>,
}

/// The meaning of a member that has no field in its object.
enum Meaning<'a> {
    /// One of these fields, none of which has a value: it would be lost.
    Lost(Vec<&'a Field>),
    /// A field that has a value.
    Copy,
    /// A field, about which it says nothing.
    Nothing,
    /// No field.
    Unknown,
}

impl Search<'_> {
    /// Looks at an unknown member of an object of the request.
    fn member(&mut self, object: &str, name: &str, value: &Value) {
        let is_plain = matches!(value, Value::Bool(_) | Value::Number(_));
        if !is_plain && DOCUMENTS.contains(&&*letters(name)) {
            if !self.has_documents && says(value) {
                let detail = "would be lost: send documents to create-with-documents, as parts of \
                              a form that are named documents";
                self.report(pointer(object, name), detail.to_owned());
            }
            return;
        }
        match self.meaning(object, name, value) {
            Meaning::Lost(fields) => {
                let detail = belongs_at(&fields);
                self.report(pointer(object, name), detail);
            }
            Meaning::Unknown => self.group(&pointer(object, name), value),
            Meaning::Copy | Meaning::Nothing => {}
        }
    }

    /// Looks for fields in the value of an unknown member. If one of them has a value in its place, the
    /// group is a copy, such as the first state of a form, and nothing of it is lost.
    fn group(&mut self, at: &str, value: &Value) {
        let members = match value {
            Value::Object(members) => members,
            Value::Array(items) => {
                for (index, item) in
                    items.iter().enumerate().filter(|(_, item)| may_hold(item)).take(MAX_LOST)
                {
                    self.group(&pointer(at, &index.to_string()), item);
                }
                return;
            }
            _ => return,
        };
        let (mut lost, mut unknown, mut is_copy) = (Vec::new(), Vec::new(), false);
        for (name, value) in members {
            match self.meaning(at, name, value) {
                // A list has the choices for a field: no field has several values.
                Meaning::Lost(fields)
                    if !value.is_array() && fields.iter().all(|field| field.is_telling()) =>
                {
                    lost.push((pointer(at, name), belongs_at(&fields)));
                }
                Meaning::Copy => is_copy = true,
                Meaning::Unknown if may_hold(value) => unknown.push((pointer(at, name), value)),
                Meaning::Lost(_) | Meaning::Nothing | Meaning::Unknown => {}
            }
        }
        if !is_copy {
            for (pointer, detail) in lost {
                self.report(pointer, detail);
            }
        }
        for (pointer, value) in unknown {
            self.group(&pointer, value);
        }
    }

    /// Returns what a member means. Another spelling beside a field is meant for this field only.
    fn meaning(&self, object: &str, name: &str, value: &Value) -> Meaning<'_> {
        if name.len() > MAX_NAME {
            return Meaning::Unknown;
        }
        let letters = letters(name);
        let meant = self.fields.iter().filter(|field| field.letters == letters);
        let (beside, elsewhere): (Vec<_>, Vec<_>) = meant.partition(|field| field.object == object);
        let mut meant = if beside.is_empty() { elsewhere } else { beside };
        if meant.is_empty() {
            return Meaning::Unknown;
        }
        meant.retain(|field| self.request.counts(field.name));
        if meant.iter().any(|field| self.sent.pointer(&field.pointer()).is_some()) {
            return Meaning::Copy;
        }
        meant.retain(|field| field.is_said_by(value));
        if meant.is_empty() { Meaning::Nothing } else { Meaning::Lost(meant) }
    }

    fn report(&mut self, pointer: String, detail: String) {
        let is_new = self.lost.iter().all(|lost| lost.pointer != pointer);
        if is_new && self.lost.len() < MAX_LOST {
            let code = ViolationCode::MisplacedMember;
            self.lost.push(Violation { pointer: pointer.into(), code, detail: detail.into() });
        }
    }
}

/// Returns whether a value may hold members.
fn may_hold(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

fn belongs_at(fields: &[&Field]) -> String {
    let pointers: Vec<_> = fields.iter().map(|field| field.pointer()).collect();
    format!("would be lost: it belongs at {}", pointers.join(" or "))
}

/// A field of an object.
struct Field {
    object: &'static str,
    name: &'static str,
    letters: String,
}

impl Field {
    fn new(object: &'static str, name: &'static str) -> Self {
        Self { object, name, letters: letters(name) }
    }

    fn pointer(&self) -> String {
        format!("{}/{}", self.object, self.name)
    }

    /// Returns whether the name has several words. Others, such as `language`, may mean something else in
    /// an unknown object.
    fn is_telling(&self) -> bool {
        self.name.contains(|c: char| c == '_' || c.is_ascii_uppercase())
    }

    /// Returns whether a value says something else than the absence of the field (spec section 2.3).
    fn is_said_by(&self, value: &Value) -> bool {
        let default = match self.name {
            "language" => Value::from(default_language()),
            "isPropertyAddressSame" => default_same().into(),
            "scanbacksRequired" | "ronSigning" => bool::default().into(),
            // Forms have flags for their fields, such as whether one was touched.
            _ => return says(value) && !value.is_boolean(),
        };
        says(value) && *value != default
    }
}

/// Returns a name without letter case and separators.
fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// An object of a request.
struct Place<'a> {
    /// JSON Pointer to it.
    at: &'static str,
    /// The names of its fields.
    names: fn() -> &'static [&'static str],
    /// The members that were sent in it and have no field.
    unknown: &'a [Unknown],
}

fn places(request: &OrderRequest) -> [Place<'_>; 8] {
    fn place<'a, T: DeserializeOwned>(
        at: &'static str,
        object: Option<&'a Object<T>>,
    ) -> Place<'a> {
        Place { at, names: names::<T>, unknown: object.map_or(&[], |object| &object.unknown) }
    }
    let contacts = request.signingContactsFormData.value();
    let details = request.signingDetailsFormData.value();
    [
        place("", Some(request)),
        place("/signingContactsFormData", contacts),
        place(
            "/signingContactsFormData/inHouseContact",
            contacts.and_then(|contacts| contacts.inHouseContact.value()),
        ),
        place(
            "/signingContactsFormData/inHouseContact2",
            contacts.and_then(|contacts| contacts.inHouseContact2.value()),
        ),
        place("/signingDetailsFormData", details),
        place(
            "/signingDetailsFormData/loanOfficer",
            details.and_then(|details| details.loanOfficer.value()),
        ),
        place(
            "/signingDetailsFormData/invoiceOrderTo",
            details.and_then(|details| details.invoiceOrderTo.value()),
        ),
        place("/requestedBy", request.requestedBy.value()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_support::minimal_request;

    /// Returns the pointers of the misplaced members of the minimal request with these members.
    fn pointers(members: &[(&str, Value)]) -> Vec<String> {
        let mut request = minimal_request();
        for (at, value) in members {
            let (object, name) = at.rsplit_once('/').unwrap();
            request.pointer_mut(object).unwrap()[name] = value.clone();
        }
        let request: OrderRequest = serde_json::from_value(request).unwrap();
        let found = misplaced(&request, false).into_iter();
        found.map(|violation| violation.pointer.into_owned()).collect()
    }

    #[test]
    fn member_that_would_be_lost_is_misplaced() {
        for (at, value) in [
            ("/signingDetailsFormData/SpecialInstructions", json!("ring twice")),
            ("/signingDetailsFormData/special_instructions", json!("ring twice")),
            ("/signingDetailsFormData/cosignerName", json!("Richard Roe")),
            ("/signingDetailsFormData/Invoice-Fee", json!(150)),
            ("/clientCompanyId", json!(7)),
            ("/specialInstructions", json!("ring twice")),
            ("/signingContactsFormData/in_house_contact", json!({ "contact_name": "Alex" })),
            ("/signingContactsFormData/contact_name", json!("Alex")),
            ("/requestedBy/user_role", json!("escrow")),
            ("/documents", json!([{ "name": "a.pdf" }])),
            ("/Files", json!("a.pdf")),
            ("/signingDetailsFormData/attachments", json!({ "0": { "name": "a.pdf" } })),
            ("/language", json!("es")),
            ("/is_property_address_same", json!(false)),
        ] {
            assert_eq!(pointers(&[(at, value)]), [at], "{at}");
        }
    }

    #[test]
    fn copies_empty_and_unknown_members_are_ignored() {
        let company = ("/signingContactsFormData/clientCompanyId", json!(7));
        for members in [
            vec![("/clientCompanyId", json!(7)), company],
            vec![("/signingDetailsFormData/File_Number", json!("F-2"))],
            vec![("/city", json!("Dallas"))],
            vec![("/userId", json!(1001))],
            vec![("/specialInstructions", json!(" "))],
            vec![("/signingDetailsFormData/LoanOfficer", json!({}))],
            vec![("/documents", json!([])), ("/files", json!(null)), ("/attachments", json!(0))],
            vec![
                ("/documents", json!([null])),
                ("/files", json!([{}])),
                ("/language", json!("en")),
            ],
            vec![("/ronSigning", json!(false)), ("/isPropertyAddressSame", json!(true))],
            vec![("/startTime", json!("09:00")), ("/signingAddress", json!("9 Office Rd"))],
            vec![("/formVersion", json!(3)), ("/ui", json!({ "language": "en" }))],
        ] {
            assert_eq!(pointers(&members), [""; 0], "{members:?}");
        }
    }

    #[test]
    fn another_spelling_is_meant_for_the_field_beside_it() {
        let members = [
            (
                "/signingContactsFormData/inHouseContact",
                json!({ "contact_name": "Alex", "contactPhone": "5550100199" }),
            ),
            ("/signingDetailsFormData/loanOfficer", json!({ "contactName": "Kim" })),
        ];
        let expected = [
            "/signingContactsFormData/inHouseContact/contactPhone",
            "/signingDetailsFormData/loanOfficer/contactName",
        ];
        assert_eq!(pointers(&members), expected);
    }

    #[test]
    fn field_in_an_unknown_object_is_misplaced() {
        for (at, value, lost) in [
            ("/invoice", json!({ "invoiceFee": 150, "note": "x" }), vec!["/invoice/invoiceFee"]),
            (
                "/signingDetailsFormData/coSigner",
                json!({ "co_signer_name": "Richard Roe" }),
                vec!["/signingDetailsFormData/coSigner/co_signer_name"],
            ),
            ("/coSigners", json!([{ "coSignerName": "Ann" }]), vec!["/coSigners/0/coSignerName"]),
            ("/a", json!({ "b/c": { "spouseName": "Ann" } }), vec!["/a/b~1c/spouseName"]),
            (
                "/signingContactsFormData/primaryContact",
                json!({ "contact_name": "Alex" }),
                vec!["/signingContactsFormData/primaryContact/contact_name"],
            ),
            (
                "/options",
                json!({ "ronSigning": true, "language": "es" }),
                vec!["/options/ronSigning"],
            ),
            ("/options", json!({ "ronSigning": false }), vec![]),
            ("/initialValues", json!({ "signerName": "", "spouseName": "Ann" }), vec![]),
            ("/touched", json!({ "spouseName": true }), vec![]),
            ("/choices", json!({ "documentDelivery": ["Mail", "Pickup"] }), vec![]),
            ("/form", json!({ "signingDetailsFormData": { "spouseName": "Ann" } }), vec![]),
            ("/user", json!({ "userId": 1001, "userRole": "admin" }), vec![]),
            ("/company", json!({ "company_name": "Acme", "city": "Dallas" }), vec![]),
            ("/browser", json!({ "language": "es", "startTime": "09:00" }), vec![]),
        ] {
            assert_eq!(pointers(&[(at, value.clone())]), lost, "{at} {value}");
        }
    }

    #[test]
    fn order_in_an_envelope_is_misplaced() {
        let request = json!({ "data": { "order": minimal_request() } });
        let request: OrderRequest = serde_json::from_value(request).unwrap();
        let lost = misplaced(&request, false).into_iter();
        let found: Vec<_> = lost.map(|lost| lost.pointer.into_owned()).collect();
        let expected = [
            "/data/order/signingContactsFormData",
            "/data/order/signingDetailsFormData",
            "/data/order/signingServiceId",
            "/data/order/requestedBy",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn violations_are_limited() {
        let many: Vec<_> = (0..1_000).map(|_| json!({ "spouseName": "Ann" })).collect();
        assert_eq!(pointers(&[("/spouses", many.into())]).len(), MAX_LOST);
    }

    #[test]
    fn documents_that_were_sent_with_the_request_are_not_lost() {
        let mut request = minimal_request();
        request["files"] = json!("a.pdf");
        request["signingDetailsFormData"]["documents"] = json!([{ "path": "a.pdf" }]);
        request["signingContactsFormData"]["inHouseContact"] = json!({ "files": ["a.pdf"] });
        let request: OrderRequest = serde_json::from_value(request).unwrap();
        assert_eq!(misplaced(&request, false).len(), 3);
        assert_eq!(misplaced(&request, true), []);
    }
}
