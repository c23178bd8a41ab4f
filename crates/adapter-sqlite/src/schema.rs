//! The tables of `migrations/sqlite`, for diesel.

diesel::table! {
    orders (id) {
        id -> BigInt,
        signing_service_id -> BigInt,
        file_number -> Text,
        order_contact_email -> Text,
        client_company_id -> Nullable<BigInt>,
        observer_email -> Nullable<Text>,
        in_house_contact -> Nullable<Text>,
        in_house_contact2 -> Nullable<Text>,
        signing_date -> Text,
        time_zone_id -> Text,
        signing_time_type -> Text,
        start_time -> Nullable<Text>,
        start_utc_us -> Nullable<BigInt>,
        end_time -> Nullable<Text>,
        end_utc_us -> Nullable<BigInt>,
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
        loan_officer -> Nullable<Text>,
        invoice_recipient -> Nullable<Text>,
        invoice_name -> Nullable<Text>,
        invoice_phone -> Nullable<Text>,
        invoice_email -> Nullable<Text>,
        invoice_fee_cents -> Nullable<BigInt>,
        notary_pay_cents -> Nullable<BigInt>,
        requested_by -> Text,
        status -> Text,
        notary_id -> Nullable<BigInt>,
        created_at_us -> BigInt,
        updated_at_us -> BigInt,
        is_test -> Bool,
    }
}

diesel::table! {
    file_numbers (file_number) {
        file_number -> Text,
        created_at_us -> BigInt,
    }
}

diesel::table! {
    test_file_numbers (file_number) {
        file_number -> Text,
        created_at_us -> BigInt,
    }
}

diesel::table! {
    documents (order_id, position) {
        order_id -> BigInt,
        position -> BigInt,
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
        recorded_at_us -> BigInt,
        condemned -> Bool,
    }
}

diesel::table! {
    deliveries (id) {
        id -> BigInt,
        order_id -> BigInt,
        message_key -> Text,
        recipient -> Text,
        attempts -> BigInt,
        created_at_us -> BigInt,
        due_at_us -> BigInt,
        leased_until_us -> Nullable<BigInt>,
        lease_token -> BigInt,
        failed_at_us -> Nullable<BigInt>,
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
        issued_at_us -> BigInt,
        expires_at_us -> Nullable<BigInt>,
        revoked_at_us -> Nullable<BigInt>,
        is_test -> Bool,
        rate_per_second -> Nullable<BigInt>,
        rate_burst -> Nullable<BigInt>,
        documents_rate_per_second -> Nullable<BigInt>,
        documents_rate_burst -> Nullable<BigInt>,
        first_id -> Nullable<BigInt>,
        last_used_at_us -> Nullable<BigInt>,
    }
}

diesel::table! {
    key_events (id) {
        id -> BigInt,
        api_key_id -> BigInt,
        change -> Text,
        successor_id -> Nullable<BigInt>,
        at_us -> BigInt,
        by -> Text,
    }
}

diesel::table! {
    idempotency_keys (client_id, digest) {
        client_id -> BigInt,
        digest -> Binary,
        token -> Binary,
        fingerprint -> Nullable<Binary>,
        order_id -> Nullable<BigInt>,
        taken_at_us -> BigInt,
        kept_until_us -> BigInt,
    }
}
