-- Serves: the keys of a client (WHERE client_id = ?), which bind its people.
CREATE INDEX api_keys_client ON api_keys (client_id);

-- Serves: the sessions of a key (WHERE api_key_id = ?).
CREATE INDEX sessions_key ON sessions (api_key_id);
