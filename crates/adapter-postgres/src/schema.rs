//! The tables of `migrations/postgres`, for diesel.

diesel::table! {
    orders (id) {
        id -> BigInt,
        client_id -> BigInt,
        api_key_id -> BigInt,
        signing_service_id -> BigInt,
        notary_id -> Nullable<BigInt>,
        starts_at -> Nullable<Timestamptz>,
        ends_at -> Nullable<Timestamptz>,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        is_test -> Bool,
        holds_file_number -> Bool,
        file_number -> Text,
        status -> Text,
        details -> Jsonb,
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
        client_id -> Nullable<BigInt>,
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

diesel::allow_tables_to_appear_in_same_query!(orders, documents, uploads, deliveries);
