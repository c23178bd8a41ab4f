//! The view Changed, the order of the rows, and the view Needs attention by its codes.

use domain::use_cases::keys::manage_keys::KeyTerms;
use reqwest::Method;
use serde_json::json;
use time::Duration;

use crate::docs::console::{Console, of_client, of_service};
use crate::harness::{created, order};

#[tokio::test(flavor = "multi_thread")]
async fn changed_orders_say_what_changed_and_are_bold_until_opened() {
    let mut console = Console::start(&[], of_client()).await;
    let client = console.user.clone();
    let service = console.user_on(of_service()).await;
    for number in ["CHANGED-1", "CHANGED-2", "CHANGED-3"] {
        created(client.order(number).await).await;
    }
    console.app.clock.advance(Duration::minutes(1));
    let mut moved = order("CHANGED-1");
    moved["signingDetailsFormData"]["signingDate"] = json!("2026-12-02");
    let sent = client.request(Method::PUT, "/api/order/1").json(&moved).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    console.app.clock.advance(Duration::minutes(1));
    let note = json!({ "text": "Gate code 12." });
    created(client.post("/api/order/3/notes").json(&note).send().await.unwrap()).await;

    console.change_user(&service).await;
    console.follow("Changed").await;
    console.finds(&["CHANGED-3", "CHANGED-1", "CHANGED-2"]).await;
    console.browser.shows("3 changed orders since yesterday, last change first").await;
    let what = console.texts("td.what").await;
    assert_eq!(what, ["Note, client", "Changed: Date of the signing, client", "Created, client"]);
    let bold = "return [...document.querySelectorAll('tr.unopened a.order')].map((it) => it.innerText).join()";
    assert_eq!(console.browser.run(bold, &[]).await, "CHANGED-3,CHANGED-1,CHANGED-2");
    assert_eq!(console.texts("[data-kind=new]").await, ["Note"]);
    console.browser.click("#order-3").await;
    console.browser.text(".timeline").await;
    console.browser.run("history.back()", &[]).await;
    console.finds(&["CHANGED-3", "CHANGED-1", "CHANGED-2"]).await;
    assert_eq!(console.browser.run(bold, &[]).await, "CHANGED-1,CHANGED-2");
    // The same mark is in every list.
    console.follow("All").await;
    console.finds(&["CHANGED-3", "CHANGED-2", "CHANGED-1"]).await;
    assert_eq!(console.browser.run(bold, &[]).await, "CHANGED-2,CHANGED-1");
    console.follow("Changed").await;
    console.finds(&["CHANGED-3", "CHANGED-1", "CHANGED-2"]).await;
    // Those that the list leaves out stay as they are: an older one unopened, and a newer one opened.
    console.enter("Search", "CHANGED-1").await;
    console.press_button("Search").await;
    console.finds(&["CHANGED-1"]).await;
    console.press_button("Mark all as opened").await;
    console.browser.lacks("tr.unopened").await;
    console.enter("Search", "").await;
    console.press_button("Search").await;
    console.finds(&["CHANGED-3", "CHANGED-1", "CHANGED-2"]).await;
    assert_eq!(console.browser.run(bold, &[]).await, "CHANGED-2");
    console.press_button("Mark all as opened").await;
    console.browser.lacks("tr.unopened").await;
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn list_is_sorted_by_each_column_and_filtered_by_notary_and_other_side() {
    let mut console = Console::start(&[], of_client()).await;
    let service = console.user_on(of_service()).await;
    for (number, signer, date) in [
        ("SORT-1", "Otto Ode", "2026-12-03"),
        ("SORT-2", "amara okafor", "2026-12-01"),
        ("SORT-3", "Jane Doe", "2026-12-02"),
    ] {
        console.create_on(number, date, json!({ "signerName": signer })).await;
    }
    let assigned = json!({ "order_status": "ASSIGNED", "notary": { "name": "Nora Tary" } });
    let sent = service.request(Method::PATCH, "/api/order/2").json(&assigned).send().await;
    assert_eq!(sent.unwrap().status(), 200);
    console.change_user(&service).await;
    console.follow("All").await;
    for (sort, found) in [
        ("signer", ["SORT-2", "SORT-3", "SORT-1"]),
        ("signer", ["SORT-1", "SORT-3", "SORT-2"]),
        ("time", ["SORT-2", "SORT-3", "SORT-1"]),
        ("time", ["SORT-1", "SORT-3", "SORT-2"]),
        ("time", ["SORT-3", "SORT-2", "SORT-1"]),
    ] {
        console.browser.click(&format!("#sort-{sort}")).await;
        console.finds(&found).await;
    }
    console.open_filters().await;
    console.browser.click("#notary-name").await;
    console.enter("Of this notary", "tary").await;
    console.browser.click("#notary-apply").await;
    console.finds(&["SORT-2"]).await;
    console.browser.shows("1 order found").await;
    assert!(console.browser.text("#search-fold").await.ends_with("(1)"));
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_fit_twelve_on_a_desk_and_four_on_a_phone() {
    let client = "Lone Star Title and Settlement Company".to_owned();
    let client = KeyTerms { client_name: Some(client), ..of_client() };
    let mut console = Console::start(&[], client).await;
    console.set_time_zone("America/Chicago").await;
    let service = console.user_on(of_service()).await;
    // It is 6:00 there: there are orders without a notary, a confirmation, documents and a result.
    let [yesterday, today] = [console.date_in(-1).await, console.date_in(0).await];
    let names = [
        "Jane Doe",
        "Alexandra Montgomery-Featherstonehaugh",
        "José Núñez",
        "Mary-Ann Smith Jones",
    ];
    for number in 1..=16_usize {
        let (date, time, status) = match number {
            5..=8 => (&today, "09:00", Some("ASSIGNED")),
            9..=12 => (&today, "07:30", Some("CONFIRMED")),
            13..=15 => (&yesterday, "14:30", Some("CONFIRMED")),
            _ => (&today, "23:00", None),
        };
        let details = json!({ "specificTime": time, "signerName": names[number % names.len()] });
        console.create_on(&format!("REFI-2026-{number:04}"), date, details).await;
        if let Some(status) = status {
            let notary = json!({ "name": "Christopher Vandenberg", "phone": "+1 214 555 0177" });
            let assigned = json!({ "order_status": status, "notary": notary });
            let path = format!("/api/order/{number}");
            let sent = service.request(Method::PATCH, &path).json(&assigned).send().await;
            assert_eq!(sent.unwrap().status(), 200);
        }
    }
    // Those of yesterday have no documents either. Now only their result is of use.
    let before =
        "UPDATE orders SET created_at = created_at - 172800000000 WHERE id IN (13, 14, 15)";
    assert!(console.app.wiring.execute(before).is_some());
    console.change_user(&service).await;
    console.browser.click("#view-attention").await;
    console.browser.shows("The signing is over, and its result is missing 3 orders").await;
    console.browser.shows("No documents, and less than 2 hours to the start 4 orders").await;
    let whole = "return [...document.querySelectorAll('tbody tr')].filter((row) => {
        const { top, bottom } = row.getBoundingClientRect();
        return top >= 0 && bottom <= innerHeight;
    }).length";
    let cut = "return [...document.querySelectorAll('tbody td > div')]
        .filter((it) => it.scrollWidth > it.clientWidth + 1).map((it) => it.innerText)";
    for view in ["attention", "today", "week", "changed", "all"] {
        console.browser.devtools("Emulation.clearDeviceMetricsOverride", json!({})).await;
        let link = format!("#view-{view}");
        console.browser.click(&link).await;
        console.browser.text(&format!("{link}[aria-current]")).await;
        console.browser.text("#order-16").await;
        for (width, height, rows) in [(1280, 720, 12), (390, 844, 4)] {
            let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
            console.browser.devtools("Emulation.setDeviceMetricsOverride", size).await;
            let shown = console.browser.run(whole, &[]).await.as_u64().unwrap();
            assert!(shown >= rows, "{view}, {width}: {shown}");
            assert_eq!(console.browser.run(cut, &[]).await, json!([]), "{view}, {width}");
        }
    }
}
