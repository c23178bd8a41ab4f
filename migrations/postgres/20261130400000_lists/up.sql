-- When an any-time appointment begins: 8:00 in its zone. NULL: it begins at `starts_at`, or version 0.1.0 wrote the
-- order, and a worker has not come to it yet.
ALTER TABLE orders ADD COLUMN day_starts_at timestamptz;

-- What a search of the notary looks at, folded: crates/domain/src/order/search.rs. The name is the first line.
ALTER TABLE orders ADD COLUMN notary_text text COLLATE "C";

-- The filters of the other side and of the notary, too.
DROP INDEX orders_client;
CREATE INDEX orders_client
    ON orders (client_id, is_test, id, status, signing_date, created_at, updated_at, signing_service_id,
        notary_text)
    WHERE erased_at IS NULL;
DROP INDEX orders_service;
CREATE INDEX orders_service
    ON orders (signing_service_id, is_test, id, status, signing_date, created_at, updated_at, client_id,
        notary_text)
    WHERE erased_at IS NULL;

-- Each serves: pages of an owner in the order of appointments (WHERE client_id = ? AND is_test = ? AND erased_at IS
-- NULL AND coalesce(…) > ? ORDER BY coalesce(…), id). Short, because each new order is in both; the filters read
-- rows.
CREATE INDEX orders_client_appointment
    ON orders (client_id, is_test, coalesce(starts_at, day_starts_at, created_at), id)
    WHERE erased_at IS NULL;
CREATE INDEX orders_service_appointment
    ON orders (signing_service_id, is_test, coalesce(starts_at, day_starts_at, created_at), id)
    WHERE erased_at IS NULL;

-- The texts of this version begin with a line end. Those of version 0.1.0 lack most of what a search looks at, so a
-- worker writes them anew. A new order is not in this index.
-- Serves: the newest of these orders (WHERE search_text > ' ' ORDER BY id DESC LIMIT ?).
CREATE INDEX orders_unfolded ON orders (id) WHERE search_text > ' ';

-- Has the worker fold the name of a notary that version 0.1.0 or another system has written.
CREATE FUNCTION unfold_notary() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.notary IS NULL THEN
        NEW.notary_text := NULL;
    ELSE
        NEW.search_text := ltrim(NEW.search_text, chr(10));
    END IF;
    RETURN NEW;
END
$$;

-- Triggers run in the order of their names: this one after orders_record_change, which may empty the notary.
CREATE TRIGGER orders_unfold_notary BEFORE UPDATE OF notary_id, notary ON orders FOR EACH ROW
    WHEN (OLD.notary IS DISTINCT FROM NEW.notary
        AND OLD.notary_text IS NOT DISTINCT FROM NEW.notary_text)
    EXECUTE FUNCTION unfold_notary();
