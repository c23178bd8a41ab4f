//! The stored form of an order, shared by every database.
//!
//! A database has columns for what is searched, joined, ordered or changed by other systems. The
//! rest of an order is one JSON object, the *details*. This module, and the `serde` names in
//! [`order`](super), alone define its members:
//!
//! ```json
//! {"v":1,"date":"2026-12-01","zone":"America/Chicago","at":"14:30","email":"escrow@…",
//!  "property":{"address":"…","city":"…","state":"TX","zip":"75201"},
//!  "type":"Refinance","signer":{"name":"…","phone":"…","email":"…"},"user":1001}
//! ```
//!
//! - `v` is the version of the format. Every version is read for ever; golden files in
//!   `crates/domain/golden` pin each of them.
//! - A new optional member needs no new version: a reader ignores members that it does not know.
//!   So an older instance reads what a newer one wrote.
//! - Absent optional values are left out. So is a member with the default of spec section 2.3:
//!   `same`, `scanbacks`, `ron`, `lang`. Amounts are whole cents.

use serde::{Deserialize, Serialize};
use time::{Date, OffsetDateTime, Time, UtcOffset};

use super::{
    Address, CoSigner, FileNumber, Invoice, Order, RequestedBy, Signer, SigningContacts,
    SigningDetails, SigningServiceId, default_language,
};
use crate::{
    appointment::{Appointment, AppointmentTime, Moment, Zone, parse_date, parse_time},
    people::EmailAddress,
    trace_context::TraceContext,
};

/// The version that this program writes.
const VERSION: u8 = 1;

/// The members of `details` with an e-mail address, as paths.
pub const ADDRESSES: [&[&str]; 8] = [
    &["email"],
    &["observer"],
    &["in_house", "email"],
    &["in_house2", "email"],
    &["signer", "email"],
    &["co_signer", "email"],
    &["loan_officer", "email"],
    &["invoice", "email"],
];

/// An order as the columns of a database.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderColumns {
    /// Identifier of the signing service.
    pub signing_service_id: i64,
    /// File number in the form in which it is compared. The details have another form that was sent.
    pub file_number: String,
    /// The specific time, or the start of the time range, in UTC.
    #[serde(with = "time::serde::timestamp::option")]
    pub starts_at: Option<OffsetDateTime>,
    /// The end of the time range in UTC.
    #[serde(with = "time::serde::timestamp::option")]
    pub ends_at: Option<OffsetDateTime>,
    /// The rest of the order as JSON text.
    pub details: String,
}

/// The reason why a record is no order. Contains no value of the record, so it is safe to log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableOrder {
    /// The details are not JSON of a known version with all required members.
    #[error("`details` is not a readable order: {0}")]
    Details(String),
    /// A column does not hold what the details or the domain need.
    #[error("`{0}` does not hold what the order needs")]
    Column(&'static str),
}

/// The members of `details` as they are written. Each group is read alone, because `serde` copies
/// every member of flattened groups.
#[derive(Serialize)]
struct Details<'a> {
    #[serde(flatten)]
    head: Head,
    #[serde(flatten)]
    contacts: &'a SigningContacts,
    #[serde(flatten)]
    signing: &'a SigningDetails,
    #[serde(flatten)]
    requested_by: &'a RequestedBy,
}

/// The version, the appointment on the wall clock with times as `HH:MM`, and the trace of the
/// request. Exactly one of `at`, `from` with `to`, and `anytime` is there.
#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(rename = "v")]
    version: u8,
    date: String,
    zone: String,
    #[serde(rename = "at", skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(rename = "from", skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(rename = "to", skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(rename = "anytime", skip_serializing_if = "Option::is_none")]
    anytime: Option<bool>,
    #[serde(rename = "trace", skip_serializing_if = "Option::is_none")]
    trace: Option<TraceContext>,
    /// The file number as it was sent, if its column has another form.
    #[serde(rename = "number", skip_serializing_if = "Option::is_none")]
    number: Option<String>,
}

impl OrderColumns {
    /// Returns the columns of an order.
    ///
    /// # Errors
    /// `serde_json` cannot write a value. The types of this version have no such value.
    pub fn of(order: &Order) -> Result<Self, serde_json::Error> {
        let Appointment { date, zone, time } = &order.appointment;
        let [at, from, to] = time.moments();
        let local = |moment: Option<Moment>| moment.map(|moment| hh_mm(moment.local));
        let sent = order.file_number.as_str();
        let file_number = FileNumber::comparable(sent);
        let head = Head {
            version: VERSION,
            date: date.to_string(),
            zone: zone.id().to_owned(),
            at: local(at),
            from: local(from),
            to: local(to),
            anytime: (*time == AppointmentTime::Anytime).then_some(true),
            trace: order.trace.clone(),
            number: (file_number != sent).then(|| sent.to_owned()),
        };
        let details = serde_json::to_string(&Details {
            head,
            contacts: &order.contacts,
            signing: &order.signing,
            requested_by: &order.requested_by,
        })?;
        Ok(Self {
            signing_service_id: order.signing_service_id.0,
            file_number,
            starts_at: at.or(from).map(|moment| moment.utc),
            ends_at: to.map(|moment| moment.utc),
            details,
        })
    }

    /// Returns the order of a record.
    ///
    /// # Errors
    /// The record does not hold an order of a known version. A missing value is never guessed.
    pub fn into_order(self) -> Result<Order, UnreadableOrder> {
        let head: Head = self.read()?;
        if head.version != VERSION {
            return Err(UnreadableOrder::Details(format!("version {}", head.version)));
        }
        // Another system may have changed the column.
        let sent = head.number.clone().filter(|it| FileNumber::comparable(it) == self.file_number);
        let bad = |member: &str| UnreadableOrder::Details(format!("member `{member}`"));
        Ok(Order {
            signing_service_id: SigningServiceId(self.signing_service_id),
            contacts: self.read()?,
            signing: self.read()?,
            requested_by: self.read()?,
            trace: head.trace.clone(),
            appointment: Appointment {
                date: parse_date(&head.date).ok_or_else(|| bad("date"))?,
                zone: Zone::from_stored(&head.zone).ok_or_else(|| bad("zone"))?,
                time: head.time(self.starts_at, self.ends_at)?,
            },
            file_number: FileNumber::new(sent.unwrap_or(self.file_number))
                .ok_or(UnreadableOrder::Column("file_number"))?,
        })
    }

    /// Returns the order on a date as far as its columns know it, for lists: its details cannot be read. Their
    /// texts are empty, and its times are in UTC.
    pub fn known(self, date: Date) -> Order {
        let moment =
            |utc: OffsetDateTime| Moment { local: utc.to_offset(UtcOffset::UTC).time(), utc };
        let empty = || EmailAddress::from_stored(String::new());
        let [address, city, state, zipcode] = [const { String::new() }; 4];
        Order {
            signing_service_id: SigningServiceId(self.signing_service_id),
            file_number: FileNumber::unchecked(self.file_number),
            appointment: Appointment {
                date,
                zone: Zone::utc(),
                time: match (self.starts_at.map(moment), self.ends_at.map(moment)) {
                    (Some(start), Some(end)) => AppointmentTime::Between { start, end },
                    (Some(at), None) => AppointmentTime::At(at),
                    (None, _) => AppointmentTime::Anytime,
                },
            },
            contacts: SigningContacts {
                order_contact_email: empty(),
                client_company_id: None,
                observer: None,
                in_house_contact: None,
                in_house_contact2: None,
            },
            signing: SigningDetails {
                property: Address { address, city, state, zipcode },
                is_property_address_same: true,
                location: None,
                signing_type: String::new(),
                signer: Signer {
                    name: String::new(),
                    phone: String::new(),
                    email: empty(),
                    spouse_name: None,
                },
                co_signer: CoSigner::default(),
                language: default_language(),
                esigning_platform: None,
                scanbacks_required: false,
                ron_signing: false,
                document_delivery: None,
                lender: None,
                special_instructions: None,
                loan_officer: None,
                invoice: Invoice::default(),
            },
            requested_by: RequestedBy { user_id: 0, user_role: None, signing_service_id: None },
            trace: None,
        }
    }

    /// Reads a group of the details.
    fn read<'de, Group: Deserialize<'de>>(&'de self) -> Result<Group, UnreadableOrder> {
        serde_json::from_str(&self.details).map_err(|error| explain(&error))
    }
}

impl Head {
    fn time(
        self,
        starts_at: Option<OffsetDateTime>,
        ends_at: Option<OffsetDateTime>,
    ) -> Result<AppointmentTime, UnreadableOrder> {
        let moment = |local: &str, utc: Option<OffsetDateTime>, column| {
            let local = parse_time(local)
                .ok_or_else(|| UnreadableOrder::Details("a time of the appointment".to_owned()))?;
            Ok(Moment { local, utc: utc.ok_or(UnreadableOrder::Column(column))? })
        };
        match (self.at.as_deref(), self.from.as_deref(), self.to.as_deref(), self.anytime) {
            (Some(at), None, None, None) => {
                Ok(AppointmentTime::At(moment(at, starts_at, "starts_at")?))
            }
            (None, Some(from), Some(to), None) => Ok(AppointmentTime::Between {
                start: moment(from, starts_at, "starts_at")?,
                end: moment(to, ends_at, "ends_at")?,
            }),
            (None, None, None, Some(true)) => Ok(AppointmentTime::Anytime),
            _ => Err(UnreadableOrder::Details("the times of the appointment".to_owned())),
        }
    }
}

/// Writes a time as `HH:MM`.
pub fn hh_mm(time: Time) -> String {
    format!("{:02}:{:02}", time.hour(), time.minute())
}

/// Keeps the name of a missing member. Other texts of `serde_json` may quote a value.
fn explain(error: &serde_json::Error) -> UnreadableOrder {
    let text = error.to_string();
    let safe = text.starts_with("missing field");
    UnreadableOrder::Details(if safe { text } else { "wrong type or syntax".to_owned() })
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
