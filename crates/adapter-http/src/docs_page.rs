//! The documentation page: Swagger UI, served by this program alone.

use crate::respond::static_file::{Caching, StaticFile};

/// Allows only files of this service, and no inline script or style. Swagger UI has its icons as
/// `data:`.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; \
    style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Every file of the documentation. The path of a vendored one contains its version.
pub(crate) static FILES: [StaticFile; 4] = [
    file("/docs", "text/html; charset=utf-8", include_bytes!("../assets/docs/index.html")),
    file(
        "/docs/docs.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/docs/docs.js"),
    ),
    vendored(
        "/docs/swagger-ui-5.35.0/swagger-ui-bundle.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/swagger-ui/swagger-ui-bundle.js.gz"),
    ),
    vendored(
        "/docs/swagger-ui-5.35.0/swagger-ui.css",
        "text/css; charset=utf-8",
        include_bytes!("../assets/swagger-ui/swagger-ui.css.gz"),
    ),
];

const fn file(path: &'static str, kind: &'static str, content: &'static [u8]) -> StaticFile {
    StaticFile::new(path, kind, Caching::Never, CONTENT_SECURITY_POLICY, content)
}

const fn vendored(path: &'static str, kind: &'static str, content: &'static [u8]) -> StaticFile {
    StaticFile::new(path, kind, Caching::Forever, CONTENT_SECURITY_POLICY, content)
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
            let content = FILES.iter().find(|file| file.path.ends_with(name)).map_or_else(
                || std::fs::read(format!("{folder}/{name}")).unwrap().into(),
                StaticFile::plain,
            );
            assert!(Sha256::digest(&content)[..] == published, "{name}");
        }
    }

    #[test]
    fn page_links_the_served_files() {
        let page = FILES[0].plain();
        let page = std::str::from_utf8(&page).unwrap();
        for file in &FILES[1..] {
            assert!(page.contains(&format!("\"{}\"", &file.path[1..])), "{}", file.path);
        }
    }
}
