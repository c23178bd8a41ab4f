use bigdecimal::{BigDecimal, ToPrimitive as _};
use diesel::{
    pg::Pg,
    prelude::{Insertable, Queryable, Selectable},
};
use domain::{
    appointment::{Appointment, AppointmentTime, Moment, Zone},
    order::{
        Address, CoSigner, EmailAddress, FileNumber, Invoice, Money, Order, OrderId, OrderStatus,
        Signer, SigningContacts, SigningLocation, SigningServiceId, StoredOrder,
    },
    ports::NewOrder,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use time::{Date, OffsetDateTime, Time};

use super::{Column, DocumentRow};
use crate::{
    failure::{Failure, Unreadable},
    schema::orders,
};

/// Hands the columns of an order, but for its identifier, to a macro.
macro_rules! with_order_columns {
    ($macro:ident) => {
        $macro! {
            signing_service_id: i64,
            file_number: String,
            order_contact_email: String,
            client_company_id: Option<i64>,
            observer_email: Option<String>,
            in_house_contact: Option<Value>,
            in_house_contact2: Option<Value>,
            signing_date: Date,
            time_zone_id: String,
            signing_time_type: String,
            start_time: Option<Time>,
            start_utc: Option<OffsetDateTime>,
            end_time: Option<Time>,
            end_utc: Option<OffsetDateTime>,
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
            loan_officer: Option<Value>,
            invoice_recipient: Option<Value>,
            invoice_name: Option<String>,
            invoice_phone: Option<String>,
            invoice_email: Option<String>,
            invoice_fee: Option<BigDecimal>,
            notary_pay: Option<BigDecimal>,
            requested_by: Value,
            status: String,
            notary_id: Option<i64>,
            created_at: OffsetDateTime,
            updated_at: OffsetDateTime,
            is_test: bool,
        }
    };
}
pub(crate) use with_order_columns;

macro_rules! order_row {
    ($($column:ident: $type:ty,)+) => {
        /// An order but for its identifier and its documents.
        #[derive(Insertable, Queryable, Selectable)]
        #[diesel(table_name = orders, check_for_backend(Pg))]
        pub(crate) struct OrderRow {
            $(pub(crate) $column: $type,)+
        }
    };
}

with_order_columns!(order_row);

impl OrderRow {
    pub(crate) fn new(new: &NewOrder) -> Result<Self, Failure> {
        Ok(Self {
            is_test: new.is_test,
            ..Self::with(
                new.order.clone(),
                OrderStatus::New,
                None,
                (new.created_at, new.created_at),
            )?
        })
    }

    pub(crate) fn of(stored: StoredOrder) -> Result<Self, Failure> {
        let is_test = stored.is_test;
        Ok(Self {
            is_test,
            ..Self::with(
                stored.order,
                stored.status,
                stored.notary_id,
                (stored.created_at, stored.updated_at),
            )?
        })
    }

    fn with(
        order: Order,
        status: OrderStatus,
        notary_id: Option<i64>,
        (created_at, updated_at): (OffsetDateTime, OffsetDateTime),
    ) -> Result<Self, Failure> {
        let (signing_time_type, start, end) = time_columns(order.appointment.time);
        let (start_time, start_utc) = moment_columns(start);
        let (end_time, end_utc) = moment_columns(end);
        Ok(Self {
            signing_service_id: order.signing_service_id.0,
            file_number: order.file_number.as_str().to_owned(),
            order_contact_email: order.contacts.order_contact_email.into(),
            client_company_id: order.contacts.client_company_id,
            observer_email: order.contacts.observer.map(String::from),
            in_house_contact: optional_json(order.contacts.in_house_contact.as_ref())?,
            in_house_contact2: optional_json(order.contacts.in_house_contact2.as_ref())?,
            signing_date: order.appointment.date,
            time_zone_id: order.appointment.zone.id().to_owned(),
            signing_time_type: signing_time_type.to_owned(),
            start_time,
            start_utc,
            end_time,
            end_utc,
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
            invoice_fee: order.invoice.fee.map(decimal),
            notary_pay: order.invoice.notary_pay.map(decimal),
            requested_by: json(&order.requested_by)?,
            status: status.as_str().to_owned(),
            notary_id,
            created_at,
            updated_at,
            is_test: false,
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
            created_at: self.created_at,
            updated_at: self.updated_at,
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
                fee: read_money(self.invoice_fee, "invoice_fee")?,
                notary_pay: read_money(self.notary_pay, "notary_pay")?,
            },
            requested_by: serde_json::from_value(self.requested_by)
                .map_err(|_| Column("requested_by"))?,
        })
    }

    fn appointment(&self) -> Result<Appointment, Column> {
        let start = || read_moment(self.start_time, self.start_utc).ok_or(Column("start_time"));
        let end = || read_moment(self.end_time, self.end_utc).ok_or(Column("end_time"));
        Ok(Appointment {
            date: self.signing_date,
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

fn moment_columns(moment: Option<Moment>) -> (Option<Time>, Option<OffsetDateTime>) {
    moment.map(|moment| (moment.local, moment.utc)).unzip()
}

fn read_moment(local: Option<Time>, utc: Option<OffsetDateTime>) -> Option<Moment> {
    Some(Moment { local: local?, utc: utc? })
}

fn json<T: Serialize>(value: &T) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::Unstorable(error.into()))
}

fn optional_json<T: Serialize>(value: Option<&T>) -> Result<Option<Value>, Failure> {
    value.map(json).transpose()
}

fn read_optional_json<T: DeserializeOwned>(
    value: Option<Value>,
    column: &'static str,
) -> Result<Option<T>, Column> {
    value.map(serde_json::from_value).transpose().map_err(|_| Column(column))
}

fn decimal(money: Money) -> BigDecimal {
    BigDecimal::new(money.cents().into(), 2)
}

fn read_money(amount: Option<BigDecimal>, column: &'static str) -> Result<Option<Money>, Column> {
    let cents = |amount: BigDecimal| {
        Money::from_cents(amount.with_scale(2).into_bigint_and_exponent().0.to_i64()?)
    };
    amount.map(|amount| cents(amount).ok_or(Column(column))).transpose()
}
