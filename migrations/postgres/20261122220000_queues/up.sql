-- Rows of queues live for a moment. The settings fit that life.

-- A lease changes no column of an index. With room in the page, it adds no entry to any index.
ALTER TABLE deliveries SET (fillfactor = 70);
ALTER TABLE webhook_deliveries SET (fillfactor = 70);

-- Vacuum after so many dead rows, whatever the length of the queue. It gives no empty pages back to
-- the file system: that would lock the table, and the next orders need the pages.
ALTER TABLE events SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_truncate = off
);
ALTER TABLE deliveries SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_truncate = off
);
