//! Files of the pages, which the program contains.

use std::{io::Read as _, sync::OnceLock};

use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder,
    http::header::{
        self, AcceptEncoding, ContentEncoding, ETag, Encoding, EntityTag, Header as _, HeaderName,
    },
};
use bytes::Bytes;
use flate2::{
    Compression,
    bufread::{GzDecoder, GzEncoder},
};
use sha2::{Digest as _, Sha256};

use crate::respond::conditional::is_known;

/// The rule for storing a file in a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caching {
    /// Nothing.
    Never,
    /// The file, which never changes: its path contains its version.
    Forever,
    /// The file, if the browser asks before each use whether it is current.
    Revalidated,
}

/// A file of a page.
pub(crate) struct StaticFile {
    /// Path below the base path.
    pub(crate) path: &'static str,
    content_type: &'static str,
    caching: Caching,
    /// The content security policy of the page.
    policy: &'static str,
    /// As the program contains it: plain, or compressed with gzip.
    content: &'static [u8],
    /// Inflated for the first client.
    plain: OnceLock<Bytes>,
    /// Compressed for the first client. Compressing for each would take 300 KiB of each slow reader.
    gzip: OnceLock<Bytes>,
}

impl StaticFile {
    pub(crate) const fn new(
        path: &'static str,
        content_type: &'static str,
        caching: Caching,
        policy: &'static str,
        content: &'static [u8],
    ) -> Self {
        Self {
            path,
            content_type,
            caching,
            policy,
            content,
            plain: OnceLock::new(),
            gzip: OnceLock::new(),
        }
    }

    /// Answers with the file.
    pub(crate) fn response(&self, request: &HttpRequest) -> HttpResponse {
        let tag = (self.caching == Caching::Revalidated).then(|| self.tag());
        if let Some(tag) = tag.as_ref().filter(|tag| is_known(request, tag)) {
            return self.head(HttpResponse::NotModified(), Some(tag.clone())).finish();
        }
        let mut response = self.head(HttpResponse::Ok(), tag);
        let is_compressed = accepts_gzip(request);
        if is_compressed {
            response.insert_header(ContentEncoding::Gzip);
        }
        response
            .content_type(self.content_type)
            .insert_header((header::CONTENT_SECURITY_POLICY, self.policy))
            .insert_header((header::REFERRER_POLICY, "no-referrer"))
            .insert_header((HeaderName::from_static("cross-origin-opener-policy"), "same-origin"))
            .body(if is_compressed { self.gzip() } else { self.plain() })
    }

    /// Adds what an answer without the file has, too (RFC 9110, section 15.4.5).
    fn head(
        &self,
        mut response: HttpResponseBuilder,
        tag: Option<EntityTag>,
    ) -> HttpResponseBuilder {
        let cache_control = match self.caching {
            Caching::Never => "no-store",
            Caching::Forever => "public, max-age=31536000, immutable",
            Caching::Revalidated => "no-cache",
        };
        response
            .insert_header((header::CACHE_CONTROL, cache_control))
            .insert_header((header::VARY, "accept-encoding"));
        if let Some(tag) = tag {
            response.insert_header(ETag(tag));
        }
        response
    }

    /// Returns the validator. It is weak, because both encodings have it.
    fn tag(&self) -> EntityTag {
        let digest = Sha256::digest(self.content);
        EntityTag::new_weak(hex::encode(&digest[..16]))
    }

    /// Returns the file as it is.
    pub(crate) fn plain(&self) -> Bytes {
        let content = || {
            if self.is_compressed() {
                inflate(self.content)
            } else {
                Bytes::from_static(self.content)
            }
        };
        self.plain.get_or_init(content).clone()
    }

    fn gzip(&self) -> Bytes {
        let content = || {
            if self.is_compressed() {
                Bytes::from_static(self.content)
            } else {
                deflate(self.content)
            }
        };
        self.gzip.get_or_init(content).clone()
    }

    /// Returns whether the program contains the file compressed.
    fn is_compressed(&self) -> bool {
        self.content.starts_with(b"\x1f\x8b")
    }
}

/// Returns whether a client prefers an answer that is compressed with gzip.
fn accepts_gzip(request: &HttpRequest) -> bool {
    if !request.headers().contains_key(header::ACCEPT_ENCODING) {
        return false;
    }
    let supported = [Encoding::gzip(), Encoding::identity()];
    let accepted = AcceptEncoding::parse(request).ok();
    accepted.and_then(|accepted| accepted.negotiate(supported.iter())) == Some(Encoding::gzip())
}

fn deflate(content: &[u8]) -> Bytes {
    let mut compressed = Vec::new();
    // Reading from memory does not fail.
    if let Err(error) = GzEncoder::new(content, Compression::best()).read_to_end(&mut compressed) {
        tracing::error!(%error, "a file of a page cannot be compressed");
    }
    compressed.into_boxed_slice().into()
}

fn inflate(content: &[u8]) -> Bytes {
    let mut plain = Vec::new();
    // A test inflates every file.
    if let Err(error) = GzDecoder::new(content).read_to_end(&mut plain) {
        tracing::error!(%error, "a file of a page is damaged");
    }
    plain.into_boxed_slice().into()
}

#[cfg(test)]
mod tests {
    use actix_web::{
        body::{BodySize, MessageBody as _},
        test::TestRequest,
    };

    use super::*;

    #[test]
    fn current_file_is_not_sent_again() {
        let get = |tag: &str| {
            let request = TestRequest::get().insert_header(("if-none-match", tag));
            let kind = "text/plain; charset=utf-8";
            let file = StaticFile::new("/file", kind, Caching::Revalidated, "", b"a text");
            file.response(&request.to_http_request())
        };
        let first = get("\"another\"");
        assert_eq!(first.status(), 200);
        let tag = first.headers().get("etag").unwrap().to_str().unwrap();
        let second = get(tag);
        assert_eq!((second.status().as_u16(), second.body().size()), (304, BodySize::Sized(0)));
        for name in ["etag", "cache-control", "vary"] {
            assert_eq!(first.headers().get(name), second.headers().get(name), "{name}");
        }
    }
}
