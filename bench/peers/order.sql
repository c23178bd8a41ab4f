\set number random(1, 9000000000000000000)
WITH created AS (
    INSERT INTO orders (client_id, file_number, signer, address)
    VALUES (1, format('F-%s', :number::bigint), 'Jane Doe', '123 Main St, Dallas, TX 75201')
    RETURNING id, file_number
), claimed AS (
    INSERT INTO claims (file_number) SELECT file_number FROM created
)
INSERT INTO outbox (order_id, kind) SELECT id, 'order.created' FROM created
RETURNING order_id;
