//! The side of the signing service: finds its open orders, assigns a notary to each, and confirms it.
//! Run it again and again: it looks at the orders that have changed since the last run, and misses none.
//!
//! Needs `create_orders.rs` beside it. Settings: `BASE_URL`, `API_KEY` (a key of the signing
//! service), `NOTARY_ID`, `STATE_DIR` (folder of the cursor of the last run).

use std::{collections::BTreeSet, env, fs, path::Path, process::ExitCode, time::Duration};

use reqwest::{
    Method, StatusCode,
    header::{ETAG, IF_MATCH},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[expect(dead_code, reason = "what only the client's side uses")]
mod create_orders;

use create_orders::{Failure, Orders, ProblemAnswer, exit_code, send};

const ATTEMPTS: u32 = 3;

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

#[derive(Deserialize)]
struct Entry {
    order_id: i64,
}

#[derive(Deserialize)]
struct Changes {
    data: Vec<Entry>,
    has_more: bool,
    next_after: String,
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
        let (headers, order) = match orders.get::<Found>(&path).await {
            Err(failure) if has_code(&failure, "erased") => return Ok(()),
            found => found?,
        };
        let Some(change) = next_change(&order, notary) else { return Ok(()) };
        let tag = headers.get(ETAG).ok_or("the order has no ETag")?;
        // Changes only the version that was read, so a repeat is safe, too.
        let request = || orders.request(Method::PATCH, &path).header(IF_MATCH, tag).json(&change);
        match send::<Value>(&[StatusCode::OK], request).await {
            Ok(_) => println!("{} {order_id}", change.order_status),
            Err(failure) if !has_code(&failure, "precondition_failed") => return Err(failure),
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

fn has_code(failure: &Failure, code: &str) -> bool {
    failure.downcast_ref::<ProblemAnswer>().is_some_and(|answer| answer.problem.code == code)
}

/// Reads all pages of the open orders, and returns the oldest first.
async fn open_orders(orders: &Orders, notary: i64) -> Result<Vec<i64>, Failure> {
    let path = "/api/order?limit=100&order_status=NEW,ASSIGNED";
    let (mut found, mut before) = (Vec::<Found>::new(), String::new());
    loop {
        let Page { data, has_more } = orders.get(&format!("{path}{before}")).await?.1;
        found.extend(data);
        match found.last() {
            Some(last) if has_more => before = format!("&starting_after={}", last.order_id),
            _ => break,
        }
    }
    let due = found.iter().rev().filter(|order| next_change(order, notary).is_some());
    Ok(due.map(|order| order.order_id).collect())
}

async fn changes(orders: &Orders, after: &str) -> Result<Changes, Failure> {
    let query = [("limit", "100"), ("after", after)];
    let request = || orders.request(Method::GET, "/api/order/changes").query(&query);
    Ok(send(&[StatusCode::OK], request).await?.1)
}

/// Looks at all open orders in the first run, and follows the changes after that.
async fn run() -> Result<(), Failure> {
    let orders = Orders::from_env()?;
    let notary = env::var("NOTARY_ID").map_or(Ok(7001), |number| number.parse())?;
    let folder = env::var("STATE_DIR").unwrap_or_else(|_| ".".to_owned());
    let stored = Path::new(&folder).join("dispatched-to");
    if !stored.exists() {
        // Before the first page is read: an order that changes meanwhile is found in the next run.
        let now = changes(&orders, "now").await?.next_after;
        for order_id in open_orders(&orders, notary).await? {
            dispatch(&orders, order_id, notary).await?;
        }
        fs::write(&stored, now)?;
        return Ok(());
    }
    loop {
        let page = changes(&orders, &fs::read_to_string(&stored)?).await?;
        let changed: BTreeSet<_> = page.data.iter().map(|entry| entry.order_id).collect();
        for order_id in changed {
            dispatch(&orders, order_id, notary).await?;
        }
        // Only now: after a crash, the next run looks at these orders again. Your product has the cursor in its
        // database.
        fs::write(&stored, page.next_after)?;
        if !page.has_more {
            return Ok(());
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run().await)
}
