-- As before, and the event says whether the notary is another one: the mail of a status that is set back does not tell
-- of a notary that was assigned.
CREATE OR REPLACE FUNCTION record_order_change() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER AS $$
DECLARE
    actor text := coalesce(NEW.change_actor, 'database');
BEGIN
    IF NEW.change_actor IS NULL THEN
        NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at + interval '1 microsecond');
        IF NEW.notary_id IS DISTINCT FROM OLD.notary_id
            AND NEW.notary IS NOT DISTINCT FROM OLD.notary THEN
            NEW.notary := NULL;
        END IF;
    END IF;
    INSERT INTO order_changes (order_id, at, kind, status, notary_id, actor, reason, doer)
    VALUES (NEW.id, NEW.updated_at, 'status', NEW.status, NEW.notary_id, actor, NEW.change_reason,
        NEW.change_doer);
    NEW.changes := OLD.changes + 1;
    INSERT INTO events (order_id, created_at, type, change, content) VALUES (
        NEW.id, NEW.updated_at,
        CASE WHEN NEW.status = 'CANCELLED' AND OLD.status <> 'CANCELLED'
            THEN 'order.cancelled' ELSE 'order.updated' END,
        json_build_object('order_status', NEW.status, 'previous_status', OLD.status,
            'notary_id', NEW.notary_id, 'actor', actor, 'notary_changed',
            NEW.notary_id IS DISTINCT FROM OLD.notary_id OR NEW.notary IS DISTINCT FROM OLD.notary),
        json_build_object('notary',
            json_build_object('notary_id', NEW.notary_id, 'notary', NEW.notary::json))
    );
    NEW.change_actor := NULL;
    NEW.change_reason := NULL;
    NEW.change_doer := NULL;
    RETURN NEW;
END
$$;

-- A replaced function loses its search path.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION record_order_change() SET search_path = %I, pg_temp',
        current_schema());
END
$$;
