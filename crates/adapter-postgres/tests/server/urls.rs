//! URLs of databases: what is understood, what is refused, and that no secret of one is repeated.

use adapter_postgres::{OpenError, PostgresStore};
use domain::ports::OrderRepo as _;
use proptest::prelude::*;
use test_servers::postgres::Cluster;

use super::one_line;

fn opened(url: &str) -> Result<(), OpenError> {
    PostgresStore::open(url, 1).map(drop)
}

#[tokio::test]
async fn what_is_no_url_of_postgresql_is_refused_and_not_repeated() {
    for url in [
        "",
        "postgres",
        "postgres:",
        "postgres:/",
        "postgres://",
        "postgres:///",
        "postgres:///hunter2",
        "postgres://orders:hunter2@",
        "postgres://orders:hunter2@/orders",
        "postgres://orders:hunter2@,/orders",
        "postgres://orders:hunter2@a,,b/orders",
        "postgres://orders:hunter2@a,/orders",
        "postgres://orders:hunter2@host:port/orders",
        "postgres://orders:hunter2@host:65536/orders",
        "postgres://orders:hunter2@host:-1/orders",
        "postgres://orders:hunter2@host:5432:5432/orders",
        "postgres://orders:hunter2@[::1/orders",
        "postgres://orders:hunter2@[::1]5432/orders",
        "postgres://orders:hunter2@x@host/orders",
        "postgres://orders:hunter2?x@host/orders",
        "postgres://orders:hunter2@host/%ff",
        "postgres://%ff:hunter2@host/orders",
        "postgres://orders:hunter2@host/orders?unknown=1",
        "postgres://orders:hunter2@host/orders?sslcert=x",
        "postgres://orders:hunter2@host/orders?application_name",
        "postgres://orders:hunter2@host/orders?connect_timeout=soon",
        "postgres://orders:hunter2@host/orders?target_session_attrs=primary",
        "postgres://orders:hunter2@host/orders?channel_binding=perhaps",
        "postgres://orders:hunter2@host/orders?port=1",
        "postgres://orders:hunter2@host/orders?host=other",
        "postgres://orders:hunter2@a,b/orders?hostaddr=127.0.0.1",
        "postgres://orders:hunter2@a,b/orders?load_balance_hosts=random",
        "postgres://orders:hunter2@host/orders?sslmode=%ff",
        "Postgres://orders:hunter2@host/orders",
        " postgres://orders:hunter2@host/orders",
        "mysql://orders:hunter2@host/orders",
        "host=localhost user=orders password=hunter2",
        "hunter2",
    ] {
        let refused = opened(url).expect_err(url);
        assert!(matches!(refused, OpenError::NotAUrl), "{url}: {refused:?}");
        assert!(!format!("{refused:?} {}", one_line(&refused)).contains("hunter2"), "{refused:?}");
    }
    for mode in ["", "on", "allow", "verify-ca", "Require", "require "] {
        assert!(
            matches!(
                opened(&format!("postgres://host/orders?sslmode={mode}")),
                Err(OpenError::SslMode)
            ),
            "{mode}"
        );
    }
    for mode in ["", "&sslmode=disable", "&sslmode=prefer"] {
        let refused = opened(&format!("postgres://host/orders?sslrootcert=/root.pem{mode}"));
        assert!(matches!(refused, Err(OpenError::RootWithoutVerification)), "{mode}");
    }
    assert!(matches!(
        opened("postgres://host/orders?sslmode=require&sslrootcert=/no/such/root.pem"),
        Err(OpenError::Root { .. })
    ));
}

#[tokio::test]
async fn what_libpq_understands_is_understood() {
    for url in [
        "postgres://host",
        "postgresql://host/orders",
        "postgres://orders@host/orders",
        "postgres://orders:pass:word@host:5432/orders",
        "postgres://orders:pass%40word@one:5432,two:5433,[::1]:5434/orders?target_session_attrs=read-write",
        "postgres://host/orders?application_name=other&connect_timeout=5&keepalives_idle=30&options=-c%20search_path%3Dorders",
        "postgres://host/orders?",
        "postgres://host/orders?&sslmode=disable&",
        "postgres:///orders?host=/var/run/postgresql",
        "postgres://orders@%2Fvar%2Frun%2Fpostgresql/orders",
        "postgres://name/orders?hostaddr=127.0.0.1",
    ] {
        opened(url).unwrap();
    }
}

#[tokio::test]
async fn passwords_of_any_characters_are_written_percent_encoded() {
    let database = Cluster::shared().database();
    for (number, (password, written)) in [
        ("@:/?#", "%40%3A%2F%3F%23"),
        ("100% &=+,;'\"\\", "100%25%20%26%3D%2B%2C%3B%27%22%5C"),
        ("a:b+c", "a:b+c"),
        ("пароль€", "%D0%BF%D0%B0%D1%80%D0%BE%D0%BB%D1%8C%E2%82%AC"),
        ("пароль€", "пароль€"),
    ]
    .into_iter()
    .enumerate()
    {
        let role = format!("{}_{number}", database.name);
        let quoted = password.replace('\'', "''");
        database.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD '{quoted}'; GRANT ALL ON SCHEMA public TO {role}; GRANT pg_read_all_data TO {role}"));
        let store = PostgresStore::open(&database.url_as(&role, written), 1).unwrap();
        if number == 0 {
            store.migrate().await.unwrap();
        }
        store.check().await.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever is wrong with a URL, and wherever in it a secret stands.
    #[test]
    fn no_error_repeats_a_secret(before in "(postgres(ql)?://)?[a-z@:/?#,%&=\\[\\]0-9]{0,12}", after in "[a-z@:/?#,%&=\\[\\]0-9]{0,20}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _within = runtime.enter();
        if let Err(refused) = opened(&format!("{before}HUNTER2{after}")) {
            let is_file = matches!(refused, OpenError::Root { .. });
            prop_assert!(is_file || !format!("{refused:?} {}", one_line(&refused)).contains("HUNTER2"), "{refused:?}");
        }
    }
}
