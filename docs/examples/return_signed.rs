//! The side of the signing service after the appointment: returns the signed documents of an order, and sets
//! its status to SIGNED. Run it as often as you like: the documents are stored once.
//!
//! Needs `create_orders.rs` beside it. Settings: `BASE_URL`, `API_KEY` (a key of the signing service),
//! `ORDER_ID`, `SIGNED_DOCUMENT` (a file; here the unsigned deed), `STATE_DIR` (folder of the idempotency
//! keys).

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use reqwest::{
    Method, StatusCode,
    multipart::{Form, Part},
};
use serde::Deserialize;
use serde_json::{Value, json};

#[expect(dead_code, reason = "what creates orders")]
mod create_orders;

use create_orders::{Failure, Orders, UPLOAD_TIMEOUT, exit_code, idempotency_key, send};

#[derive(Deserialize)]
struct Added {
    signed_documents_uploaded: u32,
}

async fn return_signed(orders: &Orders, id: i64, document: &Path) -> Result<u32, Failure> {
    let name = document.file_name().ok_or("SIGNED_DOCUMENT is no file")?.to_string_lossy();
    let content = fs::read(document)?;
    let key = format!("\"{}\"", idempotency_key(&format!("{id}-{name}"))?);
    let path = format!("/api/order/{id}/signed-documents");
    let upload = || {
        let part = Part::bytes(content.clone()).file_name(name.clone().into_owned());
        let request = orders.request(Method::POST, &path).timeout(UPLOAD_TIMEOUT);
        request.header("Idempotency-Key", &key).multipart(Form::new().part("documents", part))
    };
    let added: Added = send(&[StatusCode::CREATED], upload).await?.1;
    // The documents first: a signed order without them would be a question for the client.
    let path = format!("/api/order/{id}");
    let change = json!({ "order_status": "SIGNED" });
    send::<Value>(&[StatusCode::OK], || orders.request(Method::PATCH, &path).json(&change)).await?;
    Ok(added.signed_documents_uploaded)
}

async fn run() -> Result<(), Failure> {
    let id = env::var("ORDER_ID").map_err(|_| "set ORDER_ID")?.parse()?;
    let deed =
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/deed-of-trust.pdf");
    let document = env::var("SIGNED_DOCUMENT").map_or_else(|_| deed(), PathBuf::from);
    let stored = return_signed(&Orders::from_env()?, id, &document).await?;
    println!("returned {id} {stored}");
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run().await)
}
