//! The tables of `migrations/postgres`, for diesel.

diesel::table! {
    orders (id) {
        id -> BigInt,
        signing_service_id -> BigInt,
        file_number -> Text,
        order_contact_email -> Text,
        client_company_id -> Nullable<BigInt>,
        observer_email -> Nullable<Text>,
        in_house_contact -> Nullable<Jsonb>,
        in_house_contact2 -> Nullable<Jsonb>,
        signing_date -> Date,
        time_zone_id -> Text,
        signing_time_type -> Text,
        start_time -> Nullable<Time>,
        start_utc -> Nullable<Timestamptz>,
        end_time -> Nullable<Time>,
        end_utc -> Nullable<Timestamptz>,
        property_address -> Text,
        property_city -> Text,
        property_state -> Text,
        property_zipcode -> Text,
        is_property_address_same -> Bool,
        signing_address -> Text,
        signing_city -> Nullable<Text>,
        signing_state -> Nullable<Text>,
        signing_zipcode -> Nullable<Text>,
        signing_type -> Text,
        signer_name -> Text,
        signer_phone -> Text,
        signer_email -> Text,
        spouse_name -> Nullable<Text>,
        co_signer_name -> Nullable<Text>,
        co_signer_spouse_name -> Nullable<Text>,
        co_signer_phone -> Nullable<Text>,
        co_signer_email -> Nullable<Text>,
        language -> Text,
        esigning_platform -> Nullable<Text>,
        scanbacks_required -> Bool,
        ron_signing -> Bool,
        document_delivery -> Nullable<Text>,
        lender -> Nullable<Text>,
        special_instructions -> Nullable<Text>,
        loan_officer -> Nullable<Jsonb>,
        invoice_recipient -> Nullable<Jsonb>,
        invoice_name -> Nullable<Text>,
        invoice_phone -> Nullable<Text>,
        invoice_email -> Nullable<Text>,
        invoice_fee -> Nullable<Numeric>,
        notary_pay -> Nullable<Numeric>,
        requested_by -> Jsonb,
        status -> Text,
        notary_id -> Nullable<BigInt>,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        is_test -> Bool,
    }
}

diesel::table! {
    file_numbers (file_number) {
        file_number -> Text,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    documents (order_id, position) {
        order_id -> BigInt,
        position -> Integer,
        key -> Text,
        name -> Text,
        name_as_sent -> Text,
        media_type -> Text,
        size -> BigInt,
        sha256 -> Binary,
    }
}

diesel::table! {
    uploads (key) {
        key -> Text,
        recorded_at -> Timestamptz,
        condemned -> Bool,
    }
}

diesel::table! {
    deliveries (id) {
        id -> BigInt,
        order_id -> BigInt,
        message_key -> Text,
        recipient -> Text,
        attempts -> Integer,
        created_at -> Timestamptz,
        due_at -> Timestamptz,
        leased_until -> Nullable<Timestamptz>,
        lease_token -> BigInt,
        failed_at -> Nullable<Timestamptz>,
        last_error -> Nullable<Text>,
    }
}

diesel::table! {
    api_keys (id) {
        id -> BigInt,
        name -> Text,
        lookup -> Text,
        hash -> Binary,
        signing_service_id -> Nullable<BigInt>,
        issued_at -> Timestamptz,
        expires_at -> Nullable<Timestamptz>,
        revoked_at -> Nullable<Timestamptz>,
        is_test -> Bool,
        rate_per_second -> Nullable<BigInt>,
        rate_burst -> Nullable<BigInt>,
        documents_rate_per_second -> Nullable<BigInt>,
        documents_rate_burst -> Nullable<BigInt>,
        first_id -> Nullable<BigInt>,
        last_used_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    key_events (id) {
        id -> BigInt,
        api_key_id -> BigInt,
        change -> Text,
        successor_id -> Nullable<BigInt>,
        at -> Timestamptz,
        by -> Text,
    }
}

diesel::table! {
    test_file_numbers (file_number) {
        file_number -> Text,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    idempotency_keys (client_id, digest) {
        client_id -> BigInt,
        digest -> Binary,
        token -> Binary,
        fingerprint -> Nullable<Binary>,
        order_id -> Nullable<BigInt>,
        taken_at -> Timestamptz,
        kept_until -> Timestamptz,
    }
}

diesel::allow_tables_to_appear_in_same_query!(orders, file_numbers, documents, uploads, deliveries);
