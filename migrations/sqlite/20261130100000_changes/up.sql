-- The changes of orders, for `GET /api/order/changes`: an entry for each, whoever makes it. The creation has
-- none: orders are found by their identifiers. Triggers write the entries in the transaction of the change. An
-- erasure removes the others of its order. Holds no data of people.
CREATE TABLE order_feed (
    -- AUTOINCREMENT: clients page through the feed by it.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The place in the feed: the identifier, because identifiers are committed in their order.
    number INTEGER,
    order_id INTEGER NOT NULL,
    -- These three are those of the order, and never change.
    client_id INTEGER NOT NULL,
    signing_service_id INTEGER NOT NULL,
    is_test INTEGER NOT NULL,
    at INTEGER NOT NULL,
    -- A kind of order_changes, documents_added, note_added or erased.
    kind TEXT NOT NULL,
    -- The status after the change.
    status TEXT NOT NULL
) STRICT;

-- The changes before this migration, as the oldest. Instants of one order increase.
INSERT INTO order_feed (id, number, order_id, client_id, signing_service_id, is_test, at, kind, status)
SELECT row_number() OVER (ORDER BY at, source, source_id), row_number() OVER (ORDER BY at, source, source_id),
    order_id, client_id, signing_service_id, is_test, at, kind, coalesce(
        former.status,
        (SELECT status FROM order_changes AS change WHERE change.order_id = former.order_id
            AND change.at <= former.at ORDER BY change.id DESC LIMIT 1),
        'NEW')
FROM (
    SELECT 1 AS source, id AS source_id, order_id, at, kind, status FROM order_changes
    UNION ALL
    SELECT 2, min(position), order_id, added_at, 'documents_added', NULL FROM documents AS added
    WHERE added_at IS NOT NULL AND NOT signed
        AND NOT EXISTS (SELECT 1 FROM documents AS replaced WHERE replaced.order_id = added.order_id
            AND NOT replaced.signed AND replaced.replaced_by = added.position)
    GROUP BY order_id, added_at
    UNION ALL
    SELECT 3, id, order_id, at, 'note_added', NULL FROM order_notes
    UNION ALL
    SELECT 4, id, id, erased_at, 'erased', status FROM orders WHERE erased_at IS NOT NULL
) AS former
JOIN (SELECT id, client_id, signing_service_id, is_test, erased_at FROM orders) AS own ON own.id = order_id
WHERE erased_at IS NULL OR kind = 'erased';

-- Each serves: pages of an owner (WHERE client_id = ? AND is_test = ? AND number > ? ORDER BY number).
CREATE INDEX order_feed_client ON order_feed (client_id, is_test, number);
CREATE INDEX order_feed_service ON order_feed (signing_service_id, is_test, number);

-- Serves: the erasure of an order (WHERE order_id = ?).
CREATE INDEX order_feed_order ON order_feed (order_id);

-- Serves: the removal of old erasures (WHERE kind = 'erased' AND at < ? ORDER BY at LIMIT ?).
CREATE INDEX order_feed_erased ON order_feed (at) WHERE kind = 'erased';

CREATE TRIGGER order_feed_number AFTER INSERT ON order_feed WHEN NEW.number IS NULL
BEGIN
    UPDATE order_feed SET number = id WHERE id = NEW.id;
END;

CREATE TRIGGER order_changes_feed AFTER INSERT ON order_changes
BEGIN
    INSERT INTO order_feed (order_id, client_id, signing_service_id, is_test, at, kind, status)
    SELECT id, client_id, signing_service_id, is_test, NEW.at, NEW.kind, NEW.status
    FROM orders WHERE id = NEW.order_id;
END;

CREATE TRIGGER order_notes_feed AFTER INSERT ON order_notes
BEGIN
    INSERT INTO order_feed (order_id, client_id, signing_service_id, is_test, at, kind, status)
    SELECT id, client_id, signing_service_id, is_test, NEW.at, 'note_added', status
    FROM orders WHERE id = NEW.order_id;
END;

-- An addition of documents has no entry in order_changes, but one event for all of them.
CREATE TRIGGER events_feed AFTER INSERT ON events WHEN NEW.type = 'order.documents_added'
BEGIN
    INSERT INTO order_feed (order_id, client_id, signing_service_id, is_test, at, kind, status)
    SELECT id, client_id, signing_service_id, is_test, NEW.created_at, 'documents_added', status
    FROM orders WHERE id = NEW.order_id;
END;

CREATE TRIGGER orders_feed_erasure AFTER UPDATE OF erased_at ON orders
WHEN OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL
BEGIN
    DELETE FROM order_feed WHERE order_id = NEW.id;
    INSERT INTO order_feed (order_id, client_id, signing_service_id, is_test, at, kind, status)
    VALUES (NEW.id, NEW.client_id, NEW.signing_service_id, NEW.is_test, NEW.erased_at, 'erased', NEW.status);
END;
