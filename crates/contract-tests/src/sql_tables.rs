//! The tables of `migrations/`, as another system uses them.

use async_trait::async_trait;
use domain::{
    access::RunId,
    api_key::ClientId,
    delivery::DeliveryId,
    order::OrderId,
    ports::EventId,
    webhook::{EndpointId, WebhookDeliveryId},
};

use crate::{ForeignChange, OtherSystem, Remains};

/// The tables of `migrations/`, which PostgreSQL and SQLite have. A store with other tables has an
/// implementation of [`OtherSystem`] of its own.
///
/// The function executes a statement, and returns the column `found` of its rows. It owns what the
/// store needs, such as its folder.
pub struct SqlTables<Sql>(pub Sql);

impl<Sql: Fn(&str) -> Vec<String>> SqlTables<Sql> {
    fn update(&self, id: OrderId, set: &str) {
        (self.0)(&format!("UPDATE orders SET {set} WHERE id = {}", id.0));
    }

    /// Returns values of the row of an order.
    fn found(&self, id: OrderId, value: &str) -> Vec<String> {
        (self.0)(&format!("SELECT {value} AS found FROM orders WHERE id = {}", id.0))
    }
}

#[async_trait]
impl<Sql: Fn(&str) -> Vec<String> + Send + Sync> OtherSystem for SqlTables<Sql> {
    async fn change_order(&self, id: OrderId, change: ForeignChange) {
        let notary = |notary: Option<i64>| notary.map_or("NULL".to_owned(), |id| id.to_string());
        let set = match change {
            ForeignChange::Status(status) => format!("status = '{status}'"),
            ForeignChange::Notary(id) => format!("notary_id = {}", notary(id)),
            ForeignChange::Both(status, id) => {
                format!("status = '{status}', notary_id = {}", notary(id))
            }
            ForeignChange::Named(id, name) => {
                format!(r#"notary = '{{"name": "{name}"}}', notary_id = {}"#, notary(id))
            }
            ForeignChange::Nothing => "holds_file_number = holds_file_number".to_owned(),
        };
        self.update(id, &set);
    }

    async fn copy_order(&self, id: OrderId, status: &'static str) {
        let columns = "client_id, api_key_id, signing_service_id, starts_at, ends_at, created_at, updated_at, is_test, \
            file_number, details";
        (self.0)(&format!(
            "INSERT INTO orders ({columns}, holds_file_number, status)
            SELECT {columns}, NOT holds_file_number, '{status}' FROM orders WHERE id = {}",
            id.0
        ));
    }

    async fn count_entries(&self, id: OrderId, entries: i64) {
        self.update(id, &format!("changes = {entries}"));
    }

    async fn write_as_first_version(&self, id: OrderId, search_text: &'static str) {
        let set =
            format!("search_text = '{search_text}', day_starts_at = NULL, notary_text = NULL");
        self.update(id, &set);
    }

    async fn create_as_first_version(&self, like: OrderId, file_number: &'static str) {
        (self.0)(&format!(
            "INSERT INTO orders (client_id, api_key_id, signing_service_id, starts_at, ends_at, created_at,
                updated_at, is_test, holds_file_number, file_number, status, details, signing_date, search_text)
            SELECT client_id, api_key_id, signing_service_id, starts_at, ends_at, created_at,
                created_at, is_test, true, '{file_number}', 'NEW', details, signing_date, 'a text'
            FROM orders WHERE id = {}",
            like.0
        ));
        (self.0)(&format!(
            "INSERT INTO events (type, order_id, created_at)
            SELECT 'order.created', id, created_at FROM orders WHERE file_number = '{file_number}'"
        ));
    }

    async fn change_as_first_version(&self, id: OrderId) {
        for statement in [
            "INSERT INTO order_notes (order_id, at, author, text)
            SELECT id, updated_at, 'client', 'a note' FROM orders",
            "INSERT INTO events (type, order_id, created_at)
            SELECT 'order.note_added', id, updated_at FROM orders",
            r#"INSERT INTO order_changes (order_id, at, kind, changed, documents, status, notary_id, actor)
            SELECT id, updated_at, 'changed', '["/signingDetailsFormData/lender"]', NULL, status, notary_id,
                'client' FROM orders"#,
            r#"INSERT INTO events (type, order_id, created_at, change, content)
            SELECT 'order.changed', id, updated_at, '{"changed":["/signingDetailsFormData/lender"]}', NULL
            FROM orders"#,
            "UPDATE orders SET starts_at = starts_at, ends_at = ends_at, search_text = 'a text',
                changes = changes + 1",
            "INSERT INTO events (type, order_id, created_at)
            SELECT 'order.documents_added', id, updated_at FROM orders",
            "UPDATE orders SET status = 'ASSIGNED', notary_id = 7001, change_actor = 'service',
                change_reason = NULL",
        ] {
            (self.0)(&format!("{statement} WHERE id = {}", id.0));
        }
    }

    async fn erase_as_first_version(&self, id: OrderId) {
        self.update(
            id,
            "details = '{}', file_number = '', holds_file_number = false, starts_at = NULL, ends_at = NULL,
            notary = NULL, signing_date = NULL, search_text = NULL, held_until = NULL,
            documents_erased_at = NULL, last_change_at = NULL, erased_at = updated_at",
        );
        for statement in [
            "UPDATE order_changes SET reason = NULL",
            "UPDATE order_notes SET text = ''",
            "DELETE FROM order_recipients",
            "DELETE FROM events",
            "DELETE FROM deliveries",
        ] {
            (self.0)(&format!("{statement} WHERE order_id = {}", id.0));
        }
    }

    async fn damage_order(&self, id: OrderId) {
        self.update(id, "details = '{}'");
    }

    async fn damage_old_values(&self, id: OrderId) {
        (self.0)(&format!("UPDATE order_changes SET before = '[' WHERE order_id = {}", id.0));
    }

    async fn let_one_order_have(&self, word: &'static str) {
        let has_word = format!("replace(search_text, '{word}', '') <> search_text");
        (self.0)(&format!(
            "CREATE UNIQUE INDEX one_word ON orders ((CASE WHEN {has_word} THEN 1 END))"
        ));
    }

    async fn make_epochs_foreign(&self) {
        (self.0)("UPDATE order_feed_epochs SET database = 'another'");
    }

    async fn decompose_file_number(&self, id: OrderId) {
        let decomposed = "replace(file_number, '\u{e9}', 'e\u{301}')";
        self.update(id, &format!("file_number = {decomposed}"));
    }

    async fn make_events_unknown(&self) {
        (self.0)("UPDATE events SET type = 'order.unknown'");
    }

    async fn damage_event(&self, id: EventId) {
        (self.0)(&format!("UPDATE events SET change = '[' WHERE id = {}", id.0));
    }

    async fn make_keys_unknown(&self) {
        (self.0)("UPDATE api_keys SET scopes = scopes || ' orders:unknown'");
        (self.0)(
            "INSERT INTO key_events (api_key_id, change, at, by)
            SELECT api_key_id, 'unknown', at, by FROM key_events WHERE change = 'issued'",
        );
    }

    async fn make_mail_unknown(&self, id: DeliveryId) {
        (self.0)(&format!("UPDATE deliveries SET subject = 'unknown' WHERE id = {}", id.0));
    }

    async fn make_webhook_unknown(&self, id: WebhookDeliveryId) {
        let set = "event = 'order.unknown'";
        (self.0)(&format!("UPDATE webhook_deliveries SET {set} WHERE id = {}", id.0));
    }

    async fn damage_webhook(&self, id: WebhookDeliveryId) {
        (self.0)(&format!("UPDATE webhook_deliveries SET change = '[' WHERE id = {}", id.0));
    }

    async fn make_endpoint_unknown(&self, id: EndpointId) {
        let set = "events = 'order.unknown order.created'";
        (self.0)(&format!("UPDATE webhook_endpoints SET {set} WHERE id = {}", id.0));
    }

    async fn make_access_unknown(&self, run: RunId, number: u64) {
        let access = format!("run = {} AND number = {number}", run.0);
        (self.0)(&format!("UPDATE accesses SET kind = 'unknown' WHERE {access}"));
    }

    async fn remains(&self, id: OrderId) -> Remains {
        let of_changes = |value: &str| {
            (self.0)(&format!(
                "SELECT {value} AS found FROM order_changes
                WHERE order_id = {} AND {value} IS NOT NULL ORDER BY at",
                id.0
            ))
        };
        let documents =
            format!("SELECT name_as_sent AS found FROM documents WHERE order_id = {}", id.0);
        let data = [
            // An empty object is what erasure leaves of the details.
            self.found(id, "coalesce(nullif(CAST(details AS TEXT), '{}'), '')"),
            self.found(id, "file_number"),
            self.found(id, "coalesce(CAST(starts_at AS TEXT), '')"),
            self.found(id, "coalesce(CAST(ends_at AS TEXT), '')"),
            self.found(id, "coalesce(CAST(day_starts_at AS TEXT), '')"),
            self.found(id, "coalesce(signing_date, '')"),
            self.found(id, "coalesce(search_text, '')"),
            self.found(id, "coalesce(notary, '')"),
            self.found(id, "coalesce(notary_text, '')"),
            of_changes("reason"),
            of_changes("before"),
            (self.0)(&format!("SELECT text AS found FROM order_notes WHERE order_id = {}", id.0)),
            (self.0)(&documents),
        ];
        Remains {
            status: self.found(id, "status").remove(0),
            client: ClientId(self.found(id, "CAST(client_id AS TEXT)")[0].parse().unwrap()),
            history: of_changes("status"),
            data: data.concat().into_iter().filter(|value| !value.is_empty()).collect(),
        }
    }
}
