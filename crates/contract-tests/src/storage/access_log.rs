//! The contract of `AccessLog`.

use std::net::IpAddr;

use domain::{
    access::{Access, AccessActor, AccessId, AccessKind, NOT_MODIFIED, RunId},
    api_key::{ApiKeyId, ClientId, Owner, Party},
    order::{OrderId, SigningServiceId},
    person::{Doer, PersonId},
    ports::{AccessFilter, BusyReader, MaybeErased, MissingAccesses, NewOrder},
};
use time::{Duration, OffsetDateTime};

use crate::samples::{
    API_KEY, CLIENT, LIVE, MICROSECOND, NOW, RUN, Storage, access, at_once, new_order,
    operator_access,
};

const ORDER: OrderId = OrderId(1);

async fn store(storage: &Storage, accesses: &[Access]) {
    storage.accesses.store(accesses).await.unwrap();
}

/// Returns all accesses, the newest first.
async fn all(storage: &Storage) -> Vec<Access> {
    storage.accesses.list(&AccessFilter::default(), None, 10_000).await.unwrap()
}

fn of_run(run: i64, access: Access) -> Access {
    Access { id: AccessId { run: RunId(run), ..access.id }, ..access }
}

fn of_kind(kind: AccessKind, mut access: Access) -> Access {
    access.facts.kind = kind;
    access
}

fn of_party(party: Party, mut access: Access) -> Access {
    access.facts.actor = AccessActor::Key { id: API_KEY, party };
    access
}

fn reversed(mut accesses: Vec<Access>) -> Vec<Access> {
    accesses.reverse();
    accesses
}

/// Covers each kind and actor, and what may be absent.
pub async fn access_is_read_as_it_was_stored(storage: &Storage) {
    let mut stored = Vec::new();
    for (number, (kind, _)) in (1..).zip(AccessKind::ALL) {
        stored.push(of_kind(kind, access(number, OrderId(i64::MIN))));
    }
    let mut list = access(100, ORDER);
    (list.facts.order, list.facts.orders) = (None, Some(u32::MAX));
    list.facts.address = Some(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xffff]));
    stored.push(Access { outcome: "too_many_requests".to_owned(), ..list });
    let mut download = of_party(Party::Service(SigningServiceId(42)), access(101, ORDER));
    (download.facts.position, download.facts.address) = (Some(u32::MAX), None);
    stored.push(download);
    stored.push(operator_access(102, ORDER));
    let mut of_person = access(103, ORDER);
    let party = Party::Client(CLIENT);
    of_person.facts.actor = AccessActor::Person { id: PersonId(i64::MAX), party };
    stored.push(of_person);
    let mut refused = of_kind(AccessKind::SignIn, access(104, ORDER));
    (refused.facts.order, refused.facts.subject) = (None, Some(7));
    refused.facts.actor = AccessActor::Nobody;
    stored.push(Access { outcome: "unknown".to_owned(), ..refused });
    store(storage, &stored).await;
    assert_eq!(all(storage).await, reversed(stored));
}

/// Also when a batch stores it with others. An empty batch stores nothing.
pub async fn stored_access_stays_as_it_is(storage: &Storage) {
    let first = access(2, ORDER);
    store(storage, std::slice::from_ref(&first)).await;
    let again = Access { outcome: "unavailable".to_owned(), ..first.clone() };
    store(storage, &[access(1, ORDER), again, access(3, ORDER)]).await;
    store(storage, &[]).await;
    assert_eq!(all(storage).await, [access(3, ORDER), first, access(1, ORDER)]);
}

/// Several runs may have accesses of one instant.
pub async fn pages_have_every_access_once(storage: &Storage) {
    let mut expected = Vec::new();
    for number in (1..=4).rev() {
        for run in [3, 2, 1] {
            expected.push(of_run(run, access(number, ORDER)));
        }
    }
    for run in [1, 2, 3] {
        let of_run = expected.iter().filter(|access| access.id.run == RunId(run));
        store(storage, &of_run.cloned().collect::<Vec<_>>()).await;
    }
    assert_eq!(all(storage).await, expected);
    for limit in [1, 2, 5, 12] {
        let (mut pages, mut before) = (Vec::new(), None);
        loop {
            let filter = AccessFilter::default();
            let page = storage.accesses.list(&filter, before, limit).await.unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            pages.extend(page);
        }
        assert_eq!(pages, expected, "{limit}");
    }
}

/// Filters combine.
pub async fn accesses_are_listed_by_order_instant_key_and_address(storage: &Storage) {
    let address = IpAddr::from([192, 0, 2, 9]);
    let key = ApiKeyId(9);
    let mut stored = Vec::new();
    for number in 1..=16 {
        let some = |bit: u32| (number - 1) & bit > 0;
        let mut access = access(number, if some(1) { OrderId(2) } else { ORDER });
        if some(2) {
            access.facts.address = Some(address);
        }
        if some(4) {
            access.facts.actor = AccessActor::Key { id: key, party: LIVE.party };
        }
        stored.push(access);
    }
    store(storage, &stored).await;
    for filters in 0..16 {
        let some = |bit: u32| filters & bit > 0;
        let filter = AccessFilter {
            order: some(1).then_some(OrderId(2)),
            address: some(2).then_some(address),
            by: some(4).then_some(Doer::Key(key)),
            since: some(8).then_some(NOW + 9 * MICROSECOND),
        };
        let is_found = |number: &u32| filters & (number - 1) == filters;
        let expected: Vec<u64> = (1..=16).filter(is_found).rev().map(u64::from).collect();
        let found = storage.accesses.list(&filter, None, 100).await.unwrap();
        let found: Vec<u64> = found.into_iter().map(|access| access.id.number).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

/// A key of the same number is another.
pub async fn accesses_are_listed_by_person(storage: &Storage) {
    let by = |number, actor| {
        let mut access = access(number, ORDER);
        access.facts.actor = actor;
        access
    };
    let party = LIVE.party;
    let stored = [
        by(1, AccessActor::Key { id: ApiKeyId(7), party }),
        by(2, AccessActor::Person { id: PersonId(7), party }),
        by(3, AccessActor::Person { id: PersonId(8), party }),
        operator_access(4, ORDER),
        by(5, AccessActor::Person { id: PersonId(7), party }),
    ];
    store(storage, &stored).await;
    for (order, expected) in [(None, &[5, 2][..]), (Some(ORDER), &[5, 2]), (Some(OrderId(2)), &[])]
    {
        let filter =
            AccessFilter { order, by: Some(Doer::Person(PersonId(7))), ..AccessFilter::default() };
        let found = storage.accesses.list(&filter, None, 100).await.unwrap();
        let found: Vec<u64> = found.into_iter().map(|access| access.id.number).collect();
        assert_eq!(found, expected);
    }
}

async fn of_order(storage: &Storage, owner: Owner, id: OrderId) -> Option<MaybeErased<Vec<u64>>> {
    let numbers = |accesses: Vec<Access>| accesses.iter().map(|access| access.id.number).collect();
    let found = storage.accesses.of_order(owner, id, None, 100).await.unwrap()?;
    Some(match found {
        MaybeErased::Whole(accesses) => MaybeErased::Whole(numbers(accesses.unwrap())),
        MaybeErased::Erased => MaybeErased::Erased,
    })
}

/// Those of strangers are left out. An order of another owner is like none.
pub async fn order_shows_accesses_of_its_sides_and_of_operators(storage: &Storage) {
    let [id, other] = storage.create_all(["F-1", "F-2"]).await;
    let service = |number| Party::Service(SigningServiceId(number));
    store(
        storage,
        &[
            access(1, id),
            of_party(service(42), access(2, id)),
            operator_access(3, id),
            of_party(Party::Client(ClientId(42)), access(4, id)),
            of_party(service(3), access(5, id)),
            access(6, other),
        ],
    )
    .await;
    let whole = |numbers: &[u64]| Some(MaybeErased::Whole(numbers.to_vec()));
    for owner in [LIVE, Owner { party: service(42), is_test: false }] {
        assert_eq!(of_order(storage, owner, id).await, whole(&[3, 2, 1]));
        assert_eq!(of_order(storage, owner, other).await, whole(&[6]));
    }
    let before = Some(operator_access(3, id).id.into());
    let page = storage.accesses.of_order(LIVE, id, before, 1).await.unwrap().unwrap();
    assert_eq!(page, MaybeErased::Whole(Some(vec![of_party(service(42), access(2, id))])));
    let after_last =
        storage.accesses.of_order(LIVE, id, Some(access(1, id).id.into()), 1).await.unwrap();
    assert_eq!(after_last, Some(MaybeErased::Whole(Some(Vec::new()))));
    // Of a stranger, of another order, and one that is none.
    for number in [4, 5, 6, 99] {
        let before = Some(access(number, id).id.into());
        let page = storage.accesses.of_order(LIVE, id, before, 1).await.unwrap();
        assert_eq!(page, Some(MaybeErased::Whole(None)), "{number}");
    }
    for stranger in [
        Owner { party: service(43), is_test: false },
        Owner::client(ClientId(99), false),
        Owner { is_test: true, ..LIVE },
    ] {
        assert_eq!(of_order(storage, stranger, id).await, None);
    }
    assert_eq!(of_order(storage, LIVE, OrderId(other.0 + 1)).await, None);
    let test = NewOrder { is_test: true, ..new_order("F-1", NOW) };
    let test = storage.create(&test).await;
    assert_eq!(of_order(storage, LIVE, test).await, None);
    assert!(matches!(
        storage.admin.erase(id, NOW, None).await.unwrap(),
        domain::ports::ErasureOutcome::Erased(_)
    ));
    assert_eq!(of_order(storage, LIVE, id).await, Some(MaybeErased::Erased));
    assert_eq!(all(storage).await.len(), 6, "the erasure leaves them");
}

/// Of an order of others, and of none. A refusal of a side is an access to its order.
pub async fn refusal_of_a_stranger_is_for_operators(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    let service = |number| Party::Service(SigningServiceId(number));
    let refused = |access: Access| Access { outcome: "not_found".to_owned(), ..access };
    let none = OrderId(id.0 + 1);
    let stored = [
        refused(access(1, id)),
        refused(of_party(Party::Client(ClientId(42)), access(2, id))),
        access(3, id),
        refused(of_party(service(42), access(4, id))),
        refused(of_party(service(3), access(5, id))),
        refused(operator_access(6, id)),
        refused(access(7, none)),
    ];
    store(storage, &stored).await;
    for owner in [LIVE, Owner { party: service(42), is_test: false }] {
        let found = of_order(storage, owner, id).await;
        assert_eq!(found, Some(MaybeErased::Whole(vec![6, 4, 3, 1])));
    }
    let listed = async |order, before, limit| {
        let filter = AccessFilter { order: Some(order), ..AccessFilter::default() };
        storage.accesses.list(&filter, before, limit).await.unwrap()
    };
    let expected = reversed(stored.to_vec());
    assert_eq!(listed(id, None, 10).await, expected[1..]);
    assert_eq!(listed(id, None, 2).await, expected[1..3]);
    assert_eq!(listed(id, Some(expected[2].id), 3).await, expected[3..6]);
    assert_eq!(listed(none, None, 10).await, expected[..1]);
}

fn instant(number: u32) -> OffsetDateTime {
    NOW + number * MICROSECOND
}

/// Before the first, between two, and, if the run has ended, after the last. Nothing is missing of a run
/// without a gap, whatever the order in which its accesses were stored.
pub async fn missing_numbers_are_found(storage: &Storage) {
    let log = &storage.accesses;
    for number in [3, 1, 2] {
        store(storage, &[of_run(1, access(number, ORDER))]).await;
    }
    log.end(RunId(1), 3, NOW).await.unwrap();
    log.end(RunId(2), 0, NOW).await.unwrap();
    for run in [3, 4] {
        for number in [2, 3, 6, 8] {
            store(storage, &[of_run(run, access(number, ORDER))]).await;
        }
    }
    log.end(RunId(4), 10, NOW).await.unwrap();
    log.end(RunId(5), 2, NOW).await.unwrap();
    let missing = |run, first, last, between, has_ended| MissingAccesses {
        run: RunId(run),
        numbers: (first, last),
        between,
        last_at: (run != 5).then(|| instant(8)),
        has_ended,
    };
    let of_run = |run, has_ended| {
        [
            missing(run, 1, 1, (None, Some(instant(2))), has_ended),
            missing(run, 4, 5, (Some(instant(3)), Some(instant(6))), has_ended),
            missing(run, 7, 7, (Some(instant(6)), Some(instant(8))), has_ended),
        ]
    };
    let ends =
        [missing(4, 9, 10, (Some(instant(8)), None), true), missing(5, 1, 2, (None, None), true)];
    let expected = [&of_run(4, true)[..], &ends, &of_run(3, false)].concat();
    assert_eq!(log.missing(100).await.unwrap(), expected);
    assert_eq!(log.missing(2).await.unwrap(), expected[..2]);
}

/// Also if those of the running instance are older: its accesses may still end.
pub async fn gaps_of_a_running_instance_hide_no_removed_access(storage: &Storage) {
    let log = &storage.accesses;
    let even = (1..12).map(|at| of_run(1, access(2 * at, ORDER))).collect::<Vec<_>>();
    store(storage, &even).await;
    store(storage, &[of_run(2, access(98, ORDER)), of_run(2, access(100, ORDER))]).await;
    log.end(RunId(2), 100, instant(100)).await.unwrap();
    let runs = |gaps: Vec<MissingAccesses>| gaps.iter().map(|gap| gap.run.0).collect::<Vec<_>>();
    assert_eq!(runs(log.missing(10).await.unwrap()), [2, 2, 1, 1, 1, 1, 1, 1, 1, 1]);
    let oldest = log.missing(100).await.unwrap();
    let oldest = oldest.iter().skip(2).map(|gap| gap.numbers.0);
    assert!(oldest.eq((0..11).map(|at| 2 * at + 1)), "the oldest come first");
}

/// The oldest go first. A later gap is still found, and an access that is stored late is no gap.
pub async fn removed_accesses_are_not_missing(storage: &Storage) {
    let log = &storage.accesses;
    for run in [1, 2] {
        let accesses = [1, 2, 3, 4, 5, 7].map(|number| of_run(run, access(number, ORDER)));
        store(storage, &accesses).await;
    }
    let removed = async |number: u32, limit| {
        log.remove_before(NOW + number * MICROSECOND, limit).await.unwrap()
    };
    let places = async || {
        let place = |access: &Access| (access.id.number, access.id.run.0);
        reversed(all(storage).await).iter().map(place).collect::<Vec<_>>()
    };
    assert_eq!(removed(1, 10).await, 0);
    assert_eq!(removed(4, 3).await, 3);
    assert_eq!(places().await[..2], [(2, 2), (3, 1)]);
    assert_eq!(removed(4, 10).await, 3);
    assert_eq!(places().await, [(4, 1), (4, 2), (5, 1), (5, 2), (7, 1), (7, 2)]);
    let gap = |run| MissingAccesses {
        run: RunId(run),
        numbers: (6, 6),
        between: (Some(instant(5)), Some(instant(7))),
        last_at: Some(instant(7)),
        has_ended: false,
    };
    assert_eq!(log.missing(10).await.unwrap(), [gap(1), gap(2)]);
    store(storage, &[of_run(1, access(2, ORDER)), of_run(1, access(6, ORDER))]).await;
    assert_eq!(log.missing(10).await.unwrap(), [gap(2)]);
    assert_eq!(removed(7, 100).await, 6);
    assert_eq!(
        log.missing(10).await.unwrap(),
        [MissingAccesses { between: (None, Some(instant(7))), ..gap(2) }]
    );
}

/// Their missing numbers are forgotten with them. A run that goes on keeps its first number.
pub async fn runs_are_forgotten_with_their_accesses(storage: &Storage) {
    let log = &storage.accesses;
    for run in [1, 2, 3] {
        store(storage, &[of_run(run, access(1, ORDER)), of_run(run, access(2, ORDER))]).await;
    }
    log.end(RunId(1), 9, NOW + Duration::SECOND).await.unwrap();
    log.end(RunId(2), 9, NOW + Duration::MINUTE).await.unwrap();
    let lost = MissingAccesses {
        run: RunId(2),
        numbers: (3, 9),
        between: (None, None),
        last_at: None,
        has_ended: true,
    };
    let later = NOW + 2 * Duration::SECOND;
    assert_eq!(log.remove_before(later, 6).await.unwrap(), 6);
    assert_eq!(log.missing(10).await.unwrap().len(), 2, "there may be older ones");
    assert_eq!(log.remove_before(later, 6).await.unwrap(), 0);
    assert_eq!(log.missing(10).await.unwrap(), [lost]);
    store(storage, &[of_run(3, access(3, ORDER))]).await;
    assert_eq!(log.missing(10).await.unwrap().len(), 1);
}

/// A running instance gives signs, also without accesses.
pub async fn killed_run_is_forgotten_a_day_after_its_last_sign_of_life(storage: &Storage) {
    let log = &storage.accesses;
    let both = async |number| {
        for run in [1, 2] {
            store(storage, &[of_run(run, access(number, ORDER))]).await;
        }
    };
    both(1).await;
    log.note_alive(RunId(2), NOW + 2 * Duration::DAY).await.unwrap();
    let second = NOW + Duration::SECOND;
    assert_eq!(log.remove_before(second, 10).await.unwrap(), 2);
    both(2).await;
    assert_eq!(log.missing(10).await.unwrap(), []);
    assert_eq!(log.remove_before(second + Duration::DAY, 10).await.unwrap(), 2);
    both(3).await;
    let of_killed = MissingAccesses {
        run: RunId(1),
        numbers: (1, 2),
        between: (None, Some(instant(3))),
        last_at: Some(instant(3)),
        has_ended: false,
    };
    assert_eq!(log.missing(10).await.unwrap(), [of_killed]);
}

/// By different orders that were shown between two instants, not by notes, lists and refused reads.
pub async fn keys_and_people_that_read_many_orders_are_busy(storage: &Storage) {
    let by_key = |key, mut access: Access| {
        access.facts.actor = AccessActor::Key { id: ApiKeyId(key), party: LIVE.party };
        access
    };
    let by_person = |mut access: Access| {
        access.facts.actor = AccessActor::Person { id: PersonId(1), party: LIVE.party };
        access
    };
    let mut stored = vec![
        by_person(access(601, ORDER)),
        by_person(access(602, OrderId(2))),
        by_person(of_kind(AccessKind::Download, access(603, OrderId(2)))),
        by_person(of_kind(AccessKind::AddNote, access(604, OrderId(3)))),
    ];
    for (number, kind) in (1..).zip(AccessKind::SHOWING) {
        stored.push(by_key(1, of_kind(kind, access(number, OrderId(number.into())))));
        stored.push(by_key(2, of_kind(kind, access(100 + number, ORDER))));
        let refused = by_key(3, access(200 + number, OrderId(number.into())));
        stored.push(Access { outcome: "not_found".to_owned(), ..refused });
        stored.push(operator_access(300 + number, OrderId(number.into())));
        let noted = access(400 + number, OrderId(number.into()));
        stored.push(by_key(4, of_kind(AccessKind::AddNote, noted)));
    }
    let known = by_key(2, access(500, OrderId(2)));
    stored.push(Access { outcome: NOT_MODIFIED.to_owned(), ..known });
    store(storage, &stored).await;
    let busy = async |since, until, orders| {
        storage.accesses.busy_readers((instant(since), instant(until)), orders).await.unwrap()
    };
    let key = |key, orders| BusyReader { doer: Doer::Key(ApiKeyId(key)), orders };
    let person = |orders| BusyReader { doer: Doer::Person(PersonId(1)), orders };
    assert_eq!(busy(0, 700, 1).await, [key(1, 12), key(2, 2), person(2)]);
    assert_eq!(busy(0, 500, 1).await, [key(1, 12), key(2, 2)]);
    assert_eq!(busy(0, 500, 2).await, [key(1, 12)]);
    assert_eq!(busy(0, 500, 12).await, []);
    assert_eq!(busy(12, 500, 0).await, [key(1, 1), key(2, 2)]);
    // A clock that was ahead has left rows in the future.
    assert_eq!(busy(0, 3, 0).await, [key(1, 3)]);
}

/// Only a newer version of the service knows them. They take up no room in a page, and are not missing.
pub async fn unknown_kinds_are_left_out(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    store(storage, &[1, 2, 3].map(|number| access(number, id))).await;
    storage.other_system.make_access_unknown(RUN, 2).await;
    let known = [access(3, id), access(1, id)];
    let listed = storage.accesses.list(&AccessFilter::default(), None, 2).await.unwrap();
    assert_eq!(listed, known);
    let of_order = storage.accesses.of_order(LIVE, id, None, 2).await.unwrap();
    assert_eq!(of_order, Some(MaybeErased::Whole(Some(known.to_vec()))));
    assert_eq!(storage.accesses.missing(10).await.unwrap(), []);
}

/// Whatever is removed meanwhile.
pub async fn concurrent_batches_are_all_stored(storage: &Storage) {
    let batches = (0..40_i64).map(|batch| {
        let log = storage.accesses.clone();
        async move {
            let first = u32::try_from(batch / 4 * 10).unwrap();
            let numbers = 1 + first..=10 + first;
            let accesses: Vec<_> =
                numbers.map(|number| of_run(batch % 4, access(number, ORDER))).collect();
            if batch % 8 == 7 {
                log.remove_before(NOW, 100).await.unwrap();
            }
            log.store(&accesses).await.unwrap();
        }
    });
    at_once(batches).await;
    assert_eq!(all(storage).await.len(), 400);
    assert_eq!(storage.accesses.missing(10).await.unwrap(), []);
    let removals = (0..4).map(|_| {
        let log = storage.accesses.clone();
        async move { log.remove_before(NOW + 51 * MICROSECOND, 60).await.unwrap() }
    });
    let removed: usize = at_once(removals).await.into_iter().sum();
    assert_eq!((removed, all(storage).await.len()), (200, 200));
    assert_eq!(storage.accesses.missing(10).await.unwrap(), []);
}
