//! Receives webhooks: verifies each one, and handles each event once.
//!
//! Settings: `WEBHOOK_SECRET` (`whsec_...`), `PORT`, `STATE_DIR` (folder of the identifiers of
//! handled events). It listens on this machine; a proxy in front of it serves HTTPS. Needs
//! actix-web (feature `macros`), base64, ring, `serde_json` and sha2.

use std::{env, error::Error, fs, path::Path, process::ExitCode, time::SystemTime};

use actix_web::{
    App, HttpRequest, HttpResponse, HttpServer,
    web::{self, Bytes},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::hmac;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Seconds between the clocks of both sides, and for the way.
const TOLERANCE: u64 = 300;
const LONGEST_BODY: usize = 64 * 1024;

fn header<'a>(request: &'a HttpRequest, name: &str) -> &'a str {
    request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Checks the signature over the bytes of the body as they came, before anything reads them.
fn is_genuine(key: &hmac::Key, request: &HttpRequest, body: &[u8]) -> bool {
    let (id, timestamp) = (header(request, "webhook-id"), header(request, "webhook-timestamp"));
    // An old webhook may be one that was overheard and is sent again.
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs());
    if !timestamp.parse().is_ok_and(|sent: u64| now.abs_diff(sent) <= TOLERANCE) {
        return false;
    }
    let signed = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
    // There are two while the secret is being rotated. The comparison takes constant time.
    header(request, "webhook-signature")
        .split(' ')
        .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok())
        .any(|signature| hmac::verify(key, &signed, &signature).is_ok())
}

/// An event may arrive again, and events may arrive in any order. Your product stores the
/// identifier in the transaction that does the work, in a unique column.
fn handle_once(id: &str, body: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
    let folder = env::var("STATE_DIR").unwrap_or_else(|_| ".".to_owned());
    let handled = Path::new(&folder).join(URL_SAFE_NO_PAD.encode(Sha256::digest(id)));
    if !handled.exists() {
        handle(&serde_json::from_slice(body)?);
        fs::write(handled, "")?;
    }
    Ok(())
}

/// Takes little time: the service waits 15 seconds. Queue what takes longer. Ignore types that you
/// do not know: there may be more of them one day.
fn handle(event: &Value) {
    match event["type"].as_str() {
        Some(kind) if kind.starts_with("order.") => {
            let (order, status) = (&event["data"]["order_id"], &event["data"]["order_status"]);
            // An erased order has no status.
            let line = format!("{kind} {order} {}", status.as_str().unwrap_or_default());
            println!("{}", line.trim_end());
        }
        Some(kind) => println!("{kind}"),
        None => {}
    }
}

async fn receive(key: web::Data<hmac::Key>, request: HttpRequest, body: Bytes) -> HttpResponse {
    if !is_genuine(&key, &request, &body) {
        return HttpResponse::Unauthorized().finish();
    }
    let id = header(&request, "webhook-id").to_owned();
    match web::block(move || handle_once(&id, &body)).await {
        // Only now: the service repeats a webhook that gets no 2xx.
        Ok(Ok(())) => HttpResponse::NoContent().finish(),
        Ok(Err(error)) => {
            eprintln!("a webhook was not handled: {error}");
            HttpResponse::InternalServerError().finish()
        }
        Err(_) => HttpResponse::InternalServerError().finish(),
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let secret = env::var("WEBHOOK_SECRET").map_err(|_| "set WEBHOOK_SECRET")?;
    let secret = STANDARD.decode(secret.strip_prefix("whsec_").unwrap_or(&secret))?;
    let key = web::Data::new(hmac::Key::new(hmac::HMAC_SHA256, &secret));
    let port = env::var("PORT").map_or(Ok(9000), |port| port.parse())?;
    let app = move || {
        App::new()
            .app_data(key.clone())
            .app_data(web::PayloadConfig::new(LONGEST_BODY))
            .default_service(web::post().to(receive))
    };
    HttpServer::new(app).workers(1).bind(("127.0.0.1", port))?.run().await?;
    Ok(())
}

#[actix_web::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
