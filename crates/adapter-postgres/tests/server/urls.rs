//! URLs of databases: valid and invalid ones, and errors without their secrets.

use adapter_postgres::{OpenError, PostgresStore};
use domain::ports::OrderRepo as _;
use proptest::prelude::*;
use test_servers::postgres::Cluster;

use super::{GENEROUS, log_line, open};

fn opened(url: &str) -> Result<(), OpenError> {
    PostgresStore::open(url, 1, GENEROUS).map(drop)
}

#[tokio::test]
async fn invalid_url_is_rejected_without_its_secret() {
    for url in [
        "",
        "postgres://",
        "postgres:///hunter2",
        "postgres://orders:hunter2@",
        "postgres://orders:hunter2@/orders",
        "postgres://orders:hunter2@host:port/orders",
        "postgres://orders:hunter2@host:65536/orders",
        "postgres://orders:hunter2@host:5432:5432/orders",
        "postgres://orders:hunter2@[::1/orders",
        "postgres://orders:hunter2@[::1]5432/orders",
        "postgres://orders:hunter2@x@host/orders",
        "postgres://orders:hunter2?x@host/orders",
        "postgres://orders:hunter2@host/%ff",
        "postgres://orders:hunter2@host/orders?application_name",
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
        let rejected = opened(url).expect_err(url);
        assert!(matches!(rejected, OpenError::NotAUrl), "{url}: {rejected:?}");
        assert!(
            !format!("{rejected:?} {}", log_line(&rejected)).contains("hunter2"),
            "{rejected:?}"
        );
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
        let rejected = opened(&format!("postgres://host/orders?sslrootcert=/root.pem{mode}"));
        assert!(matches!(rejected, Err(OpenError::RootWithoutVerification)), "{mode}");
    }
    assert!(matches!(
        opened("postgres://host/orders?sslmode=require&sslrootcert=/no/such/root.pem"),
        Err(OpenError::Root { .. })
    ));
}

#[tokio::test]
async fn error_names_the_parameter_and_not_its_value() {
    for name in [
        "pgbouncer",
        "schema",
        "sslcert",
        "connection_limit",
        "currentSchema",
        "unknown",
        // Those of JDBC, Npgsql, node-postgres, R2DBC and Sequelize.
        "prepareThreshold",
        "socketTimeout",
        "ApplicationName",
        "reWriteBatchedInserts",
        "sslMode",
        "MaxPoolSize",
        "connectionTimeoutMillis",
        "statement-cache-size",
        "pool.max",
    ] {
        let rejected = opened(&format!("postgres://o:pw@host/orders?{name}=hunter2")).unwrap_err();
        let text = log_line(&rejected);
        assert!(text.contains(&format!("the parameter {name} is not known")), "{text}");
        assert!(!format!("{rejected:?} {text}").contains("hunter2"), "{rejected:?}");
    }
    for parameter in ["connect_timeout=soon", "target_session_attrs=primary", "keepalives=hunter2"]
    {
        let rejected = opened(&format!("postgres://host/orders?{parameter}")).unwrap_err();
        let (name, value) = parameter.split_once('=').unwrap();
        let text = log_line(&rejected);
        assert!(text.contains(&format!("the parameter {name} ")), "{text}");
        assert!(!text.contains(value), "{text}");
    }
}

#[tokio::test]
async fn system_names_the_certificates_of_the_system() {
    for mode in ["", "&sslmode=verify-full"] {
        let opened = opened(&format!("postgres://host/orders?sslrootcert=system{mode}"));
        assert!(matches!(opened, Ok(()) | Err(OpenError::NoRoot)), "{mode}: {opened:?}");
    }
    for mode in ["disable", "prefer", "require"] {
        let opened = opened(&format!("postgres://host/orders?sslrootcert=system&sslmode={mode}"));
        assert!(matches!(opened, Err(OpenError::SystemRootsWithoutVerification)), "{mode}");
    }
}

#[tokio::test]
async fn urls_of_libpq_are_accepted() {
    for url in [
        "postgres://host",
        "postgres://orders:pass:word@host:5432/orders",
        "postgres://orders:pass%40word@one:5432,two:5433,[::1]:5434/orders?\
        target_session_attrs=read-write",
        "postgres://host/orders?application_name=other&connect_timeout=5&keepalives_idle=30&\
        options=-c%20search_path%3Dorders",
        "postgres://host/orders?&sslmode=disable&",
        "postgres:///orders?host=/var/run/postgresql",
        "postgres://orders@%2Fvar%2Frun%2Fpostgresql/orders",
        "postgres://name/orders?hostaddr=127.0.0.1",
    ] {
        opened(url).unwrap();
    }
}

#[tokio::test]
async fn password_may_be_percent_encoded() {
    let database = Cluster::shared().database();
    for (number, (password, written)) in [
        ("@:/?#", "%40%3A%2F%3F%23"),
        ("100% &=+,;'\"\\", "100%25%20%26%3D%2B%2C%3B%27%22%5C"),
        ("пароль€", "%D0%BF%D0%B0%D1%80%D0%BE%D0%BB%D1%8C%E2%82%AC"),
        ("пароль€", "пароль€"),
    ]
    .into_iter()
    .enumerate()
    {
        let role = format!("{}_{number}", database.name);
        let quoted = password.replace('\'', "''");
        database.sql(&format!(
            "CREATE ROLE {role} LOGIN PASSWORD '{quoted}'; GRANT ALL ON SCHEMA public TO {role}; \
            GRANT pg_read_all_data TO {role}"
        ));
        let store = open(&database.url_as(&role, written), 1);
        if number == 0 {
            store.migrate().await.unwrap();
        }
        store.check().await.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Tries any fault of a URL, with a secret at any position.
    #[test]
    fn no_error_contains_a_secret(
        before in "(postgres(ql)?://)?[a-z@:/?#,%&=\\[\\]0-9]{0,12}",
        after in "[a-z@:/?#,%&=\\[\\]0-9]{0,20}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _within = runtime.enter();
        if let Err(rejected) = opened(&format!("{before}HUNTER2{after}")) {
            let is_file = matches!(rejected, OpenError::Root { .. });
            let texts = format!("{rejected:?} {}", log_line(&rejected));
            prop_assert!(is_file || !texts.contains("HUNTER2"), "{rejected:?}");
        }
    }
}
