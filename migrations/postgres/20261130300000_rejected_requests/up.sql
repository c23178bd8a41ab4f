-- Requests to create or change orders that were rejected for what they said: how many of a key, with one code, in
-- about a minute, by one instance. No foreign key: a row costs as little as it can, and keys are never deleted.
CREATE TABLE rejected_requests (
    api_key_id bigint NOT NULL,
    -- When the first of them was rejected.
    at timestamptz NOT NULL,
    -- The code of the problem that was answered.
    code text COLLATE "C" NOT NULL,
    -- The start of the instance.
    run bigint NOT NULL,
    requests bigint NOT NULL,
    -- How many of them a mail to the contact of the key has told of.
    told bigint NOT NULL DEFAULT 0,
    -- A JSON object: some fields at fault as JSON Pointers, with the codes of their faults. No values.
    faults text NOT NULL,
    -- A JSON array: the first of the requests.
    request_ids text NOT NULL,
    -- Serves: store (ON CONFLICT), tell (WHERE api_key_id = ? AND at = ? AND code = ? AND run = ?), and the counts
    -- of a key (WHERE api_key_id = ? AND at > ?).
    PRIMARY KEY (api_key_id, at, code, run)
);

-- Serves: the keys whose contacts are to be told (WHERE told < requests AND at <= ? ORDER BY at LIMIT 1).
CREATE INDEX rejected_requests_untold ON rejected_requests (at) WHERE told < requests;

-- No mail about rejected requests of the key leaves before: an hour after the last, or the end of the time that an
-- instance has for one. NULL: there was none.
ALTER TABLE api_keys ADD COLUMN next_rejected_mail_at timestamptz;
