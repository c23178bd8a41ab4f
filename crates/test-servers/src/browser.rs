//! Chromium without its windows and menus (`chromium-headless-shell`), driven over WebDriver by the system's
//! `chromedriver`. The whole Chromium takes three times the processor time for the same pages.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::Stdio,
    sync::Mutex,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::janitor::Janitor;

/// Time limit for an element to appear.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Starts the driver. It makes the profile of its browser below a folder of ours, since it finds no page if
/// the profile is given. Kills it and all processes of its browser when standard input ends. Only the driver
/// writes to standard output, which therefore ends if the driver does not start.
const JANITOR: &str = r#"
TMPDIR=$1 chromedriver --port=0 </dev/null &
exec >/dev/null
cat >/dev/null
kill "$!"
for process in /proc/[0-9]*; do
    grep -qsF -- "--user-data-dir=$1/" "$process/cmdline" && kill -KILL "${process#/proc/}"
done
rm -rf "$1"
"#;

/// The key of an element identifier in WebDriver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A new window of a browser without stored data. Its browser starts with the first test that needs one,
/// and serves further tests one after the other.
pub struct Browser {
    client: Client,
    /// `None` while it is dropped.
    session: Option<Session>,
}

/// A browser with a profile of its own. Ends when it is dropped or the test process ends.
struct Session {
    _janitor: Janitor,
    /// Its address at the driver.
    url: String,
}

/// The browsers that no test uses now.
static IDLE: Mutex<Vec<Session>> = Mutex::new(Vec::new());

impl Drop for Browser {
    fn drop(&mut self) {
        // After a failure, nobody knows what the browser does.
        if !std::thread::panicking() {
            IDLE.lock().unwrap().extend(self.session.take());
        }
    }
}

impl Browser {
    /// Opens a window. `client` talks to the driver of the browser.
    pub async fn start(client: Client) -> Self {
        let idle = IDLE.lock().unwrap().pop();
        let session = match idle {
            Some(session) => session,
            None => Session::start(&client).await,
        };
        let browser = Self { client, session: Some(session) };
        browser.renew().await;
        browser
    }

    /// Replaces the windows by a new one, and deletes what earlier tests have left.
    async fn renew(&self) {
        let former = self.command(Method::GET, "/window/handles", Value::Null).await;
        let window = self.command(Method::POST, "/window/new", json!({ "type": "window" })).await;
        for former in former.as_array().unwrap() {
            self.switch_to(former.as_str().unwrap()).await;
            self.command(Method::DELETE, "/window", Value::Null).await;
        }
        self.switch_to(window["handle"].as_str().unwrap()).await;
        for (command, parameters) in [
            ("Network.clearBrowserCookies", json!({})),
            ("Network.clearBrowserCache", json!({})),
            ("Storage.clearDataForOrigin", json!({ "origin": "*", "storageTypes": "all" })),
            ("Browser.resetPermissions", json!({})),
            ("Browser.setDownloadBehavior", json!({ "behavior": "default" })),
        ] {
            self.devtools(command, parameters).await;
        }
        for kind in ["browser", "performance"] {
            self.log(kind).await;
        }
    }

    async fn command(&self, method: Method, path: &str, body: Value) -> Value {
        let url = &self.session.as_ref().unwrap().url;
        request(&self.client, method, &format!("{url}{path}"), body).await
    }

    /// Opens one more tab, which shares the storage of the others. Returns the tab before, and goes to the new one.
    pub async fn open_tab(&self) -> String {
        let before = self.command(Method::GET, "/window", Value::Null).await;
        let tab = self.command(Method::POST, "/window/new", json!({ "type": "tab" })).await;
        self.switch_to(tab["handle"].as_str().unwrap()).await;
        before.as_str().unwrap().to_owned()
    }

    /// Goes to another tab.
    pub async fn switch_to(&self, tab: &str) {
        self.command(Method::POST, "/window", json!({ "handle": tab })).await;
    }

    /// Returns how many windows and tabs are open.
    pub async fn windows(&self) -> usize {
        self.command(Method::GET, "/window/handles", Value::Null).await.as_array().unwrap().len()
    }

    /// Gives this tab an authenticator for passkeys, whose user agrees to everything at once (WebAuthn, section 11).
    pub async fn add_authenticator(&self) {
        let kind = json!({ "protocol": "ctap2", "transport": "internal", "hasResidentKey": true,
            "hasUserVerification": true, "isUserVerified": true });
        self.command(Method::POST, "/webauthn/authenticator", kind).await;
    }

    /// Opens a page.
    pub async fn open(&self, url: &str) {
        self.command(Method::POST, "/url", json!({ "url": url })).await;
    }

    /// Runs the body of a function in the page and returns its result.
    pub async fn run(&self, script: &str, arguments: &[&str]) -> Value {
        self.command(Method::POST, "/execute/sync", json!({ "script": script, "args": arguments }))
            .await
    }

    /// Runs the body of a function in the page, which passes its result to its last argument.
    pub async fn run_async(&self, script: &str, arguments: &[&str]) -> Value {
        let body = json!({ "script": script, "args": arguments });
        self.command(Method::POST, "/execute/async", body).await
    }

    /// Sends a command of Chromium's own protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.command(Method::POST, "/goog/cdp/execute", body).await
    }

    /// Presses keys one after the other, wherever the focus is.
    pub async fn press(&self, keys: &str) {
        let actions: Vec<_> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })))
            .collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.command(Method::POST, "/actions", json!({ "actions": [keyboard] })).await;
    }

    /// Waits until the text of the page contains a text.
    pub async fn shows(&self, text: &str) {
        let script = "return document.body.innerText.includes(arguments[0]) || null";
        self.wait_for(script, text).await;
    }

    /// Waits until no element matches a selector.
    pub async fn lacks(&self, selector: &str) {
        let script = "return document.querySelector(arguments[0]) ? null : true";
        self.wait_for(script, selector).await;
    }

    /// Runs a script with a selector until it returns something else than `null`.
    pub async fn wait_for(&self, script: &str, selector: &str) -> Value {
        self.wait_within(TIMEOUT, script, selector).await
    }

    /// Waits like [`Self::wait_for`], with another time limit.
    pub async fn wait_within(&self, limit: Duration, script: &str, selector: &str) -> Value {
        let deadline = Instant::now() + limit;
        loop {
            match self.run(script, &[selector]).await {
                Value::Null => assert!(Instant::now() < deadline, "{selector} did not appear"),
                found => return found,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for the first element of a selector to have text, and returns it.
    pub async fn text(&self, selector: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.innerText?.trim() \
            ? document.querySelector(arguments[0]).innerText : null";
        self.wait_for(script, selector).await.as_str().unwrap().to_owned()
    }

    /// Sends a command to the first element of a selector, again if the page has replaced it meanwhile.
    async fn command_element(&self, selector: &str, name: &str, body: Value) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let script = "return document.querySelector(arguments[0])";
            let found = self.wait_for(script, selector).await;
            let path = format!("/element/{}/{name}", found[ELEMENT].as_str().unwrap());
            let url = format!("{}{path}", self.session.as_ref().unwrap().url);
            match answer(&self.client, Method::POST, &url, &body).await {
                Ok(_) => return,
                Err(error) if error["error"] == "stale element reference" => {
                    assert!(Instant::now() < deadline, "{selector} does not stay: {error}");
                }
                Err(error) => panic!("{selector} {name} {body}: {error}"),
            }
        }
    }

    /// Waits for the first element of a selector and clicks it.
    pub async fn click(&self, selector: &str) {
        self.command_element(selector, "click", json!({})).await;
    }

    /// Types into the first element of a selector; into a file input, the path of a file.
    pub async fn type_into(&self, selector: &str, text: &str) {
        self.command_element(selector, "value", json!({ "text": text })).await;
    }

    /// Replaces the text of the first element of a selector at once: the page reacts to every key.
    pub async fn paste_over(&self, selector: &str, text: &str) {
        self.wait_for("return document.querySelector(arguments[0])", selector).await;
        let script = "const element = document.querySelector(arguments[0]);
            const prototype = Object.getPrototypeOf(element);
            Object.getOwnPropertyDescriptor(prototype, 'value').set.call(element, arguments[1]);
            element.dispatchEvent(new Event('input', { bubbles: true }));";
        self.run(script, &[selector, text]).await;
    }

    /// Returns a screenshot of the window as PNG.
    pub async fn screenshot(&self) -> Vec<u8> {
        BASE64_STANDARD
            .decode(self.command(Method::GET, "/screenshot", Value::Null).await.as_str().unwrap())
            .unwrap()
    }

    async fn log(&self, kind: &str) -> Vec<Value> {
        let entries = self.command(Method::POST, "/se/log", json!({ "type": kind })).await;
        entries.as_array().unwrap().clone()
    }

    /// Returns the level and text of all console messages since the last call.
    pub async fn complaints(&self) -> Vec<(String, String)> {
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
        let entries = self.log("browser").await.into_iter();
        entries.map(|entry| (text(&entry, "level"), text(&entry, "message"))).collect()
    }

    /// Returns the URLs that pages requested since the last call.
    pub async fn requested(&self) -> Vec<String> {
        let entries = self.log("performance").await.into_iter();
        let events = entries
            .map(|entry| serde_json::from_str(entry["message"].as_str().unwrap()).unwrap())
            .filter(|event: &Value| event["message"]["method"] == "Network.requestWillBeSent");
        let urls = events
            .map(|event| event["message"]["params"]["request"]["url"].as_str().unwrap().to_owned());
        // Requests of built-in pages, such as the start page, stay in the browser.
        urls.filter(|url| !url.starts_with("chrome:")).collect()
    }
}

impl Session {
    async fn start(client: &Client) -> Self {
        // The janitor removes it.
        let profile = tempfile::Builder::new().prefix("notary-orders-chromium").tempdir().unwrap();
        let profile = profile.keep();
        let started = (0..5).find_map(|_| start_driver(&profile));
        let (janitor, port) = started.expect(
            "chromedriver starts; install the packages chromium-headless-shell and chromium-driver",
        );
        let sessions = format!("http://127.0.0.1:{port}/session");
        let body = json!({ "capabilities": { "alwaysMatch": capabilities() } });
        let created = request(client, Method::POST, &sessions, body).await;
        let url = format!("{sessions}/{}", created["sessionId"].as_str().unwrap());
        Self { _janitor: janitor, url }
    }
}

fn capabilities() -> Value {
    let flags = [
        // Chromium's sandbox does not start as root, and containers run tests as root.
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--window-size=1280,1600",
    ];
    json!({
        // In milliseconds. The defaults, such as 30 s for a script, are short for a busy machine.
        "timeouts": { "script": 600_000, "pageLoad": 600_000 },
        "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        "goog:chromeOptions": { "binary": "/usr/bin/chromium-headless-shell", "args": flags }
    })
}

/// Sends a command to a driver, and returns its answer.
async fn request(client: &Client, method: Method, url: &str, body: Value) -> Value {
    answer(client, method, url, &body).await.unwrap_or_else(|error| panic!("{url} {body}: {error}"))
}

/// Sends a command to a driver, and returns its answer or its error.
async fn answer(client: &Client, method: Method, url: &str, body: &Value) -> Result<Value, Value> {
    let request = client.request(method.clone(), url);
    let request = if method == Method::POST { request.json(body) } else { request };
    let response = request.send().await.unwrap();
    let is_success = response.status().is_success();
    let value = response.json::<Value>().await.unwrap()["value"].take();
    if is_success { Ok(value) } else { Err(value) }
}

/// Starts a driver. Returns its port, or nothing if another process has taken that port meanwhile.
fn start_driver(profile: &Path) -> Option<(Janitor, String)> {
    let mut janitor = Janitor::start(JANITOR, [profile], Stdio::piped());
    let mut lines = BufReader::new(janitor.0.stdout.take().unwrap()).lines();
    let port = lines.by_ref().find_map(|line| {
        let (_, port) = line.as_ref().unwrap().split_once("started successfully on port ")?;
        Some(port.trim_end_matches('.').to_owned())
    })?;
    // The driver must never block on a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Some((janitor, port))
}
