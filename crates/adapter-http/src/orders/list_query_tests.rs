use domain::{
    api_key::ClientId,
    order::{OrderStatus, attention::Attention},
    ports::Cursor,
};
use serde_json::Value;
use time::macros::{date, datetime};

use super::*;
use crate::{respond::list::LONGEST_NAME, test_support::body_of};

const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);

/// Reads the query of a client.
fn parse(query: &str) -> Result<(PageQuery, Paging), Problem> {
    super::parse(query, Party::Client(ClientId(3)), NOW)
}

fn errors(query: &str) -> Vec<(String, String)> {
    let problem = parse(query).unwrap_err();
    let body = body_of(&problem);
    assert_eq!(body["code"], "validation_failed");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let errors = body["errors"].as_array().unwrap().iter();
    errors.map(|error| (text(&error["parameter"]), text(&error["code"]))).collect()
}

#[test]
fn query_without_parameters_is_first_page() {
    for query in ["", "&&"] {
        let page = parse(query).unwrap().0;
        assert_eq!((page.limit, page.cursor), (20, Cursor::Newest));
        assert_eq!(page.filter, ListFilter::default());
    }
}

#[test]
fn every_parameter_is_read() {
    let query = "file_number=%20REFI+%C3%A9&created_after=2026-11-21T12:00:00Z\
        &created_before=2026-11-21T14:00:00.5%2B01:00&limit=100&starting_after=7\
        &order_status=new,on%20hold,NEW,en+route&signing_date_from=2026-12-01\
        &signing_date_to=2026-12-01&updated_after=2026-11-21T12:00:00.0000000%2B0000&search=%20%C3%89tienne\
        &signing_service_id=42&notary=%C3%93B.&attention=no_result,unassigned\
        &order_by=appointment&at=2026-12-01T20:30:00.000001Z";
    let status = |text: &str| OrderStatus::named(text.to_owned()).unwrap();
    assert_eq!(
        parse(query).unwrap().0,
        PageQuery {
            filter: ListFilter {
                file_number: Some("REFI é".to_owned()),
                created_after: Some(datetime!(2026-11-21 12:00 UTC)),
                created_before: Some(datetime!(2026-11-21 13:00:00.5 UTC)),
                statuses: ["NEW", "ON_HOLD", "en route"].map(status).to_vec(),
                signing_date_from: Some(date!(2026 - 12 - 01)),
                signing_date_to: Some(date!(2026 - 12 - 01)),
                updated_after: Some(datetime!(2026-11-21 12:00 UTC)),
                search: SearchedText::parse("Étienne".to_owned()).ok(),
                signing_service: Some(SigningServiceId(42)),
                client_name: None,
                notary: SearchedName::parse("ob".to_owned()).ok(),
                attention: Some(AttentionFilter {
                    codes: vec![Attention::Unassigned, Attention::NoResult],
                    now: NOW,
                }),
                by_appointment: true,
            },
            limit: 100,
            cursor: Cursor::OlderThan(OrderId(7)),
            cursor_starts: Some(datetime!(2026-12-01 20:30:00.000_001 UTC)),
        }
    );
    for id in [0, i64::MAX] {
        let newer = parse(&format!("ending_before={id}")).unwrap().0.cursor;
        assert_eq!(newer, Cursor::NewerThan(OrderId(id)));
    }
}

#[test]
fn instants_between_microseconds_mean_the_later_one() {
    for (text, instant) in [
        ("2026-11-21T12:00:00.000001Z", datetime!(2026-11-21 12:00:00.000_001 UTC)),
        ("2026-11-21T12:00:00.000001001Z", datetime!(2026-11-21 12:00:00.000_002 UTC)),
        ("2026-11-21T12:00:00.999999999Z", datetime!(2026-11-21 12:00:01 UTC)),
    ] {
        let page = parse(&format!("created_after={text}")).unwrap().0;
        assert_eq!(page.filter.created_after, Some(instant), "{text}");
    }
}

#[test]
fn every_parameter_at_fault_is_named() {
    let query = "signing_date_to=12/01/2026&updated_after=0&order_status=,&search=ab&limit=0\
        &file_number=+&created_after=yesterday&page=2&starting_after=-1\
        &created_before=9999-12-31T23:59:59.9999999Z&limit=5";
    let expected = [
        ("signing_date_to", "invalid_format"),
        ("updated_after", "invalid_format"),
        ("order_status", "blank"),
        ("search", "too_short"),
        ("limit", "out_of_range"),
        ("file_number", "blank"),
        ("created_after", "invalid_format"),
        ("page", "unknown_parameter"),
        ("starting_after", "invalid_format"),
        ("created_before", "invalid_format"),
        ("limit", "repeated"),
    ];
    assert_eq!(errors(query), expected.map(|(name, code)| (name.to_owned(), code.to_owned())));
}

#[test]
fn values_at_fault_are_rejected() {
    for (query, code) in [
        ("limit=101", "out_of_range"),
        ("limit=%2B5", "out_of_range"),
        ("limit=1e1", "out_of_range"),
        ("limit=99999999999999999999", "out_of_range"),
        ("limit", "blank"),
        ("starting_after=0", "invalid_format"),
        ("starting_after=%2B1", "invalid_format"),
        ("starting_after=9223372036854775808", "invalid_format"),
        ("ending_before=one", "invalid_format"),
        ("created_after=2026-11-21", "invalid_format"),
        ("created_after=2026-11-21T12:00:00+00:00", "invalid_format"),
        ("created_after=0000-01-01T00:00:00%2B23:59", "invalid_format"),
        ("order_status=", "blank"),
        ("order_status=NEW,", "blank"),
        ("order_status=NEW,a%00", "invalid_characters"),
        ("order_status=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21", "out_of_range"),
        ("signing_date_from=2026-02-29", "invalid_format"),
        ("signing_date_from=2026-12-01T00:00:00Z", "invalid_format"),
        ("signing_date_from=2026-12-02&signing_date_to=2026-12-01", "conflict"),
        ("updated_after=2026-11-21", "invalid_format"),
        ("search=%20ab%20", "too_short"),
        ("search=a%0Abc", "invalid_characters"),
        ("file_number=%FF", "invalid_characters"),
        ("file_number=a%00", "invalid_characters"),
        ("search=%2D%2D%2D", "too_short"),
        ("search=1+2+3+4+5+6+7+8+9+10+11", "out_of_range"),
        ("attention=late", "not_allowed"),
        ("attention=", "blank"),
        ("order_by=created_at", "not_allowed"),
        ("order_by=appointment&starting_after=1&at=noon", "invalid_format"),
        ("order_by=appointment&starting_after=1&at=", "blank"),
        ("order_by=appointment&at=2026-12-01T20:30:00Z", "conflict"),
        ("starting_after=1&at=2026-12-01T20:30:00Z", "conflict"),
        ("signing_service_id=0", "invalid_format"),
        ("signing_service_id=%2B5", "invalid_format"),
        ("signing_service_id=Seven", "invalid_format"),
        ("notary=%2D", "blank"),
        ("client=Acme", "unknown_parameter"),
        ("=1", "unknown_parameter"),
        ("%FF=1", "unknown_parameter"),
        ("Limit=1", "unknown_parameter"),
    ] {
        let found = errors(query);
        assert_eq!((found.len(), found[0].1.as_str()), (1, code), "{query}");
    }
    let long = "1".repeat(101);
    assert_eq!(errors(&format!("file_number={long}"))[0].1, "too_long");
    assert_eq!(errors(&format!("{long}=1"))[0].0.len(), LONGEST_NAME);
}

#[test]
fn service_filters_by_client_and_not_by_service() {
    let parse = |query| super::parse(query, Party::Service(SigningServiceId(42)), NOW);
    let filter = parse("client=+Acme%20Title").unwrap().0.filter;
    assert_eq!(filter.client_name.as_deref(), Some("Acme Title"));
    assert!(parse("signing_service_id=42").is_err());
}

#[test]
fn cursors_exclude_each_other() {
    let found = errors("starting_after=1&ending_before=2");
    assert_eq!(found, [("ending_before".to_owned(), "conflict".to_owned())]);
}
