//! The agendas of today and of this week.

use serde_json::json;

use crate::{
    docs::console::{Console, ENTER, of_client, of_service},
    harness::created,
};

const DOWN: char = '\u{e015}';
const UP: char = '\u{e013}';

#[tokio::test(flavor = "multi_thread")]
async fn agenda_is_grouped_by_day_and_sorted_by_time() {
    let mut console = Console::start(&[], of_client()).await;
    console.set_time_zone("America/New_York").await;
    let mut days = Vec::new();
    for after in [0, 2, 9, 1] {
        days.push(console.date_in(after).await);
    }
    for (number, day, details) in [
        ("LATE", 0, json!({ "specificTime": "16:30" })),
        ("EAST", 0, json!({ "specificTime": "09:15", "timeZoneId": "America/New_York" })),
        ("ANY", 0, json!({ "signingTimeType": "anytime" })),
        (
            "RANGE",
            1,
            json!({ "signingTimeType": "between", "startTime": "08:00", "endTime": "12:05" }),
        ),
        ("FAR", 2, json!({})),
        ("NOON", 3, json!({ "specificTime": "12:00" })),
        ("EARLY", 3, json!({ "specificTime": "08:00" })),
    ] {
        console.create_on(number, &days[day], details).await;
    }
    let (client, service) = (console.user.clone(), console.user_on(of_service()).await);
    for side in [client, service] {
        console.change_user(&side).await;
        console.follow("Today").await;
        console.finds(&["ANY", "EAST", "LATE"]).await;
        let times = console.texts("tbody td.time").await;
        assert_eq!(times[0], "any time");
        // The viewer's own time stands beside that of another zone only.
        assert!(times[1].starts_with("9:15 AM E") && !times[1].contains('('), "{times:?}");
        assert!(times[2].starts_with("4:30 PM C"), "{times:?}");
        assert!(times[2].contains("(5:30 PM E"), "{times:?}");
        console.follow("Tomorrow").await;
        console.finds(&["EARLY", "NOON"]).await;
        console.browser.shows("2 signings, ").await;
        console.follow("Next 7 days").await;
        console.finds(&["ANY", "EAST", "LATE", "EARLY", "NOON", "RANGE"]).await;
        let headings = console.texts(".day h2").await;
        assert_eq!(headings.len(), 3);
        assert!(headings[0].starts_with("Today, ") && headings[0].ends_with("3 signings"));
        assert!(headings[1].starts_with("Tomorrow, ") && headings[2].ends_with("1 signing"));
        let times = console.texts("tbody td.time").await;
        assert!(times[5].starts_with("8:00 AM to 12:05 PM C"), "{times:?}");
        console.browser.shows("6 signings, ").await;
        // Dates lead to all orders of these days.
        console.open_filters().await;
        console.browser.click("#signing-dates").await;
        console.press_button("Tomorrow").await;
        console.finds(&["EARLY", "NOON"]).await;
        assert_eq!(console.texts(".views [aria-current]").await, ["All"]);
    }
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn agenda_follows_changes() {
    let console = Console::start(&[], of_client()).await;
    let today = console.date_in(0).await;
    console.create_on("STAYS", &today, json!({})).await;
    console.create_on("MOVES", &today, json!({ "specificTime": "15:00" })).await;
    console.follow("Today").await;
    console.finds(&["STAYS", "MOVES"]).await;
    let mut moved = crate::harness::order("MOVES");
    moved["signingDetailsFormData"]["signingDate"] = json!(console.date_in(3).await);
    let sent = console.user.request(reqwest::Method::PUT, "/api/order/2").json(&moved).send();
    assert_eq!(sent.await.unwrap().status(), 200);
    console.create_on("COMES", &today, json!({ "specificTime": "08:00" })).await;
    console.press_button("Refresh").await;
    console.finds(&["COMES", "STAYS"]).await;
    // A status is chosen without another search of the service.
    console.open_filters().await;
    console.press_button("Cancelled").await;
    console.browser.shows("0 signings found").await;
    console.user.post("/api/order/1/cancel").send().await.unwrap();
    console.press_button("Refresh").await;
    console.finds(&["STAYS"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keyboard_alone_finds_and_opens_an_order() {
    let console = Console::start(&[], of_client()).await;
    for number in ["KEY-1", "KEY-2", "KEY-3"] {
        created(console.user.order(number).await).await;
    }
    let focused = async || {
        let script = "return document.activeElement.id";
        console.browser.run(script, &[]).await.as_str().unwrap().to_owned()
    };
    console.press_button("Refresh").await;
    console.finds(&["KEY-3", "KEY-2", "KEY-1"]).await;
    console.browser.press("/").await;
    assert_eq!(focused().await, "search-text");
    console.browser.press(&format!("KEY{ENTER}")).await;
    console.browser.shows("3 orders found").await;
    console.browser.press(&DOWN.to_string()).await;
    assert_eq!(focused().await, "order-3");
    console.browser.press(&format!("{DOWN}{DOWN}{DOWN}{UP}")).await;
    assert_eq!(focused().await, "order-2");
    // A slash in a row goes to the search, and one in the search is a slash.
    console.browser.press("/a/").await;
    let text = "return document.querySelector('#search-text').value";
    assert_eq!(console.browser.run(text, &[]).await, "a/");
    console.browser.press(&format!("{DOWN}{ENTER}")).await;
    console.browser.shows("KEY-2 (order 2)").await;
    console.browser.run("history.back()", &[]).await;
    console.finds(&["KEY-3", "KEY-2", "KEY-1"]).await;
    // Back returns to the row.
    assert_eq!(focused().await, "order-2");
    // A click anywhere in a row opens the order.
    console.browser.click("tbody tr:last-child td:nth-child(4)").await;
    console.browser.shows("KEY-1 (order 1)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_have_what_a_dispatcher_asks_for_on_one_line() {
    let mut console = Console::start(&[], of_client()).await;
    let signer = "Hubert Blaine Wolfeschlegelsteinhausenbergerdorff Senior";
    let elsewhere = json!({ "signerName": signer, "isPropertyAddressSame": false,
        "signingAddress": "1 Elm St", "signingCity": "Fort Worth", "signingState": "TX" });
    console.create_on("ROW-1", "2026-12-01", elsewhere).await;
    console.sign_in_as(of_service()).await;
    console.follow("All").await;
    console.finds(&["ROW-1"]).await;
    let heads = console.texts("thead th").await;
    assert_eq!(
        heads,
        // A column without a value, such as the notary, is left out.
        ["Date and time", "File number", "Signer", "City", "Status", "Client"]
    );
    let cells = console.texts("tbody td").await;
    assert_eq!((&*cells[2], &*cells[3], &*cells[4]), (signer, "Fort Worth, TX", "New"));
    assert!(cells[0].starts_with("Tue, Dec 1") && cells[0].contains("2:30 PM CST"), "{cells:?}");
    let size = "const row = document.querySelector('tbody tr');
        const size = parseFloat(getComputedStyle(row.cells[0]).fontSize);
        return row.clientHeight < 48 && size >= 14 && size <= 15";
    assert_eq!(console.browser.run(size, &[]).await, true);
}
