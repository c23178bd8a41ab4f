//! Rows whose parent is gone, and rows of a parent whose number was given again. Foreign keys guard only some
//! of them, and other programs may switch them off.

/// A table whose rows belong to rows of another.
struct Child {
    table: &'static str,
    /// The missing parent.
    orphans: &'static str,
    /// Selects these rows.
    condition: &'static str,
    /// Whether a copy keeps them: an order is never lost, nor what an order shows.
    is_kept: bool,
}

const CHILDREN: [Child; 22] = [
    Child {
        table: "orders",
        orphans: "orders without their client",
        condition: "NOT EXISTS (SELECT 1 FROM api_keys WHERE api_keys.id = orders.client_id)",
        is_kept: true,
    },
    Child {
        table: "api_keys",
        orphans: "keys without their client",
        condition: "(api_keys.client_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM api_keys AS c \
            WHERE c.id = api_keys.client_id))",
        is_kept: false,
    },
    Child {
        table: "webhook_endpoints",
        orphans: "endpoints without their client",
        condition: "(webhook_endpoints.party > 0 AND NOT EXISTS (SELECT 1 FROM api_keys AS c \
            WHERE c.id = webhook_endpoints.party))",
        is_kept: false,
    },
    Child {
        table: "documents",
        orphans: "documents without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = documents.order_id)",
        is_kept: false,
    },
    Child {
        table: "order_changes",
        orphans: "changes without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = order_changes.order_id)",
        is_kept: false,
    },
    Child {
        table: "order_notes",
        orphans: "notes without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = order_notes.order_id)",
        is_kept: false,
    },
    Child {
        table: "order_feed",
        orphans: "changes in the feed without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = order_feed.order_id)",
        is_kept: false,
    },
    Child {
        table: "events",
        orphans: "events without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = events.order_id)",
        is_kept: false,
    },
    Child {
        table: "deliveries",
        orphans: "mails without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = deliveries.order_id)",
        is_kept: false,
    },
    Child {
        table: "order_recipients",
        orphans: "recipients without their order",
        condition: "NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = order_recipients.order_id)",
        is_kept: false,
    },
    Child {
        table: "webhook_deliveries",
        orphans: "webhooks without their endpoint or order",
        condition: "(NOT EXISTS (SELECT 1 FROM webhook_endpoints AS e \
                WHERE e.id = webhook_deliveries.endpoint_id \
                AND (e.party < 0 OR EXISTS (SELECT 1 FROM api_keys AS c WHERE c.id = e.party))) \
            OR order_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM orders \
                WHERE orders.id = webhook_deliveries.order_id))",
        is_kept: false,
    },
    Child {
        table: "idempotency_keys",
        orphans: "idempotency keys without their order or client",
        condition: "(order_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM orders \
                WHERE orders.id = idempotency_keys.order_id) \
            OR party > 0 AND NOT EXISTS (SELECT 1 FROM api_keys AS c \
                WHERE c.id = idempotency_keys.party))",
        is_kept: false,
    },
    Child {
        table: "key_events",
        orphans: "lines of a trail without their key",
        condition: "(NOT EXISTS (SELECT 1 FROM api_keys AS k WHERE k.id = key_events.api_key_id \
                AND (k.client_id IS NULL \
                    OR EXISTS (SELECT 1 FROM api_keys AS c WHERE c.id = k.client_id))) \
            OR successor_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM api_keys AS k \
                WHERE k.id = key_events.successor_id AND (k.client_id IS NULL \
                    OR EXISTS (SELECT 1 FROM api_keys AS c WHERE c.id = k.client_id))))",
        is_kept: false,
    },
    Child {
        table: "people",
        orphans: "people without their client",
        condition: "(people.party > 0 AND NOT EXISTS (SELECT 1 FROM api_keys AS c \
            WHERE c.id = people.party))",
        is_kept: true,
    },
    Child {
        table: "invitations",
        orphans: "invitations without their person",
        condition: "NOT EXISTS (SELECT 1 FROM people WHERE people.id = invitations.person_id)",
        is_kept: false,
    },
    Child {
        table: "passkeys",
        orphans: "passkeys without their person",
        condition: "NOT EXISTS (SELECT 1 FROM people WHERE people.id = passkeys.person_id)",
        is_kept: false,
    },
    Child {
        table: "identities",
        orphans: "logins without their person",
        condition: "NOT EXISTS (SELECT 1 FROM people WHERE people.id = identities.person_id)",
        is_kept: false,
    },
    // Instants of one order increase. What is older belongs to another order, which had its number.
    Child {
        table: "order_changes",
        orphans: "changes older than their order",
        condition: "EXISTS (SELECT 1 FROM orders WHERE orders.id = order_changes.order_id \
            AND orders.created_at > order_changes.at)",
        is_kept: true,
    },
    Child {
        table: "order_notes",
        orphans: "notes older than their order",
        condition: "EXISTS (SELECT 1 FROM orders WHERE orders.id = order_notes.order_id \
            AND orders.created_at > order_notes.at)",
        is_kept: true,
    },
    Child {
        table: "events",
        orphans: "events older than their order",
        condition: "EXISTS (SELECT 1 FROM orders WHERE orders.id = events.order_id \
            AND orders.created_at > events.created_at)",
        is_kept: true,
    },
    Child {
        table: "deliveries",
        orphans: "mails older than their order",
        condition: "EXISTS (SELECT 1 FROM orders WHERE orders.id = deliveries.order_id \
            AND orders.created_at > deliveries.created_at)",
        is_kept: true,
    },
    Child {
        table: "webhook_deliveries",
        orphans: "webhooks older than their order",
        condition: "EXISTS (SELECT 1 FROM orders WHERE orders.id = webhook_deliveries.order_id \
            AND orders.created_at > webhook_deliveries.created_at)",
        is_kept: true,
    },
];

/// Returns the SQL condition of a row of a table that a copy takes along: one that has its parent, or an
/// order.
pub fn has_parent(table: &str) -> String {
    let child = CHILDREN.iter().find(|child| child.table == table && !child.is_kept);
    child.map_or_else(|| "true".to_owned(), |child| format!("NOT {}", child.condition))
}

/// Returns the query of what rows lack, and their number, for each table that has such rows.
pub fn orphans_query() -> String {
    let counts = CHILDREN.map(|Child { table, orphans, condition, .. }| {
        format!("SELECT '{orphans}' AS orphans, count(*) AS number FROM {table} WHERE {condition}")
    });
    format!(
        "SELECT orphans, number FROM ({}) AS counted WHERE number > 0",
        counts.join(" UNION ALL ")
    )
}
