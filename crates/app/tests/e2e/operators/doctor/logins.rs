//! `doctor` on logins of companies.

use serde_json::json;
use test_servers::oidc::OidcProvider;

use crate::{operators::doctor::report::Report, wiring::Wiring};

const CLIENT: &str = "--oidc-client=Office=notary-orders";

#[test]
fn provider_is_asked_for_its_document_keys_and_clock() {
    let (wiring, provider) = (Wiring::embedded(), OidcProvider::start(&json!({})));
    let login = format!("--oidc=Office={}", provider.issuer());
    let flags = [&*login, CLIENT, "--oidc-secret=Office=passw0rd"];

    let report = Report::on(&wiring, &flags);
    let found = report.found("ok", "logins");
    let expected = format!(
        "Office: {} answers with its document and 3 keys; its clock agrees",
        provider.issuer()
    );
    assert_eq!(found, expected, "{}", report.text);
    assert!(!report.text.contains("passw0rd"), "{}", report.text);

    let other = format!("--oidc=Other={}/,Office={}", provider.issuer(), provider.issuer());
    let report = Report::on(&wiring, &[&*other, CLIENT, "--oidc-client=Other=x"]);
    let found = report.found("fail", "logins");
    assert!(found.starts_with("Other: ") && found.contains("that of the issuer"), "{found}");
    assert_eq!(report.found("ok", "logins"), expected, "{}", report.text);

    provider.stop();
    let report = Report::on(&wiring, &flags);
    let found = report.found("fail", "logins");
    assert!(found.starts_with("Office: the identity provider does not answer"), "{found}");
    assert_eq!(report.failed(), ["logins"], "{}", report.text);

    let report = Report::on(&wiring, &[&*login]);
    let found = report.found("fail", "logins");
    assert!(found.contains("--oidc-client") && found.contains("add Office="), "{found}");
}

#[test]
fn address_where_browsers_forbid_passkeys_is_a_warning() {
    let wiring = Wiring::embedded();
    let report = Report::on(&wiring, &["--public-url=http://orders.example.com"]);
    assert!(report.found("warn", "passkeys").contains("do not work"), "{}", report.text);
    let report = Report::on(&wiring, &["--public-url=https://orders.example.com"]);
    assert_ne!(report.found("ok", "passkeys"), "", "{}", report.text);
}
