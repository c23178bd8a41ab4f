use diesel::{
    prelude::{Insertable, Queryable, Selectable},
    sqlite::Sqlite,
};
use domain::{
    appointment::{Appointment, AppointmentTime, Moment, Zone, parse_date, parse_time},
    order::{
        Address, CoSigner, EmailAddress, FileNumber, Invoice, Money, Order, OrderId, OrderStatus,
        Signer, SigningContacts, SigningLocation, SigningServiceId, StoredOrder,
    },
    ports::NewOrder,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{Column, DocumentRow, micros, read_instant};
use crate::{
    failure::{Failure, Unreadable},
    schema::orders,
};

/// An order but for its identifier and its documents.
#[derive(Insertable, Queryable, Selectable)]
// With `None` left out of the statement, it would have a text of its own for each set of fields,
// and be prepared anew.
#[diesel(table_name = orders, check_for_backend(Sqlite), treat_none_as_default_value = false)]
#[expect(clippy::struct_excessive_bools, reason = "the columns of the table")]
pub(crate) struct OrderRow {
    signing_service_id: i64,
    pub(crate) file_number: String,
    order_contact_email: String,
    client_company_id: Option<i64>,
    observer_email: Option<String>,
    in_house_contact: Option<String>,
    in_house_contact2: Option<String>,
    signing_date: String,
    time_zone_id: String,
    signing_time_type: String,
    start_time: Option<String>,
    start_utc_us: Option<i64>,
    end_time: Option<String>,
    end_utc_us: Option<i64>,
    property_address: String,
    property_city: String,
    property_state: String,
    property_zipcode: String,
    is_property_address_same: bool,
    signing_address: String,
    signing_city: Option<String>,
    signing_state: Option<String>,
    signing_zipcode: Option<String>,
    signing_type: String,
    signer_name: String,
    signer_phone: String,
    signer_email: String,
    spouse_name: Option<String>,
    co_signer_name: Option<String>,
    co_signer_spouse_name: Option<String>,
    co_signer_phone: Option<String>,
    co_signer_email: Option<String>,
    language: String,
    esigning_platform: Option<String>,
    scanbacks_required: bool,
    ron_signing: bool,
    document_delivery: Option<String>,
    lender: Option<String>,
    special_instructions: Option<String>,
    loan_officer: Option<String>,
    invoice_recipient: Option<String>,
    invoice_name: Option<String>,
    invoice_phone: Option<String>,
    invoice_email: Option<String>,
    invoice_fee_cents: Option<i64>,
    notary_pay_cents: Option<i64>,
    requested_by: String,
    status: String,
    notary_id: Option<i64>,
    created_at_us: i64,
    updated_at_us: i64,
    pub(crate) is_test: bool,
}

impl OrderRow {
    pub(crate) fn new(new: &NewOrder) -> Result<Self, Failure> {
        let order = new.order.clone();
        let (signing_time_type, start, end) = time_columns(order.appointment.time);
        let (start_time, start_utc_us) = moment_columns(start);
        let (end_time, end_utc_us) = moment_columns(end);
        Ok(Self {
            signing_service_id: order.signing_service_id.0,
            file_number: order.file_number.as_str().to_owned(),
            order_contact_email: order.contacts.order_contact_email.into(),
            client_company_id: order.contacts.client_company_id,
            observer_email: order.contacts.observer.map(String::from),
            in_house_contact: optional_json(order.contacts.in_house_contact.as_ref())?,
            in_house_contact2: optional_json(order.contacts.in_house_contact2.as_ref())?,
            signing_date: order.appointment.date.to_string(),
            time_zone_id: order.appointment.zone.id().to_owned(),
            signing_time_type: signing_time_type.to_owned(),
            start_time,
            start_utc_us,
            end_time,
            end_utc_us,
            property_address: order.property.address,
            property_city: order.property.city,
            property_state: order.property.state,
            property_zipcode: order.property.zipcode,
            is_property_address_same: order.signing_location.is_property,
            signing_address: order.signing_location.address,
            signing_city: order.signing_location.city,
            signing_state: order.signing_location.state,
            signing_zipcode: order.signing_location.zipcode,
            signing_type: order.signing_type,
            signer_name: order.signer.name,
            signer_phone: order.signer.phone,
            signer_email: order.signer.email.into(),
            spouse_name: order.signer.spouse_name,
            co_signer_name: order.co_signer.name,
            co_signer_spouse_name: order.co_signer.spouse_name,
            co_signer_phone: order.co_signer.phone,
            co_signer_email: order.co_signer.email.map(String::from),
            language: order.language,
            esigning_platform: order.esigning_platform,
            scanbacks_required: order.scanbacks_required,
            ron_signing: order.ron_signing,
            document_delivery: order.document_delivery,
            lender: order.lender,
            special_instructions: order.special_instructions,
            loan_officer: optional_json(order.loan_officer.as_ref())?,
            invoice_recipient: optional_json(order.invoice.recipient.as_ref())?,
            invoice_name: order.invoice.name,
            invoice_phone: order.invoice.phone,
            invoice_email: order.invoice.email.map(String::from),
            invoice_fee_cents: order.invoice.fee.map(Money::cents),
            notary_pay_cents: order.invoice.notary_pay.map(Money::cents),
            requested_by: json(&order.requested_by)?,
            status: OrderStatus::New.as_str().to_owned(),
            notary_id: None,
            created_at_us: micros(new.created_at),
            updated_at_us: micros(new.created_at),
            is_test: new.is_test,
        })
    }

    pub(crate) fn into_stored(
        self,
        id: OrderId,
        documents: Vec<DocumentRow>,
    ) -> Result<StoredOrder, Unreadable> {
        let documents =
            documents.into_iter().map(DocumentRow::into_document).collect::<Result<_, _>>()?;
        let unreadable = |column: Column| column.of("orders", id.0);
        let known_status = self.status == OrderStatus::New.as_str();
        Ok(StoredOrder {
            id,
            status: if known_status {
                OrderStatus::New
            } else {
                return Err(unreadable(Column("status")));
            },
            notary_id: self.notary_id,
            documents,
            is_test: self.is_test,
            created_at: read_instant(self.created_at_us, "created_at_us").map_err(unreadable)?,
            updated_at: read_instant(self.updated_at_us, "updated_at_us").map_err(unreadable)?,
            order: self.into_order().map_err(unreadable)?,
        })
    }

    fn into_order(self) -> Result<Order, Column> {
        let appointment = self.appointment()?;
        Ok(Order {
            signing_service_id: SigningServiceId(self.signing_service_id),
            contacts: SigningContacts {
                order_contact_email: EmailAddress::from_stored(self.order_contact_email),
                client_company_id: self.client_company_id,
                observer: self.observer_email.map(EmailAddress::from_stored),
                in_house_contact: read_optional_json(self.in_house_contact, "in_house_contact")?,
                in_house_contact2: read_optional_json(self.in_house_contact2, "in_house_contact2")?,
            },
            file_number: FileNumber::try_from(self.file_number)
                .map_err(|_| Column("file_number"))?,
            appointment,
            property: Address {
                address: self.property_address,
                city: self.property_city,
                state: self.property_state,
                zipcode: self.property_zipcode,
            },
            signing_location: SigningLocation {
                is_property: self.is_property_address_same,
                address: self.signing_address,
                city: self.signing_city,
                state: self.signing_state,
                zipcode: self.signing_zipcode,
            },
            signing_type: self.signing_type,
            signer: Signer {
                name: self.signer_name,
                phone: self.signer_phone,
                email: EmailAddress::from_stored(self.signer_email),
                spouse_name: self.spouse_name,
            },
            co_signer: CoSigner {
                name: self.co_signer_name,
                spouse_name: self.co_signer_spouse_name,
                phone: self.co_signer_phone,
                email: self.co_signer_email.map(EmailAddress::from_stored),
            },
            language: self.language,
            esigning_platform: self.esigning_platform,
            scanbacks_required: self.scanbacks_required,
            ron_signing: self.ron_signing,
            document_delivery: self.document_delivery,
            lender: self.lender,
            special_instructions: self.special_instructions,
            loan_officer: read_optional_json(self.loan_officer, "loan_officer")?,
            invoice: Invoice {
                recipient: read_optional_json(self.invoice_recipient, "invoice_recipient")?,
                name: self.invoice_name,
                phone: self.invoice_phone,
                email: self.invoice_email.map(EmailAddress::from_stored),
                fee: read_money(self.invoice_fee_cents, "invoice_fee_cents")?,
                notary_pay: read_money(self.notary_pay_cents, "notary_pay_cents")?,
            },
            requested_by: serde_json::from_str(&self.requested_by)
                .map_err(|_| Column("requested_by"))?,
        })
    }

    fn appointment(&self) -> Result<Appointment, Column> {
        let start = || {
            read_moment(self.start_time.as_deref(), self.start_utc_us).ok_or(Column("start_time"))
        };
        let end =
            || read_moment(self.end_time.as_deref(), self.end_utc_us).ok_or(Column("end_time"));
        Ok(Appointment {
            date: parse_date(&self.signing_date).ok_or(Column("signing_date"))?,
            zone: Zone::named(&self.time_zone_id).ok_or(Column("time_zone_id"))?,
            time: match self.signing_time_type.as_str() {
                "at" => AppointmentTime::At(start()?),
                "between" => AppointmentTime::Between { start: start()?, end: end()? },
                "anytime" => AppointmentTime::Anytime,
                _ => return Err(Column("signing_time_type")),
            },
        })
    }
}

fn time_columns(time: AppointmentTime) -> (&'static str, Option<Moment>, Option<Moment>) {
    match time {
        AppointmentTime::At(moment) => ("at", Some(moment), None),
        AppointmentTime::Between { start, end } => ("between", Some(start), Some(end)),
        AppointmentTime::Anytime => ("anytime", None, None),
    }
}

fn moment_columns(moment: Option<Moment>) -> (Option<String>, Option<i64>) {
    moment
        .map(|moment| {
            (format!("{:02}:{:02}", moment.local.hour(), moment.local.minute()), micros(moment.utc))
        })
        .unzip()
}

fn read_moment(local: Option<&str>, utc: Option<i64>) -> Option<Moment> {
    Some(Moment { local: parse_time(local?)?, utc: super::instant(utc?)? })
}

fn json<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Unstorable(error.into()))
}

fn optional_json<T: Serialize>(value: Option<&T>) -> Result<Option<String>, Failure> {
    value.map(json).transpose()
}

fn read_optional_json<T: DeserializeOwned>(
    text: Option<String>,
    column: &'static str,
) -> Result<Option<T>, Column> {
    text.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| Column(column))
}

fn read_money(cents: Option<i64>, column: &'static str) -> Result<Option<Money>, Column> {
    cents.map(|cents| Money::from_cents(cents).ok_or(Column(column))).transpose()
}
