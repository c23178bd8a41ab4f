-- Serves: the keys of a client (WHERE client_id = ?), which bind its people.
CREATE INDEX api_keys_client ON api_keys (client_id);

-- Serves: the keys of a signing service (WHERE for_service = ?), whose names its people do not take.
CREATE INDEX api_keys_service ON api_keys (for_service);

-- Serves: the sessions of a key (WHERE api_key_id = ?).
CREATE INDEX sessions_key ON sessions (api_key_id);
