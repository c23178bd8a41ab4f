//! The proof of the mirror: clients, a signing service, SQL with open transactions and erasures change orders on two
//! instances, of which one is killed again and again. The example program that mirrors is killed, too. At the end the
//! mirror is equal to the database, order by order.
//!
//! `MIRROR_STEPS` is the number of changes of each client.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Stdio,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_servers::proxy::Proxy;
use tokio::task::{block_in_place, spawn_blocking};

use super::{
    examples::{configured, lines},
    in_step::{listed, mirrored},
};
use crate::{
    harness::service_process::{ServiceProcess, SqlSession, issue_key, notary_orders, run},
    harness::{Api, created, eventually, order, setting},
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
        for attempt in 0.. {
            let api = self.instances[(turn + attempt) % 2].read().unwrap().clone();
            let Ok(response) = request(&api).send().await else { continue };
            match response.status().as_u16() {
                200 | 201 => {
                    let Ok(body) = response.json().await else { continue };
                    self.done.fetch_add(1, SeqCst);
                    return Some(body);
                }
                404 | 410 => return None,
                503 => {}
                status => panic!("{status}: {}", response.text().await.unwrap()),
            }
        }
        unreachable!("the attempts do not end")
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

/// Changes and creates orders by SQL, in transactions that stay open while clients read the feed.
async fn change_by_sql(wiring: &Wiring, load: &Load, is_over: &AtomicBool) -> BySql {
    const ANY: &str = "(SELECT id FROM orders WHERE erased_at IS NULL ORDER BY random() LIMIT 1)";
    const COLUMNS: &str = "client_id, api_key_id, signing_service_id, starts_at, ends_at, created_at, \
        updated_at, is_test, status, details, signing_date, search_text, day_starts_at";
    let mut session = SqlSession::open(wiring.sql());
    let mut by_sql = BySql::default();
    for number in 0_usize.. {
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
            api.read("/api/order/changes?after=now").await;
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
        if is_over.load(SeqCst) && runs.killed > 0 {
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
        eventually(|| {
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
    created(kept.order("FIRST").await).await;
    let steps = setting("MIRROR_STEPS", STEPS);
    let clients = (0..CLIENTS).map(|client| tokio::spawn(load.clone().change(client, steps)));
    let clients: Vec<_> = clients.collect();
    let (state, is_over) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let mut erased = BTreeSet::new();

    let kills = async {
        for kill in 1..=KILLS {
            let enough = CLIENTS * steps * kill / (KILLS + 1);
            eventually(|| load.done.load(SeqCst) >= enough).await;
            victim.kill();
            let any = "SELECT id FROM orders WHERE erased_at IS NULL ORDER BY random() LIMIT 3";
            for id in wiring.lines(any) {
                // Waits for transactions by SQL, which must go on meanwhile.
                let mut erase = notary_orders(&wiring, &["orders", "erase", &id, "--yes"]);
                let output = spawn_blocking(move || erase.output()).await.unwrap().unwrap();
                assert!(output.status.success(), "{output:?}");
                erased.insert(id.parse::<i64>().unwrap());
            }
            victim = block_in_place(start);
            *load.instances[1].write().unwrap() = (*victim).clone();
        }
        for client in clients {
            client.await.unwrap();
        }
        is_over.store(true, SeqCst);
    };
    let ((), by_sql, runs) = tokio::join!(
        kills,
        change_by_sql(&wiring, &load, &is_over),
        mirror(&load, &key, &state, &is_over),
    );

    lines(configured(MIRROR, &kept.base_url, &key, &state)).await;
    let found = lasting(mirrored(state.path()));
    assert_eq!(found, lasting(listed(&kept).await));
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
