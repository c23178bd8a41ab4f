//! Rows whose parent is gone. Foreign keys guard only some of them, and other programs may switch them
//! off.

/// A table whose rows belong to rows of another.
struct Child {
    table: &'static str,
    /// What it lacks.
    orphans: &'static str,
    /// Selects rows whose parent is gone.
    condition: &'static str,
}

const CHILDREN: [Child; 8] = [
    Child {
        table: "documents",
        orphans: "documents without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = documents.order_id)",
    },
    Child {
        table: "order_changes",
        orphans: "changes without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = order_changes.order_id)",
    },
    Child {
        table: "events",
        orphans: "events without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = events.order_id)",
    },
    Child {
        table: "deliveries",
        orphans: "mails without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = deliveries.order_id)",
    },
    Child {
        table: "order_recipients",
        orphans: "recipients without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = order_recipients.order_id)",
    },
    Child {
        table: "webhook_deliveries",
        orphans: "webhooks without their endpoint or order",
        condition: "(NOT EXISTS (SELECT 1 FROM webhook_endpoints \
                WHERE webhook_endpoints.id = webhook_deliveries.endpoint_id) \
            OR order_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM orders \
                WHERE orders.id = webhook_deliveries.order_id))",
    },
    Child {
        table: "idempotency_keys",
        orphans: "idempotency keys without their order",
        condition: "(order_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM orders \
            WHERE orders.id = idempotency_keys.order_id))",
    },
    Child {
        table: "key_events",
        orphans: "lines of a trail without their key",
        condition: "NOT EXISTS (SELECT 1 FROM api_keys WHERE api_keys.id = key_events.api_key_id)",
    },
];

/// Returns the SQL condition of a row of a table that has its parent.
pub fn has_parent(table: &str) -> String {
    let child = CHILDREN.iter().find(|child| child.table == table);
    child.map_or_else(|| "true".to_owned(), |child| format!("NOT {}", child.condition))
}

/// Returns the query of what rows lack, and their number, for each table that has such rows.
pub fn orphans_query() -> String {
    let counts = CHILDREN.map(|Child { table, orphans, condition }| {
        format!("SELECT '{orphans}' AS orphans, count(*) AS number FROM {table} WHERE {condition}")
    });
    format!(
        "SELECT orphans, number FROM ({}) AS counted WHERE number > 0",
        counts.join(" UNION ALL ")
    )
}
