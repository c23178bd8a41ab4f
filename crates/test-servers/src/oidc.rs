//! An OpenID provider: `oidc-provider`, which is certified, with one client and no pages.

use std::{
    net::{TcpListener, TcpStream},
    process::Stdio,
    sync::Mutex,
};

use reqwest::{Client, header, redirect};
use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::ring;

use crate::{
    janitor::{self, Janitor, free_port, wait_for},
    tools::{built, node},
};

/// The identifier of the client.
pub const CLIENT_ID: &str = "notary-orders";

/// The secret of the client. Form encoding changes it.
pub const CLIENT_SECRET: &str = "pass+w0rd/ of:the%client";

/// The redirect URI of the client, unless a test registers another.
pub const REDIRECT_URI: &str = "http://localhost:8080/console";

/// A provider that listens on a port. It ends when it is dropped or the test process ends.
pub struct OidcProvider {
    janitor: Mutex<Option<Janitor>>,
    port: u16,
    client: Value,
}

impl OidcProvider {
    /// Starts a provider whose client is registered with these members (RFC 7591) in place of the usual ones; `null`
    /// removes one. Waits until it answers.
    pub fn start(client: &Value) -> Self {
        let mut members = json!({
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "redirect_uris": [REDIRECT_URI],
            "response_types": ["code"],
            "grant_types": ["authorization_code"],
        });
        for (name, value) in client.as_object().unwrap() {
            members[name] = value.clone();
        }
        members.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let provider = Self { janitor: Mutex::default(), port: free_port(), client: members };
        provider.start_again();
        provider
    }

    /// Returns its issuer.
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts it on the same port, in place of itself, and waits until it answers. It then has other keys, and has
    /// forgotten every code.
    pub fn start_again(&self) {
        self.stop();
        // The program before may end a little later.
        wait_for("the port of the provider", || TcpListener::bind(("127.0.0.1", self.port)));
        let module = built(
            "tools/node_modules/oidc-provider/lib/index.js",
            "scripts/client_tools.sh installs it",
        );
        let settings = json!({ "module": module, "port": self.port, "client": self.client });
        let node = node().into_os_string().into_string().unwrap();
        let program = include_str!("oidc/provider.mjs");
        let arguments = [&node, "--input-type=module", "-e", program, "--", &settings.to_string()];
        let janitor = Janitor::start(janitor::RUN, arguments, Stdio::null());
        *self.janitor.lock().unwrap() = Some(janitor);
        wait_for("oidc-provider", || TcpStream::connect(("127.0.0.1", self.port)));
    }

    /// Kills it.
    pub fn stop(&self) {
        *self.janitor.lock().unwrap() = None;
    }

    /// Goes where the service sends a browser, signs in as a subject with these other claims, and returns where the
    /// provider sends the browser.
    pub async fn sign_in(&self, url: &str, subject: &str, claims: Value) -> String {
        // `reqwest` may be built without a provider of its own.
        let _ = ring::default_provider().install_default();
        let http = Client::builder().redirect(redirect::Policy::none()).no_proxy().build().unwrap();
        let hint = json!({ "sub": subject, "claims": claims }).to_string();
        let request = http.get(url).query(&[("login_hint", hint)]).build().unwrap();
        let (mut next, mut cookies) = (request.url().to_string(), Vec::<String>::new());
        while next.starts_with(&self.issuer()) {
            let request = http.get(&next).header(header::COOKIE, cookies.join("; "));
            let answer = request.send().await.unwrap();
            for cookie in answer.headers().get_all(header::SET_COOKIE) {
                let pair = cookie.to_str().unwrap().split(';').next().unwrap();
                let name = format!("{}=", pair.split('=').next().unwrap());
                cookies.retain(|cookie| !cookie.starts_with(&name));
                cookies.push(pair.to_owned());
            }
            let location = answer.headers().get(header::LOCATION);
            let Some(location) = location.map(|location| location.to_str().unwrap().to_owned())
            else {
                panic!("{next}: {} {}", answer.status(), answer.text().await.unwrap());
            };
            next = match location.strip_prefix('/') {
                Some(path) => format!("{}/{path}", self.issuer()),
                None => location,
            };
        }
        next
    }
}

/// Returns a parameter of an address.
pub fn parameter(url: &str, name: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).unwrap();
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
