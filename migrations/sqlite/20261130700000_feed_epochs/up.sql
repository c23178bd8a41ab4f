-- The epochs of the feed. A database that was restored or copied gives identifiers again, so its cursors must not be
-- taken for those that the other one gave: it begins an epoch. The first one is 0, and its cursors do not name it. Rows
-- are never removed.
CREATE TABLE order_feed_epochs (
    -- Milliseconds since 1970 at its begin, or more: of two copies, each has its own.
    epoch INTEGER PRIMARY KEY,
    -- What identifies the database, as in `installation`.
    database TEXT NOT NULL,
    -- The last order and the last number before it. Cursors of earlier epochs are valid up to here.
    created INTEGER NOT NULL,
    changed INTEGER NOT NULL
) STRICT;

INSERT INTO order_feed_epochs (epoch, database, created, changed) SELECT 0, database, 0, 0 FROM installation;
