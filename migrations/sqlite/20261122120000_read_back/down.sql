DROP VIEW order_details;
DROP TABLE recipient_mails;
CREATE TABLE recipient_mails (
    -- The beginning of the hour, in microseconds like every instant.
    hour INTEGER NOT NULL,
    -- The address in lower case.
    recipient TEXT NOT NULL,
    mails INTEGER NOT NULL,
    -- Serves: count (WHERE hour = ? AND recipient = ?), and remove past hours (WHERE hour < ? LIMIT
    -- ?).
    PRIMARY KEY (hour, recipient)
) STRICT, WITHOUT ROWID;
ALTER TABLE idempotency_keys DROP COLUMN documents;
ALTER TABLE idempotency_keys DROP COLUMN first_document;
ALTER TABLE api_keys DROP COLUMN scopes;
ALTER TABLE documents DROP COLUMN added_at;
DROP INDEX orders_client_file_number;
DROP INDEX orders_client;
ALTER TABLE orders DROP COLUMN erased_at;
CREATE VIEW order_details AS
SELECT
    id AS order_id, client_id, api_key_id, signing_service_id, file_number, status AS order_status,
    notary_id, is_test,
    CAST(details ->> '$.email' AS TEXT) AS order_contact_email,
    CAST(details ->> '$.company' AS INTEGER) AS client_company_id,
    CAST(details ->> '$.observer' AS TEXT) AS observer_email,
    CAST(details ->> '$.in_house.name' AS TEXT) AS in_house_contact_name,
    CAST(details ->> '$.in_house.phone' AS TEXT) AS in_house_contact_phone,
    CAST(details ->> '$.in_house.email' AS TEXT) AS in_house_contact_email,
    CAST(details ->> '$.in_house2.name' AS TEXT) AS in_house_contact2_name,
    CAST(details ->> '$.in_house2.phone' AS TEXT) AS in_house_contact2_phone,
    CAST(details ->> '$.in_house2.email' AS TEXT) AS in_house_contact2_email,
    CAST(details ->> '$.date' AS TEXT) AS signing_date,
    CAST(details ->> '$.zone' AS TEXT) AS time_zone_id,
    CASE WHEN details ->> '$.at' IS NOT NULL THEN 'at'
        WHEN details ->> '$.from' IS NOT NULL THEN 'between' ELSE 'anytime' END
        AS signing_time_type,
    CAST(coalesce(details ->> '$.at', details ->> '$.from') AS TEXT) AS start_time,
    datetime(starts_at / 1000000, 'unixepoch') AS starts_at,
    CAST(details ->> '$.to' AS TEXT) AS end_time,
    datetime(ends_at / 1000000, 'unixepoch') AS ends_at,
    CAST(details ->> '$.property.address' AS TEXT) AS property_address,
    CAST(details ->> '$.property.city' AS TEXT) AS property_city,
    CAST(details ->> '$.property.state' AS TEXT) AS property_state,
    CAST(details ->> '$.property.zip' AS TEXT) AS property_zipcode,
    coalesce(details ->> '$.same', 1) AS is_property_address_same,
    CAST(CASE WHEN details ->> '$.location' IS NOT NULL
        THEN details ->> '$.location.address' ELSE details ->> '$.property.address' END AS TEXT)
        AS signing_address,
    CAST(CASE WHEN details ->> '$.location' IS NOT NULL
        THEN details ->> '$.location.city' ELSE details ->> '$.property.city' END AS TEXT)
        AS signing_city,
    CAST(CASE WHEN details ->> '$.location' IS NOT NULL
        THEN details ->> '$.location.state' ELSE details ->> '$.property.state' END AS TEXT)
        AS signing_state,
    CAST(CASE WHEN details ->> '$.location' IS NOT NULL
        THEN details ->> '$.location.zip' ELSE details ->> '$.property.zip' END AS TEXT)
        AS signing_zipcode,
    CAST(details ->> '$.type' AS TEXT) AS signing_type,
    CAST(details ->> '$.signer.name' AS TEXT) AS signer_name,
    CAST(details ->> '$.signer.phone' AS TEXT) AS signer_phone,
    CAST(details ->> '$.signer.email' AS TEXT) AS signer_email,
    CAST(details ->> '$.signer.spouse' AS TEXT) AS spouse_name,
    CAST(details ->> '$.co_signer.name' AS TEXT) AS co_signer_name,
    CAST(details ->> '$.co_signer.spouse' AS TEXT) AS co_signer_spouse_name,
    CAST(details ->> '$.co_signer.phone' AS TEXT) AS co_signer_phone,
    CAST(details ->> '$.co_signer.email' AS TEXT) AS co_signer_email,
    CAST(coalesce(details ->> '$.lang', 'en') AS TEXT) AS language,
    CAST(details ->> '$.esigning_platform' AS TEXT) AS esigning_platform,
    coalesce(details ->> '$.scanbacks', 0) AS scanbacks_required,
    coalesce(details ->> '$.ron', 0) AS ron_signing,
    CAST(details ->> '$.document_delivery' AS TEXT) AS document_delivery,
    CAST(details ->> '$.lender' AS TEXT) AS lender,
    CAST(details ->> '$.special_instructions' AS TEXT) AS special_instructions,
    CAST(details ->> '$.loan_officer.name' AS TEXT) AS loan_officer_name,
    CAST(details ->> '$.loan_officer.phone' AS TEXT) AS loan_officer_phone,
    CAST(details ->> '$.loan_officer.email' AS TEXT) AS loan_officer_email,
    CAST(details ->> '$.invoice.to.company' AS TEXT) AS invoice_company_name,
    CAST(details ->> '$.invoice.to.address' AS TEXT) AS invoice_address,
    CAST(details ->> '$.invoice.to.city' AS TEXT) AS invoice_city,
    CAST(details ->> '$.invoice.to.state' AS TEXT) AS invoice_state,
    CAST(details ->> '$.invoice.to.zip' AS TEXT) AS invoice_zipcode,
    CAST(details ->> '$.invoice.name' AS TEXT) AS invoice_name,
    CAST(details ->> '$.invoice.phone' AS TEXT) AS invoice_phone,
    CAST(details ->> '$.invoice.email' AS TEXT) AS invoice_email,
    (details ->> '$.invoice.fee_cents') / 100.0 AS invoice_fee,
    (details ->> '$.invoice.notary_pay_cents') / 100.0 AS notary_pay,
    CAST(details ->> '$.user' AS INTEGER) AS requested_by_user_id,
    CAST(details ->> '$.role' AS TEXT) AS requested_by_user_role,
    CAST(details ->> '$.user_service' AS INTEGER) AS requested_by_signing_service_id,
    datetime(created_at / 1000000, 'unixepoch') AS created_at,
    datetime(updated_at / 1000000, 'unixepoch') AS updated_at
FROM orders;
