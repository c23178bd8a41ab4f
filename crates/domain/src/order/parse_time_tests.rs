use time::macros::{date, datetime, time};

use super::*;

#[test]
fn specific_time_is_converted_by_zone() {
    let appointment = order(&[]).appointment;
    assert_eq!(
        (appointment.date, appointment.zone.id()),
        (date!(2026 - 12 - 01), "America/Chicago")
    );
    assert_eq!(
        appointment.time,
        AppointmentTime::At(Moment { local: time!(14:30), utc: datetime!(2026-12-01 20:30 UTC) })
    );
}

fn between(start: &str, end: &str) -> Vec<(&'static str, Option<Value>)> {
    vec![
        ("/signingDetailsFormData/signingTimeType", Some(json!("between"))),
        ("/signingDetailsFormData/startTime", Some(json!(start))),
        ("/signingDetailsFormData/endTime", Some(json!(end))),
    ]
}

#[test]
fn date_before_1900_is_a_typing_error() {
    let pointer = "/signingDetailsFormData/signingDate";
    for date in ["0001-01-01", "0026-12-01", "0206-12-01", "1899-12-31"] {
        assert_eq!(fault(pointer, json!(date)), Some(ViolationCode::OutOfRange), "{date}");
    }
    for date in ["1900-01-01", "9999-12-30"] {
        assert_eq!(fault(pointer, json!(date)), None, "{date}");
    }
    let violations = parse(&with(&[(pointer, Some(json!("0026-12-01")))])).unwrap_err();
    assert_eq!(violations[0].detail, "must not be before the year 1900; check the year");
}

#[test]
fn range_needs_start_before_end() {
    let range = order(&between("09:00", "11:30")).appointment.time;
    let moment = |local, utc| Moment { local, utc };
    assert_eq!(
        range,
        AppointmentTime::Between {
            start: moment(time!(9:00), datetime!(2026-12-01 15:00 UTC)),
            end: moment(time!(11:30), datetime!(2026-12-01 17:30 UTC))
        }
    );
    for (start, end) in [("09:00", "09:00"), ("09:00", "08:59")] {
        assert_eq!(
            faults(&between(start, end)),
            [("/signingDetailsFormData/endTime".to_owned(), ViolationCode::EndNotAfterStart)]
        );
    }
    let details: Vec<_> = parse(&with(&between("09:00", "09:00")))
        .unwrap_err()
        .into_iter()
        .map(|violation| violation.detail)
        .collect();
    assert_eq!(details, ["must be after startTime"]);
    let mut skipped = between("02:30", "02:15");
    skipped.push(("/signingDetailsFormData/signingDate", Some(json!("2026-03-08"))));
    let codes: Vec<_> = faults(&skipped).into_iter().map(|(_, code)| code).collect();
    assert_eq!(
        codes,
        [
            ViolationCode::NonexistentLocalTime,
            ViolationCode::NonexistentLocalTime,
            ViolationCode::EndNotAfterStart,
        ]
    );
    let found = faults(&[("/signingDetailsFormData/signingTimeType", Some(json!("between")))]);
    let missing = ["endTime", "startTime"]
        .map(|name| (format!("/signingDetailsFormData/{name}"), ViolationCode::Required));
    assert_eq!(found, missing);
}

#[test]
fn anytime_ignores_time_fields() {
    let anytime = [
        ("/signingDetailsFormData/signingTimeType", Some(json!("anytime"))),
        ("/signingDetailsFormData/specificTime", Some(json!("99:99"))),
        ("/signingDetailsFormData/startTime", Some(json!(5))),
    ];
    assert_eq!(order(&anytime).appointment.time, AppointmentTime::Anytime);
    assert_eq!(fault("/signingDetailsFormData/endTime", json!("nonsense")), None);
    assert_eq!(
        fault("/signingDetailsFormData/signingTimeType", json!("AT")),
        Some(ViolationCode::NotAllowed)
    );
}

#[test]
fn instants_of_another_time_type_are_not_checked() {
    let utc = ["/utcTimeDate", "/utcStartTimeDate", "/utcEndTimeDate"];
    let junk = [json!("N/A"), json!(5)];
    for (time, counting) in [
        (vec![("/signingDetailsFormData/signingTimeType", Some(json!(" at ")))], &utc[..1]),
        (between("09:00", "11:30"), &utc[1..]),
        (vec![("/signingDetailsFormData/signingTimeType", Some(json!("anytime")))], &[]),
    ] {
        for pointer in utc {
            for value in &junk {
                let changes = [&time[..], &[(pointer, Some(value.clone()))]].concat();
                let found = faults(&changes);
                let found: Vec<_> = found.iter().map(|(pointer, _)| &**pointer).collect();
                let expected: &[&str] = if counting.contains(&pointer) { &[pointer] } else { &[] };
                assert_eq!(found, expected, "{time:?} {value}");
            }
        }
    }
}

#[test]
fn skipped_times_and_unknown_zones_are_errors() {
    let skipped = faults(&[
        ("/signingDetailsFormData/signingDate", Some(json!("2026-03-08"))),
        ("/signingDetailsFormData/specificTime", Some(json!("02:30"))),
    ]);
    assert_eq!(
        skipped,
        [("/signingDetailsFormData/specificTime".to_owned(), ViolationCode::NonexistentLocalTime)]
    );
    assert_eq!(
        fault("/signingDetailsFormData/timeZoneId", json!("Mars/Olympus")),
        Some(ViolationCode::UnknownTimeZone)
    );
    assert_eq!(
        fault("/signingDetailsFormData/specificTime", json!("24:00")),
        Some(ViolationCode::InvalidFormat)
    );
}

#[test]
fn conversion_overrides_supplied_instant() {
    let parsed = parse(&with(&[("/utcTimeDate", Some(json!("2026-12-01T21:30:00Z")))])).unwrap();
    assert_eq!(parsed.order, order(&[]));
    assert_eq!(parsed.utc_disagreements, ["utcTimeDate"]);
    let agreeing = parse(&with(&[
        ("/utcTimeDate", Some(json!("2026-12-01T20:30:00.000Z"))),
        ("/utcEndTimeDate", Some(json!("2000-01-01T00:00:00Z"))),
    ]))
    .unwrap();
    assert!(agreeing.utc_disagreements.is_empty());
}

#[test]
fn supplied_instant_selects_the_later() {
    let at = |utc: Option<&str>| {
        let changes = [
            ("/signingDetailsFormData/signingDate", Some(json!("2026-11-01"))),
            ("/signingDetailsFormData/specificTime", Some(json!("01:30"))),
            ("/utcTimeDate", utc.map(|utc| json!(utc))),
        ];
        let parsed = parse(&with(&changes)).unwrap();
        let AppointmentTime::At(moment) = parsed.order.appointment.time else { panic!("at") };
        (moment.utc, parsed.utc_disagreements.len())
    };
    assert_eq!(at(None), (datetime!(2026-11-01 06:30 UTC), 0));
    assert_eq!(at(Some("2026-11-01T07:30:00Z")), (datetime!(2026-11-01 07:30 UTC), 0));
}

/// Such as one from before a change of the zone.
#[test]
fn instant_that_fits_neither_hour_decides_nothing() {
    for (zone, date, time, earlier, later) in [
        (
            "America/New_York",
            "2026-11-01",
            "01:30",
            datetime!(2026-11-01 05:30 UTC),
            datetime!(2026-11-01 06:30 UTC),
        ),
        // Its clocks are put back by half an hour.
        (
            "Australia/Lord_Howe",
            "2026-04-05",
            "01:45",
            datetime!(2026-04-04 14:45 UTC),
            datetime!(2026-04-04 15:15 UTC),
        ),
    ] {
        for quarter in -100..=100 {
            let sent = later + time::Duration::minutes(quarter * 15);
            let text = sent.format(&time::format_description::well_known::Rfc3339).unwrap();
            for (name, other) in
                [("specificTime", "/utcTimeDate"), ("startTime", "/utcStartTimeDate")]
            {
                let is_at = name == "specificTime";
                let changes = [
                    ("/signingDetailsFormData/signingDate", json!(date)),
                    ("/signingDetailsFormData/timeZoneId", json!(zone)),
                    (
                        "/signingDetailsFormData/signingTimeType",
                        json!(if is_at { "at" } else { "between" }),
                    ),
                    ("/signingDetailsFormData/specificTime", json!(time)),
                    ("/signingDetailsFormData/startTime", json!(time)),
                    ("/signingDetailsFormData/endTime", json!("12:00")),
                    (other, json!(text)),
                ]
                .map(|(pointer, value)| (pointer, Some(value)));
                let parsed = parse(&with(&changes)).unwrap();
                let [moment, _] = parsed.order.appointment.time.bounds();
                let expected = if sent == later { later } else { earlier };
                assert_eq!(moment.unwrap().utc, expected, "{zone} {name} {text}");
                let fits = sent == later || sent == earlier;
                assert_eq!(parsed.utc_disagreements.is_empty(), fits, "{zone} {name} {text}");
            }
        }
    }
}

#[test]
fn range_across_repeated_hour_ends_after_start() {
    let mut changes = between("01:15", "01:45");
    changes.push(("/signingDetailsFormData/signingDate", Some(json!("2026-11-01"))));
    changes.push(("/utcStartTimeDate", Some(json!("2026-11-01T07:15:00Z"))));
    assert_eq!(
        faults(&changes),
        [("/signingDetailsFormData/endTime".to_owned(), ViolationCode::EndNotAfterStart)]
    );
    changes.push(("/utcEndTimeDate", Some(json!("2026-11-01T07:45:00Z"))));
    assert!(faults(&changes).is_empty());
}
