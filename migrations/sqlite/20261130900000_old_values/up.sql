-- A JSON object of what changed fields were, by JSON Pointer. Values that are too long are left out. NULL for other
-- kinds than changed, for changes by version 0.1.0, and when the order is erased.
ALTER TABLE order_changes ADD COLUMN before TEXT;

-- An erasure of the order, also by version 0.1.0, leaves none of its old values.
CREATE TRIGGER orders_erase_old_values AFTER UPDATE OF erased_at ON orders
WHEN OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL
BEGIN
    UPDATE order_changes SET before = NULL WHERE order_id = NEW.id AND before IS NOT NULL;
END;
