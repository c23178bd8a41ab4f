//! Calls in many shapes: what clients and operators may combine, and lists of many lengths.

use domain::{
    api_key::{ApiKeyId, ClientId, Owner, Party},
    order::{
        Actor, OrderId, OrderStatus, SigningServiceId,
        attention::{Attention, AttentionFilter},
        search::{SearchedName, SearchedText},
    },
    person::{Doer, PersonId},
    ports::{
        AccessFilter, AccessLog, Cursor, DeliveryQueue, HistoryId, HistoryQuery, ListFilter,
        NoteNumber, NoteQuery, OrderAdmin, OrderFilter, OrderReader, OrderRepo, OrderUpdate,
        PageQuery, ServiceRepo,
    },
};
use time::Duration;

use super::{CLIENT, LIVE, NOW, WINDOW, add_note, new_order, to_sign};

/// Numbers that look random, the same ones in each run.
struct Numbers(u64);

impl Numbers {
    fn draw(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Returns a number from 0 to `end`, without it.
    fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    fn id(&mut self) -> i64 {
        self.below(5).cast_signed()
    }

    fn doer(&mut self) -> Doer {
        if self.coin() { Doer::Key(ApiKeyId(1)) } else { Doer::Person(PersonId(1)) }
    }

    fn limit(&mut self) -> usize {
        usize::try_from(1 + self.below(100)).unwrap()
    }

    fn cursor<Id>(&mut self, id: impl Fn(i64) -> Id) -> Cursor<Id> {
        match self.below(3) {
            0 => Cursor::Newest,
            1 => Cursor::OlderThan(id(self.id())),
            _ => Cursor::NewerThan(id(self.id())),
        }
    }

    fn filter(&mut self) -> ListFilter {
        let statuses = (0..self.below(20)).map(|it| OrderStatus::named(format!("S{it}")).unwrap());
        ListFilter {
            statuses: statuses.collect(),
            file_number: (self.below(4) == 0).then(|| "F-1".to_owned()),
            created_after: self.coin().then_some(NOW),
            created_before: self.coin().then_some(NOW),
            signing_date_from: self.coin().then_some(NOW.date()),
            signing_date_to: self.coin().then_some(NOW.date()),
            updated_after: self.coin().then_some(NOW),
            search: SearchedText::parse("jane".to_owned()).ok().filter(|_| self.coin()),
            signing_service: self.coin().then_some(SigningServiceId(42)),
            client_name: self.coin().then(|| "Acme".to_owned()),
            notary: SearchedName::parse("pat".to_owned()).ok().filter(|_| self.coin()),
            attention: None,
            by_appointment: false,
        }
    }
}

/// Makes 2,000 calls, each in another shape, one after the other.
pub async fn call_in_many_shapes<S>(store: &S)
where
    S: OrderRepo + OrderReader + OrderAdmin + AccessLog + DeliveryQueue + ServiceRepo,
{
    let id = store.create(&new_order("F-1", NOW), WINDOW).await.unwrap();
    for number in 2..5 {
        store.create(&new_order(&format!("F-{number}"), NOW), WINDOW).await.unwrap();
        let note = add_note(id, Actor::Client, "Ring twice.");
        OrderRepo::change(store, &note).await.unwrap();
    }
    let service = Owner { party: Party::Service(SigningServiceId(42)), is_test: false };
    let mut numbers = Numbers(7);
    for call in 0..2_000_u32 {
        let owner = if numbers.coin() { LIVE } else { service };
        match call % 8 {
            0 => {
                let codes = Attention::ALL.to_vec();
                let attention = Some(AttentionFilter { codes, now: NOW });
                let filter = ListFilter {
                    attention: attention.filter(|_| numbers.coin()),
                    by_appointment: numbers.coin(),
                    ..numbers.filter()
                };
                let (limit, cursor) = (numbers.limit(), numbers.cursor(OrderId));
                let cursor_starts = numbers.coin().then_some(NOW);
                let query = PageQuery { filter, limit, cursor, cursor_starts };
                OrderReader::page(store, owner, &query).await.map(drop).unwrap();
            }
            1 | 2 => {
                // As many tags as a head of 16 KiB names, and more.
                let versions = (0..call).map(|it| NOW - Duration::SECOND * it);
                let update = OrderUpdate {
                    owner,
                    only_service: numbers.coin().then_some(SigningServiceId(42)),
                    id: OrderId(numbers.id()),
                    expected: Some(versions.skip(1).collect()),
                    status: numbers
                        .coin()
                        .then(|| OrderStatus::named("ASSIGNED".to_owned()).unwrap()),
                    notary_id: numbers.coin().then(|| numbers.coin().then_some(7)),
                    notary: None,
                    at: NOW,
                    actor: Actor::Service,
                    reason: None,
                    access: None,
                };
                store.update(&update).await.map(drop).unwrap();
            }
            3 => {
                let filter = OrderFilter {
                    list: numbers.filter(),
                    client: numbers.coin().then_some(CLIENT),
                    email: numbers.coin().then(|| "jane@example.com".to_owned()),
                    held_at: numbers.coin().then_some(NOW),
                };
                let before = numbers.coin().then(|| OrderId(numbers.id()));
                OrderAdmin::list(store, &filter, before, numbers.limit()).await.unwrap();
            }
            4 => {
                let ids: Vec<_> = (1..=i64::from(call / 8) + 1).map(OrderId).collect();
                store.orders(&ids).await.unwrap();
            }
            5 => {
                let filter = AccessFilter {
                    order: numbers.coin().then_some(id),
                    since: numbers.coin().then_some(NOW),
                    by: numbers.coin().then(|| numbers.doer()),
                    address: numbers.coin().then_some([192, 0, 2, 1].into()),
                };
                AccessLog::list(store, &filter, None, numbers.limit()).await.unwrap();
                store.of_order(owner, id, None, numbers.limit()).await.unwrap();
            }
            6 => {
                let ids: Vec<_> = (1..=i64::from(call / 8)).map(SigningServiceId).collect();
                ServiceRepo::find(store, &ids).await.unwrap();
            }
            _ => {
                let query =
                    HistoryQuery { limit: numbers.limit(), cursor: numbers.cursor(HistoryId) };
                store.history(owner, id, &query).await.unwrap();
                let query =
                    NoteQuery { limit: numbers.limit(), cursor: numbers.cursor(NoteNumber) };
                store.notes(owner, id, &query).await.unwrap();
                store.listed(owner, id).await.unwrap();
                OrderReader::order(store, Owner::client(ClientId(numbers.id()), false), id)
                    .await
                    .unwrap();
                store.document(owner, to_sign(id, 0)).await.unwrap();
            }
        }
    }
}
