-- The order that a refused request of a key asked for, if the key's party is no side of it, or if there is none.
-- `order_id` is NULL then, so that such a row takes the sides of the order no time. Version 0.1.0 leaves this
-- NULL, and has the order in `order_id`.
ALTER TABLE accesses ADD COLUMN asked_order_id INTEGER;

-- Serves: pages of what was asked about an order, for operators (WHERE asked_order_id = ? AND at <= ? ORDER BY at
-- DESC, run DESC, number DESC LIMIT ?).
CREATE INDEX accesses_asked_order ON accesses (asked_order_id, at, run, number)
WHERE asked_order_id IS NOT NULL;

-- The last sign of life of the run. NULL: a run of version 0.1.0.
ALTER TABLE access_runs ADD COLUMN seen_at INTEGER;

-- Runs of version 0.1.0 give no signs. Those that were killed leave when their accesses have left.
UPDATE access_runs SET seen_at = unixepoch() * 1000000;
