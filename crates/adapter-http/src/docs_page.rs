//! The documentation page: Swagger UI, served by this program alone.

use std::convert::Infallible;

use actix_web::{
    HttpResponse,
    body::SizedStream,
    http::header::{self, HeaderName},
};
use bytes::Bytes;
use futures_util::stream;

/// Path of the page, below the base path.
const DOCS: &str = "/docs";

/// Size of the pieces in which files are sent. A client that stops reading costs the service this
/// much memory, not a megabyte. These files need no key, so every client may request them.
const PIECE: usize = 16 * 1024;

/// Allows only files of this service, and no inline script or style. Swagger UI has its icons as
/// `data:`.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; \
    style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const NO_STORE: &str = "no-store";
/// For vendored files: their path contains their version, so their content never changes.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// A file of the page.
#[derive(Clone, Copy)]
pub(crate) struct Asset {
    /// Path below [`DOCS`].
    path: &'static str,
    content_type: &'static str,
    cache_control: &'static str,
    content: &'static [u8],
}

const INDEX: Asset = Asset {
    path: "",
    content_type: "text/html; charset=utf-8",
    cache_control: NO_STORE,
    content: include_bytes!("../assets/docs/index.html"),
};

const SCRIPT: Asset = Asset {
    path: "/docs.js",
    content_type: "text/javascript; charset=utf-8",
    cache_control: NO_STORE,
    content: include_bytes!("../assets/docs/docs.js"),
};

const SWAGGER_UI: Asset = Asset {
    path: "/swagger-ui-5.35.0/swagger-ui-bundle.js",
    content_type: "text/javascript; charset=utf-8",
    cache_control: IMMUTABLE,
    content: include_bytes!("../assets/swagger-ui/swagger-ui-bundle.js"),
};

const SWAGGER_UI_STYLE: Asset = Asset {
    path: "/swagger-ui-5.35.0/swagger-ui.css",
    content_type: "text/css; charset=utf-8",
    cache_control: IMMUTABLE,
    content: include_bytes!("../assets/swagger-ui/swagger-ui.css"),
};

/// Every file of the documentation.
pub(crate) const FILES: [Asset; 4] = [INDEX, SCRIPT, SWAGGER_UI, SWAGGER_UI_STYLE];

/// Path with a slash, below the base path. It redirects to the page, because the links of the page
/// are relative to the path without a slash.
pub(crate) const TRAILING_SLASH: &str = "/docs/";

pub(crate) async fn redirect() -> HttpResponse {
    HttpResponse::PermanentRedirect().insert_header((header::LOCATION, "../docs")).finish()
}

impl Asset {
    /// Returns the path below the base path.
    pub(crate) fn path(self) -> String {
        format!("{DOCS}{}", self.path)
    }

    pub(crate) fn response(self) -> HttpResponse {
        let pieces =
            self.content.chunks(PIECE).map(|piece| Ok::<_, Infallible>(Bytes::from_static(piece)));
        HttpResponse::Ok()
            .content_type(self.content_type)
            .insert_header((header::CACHE_CONTROL, self.cache_control))
            .insert_header((header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
            .insert_header((header::REFERRER_POLICY, "no-referrer"))
            .insert_header((HeaderName::from_static("cross-origin-opener-policy"), "same-origin"))
            .body(SizedStream::new(self.content.len() as u64, stream::iter(pieces)))
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

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
            let content = std::fs::read(format!("{folder}/{name}")).unwrap();
            assert!(Sha256::digest(&content)[..] == published, "{name}");
        }
    }

    #[test]
    fn page_links_the_served_files() {
        let page = std::str::from_utf8(INDEX.content).unwrap();
        for asset in [SCRIPT, SWAGGER_UI, SWAGGER_UI_STYLE] {
            assert!(page.contains(&format!("\"docs{}\"", asset.path)), "{}", asset.path);
        }
    }
}
