//! The side of the client after a change: looks its order up by the file number, sends all of it again with
//! another date, and explains the change in a note. Run it as often as you like: the order and the note are
//! the same afterwards.
//!
//! Needs `create_orders.rs` beside it. Settings: `BASE_URL`, `API_KEY`, `FILE_NUMBER` (of the order),
//! `SIGNING_DATE` (YYYY-MM-DD), `STATE_DIR` (folder of the idempotency keys).

use std::{env, process::ExitCode};

use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

#[expect(dead_code, reason = "what creates orders")]
mod create_orders;

use create_orders::{Failure, Orders, exit_code, idempotency_key, order, send};

#[derive(Deserialize)]
struct Found {
    order_id: i64,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Found>,
}

async fn change(orders: &Orders, file_number: &str, date: &str) -> Result<i64, Failure> {
    let look_up = || {
        let query = [("limit", "1"), ("file_number", file_number)];
        orders.request(Method::GET, "/api/order").query(&query)
    };
    let page: Page = send(StatusCode::OK, look_up).await?.1;
    let none = || format!("no order has the file number {file_number}: create it");
    let order_id = page.data.first().ok_or_else(none)?.order_id;
    let path = format!("/api/order/{order_id}");
    let mut changed = order(file_number);
    changed["signingDetailsFormData"]["signingDate"] = date.into();
    // A repeat changes nothing, so it needs no key. What is left out is removed: send the whole order.
    let put = || orders.request(Method::PUT, &path).json(&changed);
    send::<Value>(StatusCode::OK, put).await?;
    let key = format!("\"{}\"", idempotency_key(&format!("{file_number}-{date}"))?);
    let text = json!({ "text": format!("The borrower asked for {date}.") });
    let path = format!("{path}/notes");
    let post = || orders.request(Method::POST, &path).header("Idempotency-Key", &key).json(&text);
    send::<Value>(StatusCode::CREATED, post).await?;
    Ok(order_id)
}

async fn run() -> Result<(), Failure> {
    let setting = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let file_number = setting("FILE_NUMBER", "REFI-2026-100-1");
    let date = setting("SIGNING_DATE", "2026-12-02");
    let order_id = change(&Orders::from_env()?, &file_number, &date).await?;
    println!("changed {order_id} {date}");
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run().await)
}
