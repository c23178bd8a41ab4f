-- Instants are microseconds since 1970-01-01T00:00:00Z, in columns named `at`, `…_at` and
-- `…_until`. The constraints keep what must hold between processes. They do not repeat what the
-- domain's types reject.

-- One order, one record: columns for what is searched, joined, ordered or changed by other systems,
-- and one JSON object with the rest. crates/domain/src/order/record.rs defines its members.
CREATE TABLE orders (
    -- Serves: one order (WHERE id = ?). Orders are never deleted, so identifiers are not reused: see orders_stay.
    id INTEGER PRIMARY KEY,
    client_id INTEGER NOT NULL,
    api_key_id INTEGER NOT NULL,
    signing_service_id INTEGER NOT NULL,
    -- Other systems assign notaries and move orders on.
    notary_id INTEGER CHECK (notary_id > 0),
    -- A JSON object: {"name", "phone"?, "email"?}.
    notary TEXT CHECK (notary GLOB '{*}'),
    starts_at INTEGER,
    ends_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    is_test INTEGER NOT NULL,
    -- The latest order with a file number holds it; see orders_file_number.
    holds_file_number INTEGER NOT NULL,
    file_number TEXT NOT NULL,
    status TEXT NOT NULL CHECK (length(status) BETWEEN 1 AND 50 AND trim(status) <> ''
        AND status NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'),
    -- A JSON object. Some versions of SQLite refuse JSON functions in a CHECK with `trusted_schema = OFF`.
    details TEXT NOT NULL CHECK (details GLOB '{*}'),
    -- The service names itself here when it changes `status`, `notary_id` or `notary`: the trigger
    -- orders_record_change moves both to the history. NULL: another system makes the change.
    change_actor TEXT,
    change_reason TEXT,
    -- The date of the appointment in its zone, YYYY-MM-DD. NULL when the order is erased.
    signing_date TEXT,
    -- The texts that a search looks at, folded: crates/domain/src/order/search.rs. NULL when the order is
    -- erased.
    search_text TEXT,
    -- Until when an operator keeps the order and its documents from erasure. No change of the order: the two
    -- sides do not see it. NULL: not on hold.
    held_until INTEGER,
    -- When the retention last erased documents of the order: their `withdrawn_at`, and `updated_at` then.
    documents_erased_at INTEGER,
    -- The change before `documents_erased_at`. The retention of the order counts from it, until another
    -- change: its own erasure of documents prolongs nothing.
    last_change_at INTEGER,
    -- How many entries the history has: calendars keep the file with the greatest number, and counting them
    -- for each mail would take longer with each change. Whoever adds an entry counts it.
    changes INTEGER NOT NULL DEFAULT 0,
    -- An operator has erased the order: `details` is {}, `file_number` is empty and not held,
    -- `starts_at`, `ends_at` and `notary` are NULL, and there are no documents and no deliveries.
    erased_at INTEGER
) STRICT;

-- The claim of a file number: of any number of concurrent orders, one holds it. Test orders do not
-- take the file numbers of real orders.
-- Serves: the order that holds a file number (WHERE file_number = ? AND is_test = ? AND
-- holds_file_number).
CREATE UNIQUE INDEX orders_file_number ON orders (file_number, is_test) WHERE holds_file_number;

-- The indexes below leave out erased orders, which are in no list.
-- Serves: pages of an owner (WHERE client_id = ? AND is_test = ? AND erased_at IS NULL AND id < ?
-- ORDER BY id). The columns behind `id` are those of the filters: a page with filters reads the index
-- alone. SQLite reads the row for the condition of a partial index, unless `erased_at` is here, too.
CREATE INDEX orders_client
    ON orders (client_id, is_test, id, status, signing_date, created_at, updated_at,
        erased_at)
    WHERE erased_at IS NULL;

-- A new order holds its file number, so it is not in this index and does not pay for it.
-- Serves, together with orders_file_number: pages of an owner with a file number (WHERE file_number
-- = ? AND client_id = ? AND is_test = ? AND NOT holds_file_number AND erased_at IS NULL AND id < ?
-- ORDER BY id), and the orders of any owner with a file number (WHERE file_number = ? AND NOT
-- holds_file_number AND erased_at IS NULL).
CREATE INDEX orders_client_file_number ON orders (file_number, client_id, is_test, id)
    WHERE NOT holds_file_number AND erased_at IS NULL;

-- Serves: pages of a signing service (WHERE signing_service_id = ? AND is_test = ? AND erased_at IS
-- NULL AND id < ? ORDER BY id). A page with a file number uses the two indexes of file numbers.
CREATE INDEX orders_service
    ON orders (signing_service_id, is_test, id, status, signing_date, created_at, updated_at,
        erased_at)
    WHERE erased_at IS NULL;

-- A new order is not on hold, so it is not in this index.
-- Serves: the number of orders on hold (WHERE held_until > ?).
CREATE INDEX orders_held ON orders (held_until) WHERE held_until IS NOT NULL;

CREATE TABLE documents (
    order_id INTEGER NOT NULL REFERENCES orders (id),
    position INTEGER NOT NULL,
    -- NULL: the document is withdrawn.
    key TEXT UNIQUE,
    name TEXT NOT NULL,
    name_as_sent TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    -- NULL: the document came with its order.
    added_at INTEGER,
    -- Whether the signing service uploaded it. Positions of such documents count from 0 again.
    signed INTEGER NOT NULL DEFAULT 0,
    -- The position of the document that stands in its place.
    replaced_by INTEGER,
    withdrawn_at INTEGER,
    -- Whether the retention withdrew it, and not its side.
    is_erased INTEGER NOT NULL DEFAULT 0,
    -- When the other side first read it whole.
    first_downloaded_at INTEGER,
    -- Serves: documents of one order, in their order.
    PRIMARY KEY (order_id, signed, position)
) STRICT, WITHOUT ROWID;

-- Objects that no order has adopted yet. The table holds only uploads in progress, so the sweeper
-- may read all of it.
CREATE TABLE uploads (
    key TEXT PRIMARY KEY,
    recorded_at INTEGER NOT NULL,
    condemned INTEGER NOT NULL DEFAULT 0,
    -- The order to which they are added, or of which they are withdrawn. NULL for documents of a new
    -- order, of an erased one, and of a request that has ended without adding them.
    order_id INTEGER,
    -- The withdrawn document. NULL for others.
    signed INTEGER,
    position INTEGER
) STRICT, WITHOUT ROWID;

-- The outbox: the transaction that creates an order adds one event, whoever learns of it. A worker
-- turns events into deliveries.
CREATE TABLE events (
    -- AUTOINCREMENT: a dispatched event leaves the table, and a worker that has read it must never
    -- dispatch another in its place.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    -- An order that could not be read is read again then.
    retry_at INTEGER,
    -- A version of the program leaves types that it does not know to newer versions.
    type TEXT NOT NULL,
    -- What the event tells of a change: a JSON object. NULL for an event of another type.
    change TEXT,
    -- What only the mails tell, such as the values before a change: a JSON object. It is never in a
    -- webhook.
    content TEXT
) STRICT;

-- The history of orders: a row for each change, whoever makes it. The creation has none.
CREATE TABLE order_changes (
    -- AUTOINCREMENT: a client pages through the history by it, and another program may delete a row.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id INTEGER NOT NULL REFERENCES orders (id),
    at INTEGER NOT NULL,
    -- status, changed, signed_documents_added, documents_replaced, withdrawn or documents_erased.
    kind TEXT NOT NULL,
    -- A JSON array of the changed fields, as JSON Pointers. NULL for other kinds than changed.
    changed TEXT,
    -- A JSON array of the positions of documents. NULL for kinds without documents.
    documents TEXT,
    status TEXT NOT NULL,
    notary_id INTEGER,
    -- client, service, operator or database.
    actor TEXT NOT NULL,
    -- NULL when the order is erased.
    reason TEXT
) STRICT;

-- Serves: the newest entries of orders, and pages of an order (WHERE order_id = ? AND id < ? ORDER BY id
-- DESC LIMIT ?).
CREATE INDEX order_changes_order ON order_changes (order_id, id);

-- The notes of both sides and of operators, up to 1,000 of an order. They are never changed.
CREATE TABLE order_notes (
    -- AUTOINCREMENT: as for order_changes.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id INTEGER NOT NULL REFERENCES orders (id),
    at INTEGER NOT NULL,
    -- client, service or operator.
    author TEXT NOT NULL,
    -- Empty when the order is erased.
    text TEXT NOT NULL
) STRICT;

-- Serves: the notes of an order, and their number (WHERE order_id = ? ORDER BY id).
CREATE INDEX order_notes_order ON order_notes (order_id, id);

-- The usual statuses, by their letters: a text that differs from one only by letter case, blanks, `-` or
-- `_`, and CANCELED, is that status.
CREATE VIEW usual_statuses (letters, status) AS VALUES
    ('NEW', 'NEW'), ('ASSIGNED', 'ASSIGNED'), ('CONFIRMED', 'CONFIRMED'), ('ONHOLD', 'ON_HOLD'),
    ('SIGNED', 'SIGNED'), ('DIDNOTSIGN', 'DID_NOT_SIGN'), ('COMPLETED', 'COMPLETED'),
    ('CANCELLED', 'CANCELLED'), ('CANCELED', 'CANCELLED');

-- Gives an order of another system the usual form of its status.
CREATE TRIGGER orders_name_status AFTER INSERT ON orders
WHEN NEW.status <> 'NEW'
BEGIN
    UPDATE orders SET status = coalesce(
        (SELECT status FROM usual_statuses WHERE letters = upper(
            replace(replace(replace(replace(NEW.status, ' ', ''), char(160), ''), '-', ''), '_', ''))
        ),
        NEW.status)
    WHERE id = NEW.id AND status <> coalesce(
        (SELECT status FROM usual_statuses WHERE letters = upper(
            replace(replace(replace(replace(NEW.status, ' ', ''), char(160), ''), '-', ''), '_', ''))
        ),
        NEW.status);
END;

-- Records a change of status or notary, and adds its event. Gives the status its usual form. A change of the
-- number alone, by another system, empties the name: it belongs to the number before. Instants of one
-- order increase. Every version of SQLite has julianday; it tells milliseconds. Some versions refuse
-- JSON functions in triggers with `trusted_schema = OFF`, so this writes the object itself. A status has
-- no control characters. A stored one has its usual form, so one in another form is just getting it, which
-- is no change of its own. Neither is what this trigger changes, nor an erasure.
CREATE TRIGGER orders_record_change AFTER UPDATE OF status, notary_id, notary ON orders
WHEN (OLD.status IS NOT NEW.status OR OLD.notary_id IS NOT NEW.notary_id
        OR OLD.notary IS NOT NEW.notary)
    AND OLD.erased_at IS NEW.erased_at AND NEW.change_actor IS NOT 'trigger'
    AND OLD.status = coalesce(
        (SELECT status FROM usual_statuses WHERE letters = upper(
            replace(replace(replace(replace(OLD.status, ' ', ''), char(160), ''), '-', ''), '_', ''))
        ),
        OLD.status)
BEGIN
    UPDATE orders SET change_actor = 'trigger', status = coalesce(
        (SELECT status FROM usual_statuses WHERE letters = upper(
            replace(replace(replace(replace(NEW.status, ' ', ''), char(160), ''), '-', ''), '_', ''))
        ),
        NEW.status),
        notary = CASE WHEN NEW.change_actor IS NULL AND NEW.notary_id IS NOT OLD.notary_id
                AND NEW.notary IS OLD.notary
            THEN NULL ELSE NEW.notary END
    WHERE id = NEW.id;
    UPDATE orders SET change_actor = NULL, change_reason = NULL,
        changes = changes + (status IS NOT OLD.status OR notary_id IS NOT OLD.notary_id
            OR notary IS NOT OLD.notary),
        updated_at = CASE
            WHEN status IS OLD.status AND notary_id IS OLD.notary_id AND notary IS OLD.notary
            THEN updated_at
            WHEN NEW.change_actor IS NULL
            THEN max(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000,
                OLD.updated_at + 1)
            ELSE NEW.updated_at END
    WHERE id = NEW.id;
    INSERT INTO order_changes (order_id, at, kind, status, notary_id, actor, reason)
    SELECT id, updated_at, 'status', status, notary_id, coalesce(NEW.change_actor, 'database'),
        NEW.change_reason
    FROM orders
    WHERE id = NEW.id AND (status IS NOT OLD.status OR notary_id IS NOT OLD.notary_id
        OR notary IS NOT OLD.notary);
    INSERT INTO events (order_id, created_at, type, change, content)
    SELECT id, updated_at,
        CASE WHEN status = 'CANCELLED' AND OLD.status <> 'CANCELLED'
            THEN 'order.cancelled' ELSE 'order.updated' END,
        '{"order_status":"' || replace(replace(status, '\', '\\'), '"', '\"')
            || '","previous_status":"' || replace(replace(OLD.status, '\', '\\'), '"', '\"')
            || '","notary_id":' || coalesce(NEW.notary_id, 'null')
            || ',"actor":"' || replace(replace(coalesce(NEW.change_actor, 'database'), '\', '\\'),
                '"', '\"') || '"}',
        '{"notary":{"notary_id":' || coalesce(notary_id, 'null') || ',"notary":'
            || coalesce(notary, 'null') || '}}'
    FROM orders
    WHERE id = NEW.id AND (status IS NOT OLD.status OR notary_id IS NOT OLD.notary_id
        OR notary IS NOT OLD.notary);
END;

-- Refuses a status that is not UTF-8, or has a NUL: SQLite stores what it gets, and no reader could read
-- the order any more. Compares the status with its characters, one by one.
CREATE TRIGGER orders_status_is_text BEFORE UPDATE OF status ON orders
WHEN NEW.status IS NOT (
    SELECT group_concat(char(unicode(substr(NEW.status, column1, 1))), '')
    FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13),
        (14), (15), (16), (17), (18), (19), (20), (21), (22), (23), (24), (25), (26),
        (27), (28), (29), (30), (31), (32), (33), (34), (35), (36), (37), (38), (39),
        (40), (41), (42), (43), (44), (45), (46), (47), (48), (49), (50))
    WHERE column1 <= length(NEW.status)
)
BEGIN
    SELECT RAISE(ABORT, 'the status must be UTF-8 text');
END;

-- Refuse REPLACE: it would remove an order without a history or an event, the one with the identifier or
-- the one that holds the file number.
CREATE TRIGGER orders_are_not_replaced BEFORE INSERT ON orders
WHEN EXISTS (SELECT 1 FROM orders WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'the order exists: change it by UPDATE, not by REPLACE');
END;

-- crates/adapter-sqlite/src/orders/mod.rs knows this message.
CREATE TRIGGER orders_keep_file_numbers BEFORE INSERT ON orders
WHEN NEW.holds_file_number AND EXISTS (SELECT 1 FROM orders
    WHERE file_number = NEW.file_number AND is_test = NEW.is_test AND holds_file_number
        AND id IS NOT NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'another order holds the file number');
END;

CREATE TRIGGER orders_are_not_replaced_by_others
BEFORE UPDATE OF id, file_number, is_test, holds_file_number ON orders
WHEN EXISTS (SELECT 1 FROM orders WHERE id = NEW.id AND id <> OLD.id)
    OR NEW.holds_file_number AND EXISTS (SELECT 1 FROM orders WHERE file_number = NEW.file_number
        AND is_test = NEW.is_test AND holds_file_number AND id <> OLD.id)
BEGIN
    SELECT RAISE(ABORT, 'another order has the identifier or holds the file number');
END;

-- Refuse to delete an order, or to move it: SQLite gives the highest identifier and 1, so the next order would
-- have its number, with its notes and documents. Foreign keys, which another program may have off, guard only
-- an order with documents. An erasure keeps the row.
CREATE TRIGGER orders_stay BEFORE DELETE ON orders
BEGIN
    SELECT RAISE(ABORT, 'an order is never deleted: erase it by `notary-orders orders erase`');
END;

CREATE TRIGGER orders_keep_identifiers BEFORE UPDATE OF id ON orders
WHEN NEW.id IS NOT OLD.id AND NOT EXISTS (SELECT 1 FROM orders WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'an order keeps its identifier');
END;

-- The records of signing services. Orders and keys may name one without a record.
CREATE TABLE signing_services (
    -- Serves: services by number (WHERE id IN (…), ORDER BY id).
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    -- Addresses separated by spaces.
    emails TEXT NOT NULL
) STRICT;

-- Mails to deliver. Orders have no foreign key here: nothing but erasure removes their rows.
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
    -- The attempts after which the relay did not say whether it accepted the mail.
    unknown_outcomes INTEGER NOT NULL DEFAULT 0,
    -- Whether it waits because its recipient has had its mails of the hour.
    over_limit INTEGER NOT NULL DEFAULT 0,
    message_key TEXT NOT NULL,
    recipient TEXT NOT NULL,
    -- The name of a subject; crates/domain/src/delivery.rs lists them.
    subject TEXT NOT NULL,
    -- Whether the signing service reads it, and not a contact of the order.
    to_service INTEGER NOT NULL,
    -- As for events.
    content TEXT,
    last_error TEXT
) STRICT;

-- Serves: lease what has been due longest (WHERE failed_at IS NULL AND due_at <= ? ORDER BY
-- due_at, id LIMIT ?).
CREATE INDEX deliveries_due ON deliveries (due_at, id) WHERE failed_at IS NULL;

-- The addresses that were told of each order, which are told of its end too. An erased order has none.
CREATE TABLE order_recipients (
    order_id INTEGER NOT NULL REFERENCES orders (id),
    recipient TEXT NOT NULL,
    -- As for deliveries.
    to_service INTEGER NOT NULL,
    -- Serves: the recipients of orders (WHERE order_id = ? ORDER BY recipient).
    PRIMARY KEY (order_id, recipient)
) STRICT, WITHOUT ROWID;

-- The mails of each client to each recipient in an hour, counted when they first begin to leave, and
-- again after they waited for the limit. Those to signing services are not counted.
CREATE TABLE recipient_mails (
    -- The beginning of the hour, in microseconds like every instant.
    hour INTEGER NOT NULL,
    -- The client of the orders: one client does not use up the mails of another.
    client_id INTEGER NOT NULL,
    -- The SHA-256 of the address in lower case, so that an erased order leaves no address.
    recipient BLOB NOT NULL,
    mails INTEGER NOT NULL,
    -- Serves: count (WHERE hour = ? AND client_id = ? AND recipient = ?), and remove past hours (WHERE
    -- hour < ? LIMIT ?).
    PRIMARY KEY (hour, client_id, recipient)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    -- AUTOINCREMENT: an identifier names one client for ever.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The first key of the client, which identifies the client; NULL for that key itself.
    client_id INTEGER REFERENCES api_keys (id),
    name TEXT NOT NULL,
    -- The name of the client, in its first key. NULL: that of the key.
    client_name TEXT,
    -- UNIQUE serves: the key that a client presents (WHERE lookup = ?).
    lookup TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL,
    signing_service_id INTEGER,
    -- The signing service to which the key belongs; NULL for a key of a client.
    for_service INTEGER,
    issued_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used_at INTEGER,
    is_test INTEGER NOT NULL,
    rate_per_second INTEGER,
    rate_burst INTEGER,
    documents_rate_per_second INTEGER,
    documents_rate_burst INTEGER,
    -- Names separated by spaces.
    scopes TEXT NOT NULL,
    -- The address that is told of an endpoint that fails.
    contact TEXT
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
    -- A client, or minus the number of a signing service.
    party INTEGER NOT NULL,
    -- Test keys and live keys of a party do not share idempotency keys.
    is_test INTEGER NOT NULL,
    digest BLOB NOT NULL,
    token BLOB NOT NULL,
    fingerprint BLOB,
    order_id INTEGER,
    taken_at INTEGER NOT NULL,
    kept_until INTEGER NOT NULL,
    -- What the request added to its order: the position of its first document, and their number; and how
    -- many the order then had. NULL for a request that created the order.
    first_document INTEGER,
    documents INTEGER,
    documents_stored INTEGER,
    -- Serves: claim, release, the check before an order is created (WHERE party = ? AND is_test = ?
    -- AND digest = ?), and the walk that forgets keys that are free again (WHERE (party, is_test,
    -- digest) > (?, ?, ?) ORDER BY party, is_test, digest LIMIT ?). An index by time would serve the
    -- walk better, but every order would pay for it.
    PRIMARY KEY (party, is_test, digest)
) STRICT, WITHOUT ROWID;

-- Webhooks: the endpoints of clients and signing services, and what is sent to them.
CREATE TABLE webhook_endpoints (
    -- AUTOINCREMENT: no endpoint gets the identifier of a removed one, which its client may still use.
    -- Serves: one endpoint (WHERE id = ?).
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- A client, or minus the number of a signing service.
    party INTEGER NOT NULL,
    -- Test keys manage these, and test orders are sent to them.
    is_test INTEGER NOT NULL,
    -- The key that made it. NULL: an operator did.
    api_key_id INTEGER,
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
    told_at INTEGER,
    -- No delivery of the endpoint is due, and no lease of one ends, before this instant. NULL: none
    -- waits.
    due_at INTEGER
) STRICT;

-- Serves: the endpoints of an owner (WHERE party = ? AND is_test = ? ORDER BY id), and of the
-- parties of events (WHERE party IN (…)).
CREATE INDEX webhook_endpoints_party ON webhook_endpoints (party, is_test, id);

-- Each serves: the longest waiting endpoints whose last attempt succeeded in time, and the others
-- (WHERE disabled_at IS NULL AND due_at <= ? ORDER BY due_at, id LIMIT ?).
CREATE INDEX webhook_endpoints_proven ON webhook_endpoints (due_at, id)
    WHERE disabled_at IS NULL AND succeeded_at IS NOT NULL;
CREATE INDEX webhook_endpoints_unproven ON webhook_endpoints (due_at, id)
    WHERE disabled_at IS NULL AND succeeded_at IS NULL;

-- Deliveries stay for 30 days, so that clients see them and can replay them. They have no data of
-- the order, and outlive its row. A removed endpoint takes them along.
CREATE TABLE webhook_deliveries (
    -- Serves: settle, replay and retry (WHERE id = ?), and lease (WHERE id IN (…)).
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint_id INTEGER NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
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
    -- As for events.
    change TEXT,
    message_key TEXT NOT NULL,
    -- A JSON array: [[microseconds since 1970, status or error], …].
    attempts TEXT NOT NULL DEFAULT '[]'
) STRICT;

-- Serves: the longest due of an endpoint (WHERE delivered_at IS NULL AND failed_at IS NULL AND
-- endpoint_id = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?).
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, due_at, id)
    WHERE delivered_at IS NULL AND failed_at IS NULL;

-- Serves: the leased ones of an endpoint (WHERE endpoint_id = ? AND leased_until > ?).
CREATE INDEX webhook_deliveries_leased ON webhook_deliveries (endpoint_id, leased_until)
    WHERE leased_until IS NOT NULL;

-- Serves: pages of an endpoint (WHERE endpoint_id = ? AND id < ? ORDER BY id LIMIT ?).
CREATE INDEX webhook_deliveries_endpoint ON webhook_deliveries (endpoint_id, id);

-- Serves: the number and the list of those that failed for good (WHERE failed_at IS NOT NULL ORDER
-- BY id LIMIT ?).
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (id) WHERE failed_at IS NOT NULL;

-- Serves: replay (WHERE endpoint_id = ? AND created_at >= ? AND created_at < ? ORDER BY created_at,
-- id LIMIT ?).
CREATE INDEX webhook_deliveries_endpoint_created
    ON webhook_deliveries (endpoint_id, created_at, id);

-- Serves: the removal of old ones (WHERE created_at < ? ORDER BY created_at, id LIMIT ?). The
-- index ends with `id` by itself.
CREATE INDEX webhook_deliveries_created ON webhook_deliveries (created_at);

-- The log of reads and changes: one row for each use of an order. Rows are never changed. No foreign keys:
-- an order that was asked for may not exist, and a row costs its read as little as it can.
CREATE TABLE accesses (
    -- When the number was given.
    at INTEGER NOT NULL,
    -- The start of an instance, or the command, that gave it.
    run INTEGER NOT NULL,
    -- The numbers of a run leave none out. Its instants increase with them.
    number INTEGER NOT NULL,
    -- A name; crates/domain/src/access.rs lists them. A version of the program leaves out those that it does
    -- not know.
    kind TEXT NOT NULL,
    -- NULL: a list, or no identifier.
    order_id INTEGER,
    -- How many orders a list had.
    orders INTEGER,
    -- The position of the document.
    position INTEGER,
    -- A client, or minus the number of a signing service. NULL: an operator.
    party INTEGER,
    api_key_id INTEGER,
    -- The command of an operator, and the user of the operating system that ran it.
    command TEXT,
    os_user TEXT,
    -- The IP address of the peer. NULL: an operator.
    address TEXT,
    request_id TEXT,
    -- ok, not_modified, unfinished, or the code of the problem that was answered.
    outcome TEXT NOT NULL,
    -- Begins with the instant: new rows come last, whatever their runs. Serves: pages (WHERE at <= ? ORDER BY
    -- at DESC, run DESC, number DESC LIMIT ?), the oldest (WHERE at < ? ORDER BY at, run, number LIMIT ?), and
    -- the busy keys of an hour (WHERE at >= ?).
    PRIMARY KEY (at, run, number)
) STRICT, WITHOUT ROWID;

-- Serves: pages of an order (WHERE order_id = ? AND at <= ? ORDER BY at DESC, run DESC, number DESC LIMIT ?).
CREATE INDEX accesses_order ON accesses (order_id, at, run, number) WHERE order_id IS NOT NULL;

-- The runs that number accesses. A row comes with the first batch of accesses, or at the end of the run.
CREATE TABLE access_runs (
    -- Serves: begin, end and the first number of a run (ON CONFLICT (id)). It is random.
    id INTEGER PRIMARY KEY,
    -- Smaller numbers were removed because they were old.
    first_number INTEGER NOT NULL DEFAULT 1,
    -- When it ended in an orderly way, and its last number then.
    ended_at INTEGER,
    last_number INTEGER
) STRICT;

-- Every field of an order as a typed column, for users of SQL. Those of an erased order are NULL.
CREATE VIEW order_details AS
SELECT
    id AS order_id, client_id, api_key_id, signing_service_id,
    nullif(file_number, '') AS file_number, status AS order_status, notary_id,
    CASE WHEN json_valid(notary) THEN CAST(json_extract(notary, '$.name') AS TEXT) END AS notary_name,
    CASE WHEN json_valid(notary) THEN CAST(json_extract(notary, '$.phone') AS TEXT) END AS notary_phone,
    CASE WHEN json_valid(notary) THEN CAST(json_extract(notary, '$.email') AS TEXT) END AS notary_email,
    is_test,
    CAST(json_extract(details, '$.email') AS TEXT) AS order_contact_email,
    CAST(json_extract(details, '$.company') AS INTEGER) AS client_company_id,
    CAST(json_extract(details, '$.observer') AS TEXT) AS observer_email,
    CAST(json_extract(details, '$.in_house.name') AS TEXT) AS in_house_contact_name,
    CAST(json_extract(details, '$.in_house.phone') AS TEXT) AS in_house_contact_phone,
    CAST(json_extract(details, '$.in_house.email') AS TEXT) AS in_house_contact_email,
    CAST(json_extract(details, '$.in_house2.name') AS TEXT) AS in_house_contact2_name,
    CAST(json_extract(details, '$.in_house2.phone') AS TEXT) AS in_house_contact2_phone,
    CAST(json_extract(details, '$.in_house2.email') AS TEXT) AS in_house_contact2_email,
    CAST(json_extract(details, '$.date') AS TEXT) AS signing_date,
    CAST(json_extract(details, '$.zone') AS TEXT) AS time_zone_id,
    CASE WHEN json_extract(details, '$.at') IS NOT NULL THEN 'at'
        WHEN json_extract(details, '$.from') IS NOT NULL THEN 'between'
        WHEN erased_at IS NULL THEN 'anytime' END AS signing_time_type,
    CAST(coalesce(json_extract(details, '$.at'), json_extract(details, '$.from')) AS TEXT) AS start_time,
    datetime(starts_at / 1000000, 'unixepoch') AS starts_at,
    CAST(json_extract(details, '$.to') AS TEXT) AS end_time,
    datetime(ends_at / 1000000, 'unixepoch') AS ends_at,
    CAST(json_extract(details, '$.property.address') AS TEXT) AS property_address,
    CAST(json_extract(details, '$.property.city') AS TEXT) AS property_city,
    CAST(json_extract(details, '$.property.state') AS TEXT) AS property_state,
    CAST(json_extract(details, '$.property.zip') AS TEXT) AS property_zipcode,
    coalesce(json_extract(details, '$.same'), CASE WHEN erased_at IS NULL THEN 1 END)
        AS is_property_address_same,
    CAST(CASE WHEN json_extract(details, '$.location') IS NOT NULL
        THEN json_extract(details, '$.location.address') ELSE json_extract(details, '$.property.address') END AS TEXT)
        AS signing_address,
    CAST(CASE WHEN json_extract(details, '$.location') IS NOT NULL
        THEN json_extract(details, '$.location.city') ELSE json_extract(details, '$.property.city') END AS TEXT)
        AS signing_city,
    CAST(CASE WHEN json_extract(details, '$.location') IS NOT NULL
        THEN json_extract(details, '$.location.state') ELSE json_extract(details, '$.property.state') END AS TEXT)
        AS signing_state,
    CAST(CASE WHEN json_extract(details, '$.location') IS NOT NULL
        THEN json_extract(details, '$.location.zip') ELSE json_extract(details, '$.property.zip') END AS TEXT)
        AS signing_zipcode,
    CAST(json_extract(details, '$.type') AS TEXT) AS signing_type,
    CAST(json_extract(details, '$.signer.name') AS TEXT) AS signer_name,
    CAST(json_extract(details, '$.signer.phone') AS TEXT) AS signer_phone,
    CAST(json_extract(details, '$.signer.email') AS TEXT) AS signer_email,
    CAST(json_extract(details, '$.signer.spouse') AS TEXT) AS spouse_name,
    CAST(json_extract(details, '$.co_signer.name') AS TEXT) AS co_signer_name,
    CAST(json_extract(details, '$.co_signer.spouse') AS TEXT) AS co_signer_spouse_name,
    CAST(json_extract(details, '$.co_signer.phone') AS TEXT) AS co_signer_phone,
    CAST(json_extract(details, '$.co_signer.email') AS TEXT) AS co_signer_email,
    CAST(coalesce(json_extract(details, '$.lang'), CASE WHEN erased_at IS NULL THEN 'en' END) AS TEXT)
        AS language,
    CAST(json_extract(details, '$.esigning_platform') AS TEXT) AS esigning_platform,
    coalesce(json_extract(details, '$.scanbacks'), CASE WHEN erased_at IS NULL THEN 0 END)
        AS scanbacks_required,
    coalesce(json_extract(details, '$.ron'), CASE WHEN erased_at IS NULL THEN 0 END)
        AS ron_signing,
    CAST(json_extract(details, '$.document_delivery') AS TEXT) AS document_delivery,
    CAST(json_extract(details, '$.lender') AS TEXT) AS lender,
    CAST(json_extract(details, '$.special_instructions') AS TEXT) AS special_instructions,
    CAST(json_extract(details, '$.loan_officer.name') AS TEXT) AS loan_officer_name,
    CAST(json_extract(details, '$.loan_officer.phone') AS TEXT) AS loan_officer_phone,
    CAST(json_extract(details, '$.loan_officer.email') AS TEXT) AS loan_officer_email,
    CAST(json_extract(details, '$.invoice.to.company') AS TEXT) AS invoice_company_name,
    CAST(json_extract(details, '$.invoice.to.address') AS TEXT) AS invoice_address,
    CAST(json_extract(details, '$.invoice.to.city') AS TEXT) AS invoice_city,
    CAST(json_extract(details, '$.invoice.to.state') AS TEXT) AS invoice_state,
    CAST(json_extract(details, '$.invoice.to.zip') AS TEXT) AS invoice_zipcode,
    CAST(json_extract(details, '$.invoice.name') AS TEXT) AS invoice_name,
    CAST(json_extract(details, '$.invoice.phone') AS TEXT) AS invoice_phone,
    CAST(json_extract(details, '$.invoice.email') AS TEXT) AS invoice_email,
    (json_extract(details, '$.invoice.fee_cents')) / 100.0 AS invoice_fee,
    (json_extract(details, '$.invoice.notary_pay_cents')) / 100.0 AS notary_pay,
    CAST(json_extract(details, '$.user') AS INTEGER) AS requested_by_user_id,
    CAST(json_extract(details, '$.role') AS TEXT) AS requested_by_user_role,
    CAST(json_extract(details, '$.user_service') AS INTEGER) AS requested_by_signing_service_id,
    datetime(created_at / 1000000, 'unixepoch') AS created_at,
    datetime(updated_at / 1000000, 'unixepoch') AS updated_at,
    datetime(erased_at / 1000000, 'unixepoch') AS erased_at
FROM orders;
