//! The tables of `migrations/sqlite`, for diesel.

diesel::table! {
    orders (id) {
        id -> BigInt,
        client_id -> BigInt,
        api_key_id -> BigInt,
        signing_service_id -> BigInt,
        notary_id -> Nullable<BigInt>,
        starts_at_us -> Nullable<BigInt>,
        ends_at_us -> Nullable<BigInt>,
        created_at_us -> BigInt,
        updated_at_us -> BigInt,
        is_test -> Bool,
        holds_file_number -> Bool,
        file_number -> Text,
        status -> Text,
        details -> Text,
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
        client_id -> Nullable<BigInt>,
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
