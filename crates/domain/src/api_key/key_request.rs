//! The bodies by which an admin issues and rotates keys of the own side.
//!
//! Unknown members are violations: an admin must not believe that they count.

use garde::Validate;
use serde::Deserialize;
use time::Duration;

use super::{Party, Scope, Scopes};
use crate::request::{
    Code, Member, Object, Sent, Violation, ViolationCode, Word,
    rules::{Checked, any, fault, nullable, required, text, unknown_members, violations},
};

/// Maximum length of the name of a key in characters.
pub const MAX_KEY_NAME: usize = 100;

/// The longest lifetime of a key, in days.
pub const MAX_LIFETIME_DAYS: u32 = 36_500;

/// The hours for which a key stays valid beside its successor, if nothing else is said.
pub const DEFAULT_GRACE_HOURS: u32 = 24;

/// The most hours for which a key stays valid beside its successor.
pub const MAX_GRACE_HOURS: u32 = 8_760;

/// Maximum number of names of scopes that are looked at. More are wrong in any case.
const MAX_SCOPES: usize = 20;

/// The body that issues a key.
pub type NewKeyBody = Object<NewKeyMembers>;

/// The members of a new key.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
pub struct NewKeyMembers {
    #[garde(custom(required(text(MAX_KEY_NAME))))]
    name: Sent<Word>,
    #[garde(custom(nullable(some_scopes)))]
    scopes: Sent<ScopeNames>,
    #[garde(custom(nullable(any)))]
    is_test: Sent<bool>,
    #[garde(custom(nullable(lifetime)))]
    expires_in_days: Sent<i64>,
}

/// The body that rotates a key.
pub type RotationBody = Object<RotationMembers>;

/// The members of a rotation.
#[derive(Clone, Default, Deserialize, Validate)]
#[serde(default)]
pub struct RotationMembers {
    #[garde(custom(nullable(grace)))]
    grace_hours: Sent<i64>,
}

/// The names of scopes.
#[derive(Clone)]
struct ScopeNames(Vec<Sent<Code>>);

impl Member for ScopeNames {
    const EXPECTED: &'static str = "must be an array of strings";

    fn of_array(json: &str) -> serde_json::Result<Sent<Self>> {
        Ok(Sent::Value(Self(serde_json::from_str(json)?)))
    }
}

fn some_scopes(ScopeNames(names): &ScopeNames) -> Checked {
    match names.len() {
        0 => fault(ViolationCode::Blank, "must have at least one scope"),
        1..=MAX_SCOPES => Ok(()),
        _ => fault(ViolationCode::TooLong, format!("must have at most {MAX_SCOPES} scopes")),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature of a rule")]
fn lifetime(days: &i64) -> Checked {
    within(*days, 1, MAX_LIFETIME_DAYS)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature of a rule")]
fn grace(hours: &i64) -> Checked {
    within(*hours, 0, MAX_GRACE_HOURS)
}

fn within(number: i64, least: i64, most: u32) -> Checked {
    if (least..=i64::from(most)).contains(&number) {
        return Ok(());
    }
    fault(ViolationCode::OutOfRange, format!("must be a whole number from {least} to {most}"))
}

/// A key that an admin asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRequest {
    /// Its name.
    pub name: String,
    /// Its permissions.
    pub scopes: Scopes,
    /// Whether its orders are test orders.
    pub is_test: bool,
    /// Time until it expires; `None` means never.
    pub lifetime: Option<Duration>,
}

impl KeyRequest {
    /// Reads the body of a new key of a party, which can have scopes of its side only.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(body: NewKeyBody, party: Party) -> Result<Self, Vec<Violation>> {
        let (possible, default) = match party {
            Party::Client(_) => (Scope::OF_CLIENTS, Scope::DEFAULT),
            Party::Service(_) => (Scope::OF_SERVICES, Scope::DEFAULT_OF_SERVICES),
        };
        let mut violations = violations(&body);
        violations.extend(unknown_members(&body, ""));
        let NewKeyMembers { name, scopes, is_test, expires_in_days } = body.members;
        let possible_scope = |name: &Sent<Code>| {
            let scope = Scope::from_name(name.value()?);
            scope.filter(|scope| possible.contains(scope))
        };
        let sent = scopes.into_value().map(|ScopeNames(names)| names);
        for (position, name) in sent.iter().flatten().enumerate().take(MAX_SCOPES) {
            if possible_scope(name).is_none() {
                let possible = possible.map(Scope::as_str).join(", ");
                violations.push(Violation {
                    pointer: format!("/scopes/{position}").into(),
                    code: ViolationCode::NotAllowed,
                    detail: format!("must be one of {possible}").into(),
                });
            }
        }
        if !violations.is_empty() {
            return Err(violations);
        }
        let days = expires_in_days.into_value();
        Ok(Self {
            name: name.into_value().map(Into::into).unwrap_or_default(),
            scopes: match sent {
                Some(names) => names.iter().filter_map(possible_scope).collect(),
                None => default.into_iter().collect(),
            },
            is_test: is_test.into_value().unwrap_or_default(),
            lifetime: days.map(Duration::days),
        })
    }
}

/// Reads the body of a rotation: how long the key stays valid beside its successor.
///
/// # Errors
/// All violations.
pub fn rotation_grace(body: RotationBody) -> Result<Duration, Vec<Violation>> {
    let mut violations = violations(&body);
    violations.extend(unknown_members(&body, ""));
    let hours = body.members.grace_hours.into_value().unwrap_or(DEFAULT_GRACE_HOURS.into());
    if violations.is_empty() { Ok(Duration::hours(hours)) } else { Err(violations) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{api_key::ClientId, people::SigningServiceId};

    const CLIENT: Party = Party::Client(ClientId(1));
    const SERVICE: Party = Party::Service(SigningServiceId(7));

    fn parse(json: &Value, party: Party) -> Result<KeyRequest, Vec<(String, &'static str)>> {
        let parsed = KeyRequest::parse(serde_json::from_value(json.clone()).unwrap(), party);
        parsed.map_err(faults)
    }

    fn faults(violations: Vec<Violation>) -> Vec<(String, &'static str)> {
        violations.into_iter().map(|it| (it.pointer.into_owned(), it.code.as_str())).collect()
    }

    #[test]
    fn name_is_enough() {
        for (party, scopes) in
            [(CLIENT, "orders:create orders:read"), (SERVICE, "orders:read orders:update")]
        {
            let key = parse(&json!({ "name": " Escrow desk " }), party).unwrap();
            assert_eq!((&*key.name, key.scopes.to_string()), ("Escrow desk", scopes.to_owned()));
            assert_eq!((key.is_test, key.lifetime), (false, None));
        }
    }

    #[test]
    fn key_has_scopes_of_its_side_only() {
        for (scope, of_client, of_service) in [
            ("orders:create", true, false),
            ("orders:read", true, true),
            ("orders:update", false, true),
            ("webhooks:manage", true, true),
            ("people:manage", false, false),
        ] {
            let body = json!({ "name": "a", "scopes": ["orders:read", scope] });
            let refused = Err(vec![("/scopes/1".to_owned(), "not_allowed")]);
            for (party, may) in [(CLIENT, of_client), (SERVICE, of_service)] {
                let parsed = parse(&body, party).map(|key| key.scopes.to_string().contains(scope));
                assert_eq!(parsed, if may { Ok(true) } else { refused.clone() }, "{scope}");
            }
        }
    }

    #[test]
    fn all_violations_are_reported_at_once() {
        let body = json!({ "scopes": [], "is_test": "yes", "expires_in_days": 0, "client": 2 });
        let mut found = parse(&body, CLIENT).unwrap_err();
        found.sort();
        let expected = [
            ("/client", "unknown_member"),
            ("/expires_in_days", "out_of_range"),
            ("/is_test", "wrong_type"),
            ("/name", "required"),
            ("/scopes", "blank"),
        ];
        assert_eq!(found, expected.map(|(pointer, code)| (pointer.to_owned(), code)));
        let many = json!({ "name": "a", "scopes": vec!["x"; 30] });
        assert_eq!(parse(&many, CLIENT).unwrap_err().len(), 1 + MAX_SCOPES);
    }

    #[test]
    fn rotated_key_stays_valid_for_a_day() {
        let grace =
            |json: Value| rotation_grace(serde_json::from_value(json).unwrap()).map_err(faults);
        assert_eq!(grace(json!({})), Ok(Duration::DAY));
        assert_eq!(grace(json!({ "grace_hours": 0 })), Ok(Duration::ZERO));
        let refused = |pointer: &str, code| Err(vec![(pointer.to_owned(), code)]);
        assert_eq!(grace(json!({ "grace_hours": 8_761 })), refused("/grace_hours", "out_of_range"));
        assert_eq!(grace(json!({ "hours": 1 })), refused("/hours", "unknown_member"));
    }
}
