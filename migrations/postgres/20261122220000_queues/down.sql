ALTER TABLE webhook_deliveries RESET (fillfactor);
ALTER TABLE deliveries RESET (
    fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, vacuum_truncate
);
ALTER TABLE events RESET (
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, vacuum_truncate
);
