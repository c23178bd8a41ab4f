//! Numbers in paths.

use std::str::FromStr;

use actix_web::HttpRequest;

/// Reads a number from the path of a request, in its shortest form, so that each item has one path.
/// Returns `None` for another text.
pub(crate) fn number<T: FromStr>(request: &HttpRequest, name: &str) -> Option<T> {
    let text = request.match_info().get(name)?;
    let shortest = text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    text.parse().ok().filter(|_| shortest)
}

/// Reads a positive identifier.
pub(crate) fn identifier(request: &HttpRequest, name: &str) -> Option<i64> {
    number(request, name).filter(|id| *id > 0)
}
