-- An erasure of the order, also by version 0.1.0, leaves none of its old values.
CREATE FUNCTION erase_old_values() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE order_changes SET before = NULL WHERE order_id = NEW.id AND before IS NOT NULL;
    RETURN NULL;
END
$$;

-- As for record_order_change.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION erase_old_values() SET search_path = %I, pg_temp', current_schema());
END
$$;

-- Before the column: a change of an order locks these tables in this order.
CREATE TRIGGER orders_erase_old_values AFTER UPDATE OF erased_at ON orders
    FOR EACH ROW WHEN (OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL) EXECUTE FUNCTION erase_old_values();

-- A JSON object of what changed fields were, by JSON Pointer. Values that are too long are left out. NULL for other
-- kinds than changed, for changes by version 0.1.0, and when the order is erased.
ALTER TABLE order_changes ADD COLUMN before text;
