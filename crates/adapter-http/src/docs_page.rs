//! The page on which people read the API and try it: Swagger UI, from this program alone.

use std::convert::Infallible;

use actix_web::{
    HttpRequest, HttpResponse, Resource,
    body::SizedStream,
    http::header::{self, HeaderName},
    web,
};
use bytes::Bytes;
use futures_util::stream;

use crate::{observe::RequestId, problem::Problem};

/// Path of the page, below the base path.
const DOCS: &str = "/docs";

/// Bytes of a file that are put together with an answer at a time. Anybody may ask for these files:
/// who never reads what he asked for holds this much of the service's memory, and not a megabyte.
const PIECE: usize = 16 * 1024;

/// Nothing but what this service serves itself, and no script or style within the page. Swagger UI
/// has its icons as `data:`.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
#[derive(Clone, Copy)]
struct Asset {
    /// Below [`DOCS`].
    path: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

const PAGE: Asset = Asset {
    path: "",
    content_type: "text/html; charset=utf-8",
    content: include_bytes!("../assets/docs/index.html"),
};

const SCRIPT: Asset = Asset {
    path: "/docs.js",
    content_type: "text/javascript; charset=utf-8",
    content: include_bytes!("../assets/docs/docs.js"),
};

/// The vendored files, whose path names their version.
const SWAGGER_UI: [Asset; 2] = [
    Asset {
        path: "/swagger-ui-5.35.0/swagger-ui-bundle.js",
        content_type: "text/javascript; charset=utf-8",
        content: include_bytes!("../assets/swagger-ui/swagger-ui-bundle.js"),
    },
    Asset {
        path: "/swagger-ui-5.35.0/swagger-ui.css",
        content_type: "text/css; charset=utf-8",
        content: include_bytes!("../assets/swagger-ui/swagger-ui.css"),
    },
];

pub(crate) fn routes(config: &mut web::ServiceConfig, base_path: &str) {
    for own in [PAGE, SCRIPT] {
        config.service(resource(&format!("{base_path}{DOCS}{}", own.path), move || {
            answer(&own, "no-store")
        }));
    }
    for vendored in SWAGGER_UI {
        // What stands at this path never changes: another version stands at another.
        config.service(resource(&format!("{base_path}{DOCS}{}", vendored.path), move || {
            answer(&vendored, "public, max-age=31536000, immutable")
        }));
    }
    // The links of the page are relative to the path without a slash.
    config.service(resource(&format!("{base_path}{DOCS}/"), || {
        HttpResponse::PermanentRedirect().insert_header((header::LOCATION, "../docs")).finish()
    }));
}

fn resource(path: &str, answer: impl Fn() -> HttpResponse + Clone + 'static) -> Resource {
    let (get, head) = (answer.clone(), answer);
    let refuse = |request: HttpRequest| async move {
        Problem::method_not_allowed("GET, HEAD").response(RequestId::of(&request).as_str())
    };
    web::resource(path)
        .get(move || std::future::ready(get()))
        .route(web::head().to(move || std::future::ready(head())))
        .default_service(web::route().to(refuse))
}

fn answer(asset: &Asset, caching: &'static str) -> HttpResponse {
    let pieces =
        asset.content.chunks(PIECE).map(|piece| Ok::<_, Infallible>(Bytes::from_static(piece)));
    HttpResponse::Ok()
        .content_type(asset.content_type)
        .insert_header((header::CACHE_CONTROL, caching))
        .insert_header((header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header((HeaderName::from_static("cross-origin-opener-policy"), "same-origin"))
        .body(SizedStream::new(asset.content.len() as u64, stream::iter(pieces)))
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn the_vendored_files_are_as_they_were_published() {
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
    fn everything_that_the_page_names_is_served() {
        let page = std::str::from_utf8(PAGE.content).unwrap();
        for asset in SWAGGER_UI.iter().chain([&SCRIPT]) {
            assert!(page.contains(&format!("\"docs{}\"", asset.path)), "{}", asset.path);
        }
    }
}
