//! The side of the client at each change: sends the whole order again under its file number, and then the
//! documents that the order has never had. The service creates the order or amends it. Run it as often as you
//! like, and several at once: there is one order, with each document once.
//!
//! Needs `create_orders.rs` beside it. Settings: `BASE_URL`, `API_KEY`, `FILE_NUMBER`, `SIGNING_DATE`
//! (YYYY-MM-DD), `DOCUMENTS` (paths, separated as in PATH; here those of this folder).

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use reqwest::{
    Method, StatusCode,
    header::{ETAG, IF_MATCH},
    multipart::{Form, Part},
};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

#[expect(dead_code, reason = "what creates orders")]
mod create_orders;

use create_orders::{Failure, Orders, ProblemAnswer, UPLOAD_TIMEOUT, exit_code, order, send};

const ATTEMPTS: u32 = 3;

#[derive(Deserialize)]
struct Sent {
    order_id: i64,
}

#[derive(Deserialize)]
struct Found {
    documents: Vec<Uploaded>,
}

#[derive(Deserialize)]
struct Uploaded {
    position: u32,
    name_as_sent: String,
    sha256: String,
    replaced_by: Option<u32>,
    withdrawn_at: Option<String>,
}

struct Document {
    name: String,
    content: Vec<u8>,
    sha256: String,
}

impl Document {
    fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.file_name().ok_or("a document has no name")?.to_string_lossy().into_owned();
        let content = fs::read(path)?;
        let sha256: Vec<_> =
            Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { name, content, sha256: sha256.concat() })
    }
}

/// Makes a key for one request and its repeats. The next run makes another one: it may send other data.
fn fresh_key() -> String {
    format!("\"{}\"", uuid::Uuid::new_v4())
}

/// Creates the order, or amends it. What is left out is removed: send the whole order.
async fn resend(orders: &Orders, file_number: &str, date: &str) -> Result<i64, Failure> {
    let mut changed = order(file_number);
    changed["signingDetailsFormData"]["signingDate"] = date.into();
    let (key, query) = (fresh_key(), [("file_number", file_number)]);
    let put = || {
        let request = orders.request(Method::PUT, "/api/order").query(&query);
        request.header("Idempotency-Key", &key).json(&changed)
    };
    let sent: Sent = send(&[StatusCode::OK, StatusCode::CREATED], put).await?.1;
    Ok(sent.order_id)
}

async fn send_missing(orders: &Orders, id: i64, documents: &[Document]) -> Result<(), Failure> {
    let path = format!("/api/order/{id}");
    let mut lost = 0;
    loop {
        let (headers, found) = orders.get::<Found>(&path).await?;
        // Also replaced and withdrawn ones: a document that a user has withdrawn must not come back.
        let is_known = |document: &Document| {
            found.documents.iter().any(|uploaded| uploaded.sha256 == document.sha256)
        };
        let Some(missing) = documents.iter().find(|document| !is_known(document)) else {
            return Ok(());
        };
        // A current document of the same name is an older version of this one.
        let is_older = |it: &&Uploaded| {
            it.name_as_sent == missing.name && it.replaced_by.is_none() && it.withdrawn_at.is_none()
        };
        let older = found.documents.iter().find(is_older).map(|it| it.position);
        let tag = headers.get(ETAG).ok_or("the order has no ETag")?;
        let key = fresh_key();
        let upload = || {
            let mut form = Form::new();
            if let Some(position) = older {
                form = form.text("replaces", position.to_string());
            }
            let part = Part::bytes(missing.content.clone()).file_name(missing.name.clone());
            let request = orders.request(Method::POST, &format!("{path}/documents"));
            // Adds to the version that was read: another run may send the same document.
            let request = request.header(IF_MATCH, tag).header("Idempotency-Key", &key);
            request.timeout(UPLOAD_TIMEOUT).multipart(form.part("documents", part))
        };
        match send::<Value>(&[StatusCode::CREATED], upload).await {
            Ok(_) => {
                println!("{} {}", if older.is_some() { "replaced" } else { "added" }, missing.name);
            }
            Err(failure) if !is_precondition(&failure) => return Err(failure),
            Err(_) => {
                lost += 1;
                pause(id, lost).await?;
            }
        }
    }
}

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

async fn run() -> Result<(), Failure> {
    let setting = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let file_number = setting("FILE_NUMBER", "REFI-2026-100-1");
    let date = setting("SIGNING_DATE", "2026-12-02");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let ours =
        || ["deed-of-trust.pdf", "signing-instructions.docx"].map(|it| folder.join(it)).into();
    let paths: Vec<PathBuf> =
        env::var_os("DOCUMENTS").map_or_else(ours, |it| env::split_paths(&it).collect());
    let documents: Vec<_> = paths.iter().map(|it| Document::read(it)).collect::<Result<_, _>>()?;
    let orders = Orders::from_env()?;
    let order_id = resend(&orders, &file_number, &date).await?;
    println!("sent {order_id} {date}");
    send_missing(&orders, order_id, &documents).await
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run().await)
}
