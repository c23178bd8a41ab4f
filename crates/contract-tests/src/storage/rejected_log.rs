//! The contract of `RejectedLog`.

use std::collections::BTreeMap;

use domain::{
    access::RunId,
    api_key::{ApiKeyId, NewApiKey},
    order::EmailAddress,
    ports::MailClaim,
    rejected::{MAIL_EVERY, Rejected},
};
use time::{Duration, OffsetDateTime};

use crate::samples::{MICROSECOND, NOW, Storage, api_key, at_once};

const CODE: &str = "validation_failed";

fn count(key: ApiKeyId, at: OffsetDateTime, code: &str, requests: u64) -> Rejected {
    Rejected {
        key,
        at,
        code: code.to_owned(),
        run: RunId(7),
        requests,
        faults: [("/a~1b".to_owned(), "required".to_owned())].into(),
        request_ids: vec!["one".to_owned(), "two".to_owned()],
    }
}

/// Issues a key with this contact, or without one.
async fn key_of(storage: &Storage, contact: Option<&str>) -> ApiKeyId {
    let contact = contact.map(|text| EmailAddress::try_from(text.to_owned()).unwrap());
    let key = NewApiKey { contact, ..api_key(NOW) };
    storage.keys.add(&key, "tests").await.unwrap()
}

/// Issues a key with a contact.
async fn key(storage: &Storage) -> ApiKeyId {
    key_of(storage, Some("it@title.example.com")).await
}

fn claim(now: OffsetDateTime) -> MailClaim {
    MailClaim { now, rejected_until: now, until: now + Duration::MINUTE }
}

async fn claimed(storage: &Storage, now: OffsetDateTime) -> Vec<ApiKeyId> {
    storage.rejected.claim_mail(claim(now)).await.unwrap()
}

/// Of all runs and instants after one.
pub async fn counts_of_a_key_are_read_by_code(storage: &Storage) {
    let (one, other) = (ApiKeyId(1), ApiKeyId(2));
    let counts = [
        count(one, NOW, CODE, 100),
        count(one, NOW + MICROSECOND, CODE, 2),
        Rejected { run: RunId(8), ..count(one, NOW + MICROSECOND, CODE, 3) },
        count(one, NOW + Duration::HOUR, CODE, 4),
        count(one, NOW + Duration::HOUR, "forbidden", 5),
        count(other, NOW + Duration::HOUR, CODE, 6),
    ];
    storage.rejected.store(&counts).await.unwrap();
    let read = storage.rejected.counts(one, NOW).await.unwrap();
    assert_eq!(read, BTreeMap::from([(CODE.to_owned(), 9), ("forbidden".to_owned(), 5)]));
    let none = storage.rejected.counts(ApiKeyId(3), NOW).await.unwrap();
    assert_eq!(none, BTreeMap::new());
    storage.rejected.store(&[]).await.unwrap();
}

/// It is stored again as it is then.
pub async fn count_that_has_grown_replaces_itself(storage: &Storage) {
    let key = key(storage).await;
    let mut grown = count(key, NOW, CODE, 1);
    storage.rejected.store(std::slice::from_ref(&grown)).await.unwrap();
    grown.requests = 3;
    grown.faults.insert("/c".to_owned(), "blank".to_owned());
    grown.request_ids.push("three".to_owned());
    for _ in 0..2 {
        storage.rejected.store(std::slice::from_ref(&grown)).await.unwrap();
        assert_eq!(storage.rejected.untold(&[key], 10).await.unwrap(), [grown.clone()]);
    }
}

/// Once its requests have waited, and until the claim ends.
pub async fn mail_is_claimed_for_a_key_with_a_contact(storage: &Storage) {
    let none = key_of(storage, None).await;
    let first = key(storage).await;
    let second = key_of(storage, Some("other@title.example.com")).await;
    assert_eq!(claimed(storage, NOW).await, []);
    let counts = [
        count(none, NOW, CODE, 1),
        count(second, NOW + MICROSECOND, CODE, 1),
        count(first, NOW, CODE, 1),
    ];
    storage.rejected.store(&counts).await.unwrap();
    assert_eq!(claimed(storage, NOW - MICROSECOND).await, []);
    let later = NOW + MICROSECOND;
    for expected in [vec![first], vec![second], vec![]] {
        assert_eq!(claimed(storage, later).await, expected);
    }
    let ended = later + Duration::MINUTE;
    assert_eq!(claimed(storage, ended - MICROSECOND).await, []);
    assert_eq!(claimed(storage, ended).await, [first]);
    let next = ended + MAIL_EVERY;
    storage.rejected.end_claim(&[first, second], &[], next).await.unwrap();
    assert_eq!(claimed(storage, next - MICROSECOND).await, []);
    assert_eq!(claimed(storage, next).await, [first]);
}

/// Also about a key that is issued later, and whatever the letter case of the address.
pub async fn keys_of_one_contact_have_one_mail(storage: &Storage) {
    let first = key(storage).await;
    let silent = key_of(storage, Some("IT@title.example.com")).await;
    let counts = [count(first, NOW, CODE, 1), count(silent, NOW + MICROSECOND, CODE, 2)];
    storage.rejected.store(&counts).await.unwrap();
    assert_eq!(claimed(storage, NOW).await, [first, silent]);
    assert_eq!(claimed(storage, NOW + MICROSECOND).await, []);
    let untold = storage.rejected.untold(&[first, silent], 10).await.unwrap();
    assert_eq!(untold, counts);
    let next = NOW + MAIL_EVERY;
    storage.rejected.end_claim(&[first, silent], &untold, next).await.unwrap();

    let later = key(storage).await;
    storage.rejected.store(&[count(later, NOW, CODE, 1)]).await.unwrap();
    assert_eq!(claimed(storage, next - MICROSECOND).await, []);
    assert_eq!(claimed(storage, next).await, [first, silent, later]);
}

/// So several instances send one mail together.
pub async fn one_of_concurrent_claims_gets_a_contact(storage: &Storage) {
    let key = key(storage).await;
    storage.rejected.store(&[count(key, NOW, CODE, 1)]).await.unwrap();
    let claims = (0..8).map(|_| {
        let rejected = storage.rejected.clone();
        async move { rejected.claim_mail(claim(NOW)).await.unwrap() }
    });
    let claimed: Vec<_> = at_once(claims).await.into_iter().flatten().collect();
    assert_eq!(claimed, [key]);
}

/// Nobody waits for a clock that was years ahead.
pub async fn claim_of_a_wrong_clock_does_not_count(storage: &Storage) {
    let key = key(storage).await;
    storage.rejected.store(&[count(key, NOW, CODE, 1)]).await.unwrap();
    storage.rejected.end_claim(&[key], &[], NOW + 2 * Duration::HOUR).await.unwrap();
    assert_eq!(claimed(storage, NOW).await, []);
    storage.rejected.end_claim(&[key], &[], NOW + 3 * Duration::HOUR).await.unwrap();
    assert_eq!(claimed(storage, NOW).await, [key]);
}

/// Those of a count that has grown since are untold.
pub async fn told_requests_are_not_told_again(storage: &Storage) {
    let key = key(storage).await;
    let counts: Vec<_> = (0..3).map(|n| count(key, NOW + n * MICROSECOND, CODE, 2)).collect();
    storage.rejected.store(&counts).await.unwrap();
    let told = storage.rejected.untold(&[key], 2).await.unwrap();
    assert_eq!(told, counts[..2]);
    let grown = Rejected { requests: 7, ..counts[0].clone() };
    storage.rejected.store(std::slice::from_ref(&grown)).await.unwrap();

    storage.rejected.end_claim(&[key], &told, NOW).await.unwrap();

    // The request ids of a row are those of its first requests.
    let left = [Rejected { requests: 5, request_ids: vec![], ..grown }, counts[2].clone()];
    assert_eq!(storage.rejected.untold(&[key], 10).await.unwrap(), left);
    storage.rejected.end_claim(&[key], &left, NOW).await.unwrap();
    assert_eq!(storage.rejected.untold(&[key], 10).await.unwrap(), []);
    assert_eq!(claimed(storage, NOW + Duration::DAY).await, []);
    let read = storage.rejected.counts(key, NOW - MICROSECOND).await.unwrap();
    assert_eq!(read, BTreeMap::from([(CODE.to_owned(), 11)]), "a mail changes no count");
}

/// Those that began before an instant.
pub async fn old_counts_are_removed(storage: &Storage) {
    let key = ApiKeyId(1);
    let counts = [count(key, NOW, CODE, 1), count(key, NOW + MICROSECOND, CODE, 2)];
    storage.rejected.store(&counts).await.unwrap();
    storage.rejected.remove_before(NOW + MICROSECOND).await.unwrap();
    let read = storage.rejected.counts(key, NOW - Duration::DAY).await.unwrap();
    assert_eq!(read, BTreeMap::from([(CODE.to_owned(), 2)]));
}
