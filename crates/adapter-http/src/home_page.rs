//! The page at `/`, for people who open the address of the service.

use actix_web::{HttpResponse, http::header};

const PAGE: &str = include_str!("../assets/home/index.html");

/// The line about the console, which an operator may have taken away.
const CONSOLE: &str =
    "<li><a href=\"console\">Console</a>, for people: create, find and change orders</li>\n";

/// The page has an empty icon, and no script or style.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; img-src data:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

/// Answers with the page.
pub(crate) fn response(has_console: bool) -> HttpResponse {
    let console = if has_console { CONSOLE } else { "" };
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .insert_header((header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        .body(PAGE.replace("{console}", console))
}
