use time::macros::datetime;

use super::*;
use crate::{
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
