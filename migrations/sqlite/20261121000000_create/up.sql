-- Instants are microseconds since 1970-01-01T00:00:00Z in columns named `…_us`; dates are YYYY-MM-DD, local times HH:MM;
-- money is whole cents. Nested objects of the order that nobody searches are JSON.

CREATE TABLE orders (
    -- AUTOINCREMENT: an identifier that a client has seen is never given to another order.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    signing_service_id INTEGER NOT NULL CHECK (signing_service_id > 0),
    file_number TEXT NOT NULL CHECK (file_number <> ''),
    order_contact_email TEXT NOT NULL,
    client_company_id INTEGER CHECK (client_company_id > 0),
    observer_email TEXT,
    in_house_contact TEXT CHECK (json_valid(in_house_contact)),
    in_house_contact2 TEXT CHECK (json_valid(in_house_contact2)),
    signing_date TEXT NOT NULL CHECK (length(signing_date) = 10),
    time_zone_id TEXT NOT NULL,
    signing_time_type TEXT NOT NULL CHECK (signing_time_type IN ('at', 'between', 'anytime')),
    start_time TEXT CHECK (length(start_time) = 5),
    start_utc_us INTEGER,
    end_time TEXT CHECK (length(end_time) = 5),
    end_utc_us INTEGER,
    property_address TEXT NOT NULL,
    property_city TEXT NOT NULL,
    property_state TEXT NOT NULL CHECK (length(property_state) = 2),
    property_zipcode TEXT NOT NULL CHECK (length(property_zipcode) = 5),
    is_property_address_same INTEGER NOT NULL CHECK (is_property_address_same IN (0, 1)),
    signing_address TEXT NOT NULL,
    signing_city TEXT,
    signing_state TEXT CHECK (length(signing_state) = 2),
    signing_zipcode TEXT CHECK (length(signing_zipcode) = 5),
    signing_type TEXT NOT NULL,
    signer_name TEXT NOT NULL,
    signer_phone TEXT NOT NULL,
    signer_email TEXT NOT NULL,
    spouse_name TEXT,
    co_signer_name TEXT,
    co_signer_spouse_name TEXT,
    co_signer_phone TEXT,
    co_signer_email TEXT,
    language TEXT NOT NULL,
    esigning_platform TEXT,
    scanbacks_required INTEGER NOT NULL CHECK (scanbacks_required IN (0, 1)),
    ron_signing INTEGER NOT NULL CHECK (ron_signing IN (0, 1)),
    document_delivery TEXT,
    lender TEXT,
    special_instructions TEXT,
    loan_officer TEXT CHECK (json_valid(loan_officer)),
    invoice_recipient TEXT CHECK (json_valid(invoice_recipient)),
    invoice_name TEXT,
    invoice_phone TEXT,
    invoice_email TEXT,
    invoice_fee_cents INTEGER CHECK (invoice_fee_cents BETWEEN 0 AND 999999999999),
    notary_pay_cents INTEGER CHECK (notary_pay_cents BETWEEN 0 AND 999999999999),
    requested_by TEXT NOT NULL CHECK (json_valid(requested_by)),
    status TEXT NOT NULL,
    notary_id INTEGER CHECK (notary_id > 0),
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    CHECK ((start_time IS NULL) = (signing_time_type = 'anytime') AND (start_utc_us IS NULL) = (start_time IS NULL)),
    CHECK ((end_time IS NULL) = (signing_time_type <> 'between') AND (end_utc_us IS NULL) = (end_time IS NULL)),
    CHECK (end_utc_us > start_utc_us)
) STRICT;

-- Who used a file number last. The claim is one upsert on the primary key, so of any number of claims one wins.
CREATE TABLE file_numbers (
    file_number TEXT PRIMARY KEY,
    created_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE documents (
    order_id INTEGER NOT NULL REFERENCES orders (id),
    position INTEGER NOT NULL CHECK (position >= 0),
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    name_as_sent TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size INTEGER NOT NULL CHECK (size >= 0),
    sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
    -- Serves: documents of one order, in their order.
    PRIMARY KEY (order_id, position)
) STRICT, WITHOUT ROWID;

-- Objects that no order has adopted yet. Holds what is under way, so the sweeper may read all of it.
CREATE TABLE uploads (
    key TEXT PRIMARY KEY,
    recorded_at_us INTEGER NOT NULL,
    condemned INTEGER NOT NULL DEFAULT 0 CHECK (condemned IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
    -- AUTOINCREMENT: the lease of a follow-up that is done never fits another.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id INTEGER NOT NULL REFERENCES orders (id),
    message_key TEXT NOT NULL UNIQUE,
    recipient TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    created_at_us INTEGER NOT NULL,
    due_at_us INTEGER NOT NULL,
    leased_until_us INTEGER,
    -- Counts the leases, so that each has a token of its own.
    lease_token INTEGER NOT NULL DEFAULT 0,
    failed_at_us INTEGER,
    last_error TEXT,
    CHECK (failed_at_us IS NULL OR leased_until_us IS NULL)
) STRICT;

-- Serves: lease what has been due longest (WHERE failed_at_us IS NULL AND due_at_us <= ? ORDER BY due_at_us, id LIMIT ?).
CREATE INDEX deliveries_due ON deliveries (due_at_us, id) WHERE failed_at_us IS NULL;

CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    -- UNIQUE serves: the key that a client presents (WHERE lookup = ?).
    lookup TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    signing_service_id INTEGER CHECK (signing_service_id > 0),
    issued_at_us INTEGER NOT NULL,
    expires_at_us INTEGER,
    revoked_at_us INTEGER
) STRICT;
