//! People in the console: each has a browser with an authenticator of their own.

use test_servers::browser::Browser;

use super::super::Console;
use crate::harness::{TestApp, client, service_process::run};

impl Console {
    /// Starts a service with these flags, and a browser that has opened nothing yet.
    pub(in super::super) async fn without_sign_in(flags: &[&str]) -> Self {
        Self::visiting(TestApp::start_with(flags).await).await
    }

    /// Starts a browser that has opened nothing yet, beside a service.
    pub(in super::super) async fn visiting(app: TestApp) -> Self {
        let (browser, user) = (Browser::start(client()).await, app.as_key(&app.key));
        let console = Self { app, browser, user };
        console.prepare().await;
        console
    }

    /// Starts a service with these flags, and signs in as Ann Roe, an admin of its client.
    pub(in super::super) async fn as_admin(flags: &[&str]) -> Self {
        let console = Self::without_sign_in(flags).await;
        console.accept(&console.invited("Ann Roe", &["--client=1", "--admin"])).await;
        console
    }

    /// Gives the browser an authenticator, and the clock of the service.
    async fn prepare(&self) {
        self.share_clock().await;
        self.browser.add_authenticator().await;
    }

    /// Goes on in the browser of another person. Returns the one before.
    pub(in super::super) async fn change_browser(&mut self) -> Browser {
        let before = std::mem::replace(&mut self.browser, Browser::start(client()).await);
        self.prepare().await;
        before
    }

    /// Loads the console where passkeys work, with the rest of the address.
    pub(in super::super) async fn visit(&self, rest: &str) {
        // Another fragment alone loads no page.
        self.browser.open("about:blank").await;
        let port = self.app.address.port();
        self.browser.open(&format!("http://localhost:{port}/console{rest}")).await;
    }

    /// Invites a person by a command. Returns the fragment of the link.
    pub(in super::super) fn invited(&self, name: &str, side: &[&str]) -> String {
        let named = format!("--name={name}");
        let all = [&["people", "invite", &named, "--email=person@example.com"][..], side].concat();
        fragment(&run(&self.app.wiring, &all))
    }

    /// Accepts the invitation of a fragment with a new passkey.
    pub(in super::super) async fn accept(&self, fragment: &str) {
        self.visit(fragment).await;
        self.press_button("Create a passkey").await;
        // What screen readers were told last stays in the page, so the sentence alone proves nothing.
        self.browser.lacks(".ways").await;
        self.browser.shows("You are signed in.").await;
    }

    /// Signs in with the passkey of this browser, where the page asks for it.
    pub(in super::super) async fn use_passkey(&self) {
        self.press_button("Sign in with a passkey").await;
        self.browser.lacks("dialog").await;
        self.browser.text("nav").await;
    }

    /// Returns what scripts can read of what this browser keeps.
    pub(in super::super) async fn kept(&self) -> String {
        let script = "return JSON.stringify(
            [Object.entries(sessionStorage), Object.entries(localStorage), document.cookie])";
        self.browser.run(script, &[]).await.as_str().unwrap().to_owned()
    }

    /// Returns the address of the page.
    pub(in super::super) async fn address(&self) -> String {
        let address = self.browser.run("return location.href", &[]).await;
        address.as_str().unwrap().to_owned()
    }
}

/// Returns the fragment of a link, with its `#`.
pub(in super::super) fn fragment(link: &str) -> String {
    format!("#{}", link.trim().split_once('#').unwrap().1)
}
