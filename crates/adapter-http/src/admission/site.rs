//! The own site: where browsers see this service, and which requests other sites may not cause.

use std::net::IpAddr;

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderMap, HeaderName},
};
use domain::person::{Origin, Token};

use crate::respond::problem::{Problem, ProblemCode};

/// The word of a browser about the page that has caused a request (Fetch Metadata). Pages cannot set it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Where browsers see this service.
#[derive(Debug, Clone, Default)]
pub struct Site {
    /// The address at which users reach it, with its base path and without a slash at the end.
    pub public_url: Option<String>,
    /// Prefix of every path: empty, or a path with a leading and without a trailing slash.
    pub base_path: String,
    /// Whether the service itself speaks TLS.
    pub is_tls: bool,
}

impl Site {
    /// Refuses a changing request of a browser that a page of another site may have caused, or another origin of the
    /// same site: a form, a script, an image, a frame.
    pub(crate) fn check(&self, request: &HttpRequest) -> Result<(), Problem> {
        if request.method().is_safe() {
            return Ok(());
        }
        let headers = request.headers();
        let is_own = if headers.contains_key(SEC_FETCH_SITE) {
            headers.get_all(SEC_FETCH_SITE).all(|site| site == "same-origin")
        } else {
            let sent = only(headers, &header::ORIGIN);
            sent.is_some_and(|sent| self.origins(request).iter().any(|own| own == sent))
        };
        if is_own { Ok(()) } else { Err(cross_site()) }
    }

    /// Returns whether a page of another origin has caused a read. `SameSite=Strict` keeps the cookie from other sites
    /// only. A read changes no order, but it leaves an access, and tells that a document was fetched.
    pub(crate) fn is_foreign_read(request: &HttpRequest) -> bool {
        let mut sites = request.headers().get_all(SEC_FETCH_SITE);
        request.method().is_safe() && sites.any(|site| site == "same-site" || site == "cross-site")
    }

    /// Returns the origin at which the browser of a request sees this service; `None` if its page is none of this
    /// service, or the request names no host.
    pub(crate) fn origin(&self, request: &HttpRequest) -> Option<String> {
        let own = self.origins(request);
        match only(request.headers(), &header::ORIGIN) {
            Some(sent) => own.into_iter().find(|own| own == sent),
            None => own.into_iter().next(),
        }
    }

    /// Returns the origin for a passkey.
    ///
    /// # Errors
    /// Browsers allow none there.
    pub(crate) fn passkey_origin(&self, request: &HttpRequest) -> Result<Origin, Problem> {
        let origin = self.origin(request).and_then(|origin| Origin::parse(&origin));
        origin.ok_or_else(insecure_origin)
    }

    /// Returns whether a passkey may be possible where the browser of a request sees this service. A read tells no
    /// scheme, so the page has to look, too.
    pub(crate) fn allows_passkeys(&self, request: &HttpRequest) -> bool {
        self.origins(request).iter().any(|origin| Origin::parse(origin).is_some())
    }

    /// Returns the address of the console, to which providers of logins lead back.
    ///
    /// # Errors
    /// As for [`Self::passkey_origin`]: the browser would not keep the cookies.
    pub(crate) fn console(&self, request: &HttpRequest) -> Result<String, Problem> {
        let origin = self.origin(request).ok_or_else(insecure_origin)?;
        Ok(format!("{origin}{}/console", self.path()))
    }

    /// Returns a link to the console whose fragment has a token. No server and no log gets it.
    pub(crate) fn link(&self, request: &HttpRequest, name: &str, token: &Token) -> String {
        let base = self.public_url.clone().unwrap_or_else(|| {
            let own = self.origins(request).into_iter().next().unwrap_or_default();
            format!("{own}{}", self.base_path)
        });
        format!("{base}/console#{name}={}", token.expose())
    }

    /// Returns the path below which browsers see the console.
    fn path(&self) -> &str {
        let public = self.public_url.as_deref().and_then(|url| url.strip_prefix(origin_of(url)?));
        public.unwrap_or(&self.base_path)
    }

    /// Returns the origins of this service for a request. A page of another host cannot choose the header `Host`. A
    /// proxy may have replaced it, so without `--public-url` nothing else is known.
    fn origins(&self, request: &HttpRequest) -> Vec<String> {
        let public = self.public_url.as_deref().and_then(origin_of).map(str::to_owned);
        let mut own: Vec<String> = public.into_iter().collect();
        let Some(host) = only(request.headers(), &header::HOST) else { return own };
        let (host, is_local) = (host.to_ascii_lowercase(), is_of_this_machine(host));
        if is_local && !self.is_tls {
            own.push(format!("http://{host}"));
        }
        if is_local || own.is_empty() {
            own.push(format!("https://{host}"));
        }
        own
    }
}

/// Returns the only value of a header.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name);
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Returns the beginning of a URL that is its origin.
fn origin_of(url: &str) -> Option<&str> {
    let authority = url.find("://")? + 3;
    let end = url[authority..].find('/').map_or(url.len(), |end| authority + end);
    Some(&url[..end])
}

/// Returns whether a host, with a port or without, is the machine of the browser. Browsers trust it without TLS.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => host.split(':').next(),
    };
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback || name == "localhost" || name.ends_with(".localhost")
}

/// Reports a request that a page of another origin may have caused.
pub(crate) fn cross_site() -> Problem {
    let detail = "A page of another origin may have caused this request, so nothing was done. A browser says by \
                  Sec-Fetch-Site or Origin that it was not so.";
    Problem::challenge(ProblemCode::CrossSite, detail, "")
}

/// Reports an address where browsers allow no sign-in, or keep no cookie.
pub(crate) fn insecure_origin() -> Problem {
    let detail = "People sign in where browsers allow it: at an https address by name, or at localhost. If this is \
                  one, the operator has to set --public-url to it.";
    Problem::challenge(ProblemCode::InsecureOrigin, detail, "")
}

#[cfg(test)]
mod tests {
    use actix_web::{http::Method, test::TestRequest};

    use super::*;

    const PUBLIC: &str = "https://orders.example.com";

    fn request(method: Method, headers: &[(&'static str, &'static str)]) -> HttpRequest {
        let request = TestRequest::default().method(method);
        headers
            .iter()
            .fold(request, |request, header| request.append_header(*header))
            .to_http_request()
    }

    fn public(url: &str) -> Site {
        Site { public_url: Some(url.to_owned()), ..Site::default() }
    }

    #[test]
    fn changing_requests_of_other_pages_are_refused() {
        let host = ("host", "orders.example.com");
        for (headers, is_allowed) in [
            (&[host, ("sec-fetch-site", "same-origin")][..], true),
            (&[host, ("sec-fetch-site", "same-site")], false),
            (&[host, ("sec-fetch-site", "cross-site")], false),
            (&[host, ("sec-fetch-site", "none")], false),
            // It says more than an origin.
            (&[host, ("sec-fetch-site", "same-site"), ("origin", PUBLIC)], false),
            (&[host, ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], false),
            (&[host, ("origin", PUBLIC)], true),
            (&[host, ("origin", "https://evil.orders.example.com")], false),
            (&[host, ("origin", "https://orders.example.com:8443")], false),
            (&[host, ("origin", "http://orders.example.com")], false),
            (&[host, ("origin", "null")], false),
            (&[host, ("origin", PUBLIC), ("origin", PUBLIC)], false),
            (&[host], false),
            (&[], false),
        ] {
            for site in [Site::default(), public(PUBLIC)] {
                for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                    let checked = site.check(&request(method, headers));
                    assert_eq!(checked.is_ok(), is_allowed, "{headers:?}");
                }
            }
        }
    }

    #[test]
    fn reads_need_no_origin() {
        for method in [Method::GET, Method::HEAD] {
            assert!(Site::default().check(&request(method, &[])).is_ok());
        }
    }

    #[test]
    fn read_of_another_origin_is_known_by_what_the_browser_says() {
        for (site, is_foreign) in [
            ("same-origin", false),
            // The user has entered the address.
            ("none", false),
            ("same-site", true),
            ("cross-site", true),
        ] {
            let headers = [("sec-fetch-site", site)];
            for method in [Method::GET, Method::HEAD] {
                assert_eq!(Site::is_foreign_read(&request(method, &headers)), is_foreign, "{site}");
            }
            assert!(!Site::is_foreign_read(&request(Method::POST, &headers)));
        }
        assert!(!Site::is_foreign_read(&request(Method::GET, &[])));
    }

    #[test]
    fn origin_is_that_of_the_setting_or_of_the_host() {
        let local = Site::default();
        let tls = Site { is_tls: true, ..Site::default() };
        for (site, headers, expected) in [
            (&local, &[("host", "localhost:8080")][..], Some("http://localhost:8080")),
            (&local, &[("host", "LOCALHOST:8080")], Some("http://localhost:8080")),
            (&local, &[("host", "127.0.0.1:8080")], Some("http://127.0.0.1:8080")),
            (&local, &[("host", "[::1]:8080")], Some("http://[::1]:8080")),
            (&tls, &[("host", "localhost:8443")], Some("https://localhost:8443")),
            (
                &local,
                &[("host", "localhost:8080"), ("origin", "https://localhost:8080")],
                Some("https://localhost:8080"),
            ),
            // A proxy ends TLS.
            (&local, &[("host", "orders.example.com")], Some(PUBLIC)),
            (
                &local,
                &[("host", "orders.example.com"), ("origin", "http://orders.example.com")],
                None,
            ),
            // A proxy has replaced the host.
            (&public(PUBLIC), &[("host", "localhost:8080"), ("origin", PUBLIC)], Some(PUBLIC)),
            (&public("https://orders.example.com/a/b"), &[("host", "10.0.0.7")], Some(PUBLIC)),
            (
                &public(PUBLIC),
                &[("host", "localhost:8080"), ("origin", "http://localhost:8080")],
                Some("http://localhost:8080"),
            ),
            (
                &public(PUBLIC),
                &[("host", "evil.example"), ("origin", "https://evil.example")],
                None,
            ),
            (&local, &[], None),
        ] {
            let request = request(Method::POST, headers);
            assert_eq!(site.origin(&request).as_deref(), expected, "{headers:?}");
        }
    }

    #[test]
    fn passkeys_need_a_name_and_tls_or_localhost() {
        let site = Site::default();
        for (host, origin, is_allowed) in [
            ("localhost:8080", "http://localhost:8080", true),
            ("orders.example.com", PUBLIC, true),
            ("orders.example.com", "http://orders.example.com", false),
            ("127.0.0.1:8080", "http://127.0.0.1:8080", false),
            ("192.0.2.1", "https://192.0.2.1", false),
        ] {
            let headers = [("host", host), ("origin", origin)];
            let origin = site.passkey_origin(&request(Method::POST, &headers));
            assert_eq!(origin.is_ok(), is_allowed, "{headers:?}");
        }
        let read = |host| site.allows_passkeys(&request(Method::GET, &[("host", host)]));
        assert_eq!(
            ["localhost:1", "orders.example.com", "192.0.2.1"].map(read),
            [true, true, false]
        );
    }

    #[test]
    fn links_lead_to_the_console() {
        let token = Token::parse("AAECAwQFBgcICQoLDA0ODxAREhMUFRYX").unwrap();
        let base = Site { base_path: "/notary".to_owned(), ..Site::default() };
        for (site, expected) in [
            (Site::default(), "http://localhost:8080"),
            (base, "http://localhost:8080/notary"),
            (public("https://orders.example.com/a"), "https://orders.example.com/a"),
        ] {
            let request = request(Method::POST, &[("host", "localhost:8080")]);
            let link = site.link(&request, "invite", &token);
            assert_eq!(link, format!("{expected}/console#invite=AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"));
            assert_eq!(site.console(&request).unwrap(), format!("{expected}/console"));
        }
    }
}
