//! Validators of answers, and requests that depend on them (RFC 9110, sections 8.8 and 13).

use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder,
    http::header::{self, ETag, EntityTag, Header as _, IfNoneMatch},
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::respond::problem::Problem;

/// Caching of what one client may see: a browser may keep it, and must ask before each use.
const PRIVATE: &str = "private, no-cache";

/// The headers that decide what a client sees (RFC 9110, section 12.5.5). Both sides get one validator of an order, and
/// different names of people: a browser does not reuse the answer of the session before.
const CALLER: &str = "cookie, authorization";

/// Returns the answer 304 if the client has this version.
pub(crate) fn not_modified(request: &HttpRequest, tag: &EntityTag) -> Option<HttpResponse> {
    is_known(request, tag).then(|| with_tag(HttpResponse::NotModified(), tag).finish())
}

/// Returns whether the client has this version. Ignores a header that cannot be read.
pub(crate) fn is_known(request: &HttpRequest, tag: &EntityTag) -> bool {
    match IfNoneMatch::parse(request) {
        Ok(IfNoneMatch::Any) => true,
        Ok(IfNoneMatch::Items(tags)) => tags.iter().any(|known| known.weak_eq(tag)),
        Err(_) => false,
    }
}

/// Adds the validator to an answer, and what caches may do with it.
pub(crate) fn with_tag(mut response: HttpResponseBuilder, tag: &EntityTag) -> HttpResponseBuilder {
    response
        .insert_header((header::CACHE_CONTROL, PRIVATE))
        .insert_header((header::VARY, CALLER))
        .insert_header(ETag(tag.clone()));
    response
}

/// Answers with JSON and `Link`, if there is one. The validator is a hash of the body.
pub(crate) fn json(
    request: &HttpRequest,
    body: &impl Serialize,
    links: Option<String>,
) -> Result<HttpResponse, Problem> {
    let (body, tag) = tagged(body)?;
    if let Some(not_modified) = not_modified(request, &tag) {
        return Ok(not_modified);
    }
    let mut response = with_tag(HttpResponse::Ok(), &tag);
    if let Some(links) = links {
        response.insert_header((header::LINK, links));
    }
    Ok(response.content_type("application/json").body(body))
}

/// Answers with JSON like [`json`]. The validator is the text of a version, and a checksum of the body.
pub(crate) fn json_of_version(
    request: &HttpRequest,
    body: &impl Serialize,
    version: String,
) -> Result<HttpResponse, Problem> {
    let tag = tag_of_version(body, version)?;
    if let Some(not_modified) = not_modified(request, &tag) {
        return Ok(not_modified);
    }
    Ok(with_tag(HttpResponse::Ok(), &tag).json(body))
}

/// Returns the validator of a version and a body.
pub(crate) fn tag_of_version(
    body: &impl Serialize,
    mut version: String,
) -> Result<EntityTag, Problem> {
    let (_, tag) = tagged(body)?;
    version.extend(tag.tag().chars().take(16));
    Ok(EntityTag::new_strong(version))
}

fn tagged(body: &impl Serialize) -> Result<(Vec<u8>, EntityTag), Problem> {
    let body = serde_json::to_vec(body).map_err(|error| Problem::internal().log(&error))?;
    let tag = EntityTag::new_strong(hex::encode(&Sha256::digest(&body)[..16]));
    Ok((body, tag))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn any_listed_tag_is_current() {
        let tag = EntityTag::new_strong("a1".to_owned());
        for (header, current) in [
            (r#""a1""#, true),
            (r#"W/"a1""#, true),
            (r#""b2", "a1""#, true),
            ("*", true),
            (r#""b2""#, false),
            ("a1", false),
            ("", false),
        ] {
            let request =
                TestRequest::get().insert_header(("if-none-match", header)).to_http_request();
            assert_eq!(not_modified(&request, &tag).is_some(), current, "{header}");
        }
        assert!(not_modified(&TestRequest::get().to_http_request(), &tag).is_none());
    }

    /// A browser keeps the answer, and another person may sign in there.
    #[test]
    fn answers_vary_with_their_caller() {
        let tag = EntityTag::new_strong("a1".to_owned());
        for response in [HttpResponse::Ok(), HttpResponse::NotModified()] {
            let answer = with_tag(response, &tag).finish();
            let vary: Vec<_> = answer.headers().get_all(header::VARY).collect();
            assert_eq!(vary, ["cookie, authorization"]);
        }
    }
}
