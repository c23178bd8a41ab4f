//! A page in a browser, as the service sees it: with cookies, an authenticator, and a place where its requests come
//! from.

use domain::{
    api_key::{ClientId, Party},
    order::{EmailAddress, SigningServiceId},
    person::{NewInvitation, NewPerson, PersonId, PersonName, Role, Token, UserHandle},
    ports::Clock as _,
};
use operator::OsEntropy;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use test_servers::authenticator::Authenticator;

use crate::harness::{Api, TestApp, problem};

/// The client of the first key of each test.
pub const CLIENT: Party = Party::Client(ClientId(1));
/// The signing service of the orders of tests.
pub const SERVICE: Party = Party::Service(SigningServiceId(42));

pub const SESSION: &str = "__Host-notary_session";
pub const CEREMONY: &str = "__Host-notary_ceremony";

/// A browser with one page.
#[derive(Clone)]
pub struct Page {
    pub api: Api,
    /// The host in its address bar.
    pub host: String,
    pub session: Option<String>,
    pub ceremony: Option<String>,
    pub authenticator: Authenticator,
}

/// Invites a person. Returns the token of the link.
pub async fn invited(app: &TestApp, party: Party, name: &str, role: Role) -> (PersonId, Token) {
    let (token, now) = (Token::random(&OsEntropy), app.clock.now());
    let person = NewPerson {
        party,
        name: PersonName::new(name).unwrap(),
        email: Some(EmailAddress::from_stored("ann@title.example.com".to_owned())),
        role,
        handle: UserHandle(contract_tests::samples::new_person(role).handle.0),
        invited_at: now,
    };
    let invitation = NewInvitation::issued(token.hash(), now);
    let id = app.storage().people.invite(&person, &invitation).await.unwrap();
    (id, token)
}

/// Returns the page of a person who has accepted an invitation with a passkey.
pub async fn signed_in(app: &TestApp, party: Party, name: &str, role: Role) -> (PersonId, Page) {
    let (id, token) = invited(app, party, name, role).await;
    let mut page = Page::of(app);
    page.accept(token.expose()).await;
    (id, page)
}

impl Page {
    /// Opens the console of a service at `localhost`.
    pub fn of(api: &Api) -> Self {
        Self {
            api: api.clone(),
            host: format!("localhost:{}", api.address.port()),
            session: None,
            ceremony: None,
            authenticator: Authenticator::new(),
        }
    }

    /// Opens the same page, with the same cookies, at another instance.
    pub fn at(&self, api: &Api) -> Self {
        Self { api: api.clone(), host: Self::of(api).host, ..self.clone() }
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.host)
    }

    /// Returns a request with the cookies, and without what tells where it comes from.
    pub fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        let cookies = [(SESSION, &self.session), (CEREMONY, &self.ceremony)];
        let cookies = cookies.into_iter().filter_map(|(name, value)| {
            let value = value.as_ref()?;
            Some(format!("{name}={value}"))
        });
        let cookies: Vec<_> = cookies.collect();
        let request =
            self.api.client.request(method, self.api.url(path)).header("host", &self.host);
        if cookies.is_empty() { request } else { request.header("cookie", cookies.join("; ")) }
    }

    /// Returns a request of the page itself.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).header("sec-fetch-site", "same-origin")
    }

    /// Sends a request of the page, and keeps the cookies of the answer.
    pub async fn send(&mut self, method: Method, path: &str, body: Option<Value>) -> Response {
        let request = self.request(method, path);
        let request = if let Some(body) = body { request.json(&body) } else { request };
        let response = request.send().await.unwrap();
        self.keep(&response);
        response
    }

    /// Keeps the cookies of an answer as a browser does.
    pub fn keep(&mut self, response: &Response) {
        for cookie in response.headers().get_all("set-cookie") {
            let cookie = cookie.to_str().unwrap();
            for attribute in ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"] {
                assert!(cookie.split("; ").any(|it| it == attribute), "{cookie}");
            }
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            let kept = match name {
                SESSION => &mut self.session,
                CEREMONY => &mut self.ceremony,
                other => panic!("{other}"),
            };
            *kept = Some(value.to_owned()).filter(|_| !cookie.contains("Max-Age=0"));
        }
    }

    /// Sends a request that succeeds. Returns the body of the answer.
    pub async fn call(&mut self, method: Method, path: &str, body: Option<Value>) -> Value {
        let response = self.send(method, path, body).await;
        let (status, cache) = (response.status(), response.headers().get("cache-control").cloned());
        assert!(status != 201 || response.headers().contains_key("location"), "{path}");
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "{path} {status} {text}");
        if ["/api/session", "/api/people", "/api/keys"].iter().any(|it| path.starts_with(it)) {
            assert_eq!(cache.unwrap(), "no-store", "{path}");
        }
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub async fn get(&mut self, path: &str) -> Value {
        self.call(Method::GET, path, None).await
    }

    pub async fn post(&mut self, path: &str, body: Value) -> Value {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Sends a request that fails.
    pub async fn refused(
        &mut self,
        (method, path): (Method, &str),
        body: Option<Value>,
        (status, code): (u16, &str),
    ) -> Value {
        problem(self.send(method, path, body).await, status, code).await
    }

    /// Begins a ceremony with a passkey, and has the authenticator answer.
    pub async fn credential(&mut self, begin: Value) -> Value {
        let creates = begin["purpose"] == "accept";
        let options = self.post("/api/session/passkey", begin).await["publicKey"].to_string();
        let origin = self.origin();
        let answer = if creates {
            self.authenticator.create(&options, &origin)
        } else {
            self.authenticator.get(&options, &origin)
        };
        serde_json::from_str(&answer.unwrap()).unwrap()
    }

    /// Accepts an invitation with a new passkey. Returns the session.
    pub async fn accept(&mut self, token: &str) -> Value {
        let credential = self.credential(json!({ "purpose": "accept", "token": token })).await;
        self.finish(credential).await
    }

    /// Signs in by the passkey. Returns the session.
    pub async fn sign_in(&mut self) -> Value {
        let credential = self.credential(json!({ "purpose": "sign_in" })).await;
        self.finish(credential).await
    }

    /// Signs in once more, in place.
    pub async fn confirm(&mut self) -> Value {
        let credential = self.credential(json!({ "purpose": "confirm" })).await;
        self.finish(credential).await
    }

    async fn finish(&mut self, credential: Value) -> Value {
        let body = json!({ "credential": credential });
        self.post("/api/session/passkey/finish", body).await
    }
}
