//! An erasure while both sides work on the order.

use futures_util::future::join_all;
use reqwest::{Method, StatusCode, multipart::Form};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::changes::{as_service, instances};
use crate::{
    harness::{
        Api, created, deed, eventually, file, form, order,
        service_process::{notary_orders, text},
        spooled,
    },
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    acknowledged_erasure_leaves_nothing_of_requests_at_the_same_time,
}

/// In every text that both sides send.
const MARKER: &str = "mkracezq";

const ROUNDS: usize = 2;

#[derive(Debug, Clone, Copy)]
enum Task {
    Change,
    Assign,
    Ask,
    Answer,
    Add,
    Replace,
    Sign,
    Withdraw,
    WithdrawSigned,
}

impl Task {
    const ALL: [Self; 9] = [
        Self::Change,
        Self::Assign,
        Self::Ask,
        Self::Answer,
        Self::Add,
        Self::Replace,
        Self::Sign,
        Self::Withdraw,
        Self::WithdrawSigned,
    ];

    /// Sends requests until the order is erased. Returns how many of them are in the history.
    async fn run(self, client: Api, service: Api, order: i64) -> usize {
        let mut count = 0;
        loop {
            let answer = self.request(&client, &service, order, count).send().await.unwrap();
            let status = answer.status();
            let body = answer.text().await.unwrap();
            match status {
                StatusCode::GONE if body.contains("erased") => return count,
                _ if status.is_success() => {
                    let is_in_history = match self {
                        Self::Ask | Self::Answer | Self::Add => false,
                        // Only the first one withdraws.
                        Self::Withdraw | Self::WithdrawSigned => count == 0,
                        _ => true,
                    };
                    count += usize::from(is_in_history);
                }
                // The position is replaced or withdrawn; there are 100 documents; there is no signed
                // document yet; the machine is busy.
                StatusCode::BAD_REQUEST
                    if matches!(self, Self::Add | Self::Replace | Self::Sign) => {}
                StatusCode::NOT_FOUND if matches!(self, Self::WithdrawSigned) => {}
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::REQUEST_TIMEOUT => {}
                _ => panic!("{self:?}: {status} {body}"),
            }
        }
    }

    fn request(
        self,
        client: &Api,
        service: &Api,
        id: i64,
        count: usize,
    ) -> reqwest::RequestBuilder {
        let path = |rest: &str| format!("/api/order/{id}{rest}");
        let text = format!("{MARKER} {count}");
        let file = || Form::new().part("documents", file(&format!("{MARKER}.pdf"), deed()));
        match self {
            Self::Change => {
                let mut order = order(&format!("F-{id}"));
                order["signingDetailsFormData"]["lender"] = json!(text);
                client.request(Method::PUT, &path("")).json(&order)
            }
            Self::Assign => {
                let body = json!({ "notary_id": count + 1, "notary": { "name": text } });
                service.request(Method::PATCH, &path("")).json(&body)
            }
            Self::Ask => client.post(&path("/notes")).json(&json!({ "text": text })),
            Self::Answer => service.post(&path("/notes")).json(&json!({ "text": text })),
            Self::Add => client.post(&path("/documents")).multipart(file()),
            Self::Replace => {
                let form = file().text("replaces", count.to_string());
                client.post(&path("/documents")).multipart(form)
            }
            Self::Sign => service.post(&path("/signed-documents")).multipart(file()),
            Self::Withdraw => client.request(Method::DELETE, &path("/documents/1")),
            Self::WithdrawSigned => service.request(Method::DELETE, &path("/signed-documents/0")),
        }
    }
}

/// Returns the columns of any table or view that still have a text of an order.
fn left(wiring: &Wiring) -> Vec<String> {
    let is_embedded = wiring.flags().iter().all(|flag| !flag.starts_with("--database-url"));
    let columns = if is_embedded {
        "SELECT m.name || '.' || c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c \
        WHERE m.type = 'table' AND c.type = 'TEXT'"
    } else {
        "SELECT table_name || '.' || column_name FROM information_schema.columns \
        WHERE table_schema = current_schema() AND data_type IN ('text', 'json', 'jsonb')"
    };
    let columns = wiring.lines(columns);
    assert!(columns.len() > 20, "{columns:?}");
    let queries = columns.iter().map(|column| {
        let (table, name) = column.split_once('.').unwrap();
        format!("SELECT '{column}' FROM {table} WHERE CAST(\"{name}\" AS text) LIKE '%{MARKER}%'")
    });
    wiring.lines(&queries.collect::<Vec<_>>().join(" UNION ALL "))
}

/// The history has each request that was accepted before. Later ones are 410, and nothing is left.
async fn acknowledged_erasure_leaves_nothing_of_requests_at_the_same_time(kind: Kind) {
    let wiring = kind.wiring();
    let instances = instances(&wiring);
    for _ in 0..ROUNDS {
        // Identifiers begin at 1.
        let id = i64::try_from(wiring.rows("orders")).unwrap() + 1;
        let mut order = order(&format!("F-{id}"));
        order["signingDetailsFormData"]["lender"] = json!(MARKER);
        let file = || file(&format!("{MARKER}.pdf"), deed());
        let form = form(&order).part("documents", file()).part("documents", file());
        let record = created(instances[0].create_with(form).await).await;
        assert_eq!(record["order_id"], id);
        let tasks = Task::ALL.into_iter().enumerate().map(|(at, task)| {
            let client: Api = (*instances[at % instances.len()]).clone();
            let service = as_service(&wiring, &instances[(at + 1) % instances.len()]);
            tokio::spawn(task.run(client, service, id))
        });
        let tasks: Vec<_> = tasks.collect();
        let mut erase = notary_orders(&wiring, &["orders", "erase", &id.to_string(), "--yes"]);
        let erased = spawn_blocking(move || text(erase.output().unwrap())).await.unwrap();
        assert!(erased.starts_with("erased: 1 order,"), "{erased}");
        assert_eq!(left(&wiring), [""; 0], "when the erasure is acknowledged");
        let mut changes = 0;
        for count in join_all(tasks).await {
            changes += count.unwrap();
        }
        assert_eq!(wiring.rows("order_changes"), changes, "entries of the history");
        wiring.lines("DELETE FROM order_changes");
    }
    assert_eq!(left(&wiring), [""; 0]);
    assert_eq!(wiring.rows("documents"), 0);
    eventually(|| wiring.objects().is_empty() && wiring.rows("uploads") == 0).await;
    eventually(|| spooled(wiring.data()).is_empty() && wiring.rows("events") == 0).await;
}
