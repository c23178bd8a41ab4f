//! Examples of the requests; each creates an order when it is sent.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::{
    RefOr,
    example::{Example, ExampleBuilder},
};

/// Orders without documents, one for each way to say the time.
pub(super) fn orders() -> BTreeMap<String, RefOr<Example>> {
    let example = |summary: &str, value: Value| {
        RefOr::from(ExampleBuilder::new().summary(summary).value(Some(value)))
    };
    BTreeMap::from([
        ("at".to_owned(), example("A signing at 14:30, every field given", at())),
        (
            "between".to_owned(),
            example("A signing between 09:00 and 11:30, only what is required", between()),
        ),
    ])
}

fn at() -> Value {
    json!({
        "signingContactsFormData": {
            "orderContactEmail": "escrow@title.example.com",
            "clientCompanyId": 7,
            "observer": "lender@bank.example.com",
            "inHouseContact": { "contact_name": "Alex Smith", "contact_phone": "+1 555 010 0100", "contact_email": "alex.smith@title.example.com" },
            "inHouseContact2": { "contact_name": "Sam Jones", "contact_phone": "+1 555 010 0101 x12", "contact_email": "sam.jones@title.example.com" }
        },
        "signingDetailsFormData": {
            "fileNumber": "REFI-2026-001",
            "signingDate": "2026-12-01",
            "signingTimeType": "at",
            "specificTime": "14:30",
            "timeZoneId": "America/Chicago",
            "propertyAddress": "123 Main St, Dallas, TX 75201",
            "city": "Dallas",
            "state": "TX",
            "zipcode": "75201",
            "signingType": "Refinance",
            "signerName": "Jane Doe",
            "signerPhone": "+1 555 010 0199",
            "signerEmail": "jane.doe@example.com",
            "language": "en",
            "spouseName": "John Doe",
            "coSignerName": "Richard Roe",
            "coSignerSpouseName": "Mary Roe",
            "coSignerPhone": "+1 555 010 0142",
            "coSignerEmail": "richard.roe@example.com",
            "isPropertyAddressSame": false,
            "signingAddress": "500 Elm St, Suite 12",
            "signingCity": "Plano",
            "signingState": "TX",
            "signingZipcode": "75023",
            "esigningPlatform": "DocuSign",
            "scanbacksRequired": true,
            "ronSigning": false,
            "documentDelivery": "Email",
            "lender": "First Example Bank",
            "specialInstructions": "Call the signer an hour before.\nScanbacks by 18:00.",
            "loanOfficer": { "contact_name": "Lee Brown", "contact_email": "lee.brown@bank.example.com", "contact_phone": "+1 555 010 0120" },
            "invoiceOrderTo": {
                "company_name": "Example Title Company", "invoice_address": "77 Commerce St", "city": "Dallas", "state": "TX", "zipcode": "75202"
            },
            "invoiceName": "Accounts Payable",
            "invoicePhone": "+1 555 010 0150",
            "invoiceEmail": "billing@title.example.com",
            "invoiceFee": 150.5,
            "notaryPay": 100
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001, "userRole": "escrow_officer", "signingServiceId": 42 },
        "utcTimeDate": "2026-12-01T20:30:00Z"
    })
}

fn between() -> Value {
    json!({
        "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com" },
        "signingDetailsFormData": details_between("HELOC-2026-003"),
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001 }
    })
}

/// The parts of a form; a document is named where its file goes.
pub(super) fn form() -> Value {
    json!({
        "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com", "observer": "lender@bank.example.com" },
        "signingDetailsFormData": details_between("PURCHASE-2026-002"),
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001, "userRole": "escrow_officer", "signingServiceId": 42 },
        "documents": ["deed-of-trust.pdf"]
    })
}

fn details_between(file_number: &str) -> Value {
    json!({
        "fileNumber": file_number,
        "signingDate": "2026-12-02",
        "signingTimeType": "between",
        "startTime": "09:00",
        "endTime": "11:30",
        "timeZoneId": "America/New_York",
        "propertyAddress": "9 Elm St, Albany, NY 12207",
        "city": "Albany",
        "state": "NY",
        "zipcode": "12207",
        "signingType": "Purchase",
        "signerName": "John Roe",
        "signerPhone": "+1 555 010 0142",
        "signerEmail": "john.roe@example.com"
    })
}
