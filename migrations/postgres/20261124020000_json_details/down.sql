-- The view of the newer version works on `jsonb`, too.
-- Meanwhile the view selects only NULLs, so that it does not depend on the table. It keeps its grants
-- and the views of operators that use it.
DO $$
DECLARE
    definition text := pg_get_viewdef('order_details'::regclass);
    columns text := (
        SELECT string_agg(
            format('NULL::%s', format_type(atttypid, atttypmod))
                || coalesce(' COLLATE ' || nullif(attcollation, 0)::regcollation, '')
                || format(' AS %I', attname),
            ', ' ORDER BY attnum)
        FROM pg_attribute WHERE attrelid = 'order_details'::regclass AND attnum > 0
    );
BEGIN
    EXECUTE 'CREATE OR REPLACE VIEW order_details AS SELECT ' || columns;
    ALTER TABLE orders ALTER COLUMN details TYPE jsonb;
    EXECUTE 'CREATE OR REPLACE VIEW order_details AS ' || definition;
END
$$;
