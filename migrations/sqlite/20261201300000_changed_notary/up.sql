-- As before, and the event says whether the notary is another one: the mail of a status that is set back does not tell
-- of a notary that was assigned.
DROP TRIGGER orders_record_change;

CREATE TRIGGER orders_record_change AFTER UPDATE OF status, notary_id, notary ON orders
WHEN (OLD.status IS NOT NEW.status OR OLD.notary_id IS NOT NEW.notary_id
        OR OLD.notary IS NOT NEW.notary)
    AND OLD.erased_at IS NEW.erased_at AND NEW.change_actor IS NOT 'trigger'
    AND OLD.status = coalesce(
        (SELECT status FROM usual_statuses WHERE letters = upper(
            replace(replace(replace(replace(OLD.status, ' ', ''), char(160), ''), '-', ''), '_', ''))
        ),
        OLD.status)
BEGIN
    UPDATE orders SET change_actor = 'trigger',
        status = CASE WHEN NEW.status IS OLD.status THEN NEW.status ELSE (
            SELECT coalesce((SELECT status FROM usual_statuses WHERE letters = upper(
                replace(replace(replace(replace(written, ' ', ''), char(160), ''), '-', ''), '_', ''))
            ), written)
            FROM (SELECT CASE WHEN NEW.change_actor IS NULL THEN trim(NEW.status, blanks)
                ELSE NEW.status END AS written FROM line_characters)
        ) END,
        notary = CASE WHEN NEW.change_actor IS NULL AND NEW.notary_id IS NOT OLD.notary_id
                AND NEW.notary IS OLD.notary
            THEN NULL
            WHEN NEW.change_actor IS NULL AND NEW.notary IS NOT NULL AND NEW.notary IS NOT OLD.notary
            -- As the service writes it. Only a name may have characters that JSON escapes.
            THEN '{"name":"' || (
                    SELECT replace(replace(trim(value, blanks), '\', '\\'), '"', '\"')
                    FROM json_each(NEW.notary), line_characters WHERE key = 'name'
                ) || '"' || coalesce((
                    SELECT ',"phone":"' || trim(value, blanks) || '"'
                    FROM json_each(NEW.notary), line_characters
                    WHERE key = 'phone' AND trim(value, blanks) <> ''
                ), '') || coalesce((
                    SELECT ',"email":"' || trim(value, blanks) || '"'
                    FROM json_each(NEW.notary), line_characters
                    WHERE key = 'email' AND trim(value, blanks) <> ''
                ), '') || '}'
            ELSE NEW.notary END
    WHERE id = NEW.id;
    UPDATE orders SET change_actor = NULL, change_reason = NULL, change_doer = NULL,
        changes = changes + (status IS NOT OLD.status OR notary_id IS NOT OLD.notary_id
            OR notary IS NOT OLD.notary),
        updated_at = CASE
            WHEN status IS OLD.status AND notary_id IS OLD.notary_id AND notary IS OLD.notary
            THEN updated_at
            WHEN NEW.change_actor IS NULL
            THEN max(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000,
                OLD.updated_at + 1)
            ELSE NEW.updated_at END
    WHERE id = NEW.id;
    INSERT INTO order_changes (order_id, at, kind, status, notary_id, actor, reason, doer)
    SELECT id, updated_at, 'status', status, notary_id, coalesce(NEW.change_actor, 'database'),
        NEW.change_reason, NEW.change_doer
    FROM orders
    WHERE id = NEW.id AND (status IS NOT OLD.status OR notary_id IS NOT OLD.notary_id
        OR notary IS NOT OLD.notary);
    INSERT INTO events (order_id, created_at, type, change, content)
    SELECT id, updated_at,
        CASE WHEN status = 'CANCELLED' AND OLD.status <> 'CANCELLED'
            THEN 'order.cancelled' ELSE 'order.updated' END,
        '{"order_status":"' || replace(replace(status, '\', '\\'), '"', '\"')
            || '","previous_status":"' || replace(replace(OLD.status, '\', '\\'), '"', '\"')
            || '","notary_id":' || coalesce(NEW.notary_id, 'null')
            || ',"actor":"' || replace(replace(coalesce(NEW.change_actor, 'database'), '\', '\\'),
                '"', '\"') || '","notary_changed":'
            || iif(notary_id IS NOT OLD.notary_id OR notary IS NOT OLD.notary, 'true', 'false') || '}',
        '{"notary":{"notary_id":' || coalesce(notary_id, 'null') || ',"notary":'
            || coalesce(notary, 'null') || '}}'
    FROM orders
    WHERE id = NEW.id AND (status IS NOT OLD.status OR notary_id IS NOT OLD.notary_id
        OR notary IS NOT OLD.notary);
END;
