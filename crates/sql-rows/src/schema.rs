//! The tables of `migrations/`, for diesel.

#![expect(missing_docs, reason = "the macro writes modules without documentation")]

diesel::table! {
    orders (id) {
        id -> BigInt,
        client_id -> BigInt,
        api_key_id -> BigInt,
        signing_service_id -> BigInt,
        notary_id -> Nullable<BigInt>,
        notary -> Nullable<Text>,
        starts_at -> Nullable<crate::Instant>,
        ends_at -> Nullable<crate::Instant>,
        created_at -> crate::Instant,
        updated_at -> crate::Instant,
        is_test -> Bool,
        holds_file_number -> Bool,
        file_number -> Text,
        status -> Text,
        /// `json` on PostgreSQL. The adapters read and write it as text.
        details -> Text,
        change_actor -> Nullable<Text>,
        change_reason -> Nullable<Text>,
        signing_date -> Nullable<Text>,
        search_text -> Nullable<Text>,
        day_starts_at -> Nullable<crate::Instant>,
        notary_text -> Nullable<Text>,
        held_until -> Nullable<crate::Instant>,
        documents_erased_at -> Nullable<crate::Instant>,
        last_change_at -> Nullable<crate::Instant>,
        touched_at -> Nullable<crate::Instant>,
        changes -> BigInt,
        calendar_sequence -> Nullable<BigInt>,
        erased_at -> Nullable<crate::Instant>,
        person_id -> Nullable<BigInt>,
        change_doer -> Nullable<BigInt>,
    }
}

diesel::table! {
    documents (order_id, signed, position) {
        order_id -> BigInt,
        position -> Integer,
        key -> Nullable<Text>,
        name -> Text,
        name_as_sent -> Text,
        media_type -> Text,
        size -> BigInt,
        sha256 -> Binary,
        added_at -> Nullable<crate::Instant>,
        signed -> Bool,
        replaced_by -> Nullable<Integer>,
        withdrawn_at -> Nullable<crate::Instant>,
        is_erased -> Bool,
        first_downloaded_at -> Nullable<crate::Instant>,
        crc32 -> Nullable<BigInt>,
        doer -> Nullable<BigInt>,
    }
}

diesel::allow_tables_to_appear_in_same_query!(orders, documents);

diesel::table! {
    order_changes (id) {
        id -> BigInt,
        order_id -> BigInt,
        at -> crate::Instant,
        kind -> Text,
        changed -> Nullable<Text>,
        documents -> Nullable<Text>,
        status -> Text,
        notary_id -> Nullable<BigInt>,
        actor -> Text,
        reason -> Nullable<Text>,
        doer -> Nullable<BigInt>,
        before -> Nullable<Text>,
    }
}

diesel::table! {
    order_notes (id) {
        id -> BigInt,
        order_id -> BigInt,
        at -> crate::Instant,
        author -> Text,
        text -> Text,
        doer -> Nullable<BigInt>,
    }
}

diesel::table! {
    signing_services (id) {
        id -> BigInt,
        name -> Text,
        emails -> Text,
    }
}

diesel::table! {
    uploads (key) {
        key -> Text,
        recorded_at -> crate::Instant,
        condemned -> Bool,
        order_id -> Nullable<BigInt>,
        signed -> Nullable<Bool>,
        position -> Nullable<Integer>,
    }
}

diesel::table! {
    deliveries (id) {
        id -> BigInt,
        order_id -> BigInt,
        message_key -> Text,
        recipient -> Text,
        subject -> Text,
        to_service -> Bool,
        attempts -> Integer,
        unknown_outcomes -> Integer,
        over_limit -> Bool,
        created_at -> crate::Instant,
        due_at -> crate::Instant,
        leased_until -> Nullable<crate::Instant>,
        lease_token -> BigInt,
        failed_at -> Nullable<crate::Instant>,
        content -> Nullable<Text>,
        last_error -> Nullable<Text>,
    }
}

diesel::table! {
    events (id) {
        id -> BigInt,
        order_id -> BigInt,
        created_at -> crate::Instant,
        retry_at -> Nullable<crate::Instant>,
        #[sql_name = "type"]
        kind -> Text,
        change -> Nullable<Text>,
        content -> Nullable<Text>,
    }
}

diesel::table! {
    webhook_endpoints (id) {
        id -> BigInt,
        party -> BigInt,
        is_test -> Bool,
        api_key_id -> Nullable<BigInt>,
        url -> Text,
        events -> Text,
        description -> Nullable<Text>,
        secret -> Binary,
        previous_secret -> Nullable<Binary>,
        previous_until -> Nullable<crate::Instant>,
        created_at -> crate::Instant,
        succeeded_at -> Nullable<crate::Instant>,
        failed_at -> Nullable<crate::Instant>,
        warned_at -> Nullable<crate::Instant>,
        disabled_at -> Nullable<crate::Instant>,
        disabled_by -> Nullable<Text>,
        told_at -> Nullable<crate::Instant>,
        due_at -> Nullable<crate::Instant>,
        earlier_secrets -> Nullable<Text>,
    }
}

diesel::table! {
    webhook_deliveries (id) {
        id -> BigInt,
        endpoint_id -> BigInt,
        order_id -> Nullable<BigInt>,
        created_at -> crate::Instant,
        due_at -> crate::Instant,
        leased_until -> Nullable<crate::Instant>,
        lease_token -> BigInt,
        delivered_at -> Nullable<crate::Instant>,
        failed_at -> Nullable<crate::Instant>,
        failures -> Integer,
        event -> Text,
        change -> Nullable<Text>,
        message_key -> Text,
        attempts -> Text,
        body -> Nullable<Text>,
    }
}

diesel::allow_tables_to_appear_in_same_query!(orders, deliveries, webhook_deliveries);
diesel::allow_tables_to_appear_in_same_query!(orders, uploads);
diesel::allow_tables_to_appear_in_same_query!(orders, order_changes);
diesel::allow_tables_to_appear_in_same_query!(webhook_endpoints, webhook_deliveries);

diesel::table! {
    order_recipients (order_id, recipient) {
        order_id -> BigInt,
        recipient -> Text,
        to_service -> Bool,
        changes_told_at -> Nullable<crate::Instant>,
    }
}

diesel::table! {
    recipient_mails (hour, client_id, recipient) {
        hour -> crate::Instant,
        client_id -> BigInt,
        recipient -> Binary,
        mails -> BigInt,
    }
}

diesel::table! {
    api_keys (id) {
        id -> BigInt,
        name -> Text,
        client_name -> Nullable<Text>,
        lookup -> Text,
        hash -> Binary,
        signing_service_id -> Nullable<BigInt>,
        for_service -> Nullable<BigInt>,
        issued_at -> crate::Instant,
        expires_at -> Nullable<crate::Instant>,
        revoked_at -> Nullable<crate::Instant>,
        is_test -> Bool,
        rate_per_second -> Nullable<BigInt>,
        rate_burst -> Nullable<BigInt>,
        documents_rate_per_second -> Nullable<BigInt>,
        documents_rate_burst -> Nullable<BigInt>,
        client_id -> Nullable<BigInt>,
        scopes -> Text,
        last_used_at -> Nullable<crate::Instant>,
        contact -> Nullable<Text>,
        next_rejected_mail_at -> Nullable<crate::Instant>,
    }
}

diesel::table! {
    rejected_requests (api_key_id, at, code, run) {
        api_key_id -> BigInt,
        at -> crate::Instant,
        code -> Text,
        run -> BigInt,
        requests -> BigInt,
        told -> BigInt,
        faults -> Text,
        request_ids -> Text,
    }
}

diesel::allow_tables_to_appear_in_same_query!(api_keys, rejected_requests);

diesel::table! {
    key_events (id) {
        id -> BigInt,
        api_key_id -> BigInt,
        change -> Text,
        successor_id -> Nullable<BigInt>,
        at -> crate::Instant,
        by -> Text,
    }
}

diesel::table! {
    idempotency_keys (party, is_test, digest) {
        party -> BigInt,
        is_test -> Bool,
        digest -> Binary,
        token -> Binary,
        fingerprint -> Nullable<Binary>,
        order_id -> Nullable<BigInt>,
        taken_at -> crate::Instant,
        kept_until -> crate::Instant,
        first_document -> Nullable<Integer>,
        documents -> Nullable<Integer>,
        documents_stored -> Nullable<Integer>,
    }
}

diesel::table! {
    accesses (at, run, number) {
        at -> crate::Instant,
        run -> BigInt,
        number -> BigInt,
        kind -> Text,
        order_id -> Nullable<BigInt>,
        orders -> Nullable<BigInt>,
        position -> Nullable<BigInt>,
        party -> Nullable<BigInt>,
        api_key_id -> Nullable<BigInt>,
        command -> Nullable<Text>,
        os_user -> Nullable<Text>,
        address -> Nullable<Text>,
        request_id -> Nullable<Text>,
        outcome -> Text,
        asked_order_id -> Nullable<BigInt>,
        person_id -> Nullable<BigInt>,
        subject_id -> Nullable<BigInt>,
    }
}

diesel::table! {
    access_runs (id) {
        id -> BigInt,
        first_number -> BigInt,
        ended_at -> Nullable<crate::Instant>,
        last_number -> Nullable<BigInt>,
        seen_at -> Nullable<crate::Instant>,
    }
}

diesel::table! {
    installation (id) {
        id -> Integer,
        database -> Text,
        documents -> Text,
    }
}

diesel::table! {
    order_feed_epochs (epoch) {
        epoch -> BigInt,
        database -> Text,
        created -> BigInt,
        changed -> BigInt,
    }
}

diesel::table! {
    people (id) {
        id -> BigInt,
        party -> BigInt,
        name -> Text,
        email -> Nullable<Text>,
        role -> Text,
        handle -> Binary,
        invited_at -> crate::Instant,
        accepted_at -> Nullable<crate::Instant>,
        disabled_at -> Nullable<crate::Instant>,
        erased_at -> Nullable<crate::Instant>,
        last_seen_at -> Nullable<crate::Instant>,
    }
}

diesel::table! {
    invitations (token) {
        token -> Binary,
        person_id -> BigInt,
        created_at -> crate::Instant,
        expires_at -> crate::Instant,
        used_at -> Nullable<crate::Instant>,
        withdrawn_at -> Nullable<crate::Instant>,
        issued_by -> Nullable<BigInt>,
    }
}

diesel::table! {
    passkeys (id) {
        id -> BigInt,
        person_id -> BigInt,
        credential -> Binary,
        name -> Text,
        fixed -> Binary,
        changing -> Binary,
        created_at -> crate::Instant,
        last_used_at -> Nullable<crate::Instant>,
    }
}

diesel::table! {
    identities (issuer, subject) {
        issuer -> Text,
        subject -> Text,
        person_id -> BigInt,
        created_at -> crate::Instant,
    }
}

diesel::table! {
    sessions (id) {
        id -> BigInt,
        token -> Binary,
        person_id -> Nullable<BigInt>,
        api_key_id -> Nullable<BigInt>,
        way -> Text,
        is_test -> Bool,
        signed_in_at -> crate::Instant,
        last_used_at -> crate::Instant,
        expires_at -> crate::Instant,
        ended_at -> Nullable<crate::Instant>,
    }
}

diesel::table! {
    ceremonies (token) {
        token -> Binary,
        purpose -> Text,
        invitation -> Nullable<Binary>,
        person_id -> Nullable<BigInt>,
        session_id -> Nullable<BigInt>,
        way -> Text,
        place -> Text,
        state -> Binary,
        expires_at -> crate::Instant,
    }
}

diesel::joinable!(invitations -> people (person_id));
diesel::joinable!(passkeys -> people (person_id));
diesel::joinable!(identities -> people (person_id));
diesel::joinable!(sessions -> people (person_id));
diesel::joinable!(sessions -> api_keys (api_key_id));
diesel::allow_tables_to_appear_in_same_query!(people, invitations);
diesel::allow_tables_to_appear_in_same_query!(people, passkeys);
diesel::allow_tables_to_appear_in_same_query!(people, identities);
diesel::allow_tables_to_appear_in_same_query!(people, sessions, api_keys);
