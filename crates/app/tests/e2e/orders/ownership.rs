//! No operation shows or changes anything of another client's order or webhook, nor of the test keys
//! of the client with its live keys, or the reverse. The operations come from the OpenAPI document,
//! so a new one is covered without being named here.

use domain::{
    api_key::{ClientId, Scope},
    order::SigningServiceId,
    use_cases::keys::manage_keys::KeyTerms,
};
use reqwest::{Method, RequestBuilder, Response, multipart::Form};
use serde_json::{Value, json};

use crate::{
    harness::{
        Api, CREATE, TestApp, WEBHOOKS, created, deed, form, form_with_deed, order, with_documents,
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    no_operation_shows_an_order_or_webhook_of_another_client,
    no_operation_of_a_test_key_shows_a_live_order_or_webhook,
    no_operation_of_a_live_key_shows_a_test_order_or_webhook,
    no_operation_shows_an_order_of_another_signing_service,
    no_operation_of_a_test_key_of_the_signing_service_shows_a_live_order,
    signing_service_reaches_its_orders_and_no_webhook_of_their_client,
}

/// A text in the order and the webhook of the first client, which no answer to another client may
/// have.
const MARKER: &str = "MARK-7351846";

/// The file number of the orders that are created by it.
const BY_NUMBER: &str = "BY-NUMBER";

/// An operation of the document.
struct Operation {
    method: Method,
    path: String,
    description: Value,
}

async fn operations(app: &TestApp) -> Vec<Operation> {
    let document = app.read("/openapi.json").await;
    let mut found = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, description) in operations.as_object().unwrap() {
            let operation = |method: Method| Operation {
                method,
                path: path.clone(),
                description: description.clone(),
            };
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            if method == Method::GET {
                found.push(operation(Method::HEAD));
            }
            found.push(operation(method));
        }
    }
    // No key reaches those of browsers: `people::roles` tries them.
    found.retain(|operation| {
        let takes_key = operation.description["security"][0]["api_key"].is_array();
        takes_key && !operation.path.starts_with("/api/session")
    });
    assert!(found.len() >= 24, "{}", found.len());
    // What is deleted cannot be read any more.
    found.sort_by_key(|operation| operation.method == Method::DELETE);
    found
}

impl Operation {
    fn has_path_parameters(&self) -> bool {
        self.path.contains('{')
    }

    /// Returns whether it creates or replaces an order, or adds or withdraws documents of the client.
    fn is_of_clients(&self) -> bool {
        let is_form = self.description["requestBody"]["content"]["multipart/form-data"].is_object();
        let withdraws = self.method == Method::DELETE && self.path.contains("documents");
        self.path == CREATE
            || self.method == Method::PUT
            || (is_form || withdraws) && !self.path.contains("/signed-documents")
    }

    fn is_of_webhooks(&self) -> bool {
        self.path.starts_with("/api/webhooks")
    }

    /// Returns whether it is about the records of signing services, which every key sees.
    fn is_of_services(&self) -> bool {
        self.path == "/api/services"
    }

    /// Builds a request with these identifiers wherever the operation takes one, and a position of
    /// 0.
    fn request(&self, client: &Api, ids: Ids) -> RequestBuilder {
        let mut path = self.path.clone();
        let mut query = Vec::new();
        for parameter in self.description["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let value = match name {
                "position" => 0,
                "webhook_id" => ids.webhook,
                "delivery_id" => ids.delivery,
                _ if self.is_of_webhooks() => ids.delivery,
                // The creation is the entry 0.
                "starting_after" | "ending_before" if self.path.ends_with("/history") => 0,
                "starting_after" | "ending_before" if self.path.ends_with("/notes") => 1,
                _ => ids.order,
            };
            let is_identifier = parameter["schema"]["format"] == "int64"
                && !["limit", "signing_service_id"].contains(&name);
            match parameter["in"].as_str().unwrap() {
                "path" => path = path.replace(&format!("{{{name}}}"), &value.to_string()),
                // Each client has an order of its own then.
                "query" if parameter["required"] == true => {
                    query.push(format!("{name}={BY_NUMBER}"));
                }
                // The two cursors exclude each other.
                "query" if is_identifier && query.is_empty() => {
                    query.push(format!("{name}={value}"));
                }
                _ => {}
            }
        }
        if self.is_of_services() {
            query.clear();
        }
        let separator = if query.is_empty() { "" } else { "?" };
        let path = format!("{path}{separator}{}", query.concat());
        let request = client.request(self.method.clone(), &path);
        let content = self.description["requestBody"]["content"].as_object();
        match content.and_then(|content| content.keys().next()).map(String::as_str) {
            None => request,
            Some("multipart/form-data") if self.has_path_parameters() => {
                request.multipart(with_documents(Form::new(), 1, &deed()))
            }
            Some("multipart/form-data") => request.multipart(form_with_deed("FORM")),
            Some(_) if self.path.ends_with("/replay") => {
                request.json(&json!({ "since": "2026-11-21T12:00:00Z" }))
            }
            Some(_) if self.is_of_webhooks() => request.json(&webhook("foreign")),
            Some(_) if self.method == Method::PUT && !self.has_path_parameters() => {
                request.json(&order(BY_NUMBER))
            }
            // Only the file number of the order is valid.
            Some(_) if self.method == Method::PUT => request.json(&order(MARKER)),
            Some(kind) if self.has_path_parameters() => {
                let body = &self.description["requestBody"]["content"][kind];
                request.json(&body["examples"]["request"]["value"])
            }
            Some(_) => request.json(&order("JSON")),
        }
    }
}

/// The objects that the operations name.
#[derive(Clone, Copy)]
struct Ids {
    order: i64,
    webhook: i64,
    delivery: i64,
}

impl Ids {
    fn all(id: i64) -> Self {
        Self { order: id, webhook: id, delivery: id }
    }

    /// Creates a marked order with a note and a document of each side, and a marked webhook that has a delivery.
    async fn marked(client: &Api) -> Self {
        let post = async |path: &str, body: &Value| {
            let response = client.post(path).json(body).send().await.unwrap();
            assert!(response.status().is_success(), "{path} {}", response.status());
            response.json::<Value>().await.unwrap()
        };
        let mut marked = order(MARKER);
        marked["signingDetailsFormData"]["signerName"] = json!(MARKER);
        let form = with_documents(form(&marked), 1, &deed());
        let record = created(client.create_with(form).await).await;
        let order = record["order_id"].as_i64().unwrap();
        post(&format!("/api/order/{order}/notes"), &json!({ "text": MARKER })).await;
        let signed = client.post(&format!("/api/order/{order}/signed-documents"));
        let signed = signed.multipart(with_documents(Form::new(), 1, &deed()));
        self::created(signed.send().await.unwrap()).await;
        let created = post("/api/webhooks", &webhook(MARKER)).await;
        let webhook = created["id"].as_i64().unwrap();
        let tested = post(&format!("/api/webhooks/{webhook}/test"), &json!({})).await;
        Self { order, webhook, delivery: tested["delivery_id"].as_i64().unwrap() }
    }
}

fn webhook(description: &str) -> Value {
    json!({ "url": "http://127.0.0.1:9999/", "description": description })
}

/// Status, headers and body of an answer, without what differs between any two.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Seen {
    async fn of(response: Response) -> Self {
        let status = response.status().as_u16();
        let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        let mut headers: Vec<_> = response
            .headers()
            .iter()
            // actix closes after an early answer unless the body has arrived by then.
            .filter(|(name, _)| !["connection", "date", "x-request-id"].contains(&name.as_str()))
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        headers.sort();
        let bytes = response.bytes().await.unwrap();
        let body = String::from_utf8_lossy(&bytes).replace(&id, "");
        Self { status, headers, body }
    }
}

async fn with_scopes(app: &TestApp, scopes: &[Scope]) -> Api {
    with(app, scopes, KeyTerms::default()).await
}

async fn with(app: &TestApp, scopes: &[Scope], terms: KeyTerms) -> Api {
    let scopes = scopes.iter().copied().collect();
    app.as_key(&app.issue_key_on(KeyTerms { scopes, ..terms }).await)
}

async fn start(kind: Kind) -> TestApp {
    kind.app_with(&[&WEBHOOKS[..], &["--duplicate-window-secs=0"]].concat()).await
}

/// The terms of a key of the client 1.
fn key(is_test: bool) -> KeyTerms {
    KeyTerms { client: Some(ClientId(1)), is_test, ..KeyTerms::default() }
}

/// The terms of a key of a signing service. The orders of tests name 42.
fn of_service(number: i64, is_test: bool) -> KeyTerms {
    let for_service = Some(SigningServiceId(number));
    KeyTerms { for_service, is_test, ..KeyTerms::default() }
}

async fn no_operation_shows_an_order_or_webhook_of_another_client(kind: Kind) {
    assert_invisible(kind, key(false), KeyTerms::default()).await;
}

async fn no_operation_of_a_test_key_shows_a_live_order_or_webhook(kind: Kind) {
    assert_invisible(kind, key(false), key(true)).await;
}

async fn no_operation_of_a_live_key_shows_a_test_order_or_webhook(kind: Kind) {
    assert_invisible(kind, key(true), key(false)).await;
}

async fn no_operation_shows_an_order_of_another_signing_service(kind: Kind) {
    assert_invisible(kind, key(false), of_service(43, false)).await;
}

async fn no_operation_of_a_test_key_of_the_signing_service_shows_a_live_order(kind: Kind) {
    assert_invisible(kind, key(false), of_service(42, true)).await;
}

async fn signing_service_reaches_its_orders_and_no_webhook_of_their_client(kind: Kind) {
    let app = start(kind).await;
    let ids = Ids::marked(&with(&app, &Scope::ALL, key(false)).await).await;
    let service = with(&app, &Scope::OF_SERVICES, of_service(42, false)).await;
    for operation in operations(&app).await {
        let seen = Seen::of(operation.request(&service, ids).send().await.unwrap()).await;
        let name = format!("{} {}", operation.method, operation.path);
        if operation.is_of_clients() {
            assert_eq!(seen.status, 403, "{name}");
        } else if operation.is_of_webhooks() {
            assert!(!seen.body.contains(MARKER), "{name}: {seen:?}");
            assert_eq!(seen.status == 404, operation.has_path_parameters(), "{name}: {seen:?}");
        } else {
            assert!((200..300).contains(&seen.status), "{name}: {seen:?}");
        }
    }
    assert_eq!((app.rows("orders"), app.rows("documents")), (1, 3));
}

/// Tries every operation on an order and a webhook of a key with another key.
async fn assert_invisible(kind: Kind, owner: KeyTerms, foreign: KeyTerms) {
    let app = start(kind).await;
    let owner = with(&app, &Scope::ALL, owner).await;
    let ids = Ids::marked(&owner).await;
    let (scopes, may_create) = match foreign.for_service {
        Some(_) => (&Scope::OF_SERVICES[..], false),
        None => (&Scope::ALL[..], true),
    };
    let foreign = with(&app, scopes, foreign).await;
    let (rows, objects) = (app.rows("documents"), app.wiring.objects());
    let read_webhook = async || {
        let mut webhook = owner.read(&format!("/api/webhooks/{}", ids.webhook)).await;
        // Nothing listens at its URL.
        webhook["failing_since"].take();
        webhook
    };
    let before = read_webhook().await;
    assert_eq!(before["description"], MARKER);
    let mut refused = 0;
    for operation in operations(&app).await {
        let send =
            async |ids| Seen::of(operation.request(&foreign, ids).send().await.unwrap()).await;
        let name = format!("{} {}", operation.method, operation.path);
        let url = |id| operation.request(&app, Ids::all(id)).build().unwrap().url().clone();
        let takes_identifier = url(1) != url(2);
        if operation.method == Method::GET && takes_identifier && !operation.is_of_webhooks() {
            let own = operation.request(&owner, ids).send().await.unwrap();
            let tag = own.headers()["etag"].clone();
            let known = operation.request(&foreign, ids).header("if-none-match", tag);
            let known = known.send().await.unwrap().status();
            assert!(known == 404 || !operation.has_path_parameters() && known == 400, "{name}");
        }
        let theirs = send(ids).await;
        let missing = send(Ids::all(i64::MAX)).await;
        assert!(!theirs.body.contains(MARKER), "{name} shows the marker: {theirs:?}");
        if takes_identifier {
            assert_eq!(theirs, missing, "{name} differs for a foreign and a missing item");
            let expected = match operation.has_path_parameters() {
                true if operation.is_of_clients() && !may_create => 403,
                true => 404,
                false => 400,
            };
            assert_eq!(theirs.status, expected, "{name}");
            refused += 1;
        }
    }
    assert!(refused >= 20, "{refused}");
    // Of the documents, only those of the foreign client's own order are new.
    assert_eq!(app.rows("documents"), rows + if may_create { 2 } else { 0 });
    assert!(objects.keys().all(|key| app.wiring.objects().contains_key(key)));
    assert_eq!(read_webhook().await, before);
    // The same requests reach the order and the webhook with a key of their client.
    for operation in operations(&app).await {
        let own = operation.request(&owner, ids).send().await.unwrap();
        if operation.path == "/api/notaries" {
            assert_eq!(own.status(), 403, "only signing services have notaries");
        } else {
            assert!(own.status().is_success(), "{} {}", operation.path, own.status());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_needs_its_scope() {
    let app = start(Kind::Embedded).await;
    let ids = Ids::marked(&with_scopes(&app, &Scope::ALL).await).await;
    let of_webhooks = with_scopes(&app, &[Scope::WebhooksManage]).await;
    let of_orders = with_scopes(&app, &Scope::DEFAULT).await;
    // Each key may know itself, and the names of signing services.
    let needs_scope =
        |operation: &Operation| operation.path != "/api/key" && !operation.is_of_services();
    for operation in operations(&app).await.into_iter().filter(needs_scope) {
        let name = format!("{} {}", operation.method, operation.path);
        let without = if operation.is_of_webhooks() { &of_orders } else { &of_webhooks };
        let mut seen = Vec::new();
        for ids in [ids, Ids::all(i64::MAX)] {
            let response = operation.request(without, ids).send().await.unwrap();
            let challenge = response.headers()["www-authenticate"].to_str().unwrap().to_owned();
            assert!(challenge.contains(r#"error="insufficient_scope", scope=""#), "{name}");
            seen.push(Seen::of(response).await);
        }
        assert_eq!((seen[0].status, &seen[0]), (403, &seen[1]), "{name}");
    }
    assert_eq!((app.rows("orders"), app.rows("documents")), (1, 2));
}
