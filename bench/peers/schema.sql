CREATE TABLE claims (
    file_number text PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    client_id bigint NOT NULL,
    file_number text NOT NULL,
    signer text NOT NULL,
    address text NOT NULL,
    status text NOT NULL DEFAULT 'NEW',
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id bigint NOT NULL,
    kind text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
