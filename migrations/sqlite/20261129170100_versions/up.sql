-- When reads last began to show something else without a change by people: a first download, or the erasure of
-- documents by the retention. `updated_at` is the version that `If-Match` names, and stays.
ALTER TABLE orders ADD COLUMN touched_at INTEGER;
