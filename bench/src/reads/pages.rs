//! Pages of orders in a small and in a large database.

use std::time::Instant;

use test_servers::postgres::Cluster;

use super::{COLUMNS, Filled, row};
use crate::{
    fill::{self, MILLION},
    instance::Backend,
    orders::Round,
    request::{Request, Values},
    table::{self, Bound, target},
    trial::{CONNECTIONS, Plan, alternate, ratios},
};

const SMALL: u64 = 10_000;
const PAGE: u64 = 20;

/// A kind of page.
struct Kind {
    name: &'static str,
    query: &'static str,
    /// The numbers of the query in a database with so many orders, and the first and the last one.
    numbers: fn(u64) -> (Values, [u64; 2]),
    /// The first order of the page for a number, and how many orders it has.
    content: fn(u64, u64) -> (u64, usize),
    /// Whether it reads the orders that clients list, which are in memory. Random old orders of a
    /// large database are not.
    is_target: bool,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "the newest 20",
        query: "limit=20",
        numbers: |orders| (Values::Identifiers(orders..=orders), [orders; 2]),
        content: |orders, _| (orders, PAGE as usize),
        is_target: true,
    },
    Kind {
        name: "20 before a random order",
        query: "limit=20&starting_after=################",
        numbers: |orders| (Values::Identifiers(PAGE + 1..=orders), [PAGE + 1, orders]),
        content: |_, number| (number - 1, PAGE as usize),
        is_target: false,
    },
    Kind {
        name: "one file number",
        query: "limit=20&file_number=################",
        numbers: |orders| (Values::FileNumbers(1..=orders), [1, orders]),
        content: |_, number| (number, 1),
        is_target: false,
    },
];

/// Runs the measurement. Returns the targets.
pub fn run(plan: &Plan, cluster: &Cluster, millions: u64) -> Vec<Vec<String>> {
    let mut targets = Vec::new();
    for backend in Backend::ALL {
        let name = backend.name();
        let small = Filled::new(plan, backend, cluster, SMALL);
        let started = Instant::now();
        let large = Filled::new(plan, backend, cluster, millions * MILLION);
        eprintln!("{name}: filled in {:.0} s", started.elapsed().as_secs_f64());
        let mut rows = Vec::new();
        for kind in &KINDS {
            let rounds = alternate(
                plan.rounds,
                &[&|_| kind.round(plan, &small), &|_| kind.round(plan, &large)],
            );
            let sizes = [format!("{SMALL}"), format!("{millions} million")];
            rows.extend(
                sizes
                    .iter()
                    .zip(&rounds)
                    .map(|(size, rounds)| row(&format!("{}, {size} orders", kind.name), rounds)),
            );
            if kind.is_target {
                targets.push(target(
                    &format!("{name}: {}, {millions} million orders / {SMALL}", kind.name),
                    &ratios(&rounds[1], &rounds[0], Round::rate, Round::rate),
                    "",
                    Bound::AtLeast(0.9),
                ));
            }
        }
        let title = format!("pages on {name}, {CONNECTIONS} connections");
        table::print(&title, &COLUMNS, &rows);
    }
    targets
}

impl Kind {
    fn round(&self, plan: &Plan, filled: &Filled<'_>) -> Round {
        let (numbers, ends) = (self.numbers)(filled.orders);
        let request = Request::get(&filled.key, &format!("/api/order?{}", self.query), numbers);
        filled.round(plan, request, ends, |number, page| {
            let (first, count) = (self.content)(filled.orders, number);
            let orders = page["data"].as_array().unwrap();
            assert_eq!((orders.len(), &orders[0]["order_id"]), (count, &first.into()));
            let file_number = &orders[0]["file_number"];
            assert_eq!(*file_number, fill::file_number(first));
        })
    }
}
