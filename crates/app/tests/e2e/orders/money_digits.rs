//! Amounts of money are read from the digits of the JSON number, never through a float.

use reqwest::{Response, header, multipart::Form};
use serde_json::{Value, json};

use crate::{
    harness::{CREATE, TestApp, created, deed, errors, file, order, problem},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    exact_amounts_are_accepted_in_any_notation,
}

/// Both amounts of an order.
const FIELDS: [&str; 2] = ["invoiceFee", "notaryPay"];

/// Sends an order with this number as both amounts, to each operation.
async fn send(app: &TestApp, number: &str) -> [Response; 2] {
    let with_amounts = |file_number: &str| {
        let mut order = order(file_number);
        for field in FIELDS {
            order["signingDetailsFormData"][field] = json!("AMOUNT");
        }
        order
    };
    // A JSON library would change the digits.
    let text = |value: &Value| value.to_string().replace("\"AMOUNT\"", number);
    let json = app
        .post(CREATE)
        .header(header::CONTENT_TYPE, "application/json")
        .body(text(&with_amounts("F-json")));
    let mut form = Form::new().part("documents", file("deed.pdf", deed()));
    for (name, value) in with_amounts("F-form").as_object().unwrap() {
        form = form.text(name.clone(), text(value));
    }
    [json.send().await.unwrap(), app.create_with(form).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn inexact_or_huge_amounts_are_rejected() {
    let app = TestApp::start().await;
    let decimals = format!("150.{}", "3".repeat(5_000));
    for number in ["1e-999999999", "-1e-400", "1e999999999", &decimals] {
        for response in send(&app, number).await {
            let body = problem(response, 400, "validation_failed").await;
            let mut pointers: Vec<_> =
                errors(&body).into_iter().map(|(pointer, _)| pointer.to_owned()).collect();
            pointers.sort();
            assert_eq!(pointers, FIELDS.map(|field| format!("/signingDetailsFormData/{field}")));
        }
    }
    app.assert_untouched();
}

async fn exact_amounts_are_accepted_in_any_notation(kind: Kind) {
    let app = kind.app_with(&["--duplicate-window-secs=0"]).await;
    for (number, amount) in [("150.500", json!(150.5)), ("1.5e2", json!(150))] {
        for response in send(&app, number).await {
            let record = created(response).await;
            assert_eq!((&record["invoice_fee"], &record["notary_pay"]), (&amount, &amount));
        }
    }
}
