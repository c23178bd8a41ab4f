-- Serves: the keys of a contact, who gets one mail about rejected requests for all of them
-- (WHERE lower(contact) = lower(?)).
CREATE INDEX api_keys_contact ON api_keys (lower(contact));

-- Serves: the waiting news of changes that a mail tells (WHERE subject = 'changed' AND order_id = ANY (?)). There are few.
CREATE INDEX deliveries_changed ON deliveries (order_id) WHERE subject = 'changed';
