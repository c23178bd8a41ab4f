//! Orders as clients send them.

use std::fmt::Write as _;

use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

/// Returns a request with every required field.
pub fn order(file_number: &str) -> Value {
    json!({
        "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com" },
        "signingDetailsFormData": {
            "fileNumber": file_number, "signingType": "Refinance", "signingDate": "2026-12-01",
            "signingTimeType": "at", "specificTime": "14:30", "timeZoneId": "America/Chicago",
            "propertyAddress": "123 Main St, Dallas, TX 75201",
            "city": "Dallas", "state": "TX", "zipcode": "75201",
            "signerName": "Jane Doe", "signerPhone": "+1 555 010 0199",
            "signerEmail": "jane.doe@example.com"
        },
        "signingServiceId": 42,
        "requestedBy": { "userId": 1001, "userRole": "escrow_officer", "signingServiceId": 42 }
    })
}

/// Returns a form with the text parts of an order and no documents.
pub fn form(order: &Value) -> Form {
    let mut form = Form::new();
    for (name, value) in order.as_object().unwrap() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        form = form.text(name.clone(), text);
    }
    form
}

/// Returns a file part.
pub fn file(name: &str, content: impl Into<Vec<u8>>) -> Part {
    Part::bytes(content.into()).file_name(name.to_owned())
}

/// Adds documents with the same content to a form.
pub fn with_documents(form: Form, count: usize, content: &[u8]) -> Form {
    (0..count)
        .fold(form, |form, at| form.part("documents", file(&format!("{at}.pdf"), content.to_vec())))
}

/// Returns a form with one valid document.
pub fn form_with_deed(file_number: &str) -> Form {
    form(&order(file_number)).part("documents", file("deed.pdf", deed()))
}

/// Returns the content of a valid PDF document.
pub fn deed() -> Vec<u8> {
    contract_tests::documents::bytes("deed-of-trust.pdf")
}

/// Returns the text parts of an order as form bytes with boundary `b`, without the end of the form.
pub fn raw_order_parts(file_number: &str) -> String {
    let mut parts = String::new();
    for (name, value) in order(file_number).as_object().unwrap() {
        write!(parts, "--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
            .unwrap();
    }
    parts
}

/// Returns the bytes of a form with boundary `b` and one valid document.
pub fn raw_form_with_deed(file_number: &str) -> Vec<u8> {
    let head =
        "--b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"deed.pdf\"\r\n\r\n";
    [raw_order_parts(file_number).as_bytes(), head.as_bytes(), &deed(), b"\r\n--b--\r\n"].concat()
}
