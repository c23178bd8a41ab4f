//! Keeps a copy of all orders that the key sees in a file of `SQLite`. Run it again and again, for example by a
//! timer or when a webhook arrives: it goes on where it was. It misses no change, also if it is killed. If the service
//! was restored from an older backup, it begins anew.
//!
//! Needs `create_orders.rs` beside it, and diesel (feature `sqlite`). Settings: `BASE_URL`, `API_KEY`,
//! `STATE_DIR` (folder of `mirror.db`).

use std::{collections::BTreeSet, env, path::Path, process::ExitCode};

use diesel::{
    Connection as _, OptionalExtension as _, QueryResult, QueryableByName, RunQueryDsl as _,
    SqliteConnection,
    connection::SimpleConnection as _,
    sql_query,
    sql_types::{BigInt, Text},
};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;

#[expect(dead_code, reason = "what creates orders")]
mod create_orders;

use create_orders::{Failure, Orders, ProblemAnswer, exit_code, send};

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS orders (
    order_id INTEGER PRIMARY KEY, file_number TEXT, order_status TEXT, updated_at TEXT, record TEXT
);
CREATE TABLE IF NOT EXISTS feed (one INTEGER PRIMARY KEY CHECK (one = 1), next_after TEXT);";

#[derive(QueryableByName)]
struct Stored {
    #[diesel(sql_type = Text)]
    next_after: String,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Change>,
    has_more: bool,
    next_after: String,
}

#[derive(Deserialize)]
struct Change {
    order_id: i64,
    kind: String,
}

/// Reads an order as it is now, which may be later than the change. `None` if it is erased.
async fn read(orders: &Orders, order_id: i64) -> Result<Option<Value>, Failure> {
    match orders.get(&format!("/api/order/{order_id}")).await {
        Ok((_, order)) => Ok(Some(order)),
        Err(failure) if is_erased(&failure) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn is_erased(failure: &Failure) -> bool {
    let answer = failure.downcast_ref::<ProblemAnswer>();
    answer.is_some_and(|answer| answer.problem.code == "erased")
}

fn is_unknown_cursor(failure: &Failure) -> bool {
    let answer = failure.downcast_ref::<ProblemAnswer>();
    let mut faults = answer.iter().flat_map(|answer| &answer.problem.errors);
    faults.any(|fault| fault.code == "unknown_cursor")
}

/// Applies the next page of changes. Returns whether there are more.
async fn apply_page(orders: &Orders, mirror: &mut SqliteConnection) -> Result<bool, Failure> {
    let stored =
        sql_query("SELECT next_after FROM feed").get_result::<Stored>(mirror).optional()?;
    let after = stored.iter().map(|stored| ("after", stored.next_after.as_str()));
    let query: Vec<_> = [("limit", "100")].into_iter().chain(after).collect();
    let next = || orders.request(Method::GET, "/api/order/changes").query(&query);
    let page: Page = match send(&[StatusCode::OK], next).await {
        Err(failure) if is_unknown_cursor(&failure) => {
            mirror.batch_execute("BEGIN; DELETE FROM orders; DELETE FROM feed; COMMIT;")?;
            return Ok(true);
        }
        answer => answer?.1,
    };
    let is_gone = |change: &&Change| change.kind == "erased";
    let gone: BTreeSet<_> = page.data.iter().filter(is_gone).map(|it| it.order_id).collect();
    // An order that changed twice is read once.
    let order_ids: BTreeSet<_> = page.data.iter().map(|change| change.order_id).collect();
    let mut changed = Vec::new();
    for order_id in order_ids {
        let is_gone = gone.contains(&order_id);
        changed.push((order_id, if is_gone { None } else { read(orders, order_id).await? }));
    }
    // One transaction for the orders and for the cursor: after a crash, the next run asks for this page again.
    mirror.immediate_transaction(|mirror| {
        for (order_id, order) in &changed {
            store(mirror, *order_id, order.as_ref())?;
        }
        let advance = sql_query("INSERT OR REPLACE INTO feed VALUES (1, ?)");
        advance.bind::<Text, _>(&page.next_after).execute(mirror)
    })?;
    for (order_id, order) in &changed {
        let status = order.as_ref().map_or("erased", |order| text(order, "order_status"));
        println!("{status} {order_id}");
    }
    Ok(page.has_more)
}

/// Stores an order, or removes an erased one.
fn store(
    mirror: &mut SqliteConnection,
    order_id: i64,
    order: Option<&Value>,
) -> QueryResult<usize> {
    let Some(order) = order else {
        let remove = sql_query("DELETE FROM orders WHERE order_id = ?");
        return remove.bind::<BigInt, _>(order_id).execute(mirror);
    };
    sql_query("INSERT OR REPLACE INTO orders VALUES (?, ?, ?, ?, ?)")
        .bind::<BigInt, _>(order_id)
        .bind::<Text, _>(text(order, "file_number"))
        .bind::<Text, _>(text(order, "order_status"))
        .bind::<Text, _>(text(order, "updated_at"))
        .bind::<Text, _>(order.to_string())
        .execute(mirror)
}

fn text<'a>(order: &'a Value, name: &str) -> &'a str {
    order[name].as_str().unwrap_or_default()
}

async fn run() -> Result<(), Failure> {
    let orders = Orders::from_env()?;
    let folder = env::var("STATE_DIR").unwrap_or_else(|_| ".".to_owned());
    let file = Path::new(&folder).join("mirror.db");
    let mut mirror = SqliteConnection::establish(&file.to_string_lossy())?;
    mirror.batch_execute(SCHEMA)?;
    while apply_page(&orders, &mut mirror).await? {}
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run().await)
}
