-- Webhooks: the endpoints of clients, and what is sent to them.

-- Who is told of an endpoint that fails: an address.
ALTER TABLE api_keys ADD COLUMN contact TEXT;

CREATE TABLE webhook_endpoints (
    -- AUTOINCREMENT: a removed endpoint leaves deliveries, which no other endpoint must get.
    -- Serves: one endpoint (WHERE id = ?).
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    client_id INTEGER NOT NULL,
    -- Test keys manage these, and test orders are sent to them.
    is_test INTEGER NOT NULL,
    url TEXT NOT NULL,
    -- Names separated by spaces.
    events TEXT NOT NULL,
    description TEXT,
    -- Encrypted with the key of --secrets-key. The previous one still signs until its end.
    secret BLOB NOT NULL,
    previous_secret BLOB,
    previous_until INTEGER,
    created_at INTEGER NOT NULL,
    -- The first success since the last failure, or the first failure since the last success. Both
    -- are NULL before the first attempt.
    succeeded_at INTEGER,
    failed_at INTEGER,
    -- When the contact of the client was warned that it will be disabled.
    warned_at INTEGER,
    -- A disabled endpoint gets nothing. Its deliveries wait.
    disabled_at INTEGER,
    disabled_by TEXT,
    -- When the contact of the client was told that the service has disabled it.
    told_at INTEGER
) STRICT;

-- Serves: the endpoints of an owner (WHERE client_id = ? AND is_test = ? ORDER BY id), and of the
-- clients of events (WHERE client_id IN (…)).
CREATE INDEX webhook_endpoints_client ON webhook_endpoints (client_id, is_test, id);

-- Deliveries stay for 30 days, so that clients see them and can replay them. They have no data of
-- the order. Endpoint and order have no foreign keys, for the reason given at deliveries.
CREATE TABLE webhook_deliveries (
    -- Serves: settle, replay and retry (WHERE id = ?), lease (WHERE id IN (…)), and the oldest
    -- rows, which are removed (ORDER BY id LIMIT ?).
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint_id INTEGER NOT NULL,
    order_id INTEGER,
    created_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    leased_until INTEGER,
    -- Counts the leases, so that each has a token of its own.
    lease_token INTEGER NOT NULL DEFAULT 0,
    delivered_at INTEGER,
    failed_at INTEGER,
    -- Failed attempts since the event or the last replay.
    failures INTEGER NOT NULL DEFAULT 0,
    event TEXT NOT NULL,
    message_key TEXT NOT NULL,
    -- A JSON array: [[microseconds since 1970, status or error], …].
    attempts TEXT NOT NULL DEFAULT '[]'
) STRICT;

-- Serves: the endpoints with deliveries that wait (WHERE delivered_at IS NULL AND failed_at IS NULL
-- AND endpoint_id > ? ORDER BY endpoint_id LIMIT 1), and the longest due of each (AND endpoint_id =
-- ? AND due_at <= ? ORDER BY due_at, id LIMIT ?).
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, due_at, id)
    WHERE delivered_at IS NULL AND failed_at IS NULL;

-- Serves: pages of an endpoint (WHERE endpoint_id = ? AND id < ? ORDER BY id LIMIT ?).
CREATE INDEX webhook_deliveries_endpoint ON webhook_deliveries (endpoint_id, id);

-- Serves: the number and the list of those that failed for good (WHERE failed_at IS NOT NULL ORDER
-- BY id LIMIT ?).
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (id) WHERE failed_at IS NOT NULL;
