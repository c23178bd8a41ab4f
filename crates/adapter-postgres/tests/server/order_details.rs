//! The view `order_details`, which operators read with SQL.

use contract_tests::samples::{NOW, WINDOW, new_order, order};
use domain::ports::{NewOrder, OrderRepo as _};
use serde_json::{Value, json};
use tokio_postgres::Client;

use super::{outsider, store};

const GOLDEN: [&str; 3] = [
    include_str!("../../../domain/golden/order-v1-minimal.json"),
    include_str!("../../../domain/golden/order-v1-anytime.json"),
    include_str!("../../../domain/golden/order-v1-full.json"),
];

/// Columns that hold a value of the request as it is: column, JSON pointer.
const COPIED: [(&str, &str); 49] = [
    ("signing_service_id", "/signingServiceId"),
    ("file_number", "/signingDetailsFormData/fileNumber"),
    ("order_contact_email", "/signingContactsFormData/orderContactEmail"),
    ("client_company_id", "/signingContactsFormData/clientCompanyId"),
    ("observer_email", "/signingContactsFormData/observer"),
    ("in_house_contact_name", "/signingContactsFormData/inHouseContact/contact_name"),
    ("in_house_contact_phone", "/signingContactsFormData/inHouseContact/contact_phone"),
    ("in_house_contact_email", "/signingContactsFormData/inHouseContact/contact_email"),
    ("in_house_contact2_name", "/signingContactsFormData/inHouseContact2/contact_name"),
    ("in_house_contact2_phone", "/signingContactsFormData/inHouseContact2/contact_phone"),
    ("in_house_contact2_email", "/signingContactsFormData/inHouseContact2/contact_email"),
    ("signing_date", "/signingDetailsFormData/signingDate"),
    ("time_zone_id", "/signingDetailsFormData/timeZoneId"),
    ("signing_time_type", "/signingDetailsFormData/signingTimeType"),
    ("property_address", "/signingDetailsFormData/propertyAddress"),
    ("property_city", "/signingDetailsFormData/city"),
    ("property_zipcode", "/signingDetailsFormData/zipcode"),
    ("signing_type", "/signingDetailsFormData/signingType"),
    ("signer_name", "/signingDetailsFormData/signerName"),
    ("signer_phone", "/signingDetailsFormData/signerPhone"),
    ("signer_email", "/signingDetailsFormData/signerEmail"),
    ("spouse_name", "/signingDetailsFormData/spouseName"),
    ("co_signer_name", "/signingDetailsFormData/coSignerName"),
    ("co_signer_spouse_name", "/signingDetailsFormData/coSignerSpouseName"),
    ("co_signer_phone", "/signingDetailsFormData/coSignerPhone"),
    ("co_signer_email", "/signingDetailsFormData/coSignerEmail"),
    ("esigning_platform", "/signingDetailsFormData/esigningPlatform"),
    ("document_delivery", "/signingDetailsFormData/documentDelivery"),
    ("lender", "/signingDetailsFormData/lender"),
    ("special_instructions", "/signingDetailsFormData/specialInstructions"),
    ("loan_officer_name", "/signingDetailsFormData/loanOfficer/contact_name"),
    ("loan_officer_phone", "/signingDetailsFormData/loanOfficer/contact_phone"),
    ("loan_officer_email", "/signingDetailsFormData/loanOfficer/contact_email"),
    ("invoice_company_name", "/signingDetailsFormData/invoiceOrderTo/company_name"),
    ("invoice_address", "/signingDetailsFormData/invoiceOrderTo/invoice_address"),
    ("invoice_city", "/signingDetailsFormData/invoiceOrderTo/city"),
    ("invoice_state", "/signingDetailsFormData/invoiceOrderTo/state"),
    ("invoice_zipcode", "/signingDetailsFormData/invoiceOrderTo/zipcode"),
    ("invoice_name", "/signingDetailsFormData/invoiceName"),
    ("invoice_phone", "/signingDetailsFormData/invoicePhone"),
    ("invoice_email", "/signingDetailsFormData/invoiceEmail"),
    ("invoice_fee", "/signingDetailsFormData/invoiceFee"),
    ("notary_pay", "/signingDetailsFormData/notaryPay"),
    ("requested_by_user_id", "/requestedBy/userId"),
    ("requested_by_user_role", "/requestedBy/userRole"),
    ("requested_by_signing_service_id", "/requestedBy/signingServiceId"),
    ("notary_id", "/none"),
    ("scanbacks_required", "/signingDetailsFormData/scanbacksRequired"),
    ("ron_signing", "/signingDetailsFormData/ronSigning"),
];

/// Returns the row that the view must have for a golden file.
fn expected(golden: &Value, id: i64) -> Value {
    let request = &golden["request"];
    let details = &request["signingDetailsFormData"];
    let mut row: Value = COPIED
        .iter()
        .map(|(column, pointer)| {
            ((*column).to_owned(), request.pointer(pointer).cloned().unwrap_or(Value::Null))
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let or = |name: &str, default: Value| match &details[name] {
        Value::Null => default,
        value => value.clone(),
    };
    let upper = |state: Value| json!(state.as_str().unwrap().to_uppercase());
    let (start, end) = match details["signingTimeType"].as_str().unwrap() {
        "at" => ("specificTime", "none"),
        "between" => ("startTime", "endTime"),
        _ => ("none", "none"),
    };
    let time = |name| details[name].as_str().map(|time| format!("{time}:00"));
    let instant = |name| golden["columns"][name].as_str().map(|at| at.replace('Z', "+00:00"));
    for (column, value) in [
        ("order_id", json!(id)),
        ("client_id", json!(3)),
        ("api_key_id", json!(4)),
        ("order_status", json!("NEW")),
        ("is_test", json!(false)),
        ("start_time", json!(time(start))),
        ("end_time", json!(time(end))),
        ("starts_at", json!(instant("starts_at"))),
        ("ends_at", json!(instant("ends_at"))),
        ("property_state", upper(details["state"].clone())),
        ("is_property_address_same", or("isPropertyAddressSame", json!(true))),
        ("signing_address", or("signingAddress", details["propertyAddress"].clone())),
        ("signing_city", or("signingCity", details["city"].clone())),
        ("signing_state", upper(or("signingState", details["state"].clone()))),
        ("signing_zipcode", or("signingZipcode", details["zipcode"].clone())),
        ("language", or("language", json!("en"))),
        ("scanbacks_required", or("scanbacksRequired", json!(false))),
        ("ron_signing", or("ronSigning", json!(false))),
        ("created_at", json!("2026-11-21T12:00:00.123456+00:00")),
        ("updated_at", json!("2026-11-21T12:00:00.123456+00:00")),
    ] {
        row[column] = value;
    }
    row
}

async fn row(client: &Client, id: i64) -> Value {
    let query = "SELECT row_to_json(o)::text FROM order_details o WHERE order_id = $1";
    serde_json::from_str(client.query_one(query, &[&id]).await.unwrap().get(0)).unwrap()
}

fn new(golden: &Value) -> NewOrder {
    NewOrder { order: order(golden["request"].clone()), ..new_order("F-1", NOW) }
}

#[tokio::test]
async fn view_has_every_field_as_requested() {
    let (store, database) = store().await;
    let client = outsider(&database).await;
    client.batch_execute("SET timezone = 'UTC'").await.unwrap();
    for golden in GOLDEN {
        let golden: Value = serde_json::from_str(golden).unwrap();
        let at = NOW + time::Duration::ZERO;
        // The golden files share a file number.
        let id = store
            .create(&new(&golden), domain::duplicate_window::DuplicateWindow(NOW - at))
            .await
            .unwrap();
        assert_eq!(row(&client, id.0).await, expected(&golden, id.0));
    }
}

/// Returns the paths of all values that are not objects.
fn leaves(value: &Value) -> Vec<Vec<String>> {
    let Value::Object(members) = value else { return vec![Vec::new()] };
    let below = |(name, value): (&String, &Value)| {
        let name = name.clone();
        leaves(value).into_iter().map(move |rest| [vec![name.clone()], rest].concat())
    };
    members.iter().flat_map(below).collect()
}

#[tokio::test]
async fn every_member_of_details_has_a_column() {
    let (store, database) = store().await;
    let mut client = outsider(&database).await;
    let golden: Value = serde_json::from_str(GOLDEN[2]).unwrap();
    let id = store.create(&new(&golden), WINDOW).await.unwrap().0;
    let whole = row(&client, id).await;
    let leaves = leaves(&golden["details"]);
    assert!(leaves.len() > 40);
    for member in leaves.into_iter().filter(|member| *member != ["v"]) {
        let transaction = client.transaction().await.unwrap();
        let remove = "UPDATE orders SET details = details #- $1 WHERE id = $2";
        assert_eq!(transaction.execute(remove, &[&member, &id]).await.unwrap(), 1);
        let query = "SELECT row_to_json(o)::text FROM order_details o WHERE order_id = $1";
        let without: String = transaction.query_one(query, &[&id]).await.unwrap().get(0);
        let without: Value = serde_json::from_str(&without).unwrap();
        assert_ne!(without, whole, "no column of order_details has {member:?}");
        transaction.rollback().await.unwrap();
    }
}
