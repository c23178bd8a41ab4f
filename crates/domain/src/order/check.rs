//! Reads the fields of a request one by one and collects every violation.

use std::borrow::Cow;

use time::OffsetDateTime;

use super::{
    Contact, EmailAddress, Field, JsonNumber, JsonType, Money, Violation, ViolationCode,
    request::ContactRequest, text::text_rule,
};
use crate::appointment;

/// An object of the request: where it stands, and which schema of the API describes it.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    /// JSON Pointer to the object.
    pub(super) path: &'a str,
    /// Name of the schema, by which [`text_rule`] finds the rules of its fields.
    pub(super) schema: &'static str,
}

impl Section<'_> {
    pub(super) const ROOT: Self = Self { path: "", schema: "OrderRequest" };
}

/// Collects violations. A reader that reports one returns `None`.
#[derive(Default)]
pub(super) struct Check {
    pub(super) violations: Vec<Violation>,
    pub(super) utc_disagreements: Vec<&'static str>,
}

impl Check {
    pub(super) fn report(
        &mut self,
        section: Section<'_>,
        name: &str,
        code: ViolationCode,
        detail: impl Into<Cow<'static, str>>,
    ) {
        self.violations.push(Violation {
            pointer: format!("{}/{name}", section.path).into(),
            code,
            detail: detail.into(),
        });
    }

    pub(super) fn optional<T: for<'de> JsonType<'de>>(
        &mut self,
        section: Section<'_>,
        name: &str,
        field: Field<T>,
    ) -> Option<T> {
        match field {
            Field::Absent => None,
            Field::Value(value) => Some(value),
            Field::Mistyped => {
                self.report(
                    section,
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
        section: Section<'_>,
        name: &str,
        field: Field<T>,
    ) -> Option<T> {
        if matches!(field, Field::Absent) {
            self.report(section, name, ViolationCode::Required, "is required");
        }
        self.optional(section, name, field)
    }

    fn ruled(&mut self, section: Section<'_>, name: &str, text: &str) -> Option<String> {
        match text_rule(section.schema, name).check(text) {
            Ok(()) => Some(text.to_owned()),
            Err((code, detail)) => {
                self.report(section, name, code, detail);
                None
            }
        }
    }

    pub(super) fn optional_text(
        &mut self,
        section: Section<'_>,
        name: &str,
        field: Field<String>,
    ) -> Option<String> {
        let text = self.optional(section, name, field)?;
        let text = text.trim();
        if text.is_empty() { None } else { self.ruled(section, name, text) }
    }

    pub(super) fn required_text(
        &mut self,
        section: Section<'_>,
        name: &str,
        field: Field<String>,
    ) -> Option<String> {
        let text = self.required(section, name, field)?;
        let text = text.trim();
        if text.is_empty() {
            self.report(section, name, ViolationCode::Blank, "must not be blank");
            return None;
        }
        self.ruled(section, name, text)
    }

    pub(super) fn read<T>(
        &mut self,
        section: Section<'_>,
        name: &str,
        value: Option<T>,
        detail: &'static str,
    ) -> Option<T> {
        if value.is_none() {
            self.report(section, name, ViolationCode::InvalidFormat, detail);
        }
        value
    }

    pub(super) fn email(
        &mut self,
        section: Section<'_>,
        name: &str,
        text: Option<String>,
    ) -> Option<EmailAddress> {
        self.read(section, name, EmailAddress::try_from(text?).ok(), "must be an e-mail address")
    }

    pub(super) fn optional_email(
        &mut self,
        section: Section<'_>,
        name: &str,
        field: Field<String>,
    ) -> Option<EmailAddress> {
        let text = self.optional_text(section, name, field);
        self.email(section, name, text)
    }

    pub(super) fn required_email(
        &mut self,
        section: Section<'_>,
        name: &str,
        field: Field<String>,
    ) -> Option<EmailAddress> {
        let text = self.required_text(section, name, field);
        self.email(section, name, text)
    }

    pub(super) fn positive(
        &mut self,
        section: Section<'_>,
        name: &str,
        id: Option<i64>,
    ) -> Option<i64> {
        if id.is_some_and(|id| id < 1) {
            self.report(section, name, ViolationCode::OutOfRange, "must be a positive integer");
            return None;
        }
        id
    }

    pub(super) fn optional_id(
        &mut self,
        section: Section<'_>,
        name: &str,
        field: Field<i64>,
    ) -> Option<i64> {
        let id = self.optional(section, name, field);
        self.positive(section, name, id)
    }

    pub(super) fn required_id(
        &mut self,
        section: Section<'_>,
        name: &str,
        field: Field<i64>,
    ) -> Option<i64> {
        let id = self.required(section, name, field);
        self.positive(section, name, id)
    }

    pub(super) fn money(
        &mut self,
        section: Section<'_>,
        name: &str,
        field: Field<JsonNumber>,
    ) -> Option<Money> {
        match self.optional(section, name, field)?.to_money() {
            Ok(money) => Some(money),
            Err(error) => {
                self.report(section, name, ViolationCode::OutOfRange, error.to_string());
                None
            }
        }
    }

    pub(super) fn utc(&mut self, name: &str, field: Field<String>) -> Option<OffsetDateTime> {
        let text = self.optional_text(Section::ROOT, name, field)?;
        self.read(
            Section::ROOT,
            name,
            appointment::parse_utc(&text),
            "must be an ISO 8601 datetime in UTC, such as 2026-12-01T19:30:00Z",
        )
    }

    pub(super) fn contact(
        &mut self,
        section: Section<'_>,
        name: &str,
        field: Field<ContactRequest>,
    ) -> Option<Contact> {
        let contact = self.optional(section, name, field)?;
        let path = format!("{}/{name}", section.path);
        let section = Section { path: &path, schema: "ContactRequest" };
        let contact = Contact {
            name: self.optional_text(section, "contact_name", contact.contact_name),
            phone: self.optional_text(section, "contact_phone", contact.contact_phone),
            email: self.optional_email(section, "contact_email", contact.contact_email),
        };
        (contact.name.is_some() || contact.phone.is_some() || contact.email.is_some())
            .then_some(contact)
    }
}
