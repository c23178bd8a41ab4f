//! Rows of signing services.

use diesel::prelude::*;
use domain::{
    order::{EmailAddress, SigningServiceId},
    signing_service::SigningService,
};

use crate::{Unreadable, schema::signing_services, text::Lossy};

/// The record of a signing service.
#[derive(AsChangeset, Insertable, Queryable, Selectable)]
#[diesel(table_name = signing_services)]
pub struct ServiceRow {
    id: i64,
    #[diesel(deserialize_as = Lossy)]
    name: String,
    #[diesel(deserialize_as = Lossy)]
    emails: String,
}

impl From<&SigningService> for ServiceRow {
    fn from(service: &SigningService) -> Self {
        let emails: Vec<_> = service.emails.iter().map(EmailAddress::as_str).collect();
        Self { id: service.id.0, name: service.name.clone(), emails: emails.join(" ") }
    }
}

impl ServiceRow {
    /// Returns the service.
    ///
    /// # Errors
    /// None: every row can be read.
    pub fn into_service(self) -> Result<SigningService, Unreadable> {
        let emails = self.emails.split_ascii_whitespace().map(str::to_owned);
        Ok(SigningService {
            id: SigningServiceId(self.id),
            name: self.name,
            emails: emails.map(EmailAddress::from_stored).collect(),
        })
    }
}
