//! The side of the signing service: finds its open orders, assigns a notary to each, and confirms it.
//! Run it again and again: it looks at the orders that have changed since the last run.
//!
//! Needs `create_orders.rs` beside it. Settings: `BASE_URL`, `API_KEY` (a key of the signing
//! service), `NOTARY_ID`, `STATE_DIR` (folder of the time of the last run).

use std::{
    env, fs,
    path::Path,
    process::ExitCode,
    time::{Duration, UNIX_EPOCH},
};

use reqwest::{
    Method, StatusCode,
    header::{ETAG, IF_MATCH},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

#[expect(dead_code, reason = "what only the client's side uses")]
mod create_orders;

use create_orders::{Failure, Orders, ProblemAnswer, exit_code, send};

const ATTEMPTS: u32 = 3;
/// More than the clock of this machine may differ from the clock of the service. Orders of this time
/// are read twice, which does no harm: what is to do depends on their state.
const OVERLAP: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
struct Found {
    order_id: i64,
    order_status: String,
    notary_id: Option<i64>,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Found>,
    has_more: bool,
}

#[derive(Serialize)]
struct Change {
    order_status: &'static str,
    notary_id: i64,
}

/// Decides by the state of an order. Your product asks its notaries here.
fn next_change(order: &Found, notary: i64) -> Option<Change> {
    let order_status = match (order.order_status.as_str(), order.notary_id) {
        ("NEW", _) => "ASSIGNED",
        ("ASSIGNED", Some(assigned)) if assigned == notary => "CONFIRMED",
        _ => return None,
    };
    Some(Change { order_status, notary_id: notary })
}

async fn dispatch(orders: &Orders, order_id: i64, notary: i64) -> Result<(), Failure> {
    let path = format!("/api/order/{order_id}");
    let mut lost = 0;
    loop {
        let (headers, order) = orders.get::<Found>(&path).await?;
        let Some(change) = next_change(&order, notary) else { return Ok(()) };
        let tag = headers.get(ETAG).ok_or("the order has no ETag")?;
        // Changes only the version that was read, so a repeat is safe, too.
        let request = || orders.request(Method::PATCH, &path).header(IF_MATCH, tag).json(&change);
        match send::<Value>(&[StatusCode::OK], request).await {
            Ok(_) => println!("{} {order_id}", change.order_status),
            Err(failure) if !is_precondition(&failure) => return Err(failure),
            Err(_) => {
                lost += 1;
                pause(order_id, lost).await?;
            }
        }
    }
}

/// Waits before the order is read again, because another dispatcher or the client was quicker. The
/// pause keeps two dispatchers from meeting again.
async fn pause(order_id: i64, lost: u32) -> Result<(), Failure> {
    if lost == ATTEMPTS {
        let why = "another program keeps changing it, or a proxy changes ETag or If-Match";
        return Err(format!("gave up on order {order_id} after {lost} answers 412: {why}").into());
    }
    tokio::time::sleep(Duration::from_millis(500 + fastrand::u64(..500))).await;
    Ok(())
}

fn is_precondition(failure: &Failure) -> bool {
    let answer = failure.downcast_ref::<ProblemAnswer>();
    answer.is_some_and(|answer| answer.problem.code == "precondition_failed")
}

/// Reads all pages of the open orders that were created or changed since a time, the newest first.
async fn changed(orders: &Orders, since: Option<&str>) -> Result<Vec<Found>, Failure> {
    let mut path = "/api/order?limit=100&order_status=NEW,ASSIGNED".to_owned();
    if let Some(since) = since {
        path = format!("{path}&updated_after={since}");
    }
    let (mut found, mut before) = (Vec::new(), String::new());
    loop {
        let Page { data, has_more } = orders.get(&format!("{path}{before}")).await?.1;
        found.extend(data);
        match found.last() {
            Some(last) if has_more => before = format!("&starting_after={}", last.order_id),
            _ => return Ok(found),
        }
    }
}

/// Looks at all open orders in the first run. Your product has the time in its database.
async fn run() -> Result<(), Failure> {
    let orders = Orders::from_env()?;
    let notary = env::var("NOTARY_ID").map_or(Ok(7001), |number| number.parse())?;
    let folder = env::var("STATE_DIR").unwrap_or_else(|_| ".".to_owned());
    let stored = Path::new(&folder).join("polled-at");
    let since = fs::read_to_string(&stored).ok();
    // Before the first page is read: an order that changes meanwhile is found in the next run.
    let began = OffsetDateTime::UNIX_EPOCH + UNIX_EPOCH.elapsed()? - OVERLAP;
    let found = changed(&orders, since.as_deref()).await?;
    for order in found.iter().rev().filter(|order| next_change(order, notary).is_some()) {
        dispatch(&orders, order.order_id, notary).await?;
    }
    fs::write(&stored, began.format(&Rfc3339)?)?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run().await)
}
