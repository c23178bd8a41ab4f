-- Instants are microseconds since 1970-01-01T00:00:00Z, in columns named `at`, `…_at` and
-- `…_until`. The constraints keep what must hold between processes. They do not repeat what the
-- domain's types reject.

-- One order, one record: columns for what is searched, joined, ordered or changed by other systems,
-- and one JSON object with the rest. crates/domain/src/order/record.rs defines its members.
CREATE TABLE orders (
    -- Serves: one order (WHERE id = ?). Orders are never deleted, so identifiers are not reused.
    id INTEGER PRIMARY KEY,
    client_id INTEGER NOT NULL,
    api_key_id INTEGER NOT NULL,
    signing_service_id INTEGER NOT NULL,
    -- Other systems assign notaries and move orders on.
    notary_id INTEGER,
    starts_at INTEGER,
    ends_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    is_test INTEGER NOT NULL,
    -- The latest order with a file number holds it; see orders_file_number.
    holds_file_number INTEGER NOT NULL,
    file_number TEXT NOT NULL,
    status TEXT NOT NULL CHECK (length(status) BETWEEN 1 AND 50),
    details TEXT NOT NULL CHECK (json_valid(details))
) STRICT;

-- The claim of a file number: of any number of concurrent orders, one holds it. Test orders do not
-- take the file numbers of real orders.
-- Serves: the order that holds a file number (WHERE file_number = ? AND is_test = ? AND
-- holds_file_number).
CREATE UNIQUE INDEX orders_file_number ON orders (file_number, is_test) WHERE holds_file_number;

CREATE TABLE documents (
    order_id INTEGER NOT NULL REFERENCES orders (id),
    position INTEGER NOT NULL,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    name_as_sent TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    -- Serves: documents of one order, in their order.
    PRIMARY KEY (order_id, position)
) STRICT, WITHOUT ROWID;

-- Objects that no order has adopted yet. The table holds only uploads in progress, so the sweeper
-- may read all of it.
CREATE TABLE uploads (
    key TEXT PRIMARY KEY,
    recorded_at INTEGER NOT NULL,
    condemned INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- The outbox: mails to deliver.
CREATE TABLE deliveries (
    -- AUTOINCREMENT: a finished delivery leaves the table, and its lease must never fit another.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    leased_until INTEGER,
    -- Counts the leases, so that each has a token of its own.
    lease_token INTEGER NOT NULL DEFAULT 0,
    failed_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    message_key TEXT NOT NULL,
    recipient TEXT NOT NULL,
    last_error TEXT
) STRICT;

-- Serves: lease what has been due longest (WHERE failed_at IS NULL AND due_at <= ? ORDER BY
-- due_at, id LIMIT ?).
CREATE INDEX deliveries_due ON deliveries (due_at, id) WHERE failed_at IS NULL;

-- The mails to each recipient in an hour, counted when a worker first leases them.
CREATE TABLE recipient_mails (
    -- The beginning of the hour, in microseconds like every instant.
    hour INTEGER NOT NULL,
    -- The address in lower case.
    recipient TEXT NOT NULL,
    mails INTEGER NOT NULL,
    -- Serves: count (WHERE hour = ? AND recipient = ?), and remove past hours (WHERE hour < ? LIMIT
    -- ?).
    PRIMARY KEY (hour, recipient)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    -- AUTOINCREMENT: an identifier names one client for ever.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The first key of the client, which identifies the client; NULL for that key itself.
    client_id INTEGER REFERENCES api_keys (id),
    name TEXT NOT NULL,
    -- UNIQUE serves: the key that a client presents (WHERE lookup = ?).
    lookup TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL,
    signing_service_id INTEGER,
    issued_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used_at INTEGER,
    is_test INTEGER NOT NULL,
    rate_per_second INTEGER,
    rate_burst INTEGER,
    documents_rate_per_second INTEGER,
    documents_rate_burst INTEGER
) STRICT;

-- The history of keys. No row ever leaves it.
CREATE TABLE key_events (
    id INTEGER PRIMARY KEY,
    api_key_id INTEGER NOT NULL REFERENCES api_keys (id),
    change TEXT NOT NULL,
    successor_id INTEGER REFERENCES api_keys (id),
    at INTEGER NOT NULL,
    by TEXT NOT NULL
) STRICT;

-- Idempotency keys in use: claimed by a request in progress (no order), or of a request that was
-- answered.
CREATE TABLE idempotency_keys (
    client_id INTEGER NOT NULL,
    digest BLOB NOT NULL,
    token BLOB NOT NULL,
    fingerprint BLOB,
    order_id INTEGER,
    taken_at INTEGER NOT NULL,
    kept_until INTEGER NOT NULL,
    -- Serves: claim, release, the check before an order is created (WHERE client_id = ? AND
    -- digest = ?), and the walk that forgets keys that are free again (WHERE (client_id, digest) >
    -- (?, ?) ORDER BY client_id, digest LIMIT ?). An index by time would serve the walk better, but
    -- every order would pay for it.
    PRIMARY KEY (client_id, digest)
) STRICT, WITHOUT ROWID;

-- Every field of an order as a typed column, for users of SQL.
CREATE VIEW order_details AS
SELECT
    id AS order_id, client_id, api_key_id, signing_service_id, file_number, status AS order_status,
    notary_id, is_test,
    CAST(details ->> '$.email' AS TEXT) AS order_contact_email,
    CAST(details ->> '$.company' AS INTEGER) AS client_company_id,
    CAST(details ->> '$.observer' AS TEXT) AS observer_email,
    CAST(details ->> '$.in_house.name' AS TEXT) AS in_house_contact_name,
    CAST(details ->> '$.in_house.phone' AS TEXT) AS in_house_contact_phone,
    CAST(details ->> '$.in_house.email' AS TEXT) AS in_house_contact_email,
    CAST(details ->> '$.in_house2.name' AS TEXT) AS in_house_contact2_name,
    CAST(details ->> '$.in_house2.phone' AS TEXT) AS in_house_contact2_phone,
    CAST(details ->> '$.in_house2.email' AS TEXT) AS in_house_contact2_email,
    CAST(details ->> '$.date' AS TEXT) AS signing_date,
    CAST(details ->> '$.zone' AS TEXT) AS time_zone_id,
    CASE WHEN details ->> '$.at' IS NOT NULL THEN 'at'
        WHEN details ->> '$.from' IS NOT NULL THEN 'between' ELSE 'anytime' END
        AS signing_time_type,
    CAST(coalesce(details ->> '$.at', details ->> '$.from') AS TEXT) AS start_time,
    datetime(starts_at / 1000000, 'unixepoch') AS starts_at,
    CAST(details ->> '$.to' AS TEXT) AS end_time,
    datetime(ends_at / 1000000, 'unixepoch') AS ends_at,
    CAST(details ->> '$.property.address' AS TEXT) AS property_address,
    CAST(details ->> '$.property.city' AS TEXT) AS property_city,
    CAST(details ->> '$.property.state' AS TEXT) AS property_state,
    CAST(details ->> '$.property.zip' AS TEXT) AS property_zipcode,
    coalesce(details ->> '$.same', 1) AS is_property_address_same,
    CAST(CASE WHEN details ->> '$.location' IS NOT NULL
        THEN details ->> '$.location.address' ELSE details ->> '$.property.address' END AS TEXT)
        AS signing_address,
    CAST(CASE WHEN details ->> '$.location' IS NOT NULL
        THEN details ->> '$.location.city' ELSE details ->> '$.property.city' END AS TEXT)
        AS signing_city,
    CAST(CASE WHEN details ->> '$.location' IS NOT NULL
        THEN details ->> '$.location.state' ELSE details ->> '$.property.state' END AS TEXT)
        AS signing_state,
    CAST(CASE WHEN details ->> '$.location' IS NOT NULL
        THEN details ->> '$.location.zip' ELSE details ->> '$.property.zip' END AS TEXT)
        AS signing_zipcode,
    CAST(details ->> '$.type' AS TEXT) AS signing_type,
    CAST(details ->> '$.signer.name' AS TEXT) AS signer_name,
    CAST(details ->> '$.signer.phone' AS TEXT) AS signer_phone,
    CAST(details ->> '$.signer.email' AS TEXT) AS signer_email,
    CAST(details ->> '$.signer.spouse' AS TEXT) AS spouse_name,
    CAST(details ->> '$.co_signer.name' AS TEXT) AS co_signer_name,
    CAST(details ->> '$.co_signer.spouse' AS TEXT) AS co_signer_spouse_name,
    CAST(details ->> '$.co_signer.phone' AS TEXT) AS co_signer_phone,
    CAST(details ->> '$.co_signer.email' AS TEXT) AS co_signer_email,
    CAST(coalesce(details ->> '$.lang', 'en') AS TEXT) AS language,
    CAST(details ->> '$.esigning_platform' AS TEXT) AS esigning_platform,
    coalesce(details ->> '$.scanbacks', 0) AS scanbacks_required,
    coalesce(details ->> '$.ron', 0) AS ron_signing,
    CAST(details ->> '$.document_delivery' AS TEXT) AS document_delivery,
    CAST(details ->> '$.lender' AS TEXT) AS lender,
    CAST(details ->> '$.special_instructions' AS TEXT) AS special_instructions,
    CAST(details ->> '$.loan_officer.name' AS TEXT) AS loan_officer_name,
    CAST(details ->> '$.loan_officer.phone' AS TEXT) AS loan_officer_phone,
    CAST(details ->> '$.loan_officer.email' AS TEXT) AS loan_officer_email,
    CAST(details ->> '$.invoice.to.company' AS TEXT) AS invoice_company_name,
    CAST(details ->> '$.invoice.to.address' AS TEXT) AS invoice_address,
    CAST(details ->> '$.invoice.to.city' AS TEXT) AS invoice_city,
    CAST(details ->> '$.invoice.to.state' AS TEXT) AS invoice_state,
    CAST(details ->> '$.invoice.to.zip' AS TEXT) AS invoice_zipcode,
    CAST(details ->> '$.invoice.name' AS TEXT) AS invoice_name,
    CAST(details ->> '$.invoice.phone' AS TEXT) AS invoice_phone,
    CAST(details ->> '$.invoice.email' AS TEXT) AS invoice_email,
    (details ->> '$.invoice.fee_cents') / 100.0 AS invoice_fee,
    (details ->> '$.invoice.notary_pay_cents') / 100.0 AS notary_pay,
    CAST(details ->> '$.user' AS INTEGER) AS requested_by_user_id,
    CAST(details ->> '$.role' AS TEXT) AS requested_by_user_role,
    CAST(details ->> '$.user_service' AS INTEGER) AS requested_by_signing_service_id,
    datetime(created_at / 1000000, 'unixepoch') AS created_at,
    datetime(updated_at / 1000000, 'unixepoch') AS updated_at
FROM orders;
