-- The epochs of the feed. A database that was restored or copied gives identifiers and numbers again, so its cursors
-- must not be taken for those that the other one gave: it begins an epoch. The first one is 0, and its cursors do not
-- name it. Rows are never removed.
CREATE TABLE order_feed_epochs (
    -- Milliseconds since 1970 at its begin, or more: of two copies, each has its own.
    epoch bigint PRIMARY KEY,
    -- What identifies the database, as in `installation`.
    database text NOT NULL,
    -- The last order and the last number before it. Cursors of earlier epochs are valid up to here.
    created bigint NOT NULL,
    changed bigint NOT NULL
);

INSERT INTO order_feed_epochs (epoch, database, created, changed) SELECT 0, database, 0, 0 FROM installation;

-- Another system may not create an order under an identifier that was drawn before its INSERT: readers of the feed and
-- of lists may be behind it already.
CREATE OR REPLACE FUNCTION announce_orders() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    last bigint := coalesce(pg_sequence_last_value('orders_id_seq'), 0);
BEGIN
    PERFORM pg_advisory_xact_lock_shared(28530, TG_RELID::integer);
    PERFORM pg_advisory_xact_lock_shared((28530::bigint << 48) # last);
    PERFORM set_config('notary_orders.last_order', last::text, true);
    RETURN NULL;
END
$$;

CREATE FUNCTION refuse_drawn_identifier() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation',
        MESSAGE = 'the identifier of an order was drawn before its INSERT',
        HINT = 'Leave the column id out. INSERT ... RETURNING id returns it.';
END
$$;

-- As for record_order_change.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION announce_orders() SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION refuse_drawn_identifier() SET search_path = %I, pg_temp', current_schema());
END
$$;

CREATE TRIGGER orders_refuse_drawn BEFORE INSERT ON orders FOR EACH ROW
    WHEN (NEW.id <= nullif(current_setting('notary_orders.last_order', true), '')::bigint)
    EXECUTE FUNCTION refuse_drawn_identifier();
