//! Who reads and changes orders is in the database, whatever the outcome, and also after a crash.

use std::{
    collections::BTreeMap,
    io::Write as _,
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use domain::{
    access::{Access, AccessActor, AccessKind},
    api_key::{Party, Scope},
    order::{EmailAddress, OrderId, SigningServiceId},
    ports::{AccessFilter, MissingAccesses},
    use_cases::keys::manage_keys::KeyTerms,
};
use futures_util::future::join_all;
use reqwest::{Method, Response, multipart::Form};
use serde_json::{Value, json};

use crate::{
    harness::service_process::{ServiceProcess, issue_key},
    harness::{
        Api, JSON, TestApp, client, created, deed, eventually, eventually_async, file, order,
        problem,
    },
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    each_request_leaves_exactly_its_row,
    both_sides_see_reads_and_changes_without_those_of_strangers,
    client_that_leaves_before_the_answer_leaves_a_row,
    busy_key_is_an_alert_and_a_mail_to_its_contact,
    old_accesses_are_removed_and_not_missing,
    kill_leaves_a_row_of_each_stored_change_and_of_no_other,
    stop_leaves_no_gap,
}

const CLIENTS: usize = 8;
const UNLIMITED: [&str; 2] = ["--rate-per-second=0", "--reads-rate-per-second=0"];

/// Returns all accesses of a service in the process of the test, the oldest first.
async fn accesses(app: &TestApp) -> Vec<Access> {
    let all = app.storage().accesses.list(&AccessFilter::default(), None, 10_000).await;
    let mut accesses = all.unwrap();
    accesses.reverse();
    accesses
}

/// Waits until there are so many accesses, and returns them.
async fn stored(app: &TestApp, count: usize) -> Vec<Access> {
    eventually(|| app.rows("accesses") >= count).await;
    let accesses = accesses(app).await;
    assert_eq!(accesses.len(), count, "{accesses:#?}");
    accesses
}

/// Returns a key of the signing service of all test orders.
async fn as_service(app: &TestApp) -> Api {
    let scopes = Scope::OF_SERVICES.into_iter().collect();
    let for_service = Some(SigningServiceId(42));
    app.as_key(&app.issue_key_on(KeyTerms { scopes, for_service, ..KeyTerms::default() }).await)
}

/// A request, and the access that it must leave.
struct Sent {
    id: String,
    kind: AccessKind,
    order: Option<i64>,
    position: Option<u32>,
    outcome: &'static str,
    party: &'static str,
}

/// Sends requests one after the other, and notes what they must leave.
#[derive(Default)]
struct Requests(Vec<Sent>);

impl Requests {
    /// Sends a request. Its path tells the order and the position.
    async fn send(
        &mut self,
        (kind, outcome): (AccessKind, &'static str),
        (api, party): (&Api, &'static str),
        (method, path): (Method, &str),
        body: Body,
    ) -> Response {
        let request = api.request(method, path);
        let request = match body {
            Body::None => request,
            Body::Json(body) => request.json(&body),
            Body::Documents => {
                request.multipart(Form::new().part("documents", file("a.pdf", deed())))
            }
            Body::Known(tag) => request.header("if-none-match", tag),
            Body::Range(range) => request.header("range", range),
        };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let is_done = outcome == "ok" && status < 300 || outcome == "not_modified" && status == 304;
        assert!(is_done || status >= 400, "{path} {status}");
        let mut segments = path.split(['/', '?']).skip(3);
        let order = segments.next().and_then(|part| part.parse().ok());
        let position = segments.nth(1).and_then(|part| part.parse().ok());
        let id = answer.headers()["x-request-id"].to_str().unwrap().to_owned();
        self.0.push(Sent { id, kind, order, position, outcome, party });
        answer
    }
}

enum Body {
    None,
    Json(Value),
    Documents,
    Known(String),
    Range(&'static str),
}

#[expect(clippy::too_many_lines, reason = "a line or two for each route")]
async fn each_request_leaves_exactly_its_row(kind: Kind) {
    use AccessKind as Kind;
    let app = kind.app().await;
    for number in ["F-1", "F-2"] {
        created(app.order_with_deed(number).await).await;
    }
    let service = as_service(&app).await;
    let stranger = app.as_key(&app.issue_key(None).await);
    let scopes = [Scope::WebhooksManage].into_iter().collect();
    let no_scope = app.issue_key_on(KeyTerms { scopes, ..KeyTerms::default() }).await;
    let no_scope = app.as_key(&no_scope);
    let (client, strange, service) =
        ((&*app, "client"), (&stranger, "stranger"), (&service, "service"));
    let mut requests = Requests::default();
    let (get, post, patch) = (Method::GET, Method::POST, Method::PATCH);
    let amended = |city: &str| {
        let mut order = order("F-1");
        order["signingDetailsFormData"]["city"] = json!(city);
        Body::Json(order)
    };
    for (wanted, by, method, path, body) in [
        ((Kind::List, "ok"), client, &get, "/api/order", Body::None),
        ((Kind::List, "validation_failed"), client, &get, "/api/order?limit=0", Body::None),
        ((Kind::Read, "ok"), client, &get, "/api/order/1", Body::None),
        ((Kind::Read, "ok"), service, &get, "/api/order/1", Body::None),
        ((Kind::Read, "not_found"), strange, &get, "/api/order/1", Body::None),
        ((Kind::Read, "not_found"), client, &get, "/api/order/9", Body::None),
        ((Kind::Read, "ok"), client, &Method::HEAD, "/api/order/1", Body::None),
        ((Kind::ReadHistory, "ok"), client, &get, "/api/order/1/history", Body::None),
        ((Kind::ReadNotes, "ok"), service, &get, "/api/order/1/notes", Body::None),
        ((Kind::ListDocuments, "ok"), client, &get, "/api/order/1/documents", Body::None),
        ((Kind::Download, "ok"), service, &get, "/api/order/1/documents/0", Body::None),
        (
            (Kind::Download, "ok"),
            service,
            &get,
            "/api/order/1/documents/0",
            Body::Range("bytes=0-9"),
        ),
        (
            (Kind::Download, "range_not_satisfiable"),
            service,
            &get,
            "/api/order/1/documents/0",
            Body::Range("bytes=99999999-"),
        ),
        ((Kind::Download, "not_found"), strange, &get, "/api/order/1/documents/0", Body::None),
        ((Kind::DownloadAll, "ok"), client, &get, "/api/order/1/documents.zip", Body::None),
        (
            (Kind::Update, "ok"),
            service,
            &patch,
            "/api/order/1",
            Body::Json(json!({ "order_status": "ASSIGNED", "notary_id": 7 })),
        ),
        (
            (Kind::Update, "ok"),
            service,
            &patch,
            "/api/order/1",
            Body::Json(json!({ "order_status": "ASSIGNED" })),
        ),
        (
            (Kind::Update, "forbidden"),
            client,
            &patch,
            "/api/order/1",
            Body::Json(json!({ "order_status": "SIGNED" })),
        ),
        (
            (Kind::Update, "validation_failed"),
            service,
            &patch,
            "/api/order/1",
            Body::Json(json!({ "order_status": 7 })),
        ),
        ((Kind::Change, "ok"), client, &Method::PUT, "/api/order/1", amended("Plano")),
        ((Kind::Change, "ok"), client, &Method::PUT, "/api/order/1", amended("Plano")),
        ((Kind::Change, "not_found"), strange, &Method::PUT, "/api/order/1", amended("Austin")),
        (
            (Kind::AddNote, "ok"),
            client,
            &post,
            "/api/order/1/notes",
            Body::Json(json!({ "text": "Ring twice." })),
        ),
        (
            (Kind::AddNote, "not_found"),
            strange,
            &post,
            "/api/order/1/notes",
            Body::Json(json!({ "text": "Ring twice." })),
        ),
        ((Kind::AddDocuments, "ok"), client, &post, "/api/order/1/documents", Body::Documents),
        (
            (Kind::AddDocuments, "not_found"),
            strange,
            &post,
            "/api/order/1/documents",
            Body::Documents,
        ),
        (
            (Kind::AddSignedDocuments, "ok"),
            service,
            &post,
            "/api/order/1/signed-documents",
            Body::Documents,
        ),
        (
            (Kind::ListSignedDocuments, "ok"),
            client,
            &get,
            "/api/order/1/signed-documents",
            Body::None,
        ),
        ((Kind::DownloadSigned, "ok"), client, &get, "/api/order/1/signed-documents/0", Body::None),
        (
            (Kind::DownloadAllSigned, "ok"),
            client,
            &get,
            "/api/order/1/signed-documents.zip",
            Body::None,
        ),
        ((Kind::Withdraw, "ok"), client, &Method::DELETE, "/api/order/1/documents/1", Body::None),
        ((Kind::Download, "withdrawn"), client, &get, "/api/order/1/documents/1", Body::None),
        (
            (Kind::WithdrawSigned, "ok"),
            service,
            &Method::DELETE,
            "/api/order/1/signed-documents/0",
            Body::None,
        ),
        ((Kind::Cancel, "ok"), client, &post, "/api/order/1/cancel", Body::None),
        ((Kind::Cancel, "ok"), service, &post, "/api/order/1/cancel", Body::None),
        (
            (Kind::Update, "order_cancelled"),
            service,
            &patch,
            "/api/order/1",
            Body::Json(json!({ "order_status": "SIGNED" })),
        ),
        ((Kind::ReadAccesses, "ok"), client, &get, "/api/order/1/accesses", Body::None),
        ((Kind::ReadAccesses, "not_found"), strange, &get, "/api/order/1/accesses", Body::None),
        ((Kind::Read, "forbidden"), (&no_scope, "unscoped"), &get, "/api/order/1", Body::None),
    ] {
        requests.send(wanted, by, (method.clone(), path), body).await;
    }
    let read = app.get("/api/order/2").await;
    requests.0.push(Sent {
        id: read.headers()["x-request-id"].to_str().unwrap().to_owned(),
        kind: Kind::Read,
        order: Some(2),
        position: None,
        outcome: "ok",
        party: "client",
    });
    let tag = read.headers()["etag"].to_str().unwrap().to_owned();
    let wanted = (Kind::Read, "not_modified");
    requests.send(wanted, client, (Method::GET, "/api/order/2"), Body::Known(tag)).await;
    // These leave none.
    problem(app.as_key("nok_x").get("/api/order/1").await, 401, "unauthorized").await;
    for path in ["/api/key", "/api/services", "/openapi.json"] {
        app.read(path).await;
    }
    problem(app.order("").await, 400, "validation_failed").await;

    let accesses = stored(&app, requests.0.len()).await;
    let mut parties = BTreeMap::new();
    for (number, (access, sent)) in accesses.iter().zip(&requests.0).enumerate() {
        let facts = &access.facts;
        let what = format!("{:?} {}", sent.kind, sent.outcome);
        assert_eq!(access.id.number, number as u64 + 1, "{what}");
        assert_eq!(facts.request_id.as_ref(), Some(&sent.id), "{what}");
        assert_eq!((facts.kind, &*access.outcome), (sent.kind, sent.outcome), "{what}");
        let place = (sent.order.map(OrderId), sent.position);
        assert_eq!((facts.order, facts.position), place, "{what}");
        assert_eq!(facts.address, "127.0.0.1".parse().ok());
        let AccessActor::Key { party, .. } = facts.actor else { panic!("{access:?}") };
        assert_eq!(*parties.entry(sent.party).or_insert(party), party, "{what}");
    }
    assert_eq!(parties["service"], Party::Service(SigningServiceId(42)));
    assert_eq!(accesses[0].facts.orders, Some(2));
}

async fn both_sides_see_reads_and_changes_without_those_of_strangers(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    let service = as_service(&app).await;
    let stranger = app.as_key(&app.issue_key(None).await);
    for api in [&*app, &service, &stranger] {
        api.get("/api/order/1").await;
    }
    stored(&app, 3).await;
    // The index of an order has no rows of strangers: a million of them would hold up each page.
    let indexed = "SELECT count(*) FROM accesses WHERE order_id IS NOT NULL";
    assert_eq!(app.wiring.lines(indexed), ["2"]);
    for (api, expected) in [
        (&*app, [("client", true), ("service", false)]),
        (&service, [("client", false), ("service", true)]),
    ] {
        // Reads of the list itself come first.
        let mut reads = Vec::new();
        let mut page = api.read("/api/order/1/accesses?limit=2").await;
        loop {
            reads.extend(page["data"].as_array().unwrap().clone());
            let Some(oldest) = reads.last().filter(|_| page["has_more"] == true) else { break };
            let oldest = oldest["id"].as_str().unwrap();
            page = api.read(&format!("/api/order/1/accesses?starting_after={oldest}")).await;
        }
        reads.retain(|access| access["kind"] == "read");
        reads.reverse();
        let seen: Vec<_> = reads
            .iter()
            .map(|read| (read["actor"].as_str().unwrap(), read["address"] == "127.0.0.1"))
            .collect();
        assert_eq!(seen, expected);
        let keys = reads.iter().map(|read| read["api_key_id"].is_i64());
        assert_eq!(keys.collect::<Vec<_>>(), expected.map(|(_, is_own)| is_own));
    }
    problem(stranger.get("/api/order/1/accesses").await, 404, "not_found").await;
    app.storage().admin.erase(OrderId(1), app.machine().clock.now(), None).await.unwrap();
    problem(app.get("/api/order/1/accesses").await, 410, "erased").await;
}

async fn client_that_leaves_before_the_answer_leaves_a_row(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    let mut socket = TcpStream::connect(app.address).unwrap();
    let head = app.head("/api/order/1/notes", &format!("{JSON}Content-Length: 99\r\n"));
    socket.write_all(format!("{head}{{\"text\"").as_bytes()).unwrap();
    drop(socket);
    let accesses = stored(&app, 1).await;
    assert_eq!(accesses[0].facts.kind, AccessKind::AddNote);
    assert!(["unfinished", "malformed_request"].contains(&&*accesses[0].outcome), "{accesses:?}");
}

async fn busy_key_is_an_alert_and_a_mail_to_its_contact(kind: Kind) {
    let app = kind.app().await;
    let contact = EmailAddress::try_from("it@title.example.com".to_owned()).ok();
    let busy = app.issue_key_on(KeyTerms { contact, ..KeyTerms::default() }).await;
    let busy = app.as_key(&busy);
    for at in 1..=4 {
        created(busy.order(&format!("F-{at}")).await).await;
    }
    for path in ["/api/order/1", "/api/order/2", "/api/order/2/history", "/api/order/9"] {
        busy.get(path).await;
    }
    stored(&app, 4).await;
    // Two orders are not over two.
    let app = app.restart(&["--access-alert=2"]).await;
    let busy = app.as_key(&busy.key);
    busy.read("/api/order/3").await;
    stored(&app, 5).await;
    app.assert_metrics(&["notary_orders_access_alerts_total 0"]).await;
    let app = app.restart(&["--access-alert=2"]).await;
    eventually_async(async || app.metric("notary_orders_access_alerts_total").await == 1).await;
    let alerts = || {
        let mails = app.wiring.mails().into_iter();
        mails.filter(|mail| mail.contains("reads more orders than usual")).collect::<Vec<_>>()
    };
    app.eventually_mailed(|| !alerts().is_empty()).await;
    let alerts = alerts();
    assert_eq!(alerts.len(), 1);
    assert!(alerts[0].contains("it@title.example.com"));
}

async fn old_accesses_are_removed_and_not_missing(kind: Kind) {
    let app = kind.app().await;
    created(app.order("F-1").await).await;
    let read = async |app: &TestApp| {
        app.read("/api/order/1").await;
    };
    read(&app).await;
    stored(&app, 1).await;
    app.clock.advance(time::Duration::days(729));
    let app = app.restart(&[]).await;
    read(&app).await;
    stored(&app, 2).await;
    app.clock.advance(time::Duration::days(2));
    // Zero keeps all.
    let app = app.restart(&["--access-days=0"]).await;
    read(&app).await;
    stored(&app, 3).await;
    let app = app.restart(&[]).await;
    eventually(|| app.rows("accesses") == 2).await;
    assert_eq!(app.storage().accesses.missing(10).await.unwrap(), []);
}

/// The reads that were answered: the request id, and when.
type Answered = Arc<Mutex<Vec<(String, Instant)>>>;

/// Reads an order until told to stop, or until a read fails.
async fn read_on(api: Api, answered: Answered, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(answer) = api.request(Method::GET, "/api/order/1").send().await else { return };
        match answer.status().as_u16() {
            200 => {}
            // A busy machine may not carry it out in time.
            503 => continue,
            _ => return,
        }
        let id = answer.headers()["x-request-id"].to_str().unwrap().to_owned();
        answered.lock().unwrap().push((id, Instant::now()));
    }
}

/// Reads with several clients until so many reads are answered, ends the service, and returns the reads
/// and when it ended.
async fn under_load(
    service: ServiceProcess,
    reads: usize,
    end: impl FnOnce(ServiceProcess) + Send + 'static,
) -> (Vec<(String, Instant)>, Instant) {
    let (answered, stop) = (Answered::default(), Arc::new(AtomicBool::new(false)));
    let clients = (0..CLIENTS).map(|_| {
        let api = Api { client: client(), ..(*service).clone() };
        tokio::spawn(read_on(api, answered.clone(), stop.clone()))
    });
    let clients: Vec<_> = clients.collect();
    let count = || answered.lock().unwrap().len();
    while count() < reads {
        let before = count();
        eventually(|| count() > before).await;
    }
    let ended = Instant::now();
    tokio::task::spawn_blocking(move || end(service)).await.unwrap();
    stop.store(true, Ordering::Relaxed);
    join_all(clients).await;
    let answered = answered.lock().unwrap().clone();
    (answered, ended)
}

/// Returns the request ids that have a row, each with its number of rows.
fn rows_by_request(wiring: &Wiring) -> BTreeMap<String, usize> {
    let mut rows = BTreeMap::new();
    for id in wiring.lines("SELECT request_id FROM accesses") {
        *rows.entry(id).or_default() += 1;
    }
    rows
}

/// Returns what is missing, as a service finds it that starts on the stores.
async fn missing(wiring: Wiring, key: String) -> Vec<MissingAccesses> {
    let clock = Arc::new(contract_tests::fakes::ManualClock::default());
    let app = TestApp::start_on(wiring, clock, &[], Some(key)).await;
    app.storage().accesses.missing(10).await.unwrap()
}

/// Adds notes to an order until the service is gone.
async fn note_on(api: Api) {
    let note = || api.request(Method::POST, "/api/order/1/notes").json(&json!({ "text": "a" }));
    // A busy machine may answer 503.
    while note().send().await.is_ok() {}
}

async fn kill_leaves_a_row_of_each_stored_change_and_of_no_other(kind: Kind) {
    let wiring = kind.wiring();
    let service = ServiceProcess::keyed(&wiring, &UNLIMITED);
    created(service.order("F-1").await).await;
    let clients =
        (0..CLIENTS).map(|_| tokio::spawn(note_on(Api { client: client(), ..(*service).clone() })));
    let clients: Vec<_> = clients.collect();
    eventually(|| wiring.rows("order_notes") >= 100).await;
    service.kill();
    join_all(clients).await;
    // One statement: a database server may still commit what it has got.
    let counts = wiring.lines(
        "SELECT (SELECT count(*) FROM order_notes), count(*) FROM accesses WHERE outcome = 'ok'",
    );
    let (notes, rows) = counts[0].split_once('|').unwrap();
    assert_eq!(rows, notes);
    assert_eq!(wiring.rows("accesses WHERE kind <> 'add_note'"), 0);
}

async fn stop_leaves_no_gap(kind: Kind) {
    let wiring = kind.wiring();
    let key = issue_key(&wiring);
    let service = ServiceProcess::start(&wiring, &UNLIMITED).with_key(key.clone());
    created(service.order("F-1").await).await;
    let end = |service: ServiceProcess| assert_eq!(service.stop("-TERM").0, Some(0));
    let (answered, _) = under_load(service, 500, end).await;
    let rows = rows_by_request(&wiring);
    let lost = answered.iter().filter(|(id, _)| !rows.contains_key(id)).count();
    assert_eq!(lost, 0, "of {}", answered.len());
    let ended = "SELECT count(*) FROM access_runs WHERE ended_at IS NOT NULL AND last_number = \
        (SELECT max(number) FROM accesses)";
    assert_eq!(wiring.lines(ended), ["1"]);
    assert_eq!(missing(wiring, key).await, []);
}

/// Each is alone on the machine.
mod timing {
    use std::time::{Duration, Instant};

    use super::{UNLIMITED, missing, rows_by_request, under_load};
    use crate::{
        harness::service_process::{ServiceProcess, issue_key},
        harness::{created, eventually, setting},
        wiring::{Kind, on_both_wirings},
    };

    on_both_wirings! {
        kill_loses_reads_of_the_last_second_only,
        stop_stores_reads_that_wait_for_the_database,
    }

    /// Default number of reads before the kill.
    const READS: usize = 10_000;
    /// Longer than the longest call of a database.
    const LOCKED: Duration = Duration::from_secs(6);
    /// The time whose reads a crash may lose.
    const LOST: Duration = Duration::from_secs(1);

    async fn kill_loses_reads_of_the_last_second_only(kind: Kind) {
        let wiring = kind.wiring();
        let key = issue_key(&wiring);
        let service = ServiceProcess::start(&wiring, &UNLIMITED).with_key(key.clone());
        created(service.order("F-1").await).await;
        let reads = setting("ACCESS_READS", READS);
        let (answered, killed) = under_load(service, reads, ServiceProcess::kill).await;
        let rows = rows_by_request(&wiring);
        assert!(rows.values().all(|&rows| rows == 1), "a read has two rows");
        let lost: Vec<_> = answered.iter().filter(|(id, _)| !rows.contains_key(id)).collect();
        let oldest = lost.iter().map(|(_, at)| killed.saturating_duration_since(*at)).max();
        println!(
            "{} reads, {} lost, the oldest {oldest:?} before the kill",
            answered.len(),
            lost.len()
        );
        assert!(oldest.is_none_or(|age| age < LOST), "{oldest:?}");
        // What is lost is the end of the run.
        assert_eq!(missing(wiring, key).await, []);
    }

    /// Within its grace period, the stop waits for a database that another program has locked for longer than
    /// one call waits.
    async fn stop_stores_reads_that_wait_for_the_database(kind: Kind) {
        let wiring = kind.wiring();
        let flags = [&UNLIMITED[..], &["--shutdown-grace-secs=600"]].concat();
        let mut service = ServiceProcess::keyed(&wiring, &flags);
        created(service.order("F-1").await).await;
        let lock = wiring.lock_accesses();
        for _ in 0..20 {
            service.read("/api/order/1").await;
        }
        service.signal("-TERM");
        let end = Instant::now() + LOCKED;
        while Instant::now() < end {
            assert_eq!(service.ended(), None);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drop(lock);
        eventually(|| service.ended().is_some()).await;
        assert_eq!(wiring.lines("SELECT count(*) FROM accesses WHERE kind = 'read'"), ["20"]);
    }
}
