-- People who sign in. Never deleted: the history names them.
CREATE TABLE people (
    id INTEGER PRIMARY KEY,
    -- The client, or minus the number of the signing service.
    party INTEGER NOT NULL,
    -- "former user" when an operator has erased the person.
    name TEXT NOT NULL,
    email TEXT,
    -- admin or member.
    role TEXT NOT NULL,
    -- Random: authenticators keep it.
    handle BLOB NOT NULL,
    invited_at INTEGER NOT NULL,
    -- NULL: never accepted an invitation.
    accepted_at INTEGER,
    disabled_at INTEGER,
    erased_at INTEGER,
    last_seen_at INTEGER
) STRICT;

-- Serves: the people of a side (WHERE party = ? ORDER BY id), and its admins.
CREATE INDEX people_party ON people (party, id);

-- Links that are shown once and accepted once.
CREATE TABLE invitations (
    -- SHA-256 of the token of the link.
    token BLOB PRIMARY KEY NOT NULL,
    person_id INTEGER NOT NULL REFERENCES people (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at INTEGER,
    withdrawn_at INTEGER,
    -- The admin who has issued it. NULL: an operator.
    issued_by INTEGER
) STRICT;

-- Serves: the invitations of a person (WHERE person_id = ?).
CREATE INDEX invitations_person ON invitations (person_id);

-- Serves: the invitations of an admin who leaves (WHERE issued_by = ?).
CREATE INDEX invitations_issuer ON invitations (issued_by);

-- WebAuthn credentials, in the encodings of the library.
CREATE TABLE passkeys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    person_id INTEGER NOT NULL REFERENCES people (id),
    -- A credential belongs to one person.
    credential BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    -- The public key.
    fixed BLOB NOT NULL,
    -- The counter, and what else a sign-in changes.
    changing BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;

-- Serves: the passkeys of a person (WHERE person_id = ? ORDER BY id).
CREATE INDEX passkeys_person ON passkeys (person_id, id);

-- Logins of companies. An identity belongs to one person.
CREATE TABLE identities (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    person_id INTEGER NOT NULL REFERENCES people (id),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (issuer, subject)
) STRICT;

-- Serves: the identities of a person (WHERE person_id = ?).
CREATE INDEX identities_person ON identities (person_id);

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- SHA-256 of the token of the cookie.
    token BLOB NOT NULL UNIQUE,
    -- One of the two. A session of a key knows no person.
    person_id INTEGER REFERENCES people (id),
    api_key_id INTEGER REFERENCES api_keys (id),
    -- key, passkey, or login: and the name of the provider.
    way TEXT NOT NULL,
    is_test INTEGER NOT NULL,
    signed_in_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;

-- Serves: the sessions of a person (WHERE person_id = ?).
CREATE INDEX sessions_person ON sessions (person_id);

-- Serves: the removal of old sessions (WHERE expires_at < ?).
CREATE INDEX sessions_expiry ON sessions (expires_at);

-- Sign-ins between their begin and their end. Short-lived, each taken once.
CREATE TABLE ceremonies (
    -- SHA-256 of the token of the cookie.
    token BLOB PRIMARY KEY NOT NULL,
    -- sign_in, accept, add_passkey or confirm.
    purpose TEXT NOT NULL,
    -- Of accept: the token of the invitation, as a hash.
    invitation BLOB,
    -- Of add_passkey and confirm.
    person_id INTEGER,
    -- Of confirm.
    session_id INTEGER,
    -- passkey or login.
    way TEXT NOT NULL,
    -- The origin of a passkey, or the path where a login goes on.
    place TEXT NOT NULL,
    -- The state of the library, or the random values of a login as JSON.
    state BLOB NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

-- Serves: the removal of the oldest (ORDER BY expires_at LIMIT ?).
CREATE INDEX ceremonies_expiry ON ceremonies (expires_at);

-- The person who created the order. NULL: a key did, the one of `api_key_id`.
ALTER TABLE orders ADD COLUMN person_id INTEGER;

-- Beside `change_actor`, for the trigger orders_record_change: a key, or minus the number of a person.
ALTER TABLE orders ADD COLUMN change_doer INTEGER;

-- The key, or minus the number of the person. NULL: an operator, another system, or version 0.1.0. Of a document that
-- came with its order: whoever created that.
ALTER TABLE order_changes ADD COLUMN doer INTEGER;
ALTER TABLE order_notes ADD COLUMN doer INTEGER;
ALTER TABLE documents ADD COLUMN doer INTEGER;

-- The person of the access; `party` is their side. Version 0.1.0 reads such a row as one of an operator.
ALTER TABLE accesses ADD COLUMN person_id INTEGER;

-- The person or the key that was changed or signed in: `kind` says which.
ALTER TABLE accesses ADD COLUMN subject_id INTEGER;

-- As before, and it moves `change_doer` to the history.
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
                '"', '\"') || '"}',
        '{"notary":{"notary_id":' || coalesce(notary_id, 'null') || ',"notary":'
            || coalesce(notary, 'null') || '}}'
    FROM orders
    WHERE id = NEW.id AND (status IS NOT OLD.status OR notary_id IS NOT OLD.notary_id
        OR notary IS NOT OLD.notary);
END;
