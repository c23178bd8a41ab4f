-- Names what an operator can cause, too: sessions that draw ahead, and a restore of rows alone. An identifier ahead of
-- the sequence would take readers of the feed with it, past all orders that come after.
CREATE OR REPLACE FUNCTION refuse_drawn_identifier() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ahead bigint := (SELECT seqcache FROM pg_sequence WHERE seqrelid = to_regclass('orders_id_seq'));
BEGIN
    IF ahead > 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation',
            MESSAGE = format('the sequence orders_id_seq has CACHE %s, '
                'so sessions draw identifiers of orders before their INSERT', ahead),
            HINT = 'Run ALTER SEQUENCE orders_id_seq CACHE 1.';
    END IF;
    IF NEW.id > coalesce(pg_sequence_last_value('orders_id_seq'), 0) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation',
            MESSAGE = format('the identifier %s of an order is ahead of the sequence orders_id_seq', NEW.id),
            HINT = 'A program leaves the column id out: INSERT ... RETURNING id returns it. '
                'A restore of rows alone needs pg_restore --data-only --disable-triggers.';
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation',
        MESSAGE = format('the identifier %s of an order is not above %s, which was drawn before its INSERT',
            NEW.id, current_setting('notary_orders.last_order')),
        HINT = 'A program leaves the column id out: INSERT ... RETURNING id returns it. '
            'A restore of rows alone needs pg_restore --data-only --disable-triggers.';
END
$$;

CREATE FUNCTION refuse_new_identifier() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'an order keeps its identifier';
END
$$;

-- An erasure of the order by version 0.1.0, which does not know this column, does not leave its time.
CREATE FUNCTION erase_day_start() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.day_starts_at := NULL;
    RETURN NEW;
END
$$;

-- As for record_order_change. The new text of a function has lost its path.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION refuse_drawn_identifier() SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION refuse_new_identifier() SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION erase_day_start() SET search_path = %I, pg_temp', current_schema());
END
$$;

CREATE TRIGGER orders_erase_day_start BEFORE UPDATE OF erased_at ON orders
    FOR EACH ROW WHEN (OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL) EXECUTE FUNCTION erase_day_start();

-- The condition of the trigger reads it as the user of the INSERT, who needs no right on the sequence to draw from it.
GRANT SELECT ON SEQUENCE orders_id_seq TO PUBLIC;

DROP TRIGGER orders_refuse_drawn ON orders;

CREATE TRIGGER orders_refuse_drawn BEFORE INSERT ON orders FOR EACH ROW
    WHEN (NEW.id <= nullif(current_setting('notary_orders.last_order', true), '')::bigint
        OR NEW.id > coalesce(pg_sequence_last_value('orders_id_seq'), 0))
    EXECUTE FUNCTION refuse_drawn_identifier();

CREATE TRIGGER orders_keep_identifier BEFORE UPDATE OF id ON orders FOR EACH ROW
    WHEN (NEW.id <> OLD.id) EXECUTE FUNCTION refuse_new_identifier();
