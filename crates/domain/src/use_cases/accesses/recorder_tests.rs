use time::macros::datetime;

use super::*;
use crate::{
    access::NOT_MODIFIED,
    api_key::{ApiKeyId, ClientId, Party},
    ports::MockClock,
};

const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);

fn recorder(clock: MockClock) -> Arc<AccessRecorder> {
    Arc::new(AccessRecorder::new(RunId(7), Arc::new(clock)))
}

fn still() -> MockClock {
    let mut clock = MockClock::new();
    clock.expect_now().return_const(NOW);
    clock
}

fn begin(recorder: &Arc<AccessRecorder>) -> BegunAccess {
    let actor = AccessActor::Key { id: ApiKeyId(4), party: Party::Client(ClientId(3)) };
    ActorAccesses { recorder: Arc::clone(recorder), actor }.begin(AccessKind::Read, OrderId(1))
}

fn numbers(taken: &[Access]) -> Vec<u64> {
    taken.iter().map(|access| access.id.number).collect()
}

#[test]
fn numbers_are_given_at_the_end_without_gaps() {
    let recorder = recorder(still());
    let (first, second) = (begin(&recorder), begin(&recorder));
    assert_eq!(recorder.lock().last_number, 0);
    second.end(DONE.to_owned());
    first.end("not_found".to_owned());
    let (taken, has_more) = recorder.take(10);
    assert_eq!((numbers(&taken), has_more, recorder.lock().last_number), (vec![1, 2], false, 2));
    assert_eq!(taken[1].outcome, "not_found");
    assert!(taken.iter().all(|access| access.id.run == RunId(7)));
}

#[test]
fn change_has_one_number_in_its_transaction_and_at_its_end() {
    let recorder = recorder(still());
    let change = begin(&recorder);
    let stored = change.done();
    assert_eq!((stored.id.number, &*stored.outcome), (1, DONE));
    assert_eq!(change.clone().done(), stored);
    change.end("unavailable".to_owned());
    change.end(DONE.to_owned());
    drop(change);
    assert_eq!(recorder.take(10).0, [Access { outcome: "unavailable".to_owned(), ..stored }]);
}

#[test]
fn instants_increase_though_the_clock_does_not() {
    let mut clock = MockClock::new();
    let mut seconds = [2, 2, 1, 3].into_iter();
    clock.expect_now().returning(move || NOW + Duration::seconds(seconds.next().unwrap()));
    let recorder = recorder(clock);
    for _ in 0..4 {
        begin(&recorder).end(DONE.to_owned());
    }
    let instants: Vec<_> =
        recorder.take(4).0.into_iter().map(|access| access.id.at - NOW).collect();
    let two = Duration::seconds(2);
    let micros = Duration::MICROSECOND;
    assert_eq!(instants, [two, two + micros, two + 2 * micros, Duration::seconds(3)]);
}

/// A clock was a day ahead for a moment.
#[test]
fn accesses_after_a_clock_that_was_ahead_have_the_instants_of_their_run() {
    let mut clock = MockClock::new();
    let day = Duration::DAY.whole_seconds();
    let mut seconds = [0, day, day + 1, 2, 3].into_iter();
    clock.expect_now().returning(move || NOW + Duration::seconds(seconds.next().unwrap()));
    let recorder = recorder(clock);
    for _ in 0..5 {
        begin(&recorder).end(DONE.to_owned());
    }
    let taken = recorder.take(5).0;
    let ids: Vec<_> = taken.iter().map(|it| (it.id.run, it.id.number)).collect();
    let (before, after) = (RunId(7), RunId(8));
    assert_eq!(ids, [(before, 1), (before, 2), (before, 3), (after, 1), (after, 2)]);
    let instants: Vec<_> = taken[3..].iter().map(|access| access.id.at - NOW).collect();
    assert_eq!(instants, [2, 3].map(Duration::seconds));
}

#[test]
fn accesses_that_were_put_back_are_taken_first() {
    let recorder = recorder(still());
    for _ in 0..3 {
        begin(&recorder).end(DONE.to_owned());
    }
    let (taken, has_more) = recorder.take(2);
    assert_eq!((numbers(&taken), has_more), (vec![1, 2], true));
    recorder.put_back(taken);
    assert_eq!(numbers(&recorder.take(10).0), [1, 2, 3]);
    assert_eq!(recorder.take(10), (Vec::new(), false));
}

#[test]
fn recorder_is_full_until_accesses_are_taken() {
    let recorder = recorder(still());
    for number in 0..MAX_WAITING {
        assert!(!recorder.is_full(), "{number}");
        begin(&recorder).end(DONE.to_owned());
    }
    assert!(recorder.is_full());
    recorder.take(1);
    assert!(!recorder.is_full());
}

#[test]
fn access_without_an_end_is_unfinished_when_nothing_works_on_it() {
    let recorder = recorder(still());
    let access = begin(&recorder);
    let work = access.clone();
    drop(access);
    assert_eq!((recorder.waiting(), recorder.lock().last_number), (0, 0));
    drop(work);
    let (taken, _) = recorder.take(10);
    assert_eq!((numbers(&taken), &*taken[0].outcome), (vec![1], UNFINISHED));
}

#[test]
fn list_has_the_number_of_its_orders() {
    let recorder = recorder(still());
    let access = begin(&recorder);
    access.lists(3);
    access.end(DONE.to_owned());
    assert_eq!(recorder.take(10).0[0].facts.orders, Some(3));
}

/// Returns how many rows wait, and how many requests the rows that count have.
fn rows_and_counts(recorder: &AccessRecorder) -> (usize, Vec<u32>) {
    let (taken, _) = recorder.take(10_000);
    let (counting, own): (Vec<_>, Vec<_>) =
        taken.into_iter().partition(|access| access.facts.kind == AccessKind::Refused);
    assert!(
        counting.iter().all(|access| access.outcome == COUNTED && access.facts.order.is_none())
    );
    (own.len(), counting.into_iter().filter_map(|access| access.facts.orders).collect())
}

/// A stranger may ask for an order a million times.
#[test]
fn refused_requests_of_a_key_beyond_those_of_an_hour_are_counted() {
    let (mut clock, minutes) = (MockClock::new(), Arc::new(Mutex::new(0)));
    let shown = Arc::clone(&minutes);
    clock.expect_now().returning(move || NOW + Duration::minutes(*shown.lock().unwrap()));
    let recorder = recorder(clock);
    let at = |minute| *minutes.lock().unwrap() = minute;
    let refuse = |count: u32| {
        (0..count).for_each(|_| begin(&recorder).end("not_found".to_owned()));
    };
    refuse(REFUSED_ROWS + 7);
    assert_eq!(rows_and_counts(&recorder), (1_000, vec![]));
    at(1);
    refuse(2);
    assert_eq!(rows_and_counts(&recorder), (0, vec![9]));
    refuse(1);
    assert_eq!(rows_and_counts(&recorder), (0, vec![]), "a row a minute counts");
    // What shows an order always has its row.
    begin(&recorder).end(DONE.to_owned());
    begin(&recorder).end(NOT_MODIFIED.to_owned());
    assert_eq!(rows_and_counts(&recorder), (2, vec![]));
    at(60);
    refuse(3);
    assert_eq!(rows_and_counts(&recorder), (3, vec![1]));
    // Numbers have no gap, and the last ones are counted at the end.
    refuse(REFUSED_ROWS);
    recorder.count_last_refused();
    assert_eq!(rows_and_counts(&recorder), (997, vec![3]));
    assert_eq!(recorder.lock().last_number, 1_000 + 1 + 2 + 3 + 1 + 997 + 1);
    at(120);
    rows_and_counts(&recorder);
    assert!(recorder.lock().refused.is_empty());
}

#[test]
fn each_key_has_rows_of_refused_requests() {
    let recorder = recorder(still());
    for key in [4, 5] {
        let actor = AccessActor::Key { id: ApiKeyId(key), party: Party::Client(ClientId(3)) };
        let accesses = ActorAccesses { recorder: Arc::clone(&recorder), actor };
        for _ in 0..=REFUSED_ROWS {
            accesses.begin(AccessKind::Read, OrderId(1)).end("not_found".to_owned());
        }
    }
    assert_eq!(rows_and_counts(&recorder), (2_000, vec![]));
    let (command, user) = ("orders show".to_owned(), "jane".to_owned());
    let actor = AccessActor::Operator { command, user };
    let operator = ActorAccesses { recorder: Arc::clone(&recorder), actor };
    for _ in 0..=REFUSED_ROWS {
        operator.begin(AccessKind::Read, OrderId(1)).end("not_found".to_owned());
    }
    assert_eq!(rows_and_counts(&recorder), (1_001, vec![]));
}

/// Refuses a sign-in. Returns whether it has a row.
fn has_row(recorder: &Arc<AccessRecorder>, address: &str) -> bool {
    let facts = AccessFacts {
        kind: AccessKind::SignIn,
        order: None,
        orders: None,
        position: None,
        subject: None,
        actor: AccessActor::Nobody,
        address: Some(address.parse().unwrap()),
        request_id: None,
    };
    BegunAccess::new(Arc::clone(recorder), facts).end("unknown".to_owned());
    !recorder.take(10_000).0.is_empty()
}

#[test]
fn strangers_of_a_site_hide_no_refusals_of_others() {
    let recorder = recorder(still());
    for site in ["192.0.2.1", "2001:db8:1::1"] {
        assert!((0..REFUSED_ROWS_OF_SITE).all(|_| has_row(&recorder, site)));
        assert!(!has_row(&recorder, site));
    }
    assert!(!has_row(&recorder, "2001:db8:1:ffff::2"), "of the same site");
    assert!(!has_row(&recorder, "::ffff:192.0.2.1"), "the same address");
    assert!(has_row(&recorder, "192.0.2.2") && has_row(&recorder, "2001:db8:2::1"));
    begin(&recorder).end("not_found".to_owned());
    assert_eq!(recorder.take(10).0.len(), 1);
    // The rows that count say where they came from.
    recorder.count_last_refused();
    let counts = recorder
        .take(10)
        .0
        .into_iter()
        .map(|count| (count.facts.address.unwrap().to_string(), count.facts.orders.unwrap()));
    let expected = [("192.0.2.1".to_owned(), 2), ("2001:db8:1::".to_owned(), 2)];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
}

#[test]
fn strangers_of_any_number_of_sites_fill_no_database() {
    let recorder = recorder(still());
    let rows = (0..2_100).filter(|number| {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).to_string();
        has_row(&recorder, &address)
    });
    // One of each site that has its own, and those that the others share.
    assert_eq!(rows.count(), 2_000);
    assert_eq!(recorder.lock().refused.len(), MAX_REFUSED + 1);
    // A key still has its own.
    begin(&recorder).end("not_found".to_owned());
    assert_eq!(recorder.take(10).0.len(), 1);
}

/// Its transaction may have stored its number.
#[test]
fn change_with_a_number_has_a_row_though_too_many_were_refused() {
    let recorder = recorder(still());
    (0..REFUSED_ROWS).for_each(|_| begin(&recorder).end("not_found".to_owned()));
    rows_and_counts(&recorder);
    let change = begin(&recorder);
    change.done();
    change.end("unavailable".to_owned());
    assert_eq!(rows_and_counts(&recorder), (1, vec![]));
}
