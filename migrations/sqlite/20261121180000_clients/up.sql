-- What clients need for real life: repeats that are safe, keys with limits and successors, a trail of keys, test orders.

ALTER TABLE orders ADD COLUMN is_test INTEGER NOT NULL DEFAULT 0 CHECK (is_test IN (0, 1));

-- Who used a file number for a test order last: tests do not take file numbers from real signings.
CREATE TABLE test_file_numbers (
    file_number TEXT PRIMARY KEY,
    created_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE api_keys ADD COLUMN is_test INTEGER NOT NULL DEFAULT 0 CHECK (is_test IN (0, 1));
ALTER TABLE api_keys ADD COLUMN rate_per_second INTEGER CHECK (rate_per_second > 0);
ALTER TABLE api_keys ADD COLUMN rate_burst INTEGER CHECK (rate_burst IS NULL OR rate_burst > 0 AND rate_per_second IS NOT NULL);
ALTER TABLE api_keys ADD COLUMN documents_rate_per_second INTEGER CHECK (documents_rate_per_second > 0);
ALTER TABLE api_keys ADD COLUMN documents_rate_burst INTEGER CHECK (documents_rate_burst IS NULL OR documents_rate_burst > 0 AND documents_rate_per_second IS NOT NULL);
ALTER TABLE api_keys ADD COLUMN first_id INTEGER REFERENCES api_keys (id);
ALTER TABLE api_keys ADD COLUMN last_used_at_us INTEGER;

-- The trail of keys; nothing ever leaves it.
CREATE TABLE key_events (
    -- AUTOINCREMENT: the order of the trail.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    api_key_id INTEGER NOT NULL REFERENCES api_keys (id),
    change TEXT NOT NULL CHECK (change IN ('issued', 'rotated', 'revoked')),
    successor_id INTEGER REFERENCES api_keys (id) CHECK ((successor_id IS NOT NULL) = (change = 'rotated')),
    at_us INTEGER NOT NULL,
    by TEXT NOT NULL
) STRICT;

INSERT INTO key_events (api_key_id, change, at_us, by) SELECT id, 'issued', issued_at_us, 'not recorded' FROM api_keys ORDER BY id;
INSERT INTO key_events (api_key_id, change, at_us, by)
    SELECT id, 'revoked', revoked_at_us, 'not recorded' FROM api_keys WHERE revoked_at_us IS NOT NULL ORDER BY revoked_at_us, id;

-- Idempotency keys in use: claimed by a request in flight (without an order), or of a request that was answered.
CREATE TABLE idempotency_keys (
    client_id INTEGER NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    token BLOB NOT NULL CHECK (length(token) = 16),
    fingerprint BLOB CHECK (length(fingerprint) = 32),
    order_id INTEGER CHECK ((order_id IS NULL) = (fingerprint IS NULL)),
    taken_at_us INTEGER NOT NULL,
    kept_until_us INTEGER NOT NULL,
    -- Serves: claim, release and the look before an order is placed (WHERE client_id = ? AND digest = ?); the walk past all keys that
    -- forgets those that are free again (WHERE (client_id, digest) > (?, ?) ORDER BY client_id, digest LIMIT ?), which an index by
    -- time would serve better, at the cost of every order.
    PRIMARY KEY (client_id, digest)
) STRICT, WITHOUT ROWID;
