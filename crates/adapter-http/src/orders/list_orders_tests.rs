use contract_tests::samples::{new_order, stored};
use domain::{
    appointment::AppointmentTime,
    document::DocumentCounts,
    order::{Actor, OrderId},
    ports::{Cursor, LastChange, ListPlace, ListedOrder, OrderNews, Page},
};
use serde_json::json;
use time::Duration;

use crate::test_support::{NOW, OWNER, Ports, TestApi, no_news};

fn page(ids: &[i64], has_older: bool, has_newer: bool) -> Page {
    let listed = |id: &i64| ListedOrder {
        stored: stored(OrderId(*id), &new_order("REFI-1", NOW)),
        counts: DocumentCounts { documents: 3, fetched: 3, ..DocumentCounts::default() },
        news: Some(no_news()),
        listed_at: None,
    };
    Page { items: ids.iter().map(listed).collect(), has_older, has_newer, stopped_at: None }
}

#[actix_web::test]
async fn page_has_records() {
    let mut ports = Ports::new();
    ports.reader.expect_page().once().returning(|owner, query| {
        assert_eq!((owner, query.limit), (OWNER, 2));
        assert_eq!(query.cursor, Cursor::OlderThan(OrderId(9)));
        Ok(Some(page(&[8, 5], true, true)))
    });

    let answer = ports.api().send(TestApi::get("/api/order?limit=2&starting_after=9")).await;

    assert_eq!(answer.status, 200);
    assert_eq!(
        (&answer.body["object"], &answer.body["url"]),
        (&json!("list"), &json!("/api/order"))
    );
    let records = answer.body["data"].as_array().unwrap();
    let ids: Vec<_> =
        records.iter().map(|it| (&it["order_id"], &it["documents_uploaded"])).collect();
    assert_eq!(ids, [(&json!(8), &json!(3)), (&json!(5), &json!(3))]);
    assert!(records[0].get("details").is_none() && records[0].get("documents").is_none());
    assert_eq!(answer.header("cache-control"), "private, no-cache");
}

#[actix_web::test]
async fn record_of_a_list_tells_what_is_late_and_new() {
    let mut ports = Ports::new();
    ports.reader.expect_page().once().returning(|_, query| {
        assert_eq!(query.filter.attention.as_ref().unwrap().now, NOW);
        let mut page = page(&[8], false, false);
        let order = &mut page.items[0];
        order.stored.order.appointment.date = NOW.date() - Duration::DAY;
        order.stored.order.appointment.time = AppointmentTime::Anytime;
        order.stored.created_at = NOW - Duration::DAY;
        order.counts.fetched = 2;
        order.counts.unfetched = 1;
        let changed = Some(vec!["/a".to_owned()]);
        let change =
            LastChange { at: NOW, kind: "changed".to_owned(), actor: Actor::Client, changed };
        order.news = Some(OrderNews { change, note: Some((NOW, Actor::Service)) });
        Ok(Some(page))
    });

    let answer = ports.api().send(TestApi::get("/api/order?attention=any")).await;

    assert_eq!(answer.status, 200);
    let record = &answer.body["data"][0];
    assert_eq!(record["attention"], json!(["unassigned", "not_fetched", "no_result"]));
    assert_eq!(record["documents_fetched"], 2);
    assert_eq!(record["documents_to_fetch"], 1);
    assert_eq!(record["signing_type"], "Refinance");
    assert_eq!(record["scanbacks_required"], false);
    let change = &record["last_change"];
    assert_eq!((&change["kind"], &change["actor"]), (&json!("changed"), &json!("client")));
    assert_eq!(change["changed"], json!(["/a"]));
    assert_eq!(record["newest_note"]["author"], "service");
}

#[actix_web::test]
async fn links_lead_to_older_and_newer_pages_and_keep_the_other_parameters() {
    const KEPT: &str = "/api/order?limit=2&file_number=a%26b%20%22%3E";
    let next = |id: i64| format!("<{KEPT}&starting_after={id}>; rel=\"next\"");
    let prev = |id: i64| format!("<{KEPT}&ending_before={id}>; rel=\"prev\"");
    for (cursor, ids, has_older, has_newer, link, has_more) in [
        ("&starting_after=9", &[8, 5][..], true, true, Some(next(5) + ", " + &prev(8)), true),
        ("&starting_after=9", &[8], false, true, Some(prev(8)), false),
        ("", &[8], true, false, Some(next(8)), true),
        ("&ending_before=3", &[8], true, false, Some(next(8)), false),
        ("&ending_before=3", &[8], false, true, Some(prev(8)), true),
        ("", &[8], false, false, None, false),
        ("", &[], true, true, None, true),
    ] {
        let mut ports = Ports::new();
        ports.reader.expect_page().returning(move |_, _| Ok(Some(page(ids, has_older, has_newer))));

        let answer = ports.api().send(TestApi::get(&format!("{KEPT}{cursor}"))).await;

        let found = answer.headers.get("link").map(|link| link.to_str().unwrap());
        assert_eq!(found, link.as_deref(), "{cursor} {ids:?}");
        assert_eq!(answer.body["has_more"], has_more, "{cursor} {ids:?}");
    }
}

/// The start stands beside the identifier, so the next page begins there, wherever the order is then.
#[actix_web::test]
async fn links_of_an_agenda_carry_the_place() {
    const KEPT: &str = "/api/order?order_by=appointment";
    let (first, last) = (NOW, NOW + Duration::microseconds(1_500_000));
    let stop = ListPlace { id: 4, starts: Some(NOW + Duration::HOUR) };
    for (stopped_at, next) in [
        (None, "5&at=2026-11-21T12:00:01.500000Z"),
        (Some(stop), "4&at=2026-11-21T13:00:00.000000Z"),
    ] {
        let mut ports = Ports::new();
        ports.reader.expect_page().returning(move |_, query| {
            assert_eq!(query.cursor, Cursor::OlderThan(OrderId(9)));
            assert_eq!(query.cursor_starts, Some(NOW - Duration::microseconds(1)));
            let mut page = page(&[8, 5], true, true);
            page.items[0].listed_at = Some(first);
            page.items[1].listed_at = Some(last);
            Ok(Some(Page { stopped_at, ..page }))
        });

        let cursor = "starting_after=9&at=2026-11-21T11:59:59.999999Z";
        let answer = ports.api().send(TestApi::get(&format!("{KEPT}&{cursor}"))).await;

        let next = format!("<{KEPT}&starting_after={next}>; rel=\"next\"");
        let prev = "8&at=2026-11-21T12:00:00.000000Z";
        let prev = format!("<{KEPT}&ending_before={prev}>; rel=\"prev\"");
        assert_eq!(answer.header("link"), format!("{next}, {prev}"));
    }
}

#[actix_web::test]
async fn search_goes_on_where_it_stopped() {
    for (cursor, ids, link) in [
        ("", &[][..], "</api/order?search=jane&starting_after=4>; rel=\"next\""),
        ("", &[8], "</api/order?search=jane&starting_after=4>; rel=\"next\""),
        ("&ending_before=3", &[], "</api/order?search=jane&ending_before=4>; rel=\"prev\""),
    ] {
        let toward_newer = !cursor.is_empty();
        let mut ports = Ports::new();
        ports.reader.expect_page().returning(move |_, _| {
            let page = page(ids, !toward_newer, toward_newer);
            Ok(Some(Page { stopped_at: Some(ListPlace { id: 4, starts: None }), ..page }))
        });

        let answer =
            ports.api().send(TestApi::get(&format!("/api/order?search=jane{cursor}"))).await;

        assert_eq!(answer.header("link"), link, "{cursor}");
        assert_eq!(answer.body["has_more"], true, "{cursor}");
        assert_eq!(answer.body["data"].as_array().unwrap().len(), ids.len());
    }
}

#[actix_web::test]
async fn cursor_of_no_order_of_the_client_is_rejected() {
    let mut ports = Ports::new();
    ports.reader.expect_page().returning(|_, _| Ok(None));

    let api = ports.api();
    for parameter in ["starting_after", "ending_before"] {
        let answer = api.send(TestApi::get(&format!("/api/order?{parameter}=9"))).await;
        assert_eq!(answer.errors(), [(parameter, "unknown_order")]);
    }
}

#[actix_web::test]
async fn reads_and_webhooks_have_rate_limits_of_their_own() {
    let mut ports = Ports::new();
    ports.rate = domain::api_key::Rate { per_second: 1, burst: 1 };
    ports.reader.expect_page().returning(|_, _| Ok(Some(page(&[], false, false))));
    ports.endpoints.expect_of_owner().returning(|_| Ok(Vec::new()));
    let api = ports.api();
    for (path, policy) in [("/api/order", "reads"), ("/api/webhooks", "webhooks")] {
        let first = api.send(TestApi::get(path)).await;
        let second = api.send(TestApi::get(path)).await;

        let left = format!("\"{policy}\";r=0;t=1");
        assert_eq!((first.status.as_u16(), first.header("ratelimit")), (200, &*left));
        assert_eq!(second.problem(429, "rate_limited")["violated-policies"], json!([policy]));
    }
    api.send(TestApi::post("/api/order/create").set_payload("{"))
        .await
        .problem(415, "unsupported_media_type");
}
