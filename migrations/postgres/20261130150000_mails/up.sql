-- Finds the waiting mails of an order, which further news join. An erasure finds all of them.
CREATE INDEX deliveries_order ON deliveries (order_id);

-- The version of the order that the last mail with all fields (new, changed, reinstated) to the recipient had:
-- changes up to it are told. NULL without such a mail.
ALTER TABLE order_recipients ADD COLUMN changes_told_at timestamptz;

-- The `SEQUENCE` of calendar files: `changes` after the last change that moved, cancelled or reinstated the
-- appointment. NULL of orders of version 0.1.0, whose mails have `changes` itself.
ALTER TABLE orders ADD COLUMN calendar_sequence bigint;
ALTER TABLE orders ALTER COLUMN calendar_sequence SET DEFAULT 0;

CREATE FUNCTION renumber_calendar() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.calendar_sequence := OLD.changes + 1;
    RETURN NEW;
END
$$;

-- Runs after orders_name_status, which gives the status its usual form: triggers run in the order of their names.
CREATE TRIGGER orders_renumber_calendar BEFORE UPDATE OF status ON orders FOR EACH ROW
    WHEN ((NEW.status = 'CANCELLED') <> (OLD.status = 'CANCELLED'))
    EXECUTE FUNCTION renumber_calendar();
