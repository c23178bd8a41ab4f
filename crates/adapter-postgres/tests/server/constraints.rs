//! Rows that the program cannot have written, or could not read back, are refused by the database
//! itself.

use std::collections::BTreeSet;

use contract_tests::samples::{
    NOW, WINDOW, api_key, attempt, document, idempotency_key, maximal_order, new_order,
};
use domain::{
    idempotency::Remembrance,
    order::FileNumber,
    ports::{ApiKeyRepo as _, NewOrder, OrderRepo as _, UploadLedger as _},
};
use tokio_postgres::{
    Client,
    error::{DbError, SqlState},
};

use super::{outsider, store};

/// A session in a database with one row of every kind, each with every value.
async fn full() -> Client {
    let (store, database) = store().await;
    let (document, spare) = (document(), document());
    store.record(&[document.key.clone(), spare.key], NOW).await.unwrap();
    let order =
        NewOrder { order: maximal_order(), documents: vec![document], ..new_order("maximal", NOW) };
    store.create(&order, WINDOW).await.unwrap();
    // Free at once, so that it may be changed.
    let remembrance =
        Some(Remembrance { attempt: attempt(&idempotency_key(1, "key"), 7), kept_until: NOW });
    store
        .create(&NewOrder { is_test: true, remembrance, ..new_order("test", NOW) }, WINDOW)
        .await
        .unwrap();
    store.add(&api_key(NOW), "jane").await.unwrap();
    outsider(&database).await
}

async fn refusal(client: &Client, statement: &str) -> DbError {
    let refused = client.batch_execute(statement).await.expect_err(statement);
    refused.as_db_error().unwrap_or_else(|| panic!("{statement}: {refused}")).clone()
}

/// What makes the row of a table invalid.
const INVALID: [(&str, &[&str]); 9] = [
    (
        "orders",
        &[
            "id = 0",
            "signing_service_id = 0",
            "client_company_id = -1",
            "notary_id = 0",
            "status = 'new'",
            "status = 'ASSIGNED'",
            "property_state = 'tx'",
            "property_state = 'Tx'",
            "property_state = 'TEX'",
            "property_state = E'TX\\n'",
            "property_state = 'ÉÉ'",
            "signing_state = 'wy'",
            "property_zipcode = '7520'",
            "property_zipcode = '752011'",
            "property_zipcode = '7520a'",
            "property_zipcode = '٧٥٢٠١'",
            "signing_zipcode = '7520'",
            "order_contact_email = 'nobody'",
            "observer_email = '@example.com'",
            "signer_email = 'jane@'",
            "co_signer_email = 'nobody'",
            "invoice_email = 'nobody'",
            "signing_date = 'infinity'",
            "signing_date = '10000-01-01'",
            "signing_date = '0001-01-01 BC'",
            "signing_date = '0001-01-01 BC', signing_time_type = 'anytime', start_time = NULL, start_utc = NULL, end_time = NULL, end_utc = NULL",
            "signing_time_type = 'At', end_time = NULL, end_utc = NULL",
            "signing_time_type = 'sometime'",
            "signing_time_type = 'at'",
            "signing_time_type = 'anytime'",
            "signing_time_type = 'at', start_time = NULL, start_utc = NULL, end_time = NULL, end_utc = NULL",
            "start_time = NULL",
            "start_utc = NULL",
            "end_time = NULL",
            "end_utc = NULL",
            "start_time = '00:00:01'",
            "start_time = '00:00:00.000001'",
            "end_time = '23:58:59.5'",
            "end_time = '24:00'",
            "start_time = end_time",
            "start_utc = end_utc",
            "end_utc = start_utc - interval '1 hour'",
            "start_time = '24:00', end_time = NULL",
            "start_utc = '-infinity'",
            "end_utc = 'infinity'",
            "start_utc = start_utc - interval '2 days'",
            "end_utc = end_utc + interval '2 days'",
            "end_utc = '10000-01-01 00:00Z'",
            "invoice_fee = -0.01",
            "invoice_fee = 10000000000",
            "invoice_fee = 1.005",
            "invoice_fee = 'NaN'",
            "invoice_fee = 'Infinity'",
            "notary_pay = -1",
            "notary_pay = 0.001",
            "notary_pay = 'NaN'",
            "in_house_contact = '{}'",
            "in_house_contact = '{\"name\": null}'",
            "in_house_contact2 = '[]'",
            "in_house_contact2 = '{\"name\": [\"Jane\"]}'",
            "loan_officer = '\"Jane\"'",
            "loan_officer = 'null'",
            "loan_officer = '{\"name\": \"Jane\", \"phone\": 5550100}'",
            "invoice_recipient = '{\"city\": {}}'",
            "requested_by = '{}'",
            "requested_by = '[]'",
            "requested_by = '{\"user_id\": null}'",
            "requested_by = '{\"user_id\": 0}'",
            "requested_by = '{\"user_id\": 1.5}'",
            "requested_by = '{\"user_id\": \"1\"}'",
            "requested_by = '{\"user_id\": [1]}'",
            "requested_by = '{\"user_id\": 9223372036854775808}'",
            "requested_by = '{\"user_id\": 1, \"user_role\": 1}'",
            "requested_by = '{\"user_id\": 1, \"signing_service_id\": 0}'",
            "requested_by = '{\"user_id\": 1, \"signing_service_id\": \"1\"}'",
            "file_number = repeat('x', 101)",
            "file_number = ' x'",
            "created_at = 'infinity'",
            "created_at = '-infinity'",
            "created_at = '10000-01-01 00:00Z'",
            "updated_at = '10000-01-01 00:00Z'",
        ],
    ),
    (
        "file_numbers",
        &["file_number = repeat('x', 101)", "file_number = E'x\\n'", "created_at = 'infinity'"],
    ),
    (
        "test_file_numbers",
        &["file_number = repeat('x', 101)", "file_number = E'x\\n'", "created_at = 'infinity'"],
    ),
    ("uploads", &["recorded_at = 'infinity'", "recorded_at = '0001-01-01 BC'"]),
    (
        "documents",
        &[
            "position = -1",
            "size = 0",
            "size = -1",
            "sha256 = substr(sha256, 1, 31)",
            "sha256 = sha256 || '\\x00'",
            "sha256 = ''",
            "name = '../deed.pdf'",
            "name = '.pdf'",
            "name = 'a b.pdf'",
            "name = 'é.pdf'",
            "name = repeat('x', 121)",
            "media_type = 'pdf'",
            "media_type = 'Application/PDF'",
            "media_type = E'application/pdf\\r\\nX: y'",
        ],
    ),
    (
        "deliveries",
        &[
            "id = 0",
            "recipient = 'nobody'",
            "attempts = -1",
            "lease_token = -1",
            "leased_until = now()",
            "created_at = 'infinity'",
            "due_at = '-infinity'",
            "leased_until = 'infinity', lease_token = 1",
            "failed_at = 'infinity', attempts = 1, last_error = 'busy'",
            "failed_at = now()",
            "failed_at = now(), attempts = 1",
            "failed_at = now(), last_error = 'busy'",
            "failed_at = now(), attempts = 1, last_error = 'busy', leased_until = now(), lease_token = 1",
        ],
    ),
    (
        "api_keys",
        &[
            "id = 0",
            "hash = substr(hash, 1, 31)",
            "hash = hash || '\\x00'",
            "signing_service_id = 0",
            "issued_at = 'infinity'",
            "expires_at = 'infinity'",
            "revoked_at = '-infinity'",
            "last_used_at = 'infinity'",
            "rate_per_second = 0",
            "rate_per_second = 4294967296",
            "rate_per_second = NULL",
            "rate_burst = 0",
            "rate_burst = NULL",
            "documents_rate_per_second = 0",
            "documents_rate_burst = 4294967296",
            "documents_rate_burst = NULL",
        ],
    ),
    (
        "key_events",
        &[
            "id = 0",
            "change = 'lost'",
            "change = 'rotated'",
            "successor_id = api_key_id",
            "at = 'infinity'",
        ],
    ),
    (
        "idempotency_keys",
        &[
            "client_id = 0",
            "digest = substr(digest, 1, 31)",
            "token = ''",
            "fingerprint = fingerprint || '\\x00'",
            "order_id = 0",
            "order_id = NULL",
            "fingerprint = NULL",
            "taken_at = 'infinity'",
            "kept_until = '-infinity'",
        ],
    ),
];

/// Texts that may be blank: what a mail relay said is told as it is.
const ANY_TEXT: [&str; 1] = ["deliveries.last_error"];

#[tokio::test]
async fn an_invalid_row_is_refused_and_no_constraint_goes_untried() {
    let client = full().await;
    let mut tried = BTreeSet::new();
    for (table, changes) in INVALID {
        for change in changes {
            let refused = refusal(&client, &format!("UPDATE {table} SET {change}")).await;
            assert_eq!(*refused.code(), SqlState::CHECK_VIOLATION, "{table}: {change}: {refused}");
            tried.insert(refused.constraint().unwrap().to_owned());
        }
    }
    let texts = "SELECT table_name || '.' || column_name FROM information_schema.columns
        WHERE table_schema = 'public' AND data_type = 'text' AND table_name <> '__diesel_schema_migrations'";
    for column in client.query(texts, &[]).await.unwrap() {
        let column: String = column.get(0);
        if !ANY_TEXT.contains(&column.as_str()) {
            let (table, name) = column.split_once('.').unwrap();
            for blank in ["", "   "] {
                let refused =
                    refusal(&client, &format!("UPDATE {table} SET {name} = '{blank}'")).await;
                assert_eq!(*refused.code(), SqlState::CHECK_VIOLATION, "{column}: {refused}");
                tried.insert(refused.constraint().unwrap().to_owned());
            }
        }
    }
    let all = client.query("SELECT conname::text FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace", &[]).await.unwrap();
    let all: BTreeSet<String> = all.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        all.difference(&tried).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "these were not tried"
    );
}

/// Every other column must have a value.
const OPTIONAL: [&str; 41] = [
    "api_keys.documents_rate_burst",
    "api_keys.documents_rate_per_second",
    "api_keys.expires_at",
    "api_keys.first_id",
    "api_keys.last_used_at",
    "api_keys.rate_burst",
    "api_keys.rate_per_second",
    "api_keys.revoked_at",
    "api_keys.signing_service_id",
    "deliveries.failed_at",
    "deliveries.last_error",
    "deliveries.leased_until",
    "idempotency_keys.fingerprint",
    "idempotency_keys.order_id",
    "key_events.successor_id",
    "orders.client_company_id",
    "orders.co_signer_email",
    "orders.co_signer_name",
    "orders.co_signer_phone",
    "orders.co_signer_spouse_name",
    "orders.document_delivery",
    "orders.end_time",
    "orders.end_utc",
    "orders.esigning_platform",
    "orders.in_house_contact",
    "orders.in_house_contact2",
    "orders.invoice_email",
    "orders.invoice_fee",
    "orders.invoice_name",
    "orders.invoice_phone",
    "orders.invoice_recipient",
    "orders.lender",
    "orders.loan_officer",
    "orders.notary_id",
    "orders.notary_pay",
    "orders.observer_email",
    "orders.signing_city",
    "orders.signing_state",
    "orders.signing_zipcode",
    "orders.special_instructions",
    "orders.spouse_name",
];

#[tokio::test]
async fn what_is_required_must_be_there() {
    let client = full().await;
    let columns = "SELECT table_name || '.' || column_name, is_nullable = 'YES' FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name <> '__diesel_schema_migrations' ORDER BY 1";
    let columns: Vec<(String, bool)> = client
        .query(columns, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    // Whether a time is needed depends on the kind of appointment, by a constraint.
    let by_constraint = ["orders.start_time", "orders.start_utc"];
    let optional: Vec<_> = columns
        .iter()
        .filter(|(name, nullable)| *nullable && !by_constraint.contains(&name.as_str()))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(optional, OPTIONAL);
    for (column, _) in columns.iter().filter(|(_, nullable)| !nullable) {
        let (table, name) = column.split_once('.').unwrap();
        let refused = refusal(&client, &format!("UPDATE {table} SET {name} = NULL")).await;
        assert_eq!(*refused.code(), SqlState::NOT_NULL_VIOLATION, "{column}: {refused}");
    }
}

#[tokio::test]
async fn rows_belong_together_and_are_told_apart() {
    let client = full().await;
    for (statement, code) in [
        ("UPDATE documents SET order_id = order_id + 100", SqlState::FOREIGN_KEY_VIOLATION),
        ("UPDATE deliveries SET order_id = order_id + 100", SqlState::FOREIGN_KEY_VIOLATION),
        ("UPDATE api_keys SET first_id = id + 100", SqlState::FOREIGN_KEY_VIOLATION),
        ("UPDATE key_events SET api_key_id = api_key_id + 100", SqlState::FOREIGN_KEY_VIOLATION),
        ("UPDATE key_events SET change = 'rotated', successor_id = api_key_id + 100", SqlState::FOREIGN_KEY_VIOLATION),
        ("DELETE FROM api_keys", SqlState::FOREIGN_KEY_VIOLATION),
        ("DELETE FROM orders", SqlState::FOREIGN_KEY_VIOLATION),
        ("INSERT INTO key_events SELECT * FROM key_events", SqlState::UNIQUE_VIOLATION),
        ("INSERT INTO test_file_numbers SELECT * FROM test_file_numbers", SqlState::UNIQUE_VIOLATION),
        ("INSERT INTO idempotency_keys SELECT * FROM idempotency_keys", SqlState::UNIQUE_VIOLATION),
        ("INSERT INTO orders SELECT * FROM orders", SqlState::UNIQUE_VIOLATION),
        ("INSERT INTO file_numbers SELECT * FROM file_numbers", SqlState::UNIQUE_VIOLATION),
        ("INSERT INTO uploads SELECT * FROM uploads", SqlState::UNIQUE_VIOLATION),
        ("INSERT INTO api_keys SELECT * FROM api_keys", SqlState::UNIQUE_VIOLATION),
        ("INSERT INTO api_keys SELECT id + 1, name, lookup, hash, NULL, issued_at FROM api_keys", SqlState::UNIQUE_VIOLATION),
        ("INSERT INTO deliveries SELECT * FROM deliveries", SqlState::UNIQUE_VIOLATION),
        (
            "INSERT INTO deliveries (order_id, message_key, recipient, created_at, due_at) SELECT order_id, message_key, recipient, created_at, due_at FROM deliveries",
            SqlState::UNIQUE_VIOLATION,
        ),
        // An object of one document becomes that of another, or a second document has the place of
        // the first.
        (
            "INSERT INTO uploads (key, recorded_at) SELECT key, now() FROM documents;
            INSERT INTO documents SELECT order_id, position + 1, key, name, name_as_sent, media_type, size, sha256 FROM documents",
            SqlState::UNIQUE_VIOLATION,
        ),
        (
            "INSERT INTO documents SELECT order_id, position, uploads.key, name, name_as_sent, media_type, size, sha256 FROM documents, uploads",
            SqlState::UNIQUE_VIOLATION,
        ),
    ] {
        let refused = refusal(&client, statement).await;
        assert_eq!(*refused.code(), code, "{statement}: {refused}");
    }
    for key in ["'ff/unknown'", "(SELECT key FROM uploads)"] {
        client.batch_execute("UPDATE uploads SET condemned = true").await.unwrap();
        let document = format!(
            "INSERT INTO documents SELECT order_id, 1, {key}, name, name_as_sent, media_type, size, sha256 FROM documents"
        );
        let refused = refusal(&client, &document).await;
        assert_eq!(
            (refused.code(), refused.constraint()),
            (&SqlState::CHECK_VIOLATION, Some("documents_adopt_uploads")),
            "{key}"
        );
    }
    let later = "UPDATE idempotency_keys SET kept_until = taken_at + interval '1 day'";
    client.batch_execute(later).await.unwrap();
    let refused = refusal(&client, later).await;
    assert_eq!(
        (refused.code(), refused.constraint()),
        (&SqlState::UNIQUE_VIOLATION, Some("idempotency_keys_in_use"))
    );
}

#[tokio::test]
async fn a_file_number_is_one_to_the_database_exactly_if_it_is_one_to_the_domain() {
    let client = full().await;
    // Every character that a rule may be about, and some that none is: alone, before, behind and
    // between others.
    let characters = (1..=0x2ff)
        .chain(0x1600..=0x1700)
        .chain(0x1800..=0x1810)
        .chain(0x2000..=0x2070)
        .chain(0x3000..=0x3003)
        .chain([0xfeff, 0x1_f600]);
    let characters: Vec<char> = characters.filter_map(char::from_u32).collect();
    let texts = characters
        .iter()
        .flat_map(|c| [c.to_string(), format!("{c}x"), format!("x{c}"), format!("x{c}x")]);
    let texts: Vec<String> = texts.chain([100, 101].map(|length| "𝕏".repeat(length))).collect();
    // The constraints themselves, on a table that keeps nothing else.
    for constraint in ["orders_file_number", "file_numbers_file_number"] {
        let definition = client
            .query_one(
                "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1",
                &[&constraint],
            )
            .await
            .unwrap();
        let definition: String = definition.get(0);
        let condition = definition.strip_prefix("CHECK ").unwrap();
        let rows = client
            .query(
                &format!("SELECT file_number, {condition} FROM unnest($1::text[]) file_number"),
                &[&texts],
            )
            .await
            .unwrap();
        assert_eq!(rows.len(), texts.len());
        for row in rows {
            let (text, accepted): (String, bool) = (row.get(0), row.get(1));
            assert_eq!(accepted, FileNumber::try_from(text.clone()).is_ok(), "{text:?}");
        }
    }
}
