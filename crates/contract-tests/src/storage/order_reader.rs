//! The contract of `OrderReader`.

use domain::{
    api_key::{ClientId, NewApiKey, Owner, Party},
    appointment::parse_date,
    document::DocumentCounts,
    order::{
        Actor, EmailAddress, MAX_NOTE, Names, Notary, OrderId, OrderStatus, SigningServiceId,
        StoredOrder,
        attention::{Attention, AttentionFilter},
        search::{SearchedName, SearchedText},
    },
    ports::{
        Cursor, HistoryId, HistoryQuery, LastChange, ListFilter, ListedOrder, MaybeErased,
        NewOrder, NoteNumber, NoteQuery, NumberedNote, OrderFilter, OrderNews, OrderUpdate, Page,
        PageQuery,
    },
    signing_service::SigningService,
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, macros::date};

use crate::{
    ForeignChange,
    order_repo::{added, addition, changing},
    samples::{
        CLIENT, LIVE, MICROSECOND, NOW, Storage, WINDOW, add_note, amend, api_key, condemned,
        create_to_be_named, create_with_uploads, document, minimal_request, names_order, new_order,
        order, record_uploads, stored, to_sign,
    },
};

/// Returns the question for the newest orders.
fn newest(limit: usize) -> PageQuery {
    PageQuery { filter: ListFilter::default(), limit, cursor: Cursor::Newest, cursor_starts: None }
}

/// Returns the question for the newest orders with a file number.
fn numbered(file_number: Option<&str>, limit: usize) -> PageQuery {
    let file_number = file_number.map(str::to_owned);
    PageQuery { filter: ListFilter { file_number, ..Default::default() }, ..newest(limit) }
}

async fn page(storage: &Storage, query: &PageQuery) -> Page {
    storage.reader.page(LIVE, query).await.unwrap().expect("the cursor is known")
}

/// Returns the identifiers on a page, and whether it has older and newer neighbours.
async fn ids(storage: &Storage, query: &PageQuery) -> (Vec<OrderId>, bool, bool) {
    let page = page(storage, query).await;
    let ids = page.items.iter().map(|order| order.stored.id).collect();
    (ids, page.has_older, page.has_newer)
}

/// Creates orders a second apart, the oldest first, with their numbers as file numbers.
async fn create(storage: &Storage, count: i32) -> Vec<OrderId> {
    let mut ids = Vec::new();
    for number in 0..count {
        let order = new_order(&format!("F-{number}"), NOW + Duration::SECOND * number);
        ids.push(storage.create(&order).await);
    }
    ids
}

fn reversed(ids: &[OrderId]) -> Vec<OrderId> {
    ids.iter().rev().copied().collect()
}

/// Covers documents that were added later, and positions behind the last one.
pub async fn document_is_read_by_its_position(storage: &Storage) {
    let mut order =
        NewOrder { documents: (0..3).map(|_| document()).collect(), ..new_order("F-1", NOW) };
    let id = create_with_uploads(storage, &order).await;
    let addition = addition(id, 1);
    record_uploads(storage, &added(&addition).documents).await;
    storage.orders.change(&addition).await.unwrap();
    order.documents.extend(added(&addition).documents.clone());
    for (position, document) in (0..).zip(order.documents) {
        let read = storage.reader.document(LIVE, to_sign(id, position)).await.unwrap();
        assert_eq!(read, Some(MaybeErased::Whole(document)), "{position}");
    }
    for position in [4, 5, u32::MAX] {
        let read = storage.reader.document(LIVE, to_sign(id, position)).await.unwrap();
        assert_eq!(read, None, "{position}");
    }
}

/// Tries every call and every cursor of each owner with those of the others: another client, and the
/// test keys of a client and its live keys.
pub async fn other_owner_reads_nothing(storage: &Storage) {
    let owners = [(CLIENT, false), (CLIENT, true), (ClientId(77), false)]
        .map(|(client, is_test)| Owner::client(client, is_test));
    let mut owned = Vec::new();
    for (number, file_number) in ["F-0", "F-1"].into_iter().enumerate() {
        for (minute, owner) in (0..).zip(owners) {
            // Beyond the duplicate window, so that all use the same file numbers.
            let at = NOW + Duration::minutes(minute);
            let Owner { party: Party::Client(client), is_test } = owner else { panic!() };
            let documents = vec![document()];
            let order = NewOrder { client, documents, is_test, ..new_order(file_number, at) };
            let id = create_with_uploads(storage, &order).await;
            owned.push((owner, file_number, id));
            if number == 1 && is_test {
                condemned(storage.admin.erase(id, NOW, None).await.unwrap());
            }
        }
    }
    let erased = owned[4].2;
    for asking in [&owners[..], &[Owner::client(ClientId(0), false)]].concat() {
        for &(owner, _, id) in &owned {
            let order = storage.reader.order(asking, id).await.unwrap();
            let document = storage.reader.document(asking, to_sign(id, 0)).await.unwrap();
            let is_own = asking == owner;
            assert_eq!([order.is_some(), document.is_some()], [is_own; 2], "{asking:?} {id:?}");
            for cursor in [Cursor::OlderThan(id), Cursor::NewerThan(id)] {
                let query = PageQuery { cursor, ..newest(10) };
                let page = storage.reader.page(asking, &query).await.unwrap();
                assert_eq!(page.is_some(), is_own, "{asking:?} {cursor:?}");
                let orders = page.into_iter().flat_map(|page| page.items);
                assert!(orders.into_iter().all(|ListedOrder { stored, .. }| {
                    asking == Owner::client(stored.client, stored.is_test)
                }));
            }
        }
        for file_number in [None, Some("F-0"), Some("F-1")] {
            let is_listed = |(owner, number, id): &&(Owner, &str, OrderId)| {
                *owner == asking && *id != erased && file_number.is_none_or(|it| it == *number)
            };
            let expected: Vec<_> = owned.iter().rev().filter(is_listed).map(|own| own.2).collect();
            let query = numbered(file_number, 10);
            let page = storage.reader.page(asking, &query).await.unwrap().unwrap();
            let listed: Vec<_> = page.items.iter().map(|order| order.stored.id).collect();
            assert_eq!((listed, page.has_older, page.has_newer), (expected, false, false));
        }
    }
}

/// Nor is it a cursor. Covers identifiers that are not assigned yet and those that never will be.
pub async fn unknown_order_is_not_read(storage: &Storage) {
    let id = create(storage, 1).await[0];
    for unknown in [i64::MIN, -1, 0, id.0 + 1, i64::MAX].map(OrderId) {
        assert_eq!(storage.reader.order(LIVE, unknown).await.unwrap(), None);
        assert_eq!(storage.reader.document(LIVE, to_sign(unknown, 0)).await.unwrap(), None);
        // Toward newer orders, 0 stands for the beginning.
        let cursors = [Cursor::OlderThan(unknown), Cursor::NewerThan(unknown)];
        for cursor in cursors.into_iter().filter(|it| *it != Cursor::NewerThan(OrderId(0))) {
            let query = PageQuery { cursor, ..newest(10) };
            assert_eq!(storage.reader.page(LIVE, &query).await.unwrap(), None, "{cursor:?}");
        }
    }
}

/// An error names the order whose row cannot be read. The others are read, and lists show what its columns know.
pub async fn unreadable_order_is_named(storage: &Storage) {
    let [.., bad, good] = create_to_be_named(storage).await;
    storage.other_system.damage_order(bad).await;
    assert!(storage.reader.order(LIVE, good).await.unwrap().is_some());
    let error = storage.reader.order(LIVE, bad).await.unwrap_err();
    assert!(names_order(&error, bad) && error.is_unreadable_order(), "{error:?}");
    let page = page(storage, &newest(2)).await;
    let listed = storage.admin.list(&OrderFilter::default(), None, 2).await.unwrap();
    for items in [page.items, listed] {
        let [good_one, bad_one] = &items[..] else { panic!("{items:?}") };
        assert_eq!((good_one.stored.id, bad_one.stored.id), (good, bad));
        let known = &bad_one.stored;
        assert_ne!(known.order.file_number, good_one.stored.order.file_number);
        assert_eq!(known.order.appointment.date, good_one.stored.order.appointment.date);
        assert_eq!((&*known.order.signing.signer.name, known.status.as_str()), ("", "NEW"));
    }
    let named = storage.webhook_queue.unreadable(OrderId(0), 10).await.unwrap();
    assert_eq!(named.looked_at, None);
    assert!(named.rows.iter().any(|row| row.fault.contains(&format!("row {} of orders", bad.0))));
    condemned(storage.admin.erase(bad, NOW, None).await.unwrap());
}

/// Orders in a page have the number of their documents instead of the documents.
pub async fn page_has_the_newest_orders_with_their_number_of_documents(storage: &Storage) {
    let mut expected = Vec::new();
    for (number, documents) in [2, 0, 1].into_iter().enumerate() {
        let order = NewOrder {
            documents: (0..documents).map(|_| document()).collect(),
            ..new_order(&format!("F-{number}"), NOW)
        };
        let id = create_with_uploads(storage, &order).await;
        let listed = StoredOrder { documents: vec![], ..stored(id, &order) };
        let counts = DocumentCounts { documents, unfetched: documents, ..Default::default() };
        expected.insert(0, ListedOrder { stored: listed, counts, news: None, listed_at: None });
    }
    for ListedOrder { stored, .. } in &expected {
        let change = ForeignChange::Both("ASSIGNED", Some(9));
        storage.other_system.change_order(stored.id, change).await;
    }
    let whole = page(storage, &newest(100)).await;
    for (listed, found) in expected.iter_mut().zip(&whole.items) {
        listed.stored.status = OrderStatus::from_stored("ASSIGNED".to_owned()).unwrap();
        listed.stored.notary_id = Some(9);
        // The database sets the instant of the change.
        listed.stored.updated_at = found.stored.updated_at;
        let change = LastChange {
            at: found.stored.updated_at,
            kind: "status".to_owned(),
            actor: Actor::Database,
            changed: None,
        };
        listed.news = Some(OrderNews { change, note: None });
    }
    assert_eq!(
        whole,
        Page { items: expected, has_older: false, has_newer: false, stopped_at: None }
    );
}

/// In every read, and in the answer of a change. A client without a name has that of its first key.
pub async fn orders_have_the_names_of_now(storage: &Storage) {
    let first = api_key(NOW);
    let client = ClientId(storage.keys.add(&first, "jane").await.unwrap().0);
    let further = NewApiKey { client: Some(client), ..api_key(NOW) };
    storage.keys.add(&further, "jane").await.unwrap();
    let owner = Owner::client(client, false);
    let id = storage.create(&NewOrder { client, ..new_order("F-1", NOW) }).await;
    let mut service =
        SigningService { id: SigningServiceId(42), name: "Seven".to_owned(), emails: Vec::new() };
    let mut expected = Names { client: Some(first.name), service: None };
    for step in 0..3 {
        if step == 1 {
            assert!(storage.services.add(&service).await.unwrap());
            expected.service = Some("Seven".to_owned());
        } else if step == 2 {
            "Eight".clone_into(&mut service.name);
            assert!(storage.services.change(&service).await.unwrap());
            assert!(storage.keys.rename_client(client, "Acme").await.unwrap());
            expected = Names { client: Some("Acme".to_owned()), service: Some("Eight".to_owned()) };
        }
        let order = storage.reader.order(owner, id).await.unwrap().and_then(MaybeErased::whole);
        let listed = storage.reader.listed(owner, id).await.unwrap().and_then(MaybeErased::whole);
        let page = storage.reader.page(owner, &newest(10)).await.unwrap().unwrap();
        let admin = storage.admin.order(id).await.unwrap().and_then(MaybeErased::whole);
        let all = storage.admin.list(&OrderFilter::default(), None, 10).await.unwrap();
        let change = changing::update(id, order.as_ref().unwrap().updated_at, &format!("S{step}"));
        let changed = storage.orders.update(&change).await.unwrap();
        let found = [order.unwrap(), listed.unwrap().stored, page.items[0].stored.clone()];
        let found = found.into_iter().chain([admin.unwrap(), all[0].stored.clone()]);
        for order in found.chain([changed.unwrap().stored]) {
            assert_eq!(order.names, expected, "{step}");
        }
    }
}

/// Each page says whether there are older and newer ones. A client without orders has an empty page.
pub async fn pages_walk_to_the_oldest_order_and_back(storage: &Storage) {
    let (older, newer) = (Cursor::OlderThan, Cursor::NewerThan);
    for cursor in [Cursor::Newest, newer(OrderId(0))] {
        let page = ids(storage, &PageQuery { cursor, ..newest(10) }).await;
        assert_eq!(page, (vec![], false, false), "{cursor:?}");
    }
    let all = create(storage, 7).await;
    for (limit, cursor, expected, has_older, has_newer) in [
        (3, Cursor::Newest, 4..7, true, false),
        (3, older(all[4]), 1..4, true, true),
        (3, older(all[1]), 0..1, false, true),
        (3, newer(all[0]), 1..4, true, true),
        (3, newer(all[3]), 4..7, true, false),
        (3, newer(all[5]), 6..7, true, false),
        (3, newer(OrderId(0)), 0..3, false, true),
        (7, newer(OrderId(0)), 0..7, false, false),
        // A page that ends exactly at the last order.
        (3, older(all[3]), 0..3, false, true),
        (7, Cursor::Newest, 0..7, false, false),
        // An empty page.
        (10, older(all[0]), 0..0, false, true),
        (10, newer(all[6]), 7..7, true, false),
    ] {
        let page = ids(storage, &PageQuery { cursor, ..newest(limit) }).await;
        assert_eq!(page, (reversed(&all[expected]), has_older, has_newer), "{limit} {cursor:?}");
    }
}

/// File numbers are compared exactly.
pub async fn page_has_orders_with_a_file_number(storage: &Storage) {
    let mut expected = Vec::new();
    for (number, file_number) in ["F-1", "f-1", "F-1", "F-11", "F-1"].into_iter().enumerate() {
        let at = NOW + Duration::MINUTE * i32::try_from(number).unwrap();
        let id = storage.create(&new_order(file_number, at)).await;
        if file_number == "F-1" {
            expected.push(id);
        }
    }
    let query = |limit| numbered(Some("F-1"), limit);
    assert_eq!(ids(storage, &query(10)).await, (reversed(&expected), false, false));
    assert_eq!(ids(storage, &query(2)).await, (reversed(&expected[1..]), true, false));
    let older = PageQuery { cursor: Cursor::OlderThan(expected[1]), ..query(2) };
    assert_eq!(ids(storage, &older).await, (vec![expected[0]], false, true));
    let unknown = numbered(Some("F"), 10);
    assert_eq!(ids(storage, &unknown).await, (vec![], false, false));
}

/// The first instant is part of the time, the last one is not, to the microsecond. The clocks of
/// instances differ by some minutes, and jump, so identifiers and instants do not grow alike.
pub async fn orders_of_a_time_are_found_though_clocks_differ(storage: &Storage) {
    let mut orders = Vec::new();
    for number in 0..40 {
        let skew = match number {
            0..4 | 21 => Duration::days(400),
            13 | 39 => Duration::days(-300),
            _ => Duration::minutes([0, 7, -7, 3][number % 4]),
        };
        let at = NOW + Duration::hours(i64::try_from(number / 4).unwrap()) + skew;
        let order = new_order(&format!("F-{number}"), at);
        orders.push((storage.create(&order).await, at));
    }
    let instants = orders.iter().flat_map(|(_, at)| [*at, *at + MICROSECOND]);
    let ends = instants.map(Some).chain([None, Some(NOW - Duration::HOUR)]);
    for after in ends {
        for before in [None, after, after.map(|at| at + Duration::hours(2)), Some(NOW)] {
            let is_in = |at: &OffsetDateTime| {
                after.is_none_or(|after| after <= *at) && before.is_none_or(|before| *at < before)
            };
            let found = orders.iter().rev().filter(|(_, at)| is_in(at));
            let expected: Vec<_> = found.map(|(id, _)| *id).collect();
            let (created_after, created_before) = (after, before);
            let filter = ListFilter { created_after, created_before, ..Default::default() };
            let query = PageQuery { filter, ..newest(100) };
            let found = ids(storage, &query).await;
            assert_eq!(found, (expected, false, false), "{after:?} to {before:?}");
        }
    }
}

/// Neighbours of a page match the filters too. Cursors need not match them.
pub async fn filters_and_cursors_combine(storage: &Storage) {
    let all = create(storage, 8).await;
    let at = |number: i32| NOW + Duration::SECOND * number;
    let (older, newer) = (Cursor::OlderThan, Cursor::NewerThan);
    for (limit, cursor, number, expected, has_older, has_newer) in [
        (3, Cursor::Newest, None, 3..6, true, false),
        (10, older(all[4]), None, 2..4, false, true),
        (2, newer(all[2]), None, 3..5, true, true),
        (2, older(all[7]), None, 4..6, true, false),
        (10, newer(all[0]), None, 2..6, false, false),
        (10, Cursor::Newest, Some(3), 3..4, false, false),
        (10, Cursor::Newest, Some(7), 7..7, false, false),
    ] {
        let query = PageQuery {
            filter: ListFilter {
                created_after: Some(at(2)),
                created_before: Some(at(6)),
                file_number: number.map(|number: usize| format!("F-{number}")),
                ..Default::default()
            },
            limit,
            cursor,
            cursor_starts: None,
        };
        let page = ids(storage, &query).await;
        assert_eq!(page, (reversed(&all[expected]), has_older, has_newer), "{query:?}");
    }
}

/// Each filter alone and all combinations of two, with each cursor, for both sides. An order is created at
/// the instant of its last change, unless it was changed.
pub async fn filters_find_the_orders_that_match(storage: &Storage) {
    let service = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };
    let mut orders = Vec::new();
    for number in 0..12 {
        let mut request: Value = minimal_request();
        let date = date!(2026 - 12 - 01) + Duration::days(number % 4);
        request["signingDetailsFormData"]["signingDate"] = json!(date.to_string());
        request["signingDetailsFormData"]["fileNumber"] = json!(format!("F-{number}"));
        let at = NOW + Duration::hours(number);
        let new = NewOrder { order: order(request), ..new_order("F", at) };
        orders.push((storage.create(&new).await, date, at));
    }
    for (number, status) in [(0, "ASSIGNED"), (3, "en route"), (4, "ASSIGNED"), (8, "en route")] {
        let change = ForeignChange::Status(status);
        storage.other_system.change_order(orders[number].0, change).await;
    }
    // As they are now: the database sets the instant of a change.
    let stored = page(storage, &newest(100)).await.items;
    let date_of = |id| orders.iter().find(|order| order.0 == id).unwrap().1;
    let statuses = |texts: &[&str]| {
        texts.iter().filter_map(|text| OrderStatus::named((*text).to_owned())).collect()
    };
    let default = ListFilter::default;
    let single = [
        ListFilter { statuses: statuses(&["NEW"]), ..default() },
        ListFilter { statuses: statuses(&["En Route", "assigned"]), ..default() },
        ListFilter { statuses: statuses(&["SIGNED"]), ..default() },
        ListFilter { signing_date_from: Some(date!(2026 - 12 - 02)), ..default() },
        ListFilter { signing_date_to: Some(date!(2026 - 12 - 02)), ..default() },
        ListFilter {
            signing_date_from: Some(date!(2026 - 12 - 03)),
            signing_date_to: Some(date!(2026 - 12 - 03)),
            ..default()
        },
        ListFilter { updated_after: Some(NOW + Duration::hours(6)), ..default() },
        ListFilter { updated_after: Some(NOW + Duration::hours(12)), ..default() },
        ListFilter { created_before: Some(NOW + Duration::hours(8)), ..default() },
        ListFilter { created_after: Some(NOW + Duration::hours(3)), ..default() },
    ];
    for one in &single {
        for other in &single {
            let mut filter = one.clone();
            filter.created_after = filter.created_after.or(other.created_after);
            filter.created_before = filter.created_before.or(other.created_before);
            filter.updated_after = filter.updated_after.or(other.updated_after);
            filter.signing_date_from = filter.signing_date_from.or(other.signing_date_from);
            filter.signing_date_to = filter.signing_date_to.or(other.signing_date_to);
            if filter.statuses.is_empty() {
                filter.statuses.clone_from(&other.statuses);
            }
            let matches = |order: &&ListedOrder| {
                let StoredOrder { id, created_at, updated_at, ref status, .. } = order.stored;
                filter.created_after.is_none_or(|after| after <= created_at)
                    && filter.created_before.is_none_or(|before| created_at < before)
                    && filter.updated_after.is_none_or(|after| after <= updated_at)
                    && filter.signing_date_from.is_none_or(|from| from <= date_of(id))
                    && filter.signing_date_to.is_none_or(|to| date_of(id) <= to)
                    && (filter.statuses.is_empty() || filter.statuses.contains(status))
            };
            let expected: Vec<_> =
                stored.iter().filter(matches).map(|order| order.stored.id).collect();
            let in_list = OrderFilter { list: filter.clone(), ..Default::default() };
            let listed = storage.admin.list(&in_list, None, 100).await.unwrap();
            let listed: Vec<_> = listed.iter().map(|order| order.stored.id).collect();
            assert_eq!(listed, expected, "{filter:?}");
            for owner in [LIVE, service] {
                // Page by page toward older orders, and back.
                let mut query = PageQuery { filter: filter.clone(), ..newest(2) };
                let mut found = Vec::new();
                loop {
                    let page = storage.reader.page(owner, &query).await.unwrap().unwrap();
                    found.extend(page.items.iter().map(|order| order.stored.id));
                    if !page.has_older {
                        break;
                    }
                    query.cursor = Cursor::OlderThan(found[found.len() - 1]);
                }
                assert_eq!(found, expected, "{owner:?} {filter:?}");
                query.cursor = Cursor::NewerThan(orders[0].0);
                let back = storage.reader.page(owner, &query).await.unwrap().unwrap();
                let back: Vec<_> = back.items.iter().map(|order| order.stored.id).collect();
                let after_first = expected.iter().rev().filter(|id| **id != orders[0].0);
                let after_first: Vec<_> = after_first.take(2).copied().collect();
                assert_eq!(back, reversed(&after_first), "{owner:?} {filter:?}");
            }
        }
    }
    let test = Owner { is_test: true, ..service };
    let other = Owner { party: Party::Service(SigningServiceId(43)), is_test: false };
    for owner in [test, other, Owner::client(ClientId(77), false)] {
        for filter in &single {
            let query = PageQuery { filter: filter.clone(), ..newest(10) };
            let page = storage.reader.page(owner, &query).await.unwrap().unwrap();
            assert_eq!(page.items, [], "{owner:?}");
        }
    }
}

/// The letter case does not matter, in any script. An erased order is not found.
pub async fn search_finds_a_part_of_a_text(storage: &Storage) {
    let mut request: Value = minimal_request();
    let details = &mut request["signingDetailsFormData"];
    details["fileNumber"] = json!("Refi-100%_é");
    details["signerName"] = json!("Zoë Müller-Straße");
    details["coSignerName"] = json!("ΟΔΥΣΣΕΥΣ Ñandú");
    details["propertyAddress"] = json!("12 Ağaç Ulitsa Ёлкина");
    details["city"] = json!("Cañon City");
    let new = NewOrder { order: order(request), ..new_order("F", NOW) };
    let id = storage.create(&new).await;
    let other = storage.create(&new_order("F-2", NOW)).await;
    let query = searching;
    for text in [
        "refi-1",
        "refi_1",
        "0%_É",
        "ZOË",
        "Zoe",
        "müLLER-strasse",
        "straße ο",
        "οδυσσευς",
        "Οδυσσ",
        "ñANDÚ",
        "nandu",
        "12 ağaÇ",
        "ёЛКИНА",
        "CAÑON",
        "canon, zoe; 12",
    ] {
        assert_eq!(ids(storage, &query(text)).await, (vec![id], false, false), "{text}");
        let in_list = OrderFilter { list: query(text).filter, ..Default::default() };
        let listed = storage.admin.list(&in_list, None, 10).await.unwrap();
        assert_eq!(listed.iter().map(|order| order.stored.id).collect::<Vec<_>>(), [id], "{text}");
    }
    for text in ["refi_2", "%dal%as", "100%_éZ", "zoe quimby", "'; --q"] {
        assert_eq!(ids(storage, &query(text)).await, (vec![], false, false), "{text}");
    }
    let with_date = |from| {
        let PageQuery { filter, .. } = query("zoë");
        PageQuery { filter: ListFilter { signing_date_from: Some(from), ..filter }, ..newest(10) }
    };
    assert_eq!(ids(storage, &with_date(date!(2020 - 01 - 01))).await.0, [id]);
    assert_eq!(ids(storage, &with_date(date!(9999 - 01 - 01))).await.0, []);
    let after = PageQuery { cursor: Cursor::OlderThan(other), ..query("zoë") };
    assert_eq!(ids(storage, &after).await, (vec![id], false, false));
    storage.admin.erase(id, NOW, None).await.unwrap();
    assert_eq!(ids(storage, &query("zoë")).await, (vec![], false, false));
}

fn searching(text: &str) -> PageQuery {
    let search = Some(SearchedText::parse(text.to_owned()).unwrap());
    PageQuery { filter: ListFilter { search, ..Default::default() }, ..newest(10) }
}

/// In any order, each in any text. The number of the order is one of them.
pub async fn search_finds_words_of_every_text(storage: &Storage) {
    let mut request: Value = minimal_request();
    let details = &mut request["signingDetailsFormData"];
    details["signerName"] = json!("Harriet O’Brien");
    details["signerPhone"] = json!("(214) 555-0142");
    details["spouseName"] = json!("José Núñez");
    let new = NewOrder { order: order(request), ..new_order("F", NOW) };
    let id = storage.create(&new).await;
    storage.create(&new_order("F-2", NOW)).await;
    let number = format!("harriet {}", id.0);
    for text in [
        "obrien, harriet",
        "nunez",
        "214 555",
        "(214) 555-0142",
        "75201 harriet",
        "jane.doe@example.com jose",
        &number,
    ] {
        assert_eq!(ids(storage, &searching(text)).await, (vec![id], false, false), "{text}");
    }
    for text in ["obrien quimby", "harriet 99999", "214 5550143"] {
        assert_eq!(ids(storage, &searching(text)).await.0, [], "{text}");
    }
}

/// Folds the texts that another version or system has changed. Returns the number of their orders.
async fn fold(storage: &Storage) -> usize {
    let unfolded = storage.admin.unfolded(10).await.unwrap();
    storage.admin.fold_texts(&unfolded).await.unwrap();
    unfolded.len()
}

/// The stored text may have either, and so may the words.
pub async fn dashes_and_blanks_between_parts_are_alike(storage: &Storage) {
    let [dashed, blank] = storage.create_all(["GF-2026-114", "GF 2026-115"]).await;
    for (id, name) in [(dashed, "Mary Smith-Jones"), (blank, "Mary Smith Jones")] {
        let notary = Notary { name: name.to_owned(), phone: None, email: None };
        let named =
            OrderUpdate { notary: Some(Some(notary)), ..changing::update(id, NOW, "ASSIGNED") };
        storage.orders.update(&named).await.unwrap().unwrap();
    }
    for text in ["smith-jones", "smith jones", "SMITH/JONES", "mary smith\u{2013}jones"] {
        assert_eq!(ids(storage, &searching(text)).await.0, [blank, dashed], "{text}");
        assert_eq!(ids(storage, &of_notary(text)).await.0, [blank, dashed], "{text}");
    }
    for (text, expected) in [
        ("gf-2026-114", &[dashed][..]),
        ("gf 2026 114", &[dashed]),
        ("GF-2026-115", &[blank]),
        ("gf/2026/115", &[blank]),
        ("2026-11", &[blank, dashed]),
        ("smith-mary", &[]),
        ("114-2026", &[]),
    ] {
        assert_eq!(ids(storage, &searching(text)).await.0, expected, "{text}");
    }
    assert_eq!(ids(storage, &of_notary("jones smith")).await.0, []);
    // As version 0.1.0 has stored them.
    storage.other_system.write_as_first_version(blank, "gf 2026-115\nmary smith jones").await;
    assert_eq!(ids(storage, &searching("smith-jones")).await.0, [blank, dashed]);
}

fn of_notary(part: &str) -> PageQuery {
    let notary = Some(SearchedName::parse(part.to_owned()).unwrap());
    PageQuery { filter: ListFilter { notary, ..Default::default() }, ..newest(10) }
}

/// By the service at once, and by another system after the texts are folded.
pub async fn notary_is_found_whoever_assigns_it(storage: &Storage) {
    let [id, other] = storage.create_all(["F-1", "F-2"]).await;
    let notary = Notary {
        name: "Pat O’Quimby".to_owned(),
        phone: Some("(214) 555-0177".to_owned()),
        email: Some(EmailAddress::from_stored("pat@notary.example.com".to_owned())),
    };
    let named = OrderUpdate { notary: Some(Some(notary)), ..changing::update(id, NOW, "ASSIGNED") };
    storage.orders.update(&named).await.unwrap().unwrap();
    let change = ForeignChange::Named(Some(8), "Sam Álvarez");
    storage.other_system.change_order(other, change).await;
    assert_eq!(fold(storage).await, 1);
    for (text, expected) in [
        ("oquimby, pat", id),
        ("214 5550177", id),
        ("pat@notary.example.com", id),
        ("alvarez sam", other),
    ] {
        assert_eq!(ids(storage, &searching(text)).await.0, [expected], "{text}");
    }
    for (part, expected) in [("o’quim", &[id][..]), ("ÁLV", &[other]), ("555", &[]), ("@", &[])]
    {
        assert_eq!(ids(storage, &of_notary(part)).await.0, expected, "{part}");
    }
    storage.other_system.change_order(id, ForeignChange::Notary(None)).await;
    assert_eq!(ids(storage, &searching("oquimby")).await.0, []);
    assert_eq!(fold(storage).await, 0);
}

/// They are found by whole words meanwhile. It is no change of the order.
pub async fn texts_of_the_version_before_are_folded(storage: &Storage) {
    let mut request: Value = minimal_request();
    let details = &mut request["signingDetailsFormData"];
    details["signingTimeType"] = json!("anytime");
    details["signerName"] = json!("José Doe");
    let new = NewOrder { order: order(request), ..new_order("F", NOW) };
    let id = storage.create(&new).await;
    assert_eq!(fold(storage).await, 0);
    storage.other_system.write_as_first_version(id, "f-1\njosé doe").await;
    let found = async |text| ids(storage, &searching(text)).await.0;
    assert_eq!((found("f-1").await, found("josé").await), (vec![id], vec![id]));
    assert_eq!((found("jose").await, found("75201").await), (vec![], vec![]));
    assert_eq!(fold(storage).await, 1);
    assert_eq!((found("jose").await, found("75201").await), (vec![id], vec![id]));
    assert_eq!(fold(storage).await, 0);
    let after = storage.reader.order(LIVE, id).await.unwrap().and_then(MaybeErased::whole);
    assert_eq!(after, Some(stored(id, &new)));
    let dated = ListFilter {
        signing_date_from: Some(new.order.appointment.date),
        signing_date_to: Some(new.order.appointment.date),
        by_appointment: true,
        ..Default::default()
    };
    assert_eq!(ids(storage, &PageQuery { filter: dated, ..newest(10) }).await.0, [id]);
}

/// One that cannot be read is looked at once.
pub async fn folding_leaves_erased_orders_alone(storage: &Storage) {
    let [erased, damaged] = storage.create_all(["F-1", "F-2"]).await;
    for id in [erased, damaged] {
        storage.other_system.write_as_first_version(id, "jane").await;
    }
    storage.admin.erase(erased, NOW, None).await.unwrap();
    storage.other_system.damage_order(damaged).await;
    assert_eq!(fold(storage).await, 1);
    assert_eq!(fold(storage).await, 0);
    assert_eq!(ids(storage, &searching("jane")).await.0, [damaged]);
}

/// It is as it was, and no order to fold any more. The others are found by all of their words.
pub async fn order_whose_texts_cannot_be_stored_keeps_them(storage: &Storage) {
    let [other, refused] = storage.create_all(["F-1", "F-2"]).await;
    for id in [other, refused] {
        storage.other_system.write_as_first_version(id, "jane").await;
    }
    storage.other_system.let_one_order_have("75201").await;
    assert!(storage.admin.fold_texts(&[other, refused]).await.is_err());
    storage.admin.fold_texts(&[other]).await.unwrap();
    assert_eq!(storage.admin.unfolded(10).await.unwrap(), [refused]);
    assert!(storage.admin.fold_texts(&[refused]).await.unwrap_err().may_be_of_data());
    storage.admin.keep_texts(refused).await.unwrap();
    assert_eq!(storage.admin.unfolded(10).await.unwrap(), []);
    assert_eq!(ids(storage, &searching("jane")).await.0, [refused, other]);
    assert_eq!(ids(storage, &searching("75201")).await.0, [other]);
}

/// A client by the number of the service, and a service by the name of the client.
pub async fn filters_find_orders_of_the_other_side(storage: &Storage) {
    let mut of_clients = Vec::new();
    for name in ["Acme Title", "Best Title"] {
        let client = ClientId(storage.keys.add(&api_key(NOW), "jane").await.unwrap().0);
        storage.keys.rename_client(client, name).await.unwrap();
        of_clients.push(storage.create(&NewOrder { client, ..new_order(name, NOW) }).await);
    }
    let service = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };
    for (name, expected) in [("Best Title", &of_clients[1..]), ("Best", &[])] {
        let filter = ListFilter { client_name: Some(name.to_owned()), ..Default::default() };
        let query = PageQuery { filter, ..newest(10) };
        let page = storage.reader.page(service, &query).await.unwrap().unwrap();
        let found: Vec<_> = page.items.iter().map(|order| order.stored.id).collect();
        assert_eq!(found, expected, "{name}");
    }
    let mut other = new_order("F-43", NOW);
    other.order.signing_service_id = SigningServiceId(43);
    let own = [storage.create(&other).await, storage.create(&new_order("F-42", NOW)).await];
    for (service, expected) in [(43, &own[..1]), (42, &own[1..]), (44, &[])] {
        let signing_service = Some(SigningServiceId(service));
        let filter = ListFilter { signing_service, ..Default::default() };
        assert_eq!(ids(storage, &PageQuery { filter, ..newest(10) }).await.0, expected);
    }
}

/// Page by page to the end of the list.
async fn walk_list(storage: &Storage, filter: &ListFilter, limit: usize) -> Vec<OrderId> {
    let mut query = PageQuery { filter: filter.clone(), ..newest(limit) };
    let mut found = Vec::new();
    loop {
        let (page, has_more, _) = ids(storage, &query).await;
        found.extend(page);
        if !has_more {
            return found;
        }
        query.cursor = Cursor::OlderThan(found[found.len() - 1]);
    }
}

/// With every other filter, and in both orders.
pub async fn late_orders_are_found(storage: &Storage) {
    let statuses = ["NEW", "CANCELLED", "SIGNED", "CONFIRMED", "ON_HOLD", "ASSIGNED", "COMPLETED"];
    let all = create(storage, 7).await;
    let mut scanned = new_order("F-2", NOW).order;
    scanned.signing.scanbacks_required = true;
    storage.orders.change(&amend(all[2], scanned, NOW + MICROSECOND)).await.unwrap();
    for (id, (number, status)) in all.iter().zip(statuses.into_iter().enumerate()) {
        let notary = (number % 2 == 1).then_some(9);
        storage.other_system.change_order(*id, ForeignChange::Both(status, notary)).await;
    }
    let stored = page(storage, &newest(100)).await.items;
    for now in [NOW, NOW + Duration::days(10), NOW + Duration::days(12)] {
        for codes in [
            Attention::ALL.to_vec(),
            vec![Attention::Unassigned],
            vec![Attention::Unconfirmed, Attention::NotFetched],
            vec![Attention::NoResult],
            vec![Attention::NoScanbacks],
            vec![Attention::NoResult, Attention::NoScanbacks],
        ] {
            let attention = AttentionFilter { codes, now };
            let is_late = |order: &&ListedOrder| attention.matches(&order.stored, order.counts);
            let late = stored.iter().filter(is_late).map(|order| order.stored.id);
            let late: Vec<_> = late.collect();
            let filter = ListFilter { attention: Some(attention.clone()), ..Default::default() };
            assert_eq!(walk_list(storage, &filter, 1).await, late, "{filter:?}");
            // All begin at the same time.
            let by_start = ListFilter { by_appointment: true, ..filter.clone() };
            assert_eq!(walk_list(storage, &by_start, 2).await, reversed(&late), "{filter:?}");
            let file_number = Some("F-5".to_owned());
            let numbered = ListFilter { file_number, ..filter };
            let fifth = late.iter().copied().filter(|id| *id == all[5]).collect::<Vec<_>>();
            assert_eq!(walk_list(storage, &numbered, 2).await, fifth, "{numbered:?}");
        }
    }
}

/// Earliest first, whatever their kinds and zones. Those that begin at the same time are in the order of their
/// identifiers.
pub async fn appointments_are_listed_by_their_start(storage: &Storage) {
    let mut begins = Vec::new();
    for (number, (date, kind, time, zone)) in [
        ("2026-12-03", "at", "09:00", "America/Chicago"),
        ("2026-12-01", "at", "10:00", "America/Chicago"),
        ("2026-12-02", "anytime", "", "America/New_York"),
        ("2026-12-02", "between", "08:30", "America/New_York"),
        ("2026-12-01", "at", "08:00", "America/Los_Angeles"),
        ("2026-12-02", "at", "00:30", "Pacific/Kiritimati"),
        ("2026-12-03", "at", "09:00", "America/Chicago"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut request: Value = minimal_request();
        let details = &mut request["signingDetailsFormData"];
        details["fileNumber"] = json!(format!("F-{number}"));
        details["signingDate"] = json!(date);
        details["signingTimeType"] = json!(kind);
        details["timeZoneId"] = json!(zone);
        details["specificTime"] = json!(time);
        details["startTime"] = json!(time);
        details["endTime"] = json!("23:00");
        let new = NewOrder { order: order(request), ..new_order("F", NOW) };
        let starts = new.order.appointment.starts();
        begins.push((starts, storage.create(&new).await, date));
    }
    let erased = storage.create(&new_order("F-E", NOW)).await;
    storage.admin.erase(erased, NOW, None).await.unwrap();
    begins.sort_unstable();
    let expected: Vec<_> = begins.iter().map(|it| it.1).collect();
    let by_appointment = ListFilter { by_appointment: true, ..Default::default() };
    for limit in [1, 2, 3, 10] {
        assert_eq!(walk_list(storage, &by_appointment, limit).await, expected, "{limit}");
    }
    let back = |cursor| PageQuery { filter: by_appointment.clone(), cursor, ..newest(2) };
    let last = back(Cursor::NewerThan(OrderId(0)));
    assert_eq!(ids(storage, &last).await, (expected[5..].to_vec(), false, true));
    let middle = back(Cursor::NewerThan(expected[3]));
    assert_eq!(ids(storage, &middle).await, (expected[1..3].to_vec(), true, true));
    for (from, to) in [("2026-12-02", "2026-12-02"), ("2026-12-01", "2026-12-02")] {
        let dated = ListFilter {
            signing_date_from: parse_date(from),
            signing_date_to: parse_date(to),
            ..by_appointment.clone()
        };
        let on_dates = begins.iter().filter(|it| (from..=to).contains(&it.2)).map(|it| it.1);
        assert_eq!(walk_list(storage, &dated, 2).await, on_dates.collect::<Vec<_>>(), "{from}");
    }
    let unknown = back(Cursor::OlderThan(OrderId(999)));
    assert_eq!(storage.reader.page(LIVE, &unknown).await.unwrap(), None);
}

/// Each page goes on where the one before ended, wherever the orders of the cursors are then. A cursor without a start
/// goes on at the place that its order has now.
pub async fn agenda_goes_on_at_the_place_of_its_cursor(storage: &Storage) {
    let on = |number: usize, date: &str| {
        let mut request: Value = minimal_request();
        let details = &mut request["signingDetailsFormData"];
        details["fileNumber"] = json!(format!("F-{number}"));
        details["signingDate"] = json!(date);
        order(request)
    };
    let mut all = Vec::new();
    for number in 0..6 {
        let order = on(number, &format!("2026-12-0{}", number + 1));
        all.push(storage.create(&NewOrder { order, ..new_order("F", NOW) }).await);
    }
    let filter = ListFilter { by_appointment: true, ..Default::default() };
    let found = |page: &Page| page.items.iter().map(|it| it.stored.id).collect::<Vec<_>>();
    let first = page(storage, &PageQuery { filter: filter.clone(), ..newest(2) }).await;
    assert_eq!(found(&first), all[..2]);
    let after = |page: &Page| {
        let place = page.items.last().unwrap().place();
        assert!(place.starts.is_some());
        let cursor = Cursor::OlderThan(OrderId(place.id));
        PageQuery { filter: filter.clone(), cursor, cursor_starts: place.starts, ..newest(2) }
    };
    let behind_first = after(&first);
    let moved = amend(all[1], on(1, "2026-12-09"), NOW + Duration::HOUR);
    storage.orders.change(&moved).await.unwrap();
    let second = page(storage, &behind_first).await;
    assert_eq!((found(&second), second.has_newer), (all[2..4].to_vec(), true));
    let behind_second = after(&second);
    storage.admin.erase(all[3], NOW, None).await.unwrap();
    let third = page(storage, &behind_second).await;
    assert_eq!(found(&third), all[4..]);
    let fourth = page(storage, &after(&third)).await;
    assert_eq!((found(&fourth), fourth.has_older), (vec![all[1]], false));
    // Backwards from the place of the erased order, and from one that no order ever had.
    let PageQuery { cursor_starts, .. } = behind_second;
    for id in [all[3], OrderId(999)] {
        let cursor = Cursor::NewerThan(id);
        let query = PageQuery { filter: filter.clone(), cursor, cursor_starts, ..newest(10) };
        let back = page(storage, &query).await;
        assert_eq!((found(&back), back.has_older), (vec![all[0], all[2]], true), "{id:?}");
    }
    let of_now = PageQuery { cursor_starts: None, ..behind_first };
    assert_eq!(found(&page(storage, &of_now).await), []);
}

/// Only in pages.
pub async fn page_tells_the_newest_change_and_note(storage: &Storage) {
    let new = new_order("F-1", NOW);
    let id = storage.create(&new).await;
    let news = async || page(storage, &newest(1)).await.items.remove(0).news.unwrap();
    let LastChange { at, kind, actor, changed } = news().await.change;
    assert_eq!((at, &*kind, actor, changed), (NOW, "created", Actor::Client, None));
    let mut order = new.order.clone();
    order.signing.lender = Some("First Bank".to_owned());
    let amended = NOW + Duration::HOUR;
    storage.orders.change(&amend(id, order, amended)).await.unwrap();
    let LastChange { at, kind, actor, changed } = news().await.change;
    assert_eq!((at, &*kind, actor), (amended, "changed", Actor::Client));
    assert_eq!(changed.unwrap(), ["/signingDetailsFormData/lender"]);
    assert_eq!(news().await.note, None);
    storage.orders.change(&add_note(id, Actor::Service, "Ring twice.")).await.unwrap();
    let (at, author) = news().await.note.unwrap();
    assert_eq!((at, author), (amended + MICROSECOND, Actor::Service));
}

/// By its new date and texts, and no more by those before.
pub async fn changed_order_is_found_by_its_new_values(storage: &Storage) {
    let before = new_order("F-1", NOW);
    let id = storage.create(&before).await;
    let mut order = before.order.clone();
    // A search finds the parts of e-mail addresses, too.
    "Renée Changed".clone_into(&mut order.signing.signer.name);
    order.signing.signer.email = EmailAddress::from_stored("changed@example.com".to_owned());
    order.appointment.date = before.order.appointment.date + Duration::DAY;
    let dates = [before.order.appointment.date, order.appointment.date];
    let names = [before.order.signing.signer.name.clone(), order.signing.signer.name.clone()];
    let amendment = amend(id, order, NOW + Duration::HOUR);
    storage.orders.change(&amendment).await.unwrap();
    for ((date, name), expected) in dates.into_iter().zip(names).zip([&[][..], &[id]]) {
        let on_date = ListFilter {
            signing_date_from: Some(date),
            signing_date_to: Some(date),
            ..Default::default()
        };
        let search = SearchedText::parse(name).ok();
        for filter in [on_date, ListFilter { search, ..Default::default() }] {
            let query = PageQuery { filter, ..newest(10) };
            assert_eq!(ids(storage, &query).await.0, expected, "{:?}", query.filter);
        }
    }
    let updated_after = Some(NOW + Duration::MINUTE);
    let filter = ListFilter { updated_after, ..Default::default() };
    assert_eq!(ids(storage, &PageQuery { filter, ..newest(10) }).await.0, [id]);
}

/// Pages around it have its neighbours.
pub async fn erased_order_is_in_no_page_and_still_a_cursor(storage: &Storage) {
    let all = create(storage, 3).await;
    storage.admin.erase(all[1], NOW, None).await.unwrap();
    assert_eq!(ids(storage, &newest(10)).await, (vec![all[2], all[0]], false, false));
    let older = PageQuery { cursor: Cursor::OlderThan(all[1]), ..newest(10) };
    assert_eq!(ids(storage, &older).await, (vec![all[0]], false, true));
    let newer = PageQuery { cursor: Cursor::NewerThan(all[1]), ..newest(10) };
    assert_eq!(ids(storage, &newer).await, (vec![all[2]], true, false));
    storage.admin.erase(all[2], NOW, None).await.unwrap();
    assert_eq!(ids(storage, &newest(10)).await, (vec![all[0]], false, false));
}

/// Orders are created while the poller pages toward newer ones.
pub async fn poller_misses_no_concurrent_order(storage: &Storage) {
    const TASKS: usize = 8;
    const EACH: usize = 25;
    let first = create(storage, 1).await[0];
    let creating = (0..TASKS).map(|task| {
        let orders = storage.orders.clone();
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for number in 0..EACH {
                let order = new_order(&format!("T-{task}-{number}"), NOW);
                ids.push(orders.create(&order, WINDOW).await.unwrap());
            }
            ids
        })
    });
    let creating: Vec<_> = creating.collect();
    let (mut last, mut seen) = (first, Vec::new());
    let mut all_created = false;
    loop {
        let is_last_look = all_created;
        let query = PageQuery { cursor: Cursor::NewerThan(last), ..newest(7) };
        let (page, _, has_newer) = ids(storage, &query).await;
        seen.extend(reversed(&page));
        last = seen.last().copied().unwrap_or(first);
        if is_last_look && page.is_empty() {
            assert!(!has_newer);
            break;
        }
        all_created = creating.iter().all(tokio::task::JoinHandle::is_finished);
        tokio::task::yield_now().await;
    }
    let created = join_all(creating).await;
    let mut created: Vec<_> = created.into_iter().flat_map(Result::unwrap).collect();
    created.sort_unstable();
    assert_eq!(seen, created);
}

/// Walks the history in pages of `limit` by their last or first entries, and returns their identifiers.
async fn walk(storage: &Storage, id: OrderId, limit: usize, is_to_newer: bool) -> Vec<HistoryId> {
    let (mut cursor, mut found) = (Cursor::Newest, Vec::new());
    if is_to_newer {
        cursor = Cursor::NewerThan(HistoryId::CREATED);
    }
    loop {
        let query = HistoryQuery { limit, cursor };
        let page = storage.reader.history(LIVE, id, &query).await.unwrap().unwrap();
        let page = page.whole().unwrap().expect("the cursor is known");
        let mut ids: Vec<_> = page.items.iter().map(|entry| entry.id).collect();
        let has_more = if is_to_newer { page.has_newer } else { page.has_older };
        assert!(ids.len() == limit || !has_more, "{ids:?}");
        if is_to_newer {
            ids.reverse();
        }
        let Some(&last) = ids.last() else { return found };
        found.extend(ids);
        cursor = if is_to_newer { Cursor::NewerThan(last) } else { Cursor::OlderThan(last) };
        if !has_more {
            return found;
        }
    }
}

/// However many changes another system makes. A read of the order has the newest entries.
pub async fn history_is_read_in_pages(storage: &Storage) {
    let [id, other] = create(storage, 2).await.try_into().unwrap();
    storage.other_system.change_order(other, ForeignChange::Status("ASSIGNED")).await;
    let read = async |id| {
        let read = storage.reader.order(LIVE, id).await.unwrap();
        read.and_then(MaybeErased::whole).unwrap().history().collect::<Vec<_>>()
    };
    for number in 1..=120 {
        storage.other_system.change_order(id, ForeignChange::Notary(Some(number))).await;
        if [1, 98, 99, 100, 120].contains(&number) {
            let history = read(id).await;
            let notaries: Vec<_> = history.iter().filter_map(|change| change.notary_id).collect();
            let newest: Vec<_> = ((number - 99).max(1)..=number).collect();
            assert_eq!(notaries, newest);
            let with_creation = usize::try_from(number).unwrap() + 1;
            assert_eq!(history.len(), with_creation.min(100));
        }
    }
    storage.other_system.change_order(other, ForeignChange::Notary(Some(1))).await;
    assert_eq!(read(other).await.len(), 3);
    for limit in [1, 7, 40, 60, 120, 121, 200] {
        let older = walk(storage, id, limit, false).await;
        assert_eq!((older.len(), older.last()), (121, Some(&HistoryId::CREATED)), "{limit}");
        assert!(older.is_sorted_by(|newer, older| newer > older), "{limit}");
        let newer = walk(storage, id, limit, true).await;
        assert!(newer.iter().eq(older[..120].iter().rev()), "{limit}");
    }
    let history = |owner, id, cursor| {
        let query = HistoryQuery { limit: 2, cursor };
        async move { storage.reader.history(owner, id, &query).await.unwrap() }
    };
    let page = history(LIVE, id, Cursor::Newest).await.unwrap().whole().unwrap().unwrap();
    assert_eq!((page.has_older, page.has_newer), (true, false));
    assert_eq!(page.items[0].change, *read(id).await.last().unwrap());
    let of_other = history(LIVE, other, Cursor::Newest).await.unwrap().whole().unwrap().unwrap();
    let foreign = Cursor::OlderThan(of_other.items[0].id);
    assert_eq!(history(LIVE, id, foreign).await, Some(MaybeErased::Whole(None)));
    let end = history(LIVE, id, Cursor::OlderThan(HistoryId::CREATED)).await;
    let end = end.unwrap().whole().unwrap().unwrap();
    assert_eq!((end.items.len(), end.has_older, end.has_newer), (0, false, true));
    for owner in [Owner::client(CLIENT, true), Owner::client(ClientId(77), false)] {
        assert_eq!(history(owner, id, Cursor::Newest).await, None);
        assert_eq!(storage.reader.listed(owner, id).await.unwrap(), None);
    }
    let listed = storage.reader.listed(LIVE, id).await.unwrap().unwrap().whole().unwrap();
    assert_eq!((listed.stored.notary_id, listed.stored.changes.len()), (Some(120), 0));
    storage.admin.erase(id, NOW, None).await.unwrap();
    assert_eq!(history(LIVE, id, Cursor::Newest).await, Some(MaybeErased::Erased));
    assert_eq!(storage.reader.listed(LIVE, id).await.unwrap(), Some(MaybeErased::Erased));
}

/// And it is told whether there are others.
pub async fn notaries_are_those_of_the_newest_orders(storage: &Storage) {
    let ids = storage.create_all(["F-1", "F-2", "F-3"]).await;
    for (number, id) in (1..).zip(ids) {
        let notary = Notary { name: format!("N{number}"), phone: None, email: None };
        let named =
            OrderUpdate { notary: Some(Some(notary)), ..changing::update(id, NOW, "ASSIGNED") };
        storage.orders.update(&named).await.unwrap().unwrap();
    }
    let names = async |since, newest| {
        let known = storage.reader.notaries(LIVE, since, newest).await.unwrap();
        let mut names: Vec<_> = known.found.into_iter().map(|one| one.notary.name).collect();
        names.sort_unstable();
        (names.join(" "), known.is_complete)
    };
    for (newest, found, is_complete) in
        [(1, "N3", false), (2, "N2 N3", false), (3, "N1 N2 N3", true)]
    {
        assert_eq!(names(NOW, newest).await, (found.to_owned(), is_complete), "{newest}");
    }
    assert_eq!(names(NOW + Duration::DAY, 3).await, (String::new(), true));
}

async fn notes(
    storage: &Storage,
    id: OrderId,
    limit: usize,
    cursor: Cursor<NoteNumber>,
) -> Option<Page<NumberedNote>> {
    let query = NoteQuery { limit, cursor };
    storage.reader.notes(LIVE, id, &query).await.unwrap().unwrap().whole().unwrap()
}

/// Walks the notes in pages, and returns their numbers in the order of the walk, with their texts.
async fn walk_notes(
    storage: &Storage,
    id: OrderId,
    limit: usize,
    is_to_newer: bool,
) -> Vec<(i64, String)> {
    let start = Cursor::NewerThan(NoteNumber::START);
    let (mut cursor, mut found) = (if is_to_newer { start } else { Cursor::Newest }, Vec::new());
    loop {
        let mut page = notes(storage, id, limit, cursor).await.expect("the cursor is known");
        if is_to_newer {
            page.items.reverse();
        }
        assert!((1..=limit).contains(&page.items.len()), "{limit}");
        let last = page.items.last().unwrap().number;
        found.extend(page.items.into_iter().map(|it| (it.number.0, it.note.text)));
        cursor = if is_to_newer { Cursor::NewerThan(last) } else { Cursor::OlderThan(last) };
        if !(if is_to_newer { page.has_newer } else { page.has_older }) {
            return found;
        }
    }
}

/// Adds notes with these texts.
async fn add_notes(storage: &Storage, id: OrderId, texts: impl IntoIterator<Item = String>) {
    for text in texts {
        storage.orders.change(&add_note(id, Actor::Client, &text)).await.unwrap();
    }
}

/// Their numbers count the notes of their order alone. A read of the order has the newest ones.
pub async fn notes_are_read_in_pages(storage: &Storage) {
    let [id, other] = create(storage, 2).await.try_into().unwrap();
    let empty = notes(storage, id, 2, Cursor::Newest).await.unwrap();
    assert_eq!((empty.items.len(), empty.has_older, empty.has_newer), (0, false, false));
    add_notes(storage, other, ["of another order".to_owned()]).await;
    add_notes(storage, id, (1..=105).map(|number| number.to_string())).await;
    let order = storage.reader.order(LIVE, id).await.unwrap().unwrap().whole().unwrap();
    let texts: Vec<_> = order.notes.iter().map(|note| note.text.clone()).collect();
    assert_eq!(texts, (6..=105).map(|number| number.to_string()).collect::<Vec<_>>());
    let expected: Vec<_> = (1..=105).map(|number| (number, number.to_string())).collect();
    for limit in [1, 7, 104, 105, 200] {
        assert_eq!(walk_notes(storage, id, limit, true).await, expected, "{limit}");
        let downward = walk_notes(storage, id, limit, false).await;
        assert!(downward.iter().eq(expected.iter().rev()), "{limit}");
    }
    let newest = notes(storage, id, 1, Cursor::Newest).await.unwrap();
    assert_eq!(
        (newest.items[0].number, &newest.items[0].note),
        (NoteNumber(105), &order.notes[99])
    );
    for (cursor, expected) in [
        (Cursor::NewerThan(NoteNumber::START), Some((2, false, true))),
        (Cursor::NewerThan(NoteNumber(1)), Some((2, true, true))),
        (Cursor::NewerThan(NoteNumber(105)), Some((0, true, false))),
        (Cursor::OlderThan(NoteNumber(1)), Some((0, false, true))),
        (Cursor::OlderThan(NoteNumber::START), None),
        (Cursor::OlderThan(NoteNumber(106)), None),
        (Cursor::NewerThan(NoteNumber(106)), None),
        (Cursor::NewerThan(NoteNumber(-1)), None),
    ] {
        let page = notes(storage, id, 2, cursor).await;
        let page = page.map(|page| (page.items.len(), page.has_older, page.has_newer));
        assert_eq!(page, expected, "{cursor:?}");
    }
    let query = NoteQuery { limit: 2, cursor: Cursor::Newest };
    for owner in [Owner::client(CLIENT, true), Owner::client(ClientId(77), false)] {
        assert_eq!(storage.reader.notes(owner, id, &query).await.unwrap(), None);
        assert_eq!(storage.reader.with_documents(owner, id).await.unwrap(), None);
    }
    let bare = storage.reader.with_documents(LIVE, id).await.unwrap().unwrap().whole().unwrap();
    assert_eq!(bare, StoredOrder { notes: Vec::new(), changes: Vec::new(), ..order });
    storage.admin.erase(id, NOW, None).await.unwrap();
    assert_eq!(storage.reader.notes(LIVE, id, &query).await.unwrap(), Some(MaybeErased::Erased));
    let erased = storage.reader.with_documents(LIVE, id).await.unwrap();
    assert_eq!(erased, Some(MaybeErased::Erased));
}

/// The largest notes have 20,000 bytes, so three of them are an answer.
pub async fn large_notes_are_read_in_short_pages(storage: &Storage) {
    let id = create(storage, 1).await[0];
    let text = "\u{1f514}".repeat(MAX_NOTE);
    add_notes(storage, id, ["first".to_owned()]).await;
    add_notes(storage, id, (0..5).map(|_| text.clone())).await;
    let order = storage.reader.order(LIVE, id).await.unwrap().unwrap().whole().unwrap();
    assert_eq!(order.notes.len(), 3);
    let mut cursor = Cursor::Newest;
    for (expected, has_older) in [(vec![6, 5, 4], true), (vec![3, 2, 1], false)] {
        let page = notes(storage, id, 100, cursor).await.unwrap();
        let numbers: Vec<_> = page.items.iter().map(|it| it.number.0).collect();
        assert_eq!((&numbers, page.has_older), (&expected, has_older));
        cursor = Cursor::OlderThan(page.items.last().unwrap().number);
    }
    let oldest = notes(storage, id, 100, Cursor::NewerThan(NoteNumber::START)).await.unwrap();
    let numbers: Vec<_> = oldest.items.iter().map(|it| it.number.0).collect();
    assert_eq!((numbers, oldest.has_newer, oldest.has_older), (vec![4, 3, 2, 1], true, false));
}
