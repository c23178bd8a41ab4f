//! The bodies that invite and change people.
//!
//! Unknown members are violations: an admin must not believe that they count.

use garde::Validate;
use serde::Deserialize;

use super::{MAX_NAME, PersonChange, PersonName, Role};
use crate::{
    people::EmailAddress,
    request::{
        Code, Object, Sent, Violation, ViolationCode, Word,
        rules::{self, Checked, any, closed, fault, nullable, optional, required, text},
    },
};

/// The body that invites a person.
pub type NewPersonBody = Object<NewPersonMembers>;

/// The members of a person who is invited.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
pub struct NewPersonMembers {
    #[garde(custom(required(is_name)))]
    name: Sent<Word>,
    #[garde(custom(optional(rules::email)))]
    email: Sent<Code>,
    #[garde(custom(required(is_role)))]
    role: Sent<Code>,
}

/// The body by which an admin changes a person.
pub type PersonChangeBody = Object<PersonChangeMembers>;

/// The members of a change. Those that are absent or `null` stay as they are.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
pub struct PersonChangeMembers {
    #[garde(custom(nullable(is_name)))]
    name: Sent<Word>,
    #[garde(custom(nullable(rules::email)))]
    email: Sent<Code>,
    #[garde(custom(nullable(is_role)))]
    role: Sent<Code>,
    #[garde(custom(nullable(any)))]
    disabled: Sent<bool>,
}

/// The body by which people change what is said of them.
pub type OwnChangeBody = Object<OwnChangeMembers>;

/// The members of a change of oneself. Those that are absent or `null` stay as they are.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
pub struct OwnChangeMembers {
    #[garde(custom(nullable(is_name)))]
    name: Sent<Word>,
    #[garde(custom(nullable(rules::email)))]
    email: Sent<Code>,
}

/// The name of a person or a passkey.
///
/// # Errors
/// The fault of the text.
pub fn is_name(sent: &Word) -> Checked {
    text(MAX_NAME)(sent)?;
    let detail = "must have no invisible characters";
    PersonName::new(sent).map(drop).or_else(|_| fault(ViolationCode::InvalidCharacters, detail))
}

fn is_role(sent: &Code) -> Checked {
    match Role::from_name(sent) {
        Some(_) => Ok(()),
        None => fault(ViolationCode::NotAllowed, "must be admin or member"),
    }
}

fn person_name(sent: &Sent<Word>) -> Option<PersonName> {
    PersonName::new(sent.value()?).ok()
}

fn address(sent: Sent<Code>) -> Option<EmailAddress> {
    sent.into_value().map(|address| EmailAddress::from_stored(address.into()))
}

/// What is said of a person who is invited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonRequest {
    /// Their name.
    pub name: PersonName,
    /// Where they read mails.
    pub email: Option<EmailAddress>,
    /// Their rights.
    pub role: Role,
}

impl PersonRequest {
    /// Reads the body of an invitation.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(body: NewPersonBody) -> Result<Self, Vec<Violation>> {
        closed(&body)?;
        let NewPersonMembers { name, email, role } = body.members;
        Ok(Self {
            name: PersonName::from_stored(name.into_value().map(Into::into).unwrap_or_default()),
            email: address(email),
            role: role.value().and_then(|role| Role::from_name(role)).unwrap_or(Role::Member),
        })
    }
}

impl PersonChange {
    /// Reads the body of a change by an admin.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(body: PersonChangeBody) -> Result<Self, Vec<Violation>> {
        closed(&body)?;
        let PersonChangeMembers { name, email, role, disabled } = body.members;
        Ok(Self {
            name: person_name(&name),
            email: address(email),
            role: role.value().and_then(|role| Role::from_name(role)),
            is_disabled: disabled.into_value(),
        })
    }

    /// Reads the body of a change of oneself: name and address.
    ///
    /// # Errors
    /// All violations.
    pub fn parse_own(body: OwnChangeBody) -> Result<Self, Vec<Violation>> {
        closed(&body)?;
        let OwnChangeMembers { name, email } = body.members;
        Ok(Self { name: person_name(&name), email: address(email), ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn faults(violations: Vec<Violation>) -> Vec<(String, &'static str)> {
        violations.into_iter().map(|it| (it.pointer.into_owned(), it.code.as_str())).collect()
    }

    fn invited(json: Value) -> Result<PersonRequest, Vec<(String, &'static str)>> {
        PersonRequest::parse(serde_json::from_value(json).unwrap()).map_err(faults)
    }

    #[test]
    fn address_of_an_invited_person_may_be_missing() {
        for email in [json!(null), json!(" ")] {
            let person = invited(json!({ "name": " Ann Roe ", "email": email, "role": "member" }));
            let person = person.unwrap();
            assert_eq!(
                (person.name.as_str(), person.email, person.role),
                ("Ann Roe", None, Role::Member)
            );
        }
        let person =
            invited(json!({ "name": "A", "email": "a@b.example", "role": "admin" })).unwrap();
        assert_eq!(person.email.unwrap().as_str(), "a@b.example");
    }

    #[test]
    fn all_violations_are_reported_at_once() {
        for (body, expected) in [
            (json!({}), vec![("/name", "required"), ("/role", "required")]),
            (
                json!({ "name": "a\u{200d}b", "email": "a", "role": "owner", "party": "client" }),
                vec![
                    ("/email", "invalid_format"),
                    ("/name", "invalid_characters"),
                    ("/party", "unknown_member"),
                    ("/role", "not_allowed"),
                ],
            ),
            (json!({ "name": "a".repeat(101), "role": "member" }), vec![("/name", "too_long")]),
        ] {
            let mut found = invited(body).unwrap_err();
            found.sort();
            let expected: Vec<_> =
                expected.into_iter().map(|(pointer, code)| (pointer.to_owned(), code)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn absent_members_of_a_change_stay_as_they_are() {
        for body in
            [json!({}), json!({ "name": null, "email": null, "role": null, "disabled": null })]
        {
            let change = PersonChange::parse(serde_json::from_value(body).unwrap());
            assert_eq!(change, Ok(PersonChange::default()));
        }
        let body = json!({ "role": "admin", "disabled": false });
        let change = PersonChange::parse(serde_json::from_value(body).unwrap()).unwrap();
        assert_eq!((change.role, change.is_disabled), (Some(Role::Admin), Some(false)));
    }

    #[test]
    fn own_role_is_no_member_of_an_own_change() {
        let body = json!({ "name": "Ann", "role": "admin", "disabled": false });
        let change = PersonChange::parse_own(serde_json::from_value(body).unwrap());
        let unknown = |pointer: &str| (pointer.to_owned(), "unknown_member");
        assert_eq!(change.map_err(faults), Err(vec![unknown("/role"), unknown("/disabled")]));
    }
}
