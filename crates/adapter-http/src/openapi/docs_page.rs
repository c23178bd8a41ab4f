//! The documentation page: Swagger UI, served by this program alone.

use std::{io::Read as _, sync::OnceLock};

use actix_web::{
    HttpMessage as _, HttpRequest, HttpResponse,
    http::header::{self, AcceptEncoding, ContentEncoding, Encoding, HeaderName},
};
use bytes::Bytes;
use flate2::bufread::GzDecoder;

/// Path of the page, below the base path.
const DOCS: &str = "/docs";

/// Allows only files of this service, and no inline script or style. Swagger UI has its icons as
/// `data:`.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; \
    style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
pub(crate) struct Asset {
    /// Path below [`DOCS`].
    path: &'static str,
    content_type: &'static str,
    /// As the program contains it. Vendored files are compressed.
    content: &'static [u8],
    /// Inflated once, for the first client that does not accept it compressed.
    inflated: OnceLock<Bytes>,
}

/// Every file of the documentation. The path of a vendored one contains its version.
pub(crate) static FILES: [Asset; 4] = [
    file("", "text/html; charset=utf-8", include_bytes!("../../assets/docs/index.html")),
    file("/docs.js", "text/javascript; charset=utf-8", include_bytes!("../../assets/docs/docs.js")),
    file(
        "/swagger-ui-5.35.0/swagger-ui-bundle.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../../assets/swagger-ui/swagger-ui-bundle.js.gz"),
    ),
    file(
        "/swagger-ui-5.35.0/swagger-ui.css",
        "text/css; charset=utf-8",
        include_bytes!("../../assets/swagger-ui/swagger-ui.css.gz"),
    ),
];

const fn file(path: &'static str, content_type: &'static str, content: &'static [u8]) -> Asset {
    Asset { path, content_type, content, inflated: OnceLock::new() }
}

/// Path with a slash, below the base path. It redirects to the page, because the links of the page
/// are relative to the path without a slash.
pub(crate) const TRAILING_SLASH: &str = "/docs/";

impl Asset {
    /// Returns the path below the base path.
    pub(crate) fn path(&self) -> String {
        format!("{DOCS}{}", self.path)
    }

    pub(crate) fn response(&self, request: &HttpRequest) -> HttpResponse {
        // The content of a vendored file never changes.
        let cache_control =
            if self.is_vendored() { "public, max-age=31536000, immutable" } else { "no-store" };
        let mut response = HttpResponse::Ok();
        response
            .content_type(self.content_type)
            .insert_header((header::CACHE_CONTROL, cache_control))
            .insert_header((header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
            .insert_header((header::REFERRER_POLICY, "no-referrer"))
            .insert_header((HeaderName::from_static("cross-origin-opener-policy"), "same-origin"))
            .insert_header((header::VARY, "accept-encoding"));
        if self.is_vendored() && accepts_gzip(request) {
            response.insert_header(ContentEncoding::Gzip);
            response.body(self.content)
        } else {
            response.body(self.plain())
        }
    }

    fn is_vendored(&self) -> bool {
        self.content.starts_with(b"\x1f\x8b")
    }

    fn plain(&self) -> Bytes {
        if self.is_vendored() {
            self.inflated.get_or_init(|| inflate(self.content)).clone()
        } else {
            Bytes::from_static(self.content)
        }
    }
}

fn accepts_gzip(request: &HttpRequest) -> bool {
    let supported = [Encoding::gzip(), Encoding::identity()];
    let chosen = request
        .get_header::<AcceptEncoding>()
        .and_then(|accepted| accepted.negotiate(supported.iter()));
    chosen == Some(Encoding::gzip())
}

fn inflate(content: &[u8]) -> Bytes {
    let mut plain = Vec::new();
    // A test inflates every file.
    if let Err(error) = GzDecoder::new(content).read_to_end(&mut plain) {
        tracing::error!(%error, "a file of the documentation page is damaged");
    }
    plain.into_boxed_slice().into()
}

#[cfg(test)]
mod tests {
    use actix_web::{
        body::{BodySize, MessageBody as _, to_bytes},
        http::header::HeaderValue,
        test::TestRequest,
    };
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn get(path: &str, accept_encoding: Option<&str>) -> HttpResponse {
        let request = TestRequest::get();
        let request = match accept_encoding {
            Some(accepted) => request.insert_header((header::ACCEPT_ENCODING, accepted)),
            None => request,
        };
        let file = FILES.iter().find(|file| file.path == path).unwrap();
        file.response(&request.to_http_request())
    }

    #[test]
    fn vendored_files_match_their_checksums() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/swagger-ui");
        let sums = std::fs::read_to_string(format!("{folder}/SHA256SUMS")).unwrap();
        assert_eq!(sums.lines().count(), 5);
        for line in sums.lines() {
            let (sum, name) = line.split_once("  ").unwrap();
            let published: Vec<u8> = (0..64)
                .step_by(2)
                .map(|at| u8::from_str_radix(&sum[at..at + 2], 16).unwrap())
                .collect();
            let content = FILES.iter().find(|file| file.path.ends_with(name)).map_or_else(
                || std::fs::read(format!("{folder}/{name}")).unwrap().into(),
                Asset::plain,
            );
            assert!(Sha256::digest(&content)[..] == published, "{name}");
        }
    }

    #[test]
    fn page_links_the_served_files() {
        let page = FILES[0].plain();
        let page = std::str::from_utf8(&page).unwrap();
        for asset in &FILES[1..] {
            assert!(page.contains(&format!("\"docs{}\"", asset.path)), "{}", asset.path);
        }
    }

    #[actix_web::test]
    async fn files_are_compressed_for_clients_that_accept_gzip() {
        let plain = FILES[2].plain();
        for (accepted, compressed) in [
            (Some("gzip, deflate, br, zstd"), true),
            (Some("*"), false),
            (Some("gzip;q=0.5, identity;q=0"), true),
            (Some("br"), false),
            (Some("gzip;q=0"), false),
            (Some("identity"), false),
            (Some(""), false),
            (None, false),
        ] {
            let response = get(FILES[2].path, accepted);

            assert_eq!(response.headers().get("vary").unwrap(), "accept-encoding");
            let encoding = response.headers().get("content-encoding");
            let compressed_as = compressed.then_some(&b"gzip"[..]);
            assert_eq!(encoding.map(HeaderValue::as_bytes), compressed_as, "{accepted:?}");
            let length = response.body().size();
            let body = to_bytes(response.into_body()).await.unwrap();
            assert_eq!(length, BodySize::Sized(body.len() as u64));
            assert!(if compressed { inflate(&body) } else { body } == plain, "{accepted:?}");
        }
    }
}
