-- Finds the waiting mails of an order, which further news join. An erasure finds all of them.
CREATE INDEX deliveries_order ON deliveries (order_id);

-- The version of the order that the last mail with all fields (new, changed, reinstated) to the recipient had:
-- changes up to it are told. NULL without such a mail.
ALTER TABLE order_recipients ADD COLUMN changes_told_at INTEGER;

-- The `SEQUENCE` of calendar files: `changes` after the last change that moved, cancelled or reinstated the
-- appointment. Mails of version 0.1.0 have `changes` itself, so its orders go on from there.
ALTER TABLE orders ADD COLUMN calendar_sequence INTEGER DEFAULT 0;
UPDATE orders SET calendar_sequence = changes WHERE changes > 0;

-- `changes` grows by one, whether this trigger runs before orders_record_change or after it.
CREATE TRIGGER orders_renumber_calendar AFTER UPDATE OF status ON orders
WHEN (NEW.status = 'CANCELLED') <> (OLD.status = 'CANCELLED')
BEGIN
    UPDATE orders SET calendar_sequence = OLD.changes + 1 WHERE id = NEW.id;
END;
