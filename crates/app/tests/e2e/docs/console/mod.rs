//! Uses the console in a real browser, as clients and signing services do.

mod accessibility;
mod change;
mod day;
mod documents;
mod form;
mod guards;
mod keys;
mod list {
    mod agenda;
    mod changed;
    mod find;
    mod many;
}
mod notes;
mod order_page;
mod orders;
mod people {
    mod account;
    mod company_login;
    mod first_start;
    mod invitations;
    mod manage_keys;
    mod sessions;
    pub(super) mod visitor;
}
mod problems;
mod webhooks;

use std::path::{Path, PathBuf};

use domain::{
    api_key::Scope, order::SigningServiceId, ports::Clock as _,
    use_cases::keys::manage_keys::KeyTerms,
};
use serde_json::{Value, json};
use test_servers::browser::Browser;

use crate::harness::{Api, TestApp, client, created, order};

const ENTER: char = '\u{e007}';
const TAB: char = '\u{e004}';

/// Bytes that the browser sends each second in a slow upload: even a slow machine has time for what a test does
/// meanwhile.
const SLOW: i32 = 64 * 1024;

/// Returns whether the page asks before it is left.
const ASKS: &str = "const event = new Event('beforeunload', { cancelable: true });
    dispatchEvent(event);
    return event.defaultPrevented;";

/// Loses the answer to the next change: the service carries the request out, and the page does not learn of it.
const LOSE_ANSWER: &str = "const send = window.fetch;
    window.fetch = async (...request) => {
        if (request[1].method === 'GET') return send(...request);
        window.fetch = send;
        await send(...request);
        throw new TypeError('the connection broke');
    };";

/// A service, and a browser whose user has a key.
struct Console {
    app: TestApp,
    browser: Browser,
    /// The service, as the user of the browser reaches it.
    user: Api,
}

impl Console {
    /// Starts a service with these flags, and signs in with a key of these terms.
    async fn start(flags: &[&str], terms: KeyTerms) -> Self {
        let app = TestApp::start_with(flags).await;
        let base_path = flags.iter().find_map(|flag| flag.strip_prefix("--base-path="));
        Self::start_with(app, base_path.unwrap_or_default(), terms).await
    }

    /// Opens the page of a service below a base path, and signs in with a key of these terms.
    async fn start_with(app: TestApp, base_path: &str, terms: KeyTerms) -> Self {
        let key = app.issue_key_on(terms).await;
        let console = Self { browser: Browser::start(client()).await, user: app.as_key(&key), app };
        console.share_clock().await;
        let page = format!("{base_path}/console");
        console.browser.open(&console.user.url(&page)).await;
        console.sign_in(&key).await;
        console
    }

    /// Starts the clock of each page at the time of the service: today is the same day whenever a
    /// test runs, and no test passes midnight.
    async fn share_clock(&self) {
        let now = self.app.clock.now().unix_timestamp() * 1_000;
        let script = format!(
            "const ahead = {now} - Date.now();
            window.Date = class extends Date {{
                constructor(...parts) {{
                    if (parts.length) super(...parts);
                    else super(Date.now());
                }}
                static now() {{ return super.now() + ahead; }}
            }};"
        );
        let source = json!({ "source": format!("{{ {script} }}") });
        self.browser.devtools("Page.addScriptToEvaluateOnNewDocument", source).await;
    }

    /// Signs in where the page asks for a key, which it exchanges for a session.
    async fn sign_in(&self, key: &str) {
        self.browser.type_into("#api-key", &format!("{key}{ENTER}")).await;
        self.browser.text("nav").await;
    }

    /// Signs out, and signs in with a key of these terms.
    async fn sign_in_as(&mut self, terms: KeyTerms) {
        let key = self.app.issue_key_on(terms).await;
        self.change_user(&self.app.as_key(&key)).await;
    }

    /// Signs out, and signs in with the key of another user.
    async fn change_user(&mut self, user: &Api) {
        self.browser.click("#header > button").await;
        self.sign_in(&user.key).await;
        self.user = user.clone();
    }

    /// Returns the service as a user with a new key of these terms reaches it.
    async fn user_on(&self, terms: KeyTerms) -> Api {
        self.app.as_key(&self.app.issue_key_on(terms).await)
    }

    /// Waits until the page has learned which order is the newest. It tells of those that come later.
    async fn news_begin(&self) {
        let script = "return performance.getEntriesByType('resource')
            .some(({ name }) => name.endsWith(arguments[0])) || null";
        self.browser.wait_for(script, "/api/order?limit=1").await;
    }

    /// Lets the browser send this many bytes each second; -1 lifts the limit.
    async fn limit_uploads(&self, bytes: i32) {
        let limits = json!({ "offline": false, "latency": 0, "downloadThroughput": -1,
            "uploadThroughput": bytes });
        self.browser.devtools("Network.enable", json!({})).await;
        self.browser.devtools("Network.emulateNetworkConditions", limits).await;
    }

    /// Opens a view of the menu.
    async fn view(&self, name: &str) {
        let link = format!("nav a[href='#/{name}']");
        self.browser.click(&link).await;
        // A view with entries asks before it is left.
        let script = "const shown = document.querySelector(arguments[0]) ?? document.querySelector('dialog[open]');
            return shown && true;";
        self.browser.wait_for(script, &format!("{link}[aria-current]")).await;
    }

    /// Presses the button with a label, when the page is not busy with what it did before.
    async fn press_button(&self, label: &str) {
        let script = "const button = [...document.querySelectorAll('button')]
                .find((it) => it.innerText === arguments[0] || it.ariaLabel === arguments[0]);
            if (!button?.checkVisibility() || button.ariaDisabled === 'true') return null;
            button.focus();
            button.click();
            return true;";
        self.browser.wait_for(script, label).await;
    }

    /// Enters a text into the control with a label that is visible.
    async fn enter(&self, label: &str, text: &str) {
        let script = "const [name, text] = JSON.parse(arguments[0]);
            const label = [...document.querySelectorAll('label')]
                .find((it) => it.innerText.replace(/ \\*$/, '') === name && it.checkVisibility());
            if (!label) return null;
            const { control } = label;
            const prototype = Object.getPrototypeOf(control);
            Object.getOwnPropertyDescriptor(prototype, 'value').set.call(control, text);
            for (const kind of ['input', 'change']) control.dispatchEvent(new Event(kind, { bubbles: true }));
            return true;";
        self.browser.wait_for(script, &json!([label, text]).to_string()).await;
    }

    /// Follows the link with a text.
    async fn follow(&self, text: &str) {
        let script = "const link = [...document.querySelectorAll('main a')]
                .find((it) => it.innerText === arguments[0] && it.checkVisibility());
            if (!link) return null;
            link.click();
            return true;";
        self.browser.wait_for(script, text).await;
    }

    /// Opens an order, and waits until the page shows it.
    async fn open_order(&self, id: i64) {
        self.browser.run("location.hash = arguments[0]", &[&format!("#/order/{id}")]).await;
        self.browser.shows(&format!("(order {id})")).await;
        self.browser.text(".timeline").await;
    }

    /// Returns the text of the card with a heading.
    async fn card(&self, heading: &str) -> String {
        let script = "return [...document.querySelectorAll('section.card')]
            .find((it) => it.querySelector('h2')?.innerText === arguments[0])?.innerText ?? null";
        self.browser.wait_for(script, heading).await.as_str().unwrap().to_owned()
    }

    /// Returns the texts of the cells of each row of the table with a caption.
    async fn rows(&self, caption: &str) -> Vec<Vec<String>> {
        let script = "const table = [...document.querySelectorAll('table')]
                .find((it) => it.caption?.innerText === arguments[0]);
            return table ? [...table.tBodies[0].rows].map((row) => [...row.cells].map((it) => it.innerText.trim()))
                : null;";
        let rows = self.browser.wait_for(script, caption).await;
        serde_json::from_value(rows).unwrap()
    }

    /// Returns the lines of each item of the timeline, the newest first.
    async fn timeline(&self) -> Vec<Vec<String>> {
        let items = self.texts(".timeline li").await;
        items.iter().map(|item| item.lines().map(str::to_owned).collect()).collect()
    }

    /// Fills the form with every required field of an order.
    async fn fill(&self, order: &Value) {
        let script = "for (const [pointer, value] of JSON.parse(arguments[0])) {
                const [first] = document.getElementsByName(pointer);
                if (first.type === 'radio') document.querySelector(`[value='${value}']`).click();
                else if (first.type === 'checkbox') first.checked = value === 'true';
                else first.value = value;
                first.dispatchEvent(new Event('input', { bubbles: true }));
                first.dispatchEvent(new Event('change', { bubbles: true }));
            }";
        self.browser.run(script, &[&json!(fields(order)).to_string()]).await;
    }

    /// Sets the time zone of the browser.
    async fn set_time_zone(&self, id: &str) {
        let zone = json!({ "timezoneId": id });
        self.browser.devtools("Emulation.setTimezoneOverride", zone).await;
    }

    /// Returns the day that is some days after today in the browser.
    async fn date_in(&self, days: i32) -> String {
        let script = "const date = new Date();
            date.setDate(date.getDate() + Number(arguments[0]));
            return date.toLocaleDateString('sv');";
        self.browser.run(script, &[&days.to_string()]).await.as_str().unwrap().to_owned()
    }

    /// Creates an order of the user with a date and some details.
    async fn create_on(&self, number: &str, date: &str, details: Value) {
        let mut order = order(number);
        let members = order["signingDetailsFormData"].as_object_mut().unwrap();
        members.insert("signingDate".to_owned(), json!(date));
        members.extend(details.as_object().unwrap().clone());
        created(self.user.create(&order).await).await;
    }

    /// Returns the texts of all elements of a selector that are visible.
    async fn texts(&self, selector: &str) -> Vec<String> {
        let script = "return [...document.querySelectorAll(arguments[0])]
            .map((it) => it.innerText.trim()).filter(Boolean)";
        let texts = self.browser.run(script, &[selector]).await;
        serde_json::from_value(texts).unwrap()
    }

    /// Returns what the browser complains of, besides answers that are no success.
    async fn complaints(&self) -> Vec<String> {
        let complaints = self.browser.complaints().await.into_iter().map(|(_, text)| text);
        complaints.filter(|text| !text.contains("Failed to load resource")).collect()
    }

    async fn save_screenshot(&self, name: &str) {
        let folder = below_root("target").join("screenshots");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), self.browser.screenshot().await).unwrap();
    }
}

fn below_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap().join(path)
}

/// Returns the JSON Pointer and the text of every field of an order.
fn fields(order: &Value) -> Vec<(String, String)> {
    match order {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, member)| {
                fields(member)
                    .into_iter()
                    .map(move |(inner, text)| (format!("/{name}{inner}"), text))
            })
            .collect(),
        Value::String(text) => vec![(String::new(), text.clone())],
        other => vec![(String::new(), other.to_string())],
    }
}

/// Returns the terms of a key of a client with every scope.
fn of_client() -> KeyTerms {
    KeyTerms { scopes: Scope::OF_CLIENTS.into_iter().collect(), ..KeyTerms::default() }
}

/// Returns the terms of a key of the signing service that the orders of tests name.
fn of_service() -> KeyTerms {
    KeyTerms {
        for_service: Some(SigningServiceId(42)),
        scopes: Scope::DEFAULT_OF_SERVICES.into_iter().collect(),
        ..KeyTerms::default()
    }
}
