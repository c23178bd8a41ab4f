use time::macros::datetime;

use super::*;
use crate::{ports::MockServiceRepo, test_support::api_key};

const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);

const ID: SigningServiceId = SigningServiceId(42);

fn standing(times: usize, standing: Standing) -> Arc<dyn ServiceRepo> {
    let mut services = MockServiceRepo::new();
    services.expect_standing().times(times).returning(move |_| Ok(standing));
    Arc::new(services)
}

#[tokio::test]
async fn number_is_accepted_by_the_records_and_the_setting() {
    for (found, takes_any, accepted) in [
        (Standing::Recorded, true, true),
        (Standing::Recorded, false, true),
        (Standing::Unknown, true, false),
        (Standing::Unknown, false, false),
        (Standing::NoRecords, true, true),
        (Standing::NoRecords, false, false),
    ] {
        let known = KnownServices::new(standing(1, found), takes_any);
        assert_eq!(known.accept(ID, NOW).await.unwrap(), accepted, "{found:?} {takes_any}");
    }
}

/// Also with a clock that was set back.
#[tokio::test]
async fn store_is_asked_again_after_a_moment_and_before_each_rejection() {
    let moment = Duration::milliseconds(50);
    for found in [Standing::Recorded, Standing::NoRecords] {
        let known = KnownServices::new(standing(3, found), true);
        let before = NOW - Duration::HOUR;
        for at in [NOW, NOW + moment - Duration::MICROSECOND, NOW + moment, before] {
            assert!(known.accept(ID, at).await.unwrap());
        }
    }
    let known = KnownServices::new(standing(2, Standing::Unknown), true);
    for _ in 0..2 {
        assert!(!known.accept(ID, NOW).await.unwrap());
    }
}

fn service(id: i64) -> SigningService {
    SigningService { id: SigningServiceId(id), name: format!("S{id}"), emails: Vec::new() }
}

fn list() -> ListServices {
    let mut services = MockServiceRepo::new();
    services.expect_all().returning(|| Ok([2, 4, 6, 8].map(service).to_vec()));
    services.expect_find().returning(|ids| {
        let known = ids.iter().filter(|id| id.0 % 2 == 0);
        Ok(known.map(|id| service(id.0)).collect())
    });
    ListServices { services: Arc::new(services) }
}

#[tokio::test]
async fn pages_walk_over_all_services_and_back() {
    let (list, caller) = (list(), Caller::from(api_key()));
    let (next, previous) = (
        |id| Cursor::OlderThan(SigningServiceId(id)),
        |id| Cursor::NewerThan(SigningServiceId(id)),
    );
    for (limit, cursor, expected, has_next, has_previous) in [
        (10, Cursor::Newest, vec![2, 4, 6, 8], false, false),
        (3, Cursor::Newest, vec![2, 4, 6], true, false),
        (3, next(6), vec![8], false, true),
        (2, next(2), vec![4, 6], true, true),
        (2, next(8), vec![], false, true),
        (2, previous(8), vec![4, 6], true, true),
        (2, previous(6), vec![2, 4], true, false),
    ] {
        let page = list.page(&caller, limit, &cursor).await.unwrap().unwrap();
        let ids: Vec<_> = page.items.iter().map(|service| service.id.0).collect();
        assert_eq!(ids, expected, "{limit} {cursor:?}");
        assert_eq!((page.has_older, page.has_newer), (has_next, has_previous), "{cursor:?}");
    }
    assert_eq!(list.page(&caller, 1, &next(3)).await.unwrap(), None);
}

#[tokio::test]
async fn bound_keys_and_keys_of_services_see_their_own() {
    let list = list();
    for (bound, own, expected) in [
        (Some(4), None, vec![4]),
        (Some(5), None, vec![]),
        (None, Some(6), vec![6]),
        (None, None, vec![2, 4, 6, 8]),
    ] {
        let mut key = api_key();
        key.key.signing_service = bound.map(SigningServiceId);
        key.key.for_service = own.map(SigningServiceId);
        let caller = Caller::from(key);
        let page = list.page(&caller, 10, &Cursor::Newest).await.unwrap().unwrap();
        let ids: Vec<_> = page.items.iter().map(|service| service.id.0).collect();
        assert_eq!(ids, expected);
        let foreign = Cursor::OlderThan(SigningServiceId(2));
        let page = list.page(&caller, 10, &foreign).await.unwrap();
        assert_eq!(page.is_some(), bound.is_none() && own.is_none());
    }
}
