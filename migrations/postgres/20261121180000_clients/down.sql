DROP TABLE idempotency_keys;
DROP FUNCTION keep_idempotency_key;
DROP TABLE key_events;
ALTER TABLE api_keys DROP COLUMN last_used_at, DROP COLUMN first_id, DROP COLUMN documents_rate_burst, DROP COLUMN documents_rate_per_second,
    DROP COLUMN rate_burst, DROP COLUMN rate_per_second, DROP COLUMN is_test;
DROP TABLE test_file_numbers;
ALTER TABLE orders DROP COLUMN is_test;
