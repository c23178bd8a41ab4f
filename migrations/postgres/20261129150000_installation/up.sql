-- The installation to which the database belongs: one row. A database without it takes on the
-- installation that starts first. A restored or copied database has the row of its original, so its
-- service knows that it is a copy.
CREATE TABLE installation (
    id integer PRIMARY KEY CHECK (id = 1),
    -- What identifies the database: here the cluster, the database in it, and this table.
    database text NOT NULL,
    -- What identifies the document store.
    documents text NOT NULL
);
