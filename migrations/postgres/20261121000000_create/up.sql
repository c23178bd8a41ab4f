-- Instants are UTC with the precision of microseconds; dates and times of an appointment are those of its zone.
-- Nested objects of the order that nobody searches are JSON.

CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    signing_service_id bigint NOT NULL CHECK (signing_service_id > 0),
    file_number text NOT NULL CHECK (file_number <> ''),
    order_contact_email text NOT NULL CHECK (order_contact_email <> ''),
    client_company_id bigint CHECK (client_company_id > 0),
    observer_email text CHECK (observer_email <> ''),
    in_house_contact jsonb CHECK (jsonb_typeof(in_house_contact) = 'object'),
    in_house_contact2 jsonb CHECK (jsonb_typeof(in_house_contact2) = 'object'),
    signing_date date NOT NULL CHECK (signing_date BETWEEN '0001-01-01' AND '9999-12-31'),
    time_zone_id text NOT NULL CHECK (time_zone_id <> ''),
    signing_time_type text NOT NULL CHECK (signing_time_type IN ('at', 'between', 'anytime')),
    start_time time CHECK (start_time < '24:00' AND extract(second FROM start_time) = 0),
    start_utc timestamptz CHECK (isfinite(start_utc)),
    end_time time CHECK (end_time < '24:00' AND extract(second FROM end_time) = 0),
    end_utc timestamptz CHECK (isfinite(end_utc)),
    property_address text NOT NULL CHECK (property_address <> ''),
    property_city text NOT NULL CHECK (property_city <> ''),
    property_state text NOT NULL CHECK (property_state ~ '^[A-Z]{2}$'),
    property_zipcode text NOT NULL CHECK (property_zipcode ~ '^[0-9]{5}$'),
    is_property_address_same boolean NOT NULL,
    signing_address text NOT NULL CHECK (signing_address <> ''),
    signing_city text CHECK (signing_city <> ''),
    signing_state text CHECK (signing_state ~ '^[A-Z]{2}$'),
    signing_zipcode text CHECK (signing_zipcode ~ '^[0-9]{5}$'),
    signing_type text NOT NULL CHECK (signing_type <> ''),
    signer_name text NOT NULL CHECK (signer_name <> ''),
    signer_phone text NOT NULL CHECK (signer_phone <> ''),
    signer_email text NOT NULL CHECK (signer_email <> ''),
    spouse_name text,
    co_signer_name text,
    co_signer_spouse_name text,
    co_signer_phone text,
    co_signer_email text,
    language text NOT NULL CHECK (language <> ''),
    esigning_platform text,
    scanbacks_required boolean NOT NULL,
    ron_signing boolean NOT NULL,
    document_delivery text,
    lender text,
    special_instructions text,
    loan_officer jsonb CHECK (jsonb_typeof(loan_officer) = 'object'),
    invoice_recipient jsonb CHECK (jsonb_typeof(invoice_recipient) = 'object'),
    invoice_name text,
    invoice_phone text,
    invoice_email text,
    invoice_fee numeric(12, 2) CHECK (invoice_fee >= 0),
    notary_pay numeric(12, 2) CHECK (notary_pay >= 0),
    requested_by jsonb NOT NULL CHECK (jsonb_typeof(requested_by) = 'object'),
    status text NOT NULL CHECK (status <> ''),
    notary_id bigint CHECK (notary_id > 0),
    created_at timestamptz NOT NULL CHECK (isfinite(created_at)),
    updated_at timestamptz NOT NULL CHECK (isfinite(updated_at)),
    CONSTRAINT orders_start CHECK ((start_time IS NULL) = (signing_time_type = 'anytime') AND (start_utc IS NULL) = (start_time IS NULL)),
    CONSTRAINT orders_end CHECK ((end_time IS NULL) = (signing_time_type <> 'between') AND (end_utc IS NULL) = (end_time IS NULL)),
    CONSTRAINT orders_end_after_start CHECK (end_utc > start_utc)
);

-- Who used a file number last. The claim is one upsert on the primary key, so of any number of claims one wins.
CREATE TABLE file_numbers (
    file_number text COLLATE "C" PRIMARY KEY CHECK (file_number <> ''),
    placed_at timestamptz NOT NULL CHECK (isfinite(placed_at))
);

-- Objects that no order has adopted yet. Holds what is under way, so the sweeper may read all of it.
CREATE TABLE uploads (
    key text COLLATE "C" PRIMARY KEY CHECK (key <> ''),
    recorded_at timestamptz NOT NULL CHECK (isfinite(recorded_at)),
    condemned boolean NOT NULL DEFAULT false
);

CREATE TABLE documents (
    order_id bigint NOT NULL REFERENCES orders (id),
    position integer NOT NULL CHECK (position >= 0),
    key text COLLATE "C" NOT NULL UNIQUE CHECK (key <> ''),
    name text NOT NULL CHECK (name <> ''),
    name_as_sent text NOT NULL,
    media_type text NOT NULL CHECK (media_type <> ''),
    size bigint NOT NULL CHECK (size >= 0),
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    -- Serves: documents of one order, in their order (WHERE order_id = ? ORDER BY position).
    PRIMARY KEY (order_id, position)
);

-- A document comes from the ledger of uploads and takes its object out of it. An upload that is condemned, or was never
-- recorded, makes no document: its object may be gone.
CREATE FUNCTION adopt_upload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM uploads WHERE key = NEW.key AND NOT condemned;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the upload is not in the ledger, or condemned' USING ERRCODE = 'check_violation', CONSTRAINT = 'documents_adopt_uploads';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER documents_adopt_uploads BEFORE INSERT ON documents FOR EACH ROW EXECUTE FUNCTION adopt_upload();

CREATE TABLE follow_ups (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id bigint NOT NULL REFERENCES orders (id),
    message_key text COLLATE "C" NOT NULL UNIQUE CHECK (message_key <> ''),
    recipient text NOT NULL CHECK (recipient <> ''),
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    created_at timestamptz NOT NULL CHECK (isfinite(created_at)),
    due_at timestamptz NOT NULL CHECK (isfinite(due_at)),
    leased_until timestamptz CHECK (isfinite(leased_until)),
    -- Counts the leases, so that each has a token of its own.
    lease_token bigint NOT NULL DEFAULT 0 CHECK (lease_token >= 0),
    buried_at timestamptz CHECK (isfinite(buried_at)),
    last_error text,
    CONSTRAINT follow_ups_buried_or_leased CHECK (buried_at IS NULL OR leased_until IS NULL)
);

-- Serves: lease what has been due longest (WHERE buried_at IS NULL AND due_at <= ? ORDER BY due_at, id LIMIT ?).
CREATE INDEX follow_ups_due ON follow_ups (due_at, id) WHERE buried_at IS NULL;

CREATE TABLE api_keys (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL CHECK (name <> ''),
    -- UNIQUE serves: the key that a client presents (WHERE lookup = ?).
    lookup text COLLATE "C" NOT NULL UNIQUE CHECK (lookup <> ''),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    signing_service_id bigint CHECK (signing_service_id > 0),
    issued_at timestamptz NOT NULL CHECK (isfinite(issued_at)),
    expires_at timestamptz CHECK (isfinite(expires_at)),
    revoked_at timestamptz CHECK (isfinite(revoked_at))
);
