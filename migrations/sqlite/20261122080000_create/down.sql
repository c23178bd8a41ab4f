DROP VIEW order_details;
DROP TABLE idempotency_keys;
DROP TABLE key_events;
DROP TABLE api_keys;
DROP TABLE deliveries;
DROP TABLE documents;
DROP TABLE uploads;
DROP TABLE orders;
