//! An order by its identifier, next to `pgbench` reading the same row.

use test_servers::postgres::Cluster;

use super::{COLUMNS, Filled, row};
use crate::{
    fill,
    instance::Backend,
    orders::Round,
    pgbench::Pgbench,
    request::{Request, SLOT, Values},
    table::{self, Bound, target},
    trial::{CONNECTIONS, Plan, alternate, ratios},
};

const ORDERS: u64 = 10_000;

/// The whole row, as any client of the database would read it.
const ROW: &str = "SELECT * FROM orders WHERE client_id = 1 AND id = :id;";

/// The service's own statement for one order. It also reads the documents.
const STATEMENT: &str = "SELECT asked.number, found.*
FROM unnest(ARRAY[:id]::bigint[], ARRAY[1]::bigint[]) WITH ORDINALITY
    AS asked (id, client_id, number)
CROSS JOIN LATERAL (
    SELECT o.id, o.erased_at, o.client_id, o.api_key_id, o.signing_service_id, o.notary_id,
        o.starts_at, o.ends_at, o.created_at, o.updated_at, o.is_test, o.holds_file_number,
        o.file_number, o.status, o.details::text AS details,
        ARRAY(
            SELECT ROW(position, key, name, name_as_sent, media_type, size, sha256, added_at)
            FROM documents WHERE order_id = o.id ORDER BY position
        ) AS documents
    FROM orders AS o WHERE o.id = asked.id AND o.client_id = asked.client_id LIMIT 1
) AS found;";

/// Runs the measurement. Returns the targets.
pub fn run(plan: &Plan, cluster: &Cluster) -> Vec<Vec<String>> {
    let [postgres, sqlite] =
        Backend::ALL.map(|backend| Filled::new(plan, backend, cluster, ORDERS));
    let service = |filled: &Filled<'_>| {
        let path = format!("/api/order/{SLOT}");
        let request = Request::get(&filled.key, &path, Values::Identifiers(1..=ORDERS));
        filled.round(plan, request, [1, ORDERS], |id, order| {
            assert_eq!(order["order_id"], id);
            assert_eq!(
                order["details"]["signingDetailsFormData"]["fileNumber"],
                fill::file_number(id)
            );
        })
    };
    let pgbench = |statement: &str| {
        let pgbench = Pgbench {
            clients: CONNECTIONS,
            rate: None,
            warmup: plan.warmup(),
            window: plan.window(),
        };
        let script = format!("\\set id random(1, {ORDERS})\n{statement}\n");
        Round::Pgbench(pgbench.run_script(postgres.instance.database.as_ref().unwrap(), &script))
    };
    let rounds: [_; 4] = alternate(
        plan.rounds,
        &[&|_| service(&postgres), &|_| pgbench(ROW), &|_| service(&sqlite), &|_| {
            pgbench(STATEMENT)
        }],
    )
    .try_into()
    .unwrap_or_else(|_| unreachable!("four candidates"));
    let [on_postgres, of_row, on_sqlite, of_statement] = &rounds;
    table::print(
        &format!("an order by its identifier, {CONNECTIONS} connections, {ORDERS} orders"),
        &COLUMNS,
        &[
            row("service on PostgreSQL", on_postgres),
            row("pgbench, the row", of_row),
            row("pgbench, the service's statement", of_statement),
            row("service on SQLite", on_sqlite),
        ],
    );
    let ratios = |ones, others| ratios(ones, others, Round::rate, Round::rate);
    vec![
        target(
            "an order on PostgreSQL / pgbench, the row",
            &ratios(on_postgres, of_row),
            "",
            Bound::AtLeast(0.5),
        ),
        target(
            "an order on SQLite / on PostgreSQL",
            &ratios(on_sqlite, on_postgres),
            "",
            Bound::AtLeast(1.5),
        ),
    ]
}
