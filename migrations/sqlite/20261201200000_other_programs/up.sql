-- An erasure of the order by version 0.1.0, which does not know this column, does not leave its time.
CREATE TRIGGER orders_erase_day_start AFTER UPDATE OF erased_at ON orders
WHEN OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL
BEGIN
    UPDATE orders SET day_starts_at = NULL WHERE id = NEW.id AND day_starts_at IS NOT NULL;
END;
