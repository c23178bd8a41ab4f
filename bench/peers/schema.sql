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
    -- The whole order. pgbench leaves it out.
    details json,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE documents (
    order_id bigint NOT NULL REFERENCES orders,
    name text NOT NULL,
    size bigint NOT NULL,
    sha256 bytea NOT NULL,
    key text NOT NULL
);
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id bigint NOT NULL,
    kind text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
