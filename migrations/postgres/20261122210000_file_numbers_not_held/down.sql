DROP INDEX orders_client_file_number;
CREATE INDEX orders_client_file_number ON orders (file_number, client_id, id)
    WHERE erased_at IS NULL;
