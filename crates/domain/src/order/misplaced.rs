//! Members that would be lost: they belong to another place in the objects of the request, where nothing was
//! sent.
//!
//! Other unknown members are ignored, because programs send whole states of their forms. So is a copy of a
//! field beside the field itself, a default, and a field that does not count for the order.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{OrderRequest, default_language, default_same};
use crate::request::{Object, Sent, Unknown, Violation, ViolationCode, names};

/// Names under which programs send documents, without case and separators.
const DOCUMENTS: [&str; 3] = ["documents", "files", "attachments"];

/// The longest name that can be meant for a field, in bytes.
const MAX_NAME: usize = 64;

/// Returns the violations of a request's misplaced members.
pub(super) fn misplaced(request: &OrderRequest) -> Vec<Violation> {
    let places = places(request);
    let unknown = places.iter().flat_map(|place| place.unknown.iter().map(|it| (place.at, it)));
    let could_be_lost =
        |(_, member): &(&str, &Unknown)| member.has_content && member.name.len() <= MAX_NAME;
    let unknown: Vec<_> = unknown.filter(could_be_lost).collect();
    if unknown.is_empty() {
        return Vec::new();
    }
    let sent = serde_json::to_value(request).unwrap_or_default();
    let fields: Vec<_> = places
        .iter()
        .flat_map(|place| (place.names)().iter().map(|name| Field::new(place.at, name)))
        .collect();
    let mut seen = BTreeSet::new();
    let violation = |(object, member): (&str, &Unknown)| {
        let detail = if is_of_documents(member) {
            "would be lost: send documents to create-with-documents, as parts of a form that are \
             named documents"
                .to_owned()
        } else {
            let fields = lost(object, member, request, &fields, &sent)?;
            format!("would be lost: it belongs at {fields}")
        };
        let pointer = member.pointer(object);
        let code = ViolationCode::MisplacedMember;
        seen.insert(pointer.clone()).then(|| Violation {
            pointer: pointer.into(),
            code,
            detail: detail.into(),
        })
    };
    unknown.into_iter().filter_map(violation).collect()
}

impl OrderRequest {
    /// Forgets what the request says about documents beside its fields: they were sent with it.
    pub(crate) fn forget_documents(&mut self) {
        let is_other = |member: &Unknown| !is_of_documents(member);
        self.unknown.retain(is_other);
        if let Sent::Value(contacts) = &mut self.signingContactsFormData {
            contacts.unknown.retain(is_other);
        }
        if let Sent::Value(details) = &mut self.signingDetailsFormData {
            details.unknown.retain(is_other);
        }
        if let Sent::Value(requested_by) = &mut self.requestedBy {
            requested_by.unknown.retain(is_other);
        }
    }
}

fn is_of_documents(member: &Unknown) -> bool {
    !member.is_plain && DOCUMENTS.contains(&&*letters(&member.name))
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

    /// Returns whether the value of the field counts for the order.
    fn counts(&self, request: &OrderRequest) -> bool {
        let details = request.signingDetailsFormData.value();
        let has_time = |kind| details.is_some_and(|details| details.has_time(kind));
        match self.name {
            "specificTime" | "utcTimeDate" => has_time("at"),
            "startTime" | "endTime" | "utcStartTimeDate" | "utcEndTimeDate" => has_time("between"),
            "signingAddress" | "signingCity" | "signingState" | "signingZipcode" => {
                details.is_some_and(|details| details.has_own_location())
            }
            _ => true,
        }
    }

    /// Returns whether a member says what an absent field says (spec section 2.3).
    fn is_default(&self, member: &Unknown) -> bool {
        let default = match self.name {
            "language" => Value::from(default_language()),
            "isPropertyAddressSame" => default_same().into(),
            "scanbacksRequired" | "ronSigning" => bool::default().into(),
            _ => return false,
        };
        member.short.as_deref() == Some(&default.to_string())
    }
}

/// Returns the fields for which a member is meant, if none of them has a value. Another spelling
/// beside a field is meant for this field only.
fn lost(
    object: &str,
    member: &Unknown,
    request: &OrderRequest,
    fields: &[Field],
    sent: &Value,
) -> Option<String> {
    let letters = letters(&member.name);
    let meant = fields.iter().filter(|field| field.letters == letters);
    let (beside, elsewhere): (Vec<_>, Vec<_>) = meant.partition(|field| field.object == object);
    let meant = if beside.is_empty() { elsewhere } else { beside };
    let is_lost = |field: &&Field| field.counts(request) && !field.is_default(member);
    let pointers: Vec<_> = meant
        .into_iter()
        .filter(is_lost)
        .map(|field| format!("{}/{}", field.object, field.name))
        .collect();
    let are_absent = pointers.iter().all(|pointer| sent.pointer(pointer).is_none());
    (are_absent && !pointers.is_empty()).then(|| pointers.join(" or "))
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
        let found = misplaced(&request).into_iter();
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
    fn documents_that_were_sent_with_the_request_are_not_lost() {
        let mut request = minimal_request();
        request["files"] = json!("a.pdf");
        request["signingDetailsFormData"]["documents"] = json!([{ "path": "a.pdf" }]);
        let mut request: OrderRequest = serde_json::from_value(request).unwrap();
        assert_eq!(misplaced(&request).len(), 2);
        request.forget_documents();
        assert_eq!(misplaced(&request), []);
    }
}
