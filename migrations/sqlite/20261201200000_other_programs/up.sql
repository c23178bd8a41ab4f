-- An erasure of the order by version 0.1.0, which does not know this column, does not leave its time.
CREATE TRIGGER orders_erase_day_start AFTER UPDATE OF erased_at ON orders
WHEN OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL
BEGIN
    UPDATE orders SET day_starts_at = NULL WHERE id = NEW.id AND day_starts_at IS NOT NULL;
END;

-- Another system may not create an order before others: readers of the feed and of lists may be behind it already.
CREATE TRIGGER orders_refuse_past_identifier AFTER INSERT ON orders
WHEN NEW.id < 1 OR NEW.id < (SELECT max(id) FROM orders)
BEGIN
    SELECT RAISE(ABORT, 'the identifier of an order must be above those of all others: leave the column id out');
END;
