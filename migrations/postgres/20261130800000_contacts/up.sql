-- Serves: the keys of a contact, who gets one mail about rejected requests for all of them
-- (WHERE lower(contact) = lower(?)).
CREATE INDEX api_keys_contact ON api_keys (lower(contact));
