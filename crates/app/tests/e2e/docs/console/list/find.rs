//! The search of the list, and its address.

use serde_json::json;

use crate::docs::console::{Console, TAB, of_client, of_service};
use crate::harness::{Api, created, order};

/// Creates three orders: of Jane and Amara, and one that is cancelled.
async fn create_orders(client: &Api) {
    for (number, signer, date) in [
        ("FIND-1", "Jane Doe", "2026-12-01"),
        ("FIND-2", "Amara Okafor", "2026-12-02"),
        ("LOST-3", "Jane Roe", "2026-12-03"),
    ] {
        let mut order = order(number);
        order["signingDetailsFormData"]["signerName"] = json!(signer);
        order["signingDetailsFormData"]["signerEmail"] = json!("signer@example.com");
        order["signingDetailsFormData"]["signingDate"] = json!(date);
        created(client.create(&order).await).await;
    }
    let cancelled = client.post("/api/order/3/cancel").send().await.unwrap();
    assert_eq!(cancelled.status(), 200);
}

impl Console {
    /// Opens the filters of the list, if they are folded away.
    pub(in crate::docs::console) async fn open_filters(&self) {
        let script = "const fold = document.getElementById('search-fold');
            if (fold?.ariaExpanded === 'false') fold.click();
            return fold ? true : null;";
        self.browser.wait_for(script, "").await;
    }

    pub(in crate::docs::console) async fn finds(&self, numbers: &[&str]) {
        let script =
            "const found = [...document.querySelectorAll('tbody a.order')].map((it) => it.innerText);
            const list = document.querySelector('.list');
            return list && !list.ariaBusy && JSON.stringify(found) === arguments[0] || null;";
        self.browser.wait_for(script, &json!(numbers).to_string()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_find_orders_by_text_status_and_dates() {
    let mut console = Console::start(&[], of_client()).await;
    let client = console.user.clone();
    create_orders(&client).await;
    let service = console.user_on(of_service()).await;
    let all = ["LOST-3", "FIND-2", "FIND-1"];
    for side in [client, service] {
        console.change_user(&side).await;
        console.follow("All").await;
        console.finds(&all).await;
        console.enter("Search", "jane").await;
        console.press_button("Search").await;
        console.finds(&["LOST-3", "FIND-1"]).await;
        console.open_filters().await;
        console.press_button("New").await;
        console.finds(&["FIND-1"]).await;
        console.press_button("Assigned").await;
        console.finds(&["FIND-1"]).await;
        console.enter("Search", "").await;
        console.browser.click("#signing-dates").await;
        console.enter("Signing from", "2026-12-02").await;
        console.enter("Signing until", "2026-12-02").await;
        console.press_button("Search").await;
        console.finds(&["FIND-2"]).await;
        // The orders are of the 21st, also in the time zone of the browser.
        for (day, found) in [("2026-11-20", &[][..]), ("2026-11-21", &["FIND-2"])] {
            console.browser.run("document.getElementById('created-chip').open = true", &[]).await;
            console.enter("Created from (your time)", day).await;
            console.enter("Created until (your time)", day).await;
            console.press_button("Search").await;
            console.finds(found).await;
        }
        console.browser.run("document.getElementById('signing-chip').open = true", &[]).await;
        console.enter("Signing from", "2026-12-03").await;
        console.press_button("Search").await;
        console.browser.shows("Signing until must not be before the first day").await;
        console.enter("Signing from", "2026-12-02").await;
        console.browser.run("document.getElementById('created-chip').open = true", &[]).await;
        console.enter("Created from (your time)", "2026-11-22").await;
        console.press_button("Search").await;
        console.browser.shows("Created until (your time) must not be before the first day").await;
        console.press_button("Clear the filters").await;
        console.finds(&all).await;
        // Two characters are a whole file number.
        console.enter("Search", "FI").await;
        console.press_button("Search").await;
        console.browser.shows("Enter 3 characters or more, or a whole file number.").await;
        assert_eq!(console.complaints().await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn search_in_a_view_leads_to_all_orders() {
    let mut console = Console::start(&[], of_client()).await;
    create_orders(&console.user).await;
    console.sign_in_as(of_service()).await;
    console.browser.shows("2 new orders").await;
    let links = "return document.querySelectorAll('main a[href*=\"view=all\"]').length";
    // The view itself has one link.
    assert_eq!(console.browser.run(links, &[]).await, 1);
    for (text, shown, found) in [
        ("LOST-3", "No order matches.", &["LOST-3"][..]),
        ("jane", "1 new order found", &["LOST-3", "FIND-1"]),
    ] {
        console.follow("New").await;
        console.enter("Search", text).await;
        console.press_button("Search").await;
        console.browser.shows(shown).await;
        console.follow("Search all orders").await;
        console.finds(found).await;
        console.open_filters().await;
        console.press_button("Clear the filters").await;
    }
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn menu_of_dates_closes_after_a_choice_and_a_step_elsewhere() {
    let console = Console::start(&[], of_client()).await;
    let browser = &console.browser;
    create_orders(&console.user).await;
    let state = "return [document.getElementById('signing-chip').open, document.activeElement.id]";
    let open = "#signing-dates";
    console.open_filters().await;
    browser.click(open).await;
    console.press_button("Tomorrow").await;
    console.finds(&[]).await;
    assert_eq!(browser.run(state, &[]).await, json!([false, "signing-dates"]));
    browser.click(open).await;
    console.press_button("Any day").await;
    console.finds(&["LOST-3", "FIND-2", "FIND-1"]).await;
    assert_eq!(browser.run(state, &[]).await, json!([false, "signing-dates"]));
    browser.click(open).await;
    browser.click("h1").await;
    assert_eq!(browser.run(state, &[]).await[0], false);
    // The quick choices are the first stops of the menu.
    browser.click(open).await;
    browser.press(&format!("{TAB}{TAB}")).await;
    assert_eq!(browser.run(state, &[]).await, json!([true, "signing-Tomorrow"]));
    browser.run("document.getElementById('search-text').focus()", &[]).await;
    assert_eq!(browser.run(state, &[]).await, json!([false, "search-text"]));
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn address_keeps_the_search_for_back_reload_and_sent_links() {
    let mut console = Console::start(&[], of_client()).await;
    let client = console.user.clone();
    create_orders(&client).await;
    console.enter("Search", "Jane").await;
    console.press_button("Search").await;
    console.finds(&["LOST-3", "FIND-1"]).await;
    console.open_filters().await;
    console.press_button("Cancelled").await;
    console.finds(&["LOST-3"]).await;
    console.browser.run("history.back()", &[]).await;
    console.finds(&["LOST-3", "FIND-1"]).await;
    console.browser.run("history.forward()", &[]).await;
    console.finds(&["LOST-3"]).await;
    let address = console.browser.run("return location.href", &[]).await;
    let address = address.as_str().unwrap().to_owned();
    assert!(
        address.ends_with("/console#/orders?view=all&search=Jane&order_status=CANCELLED"),
        "{address}"
    );

    console.browser.run("location.reload()", &[]).await;
    console.finds(&["LOST-3"]).await;
    console.browser.click("#order-3").await;
    console.browser.text(".timeline").await;
    console.browser.run("history.back()", &[]).await;
    console.finds(&["LOST-3"]).await;

    // Another user opens the link.
    console.browser.click("#header > button").await;
    console.browser.shows("Sign in").await;
    console.browser.open("about:blank").await;
    console.browser.open(&address).await;
    let service = console.user_on(of_service()).await;
    console.sign_in(&service.key).await;
    console.user = service;
    console.finds(&["LOST-3"]).await;
    let pressed = "return document.getElementById('status-CANCELLED').ariaPressed";
    assert_eq!(console.browser.run(pressed, &[]).await, "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn search_goes_on_where_a_page_is_empty() {
    let console = Console::start(&[], of_client()).await;
    create_orders(&console.user).await;
    // As if the service had read its most orders before it found one.
    let stop = "const send = window.fetch;
        window.fetch = async (address, request) => {
            if (!/search=jane/.test(address) || /starting_after/.test(address)) return send(address, request);
            const link = '</api/order?limit=100&search=jane&starting_after=2>; rel=\"next\"';
            return new Response('{\"data\":[],\"has_more\":true}', { headers: { link } });
        };";
    console.browser.run(stop, &[]).await;
    console.enter("Search", "jane").await;
    console.press_button("Search").await;
    console.browser.shows("No order matches so far.").await;
    console.press_button("Search further").await;
    console.finds(&["FIND-1"]).await;
    let more = "return document.querySelector('.list + .buttons').checkVisibility() &&
        document.querySelector('.list + .buttons button').checkVisibility()";
    assert_eq!(console.browser.run(more, &[]).await, false);
}
