//! The cookies of browsers: the token of a session, and that of a ceremony that has begun.
//!
//! The prefix `__Host-` has browsers refuse a cookie of another host or path, or without `Secure` (RFC 6265bis, section
//! 4.1.3.2). `HttpOnly` keeps it from scripts, `SameSite=Strict` from requests that other sites cause.

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderName},
};
use domain::person::{CEREMONY_LIFETIME, Token};

const ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";

/// A cookie of this service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenCookie {
    /// The token of a session. The browser forgets it when it is closed.
    Session,
    /// The token of a ceremony.
    Ceremony,
}

impl TokenCookie {
    fn name(self) -> &'static str {
        match self {
            Self::Session => "__Host-notary_session",
            Self::Ceremony => "__Host-notary_ceremony",
        }
    }

    /// Returns the text of the cookie in a request; `None` if it has none.
    pub(crate) fn text(self, request: &HttpRequest) -> Option<&str> {
        let lines = request.headers().get_all(header::COOKIE);
        let mut pairs =
            lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(';'));
        pairs.find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.name()).then_some(value)
        })
    }

    /// Returns the token of a request; `None` if it has none.
    pub(crate) fn token(self, request: &HttpRequest) -> Option<Token> {
        Token::parse(self.text(request)?)
    }

    /// Returns the header that gives a browser a token.
    pub(crate) fn holding(self, token: &Token) -> (HeaderName, String) {
        let lifetime = match self {
            Self::Session => String::new(),
            Self::Ceremony => format!("; Max-Age={}", CEREMONY_LIFETIME.whole_seconds()),
        };
        (header::SET_COOKIE, format!("{}={}; {ATTRIBUTES}{lifetime}", self.name(), token.expose()))
    }

    /// Returns the header that has a browser forget the token.
    pub(crate) fn cleared(self) -> (HeaderName, String) {
        (header::SET_COOKIE, format!("{}=; {ATTRIBUTES}; Max-Age=0", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const TOKEN: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

    #[test]
    fn cookie_is_found_among_others() {
        for (sent, expected) in [
            (format!("a=b; __Host-notary_session={TOKEN}"), Some(TOKEN)),
            (format!("__Host-notary_session={TOKEN};a"), Some(TOKEN)),
            (format!("notary_session={TOKEN}; x__Host-notary_session={TOKEN}"), None),
            ("__Host-notary_session=".to_owned(), Some("")),
            (String::new(), None),
        ] {
            let request = TestRequest::get().insert_header(("cookie", sent.as_str()));
            let request = request.to_http_request();
            assert_eq!(TokenCookie::Session.text(&request), expected, "{sent}");
            let token = TokenCookie::Session.token(&request);
            assert_eq!(token.is_some(), expected == Some(TOKEN), "{sent}");
            assert_eq!(TokenCookie::Ceremony.text(&request), None);
        }
    }

    /// Whatever else it has.
    #[test]
    fn every_cookie_is_of_this_host_and_kept_from_scripts_and_other_sites() {
        let token = Token::parse(TOKEN).unwrap();
        for cookie in [TokenCookie::Session, TokenCookie::Ceremony] {
            for (name, value) in [cookie.holding(&token), cookie.cleared()] {
                assert_eq!(name, header::SET_COOKIE);
                let mut parts = value.split("; ");
                assert!(parts.next().unwrap().starts_with("__Host-notary_"));
                let parts: Vec<_> = parts.collect();
                for attribute in ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"] {
                    assert!(parts.contains(&attribute), "{value}");
                }
                assert!(!value.contains("Domain"), "{value}");
            }
        }
    }
}
