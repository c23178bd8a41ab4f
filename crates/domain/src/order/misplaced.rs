//! Members that would be lost: they belong elsewhere in the request, where nothing was sent.
//!
//! Other unknown members are ignored, because programs send whole states of their forms. So is a copy
//! of a field beside the field itself.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::OrderRequest;
use crate::request::{Object, Unknown, Violation, ViolationCode, names};

/// Names under which programs send documents, without case and separators.
const DOCUMENTS: [&str; 3] = ["documents", "files", "attachments"];

/// Returns the violations of a request's misplaced members.
pub(super) fn misplaced(request: &OrderRequest) -> Vec<Violation> {
    let places = places(request);
    let unknown = places.iter().flat_map(|place| place.unknown.iter().map(|it| (place.at, it)));
    let mut unknown = unknown.filter(|(_, member)| member.has_content()).peekable();
    if unknown.peek().is_none() {
        return Vec::new();
    }
    let sent = serde_json::to_value(request).unwrap_or_default();
    let violation = |(object, member): (&str, &Unknown)| {
        let detail = if DOCUMENTS.contains(&&*letters(&member.name)) && !member.is_plain() {
            "would be lost: send documents to create-with-documents, as parts of a form that are \
             named documents"
                .to_owned()
        } else {
            let fields = lost(object, &member.name, &places, &sent)?;
            format!("would be lost: it belongs at {fields}")
        };
        let pointer = member.pointer(object).into();
        Some(Violation { pointer, code: ViolationCode::MisplacedMember, detail: detail.into() })
    };
    unknown.filter_map(violation).collect()
}

/// Returns the fields for which a member is meant, if none of them has a value. Another spelling
/// beside a field is meant for this field only.
fn lost(object: &str, name: &str, places: &[Place<'_>], sent: &Value) -> Option<String> {
    let fields = places
        .iter()
        .flat_map(|place| (place.names)().iter().map(|name| (place.at, *name)))
        .filter(|(_, field)| letters(field) == letters(name));
    let (beside, elsewhere): (Vec<_>, Vec<_>) = fields.partition(|(at, _)| *at == object);
    let fields = if beside.is_empty() { elsewhere } else { beside };
    let fields: Vec<_> = fields.into_iter().map(|(at, name)| format!("{at}/{name}")).collect();
    let are_absent = fields.iter().all(|field| sent.pointer(field).is_none());
    (are_absent && !fields.is_empty()).then(|| fields.join(" or "))
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
            ("/signingDetailsFormData/attachments", json!({ "0": {} })),
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
}
