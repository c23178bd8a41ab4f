-- A status and a notary that another system writes follow the rules of `PATCH /api/order/{order_id}`:
-- crates/domain/src/order/change_request.rs has them, and crates/app/tests/e2e/databases/other_systems.rs
-- compares both. Blanks around a text are dropped. What a request would lose in the middle is refused. The
-- service checks its own changes, so these triggers leave alone a change that names its actor, a value that
-- stays, and rows of earlier versions.

-- The blanks around a text; the joiners, which are invisible and belong to names; and a pattern of texts with a
-- control character, an end of a line or another invisible character.
CREATE VIEW line_characters (blanks, joiners, forbidden) AS VALUES (
    char(9, 10, 11, 12, 13, 32, 133, 160, 5760, 8192, 8193, 8194, 8195, 8196, 8197, 8198, 8199, 8200,
        8201, 8202, 8232, 8233, 8239, 8287, 12288),
    char(8204, 8205),
    '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || char(173, 847, 1564, 6158, 8203)
        || char(8206) || '-' || char(8207) || char(8232) || '-' || char(8238)
        || char(8288) || '-' || char(8303) || char(65279, 65532)
        || char(917504) || '-' || char(917631) || ']*'
);

-- The positions of the characters of a text, from 1 to 256.
CREATE VIEW text_positions (position) AS
    SELECT sixteens.column1 * 16 + ones.column1
    FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15))
            AS sixteens,
        (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16))
            AS ones
    ORDER BY 1;

CREATE TRIGGER orders_check_status BEFORE UPDATE OF status ON orders
WHEN NEW.change_actor IS NULL AND NEW.status IS NOT OLD.status
BEGIN
    SELECT RAISE(ABORT, 'the status must be one line without invisible characters')
    FROM line_characters
    WHERE trim(NEW.status, blanks) GLOB forbidden OR trim(NEW.status, blanks || joiners) = '';
END;

-- `json_each` works in triggers with `trusted_schema = OFF` in every version of SQLite; the JSON functions do
-- not. It raises an error for a text that is no JSON.
CREATE TRIGGER orders_check_notary BEFORE UPDATE OF notary ON orders
WHEN NEW.change_actor IS NULL AND NEW.notary IS NOT NULL AND NEW.notary IS NOT OLD.notary
BEGIN
    SELECT RAISE(ABORT, 'the notary must have name, phone and email only, each once and as a text')
    WHERE instr(NEW.notary, char(0)) > 0 OR instr(NEW.notary, '\u0000') > 0
        OR EXISTS (SELECT 1 FROM json_each(NEW.notary)
            WHERE key NOT IN ('name', 'phone', 'email')
                OR type <> 'text' AND (type <> 'null' OR key = 'name'))
        OR (SELECT count(*) <> count(DISTINCT key) FROM json_each(NEW.notary));
    -- SQLite stores bytes that are no UTF-8 as they are, so the name is compared with its characters.
    SELECT RAISE(ABORT,
        'the name of the notary must be one line of 1 to 200 characters, without invisible ones')
    WHERE NOT EXISTS (
        SELECT 1 FROM (SELECT trim(value, blanks) AS name, joiners, forbidden
            FROM json_each(NEW.notary), line_characters WHERE key = 'name')
        WHERE trim(name, joiners) <> '' AND length(name) <= 200 AND name NOT GLOB forbidden
            AND name IS (
                SELECT group_concat(char(unicode(substr(name, position, 1))), '')
                FROM text_positions WHERE position <= length(name)
            )
    );
    -- The number ends at an extension, whose names begin with x, e or #.
    SELECT RAISE(ABORT, 'the phone of the notary must be a phone number of 7 to 15 digits')
    FROM (
        SELECT phone, rtrim(substr(phone, 1, ends - 1), ' ,;') AS number,
            CASE WHEN extension GLOB 'extension*' THEN substr(extension, 10)
                WHEN extension GLOB 'ext*' THEN substr(extension, 4)
                WHEN extension GLOB '[x#]*' THEN substr(extension, 2)
                ELSE extension END AS extension
        FROM (
            SELECT phone, ends, CASE WHEN ends <= length(phone) THEN substr(phone, ends) END AS extension
            FROM (
                SELECT phone, coalesce(
                    nullif(instr(replace(replace(phone, 'e', 'x'), '#', 'x'), 'x'), 0),
                    length(phone) + 1) AS ends
                FROM (
                    SELECT lower(trim(value, blanks)) AS phone FROM json_each(NEW.notary), line_characters
                    WHERE key = 'phone' AND type = 'text'
                )
            )
        )
    )
    WHERE phone <> '' AND NOT (
        length(phone) <= 50 AND number NOT GLOB '*[^0-9 ().+/-]*'
        AND length(replace(replace(replace(replace(replace(replace(replace(number, ' ', ''), '(', ''),
            ')', ''), '.', ''), '+', ''), '/', ''), '-', '')) BETWEEN 7 AND 15
        AND instr(substr(ltrim(number, ' ('), 2), '+') = 0
        AND (extension IS NULL OR length(ltrim(extension, '.: ')) BETWEEN 1 AND 8
            AND ltrim(extension, '.: ') NOT GLOB '*[^0-9]*')
    );
    -- A label of a domain has at most 63 characters.
    SELECT RAISE(ABORT, 'the email of the notary must be an e-mail address')
    FROM (
        SELECT email, substr(email, 1, instr(email, '@') - 1) AS user,
            substr(email, instr(email, '@') + 1) AS domain
        FROM (
            SELECT lower(trim(value, blanks)) AS email FROM json_each(NEW.notary), line_characters
            WHERE key = 'email' AND type = 'text'
        )
    )
    WHERE email <> '' AND NOT (
        instr(email, '@') > 0 AND length(email) <= 254 AND length(user) BETWEEN 1 AND 64
        AND user NOT GLOB '*[^a-z0-9.!#$%&''*+/=?^_`{|}~-]*'
        AND '.' || user || '.' NOT GLOB '*..*'
        AND domain NOT GLOB '*[^a-z0-9.-]*'
        AND '.' || domain || '.' NOT GLOB '*..*'
        AND '.' || domain || '.' NOT GLOB '*.-*' AND '.' || domain || '.' NOT GLOB '*-.*'
        AND domain NOT GLOB '*' || replace(hex(zeroblob(32)), '0', '[^.]') || '*'
    );
END;

-- Before, it stored both as they were written.
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
    UPDATE orders SET change_actor = NULL, change_reason = NULL,
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
    INSERT INTO order_changes (order_id, at, kind, status, notary_id, actor, reason)
    SELECT id, updated_at, 'status', status, notary_id, coalesce(NEW.change_actor, 'database'),
        NEW.change_reason
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
                '"', '\"') || '"}',
        '{"notary":{"notary_id":' || coalesce(notary_id, 'null') || ',"notary":'
            || coalesce(notary, 'null') || '}}'
    FROM orders
    WHERE id = NEW.id AND (status IS NOT OLD.status OR notary_id IS NOT OLD.notary_id
        OR notary IS NOT OLD.notary);
END;
