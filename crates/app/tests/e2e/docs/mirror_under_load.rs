//! The proof of the mirror: clients, a signing service, SQL with open transactions and erasures change orders on two
//! instances, of which one is killed again and again. The example program that mirrors is killed, too. At the end the
//! mirror is equal to the database, order by order.
//!
//! `MIRROR_STEPS` is the number of changes of each client. Each wait ends, and says what it waited for.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::{Command, Stdio},
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_servers::proxy::Proxy;
use tokio::{
    task::{JoinHandle, block_in_place},
    time::{sleep, timeout},
};

use super::{
    examples::configured,
    in_step::{listed, mirrored},
};
use crate::{
    harness::service_process::{ServiceProcess, SqlSession, issue_key, notary_orders, run},
    harness::{Api, created, order, setting},
    wiring::Wiring,
};

const MIRROR: &str = "mirror_orders.py";

/// Clients that change orders at the same time.
const CLIENTS: usize = 4;

/// Default number of changes of each client.
const STEPS: usize = 200;

/// How often an instance is killed, and started again.
const KILLS: usize = 3;

/// Answers after which a mirror is killed, unless it ends before: in its first page, and later.
const ANSWERS: [usize; 5] = [1, 400, 30, 400, 120];

const FLAGS: [&str; 2] = ["--rate-per-second=0", "--reads-rate-per-second=0"];

/// Time limit of each wait, on a machine that does much else too.
const LIMIT: Duration = Duration::from_secs(300);

/// The same for statements by SQL, which other systems hold up.
const SQL_LIMIT: &str = "SET statement_timeout = '300s'";

/// Returns the output of a future. Fails after the limit, and says what it waited for.
async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("waited {LIMIT:?} for {what}"))
}

/// Waits until a condition holds.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let holds = async {
        while !condition() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    within(what, holds).await;
}

/// Runs a program that succeeds. Its errors are in the output of the test. One that does not end is killed.
async fn succeed(what: &str, mut program: Command) {
    let mut child = program.stdout(Stdio::null()).spawn().unwrap();
    let ended = async {
        while child.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let has_ended = timeout(LIMIT, ended).await.is_ok();
    if !has_ended {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert!(has_ended && status.success(), "waited {LIMIT:?} for {what}: {status}");
}

/// What the clients of the two instances know.
#[derive(Clone)]
struct Load {
    instances: Arc<[RwLock<Api>; 2]>,
    service_key: String,
    /// Answered changes.
    done: Arc<AtomicUsize>,
}

impl Load {
    /// Sends a request to the instances in turn until one carries it out, or until the order is erased. A repeat may
    /// carry it out twice.
    async fn insist(&self, turn: usize, request: impl Fn(&Api) -> RequestBuilder) -> Option<Value> {
        let mut last = String::new();
        let attempts = async {
            for attempt in 0.. {
                // While one is killed, and the other is at a limit.
                if attempt > 1 {
                    sleep(Duration::from_millis(10)).await;
                }
                let api = self.instances[(turn + attempt) % 2].read().unwrap().clone();
                let response = match request(&api).send().await {
                    Ok(response) => response,
                    Err(error) => {
                        last = format!("{error:?}");
                        continue;
                    }
                };
                let (status, text) = (response.status().as_u16(), response.text().await);
                last = format!("{status}: {text:?}");
                match (status, text) {
                    (200 | 201, Ok(text)) => {
                        self.done.fetch_add(1, SeqCst);
                        let body: Value = serde_json::from_str(&text).unwrap();
                        return Some(body);
                    }
                    (404 | 410, _) => return None,
                    (503, _) | (200 | 201, Err(_)) => {}
                    _ => panic!("{last}"),
                }
            }
            unreachable!("the attempts do not end")
        };
        let answer = timeout(LIMIT, attempts).await;
        answer.unwrap_or_else(|_| panic!("waited {LIMIT:?} to carry out a change; last: {last}"))
    }

    /// Re-sends orders, assigns them and adds notes, as title software and a dispatcher do.
    async fn change(self, client: usize, steps: usize) {
        let mut id = 0;
        for step in 0..steps {
            let file_number = format!("LOAD-{client}-{}", step / 5);
            let mut whole = order(&file_number);
            whole["signingDetailsFormData"]["signerName"] = json!(format!("Signer {step}"));
            let put = format!("/api/order?file_number={file_number}");
            match step % 5 {
                3 => {
                    let assign = json!({ "order_status": "ASSIGNED", "notary_id": step });
                    let patch = |api: &Api| {
                        let api = api.as_key(&self.service_key);
                        api.request(Method::PATCH, &format!("/api/order/{id}")).json(&assign)
                    };
                    self.insist(step, patch).await;
                }
                4 => {
                    let (notes, text) = (format!("/api/order/{id}/notes"), json!({ "text": "x" }));
                    self.insist(step, |api| api.post(&notes).json(&text)).await;
                }
                _ => {
                    let put = |api: &Api| api.request(Method::PUT, &put).json(&whole);
                    let answer = self.insist(step, put).await.expect("a PUT creates");
                    id = answer["order_id"].as_i64().unwrap();
                }
            }
        }
    }
}

/// What another system has changed by SQL.
#[derive(Debug, Default)]
struct BySql {
    changed: usize,
    undone: usize,
    created: usize,
}

/// Changes and creates orders by SQL, in transactions that stay open while clients read the feed. Makes no more
/// changes than the clients: the mirror reads each, and on a slow machine it would not come to an end.
async fn change_by_sql(wiring: &Wiring, load: &Load, is_over: &AtomicBool) -> BySql {
    const ANY: &str = "(SELECT id FROM orders WHERE erased_at IS NULL ORDER BY random() LIMIT 1)";
    const COLUMNS: &str = "client_id, api_key_id, signing_service_id, starts_at, ends_at, created_at, \
        updated_at, is_test, status, details, signing_date, search_text, day_starts_at";
    let mut session = SqlSession::holding(wiring.sql(), SQL_LIMIT);
    let mut by_sql = BySql::default();
    for number in 0_usize.. {
        // The clients end, or the test fails.
        while number >= load.done.load(SeqCst) && !is_over.load(SeqCst) {
            sleep(Duration::from_millis(10)).await;
        }
        if is_over.load(SeqCst) {
            break;
        }
        let update = format!("UPDATE orders SET status = 'S{number}' WHERE id = {ANY}");
        let create = format!(
            "INSERT INTO orders (file_number, holds_file_number, {COLUMNS}) \
            SELECT 'SQL-{number}', true, {COLUMNS} FROM orders WHERE id = {ANY}"
        );
        let creates = number.is_multiple_of(3);
        let statement = if creates { create } else { update };
        assert!(block_in_place(|| session.run(&format!("BEGIN; {statement}"))), "{statement}");
        for _ in 0..5 {
            let api = load.instances[0].read().unwrap().clone();
            let now = api.read("/api/order/changes?after=now");
            within("the cursor of now, beside an open transaction", now).await;
        }
        let is_undone = number % 4 == 3;
        let end = if is_undone { "ROLLBACK" } else { "COMMIT" };
        assert!(block_in_place(|| session.run(end)));
        let count = match (is_undone, creates) {
            (true, _) => &mut by_sql.undone,
            (false, true) => &mut by_sql.created,
            (false, false) => &mut by_sql.changed,
        };
        *count += 1;
    }
    by_sql
}

/// Runs of the mirror. Others failed, because their instance was killed.
#[derive(Debug, Default)]
struct Runs {
    whole: usize,
    killed: usize,
}

/// Runs the mirror again and again, and kills it now and then.
async fn mirror(load: &Load, key: &str, state: &TempDir, is_over: &AtomicBool) -> Runs {
    let mut runs = Runs::default();
    for run in 0_usize.. {
        if is_over.load(SeqCst) {
            break;
        }
        // The instance that is killed, too: then a run on it fails.
        let instance = usize::from(run % 3 == 2);
        let proxy = Proxy::to(load.instances[instance].read().unwrap().address.port());
        let url = format!("http://127.0.0.1:{}", proxy.port());
        let mut command = configured(MIRROR, &url, key, state);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let answers = ANSWERS[run % ANSWERS.len()];
        let mut status = None;
        until("the end of a run of the mirror, or the answers after which it is killed", || {
            status = child.try_wait().unwrap();
            status.is_some() || proxy.round_trips() >= answers
        })
        .await;
        if let Some(status) = status {
            runs.whole += usize::from(status.success());
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
            runs.killed += 1;
        }
    }
    runs
}

/// Returns the records of orders without what is late, which depends on when they were read.
fn lasting(mut orders: BTreeMap<i64, Value>) -> BTreeMap<i64, Value> {
    for order in orders.values_mut() {
        order.as_object_mut().unwrap().remove("attention").expect("a member");
    }
    orders
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: takes a minute"]
async fn mirror_is_equal_to_the_database_after_load_and_kills() {
    let wiring = Wiring::production();
    let key = issue_key(&wiring);
    let service_key = run(&wiring, &["keys", "issue", "--name=service", "--for-service=42"]);
    let start = || ServiceProcess::start(&wiring, &FLAGS).with_key(key.clone());
    let (kept, mut victim) = (start(), start());
    let load = Load {
        instances: Arc::new([RwLock::new((*kept).clone()), RwLock::new((*victim).clone())]),
        service_key: service_key.trim().to_owned(),
        done: Arc::default(),
    };
    created(within("the first order", kept.order("FIRST")).await).await;
    let steps = setting("MIRROR_STEPS", STEPS);
    let clients = (0..CLIENTS).map(|client| tokio::spawn(load.clone().change(client, steps)));
    let clients: Vec<_> = clients.collect();
    let (state, is_over) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let mut erased = BTreeSet::new();

    let kills = async {
        for kill in 1..=KILLS {
            let enough = CLIENTS * steps * kill / (KILLS + 1);
            let is_due = || {
                let have_ended = clients.iter().all(JoinHandle::is_finished);
                load.done.load(SeqCst) >= enough || have_ended
            };
            until(&format!("{enough} changes by clients"), is_due).await;
            victim.kill();
            let any = "SELECT id FROM orders WHERE erased_at IS NULL ORDER BY random() LIMIT 3";
            for id in wiring.lines(any) {
                // Waits for transactions by SQL, which must go on meanwhile.
                let erase = notary_orders(&wiring, &["orders", "erase", &id, "--yes"]);
                succeed("an erasure", erase).await;
                erased.insert(id.parse::<i64>().unwrap());
            }
            victim = block_in_place(start);
            *load.instances[1].write().unwrap() = (*victim).clone();
        }
        for client in clients {
            // Each of its requests has a limit.
            client.await.unwrap();
        }
        is_over.store(true, SeqCst);
    };
    let ((), by_sql, runs) = tokio::join!(
        kills,
        change_by_sql(&wiring, &load, &is_over),
        mirror(&load, &key, &state, &is_over),
    );

    succeed("the last run of the mirror", configured(MIRROR, &kept.base_url, &key, &state)).await;
    let found = lasting(mirrored(state.path()));
    assert_eq!(found, lasting(within("the list of orders", listed(&kept)).await));
    let status = "SELECT id || ' ' || status FROM orders WHERE erased_at IS NULL ORDER BY id";
    let status_of =
        |(id, order): (&i64, &Value)| format!("{id} {}", order["order_status"].as_str().unwrap());
    assert_eq!(found.iter().map(status_of).collect::<Vec<_>>(), wiring.lines(status));
    assert!(erased.iter().all(|id| !found.contains_key(id)), "{erased:?}");
    let entries = wiring.lines("SELECT count(*) FROM order_feed");
    eprintln!(
        "orders in the mirror and in the database: {}; erased: {}; changes by clients: {}, entries in the feed: {}; \
        by SQL: {by_sql:?}; kills of an instance: {KILLS}; runs of the mirror: {runs:?}",
        found.len(),
        erased.len(),
        load.done.load(SeqCst),
        entries[0],
    );
    assert!(by_sql.changed > 0 && by_sql.created > 0 && by_sql.undone > 0, "{by_sql:?}");
    assert!(runs.killed > 0, "{runs:?}");
}
