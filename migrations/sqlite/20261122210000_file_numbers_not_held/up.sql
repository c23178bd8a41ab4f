-- New orders hold their file number, so they are not in this index and do not pay for it. Those that
-- hold one are in orders_file_number.
DROP INDEX orders_client_file_number;
-- Serves, together with orders_file_number: pages of a client with a file number (WHERE file_number
-- = ? AND client_id = ? AND NOT holds_file_number AND erased_at IS NULL AND id < ? ORDER BY id), and
-- the orders of any client with a file number (WHERE file_number = ? AND NOT holds_file_number AND
-- erased_at IS NULL).
CREATE INDEX orders_client_file_number ON orders (file_number, client_id, id)
    WHERE NOT holds_file_number AND erased_at IS NULL;
