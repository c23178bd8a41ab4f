//! Hints of the form: dates, time zones, and times that occur twice.

use serde_json::{Value, json};

use super::super::{Console, of_client};
use crate::harness::order;

const DATE: &str = "/signingDetailsFormData/signingDate";
const ZIP_CODE: &str = "/signingDetailsFormData/zipcode";
const ZONE: &str = "/signingDetailsFormData/timeZoneId";

impl Console {
    async fn details(&self, details: Value) {
        self.fill(&json!({ "signingDetailsFormData": details })).await;
    }

    /// Returns the value and the note of a field.
    async fn noted(&self, pointer: &str) -> (String, String) {
        let script = "const row = document.querySelector(`[data-pointer='${arguments[0]}']`);
            return [row.querySelector('input, select').value, row.querySelector('.advice').innerText]";
        serde_json::from_value(self.browser.run(script, &[pointer]).await).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn time_zone_is_proposed_from_state_and_zip_code() {
    let console = Console::start(&[], of_client()).await;
    console.view("new").await;
    for (state, zip_code, zone, two) in [
        ("NY", "12207", "America/New_York", false),
        ("TX", "7520", "America/Chicago", true),
        ("TX", "90210", "America/Chicago", true),
        ("TX", "75201", "America/Chicago", false),
        ("TX", "79901", "America/Denver", false),
        ("fl", "32501", "America/Chicago", false),
        ("ID", "83814", "America/Los_Angeles", false),
        ("AZ", "85001", "America/Phoenix", false),
        ("HI", "96813", "Pacific/Honolulu", false),
        // The counties of these are in another zone than those around them.
        ("TN", "37388", "America/Chicago", false),
        ("TN", "37355", "America/Chicago", false),
        ("TN", "37398", "America/Chicago", false),
        ("TN", "37402", "America/New_York", false),
        ("NE", "69162", "America/Denver", false),
        ("NE", "69145", "America/Denver", false),
        ("NE", "68102", "America/Chicago", false),
        ("IN", "47586", "America/Chicago", false),
        ("IN", "46534", "America/Chicago", false),
        ("IN", "46204", "America/New_York", false),
        ("KY", "42754", "America/Chicago", false),
        ("KY", "40202", "America/New_York", false),
        ("SD", "57567", "America/Denver", false),
        ("SD", "57625", "America/Denver", false),
        ("TX", "79830", "America/Chicago", false),
        // The line between the zones divides their counties.
        ("FL", "32456", "America/New_York", true),
        ("AZ", "86045", "America/Phoenix", true),
        ("OR", "97914", "America/Denver", true),
        ("HI", "96813", "Pacific/Honolulu", false),
        ("XX", "00000", "Pacific/Honolulu", false),
    ] {
        console.details(json!({ "state": state, "zipcode": zip_code })).await;
        let (proposed, note) = console.noted(ZONE).await;
        assert_eq!((&*proposed, note.contains("two time zones")), (zone, two), "{state} {note}");
    }

    // The place of the signing counts, and a zone that the user chooses stays.
    console.details(json!({ "isPropertyAddressSame": false })).await;
    console.details(json!({ "signingState": "CA", "signingZipcode": "90001" })).await;
    assert_eq!(console.noted(ZONE).await.0, "America/Los_Angeles");
    console.details(json!({ "timeZoneId": "America/Chicago" })).await;
    console.details(json!({ "signingState": "OR" })).await;
    let (zone, note) = console.noted(ZONE).await;
    assert_eq!(zone, "America/Chicago");
    assert!(note.contains("OR 90001 is usually in Pacific time."), "{note}");
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn zip_code_of_another_state_gets_a_hint() {
    let console = Console::start(&[], of_client()).await;
    console.view("new").await;
    for (state, zip_code, hint) in [
        ("TX", "90210", "No ZIP code of TX begins with 9: check it."),
        ("tx", "1", "No ZIP code of TX begins with 1: check it."),
        ("TX", "75201", ""),
        ("TX", "88510", ""),
        ("NY", "06390", ""),
        ("XX", "90210", ""),
        ("TX", "", ""),
    ] {
        console.details(json!({ "state": state, "zipcode": zip_code })).await;
        assert_eq!(console.noted(ZIP_CODE).await.1, hint, "{state} {zip_code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unusual_dates_get_a_hint_and_are_accepted() {
    let console = Console::start(&["--duplicate-window-secs=0"], of_client()).await;
    console.view("new").await;
    let year = console.browser.run("return new Date().getFullYear()", &[]).await.as_i64().unwrap();
    for (date, hint) in [
        (format!("{}-06-15", year - 1), "This date is in the past."),
        (format!("{}-06-15", year + 2), "This date is more than a year away."),
        ("2024-07-07".to_owned(), "This is a Sunday."),
        ("2024-07-04".to_owned(), "This is Independence Day, a federal holiday."),
        ("2026-07-03".to_owned(), "Independence Day (observed)"),
        ("2021-12-31".to_owned(), "New Year’s Day (observed)"),
        ("2022-12-26".to_owned(), "Christmas Day (observed)"),
        ("2026-01-19".to_owned(), "Martin Luther King Jr. Day"),
        ("2026-02-16".to_owned(), "Washington’s Birthday"),
        ("2026-05-25".to_owned(), "Memorial Day"),
        ("2026-06-19".to_owned(), "Juneteenth"),
        ("2026-09-07".to_owned(), "Labor Day"),
        ("2026-10-12".to_owned(), "Columbus Day"),
        ("2026-11-11".to_owned(), "Veterans Day"),
        ("2026-11-26".to_owned(), "Thanksgiving Day"),
    ] {
        console.details(json!({ "signingDate": date })).await;
        let (_, note) = console.noted(DATE).await;
        assert!(note.contains(hint), "{date}: {note}");
    }
    // A Wednesday in August, which has no holiday.
    let plain = "const day = new Date();
        do day.setUTCDate(day.getUTCDate() + 1); while (day.getUTCMonth() !== 7 || day.getUTCDay() !== 3);
        return day.toISOString().slice(0, 10)";
    let plain = console.browser.run(plain, &[]).await;
    console.details(json!({ "signingDate": plain })).await;
    assert_eq!(console.noted(DATE).await.1, "");

    let mut past = order("PAST-1");
    past["signingDetailsFormData"]["signingDate"] = json!("2024-07-07");
    console.fill(&past).await;
    console.press_button("Create the order").await;
    console.browser.shows("Order 1 is created.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn utc_is_asked_only_where_a_time_occurs_twice() {
    let console = Console::start(&[], of_client()).await;
    console.view("new").await;
    console.fill(&order("TWICE-1")).await;
    let shown = "const [it] = document.getElementsByName('/utcTimeDate');
        return it.checkVisibility() ? [...it.options].slice(1).map((it) => it.value) : null";
    assert_eq!(console.browser.run(shown, &[]).await, Value::Null);
    console.details(json!({ "signingDate": "2026-11-01", "specificTime": "01:30" })).await;
    let both = json!(["2026-11-01T06:30:00Z", "2026-11-01T07:30:00Z"]);
    assert_eq!(console.browser.run(shown, &[]).await, both);
    console.browser.shows("this time occurs twice").await;
    console.enter("Time in UTC", "2026-11-01T07:30:00Z").await;
    console.details(json!({ "timeZoneId": "America/Phoenix" })).await;
    assert_eq!(console.browser.run(shown, &[]).await, Value::Null);
    console.details(json!({ "timeZoneId": "America/Chicago" })).await;
    console.enter("Time in UTC", "2026-11-01T07:30:00Z").await;
    console.press_button("Create the order").await;
    console.browser.shows("Order 1 is created.").await;
    let details = console.user.read("/api/order/1").await["details"].clone();
    assert_eq!(details["utcTimeDate"], "2026-11-01T07:30:00Z");
    assert_eq!(console.complaints().await, Vec::<String>::new());
}
