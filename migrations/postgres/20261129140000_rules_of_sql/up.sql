-- A status and a notary that another system writes follow the rules of `PATCH /api/order/{order_id}`:
-- crates/domain/src/order/change_request.rs has them, and crates/app/tests/e2e/databases/other_systems.rs
-- compares both. Blanks around a text are dropped. What a request would lose in the middle is refused. The
-- service checks its own changes, so the triggers leave alone a change that names its actor, a value that
-- stays, and rows of earlier versions. The functions run with the rights and the search path of the other
-- system, so they use no object of this schema.

-- Gives a status its usual form: a text that differs from a usual one only by letter case, blanks, `-` or
-- `_`, and CANCELED, is that status.
CREATE OR REPLACE FUNCTION name_order_status() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    blanks CONSTANT text := E'\t\n\u000b\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006'
        || E'\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000';
    forbidden CONSTANT text := '[\u0001-\u001f\u007f-\u009f\u00ad\u034f\u061c\u180e\u200b\u200e\u200f'
        || '\u2028-\u202e\u2060-\u206f\ufeff\ufffc\U000e0000-\U000e007f]';
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.change_actor IS NULL THEN
        IF NEW.status IS NOT DISTINCT FROM OLD.status THEN
            RETURN NEW;
        END IF;
        NEW.status := btrim(NEW.status, blanks);
        IF NEW.status ~ forbidden OR btrim(NEW.status, E'\u200c\u200d') = '' THEN
            RAISE EXCEPTION 'the status must be one line without invisible characters'
                USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    NEW.status := CASE upper(translate(NEW.status, ' -_' || chr(160), '') COLLATE "C")
        WHEN 'NEW' THEN 'NEW' WHEN 'ASSIGNED' THEN 'ASSIGNED' WHEN 'CONFIRMED' THEN 'CONFIRMED'
        WHEN 'ONHOLD' THEN 'ON_HOLD' WHEN 'SIGNED' THEN 'SIGNED'
        WHEN 'DIDNOTSIGN' THEN 'DID_NOT_SIGN' WHEN 'COMPLETED' THEN 'COMPLETED'
        WHEN 'CANCELLED' THEN 'CANCELLED' WHEN 'CANCELED' THEN 'CANCELLED'
        ELSE NEW.status END;
    RETURN NEW;
END
$$;

-- Refuses a notary that no request could give an order, and writes the others as the service does.
CREATE FUNCTION check_order_notary() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    blanks CONSTANT text := E'\t\n\u000b\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006'
        || E'\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000';
    forbidden CONSTANT text := '[\u0001-\u001f\u007f-\u009f\u00ad\u034f\u061c\u180e\u200b\u200e\u200f'
        || '\u2028-\u202e\u2060-\u206f\ufeff\ufffc\U000e0000-\U000e007f]';
    label CONSTANT text := '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
    members CONSTANT json := NEW.notary::json;
    name text;
    phone text;
    email text;
    digits integer;
BEGIN
    IF EXISTS (SELECT FROM json_each(members) AS member
            WHERE member.key NOT IN ('name', 'phone', 'email')
                OR json_typeof(member.value) <> 'string'
                    AND (json_typeof(member.value) <> 'null' OR member.key = 'name'))
        OR (SELECT count(*) <> count(DISTINCT member.key) FROM json_each(members) AS member) THEN
        RAISE EXCEPTION 'the notary must have name, phone and email only, each once and as a text'
            USING ERRCODE = 'check_violation';
    END IF;
    name := coalesce(btrim(members ->> 'name', blanks), '');
    IF btrim(name, E'\u200c\u200d') = '' OR char_length(name) > 200 OR name ~ forbidden THEN
        RAISE EXCEPTION 'the name of the notary must be one line of 1 to 200 characters, without invisible ones'
            USING ERRCODE = 'check_violation';
    END IF;
    phone := nullif(btrim(members ->> 'phone', blanks), '');
    -- The number ends at an extension, whose names begin with x, e or #.
    digits := char_length(regexp_replace(regexp_replace(phone, '[xXeE#].*$', ''), '[^0-9]', '', 'g'));
    IF digits NOT BETWEEN 7 AND 15 OR char_length(phone) > 50
        OR phone !~ '^[ (]*[+]?[0-9 ().\/-]*[ ,;]*(([eE][xX][tT]([eE][nN][sS][iI][oO][nN])?|[xX]|#)[.: ]*[0-9]{1,8})?$'
    THEN
        RAISE EXCEPTION 'the phone of the notary must be a phone number of 7 to 15 digits'
            USING ERRCODE = 'check_violation';
    END IF;
    email := nullif(btrim(members ->> 'email', blanks), '');
    IF char_length(email) > 254 OR email ~ '^[.]|[.][.@]'
        OR email !~ ('^[A-Za-z0-9.!#$%&''*+/=?^_`{|}~-]{1,64}@' || label || '([.]' || label || ')*$')
    THEN
        RAISE EXCEPTION 'the email of the notary must be an e-mail address'
            USING ERRCODE = 'check_violation';
    END IF;
    NEW.notary := '{"name":' || to_json(name) || coalesce(',"phone":' || to_json(phone), '')
        || coalesce(',"email":' || to_json(email), '') || '}';
    RETURN NEW;
END
$$;

-- Triggers run in the order of their names: this one before orders_record_change.
CREATE TRIGGER orders_check_notary BEFORE UPDATE OF notary ON orders FOR EACH ROW
    WHEN (NEW.change_actor IS NULL AND NEW.notary IS NOT NULL
        AND NEW.notary IS DISTINCT FROM OLD.notary)
    EXECUTE FUNCTION check_order_notary();
