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
    type TEXT NOT NULL
) STRICT;
