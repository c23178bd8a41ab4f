//! Files of the pages, which the program contains.

use std::{
    io::{Read as _, Write as _},
    sync::OnceLock,
};

use actix_web::{
    HttpMessage as _, HttpRequest, HttpResponse, HttpResponseBuilder,
    http::header::{self, AcceptEncoding, ContentEncoding, ETag, Encoding, EntityTag, HeaderName},
};
use bytes::Bytes;
use flate2::{Compression, bufread::GzDecoder, write::GzEncoder};
use sha2::{Digest as _, Sha256};

use crate::respond::conditional::is_known;

/// What a browser may store.
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
    /// Made once, for the first client that needs it.
    plain: OnceLock<Bytes>,
    compressed: OnceLock<Bytes>,
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
            compressed: OnceLock::new(),
        }
    }

    /// Answers with the file, compressed if the client accepts it.
    pub(crate) fn response(&self, request: &HttpRequest) -> HttpResponse {
        let tag = (self.caching == Caching::Revalidated).then(|| self.tag());
        if let Some(tag) = tag.as_ref().filter(|tag| is_known(request, tag)) {
            return self.head(HttpResponse::NotModified(), Some(tag.clone())).finish();
        }
        let mut response = self.head(HttpResponse::Ok(), tag);
        response
            .content_type(self.content_type)
            .insert_header((header::CONTENT_SECURITY_POLICY, self.policy))
            .insert_header((header::REFERRER_POLICY, "no-referrer"))
            .insert_header((HeaderName::from_static("cross-origin-opener-policy"), "same-origin"));
        if accepts_gzip(request) {
            response.insert_header(ContentEncoding::Gzip).body(self.compressed())
        } else {
            response.body(self.plain())
        }
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

    fn is_compressed(&self) -> bool {
        self.content.starts_with(b"\x1f\x8b")
    }

    /// Returns the file as it is.
    pub(crate) fn plain(&self) -> Bytes {
        let inflated = || inflate(self.content);
        let content = || if self.is_compressed() { inflated() } else { self.content.into() };
        self.plain.get_or_init(content).clone()
    }

    /// Returns the file compressed with gzip.
    pub(crate) fn compressed(&self) -> Bytes {
        let deflated = || deflate(self.content);
        let content = || if self.is_compressed() { self.content.into() } else { deflated() };
        self.compressed.get_or_init(content).clone()
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
        tracing::error!(%error, "a file of a page is damaged");
    }
    plain.into_boxed_slice().into()
}

fn deflate(content: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let compressed = encoder.write_all(content).and_then(|()| encoder.finish());
    compressed.unwrap_or_default().into_boxed_slice().into()
}

#[cfg(test)]
mod tests {
    use actix_web::{
        body::{BodySize, MessageBody as _, to_bytes},
        http::header::HeaderValue,
        test::TestRequest,
    };

    use super::*;

    const TEXT: &[u8] = b"a text, a text, a text, a text, a text, a text, a text, a text, a text";

    fn file(content: &'static [u8]) -> StaticFile {
        let kind = "text/plain; charset=utf-8";
        StaticFile::new("/file", kind, Caching::Revalidated, "default-src 'none'", content)
    }

    #[actix_web::test]
    async fn files_are_compressed_for_clients_that_accept_gzip() {
        let compressed: &'static [u8] = Vec::leak(deflate(TEXT).to_vec());
        for (accepted, is_compressed) in [
            (Some("gzip, deflate, br, zstd"), true),
            (Some("*"), false),
            (Some("gzip;q=0.5, identity;q=0"), true),
            (Some("br"), false),
            (Some("gzip;q=0"), false),
            (Some("identity"), false),
            (Some(""), false),
            (None, false),
        ] {
            for file in [file(TEXT), file(compressed)] {
                let request = TestRequest::get();
                let request = match accepted {
                    Some(accepted) => request.insert_header((header::ACCEPT_ENCODING, accepted)),
                    None => request,
                };

                let response = file.response(&request.to_http_request());

                assert_eq!(response.headers().get("vary").unwrap(), "accept-encoding");
                let encoding = response.headers().get("content-encoding");
                let expected = is_compressed.then_some(&b"gzip"[..]);
                assert_eq!(encoding.map(HeaderValue::as_bytes), expected, "{accepted:?}");
                let length = response.body().size();
                let body = to_bytes(response.into_body()).await.unwrap();
                assert_eq!(length, BodySize::Sized(body.len() as u64));
                assert_eq!(if is_compressed { inflate(&body) } else { body }, TEXT, "{accepted:?}");
            }
        }
    }

    #[test]
    fn current_file_is_not_sent_again() {
        let get = |tag: &str| {
            let request = TestRequest::get().insert_header(("if-none-match", tag));
            file(TEXT).response(&request.to_http_request())
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
