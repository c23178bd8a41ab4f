-- The body that every attempt of the delivery sends. NULL of tests, of erased orders, and of deliveries that
-- version 0.1.0 added: their bodies are composed at each attempt.
ALTER TABLE webhook_deliveries ADD COLUMN body text;

-- An erasure removes the bodies of its order.
CREATE INDEX webhook_deliveries_order ON webhook_deliveries (order_id);
