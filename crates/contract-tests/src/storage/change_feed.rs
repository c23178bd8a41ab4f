//! The contract of `ChangeFeed`.

use std::collections::{BTreeMap, HashSet};

use domain::{
    api_key::{ClientId, Owner, Party},
    document::DocumentKind,
    order::{
        Actor, DocumentId, OrderCommand, OrderId, SigningServiceId,
        change::NewDocuments,
        feed::{FeedCursor, FeedEntry, FeedPage, OTHER_KINDS},
    },
    ports::{Changed, NewOrder, OrderCommandRequest},
};
use time::{Duration, OffsetDateTime};
use tokio::task::JoinHandle;

use crate::{
    ForeignChange,
    order_repo::{added, addition, changing},
    samples::{
        LIVE, MICROSECOND, NOW, Storage, WINDOW, add_note, amend, at_once, condemned, new_order,
        record_uploads, withdraw,
    },
};

/// Far behind every instant of the tests.
const FAR: OffsetDateTime = NOW.saturating_add(Duration::days(400_000));

/// Returns the signing service of sample orders as a reader.
fn service() -> Owner {
    let service = new_order("F", NOW).order.signing_service_id;
    Owner { party: Party::Service(service), is_test: false }
}

async fn page(storage: &Storage, owner: Owner, after: FeedCursor, limit: usize) -> FeedPage {
    storage.feed.page(owner, after, limit).await.unwrap().expect("the place is known")
}

/// Reads the feed of an owner behind a place to its end, in pages of `limit`.
async fn read(
    storage: &Storage,
    owner: Owner,
    mut after: FeedCursor,
    limit: usize,
) -> (Vec<FeedEntry>, FeedCursor) {
    let mut entries = Vec::new();
    loop {
        let page = page(storage, owner, after, limit).await;
        assert!(page.entries.len() <= limit);
        let here = FeedCursor { epoch: page.next.epoch, ..after };
        let last = page.entries.last().map_or(here, |entry| entry.cursor);
        assert_eq!(page.next, last, "an empty page stays where it is");
        entries.extend(page.entries);
        after = page.next;
        if !page.has_more {
            return (entries, after);
        }
    }
}

/// Returns the whole feed of an owner.
async fn all(storage: &Storage, owner: Owner) -> Vec<FeedEntry> {
    read(storage, owner, FeedCursor::START, 100).await.0
}

fn kinds(entries: &[FeedEntry]) -> Vec<(OrderId, &str)> {
    entries.iter().map(|entry| (entry.change.order, entry.change.kind.as_str())).collect()
}

async fn change(storage: &Storage, request: OrderCommandRequest) -> Changed {
    if let OrderCommand::AddDocuments(new) = &request.command {
        record_uploads(storage, &new.documents).await;
    }
    storage.orders.change(&request).await.unwrap()
}

/// Returns the request that adds documents like this one, but of another kind or in place of one.
fn instead(
    request: OrderCommandRequest,
    owner: Owner,
    kind: DocumentKind,
    replaces: Option<u32>,
) -> OrderCommandRequest {
    let new = NewDocuments { kind, replaces, ..added(&request).clone() };
    let command = OrderCommand::AddDocuments(new);
    OrderCommandRequest { owner: Some(owner), command, ..request }
}

/// Both sides see each, with the status after it. Documents that are added together are one change.
pub async fn every_kind_of_change_is_in_the_feed_once(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    change(storage, addition(id, 2)).await;
    // At the same instant of a clock.
    change(storage, addition(id, 1)).await;
    let kind = DocumentKind::ToSign;
    change(storage, instead(addition(id, 1), LIVE, kind, Some(0))).await;
    change(storage, instead(addition(id, 2), service(), DocumentKind::Signed, None)).await;
    let mut order = new_order("F-1", NOW).order;
    order.signing.lender = Some("Another".to_owned());
    change(storage, amend(id, order.clone(), NOW)).await;
    // Changes nothing.
    change(storage, amend(id, order, NOW)).await;
    change(storage, add_note(id, Actor::Client, "a name and a reason")).await;
    change(storage, withdraw(DocumentId { order: id, kind, position: 1 })).await;
    let seen = storage.reader.listed(LIVE, id).await.unwrap().unwrap().whole().unwrap();
    let update = changing::update(id, seen.stored.updated_at, "ASSIGNED");
    storage.orders.update(&update).await.unwrap().unwrap();
    storage.other_system.change_order(id, ForeignChange::Status("confirmed")).await;
    storage.other_system.change_order(id, ForeignChange::Nothing).await;
    let erasure = OrderCommandRequest {
        owner: None,
        command: OrderCommand::EraseDocuments,
        ..addition(id, 0)
    };
    storage.orders.change(&erasure).await.unwrap();

    let expected = [
        ("created", "NEW"),
        ("documents_added", "NEW"),
        ("documents_added", "NEW"),
        ("documents_replaced", "NEW"),
        ("signed_documents_added", "NEW"),
        ("changed", "NEW"),
        ("note_added", "NEW"),
        ("withdrawn", "NEW"),
        ("status", "ASSIGNED"),
        ("status", "CONFIRMED"),
        ("documents_erased", "CONFIRMED"),
    ];
    for owner in [LIVE, service()] {
        let entries = all(storage, owner).await;
        let found: Vec<_> = entries
            .iter()
            .map(|entry| (entry.change.kind.as_str(), entry.change.status.as_str()))
            .collect();
        assert_eq!(found, expected);
        for FeedEntry { change, .. } in &entries {
            assert_eq!((change.order, change.file_number.as_deref()), (id, Some("F-1")));
            assert_eq!(Party::Service(change.signing_service), service().party);
        }
        assert_eq!(entries[0].change.at, NOW);
    }
}

/// An instance of version 0.1.0 beside knows neither the feed nor any later column.
pub async fn changes_by_the_first_version_are_in_the_feed(storage: &Storage) {
    let first = storage.create(&new_order("F-1", NOW)).await;
    let seen = read(storage, LIVE, FeedCursor::START, 100).await.1;
    storage.other_system.create_as_first_version(first, "F-2").await;
    let newest = storage.reader.newest(LIVE, "F-2").await.unwrap();
    let (id, _) = newest.expect("the order is there");
    storage.other_system.change_as_first_version(id).await;
    let expected = [
        ("created", "NEW"),
        ("note_added", "NEW"),
        ("changed", "NEW"),
        ("documents_added", "NEW"),
        ("status", "ASSIGNED"),
    ];
    for owner in [LIVE, service()] {
        let entries = read(storage, owner, seen, 100).await.0;
        assert!(entries.iter().all(|entry| entry.change.order == id), "{entries:?}");
        let found: Vec<_> = entries
            .iter()
            .map(|entry| (entry.change.kind.as_str(), entry.change.status.as_str()))
            .collect();
        assert_eq!(found, expected);
    }
    let read_back = storage.reader.listed(LIVE, id).await.unwrap().unwrap().whole().unwrap();
    assert_eq!(read_back.stored.status.as_str(), "ASSIGNED");

    storage.other_system.erase_as_first_version(id).await;
    for owner in [LIVE, service()] {
        assert_eq!(kinds(&read(storage, owner, seen, 100).await.0), [(id, "erased")]);
    }
}

/// Whatever their size, and wherever they begin.
pub async fn pages_have_every_entry_once(storage: &Storage) {
    for number in 0..4 {
        let at = NOW + Duration::SECOND * number;
        let id = storage.create(&new_order(&format!("F-{number}"), at)).await;
        for notary in 1..=i64::from(number) {
            storage.other_system.change_order(id, ForeignChange::Notary(Some(notary))).await;
        }
    }
    let whole = all(storage, LIVE).await;
    assert_eq!(whole.len(), 4 + 6);
    for limit in 1..=11 {
        assert_eq!(read(storage, LIVE, FeedCursor::START, limit).await.0, whole, "{limit}");
    }
    for (position, entry) in whole.iter().enumerate() {
        assert_eq!(read(storage, LIVE, entry.cursor, 3).await.0, whole[position + 1..]);
    }
    let last = whole.last().unwrap().cursor;
    assert_eq!(read(storage, LIVE, last, 3).await, (vec![], last));
}

/// Live or test orders, of a client or a service. A place of another feed is one in this feed.
pub async fn feed_has_the_orders_of_its_owner(storage: &Storage) {
    let other = NewOrder { client: ClientId(77), ..new_order("F-2", NOW) };
    let mut elsewhere = new_order("F-4", NOW);
    elsewhere.order.signing_service_id = SigningServiceId(i64::MAX);
    let orders = [
        new_order("F-1", NOW),
        other,
        NewOrder { is_test: true, ..new_order("F-3", NOW) },
        elsewhere,
    ];
    let mut ids = Vec::new();
    for order in &orders {
        let id = storage.create(order).await;
        storage.other_system.change_order(id, ForeignChange::Status("ASSIGNED")).await;
        ids.push(id);
    }
    let test = Owner { is_test: true, ..LIVE };
    let both = |id| [(id, "created"), (id, "status")];
    let expected = [
        (LIVE, vec![ids[0], ids[3]]),
        (Owner::client(ClientId(77), false), vec![ids[1]]),
        (test, vec![ids[2]]),
        (service(), vec![ids[0], ids[1]]),
        (Owner { is_test: true, ..service() }, vec![ids[2]]),
        (Owner::client(ClientId(78), false), vec![]),
    ];
    for (owner, own) in expected {
        let entries = all(storage, owner).await;
        let mut found = kinds(&entries);
        found.sort_unstable();
        assert_eq!(found, own.into_iter().flat_map(both).collect::<Vec<_>>(), "{owner:?}");
    }
    let last = all(storage, service()).await.last().unwrap().cursor;
    let after = read(storage, LIVE, last, 100).await.0;
    let later: Vec<_> = kinds(&after).into_iter().filter(|(id, _)| *id == ids[3]).collect();
    assert_eq!(later, both(ids[3]));
}

/// A poller that has seen the order, and one that has not, get it alike.
pub async fn erased_order_leaves_its_erasure_alone(storage: &Storage) {
    let [id, other] = storage.create_all(["F-1", "F-2"]).await;
    for order in [id, other] {
        change(storage, add_note(order, Actor::Client, "x")).await;
    }
    let seen = read(storage, LIVE, FeedCursor::START, 100).await.1;
    // Not yet in any page.
    change(storage, add_note(id, Actor::Client, "y")).await;
    let at = NOW + Duration::HOUR;
    condemned(storage.admin.erase(id, at, None).await.unwrap());
    for owner in [LIVE, service()] {
        let after = read(storage, owner, seen, 100).await.0;
        assert_eq!(kinds(&after), [(id, "erased")]);
        let erased = &after[0].change;
        assert_eq!((erased.at, &erased.file_number, &*erased.status), (at, &None, "NEW"));
        let mut whole = all(storage, owner).await;
        whole.retain(|entry| entry.change.order == id);
        assert_eq!(whole, after);
    }
    let left = all(storage, LIVE).await;
    assert_eq!(left.len(), 3);
    assert!(OTHER_KINDS.contains(&&*left[2].change.kind));
}

/// A page behind it has only what comes later.
pub async fn now_is_behind_every_change(storage: &Storage) {
    assert_eq!(storage.feed.now().await.unwrap(), FeedCursor::START);
    let id = storage.create(&new_order("F-1", NOW)).await;
    change(storage, add_note(id, Actor::Client, "x")).await;
    let now = storage.feed.now().await.unwrap();
    assert_eq!(read(storage, LIVE, now, 100).await, (vec![], now));
    let later = storage.create(&new_order("F-2", NOW)).await;
    change(storage, add_note(id, Actor::Client, "y")).await;
    let mut found = read(storage, LIVE, now, 100).await.0;
    found.sort_by_key(|entry| entry.change.order);
    assert_eq!(kinds(&found), [(id, "note_added"), (later, "created")]);
}

/// Otherwise a poller of a database that was restored from an older backup would miss changes.
pub async fn place_that_never_was_is_none(storage: &Storage) {
    let id = storage.create(&new_order("F-1", NOW)).await;
    change(storage, add_note(id, Actor::Client, "x")).await;
    let now = read(storage, LIVE, FeedCursor::START, 100).await.1;
    let beyond = [
        FeedCursor { created: OrderId(now.created.0 + 1), ..now },
        FeedCursor { changed: now.changed + 1, ..now },
        FeedCursor { created: OrderId(i64::MAX), changed: i64::MAX, epoch: now.epoch },
        FeedCursor { epoch: 7, ..now },
    ];
    for place in beyond {
        assert_eq!(storage.feed.page(LIVE, place, 10).await.unwrap(), None, "{place}");
    }
}

/// Both databases give the same identifiers and numbers after the backup. A place in what both have is one in both.
pub async fn place_behind_a_restored_backup_is_none(storage: &Storage) {
    storage.feed.begin_epoch(NOW).await.unwrap();
    let id = storage.create(&new_order("F-1", NOW)).await;
    change(storage, add_note(id, Actor::Client, "x")).await;
    let begun = storage.feed.now().await.unwrap();
    storage.feed.begin_epoch(NOW + Duration::SECOND).await.unwrap();
    assert_eq!(storage.feed.now().await.unwrap(), begun, "the same database begins no other epoch");
    let lost = [
        FeedCursor { created: OrderId(begun.created.0 + 1), ..begun },
        FeedCursor { changed: begun.changed + 1, ..begun },
    ];

    storage.other_system.make_epochs_foreign().await;
    storage.feed.begin_epoch(NOW).await.unwrap();
    let restored = storage.feed.now().await.unwrap();
    assert_ne!(restored.epoch, begun.epoch);
    assert_eq!(FeedCursor { epoch: begun.epoch, ..restored }, begun);
    let [later, other] = [
        storage.create(&new_order("F-2", NOW)).await,
        storage.create(&new_order("F-3", NOW)).await,
    ];
    for order in [later, other] {
        change(storage, add_note(order, Actor::Client, "y")).await;
    }
    let (after, end) = read(storage, LIVE, begun, 3).await;
    for place in lost {
        assert_eq!(storage.feed.page(LIVE, place, 10).await.unwrap(), None, "{place}");
    }
    assert_eq!(after, read(storage, LIVE, restored, 3).await.0);
    assert_eq!((after.len(), end.epoch), (4, restored.epoch));
    assert_eq!(all(storage, LIVE).await.len(), 6);

    // Restored again, from the same backup or from another one: each time another epoch, whatever the clock says.
    storage.other_system.make_epochs_foreign().await;
    storage.feed.begin_epoch(NOW - Duration::DAY).await.unwrap();
    assert_ne!(storage.feed.now().await.unwrap().epoch, restored.epoch);
    assert_eq!(read(storage, LIVE, begun, 3).await.0.len(), 4);
    assert_eq!(read(storage, LIVE, end, 3).await.0, []);
    let beyond = FeedCursor { changed: end.changed + 1, ..end };
    change(storage, add_note(id, Actor::Client, "z")).await;
    assert_eq!(read(storage, LIVE, end, 3).await.0.len(), 1);
    assert_eq!(storage.feed.page(LIVE, beyond, 10).await.unwrap(), None);
}

/// Several processes start on a restored database at once.
pub async fn one_of_concurrent_starts_begins_the_epoch(storage: &Storage) {
    storage.feed.begin_epoch(NOW).await.unwrap();
    storage.create(&new_order("F-1", NOW)).await;
    storage.other_system.make_epochs_foreign().await;
    let starts = (1..=3).map(|number| {
        let feed = storage.feed.clone();
        async move {
            feed.begin_epoch(NOW + Duration::SECOND * number).await.unwrap();
            feed.now().await.unwrap()
        }
    });
    let places = at_once(starts).await;
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    assert_ne!(places[0].epoch, 0);
}

/// Numbers are not given again: a poller that has seen the last one sees the next.
pub async fn old_erasures_leave_the_feed(storage: &Storage) {
    let ids = storage.create_all(["F-1", "F-2", "F-3"]).await;
    for (number, id) in (0..).zip(ids) {
        condemned(storage.admin.erase(id, NOW + MICROSECOND * number, None).await.unwrap());
    }
    let (seen, last) = read(storage, LIVE, FeedCursor::START, 100).await;
    assert_eq!(seen.len(), 3);
    let forget = async |before, limit| storage.feed.forget_erasures(before, limit).await.unwrap();
    assert_eq!(forget(NOW, 10).await, 0);
    assert_eq!(forget(NOW + MICROSECOND * 2, 1).await, 1);
    assert_eq!(forget(NOW + MICROSECOND * 2, 10).await, 1);
    assert_eq!(kinds(&all(storage, LIVE).await), [(ids[2], "erased")]);
    assert_eq!(forget(FAR, 10).await, 1);
    assert_eq!(read(storage, LIVE, last, 100).await, (vec![], last));
    let id = storage.create(&new_order("F-4", NOW)).await;
    change(storage, add_note(id, Actor::Client, "x")).await;
    let after = read(storage, LIVE, last, 100).await.0;
    assert_eq!(kinds(&after), [(id, "created"), (id, "note_added")]);
    assert_eq!(forget(FAR, 10).await, 0);
}

/// Eight writers and a poller. Some orders are erased meanwhile, and another system changes one.
pub async fn poller_misses_no_concurrent_change(storage: &Storage) {
    const TASKS: usize = 8;
    const EACH: i32 = 12;
    let start = storage.create(&new_order("F-0", NOW)).await;
    let writing = (0..TASKS).map(|task| {
        let (orders, admin) = (storage.orders.clone(), storage.admin.clone());
        tokio::spawn(async move {
            let mut made = Vec::new();
            for number in 0..EACH {
                // Clocks of instances differ.
                let at = NOW + Duration::MINUTE * i32::try_from(task).unwrap();
                let order = new_order(&format!("T-{task}-{number}"), at);
                let id = orders.create(&order, WINDOW).await.unwrap();
                for _ in 0..number % 4 {
                    orders.change(&add_note(id, Actor::Client, "x")).await.unwrap();
                }
                let is_erased = number % 6 == 5;
                if is_erased {
                    condemned(admin.erase(id, NOW, None).await.unwrap());
                }
                made.push((id, number % 4, is_erased));
            }
            made
        })
    });
    let writing: Vec<_> = writing.collect();
    let (mut after, mut seen) = (FeedCursor::START, Vec::new());
    let mut foreign = 0;
    loop {
        let is_last_look = writing.iter().all(JoinHandle::is_finished);
        let page = page(storage, LIVE, after, 7).await;
        let is_empty = page.entries.is_empty();
        seen.extend(page.entries);
        after = page.next;
        // SQLite makes other systems wait for the writers.
        if is_last_look && foreign < 9 {
            foreign += 1;
            let notary = ForeignChange::Notary(Some(foreign));
            storage.other_system.change_order(start, notary).await;
        } else if is_last_look && is_empty && !page.has_more {
            break;
        }
        tokio::task::yield_now().await;
    }
    let cursors: HashSet<_> = seen.iter().map(|entry| entry.cursor.to_string()).collect();
    assert_eq!(cursors.len(), seen.len(), "each entry has a place of its own");
    let mut by_order: BTreeMap<OrderId, Vec<&str>> = BTreeMap::new();
    for entry in &seen {
        by_order.entry(entry.change.order).or_default().push(&entry.change.kind);
    }
    let foreign = usize::try_from(foreign).unwrap();
    let expected = [vec!["created"], vec!["status"; foreign]].concat();
    assert_eq!(by_order.remove(&start).unwrap(), expected);
    for task in writing {
        for (id, notes, is_erased) in task.await.unwrap() {
            let found = by_order.remove(&id).unwrap_or_default();
            let notes = usize::try_from(notes).unwrap();
            if is_erased {
                // What the poller had not seen before is gone.
                assert_eq!(found.last(), Some(&"erased"), "{id:?}");
                let before = &found[..found.len() - 1];
                assert!(before.is_empty() || before[0] == "created", "{id:?} {found:?}");
                assert!(before.len() <= 1 + notes && !before.contains(&"erased"));
            } else {
                assert_eq!(found, [vec!["created"], vec!["note_added"; notes]].concat(), "{id:?}");
            }
        }
    }
    assert_eq!(by_order, BTreeMap::new());
}
