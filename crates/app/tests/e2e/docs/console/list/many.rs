//! The work list with many orders.

use std::{path::Path, time::Duration};

use domain::order::READ_HISTORY;
use serde_json::json;

use crate::{
    docs::console::{Console, of_client, of_service},
    harness::{created, eventually_async},
};

/// Time limit of an action that reads thousands of orders.
const LONG: Duration = Duration::from_secs(300);

impl Console {
    /// Adds copies of every order.
    fn copy_orders(&self, copies: usize) {
        let copy = format!(
            "WITH RECURSIVE numbers (value) AS
                (SELECT 1 UNION ALL SELECT value + 1 FROM numbers WHERE value < {copies})
            INSERT INTO orders (client_id, api_key_id, signing_service_id, created_at, updated_at,
                is_test, holds_file_number, file_number, status, details, signing_date,
                search_text, starts_at)
            SELECT client_id, api_key_id, signing_service_id, created_at, updated_at, is_test,
                FALSE, file_number, status, details, signing_date, search_text,
                starts_at FROM orders, numbers"
        );
        assert!(self.app.wiring.execute(&copy).is_some());
    }

    async fn downloads_to(&self, folder: &Path) {
        let to = json!({ "behavior": "allow", "downloadPath": folder });
        self.browser.devtools("Browser.setDownloadBehavior", to).await;
    }

    /// Returns the number of rows, and of all elements.
    async fn size(&self) -> (u64, u64) {
        let script = "return [document.querySelectorAll('tbody tr').length,
            document.querySelectorAll('*').length]";
        let size = self.browser.run(script, &[]).await;
        (size[0].as_u64().unwrap(), size[1].as_u64().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_is_hidden_among_two_thousand() {
    let mut console = Console::start(&[], of_client()).await;
    let today = console.date_in(0).await;
    console.create_on("OLDEST", &today, json!({ "specificTime": "23:00" })).await;
    console.create_on("OTHER", &console.date_in(30).await, json!({})).await;
    console.copy_orders(999);
    console.create_on("NEWEST", &today, json!({ "specificTime": "00:01" })).await;
    console.sign_in_as(of_service()).await;
    // New orders are the oldest first.
    console.browser.shows("100 new orders, oldest first; more follow").await;
    assert_eq!(console.texts("tbody a").await[0], "OLDEST");
    console.press_button("Show more orders").await;
    console.browser.shows("200 new orders, oldest first").await;
    // The scroll loads more, and the page stays small.
    let scroll = "scrollTo(0, document.body.scrollHeight);
        const last = [...document.querySelectorAll('tbody a')].at(-1);
        return Number(last.id.replace('order-', '')) >= Number(arguments[0]) || null";
    for id in [400, 800, 1_200, 1_600, 2_001] {
        console.browser.wait_for(scroll, &id.to_string()).await;
    }
    assert!(console.texts("tbody a").await.contains(&"NEWEST".to_owned()));
    let (rows, elements) = console.size().await;
    assert!(rows <= 500 && elements < 20_000, "{rows} {elements}");
    console.press_button("Show the orders before").await;
    console.browser.shows("500 new orders, oldest first").await;

    console.follow("Today").await;
    console.browser.shows("1,001 signings").await;
    assert_eq!(console.texts("tbody a").await[0], "NEWEST");
    assert!(console.size().await.0 <= 500);
    let downloads = tempfile::tempdir().unwrap();
    console.downloads_to(downloads.path()).await;
    console.press_button("Download as CSV").await;
    let saved = downloads.path().join(format!("orders-today-{today}.csv"));
    // The page reads each order whole.
    let saving = async {
        while !saved.exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, saving).await.unwrap();
    let csv = std::fs::read_to_string(&saved).unwrap();
    assert_eq!(csv.lines().count(), 1_002);
    assert!(csv.starts_with("\u{feff}Order number,File number,Status,"));
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_and_print_have_the_list() {
    let console = Console::start(&[], of_client()).await;
    let names = json!({ "signerName": "Jane \"JD\", Doe", "coSignerName": "Ann \"=1\"" });
    console.create_on("=1+1", "2026-12-01", names).await;
    console.create_on("OUT-2", "2026-12-02", json!({})).await;
    // A read of the order has no room for its creation.
    let assign = |notary: usize| format!("UPDATE orders SET notary_id = {notary} WHERE id = 1");
    let changes = (1..=READ_HISTORY).map(assign).collect::<Vec<_>>().join("; ");
    assert!(console.app.wiring.execute(&changes).is_some());
    console.enter("Search", "jane \"jd\"").await;
    console.press_button("Search").await;
    console.browser.shows("1 order found").await;
    let downloads = tempfile::tempdir().unwrap();
    console.downloads_to(downloads.path()).await;
    console.press_button("Download as CSV").await;
    console.browser.shows("1 order saved as CSV.").await;
    let saved = downloads.path().join(format!("orders-all-{}.csv", console.date_in(0).await));
    eventually_async(async || saved.exists()).await;
    let csv = std::fs::read_to_string(&saved).unwrap();
    let line = csv.lines().nth(1).unwrap();
    assert!(line.starts_with("1,'=1+1,NEW,Refinance,2026-12-01,14:30,,"), "{csv}");
    let address = "\"123 Main St, Dallas, TX 75201\"";
    assert!(line.contains(&format!("{address},Dallas,TX,{address}")), "{csv}");
    assert!(line.contains("\"Jane \"\"JD\"\", Doe\",(555) 010-0199"), "{csv}");
    assert!(line.contains(",\"Ann \"\"'=1\"\"\","), "{csv}");
    assert_eq!(line.rsplit(',').nth(2), Some("test"), "the name of the key that created it: {csv}");

    let print = "window.print = () => (window.printed = true);";
    console.browser.run(print, &[]).await;
    console.press_button("Print").await;
    assert_eq!(console.browser.run("return window.printed", &[]).await, true);
    let media = json!({ "media": "print" });
    console.browser.devtools("Emulation.setEmulatedMedia", media).await;
    let visible = "return ['#header', 'form.search', '.tools', 'table'].map((it) =>
        document.querySelector(it).checkVisibility())";
    let shown = console.browser.run(visible, &[]).await;
    assert_eq!(shown, json!([false, false, false, true]));
    // Each order is a row of a table with whole texts, also on a narrow sheet.
    let size = json!({ "width": 720, "height": 900, "deviceScaleFactor": 1, "mobile": false });
    console.browser.devtools("Emulation.setDeviceMetricsOverride", size).await;
    let row = "const row = document.querySelector('tbody tr');
        const cut = [...row.querySelectorAll('td > div')].filter((it) => it.scrollWidth > it.clientWidth + 1);
        return [getComputedStyle(row).display, cut.length];";
    assert_eq!(console.browser.run(row, &[]).await, json!(["table-row", 0]));
}

/// A spreadsheet makes no date or other number of them, and a program that trims reads them.
#[tokio::test(flavor = "multi_thread")]
async fn texts_that_look_like_dates_end_with_a_tab_in_csv() {
    let console = Console::start(&[], of_client()).await;
    let numbers =
        ["3/2026", "Dec-5", "1-2", "007", "1.e5", ".5", "3/4/2026 8:30", "GF-2026-114", "75201"];
    // A phone of another country is no number, and a street may begin with the name of its city.
    let details = json!({
        "signerName": "May 5", "signerPhone": "442071234567", "propertyAddress": "9 Dallas Pkwy"
    });
    for number in numbers {
        console.create_on(number, "2026-12-01", details.clone()).await;
    }
    console.press_button("Refresh").await;
    console.browser.text("#order-9").await;
    let downloads = tempfile::tempdir().unwrap();
    console.downloads_to(downloads.path()).await;
    console.press_button("Download as CSV").await;
    console.browser.shows("9 orders saved as CSV.").await;
    let saved = downloads.path().join(format!("orders-all-{}.csv", console.date_in(0).await));
    eventually_async(async || saved.exists()).await;
    let csv = std::fs::read(&saved).unwrap();
    let csv = str::from_utf8(&csv).unwrap();
    let lines: Vec<_> = csv.split("\r\n").skip(1).take(numbers.len()).collect();
    for (id, number) in (1..).zip(numbers) {
        let is_kept = ["GF-2026-114", "75201"].contains(&number);
        let cell = if is_kept { number.to_owned() } else { format!("\"{number}\t\"") };
        let begin = format!("{id},{cell},NEW,Refinance,2026-12-01,14:30,,America/Chicago,");
        let line = lines[numbers.len() - id];
        assert!(line.starts_with(&begin), "{line:?}");
        assert!(line.contains(",\"May 5\t\",\"442071234567\t\","), "{line:?}");
        assert!(line.contains(",\"9 Dallas Pkwy, Dallas, TX 75201\","), "{line:?}");
    }
}

/// The page says so before.
#[tokio::test(flavor = "multi_thread")]
async fn csv_and_print_of_a_long_list_are_bounded() {
    let console = Console::start(&["--rate-per-second=0"], of_client()).await;
    console.create_on("LONG", "2026-12-01", json!({})).await;
    console.copy_orders(5_004);
    console.press_button("Refresh").await;
    console.browser.shows("100 orders, newest first; more follow").await;
    let shows = "return document.body.innerText.includes(arguments[0]) || null";
    for (label, question) in
        [("Download as CSV", "Save 5,000 orders?"), ("Print", "Print 2,000 orders?")]
    {
        console.press_button(label).await;
        console.browser.wait_within(LONG, shows, question).await;
        console.browser.shows("The list has more: filter it by dates").await;
        console.press_button("Back").await;
        console.browser.lacks("dialog").await;
    }
    assert_eq!(console.complaints().await, Vec::<String>::new());
}

/// The page remembers a thousand one by one.
#[tokio::test(flavor = "multi_thread")]
async fn number_of_new_orders_is_bounded() {
    let console = Console::start(&["--rate-per-second=0"], of_client()).await;
    console.news_begin().await;
    console.create_on("BURST", "2026-12-01", json!({})).await;
    console.browser.shows("Show 1 new order").await;
    console.copy_orders(1_200);
    console.browser.shows("Show 1,000 or more new orders").await;
    console.press_button("Show 1,000 or more new orders").await;
    console.browser.lacks("#news-show").await;
    assert_eq!(console.texts(".views [aria-current]").await, ["All"]);
}

/// Its user goes on, as in a search.
#[tokio::test(flavor = "multi_thread")]
async fn list_stops_after_many_pages_without_an_order() {
    let console = Console::start(&[], of_client()).await;
    let empty = "const real = window.fetch;
        window.asked = 0;
        window.fetch = (url, init) => {
            const next = new URL(url);
            if (!next.searchParams.has('attention')) return real(url, init);
            next.searchParams.set('starting_after', ++window.asked);
            const headers = { link: `<${next.pathname}${next.search}>; rel=\"next\"` };
            const body = JSON.stringify({ object: 'list', url: '', has_more: true, data: [] });
            return Promise.resolve(new Response(body, { headers }));
        };";
    console.browser.run(empty, &[]).await;
    console.browser.click("#view-attention").await;
    console.browser.shows("There are others: search further.").await;
    console.browser.shows("Search further").await;
    assert_eq!(console.browser.text("#view-attention .number").await.trim(), "0+");
    let asked = console.browser.run("return window.asked", &[]).await.as_u64().unwrap();
    assert!(asked <= 11 + 2 * 20, "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_orders_appear_without_moving_what_the_user_reads() {
    let console = Console::start(&[], of_client()).await;
    console.news_begin().await;
    for number in ["READ-1", "READ-2"] {
        created(console.user.order(number).await).await;
    }
    console.press_button("Refresh").await;
    console.browser.text("#order-2").await;
    let top = async |id: &str| {
        let script =
            "return document.getElementById(arguments[0])?.getBoundingClientRect().top ?? null";
        console.browser.wait_for(script, id).await.as_f64().unwrap()
    };
    let before = top("order-2").await;
    for number in ["READ-3", "READ-4"] {
        created(console.user.order(number).await).await;
    }
    console.press_button("Refresh").await;
    assert!(top("order-4").await < top("order-2").await);
    assert!((top("order-2").await - before).abs() <= 1.0);
    // What came above is told, and one click away, if it is not in sight.
    for number in 5..40 {
        created(console.user.order(&format!("READ-{number}")).await).await;
    }
    console.press_button("Refresh").await;
    console.browser.text("#order-39").await;
    assert!((top("order-2").await - before).abs() <= 1.0);
    // The page has counted from the sign-in.
    console.press_button("Show 39 new orders").await;
    let focused = "return document.activeElement.id === arguments[0] || null";
    console.browser.wait_for(focused, "order-39").await;
    let title = console.browser.run("return document.title", &[]).await;
    assert!(title.as_str().unwrap().starts_with("Orders"), "{title}");
}

/// Starts the console of a signing service with twenty thousand orders.
async fn with_twenty_thousand_orders() -> Console {
    let mut console = Console::start(&["--rate-per-second=0"], of_client()).await;
    console.create_on("MANY-1", &console.date_in(30).await, json!({})).await;
    console.copy_orders(9);
    console.create_on("MANY-2", &console.date_in(1).await, json!({})).await;
    // Eleven orders, each of them 1,819 times.
    console.copy_orders(1_818);
    console.sign_in_as(of_service()).await;
    console.browser.shows("100 new orders, oldest first").await;
    console
}

/// Long views, and what each shows when it is read.
const LONG_VIEWS: [(&str, &str); 2] = [
    ("All", "100 orders, newest first; more follow"),
    ("New", "100 new orders, oldest first; more follow"),
];

#[tokio::test(flavor = "multi_thread")]
async fn list_of_twenty_thousand_orders_is_small() {
    let console = with_twenty_thousand_orders().await;
    for (view, sentence) in LONG_VIEWS {
        console.follow(view).await;
        console.browser.shows(sentence).await;
    }
    console.follow("Next 7 days").await;
    console.browser.shows("1,819 signings").await;
    let (rows, elements) = console.size().await;
    assert!(rows <= 500 && elements < 20_000, "{rows} {elements}");
    // A tab with thousands of orders stays small.
    let heap = console.browser.devtools("Runtime.getHeapUsage", json!({})).await;
    let used = heap["usedSize"].as_f64().unwrap();
    assert!(used < f64::from(60 << 20), "{used}");
}

/// Each is alone on the machine.
mod timing {
    use super::{LONG_VIEWS, with_twenty_thousand_orders};

    #[tokio::test(flavor = "multi_thread")]
    async fn list_of_twenty_thousand_orders_is_fast() {
        let console = with_twenty_thousand_orders().await;
        let longest = "const times = performance.getEntriesByType('resource')
                .filter(({ name }) => name.includes('/api/order?')).map((it) => it.duration);
            return times.length ? Math.max(...times) : null";
        for (view, sentence) in LONG_VIEWS {
            console.browser.run("performance.clearResourceTimings()", &[]).await;
            console.follow(view).await;
            console.browser.shows(sentence).await;
            let slowest = console.browser.wait_for(longest, view).await.as_f64().unwrap();
            println!("{view}: {slowest} ms");
            assert!(slowest < 2_000.0, "{view}: {slowest} ms");
        }
        console.follow("Next 7 days").await;
        console.browser.shows("1,819 signings").await;
        // A tab with thousands of orders answers a key at once.
        let press = "document.querySelector('tbody a.order').focus();
            const begin = performance.now();
            const event = new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true });
            document.activeElement.dispatchEvent(event);
            document.body.getBoundingClientRect();
            return performance.now() - begin";
        let taken = console.browser.run(press, &[]).await.as_f64().unwrap();
        println!("a key: {taken} ms");
        assert!(taken < 100.0, "{taken}");
    }
}
