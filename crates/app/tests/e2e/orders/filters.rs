//! Filters of the list of orders, while both sides create and change orders.

use fastrand::Rng;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::changes::{as_service, instances};
use crate::{
    harness::{Api, created, order, problem, setting},
    orders::read::{ids, link},
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    walk_has_each_order_that_matches_throughout_once,
}

/// Orders that change in nothing that a filter looks at, but in the instant of their change.
const STEADY: usize = 24;
/// Orders whose status, date and lender change.
const CHANGING: usize = 12;
/// Default number of walks through all pages. `FILTER_WALKS` makes more, `FILTER_SEED` repeats a run.
const WALKS: usize = 60;

/// The values that filters look at, by the number of an order.
#[derive(Debug, Clone)]
struct Looks {
    id: i64,
    status: &'static str,
    date: String,
    signer: &'static str,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
}

impl Looks {
    fn of(number: usize) -> Self {
        Self {
            id: 0,
            status: ["NEW", "ASSIGNED", "ON_HOLD"][number % 3],
            date: date(number),
            signer: ["Zoë Straße", "Jane Doe"][number / 2 % 2],
            created_at: OffsetDateTime::UNIX_EPOCH,
            updated_at: OffsetDateTime::UNIX_EPOCH,
        }
    }

    fn request(&self, file_number: &str) -> Value {
        let mut order = order(file_number);
        order["signingDetailsFormData"]["signingDate"] = json!(self.date);
        order["signingDetailsFormData"]["signerName"] = json!(self.signer);
        order["signingDetailsFormData"]["signerEmail"] = json!("signer@example.com");
        order
    }
}

fn date(number: usize) -> String {
    format!("2026-12-{:02}", number % 5 + 1)
}

/// A random query of a list.
struct Query {
    text: String,
    statuses: Vec<&'static str>,
    from: Option<String>,
    to: Option<String>,
    signer: Option<&'static str>,
    created_after: Option<OffsetDateTime>,
    created_before: Option<OffsetDateTime>,
    updated_after: Option<OffsetDateTime>,
    by_appointment: bool,
}

impl Query {
    fn random(random: &mut Rng, steady: &[Looks]) -> Self {
        let mut parts = vec![format!("limit={}", random.usize(1..8))];
        let mut add = |name: &str, value: &Option<String>| {
            parts.extend(value.iter().map(|value| format!("{name}={value}")));
        };
        let all = ["NEW", "ASSIGNED", "ON_HOLD"];
        let count = random.usize(0..3);
        let statuses = random.choose_multiple(all, count);
        // Another spelling is the same status.
        let spelled = statuses.join(",").to_lowercase().replace('_', "-");
        add("order_status", &(count > 0).then_some(spelled));
        let mut dates = [random.usize(0..5), random.usize(0..5)];
        dates.sort_unstable();
        let [from, to] = dates.map(|number| random.bool().then(|| date(number)));
        add("signing_date_from", &from);
        add("signing_date_to", &to);
        let signer = random.bool().then(|| ["Zoë Straße", "Jane Doe"][random.usize(0..2)]);
        let part =
            |signer: &str| if signer == "Jane Doe" { "jANE%20d" } else { "O%C3%8B%20strasse" };
        add("search", &signer.map(|it| part(it).to_owned()));
        let mut instant = |name: &str, of: fn(&Looks) -> OffsetDateTime| {
            let at = of(&steady[random.usize(..steady.len())]);
            let at = (random.u8(..4) == 0).then_some(at)?;
            parts.push(format!("{name}={}", at.format(&Rfc3339).unwrap()));
            Some(at)
        };
        let created_after = instant("created_after", |it| it.created_at);
        let created_before = instant("created_before", |it| it.created_at);
        let updated_after = instant("updated_after", |it| it.updated_at);
        let by_appointment = random.bool();
        parts.extend(by_appointment.then(|| "order_by=appointment".to_owned()));
        Self {
            text: parts.join("&"),
            statuses,
            from,
            to,
            signer,
            created_after,
            created_before,
            updated_after,
            by_appointment,
        }
    }

    /// Returns the place of an order in the list.
    fn place(&self, looks: &Looks) -> (String, i64) {
        let date = if self.by_appointment { looks.date.clone() } else { String::new() };
        (date, looks.id)
    }

    fn matches(&self, looks: &Looks) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&looks.status))
            && self.from.as_ref().is_none_or(|from| from <= &looks.date)
            && self.to.as_ref().is_none_or(|to| &looks.date <= to)
            && self.signer.is_none_or(|signer| signer == looks.signer)
            && self.created_after.is_none_or(|after| after <= looks.created_at)
            && self.created_before.is_none_or(|before| looks.created_at < before)
            && self.updated_after.is_none_or(|after| after <= looks.updated_at)
    }
}

/// Both sides, and the orders that they change.
struct Sides {
    client: Api,
    service: Api,
    steady: Vec<Looks>,
    changing: Vec<i64>,
}

impl Sides {
    /// Changes an order, or creates one.
    async fn change(&self, random: &mut Rng) {
        let Self { client, service, steady, changing } = self;
        let looks = Looks::of(random.usize(..1_000));
        let at = random.usize(..CHANGING);
        let path = format!("/api/order/{}", changing[at]);
        let request = match random.u8(..10) {
            0 => {
                let file_number = format!("N-{}", random.u64(..));
                client.post("/api/order/create").json(&looks.request(&file_number))
            }
            1..3 => {
                let id = steady[random.usize(..steady.len())].id;
                client.post(&format!("/api/order/{id}/notes")).json(&json!({ "text": "a note" }))
            }
            3..6 => {
                let put = client.request(Method::PUT, &path);
                put.json(&looks.request(&format!("C-{at}")))
            }
            _ => {
                let change = service.request(Method::PATCH, &path);
                change.json(&json!({ "order_status": looks.status }))
            }
        };
        let answer = request.send().await.unwrap();
        let status = answer.status();
        // On a busy machine, a request may wait for another one too long.
        let is_expected = status.is_success() || status == StatusCode::SERVICE_UNAVAILABLE;
        assert!(is_expected, "{status} {}", answer.text().await.unwrap());
    }

    /// Follows a relation from page to page with a change at the same time as each. Returns all
    /// identifiers.
    async fn walk(&self, random: &mut Rng, path: &str, relation: &str) -> Vec<i64> {
        let api = if random.bool() { &self.service } else { &self.client };
        let (mut found, mut path) = (Vec::new(), Some(path.to_owned()));
        while let Some(current) = path {
            let (page, ()) = tokio::join!(api.get(&current), self.change(random));
            if page.status() == StatusCode::SERVICE_UNAVAILABLE {
                path = Some(current);
                continue;
            }
            assert_eq!(page.status(), StatusCode::OK, "{current}");
            path = link(&page, relation);
            let mut page = ids(&page.json().await.unwrap());
            if relation == "prev" {
                page.reverse();
            }
            found.extend(page);
        }
        found
    }
}

/// In either direction, by either side.
async fn walk_has_each_order_that_matches_throughout_once(kind: Kind) {
    let seed = setting("FILTER_SEED", fastrand::u64(..));
    println!("FILTER_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let wiring = kind.wiring();
    let instances = instances(&wiring);
    let client = &instances[0];
    let service = as_service(&wiring, &instances[instances.len() - 1]);
    let mut steady = Vec::new();
    let mut changing = Vec::new();
    for number in 0..STEADY {
        let looks = Looks::of(number);
        let record = created(client.create(&looks.request(&format!("S-{number}"))).await).await;
        let id = record["order_id"].as_i64().unwrap();
        if looks.status != "NEW" {
            let patch = service.request(Method::PATCH, &format!("/api/order/{id}"));
            let body = json!({ "order_status": looks.status });
            assert_eq!(patch.json(&body).send().await.unwrap().status(), 200);
        }
        let read = client.read(&format!("/api/order/{id}")).await;
        let instant =
            |name: &str| OffsetDateTime::parse(read[name].as_str().unwrap(), &Rfc3339).unwrap();
        let (created_at, updated_at) = (instant("created_at"), instant("updated_at"));
        steady.push(Looks { id, created_at, updated_at, ..looks });
        if number % (STEADY / CHANGING) == 0 {
            let file_number = format!("C-{}", changing.len());
            let record = created(client.create(&order(&file_number)).await).await;
            changing.push(record["order_id"].as_i64().unwrap());
        }
    }
    assert_eq!(changing.len(), CHANGING);

    let sides = Sides { client: (**client).clone(), service, steady, changing };
    let (middle, mut found_some) = (sides.changing[0], 0);
    for _ in 0..setting("FILTER_WALKS", WALKS) {
        let query = Query::random(&mut random, &sides.steady);
        let (relation, cursor) = match (random.bool(), query.by_appointment) {
            (true, _) => ("next", String::new()),
            (false, true) => ("prev", "&ending_before=0".to_owned()),
            (false, false) => ("prev", format!("&ending_before={middle}")),
        };
        let path = format!("/api/order?{}{cursor}", query.text);
        let found = sides.walk(&mut random, &path, relation).await;
        // The others may move while the walk goes on.
        let of_steady = found.iter().filter_map(|id| sides.steady.iter().find(|it| it.id == *id));
        let places: Vec<_> = of_steady.map(|looks| query.place(looks)).collect();
        let ascends = (relation == "prev") != query.by_appointment;
        let is_sorted = places.is_sorted_by(|a, b| if ascends { a < b } else { a > b });
        assert!(is_sorted, "{path}: {found:?}");
        for looks in &sides.steady {
            let is_found = found.contains(&looks.id);
            if query.matches(looks) {
                let is_in_range = relation == "next" || query.by_appointment || looks.id > middle;
                assert_eq!(is_found, is_in_range, "{path}: {looks:?} {found:?}");
                found_some += usize::from(is_found);
            } else if query.updated_after.is_none() {
                assert!(!is_found, "{path}: {looks:?}");
            }
        }
    }
    assert!(found_some > 0);
}

/// Each with its parameter, as the first error of the answer.
#[tokio::test(flavor = "multi_thread")]
async fn bad_filter_is_named() {
    let wiring = Wiring::embedded();
    let instances = instances(&wiring);
    let client = &instances[0];
    let service = as_service(&wiring, client);
    for (query, parameter) in [
        ("signing_date_from=2026-02-30", "signing_date_from"),
        ("signing_date_to=12/01/2026", "signing_date_to"),
        ("signing_date_from=2026-12-02&signing_date_to=2026-12-01", "signing_date_to"),
        ("order_status=", "order_status"),
        ("order_status=,", "order_status"),
        ("order_status=NEW,,SIGNED", "order_status"),
        ("search=ab", "search"),
        ("search=%20%20ab%20", "search"),
        ("search=%2D%2D%2D", "search"),
        ("attention=late", "attention"),
        ("order_by=created_at", "order_by"),
        ("order_by=appointment&starting_after=1&at=noon", "at"),
        ("order_by=appointment&starting_after=1&at=2026-12-01", "at"),
        ("order_by=appointment&at=2026-12-01T20:30:00Z", "at"),
        ("starting_after=1&at=2026-12-01T20:30:00Z", "at"),
        ("notary=", "notary"),
        ("updated_after=yesterday", "updated_after"),
        ("updated_after=", "updated_after"),
    ] {
        for api in [&**client, &service] {
            let answer = api.get(&format!("/api/order?{query}")).await;
            let found = problem(answer, 400, "validation_failed").await;
            assert_eq!(found["errors"][0]["parameter"], parameter, "{query}: {found}");
        }
    }
    let long = "x".repeat(101);
    let answer = client.get(&format!("/api/order?search={long}")).await;
    let found = problem(answer, 400, "validation_failed").await;
    assert_eq!(found["errors"][0]["parameter"], "search");
}
