//! Reads the fields of a request one by one and keeps account of what is wrong with them.

use std::borrow::Cow;

use time::OffsetDateTime;

use super::{
    Contact, EmailAddress, Field, JsonType, Money, Violation, ViolationCode,
    request::ContactRequest, text::TextRule,
};
use crate::appointment;

/// The account. A reader that reports a violation answers `None`.
#[derive(Default)]
pub(super) struct Check {
    pub(super) violations: Vec<Violation>,
    pub(super) utc_disagreements: Vec<&'static str>,
}

impl Check {
    pub(super) fn report(
        &mut self,
        path: &str,
        name: &str,
        code: ViolationCode,
        detail: impl Into<Cow<'static, str>>,
    ) {
        self.violations.push(Violation {
            pointer: format!("{path}/{name}").into(),
            code,
            detail: detail.into(),
        });
    }

    pub(super) fn optional<T: for<'de> JsonType<'de>>(
        &mut self,
        path: &str,
        name: &str,
        field: Field<T>,
    ) -> Option<T> {
        match field {
            Field::Absent => None,
            Field::Value(value) => Some(value),
            Field::Mistyped => {
                self.report(
                    path,
                    name,
                    ViolationCode::WrongType,
                    format!("must be {}", T::EXPECTED),
                );
                None
            }
        }
    }

    pub(super) fn required<T: for<'de> JsonType<'de>>(
        &mut self,
        path: &str,
        name: &str,
        field: Field<T>,
    ) -> Option<T> {
        if matches!(field, Field::Absent) {
            self.report(path, name, ViolationCode::Required, "is required");
        }
        self.optional(path, name, field)
    }

    pub(super) fn ruled(
        &mut self,
        path: &str,
        name: &str,
        text: &str,
        rule: &TextRule,
    ) -> Option<String> {
        match rule.check(text) {
            Ok(()) => Some(text.to_owned()),
            Err((code, detail)) => {
                self.report(path, name, code, detail);
                None
            }
        }
    }

    pub(super) fn optional_text(
        &mut self,
        path: &str,
        name: &str,
        field: Field<String>,
        rule: &TextRule,
    ) -> Option<String> {
        let text = self.optional(path, name, field)?;
        let text = text.trim();
        if text.is_empty() { None } else { self.ruled(path, name, text, rule) }
    }

    pub(super) fn required_text(
        &mut self,
        path: &str,
        name: &str,
        field: Field<String>,
        rule: &TextRule,
    ) -> Option<String> {
        let text = self.required(path, name, field)?;
        let text = text.trim();
        if text.is_empty() {
            self.report(path, name, ViolationCode::Blank, "must not be blank");
            return None;
        }
        self.ruled(path, name, text, rule)
    }

    pub(super) fn read<T>(
        &mut self,
        path: &str,
        name: &str,
        value: Option<T>,
        detail: &'static str,
    ) -> Option<T> {
        if value.is_none() {
            self.report(path, name, ViolationCode::InvalidFormat, detail);
        }
        value
    }

    pub(super) fn email(
        &mut self,
        path: &str,
        name: &str,
        text: Option<String>,
    ) -> Option<EmailAddress> {
        self.read(path, name, EmailAddress::try_from(text?).ok(), "must be an e-mail address")
    }

    pub(super) fn optional_email(
        &mut self,
        path: &str,
        name: &str,
        field: Field<String>,
    ) -> Option<EmailAddress> {
        let text = self.optional_text(path, name, field, &TextRule::EMAIL);
        self.email(path, name, text)
    }

    pub(super) fn required_email(
        &mut self,
        path: &str,
        name: &str,
        field: Field<String>,
    ) -> Option<EmailAddress> {
        let text = self.required_text(path, name, field, &TextRule::EMAIL);
        self.email(path, name, text)
    }

    pub(super) fn positive(&mut self, path: &str, name: &str, id: Option<i64>) -> Option<i64> {
        if id.is_some_and(|id| id < 1) {
            self.report(path, name, ViolationCode::OutOfRange, "must be a positive integer");
            return None;
        }
        id
    }

    pub(super) fn optional_id(&mut self, path: &str, name: &str, field: Field<i64>) -> Option<i64> {
        let id = self.optional(path, name, field);
        self.positive(path, name, id)
    }

    pub(super) fn required_id(&mut self, path: &str, name: &str, field: Field<i64>) -> Option<i64> {
        let id = self.required(path, name, field);
        self.positive(path, name, id)
    }

    pub(super) fn money(&mut self, path: &str, name: &str, field: Field<f64>) -> Option<Money> {
        match Money::from_number(self.optional(path, name, field)?) {
            Ok(money) => Some(money),
            Err(error) => {
                self.report(path, name, ViolationCode::OutOfRange, error.to_string());
                None
            }
        }
    }

    pub(super) fn utc(&mut self, name: &str, field: Field<String>) -> Option<OffsetDateTime> {
        let text = self.optional_text("", name, field, &TextRule::SHORT)?;
        self.read(
            "",
            name,
            appointment::parse_utc(&text),
            "must be an ISO 8601 datetime in UTC, such as 2026-12-01T19:30:00Z",
        )
    }

    pub(super) fn contact(
        &mut self,
        path: &str,
        name: &str,
        field: Field<ContactRequest>,
    ) -> Option<Contact> {
        let contact = self.optional(path, name, field)?;
        let path = format!("{path}/{name}");
        let contact = Contact {
            name: self.optional_text(&path, "contact_name", contact.contact_name, &TextRule::NAME),
            phone: self.optional_text(
                &path,
                "contact_phone",
                contact.contact_phone,
                &TextRule::PHONE,
            ),
            email: self.optional_email(&path, "contact_email", contact.contact_email),
        };
        (contact.name.is_some() || contact.phone.is_some() || contact.email.is_some())
            .then_some(contact)
    }
}
